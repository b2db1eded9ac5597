/* linear_cross_entropy_train(x, w, ids, dloss; smoothing, sum, frozen): the loss of linear_cross_entropy and its gradients, at once.
 *
 *   x (..., C)   w (V, C)   ids (...)   dloss ()   loss ()   lse (...)   dx (..., C)   dw (V, C), or (0, C) with `frozen`
 *   s = x w^T,  loss = mean_i [ lse_i - (1 - a) * s_i,ids - a / V * sum_v s_iv ]                       a: smoothing
 *   d_iv = scale * (exp(s_iv - lse_i) - (1 - a) [v = id_i] - a / V),  scale = dloss / rows that count
 *   dx = d w   dw = d^T x
 *
 * For steps that train: what the loss is multiplied by is known before the step, so nothing has to be kept for a gradient
 * and no score is made twice.  Scores exist for some rows at a time (common/linear_loss_train.h).  The gradient rule hands
 * out dx and dw when it is asked for the gradient at this very dloss; for any other it makes linear_cross_entropy_grad.
 * Ids are those of linear_cross_entropy. */
#include "ops/common/linear_loss_train.h"
#include "ops/common/rows.h"
#include "ops/common/vmath.h"

#include <math.h>
#include <string.h>

static const hri_field linear_cross_entropy_train_fields[] = {
    {"smoothing", "label smoothing", offsetof(hri_linear_train_attr, smoothing), HRI_FIELD_DOUBLE,
     "0", .min = 0, .max = 1},
    {"sum", "add the rows instead of averaging", offsetof(hri_linear_train_attr, sum),
     HRI_FIELD_BOOL, NULL},
    {"frozen", "w has no gradient", offsetof(hri_linear_train_attr, frozen), HRI_FIELD_BOOL, NULL},
    {0}};

static hr_status linear_cross_entropy_train_infer(hri_infer *c) {
    const hr_status status = hri_linear_loss_infer(c, 0);
    if (status != HR_OK) {
        return status;
    }
    if (c->in[3].type != HR_TYPE_F32 || c->in[3].shape.rank != 0) {
        return hri_infer_fail(c, "the gradient of the loss must be a scalar f32");
    }
    c->out[0] = (hr_meta){.type = HR_TYPE_F32};
    c->out[1] = (hr_meta){HR_TYPE_F32, c->in[2].shape};
    c->out[2] = c->in[0];
    c->out[3] = c->in[1];
    if (((const hri_linear_train_attr *)c->attr)->frozen) {
        c->out[3].shape.dim[0] = 0;
    }
    return HR_OK;
}

static void linear_cross_entropy_train_grad(hri_grad *c) {
    const hri_linear_train_attr *p = c->sig->attr;
    if (!HRI_NEEDS(c, 0) && !HRI_NEEDS(c, 1)) {
        return;
    }
    if (c->dout[0] == c->in[3] && !(p->frozen && HRI_NEEDS(c, 1))) {
        c->din[0] = HRI_NEEDS(c, 0) ? c->out[2] : HR_NONE;
        c->din[1] = HRI_NEEDS(c, 1) ? c->out[3] : HR_NONE;
        return;
    }
    const hri_linear_loss_attr attr = {.smoothing = p->smoothing, .sum = p->sum};
    const hr_value in[] = {c->dout[0], c->in[0], c->in[1], c->in[2], c->out[1]};
    const hr_value dx = hri_node(c->g, "linear_cross_entropy_grad", in, 5, &attr);
    c->din[0] = HRI_NEEDS(c, 0) ? dx : HR_NONE;
    c->din[1] = HRI_NEEDS(c, 1) ? hr_graph_output(c->g, dx, 1) : HR_NONE;
}

static hri_samples linear_cross_entropy_train_samples(const hri_sig *s, uint32_t batched) {
    const hri_linear_train_attr *p = s->attr;
    return !batched       ? HRI_SAMPLES_APART
           : batched & 2u ? HRI_SAMPLES_COUPLED
           : p->sum       ? HRI_SAMPLES_SUM
                          : HRI_SAMPLES_MEAN;
}

