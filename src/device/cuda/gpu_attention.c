/* Attention by cuDNN: one graph forward, one backward, that the library runs as one fused kernel each.
 *
 * The library knows attention by the shape of its graph, so the operations below stand in exactly the order it looks
 * for; everything between q, k, v and o is virtual and never lies in memory.  Packed q, k and v are read by their
 * strides.  Backward in the order that gives the same bits each time (the products of scores written once to work space
 * instead of sums by atomics), so it needs B H T S 2 bytes; beyond HRI_GPU_LIMIT_ATTENTION our own kernels are the
 * better choice.
 *
 * Scores with a mask added are no less than a least number forward, and little over the statistics backward: a running maximum
 * makes no number of a tile that is all minus infinity, nor of one at the end of what f32 holds.
 *
 * Work space holds
 *
 *   row sums (B, H, T) f32, backward alone   the engine's own */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include "device/cuda/gpu_dnn.h"
#include "device/cuda/gpu_product.h"

enum {
    UID_Q = 1,
    UID_K,
    UID_V,
    UID_O,
    UID_STATS,
    UID_DO,
    UID_DQ,
    UID_DK,
    UID_DV,
    UID_SUMS,
    UID_SCALE,
    UID_MINUS,
    UID_ONE,
    UID_MASK,
    UID_BOUND,
    UID_OF_QUERIES,
    UID_OF_KEYS,
    UID_LEAST,
    UID_VIRTUAL = 100
};

/* A graph that the library refuses in one form it may take in another: with a mask of one row described as one of all rows, a step
 * of 0 apart.  Backward that is the only form: 9.19 takes one row too, and adds its first number to all keys (seen on an H200 by the
 * op's case "first keys hidden"). */
enum { SPREAD = 1 };

typedef struct builder {
    hri_dnn_graph *g;
    const hri_gpu_attention *x;
    cudnnDataType_t type;
    int64_t next; /* uid of the next virtual tensor */
    int form;
    cudnnBackendDescriptor_t of_queries, of_keys; /* lengths; NULL: all are whole */
} builder;

typedef cudnnBackendDescriptor_t tensor;

/* (B, H, rows, depth) at strides of batch, head and row; turned: (B, H, depth, rows) of the same memory. */
static tensor operand(builder *b, int64_t uid, int64_t rows, const int64_t stride[3], int turned) {
    const hri_gpu_attention *x = b->x;
    const int64_t dim[4] = {x->b, x->heads, turned ? x->d : rows, turned ? rows : x->d};
    const int64_t at[4] = {stride[0], stride[1], turned ? 1 : stride[2], turned ? stride[2] : 1};
    return hri_dnn_tensor(b->g, uid, b->type, 4, dim, at, 0);
}

/* (B, H, rows, columns), rows close together. */
static tensor matrix(builder *b, int64_t uid, cudnnDataType_t type, int64_t rows, int64_t columns,
                     int flags) {
    const hri_gpu_attention *x = b->x;
    const int64_t dim[4] = {x->b, x->heads, rows, columns};
    const int64_t stride[4] = {x->heads * rows * columns, rows * columns, columns, 1};
    return hri_dnn_tensor(b->g, uid, type, 4, dim, stride, flags);
}
static tensor scores(builder *b, cudnnDataType_t type) {
    return matrix(b, b->next++, type, b->x->t, b->x->s, HRI_DNN_VIRTUAL);
}
static tensor column(builder *b) {
    return matrix(b, b->next++, CUDNN_DATA_FLOAT, b->x->t, 1, HRI_DNN_VIRTUAL);
}
static tensor value(builder *b, int64_t uid) {
    static const int64_t one[4] = {1, 1, 1, 1};
    return hri_dnn_tensor(b->g, uid, CUDNN_DATA_FLOAT, 4, one, one, HRI_DNN_BY_VALUE);
}