static void linear_cross_entropy_train_cost(const hri_sig *s, hri_cost *cost) {
    const hri_linear_train_attr *p = s->attr;
    const double rows = (double)hr_shape_count(&s->in[2].shape),
                 classes = (double)s->in[1].shape.dim[0], depth = (double)s->in[1].shape.dim[1];
    cost->flops = rows * classes * ((p->frozen ? 4.0 : 6.0) * depth + 16.0);
    /* scores are written, read twice, and their gradient is written and read twice */
    cost->bytes += rows * classes * (12.0 + 3.0 * (double)hr_type_bytes(s->in[0].type));
}

/* dw is stored when all is done, in f32 it is added up where it lies. */
static int linear_cross_entropy_train_may_overwrite(const hri_sig *s, uint32_t out, uint32_t in) {
    (void)in;
    return out != 3 || s->in[0].type != HR_TYPE_F32;
}

/* ---- workspace: scores of a cut, losses of the rows, the sum of dw, scratch of the products ---- */

enum { LEAST = 256, TILE = 64, MOST = 96 << 20 };

static hri_linear_train sizes_of(const hri_sig *s) {
    return hri_linear_train_of(s, LEAST, TILE, MOST / 4, 1, HRI_LINEAR_TRAIN_CUTS);
}

static uint64_t scores_bytes(const hri_linear_train *z) {
    return hri_linear_loss_up((uint64_t)(z->cut * z->classes) * sizeof(float));
}
static uint64_t losses_bytes(const hri_linear_train *z) {
    return hri_linear_loss_up((uint64_t)z->rows * sizeof(double));
}
static uint64_t sum_bytes(const hri_linear_train *z, int frozen) {
    return frozen || z->type == HR_TYPE_F32
               ? 0
               : hri_linear_loss_up((uint64_t)(z->classes * z->depth) * sizeof(float));
}

static uint64_t products_workspace(const hri_linear_train *z, int64_t rows, uint32_t threads) {
    const uint64_t of[] = {
        hri_gemm_workspace(1, rows, z->classes, z->depth, threads),
        hri_gemm_workspace(1, rows, z->depth, z->classes, threads),
        hri_gemm_workspace(1, z->classes, z->depth, rows, threads),
    };
    const uint64_t most = of[0] > of[1] ? of[0] : of[1];
    return most > of[2] ? most : of[2];
}

static uint64_t linear_cross_entropy_train_workspace(const hri_sig *s, uint32_t threads) {
    const hri_linear_train z = sizes_of(s);
    const int frozen = ((const hri_linear_train_attr *)s->attr)->frozen;
    const uint64_t a = products_workspace(&z, z.cut, threads);
    const uint64_t b = products_workspace(&z, hri_linear_train_last(&z), threads);
    return scores_bytes(&z) + losses_bytes(&z) + sum_bytes(&z, frozen) + (a > b ? a : b);
}

/* ---- a cut ---- */

typedef struct task {
    const hri_call *c;
    const hri_linear_train_attr *p;
    hri_linear_train z;
    int64_t r0, count; /* the cut */
    float scale;
    float *scores;  /* (count, V), and their gradient after that */
    double *losses; /* (N) */
    float *dw;      /* (V, C) */
    void *scratch;
} task;

static const char *x_of(const task *t) {
    return (const char *)t->c->in[0] + (size_t)(t->r0 * t->z.depth) * hr_type_bytes(t->z.type);
}

static void make_scores(const task *t) {
    const hri_gemm g = {
        .batch = 1,
        .m = t->count,
        .n = t->z.classes,
        .k = t->z.depth,
        .pack_a = hri_pack_a,
        .pack_b = hri_pack_b_t,
        .c_type = HR_TYPE_F32,
        .c = t->scores,
        .a = x_of(t),
        .b = t->c->in[1],
        .a_type = t->z.type,
        .b_type = t->z.type,
        .lda = t->z.depth,
        .ldb = t->z.depth,
    };
    hri_gemm_run(&g, t->c->threads, t->scratch);
}

static void add_to_dw(const task *t) {
    const hri_gemm g = {
        .batch = 1,
        .m = t->z.classes,
        .n = t->z.depth,
        .k = t->count,
        .pack_a = hri_pack_a_t,
        .pack_b = hri_pack_b,
        .c_type = HR_TYPE_F32,
        .c = t->dw,
        .add = t->r0 > 0,
        .a = t->scores,
        .b = x_of(t),
        .a_type = HR_TYPE_F32,
        .b_type = t->z.type,
        .lda = t->z.classes,
        .ldb = t->z.depth,
    };
    hri_gemm_run(&g, t->c->threads, t->scratch);
}

static void make_dx(const task *t) {
    const hri_gemm g = {
        .batch = 1,
        .m = t->count,
        .n = t->z.depth,
        .k = t->z.classes,
        .pack_a = hri_pack_a,
        .pack_b = hri_pack_b,
        .c_type = t->z.type,
        .c = (char *)t->c->out[2] + (size_t)(t->r0 * t->z.depth) * hr_type_bytes(t->z.type),
        .a = t->scores,
        .b = t->c->in[1],
        .a_type = HR_TYPE_F32,
        .b_type = t->z.type,
        .lda = t->z.classes,
        .ldb = t->z.depth,
    };
    hri_gemm_run(&g, t->c->threads, t->scratch);
}

/* The loss of a row of scores s, which become their gradient. */
static void take_row(const task *t, int64_t row, float *s) {
    const int64_t n = t->z.classes, id = hri_row_id(t->z.ids, t->c->in[2], row);
    const double smoothing = t->p->smoothing;
    const float most = hri_block_max(s, n, -INFINITY);
    double sum = 0.0, all = 0.0;
    for (int64_t k0 = 0; k0 < n; k0 += HRI_BLOCK) {
        const int64_t count = hri_min64(HRI_BLOCK, n - k0);
        const float *v = s + k0;
        float exps[HRI_LANES] = {0}, lanes[HRI_LANES] = {0};
        HRI_LANES_ADD(exps, count, hri_exp(v[k] - most));
        hri_lanes_add(lanes, v, count);
        sum += (double)hri_lanes_sum(exps);
        all += (double)hri_lanes_sum(lanes);
    }
    const double lse = (double)most + log(sum);
    ((float *)t->c->out[1])[row] = (float)lse;
    t->losses[row] = 0.0;
    if (id < 0) {
        memset(s, 0, (size_t)n * sizeof *s);
        return;
    }
    t->losses[row] = lse - (1.0 - smoothing) * (double)s[id] - smoothing / (double)n * all;
    const float scale = t->scale, even = (float)smoothing / (float)n, at = (float)lse;
    HRI_IVDEP for (int64_t k = 0; k < n; k++) {
        s[k] = scale * (hri_exp(s[k] - at) - even);
    }
    s[id] -= scale * (1.0f - (float)smoothing);
}

static void take_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        take_row(t, t->r0 + i, t->scores + i * t->z.classes);
    }
}

static void store_dw(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    (void)worker;
    hri_block_put(t->z.type, t->c->out[3], (int64_t)begin, (int64_t)(end - begin), t->dw + begin);
}

static void run_cut(task *t) {
    make_scores(t);
    hri_threads_range(t->c->threads, (uint64_t)t->count, hri_row_chunk(t->z.classes), take_rows, t);
    if (!t->p->frozen) {
        add_to_dw(t);
    }
    make_dx(t); /* last, because dx may lie over x */
}

static hr_status linear_cross_entropy_train_host(const hri_call *c) {
    const hri_linear_train_attr *p = c->sig->attr;
    const hri_linear_train z = sizes_of(c->sig);
    const float dloss = *(const float *)c->in[3];
    char *losses = (char *)c->workspace + scores_bytes(&z), *sum = losses + losses_bytes(&z);
    task t = {.c = c,
              .p = p,
              .z = z,
              .scores = c->workspace,
              .losses = (double *)(void *)losses,
              .dw = z.type == HR_TYPE_F32 ? c->out[3] : (float *)(void *)sum,
              .scratch = sum + sum_bytes(&z, p->frozen)};
    int64_t counted = 0;
    for (int64_t i = 0; i < z.rows; i++) {
        const int64_t id = hri_row_id(z.ids, c->in[2], i);
        counted += id >= 0;
        if (id >= z.classes) {
            return HR_E_RANGE;
        }
    }
    t.scale = p->sum || !counted ? dloss : dloss / (float)counted;
    do { /* once without rows: dw is 0 then */
        t.count = hri_min64(z.cut, z.rows - t.r0);
        run_cut(&t);
        t.r0 += t.count;
    } while (t.r0 < z.rows);
    if (z.type != HR_TYPE_F32 && !p->frozen) {
        hri_threads_range(c->threads, (uint64_t)(z.classes * z.depth), 16384, store_dw, &t);
    }
    double total = 0.0; /* in double: the order is that of the rows */
    for (int64_t i = 0; i < z.rows; i++) {
        total += t.losses[i];
    }
    *(float *)c->out[0] = (float)(p->sum ? total : counted ? total / (double)counted : 0.0);
    return HR_OK;
}