static tensor apply(builder *b, cudnnPointwiseMode_t mode, tensor x, tensor y) {
    tensor out = scores(b, CUDNN_DATA_FLOAT);
    hri_dnn_pointwise(b->g, mode, x, y, NULL, out, 0);
    return out;
}

/* Scaled scores with the mask added. */
static tensor with_mask(builder *b, tensor s) {
    const hri_gpu_attention *x = b->x;
    const int64_t *m = x->mask_dim;
    const int spread = b->form & SPREAD;
    if (!x->masked) {
        return s;
    }
    const int64_t dim[4] = {m[0], m[1], spread ? x->t : m[2], x->s};
    const int64_t stride[4] = {m[1] * m[2] * x->s, m[2] * x->s, spread ? 0 : x->s, 1};
    return apply(b, CUDNN_POINTWISE_ADD, s,
                 hri_dnn_tensor(b->g, UID_MASK, hri_dnn_type(x->mask_type), 4, dim, stride, 0));
}

/* Masked scores forward, and what they are over the statistics backward, held at a bound. */
static tensor bounded(builder *b, tensor s) {
    const cudnnPointwiseMode_t mode = b->x->backward ? CUDNN_POINTWISE_MIN : CUDNN_POINTWISE_MAX;
    return b->x->masked ? apply(b, mode, s, value(b, UID_BOUND)) : s;
}

/* Scores outside of the lengths become the least number. */
static tensor within(builder *b, tensor x) {
    if (!b->of_keys) {
        return x;
    }
    tensor row = scores(b, CUDNN_DATA_INT32), col = scores(b, CUDNN_DATA_INT32);
    tensor rows = scores(b, CUDNN_DATA_BOOLEAN), cols = scores(b, CUDNN_DATA_BOOLEAN);
    tensor both = scores(b, CUDNN_DATA_BOOLEAN), out = scores(b, CUDNN_DATA_FLOAT);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_GEN_INDEX, x, NULL, NULL, row, 2);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_GEN_INDEX, x, NULL, NULL, col, 3);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_CMP_LT, row, b->of_queries, NULL, rows, 0);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_CMP_LT, col, b->of_keys, NULL, cols, 0);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_LOGICAL_AND, rows, cols, NULL, both, 0);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_BINARY_SELECT, x, value(b, UID_LEAST), both, out, 0);
    return out;
}

/* Products of queries and keys, of what is summed over keys, and of what has a row for each key. */
static hri_dnn_part by_keys(const builder *b) {
    return (hri_dnn_part){.m = b->of_queries, .n = b->of_keys};
}
static hri_dnn_part over_keys(const builder *b) {
    return (hri_dnn_part){.m = b->of_queries, .k = b->of_keys};
}
static hri_dnn_part of_keys(const builder *b) {
    return (hri_dnn_part){.m = b->of_keys, .k = b->of_queries};
}

/* Scores of later columns than the row become minus infinity. */
static tensor later(builder *b, tensor x) {
    tensor row = scores(b, CUDNN_DATA_INT32), col = scores(b, CUDNN_DATA_INT32);
    tensor seen = scores(b, CUDNN_DATA_BOOLEAN), out = scores(b, CUDNN_DATA_FLOAT);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_GEN_INDEX, x, NULL, NULL, row, 2);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_GEN_INDEX, x, NULL, NULL, col, 3);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_CMP_GE, row, col, NULL, seen, 0);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_BINARY_SELECT, x, value(b, UID_MINUS), seen, out, 0);
    return out;
}

static void forward_graph(builder *b) {
    const hri_gpu_attention *x = b->x;
    tensor q = operand(b, UID_Q, x->t, x->q_stride, 0), k = operand(b, UID_K, x->s, x->k_stride, 1);
    tensor v = operand(b, UID_V, x->s, x->v_stride, 0), o = operand(b, UID_O, x->t, x->o_stride, 0);
    tensor stats = matrix(b, UID_STATS, CUDNN_DATA_FLOAT, x->t, 1, 0);
    tensor raw = scores(b, CUDNN_DATA_FLOAT);
    hri_dnn_matmul_part(b->g, q, k, raw, by_keys(b));
    tensor s = bounded(b, with_mask(b, apply(b, CUDNN_POINTWISE_MUL, raw, value(b, UID_SCALE))));
    s = within(b, s);
    if (x->causal) {
        s = later(b, s);
    }
    tensor most = column(b), sum = column(b), log_sum = column(b);
    hri_dnn_reduction(b->g, CUDNN_REDUCE_TENSOR_MAX, s, most);
    tensor e = apply(b, CUDNN_POINTWISE_EXP, apply(b, CUDNN_POINTWISE_SUB, s, most), NULL);
    hri_dnn_reduction(b->g, CUDNN_REDUCE_TENSOR_ADD, e, sum);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_LOG, sum, NULL, NULL, log_sum, 0);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_ADD, most, log_sum, NULL, stats, 0);
    tensor p = scores(b, b->type);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_DIV, e, sum, NULL, p, 0);
    hri_dnn_matmul_part(b->g, p, v, o, over_keys(b));
}

/* The scores turned round, in the type of the operands: (B, H, S, T). */
static tensor turned(builder *b, tensor x) {
    const hri_gpu_attention *a = b->x;
    const int64_t dim[4] = {a->b, a->heads, a->s, a->t};
    const int64_t stride[4] = {a->heads * a->t * a->s, a->t * a->s, 1, a->s};
    tensor out = hri_dnn_tensor(b->g, b->next++, b->type, 4, dim, stride, HRI_DNN_VIRTUAL);
    hri_dnn_reshape(b->g, x, out);
    return out;
}

static void backward_graph(builder *b) {
    const hri_gpu_attention *x = b->x;
    tensor q = operand(b, UID_Q, x->t, x->q_stride, 0), k = operand(b, UID_K, x->s, x->k_stride, 1);
    tensor v = operand(b, UID_V, x->s, x->v_stride, 1), o = operand(b, UID_O, x->t, x->o_stride, 0);
    tensor dout = operand(b, UID_DO, x->t, x->do_stride, 0);
    tensor dq = operand(b, UID_DQ, x->t, x->dq_stride, 0);
    tensor dk = operand(b, UID_DK, x->s, x->dk_stride, 0);
    tensor dv = operand(b, UID_DV, x->s, x->dv_stride, 0);
    tensor stats = matrix(b, UID_STATS, CUDNN_DATA_FLOAT, x->t, 1, 0);
    tensor sums = matrix(b, UID_SUMS, CUDNN_DATA_FLOAT, x->t, 1, 0);
    tensor scale = value(b, UID_SCALE);
    /* sums = rows of dout * o */
    tensor both = matrix(b, b->next++, CUDNN_DATA_FLOAT, x->t, x->d, HRI_DNN_VIRTUAL);
    tensor row = column(b);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_MUL, dout, o, NULL, both, 0);
    hri_dnn_reduction(b->g, CUDNN_REDUCE_TENSOR_ADD, both, row);
    hri_dnn_pointwise(b->g, CUDNN_POINTWISE_MUL, row, value(b, UID_ONE), NULL, sums, 0);
    /* p = exp(q k^T scale + mask - stats), dv = p^T dout */
    tensor raw = scores(b, CUDNN_DATA_FLOAT);
    hri_dnn_matmul_part(b->g, q, k, raw, by_keys(b));
    tensor s = within(b, with_mask(b, apply(b, CUDNN_POINTWISE_MUL, raw, scale)));
    s = within(b, bounded(b, apply(b, CUDNN_POINTWISE_SUB, s, stats)));
    if (x->causal) {
        s = later(b, s);
    }
    tensor p = apply(b, CUDNN_POINTWISE_EXP, s, NULL);
    hri_dnn_matmul_part(b->g, turned(b, p), dout, dv, of_keys(b));
    /* ds = (dout v^T - sums) p scale, dk = ds^T q, dq = ds k */
    tensor dp = scores(b, CUDNN_DATA_FLOAT);
    hri_dnn_matmul_part(b->g, dout, v, dp, by_keys(b));
    tensor ds = apply(b, CUDNN_POINTWISE_MUL, apply(b, CUDNN_POINTWISE_SUB, dp, sums), p);
    ds = apply(b, CUDNN_POINTWISE_MUL, ds, scale);
    hri_dnn_matmul_part(b->g, turned(b, ds), q, dk, of_keys(b));
    const int64_t dim[4] = {x->b, x->heads, x->s, x->d};
    const int64_t stride[4] = {x->k_stride[0], x->k_stride[1], x->k_stride[2], 1};
    tensor keys = hri_dnn_tensor(b->g, b->next++, b->type, 4, dim, stride, HRI_DNN_VIRTUAL);
    hri_dnn_reshape(b->g, k, keys);
    hri_dnn_matmul_part(b->g, ds, keys, dq, over_keys(b));
}