static const hri_case linear_cross_entropy_train_cases[] = {
    {"ignored", "f32[7,5] f32[33,5] i32[7] f32[]", "smoothing=0.1", .ids = 33, .negative = 1},
    {"ignored, a sum", "f32[2,4,5] f32[10,5] i64[2,4] f32[]", "sum", .negative = 1},
    {"nothing counts", "f32[4,5] f32[10,5] i32[4] f32[]", .negative = 2},
    {"odd", "f32[7,5] f32[33,5] i32[7] f32[]", .ids = 33},
    {"frozen", "f32[7,5] f32[33,5] i32[7] f32[]", "frozen,smoothing=0.1", .ids = 33},
    {"frozen, bf16", "bf16[7,8] bf16[40,8] i32[7] f32[]", "frozen", .ids = 40, .tolerance = 1e-2},
    {"one row", "f32[1,5] f32[13,5] i64[1] f32[]"},
    {"one class", "f32[3,4] f32[1,4] i64[3] f32[]", .ids = 1},
    {"smoothing", "f32[5,6] f32[11,6] i64[5] f32[]", "smoothing=0.1,sum"},
    {"large scores", "f32[4,2] f32[10,2] i32[4] f32[]", .low = -8, .high = 8,
     .grad_tolerance = 1e-2},
    {"many classes", "f32[3,2] f32[7000,2] i32[3] f32[]", "smoothing=0.1", .ids = 7000,
     .flags = HRI_CASE_NO_GRAD},
    {"many classes, ragged, bf16", "bf16[5,7] bf16[7001,7] i64[5] f32[]", .ids = 7001,
     .flags = HRI_CASE_NO_GRAD, .tolerance = 1e-2},
    {"a row wider than a block's memory", "f32[2,2] f32[60001,2] i32[2] f32[]", "smoothing=0.1",
     .ids = 60001, .flags = HRI_CASE_NO_GRAD},
    {"two cuts", "f32[300,6] f32[20,6] i32[300] f32[]", "smoothing=0.1", .ids = 20,
     .flags = HRI_CASE_NO_GRAD},
    {"several cuts, bf16", "bf16[1100,3] bf16[9,3] i32[1100] f32[]", "sum", .ids = 9,
     .flags = HRI_CASE_NO_GRAD, .negative = 1, .tolerance = 1e-2},
    {"no rows", "f32[0,5] f32[10,5] i64[0] f32[]"},
    {"no depth", "f32[3,0] f32[10,0] i64[3] f32[]"},
    {"bf16", "bf16[5,7] bf16[10,7] i64[5] f32[]", .tolerance = 1e-2},
    {"f16", "f16[5,7] f16[10,7] i64[5] f32[]", .tolerance = 1e-2},
    {"w of another depth", "f32[7,5] f32[10,6] i32[7] f32[]", .flags = HRI_CASE_BAD},
    {"dloss of each row", "f32[7,5] f32[10,5] i32[7] f32[7]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_linear_cross_entropy_train = {
    .name = "linear_cross_entropy_train",
    .formula = "loss = mean(logsumexp(x w^T) - (x w^T)[id]); dx, dw = dloss * its gradients",
    .in_min = 4,
    .in_max = 4,
    .out_count = 4,
    .fields = linear_cross_entropy_train_fields,
    .attr_bytes = sizeof(hri_linear_train_attr),
    .infer = linear_cross_entropy_train_infer,
    .grad = linear_cross_entropy_train_grad,
    .keeps = {{.in = 7, .out = 2}, {.in = 7, .out = 2}},
    .no_grad = 8,
    .aux = 14,
    .overwrite = {0, 0, 1u << 0, 1u << 1},
    .may_overwrite = linear_cross_entropy_train_may_overwrite,
    .samples = linear_cross_entropy_train_samples,
    .cost = linear_cross_entropy_train_cost,
    .host = {.run = linear_cross_entropy_train_host,
             .workspace = linear_cross_entropy_train_workspace},
    .cases = HRI_CASES(linear_cross_entropy_train_cases),
};

const hri_kernel hri_kernel_cuda_linear_cross_entropy_train = {
    .launch = hri_linear_train_cuda,
    .launch_workspace = hri_linear_train_cuda_workspace,
};