static void draw(hri_dnn_graph *g, const hri_gpu_attention *x, int form) {
    builder b = {.g = g, .x = x, .type = hri_dnn_type(x->type), .next = UID_VIRTUAL, .form = form};
    if (x->lengths) {
        const int64_t dim[4] = {x->b, 1, 1, 1}, stride[4] = {1, 1, 1, 1};
        b.of_queries = hri_dnn_tensor(g, UID_OF_QUERIES, CUDNN_DATA_INT32, 4, dim, stride, 0);
        b.of_keys = hri_dnn_tensor(g, UID_OF_KEYS, CUDNN_DATA_INT32, 4, dim, stride, 0);
    }
    if (x->backward) {
        backward_graph(&b);
    } else {
        forward_graph(&b);
    }
}

void hri_gpu_attention_graph(hri_dnn_graph *g, const hri_gpu_attention *x) {
    draw(g, x, 0);
}

/* ---- as a part of the GPU ---- */

static hr_status build(hri_gpu *gpu, const void *problem, const char *tag, hri_gpu_dnn_record *r) {
    const hri_dnn_wish wish = {
        .limit_bytes = HRI_GPU_LIMIT_ATTENTION, .deterministic = 1, .tag = tag};
    const hri_gpu_attention *x = problem;
    const int one_row = x->masked && x->mask_dim[2] == 1 && x->t > 1;
    hr_status status = HR_E_UNSUPPORTED;
    const int first = one_row && x->backward ? SPREAD : 0;
    for (int form = first; form <= (one_row ? SPREAD : 0) && status == HR_E_UNSUPPORTED; form++) {
        if (form > first) {
            hri_dnn_graph_deinit(&r->graph);
            hri_dnn_graph_init(&r->graph, hri_gpu_dnn(gpu));
        }
        draw(&r->graph, x, form);
        /* Each is compiled, which takes seconds: two will do.  Lengths are not made up for a contest: the first. */
        status = hri_dnn_plans(&r->graph, &wish, r->plans, x->lengths ? 1 : 2, &r->count);
    }
    return status;
}

static void key_of(hri_gpu *gpu, const hri_gpu_attention *x, char *out) {
    const int64_t *const strides[] = {x->q_stride,  x->k_stride,  x->v_stride,  x->o_stride,
                                      x->dq_stride, x->dk_stride, x->dv_stride, x->do_stride};
    int used = snprintf(out, HRI_GPU_KEY, "attention %zu %s %d %d%d %lldx%lldx%lldx%lldx%lld",
                        hri_gpu_dnn(gpu)->version, gpu->dev->description, x->type, x->causal,
                        x->backward, (long long)x->b, (long long)x->heads, (long long)x->t,
                        (long long)x->s, (long long)x->d);
    hri_hasher h;
    hri_hasher_init(&h, 0);
    for (int i = 0; i < (x->backward ? 8 : 4); i++) {
        hri_hasher_add(&h, strides[i], 3 * sizeof strides[i][0]);
    }
    if (x->masked) {
        /* 3: scores have bounds, and one row backward is spread */
        const int64_t mask[] = {3, x->mask_type, x->mask_dim[0], x->mask_dim[1], x->mask_dim[2]};
        hri_hasher_add(&h, mask, sizeof mask);
    }
    snprintf(out + used, (size_t)(HRI_GPU_KEY - used), " %016llx%s",
             (unsigned long long)hri_hasher_get(&h).lo, x->lengths ? " lengths" : "");
}

/* What the library takes on this generation: halves of whole eights, and graphs that the version knows well. */
static int worth_asking(hri_gpu *gpu, const hri_gpu_attention *x) {
    const hri_dnn *dnn = hri_gpu_dnn(gpu);
    return dnn && x->type != HR_TYPE_F32 && x->d % 8 == 0 && x->d <= 128 && x->b > 0 &&
           x->heads > 0 && x->t > 0 && x->s > 0 && (!x->causal || x->t == x->s) &&
           gpu->dev->major >= 8 && dnn->version != 91000 && dnn->version != 91001;
}

static hri_gpu_dnn_record *record_of(hri_gpu *gpu, const hri_gpu_attention *x, char *key) {
    if (!worth_asking(gpu, x)) {
        return NULL;
    }
    key_of(gpu, x, key);
    return hri_gpu_dnn_find(gpu, key, x, build);
}

static uint64_t sums_bytes(const hri_gpu_attention *x) {
    return x->backward ? hri_gpu_aligned((uint64_t)(x->b * x->heads * x->t) * sizeof(float)) : 0;
}

hr_status hri_gpu_attention_workspace(hri_gpu *gpu, const hri_gpu_attention *x, uint64_t *out) {
    char key[HRI_GPU_KEY];
    const hri_gpu_dnn_record *r = record_of(gpu, x, key);
    if (!r) {
        return HR_E_UNSUPPORTED;
    }
    *out = sums_bytes(x) + hri_gpu_dnn_need(r, HRI_GPU_LIMIT_ATTENTION);
    return HR_OK;
}

/* From the first element to the last. */
static int64_t reach(const hri_gpu_attention *x, const int64_t stride[3], int64_t rows) {
    return (x->b - 1) * stride[0] + (x->heads - 1) * stride[1] + (rows - 1) * stride[2] + x->d;
}

void hri_gpu_attention_contest(const hri_gpu_attention *x, const hri_gpu_attention_at *at,
                               hri_gpu_contest *c, hri_gpu_operand *operands,
                               hri_gpu_result *results) {
    const struct {
        hr_addr at;
        const int64_t *stride;
        int64_t rows;
    } wide[] = {{at->q, x->q_stride, x->t},     {at->k, x->k_stride, x->s},
                {at->v, x->v_stride, x->s},     {at->o, x->o_stride, x->t},
                {at->dout, x->do_stride, x->t}, {at->dq, x->dq_stride, x->t},
                {at->dk, x->dk_stride, x->s},   {at->dv, x->dv_stride, x->s}};
    const uint64_t width = hr_type_bytes(x->type);
    const int64_t rows = x->b * x->heads * x->t;
    /* Forward reads q, k, v; backward reads o, dout and the statistics too. */
    c->operand_count = c->result_count = 0;
    for (int i = 0; i < (x->backward ? 5 : 3); i++) {
        operands[c->operand_count++] =
            (hri_gpu_operand){.at = wide[i].at,
                              .type = x->type,
                              .top = -1, /* scores stay small, so that no row is one element's */
                              .count = reach(x, wide[i].stride, wide[i].rows),
                              .stride = 1,
                              .period = 1,
                              .extent = 1};
    }
    if (x->backward) {
        operands[c->operand_count++] = (hri_gpu_operand){.at = at->stats,
                                                         .type = HR_TYPE_F32,
                                                         .top = 1,
                                                         .count = rows,
                                                         .stride = 1,
                                                         .period = 1,
                                                         .extent = 1};
        for (int i = 5; i < 8; i++) {
            results[c->result_count++] = (hri_gpu_result){
                wide[i].at, (uint64_t)reach(x, wide[i].stride, wide[i].rows) * width};
        }
    } else {
        results[c->result_count++] =
            (hri_gpu_result){at->o, (uint64_t)reach(x, x->o_stride, x->t) * width};
        results[c->result_count++] = (hri_gpu_result){at->stats, (uint64_t)rows * sizeof(float)};
    }
    if (x->masked) {
        operands[c->operand_count++] =
            (hri_gpu_operand){.at = at->mask,
                              .type = x->mask_type,
                              .top = -1,
                              .count = x->mask_dim[0] * x->mask_dim[1] * x->mask_dim[2] * x->s,
                              .stride = 1,
                              .period = 1,
                              .extent = 1};
    }
}

hr_status hri_gpu_attention_run(hri_gpu *gpu, const hri_gpu_attention *x,
                                const hri_gpu_attention_at *at, hr_addr workspace) {
    static const float minus = -INFINITY, one = 1.0f, least = -FLT_MAX;
    /* Backward, what is over the statistics by more than rounding; as attention.cu holds it. */
    static const float most = 9.7040605f;
    char key[HRI_GPU_KEY];
    hri_gpu_dnn_record *r = record_of(gpu, x, key);
    if (!r || ((at->q | at->k | at->v | at->o | at->stats | at->dout | at->dq | at->dk | at->dv |
                at->mask) &
               15)) {
        return HR_E_UNSUPPORTED;
    }
#define ON_DEVICE(AT) (const void *)(uintptr_t)(AT)
    hri_dnn_bound bound[HRI_DNN_BOUND] = {
        {UID_Q, ON_DEVICE(at->q)}, {UID_K, ON_DEVICE(at->k)},         {UID_V, ON_DEVICE(at->v)},
        {UID_O, ON_DEVICE(at->o)}, {UID_STATS, ON_DEVICE(at->stats)}, {UID_SCALE, &x->scale},
    };
    uint32_t count = 6;
    if (x->causal) {
        bound[count++] = (hri_dnn_bound){UID_MINUS, &minus};
    }
    if (x->masked) {
        bound[count++] = (hri_dnn_bound){UID_MASK, ON_DEVICE(at->mask)};
        bound[count++] = (hri_dnn_bound){UID_BOUND, x->backward ? &most : &x->low};
    }
    if (x->lengths) {
        bound[count++] = (hri_dnn_bound){UID_OF_QUERIES, ON_DEVICE(at->of_queries)};
        bound[count++] = (hri_dnn_bound){UID_OF_KEYS, ON_DEVICE(at->of_keys)};
        bound[count++] = (hri_dnn_bound){UID_LEAST, &least};
    }
    if (x->backward) {
        bound[count++] = (hri_dnn_bound){UID_DO, ON_DEVICE(at->dout)};
        bound[count++] = (hri_dnn_bound){UID_DQ, ON_DEVICE(at->dq)};
        bound[count++] = (hri_dnn_bound){UID_DK, ON_DEVICE(at->dk)};
        bound[count++] = (hri_dnn_bound){UID_DV, ON_DEVICE(at->dv)};
        bound[count++] = (hri_dnn_bound){UID_SUMS, ON_DEVICE(workspace)};
        bound[count++] = (hri_dnn_bound){UID_ONE, &one};
    }
#undef ON_DEVICE
    hri_gpu_operand operands[HRI_GPU_ATTENTION_OPERANDS];
    hri_gpu_result results[HRI_GPU_ATTENTION_RESULTS];
    hri_gpu_contest contest = {.operands = operands, .results = results};
    hri_gpu_attention_contest(x, at, &contest, operands, results);
    return hri_gpu_dnn_run(gpu, r, key, &contest, bound, count, workspace + sums_bytes(x),
                           hri_gpu_dnn_need(r, HRI_GPU_LIMIT_ATTENTION));
}
