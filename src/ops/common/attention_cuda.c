/* Attention on a GPU: cuDNN's where it takes the call (device/gpu.h), else kernels of our own.
 *
 * Ours are src/ops/cuda/attention.cu and attention_grad.cu on tensor cores for 2-byte types and depths of whole eights up to 128, and
 * src/ops/cuda/attention_plain.cu for the rest, up to a depth of 2,048.  Backward is three launches: delta, then dq by
 * tiles of queries, then dk and dv by tiles of keys.  Their work space is delta, (B, H, T) f32.
 *
 * With a mask, and without dropout, a Hopper has src/ops/cuda/attention_hopper.cu and attention_hopper_grad.cu instead of those.
 * Causal attention without a mask has its gradient from attention_scores.c there, where that is faster than cuDNN's.
 *
 * A mask is looked at first (src/ops/cuda/attention_flags.cu): one byte for each 32 by 32 of it, in the work space, says whether
 * anything is seen and whether anything is added.  What the mask hides whole is neither fetched nor computed, and where it adds
 * nothing it is not read again.  cuDNN takes masks as they are, with scores held at LOW; what it makes of queries that see nothing
 * is mended behind it (src/ops/cuda/attention_blind.cu). */
#include "ops/common/attention.h"

#include <string.h>

#include "ops/common/gpu.h"

HRI_CU(attention);
HRI_CU(attention_grad);
HRI_CU(attention_plain);
HRI_CU(attention_delta);
HRI_CU(attention_hopper);
HRI_CU(attention_hopper_grad);
HRI_CU(attention_flags);
HRI_CU(attention_blind);

enum {
    THREADS = 128,
    WARPS = 4,
    DEPTH_MOST = 128,
    PLAIN_DEPTH_MOST = 2048,
    FLAG_TILE = 32,
    WORDS_ALIGN = 256
};

/* Finite numbers of a mask count as no less over the scale, so that a query that sees none but those weighs them. */
static const float LOW = -1e30f;

hri_attention_shape hri_attention_shape_of(const hri_attention *a) {
    return (hri_attention_shape){.queries = a->queries,
                                 .keys = a->keys,
                                 .q_batch = a->q.batch,
                                 .q_row = a->q.row,
                                 .k_batch = a->k.batch,
                                 .k_row = a->k.row,
                                 .v_batch = a->v.batch,
                                 .v_row = a->v.row,
                                 .o_batch = a->o.batch,
                                 .o_row = a->o.row,
                                 .heads = (int32_t)a->heads,
                                 .depth = (int32_t)a->depth,
                                 .scale = a->scale,
                                 .group = (int32_t)a->group};
}

/* Of attention_blind.cu. */
typedef struct blind {
    int64_t rows, queries, keys, o_batch, o_row, v_batch, v_row, mask_batch, mask_head, mask_row;
    int32_t heads, depth;
    float low;
} blind;

typedef struct cut {
    const hri_gpu_source *source;
    int64_t query_rows, grad_rows;                     /* of a block, forward and backward */
    uint32_t forward_bytes, queries_bytes, keys_bytes; /* shared memory */
    uint32_t threads;
    int hopper, plain;
    char defines[160];
    hri_attention_shape shape;
    hri_attention_masks extra;
} cut;

static uint8_t has_mask(const hri_attention *a) {
    return a->extra.on && a->extra.mask_samples * a->extra.mask_heads * a->extra.mask_rows > 0;
}

static int on_tensor_cores(const hri_attention *a) {
    return (!a->extra.on || a->scale > 0.0f) && a->type != HR_TYPE_F32 && a->depth % 8 == 0 &&
           a->depth > 0 && a->depth <= DEPTH_MOST;
}

static void cut_tensor(cut *c, const hri_attention *a, int backward) {
    const int dp = (int)hri_gpu_up(a->depth, 16) * 16, pitch = dp + 8;
    /* Two tiles of rows a warp where registers allow it: every fragment from shared memory is used twice. */
    const int mt = dp <= 64 ? 2 : 1, mg = mt, bk = 64, bg = 32;
    const int bq = 16 * mt * WARPS, bm = 16 * mg * WARPS;
    c->source = backward ? &hri_cu_attention_grad : &hri_cu_attention;
    c->query_rows = bq;
    c->grad_rows = bm;
    c->threads = THREADS;
    c->forward_bytes = (uint32_t)((bq + 4 * bk) * pitch * 2);
    c->queries_bytes = (uint32_t)((2 * bm + 4 * bg) * pitch * 2);
    c->keys_bytes = c->queries_bytes + (uint32_t)(4 * bg) * (uint32_t)sizeof(float);
    snprintf(c->defines, sizeof c->defines,
             "-DELEM=%s -DDP=%d -DCAUSAL=%d -DMT=%d -DBK=%d -DMG=%d -DBG=%d", hri_gpu_type(a->type),
             dp, a->causal, mt, bk, mg, bg);
}

static void cut_plain(cut *c, const hri_attention *a, int backward) {
    const int rows = a->depth <= 128 ? 32 : a->depth <= 512 ? 16 : 4, lanes = THREADS / rows;
    const uint32_t tile = (uint32_t)(rows * (a->depth | 1)) * (uint32_t)sizeof(float);
    const uint32_t scores = (uint32_t)(rows * (rows + 1)) * (uint32_t)sizeof(float);
    const int64_t held = a->depth > 0 ? hri_gpu_up(a->depth, lanes) : 1;
    c->source = &hri_cu_attention_plain;
    c->query_rows = c->grad_rows = rows;
    c->plain = 1;
    c->threads = THREADS;
    c->forward_bytes = 3 * tile + scores;
    c->queries_bytes = 4 * tile + scores;
    c->keys_bytes = 4 * tile + 2 * scores;
    snprintf(c->defines, sizeof c->defines, "-DELEM=%s -DR=%d -DDL=%d -DCAUSAL=%d -DBACKWARD=%d",
             hri_gpu_type(a->type), rows, (int)held, a->causal, backward);
}

/* ---- on Hopper ---- */

int hri_attention_mask_kind(const hri_attention *a, hr_addr mask) {
    const hri_attention_extra *x = &a->extra;
    const int64_t row = a->keys * (int64_t)hr_type_bytes(x->mask_type);
    return !mask                             ? HRI_ATTENTION_NO_MASK
           : x->mask_type == HR_TYPE_U8      ? HRI_ATTENTION_BITS
           : !x->mask_row                    ? HRI_ATTENTION_ONE_ROW
           : mask % 16 == 0 && row % 16 == 0 ? HRI_ATTENTION_WHOLE_ROWS
                                             : HRI_ATTENTION_ANY_ROWS;
}

/* Shared memory of a block with `own` rows `mine` times; the kernels have the same sums. */
static uint64_t hopper_bytes(const hri_attention *a, int dp, int own, int mine, int kind,
                             int64_t steps) {
    const uint64_t width = hr_type_bytes(a->extra.mask_type);
    const uint64_t tile = kind == HRI_ATTENTION_WHOLE_ROWS ? (uint64_t)own * 64 * width : 0;
    return 1024 + (uint64_t)mine * (uint64_t)(own * dp * 2) +
           3 * (2 * 64 * (uint64_t)dp * 2 + tile) + (mine > 1 ? 3 * 2 * 64 * sizeof(float) : 0) +
           (uint64_t)steps * 4;
}

/* HR_E_UNSUPPORTED: the kernels for other GPUs do it. */
static hr_status cut_hopper(cut *c, const hri_attention *a, int back, hr_addr mask,
                            uint64_t shared) {
    const int dp = a->depth <= 64 ? 64 : 128;
    int kind = hri_attention_mask_kind(a, mask);
    /* Blocks of one warpgroup wait for nobody, larger ones read less: as measured on an H200. */
    const int groups = !back && (dp == 128 || kind == HRI_ATTENTION_ONE_ROW) ? 2 : 1;
    const int blocks = (dp == 128 ? 2 : back ? 3 : 4) / groups;
    const int own = 64 * groups, mine = back ? 2 : 1;
    const int64_t keys = hri_gpu_up(a->keys, 64), queries = hri_gpu_up(a->queries, 64) * a->group;
    const int64_t steps = back && queries > keys ? queries : keys;
    if (kind == HRI_ATTENTION_WHOLE_ROWS && hopper_bytes(a, dp, own, mine, kind, steps) > shared) {
        kind = HRI_ATTENTION_ANY_ROWS;
    }
    const uint64_t bytes = hopper_bytes(a, dp, own, mine, kind, steps);
    if (bytes > shared) {
        return HR_E_UNSUPPORTED;
    }
    c->hopper = 1;
    c->source = back ? &hri_cu_attention_hopper_grad : &hri_cu_attention_hopper;
    c->threads = (uint32_t)(128 * groups);
    c->query_rows = c->grad_rows = own;
    c->forward_bytes = c->queries_bytes = c->keys_bytes = (uint32_t)bytes;
    snprintf(
        c->defines, sizeof c->defines,
        "-DELEM=%s -DMELEM=%s -DDP=%d -DCAUSAL=%d -DBACKWARD=%d -DWGS=%d -DBLOCKS=%d -DMASK=%d",
        hri_gpu_type(a->type),
        hri_gpu_type(mask && kind != HRI_ATTENTION_BITS ? a->extra.mask_type : a->type), dp,
        a->causal != 0, back, groups, blocks, kind);
    return HR_OK;
}

hri_attention_masks hri_attention_masks_of(const hri_attention *a, hr_addr mask) {
    const hri_attention_extra *x = &a->extra;
    const int64_t across = hri_gpu_up(a->keys, FLAG_TILE);
    const int64_t along = hri_gpu_up(x->mask_rows, FLAG_TILE);
    return (hri_attention_masks){.mask_batch = x->mask_batch,
                                 .mask_head = x->mask_head,
                                 .mask_row = x->mask_row,
                                 .flag_batch = x->mask_batch ? x->mask_heads * along * across : 0,
                                 .flag_head = x->mask_head ? along * across : 0,
                                 .flag_row = x->mask_row ? across : 0,
                                 .drop = x->drop,
                                 .keep = x->drop < 1.0f ? 1.0f / (1.0f - x->drop) : 0.0f,
                                 .node = x->node,
                                 .pairs = a->keys % 2 == 0 && mask % 8 == 0};
}

static void cut_mask(cut *c, const hri_attention *a, hr_addr mask) {
    const hri_attention_extra *x = &a->extra;
    const size_t used = strlen(c->defines);
    if (!c->hopper) {
        snprintf(c->defines + used, sizeof c->defines - used,
                 " -DMASKED=1 -DMELEM=%s -DMROWS=%d -DDROP=%d", hri_gpu_type(x->mask_type),
                 x->mask_row != 0, x->drop > 0.0f);
    }
    c->extra = hri_attention_masks_of(a, mask);
}

/* Dropout has its draws in attention.cu and attention_grad.cu alone, and what has no mask is no slower there. */
static int on_hopper(const hri_attention *a, hri_gpu *gpu) {
    return on_tensor_cores(a) && has_mask(a) && !(a->extra.drop > 0.0f) &&
           hri_gpu_warpgroup_shared(gpu) > 0;
}

static hr_status cut_init(cut *c, const hri_attention *a, hri_gpu *gpu, int backward,
                          hr_addr mask) {
    if (!on_tensor_cores(a) && a->depth > PLAIN_DEPTH_MOST) {
        return HR_E_UNSUPPORTED;
    }
    *c = (cut){0};
    if (on_hopper(a, gpu) &&
        cut_hopper(c, a, backward, mask, hri_gpu_warpgroup_shared(gpu)) == HR_OK) {
        /* all is said */
    } else if (on_tensor_cores(a)) {
        cut_tensor(c, a, backward);
    } else {
        cut_plain(c, a, backward);
    }
    c->shape = hri_attention_shape_of(a);
    if (a->extra.on) {
        cut_mask(c, a, mask);
    }
    return HR_OK;
}

/* As cuDNN is asked for it (device/gpu.h). */
static hri_gpu_attention described(const hri_attention *a, int backward) {
    hri_gpu_attention x = {
        .type = a->type,
        .b = a->batch,
        .heads = a->heads,
        .t = a->queries,
        .s = a->keys,
        .d = a->depth,
        .scale = a->scale,
        .causal = a->causal != 0,
        .backward = backward != 0,
        .masked = has_mask(a),
        .mask_type = a->extra.mask_type,
        .mask_dim = {a->extra.mask_samples, a->extra.mask_heads, a->extra.mask_rows},
        .low = LOW * a->scale};
    const hri_attention_view *const views[] = {&a->q, &a->k, &a->v, &a->o,
                                               &a->q, &a->k, &a->v, &a->d};
    int64_t *const strides[] = {x.q_stride,  x.k_stride,  x.v_stride,  x.o_stride,
                                x.dq_stride, x.dk_stride, x.dv_stride, x.do_stride};
    for (int i = 0; i < (backward ? 8 : 4); i++) {
        strides[i][0] = views[i]->batch;
        strides[i][1] = a->depth;
        strides[i][2] = views[i]->row;
    }
    return x;
}

/* cuDNN's where it takes it; ours where both give the same bits and ours is faster. */
enum { OWN = 0, LIBRARY = 1 };

static const char *way_key(const hri_attention *a, int backward, char *buf, size_t size) {
    const hri_attention_extra *x = &a->extra;
    const int used = snprintf(buf, size, "attention %d%d%d %lldx%lldx%lldx%lldx%lld %lld", a->type,
                              a->causal != 0, backward, (long long)a->batch, (long long)a->heads,
                              (long long)a->queries, (long long)a->keys, (long long)a->depth,
                              (long long)a->q.row);
    if (has_mask(a)) {
        snprintf(buf + used, size - (size_t)used, " mask %d %lldx%lldx%lld", x->mask_type,
                 (long long)x->mask_samples, (long long)x->mask_heads, (long long)x->mask_rows);
    }
    return buf;
}

/* Of delta in the work space; the flags of the mask lie behind it. */
static uint64_t delta_bytes(const hri_attention *a, int backward) {
    return backward ? (uint64_t)(a->batch * a->heads * a->queries) * sizeof(float) : 0;
}

uint64_t hri_attention_flags_bytes(const hri_attention *a) {
    const hri_attention_extra *x = &a->extra;
    return (uint64_t)(x->mask_samples * x->mask_heads * hri_gpu_up(x->mask_rows, FLAG_TILE) *
                      hri_gpu_up(a->keys, FLAG_TILE));
}

/* A mask of bytes, which backward takes as words of bits in both directions. */
static int of_bits(const hri_attention *a) {
    return has_mask(a) && a->extra.mask_type == HR_TYPE_U8;
}

static uint64_t look_bytes(const hri_attention *a) {
    return of_bits(a) ? WORDS_ALIGN + hri_attention_words_bytes(a, 0, 0) +
                            hri_attention_words_bytes(a, 0, 1)
                      : hri_attention_flags_bytes(a);
}

/* What cuDNN is not asked for: it has draws of its own for dropout, and attention_masked alone knows a negative scale's mask.  On
 * Hopper, backward and up to 64 deep, ours are faster with masks, but for rows of f32. */
static int own_alone(const hri_attention *a, hri_gpu *gpu, int back) {
    return a->group > 1 || (a->extra.on && (a->extra.drop > 0.0f || a->scale <= 0.0f)) ||
           (back && a->depth <= 64 && on_hopper(a, gpu) &&
            (!a->extra.mask_row || a->extra.mask_type != HR_TYPE_F32));
}

uint64_t hri_attention_cuda_workspace(const hri_attention *a, hri_gpu *gpu, int backward) {
    const hri_gpu_attention x = described(a, backward);
    const uint64_t own = delta_bytes(a, backward) + look_bytes(a);
    char key[128];
    uint64_t library = 0;
    const uint64_t scores = backward && !has_mask(a) ? hri_attention_scores_workspace(a, gpu) : 0;
    if (scores > 0) {
        return scores;
    }
    if (own_alone(a, gpu, backward)) {
        return own;
    }
    return hri_gpu_attention_workspace(gpu, &x, &library) == HR_OK && library > own &&
                   hri_gpu_chosen(gpu, way_key(a, backward, key, sizeof key)) != OWN
               ? library
               : own;
}

/* Queries that the mask hides everything from give 0, and an infinite lse, which backward makes 0 of what they weigh; cuDNN takes
 * groups of one head alone (own_alone), so a head of v is the query's. */
static hr_status blind_rows(const hri_attention *a, const hri_gpu_call *c,
                            const hri_gpu_attention_at *at) {
    const hri_attention_extra *e = &a->extra;
    hr_addr o = at->o, lse = at->stats, mask = at->mask, v = at->v;
    blind k = {.rows = a->batch * a->heads * a->queries,
               .queries = a->queries,
               .keys = a->keys,
               .o_batch = a->o.batch,
               .o_row = a->o.row,
               .v_batch = a->v.batch,
               .v_row = a->v.row,
               .mask_batch = e->mask_batch,
               .mask_head = e->mask_head,
               .mask_row = e->mask_row,
               .heads = (int32_t)a->heads,
               .depth = (int32_t)a->depth,
               .low = LOW * a->scale};
    char defines[64];
    snprintf(defines, sizeof defines, "-DELEM=%s -DMELEM=%s -DCAUSAL=%d", hri_gpu_type(a->type),
             hri_gpu_type(e->mask_type), a->causal != 0);
    const hri_gpu_grid grid = {.x = (uint32_t)hri_gpu_up(k.rows, THREADS), .threads = THREADS};
    return hri_gpu_launch(c->gpu, &hri_cu_attention_blind, defines, "attention_blind", &grid,
                          HRI_GPU_ARGS(&o, &lse, &mask, &v, &k));
}

/* HR_E_UNSUPPORTED: the kernels below do it. */
static hr_status by_library(const hri_attention *a, const hri_gpu_call *c,
                            const hri_gpu_attention_at *at, int backward) {
    const hri_gpu_attention x = described(a, backward);
    uint64_t bytes = 0;
    hr_status status = hri_gpu_attention_workspace(c->gpu, &x, &bytes);
    if (status != HR_OK || bytes > c->workspace_bytes) {
        return HR_E_UNSUPPORTED;
    }
    status = hri_gpu_attention_run(c->gpu, &x, at, c->workspace);
    return status == HR_OK && has_mask(a) && !backward ? blind_rows(a, c, at) : status;
}

/* Where q, k and v, or their gradients, begin inside their values. */
static hr_addr begin_of(const hri_attention *a, const hri_attention_view *v, hr_addr at) {
    return at + (uint64_t)v->first * hr_type_bytes(a->type);
}

hr_status hri_attention_flags_make(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                                   hr_addr at, hr_addr copy, int64_t pitch) {
    int64_t count = (int64_t)hri_attention_flags_bytes(a), rows = a->extra.mask_rows,
            keys = a->keys;
    char defines[64];
    const int wide =
        !copy && mask % 16 == 0 && keys * (int64_t)hr_type_bytes(a->extra.mask_type) % 16 == 0;
    snprintf(defines, sizeof defines, "-DMELEM=%s -DCOPY=%d -DWIDE=%d",
             hri_gpu_type(a->extra.mask_type), copy != 0, wide);
    const hri_gpu_grid grid = {.x = (uint32_t)hri_gpu_up(count, THREADS / 32), .threads = THREADS};
    return hri_gpu_launch(c->gpu, &hri_cu_attention_flags, defines, "attention_flags", &grid,
                          HRI_GPU_ARGS(&mask, &at, &count, &rows, &keys, &copy, &pitch));
}

/* Where the flags of the mask are, made; 0: there is no mask. */
static hr_status look_at_mask(const hri_attention *a, const hri_gpu_call *c, int back, hr_addr mask,
                              hr_addr *out) {
    *out = mask ? c->workspace + delta_bytes(a, back) : 0;
    return mask ? hri_attention_flags_make(a, c, mask, *out, 0, 0) : HR_OK;
}

/* Of a mask of bytes: words for the gradients of queries (0) and of keys (1). */
static hr_status look_at_bits(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                              hri_attention_look out[2]) {
    hr_addr at = (c->workspace + delta_bytes(a, 1) + WORDS_ALIGN - 1) / WORDS_ALIGN * WORDS_ALIGN;
    hr_status status = HR_OK;
    for (int turned = 0; turned < 2 && status == HR_OK; turned++) {
        hri_attention_words w;
        status = hri_attention_words_make(a, c, mask, at, 0, turned, 0, 0, &w);
        at += hri_attention_words_bytes(a, 0, turned);
        out[turned].mask = w.words;
        out[turned].flags = w.seen;
        out[turned].extra.flag_batch = w.batch;
        out[turned].extra.flag_head = w.head;
        out[turned].extra.mask_row = w.row;
        out[turned].extra.flag_row = w.column;
    }
    return status;
}

int hri_attention_grad_takes_bytes(const hri_attention *a, hri_gpu *gpu) {
    cut c = {0};
    return of_bits(a) && a->depth <= 64 && on_hopper(a, gpu) &&
           cut_hopper(&c, a, 1, 1, hri_gpu_warpgroup_shared(gpu)) == HR_OK;
}

static hr_status forward(const hri_attention *a, const hri_gpu_call *c,
                         const hri_gpu_attention_at *at, hr_addr mask) {
    cut k;
    hr_addr control = c->control, flags = 0;
    hr_addr q = at->q, key = at->k, v = at->v, o = at->o, lse = at->stats;
    hr_status status = cut_init(&k, a, c->gpu, 0, mask);
    if (status == HR_OK) {
        status = look_at_mask(a, c, 0, mask, &flags);
    }
    if (status != HR_OK) {
        return status;
    }
    const hri_gpu_grid grid = {
        .x = (uint32_t)(a->batch * a->heads * hri_gpu_up(a->queries, k.query_rows)),
        .threads = k.threads,
        .shared_bytes = k.forward_bytes};
    return hri_gpu_launch(
        c->gpu, k.source, k.defines, "attention_forward", &grid,
        /* the last four are read by attention_masked */
        HRI_GPU_ARGS(&q, &key, &v, &o, &lse, &k.shape, &mask, &flags, &control, &k.extra));
}

hr_status hri_attention_delta_make(const hri_attention *a, const hri_gpu_call *c, hr_addr o,
                                   hr_addr dout, hr_addr at) {
    hri_attention_shape shape = hri_attention_shape_of(a);
    int64_t rows = a->batch * a->heads * a->queries;
    char defines[32];
    snprintf(defines, sizeof defines, "-DELEM=%s", hri_gpu_type(a->type));
    const hri_gpu_grid grid = {.x = (uint32_t)hri_gpu_up(rows, THREADS / 8), .threads = THREADS};
    return hri_gpu_launch(c->gpu, &hri_cu_attention_delta, defines, "attention_delta", &grid,
                          HRI_GPU_ARGS(&o, &dout, &at, &rows, &shape));
}

static hr_status backward(const hri_attention *a, const hri_gpu_call *c,
                          const hri_gpu_attention_at *at, hr_addr mask) {
    cut k;
    hr_addr control = c->control, flags = 0;
    hr_addr q = at->q, key = at->k, v = at->v, o = at->o, lse = at->stats, dout = at->dout;
    hr_addr dq = at->dq, dk = at->dk, dv = at->dv, delta = c->workspace, scores = 0;
    const int64_t heads = a->batch * a->heads;
    int64_t rows = heads * a->queries, first = 0;
    hr_status status = cut_init(&k, a, c->gpu, 1, mask);
    if (status == HR_OK && !of_bits(a)) {
        status = look_at_mask(a, c, 1, mask, &flags);
    }
    hri_attention_look l[2] = {{mask, flags, k.extra}, {mask, flags, k.extra}};
    if (status == HR_OK && of_bits(a)) {
        status = look_at_bits(a, c, mask, l);
    }
    if (status != HR_OK) {
        return status;
    }
    const hri_gpu_grid deltas = {.x = (uint32_t)hri_gpu_up(rows, THREADS / 32), .threads = THREADS};
    const hri_gpu_grid queries = {.x = (uint32_t)(heads * hri_gpu_up(a->queries, k.grad_rows)),
                                  .threads = k.threads,
                                  .shared_bytes = k.queries_bytes};
    const hri_gpu_grid keys = {.x = (uint32_t)(heads / a->group * hri_gpu_up(a->keys, k.grad_rows)),
                               .threads = k.threads,
                               .shared_bytes = k.keys_bytes};
    if (a->queries > 0) {
        status = k.plain ? hri_gpu_launch(c->gpu, k.source, k.defines, "attention_delta", &deltas,
                                          HRI_GPU_ARGS(&o, &dout, &delta, &rows, &k.shape))
                         : hri_attention_delta_make(a, c, o, dout, delta);
    }
    if (status == HR_OK && a->queries > 0) {
        status = hri_gpu_launch(c->gpu, k.source, k.defines, "attention_grad_queries", &queries,
                                HRI_GPU_ARGS(&q, &key, &v, &dout, &lse, &delta, &dq, &k.shape,
                                             &l[0].mask, &l[0].flags, &control, &l[0].extra));
    }
    if (status == HR_OK && a->keys > 0) {
        status =
            hri_gpu_launch(c->gpu, k.source, k.defines, "attention_grad_keys", &keys,
                           HRI_GPU_ARGS(&q, &key, &v, &dout, &lse, &delta, &dk, &dv, &k.shape,
                                        &l[1].mask, &l[1].flags, &control, &l[1].extra, &scores,
                                        &first, &scores)); /* the last three on a Hopper alone */
    }
    return status;
}

typedef struct ways {
    const hri_attention *a;
    const hri_gpu_call *c;
    const hri_gpu_attention_at *at;
    int backward;
} ways;

static hr_status try_way(void *user, uint32_t index) {
    const ways *w = user;
    return index == LIBRARY ? by_library(w->a, w->c, w->at, w->backward)
           : w->backward    ? backward(w->a, w->c, w->at, w->at->mask)
                            : forward(w->a, w->c, w->at, w->at->mask);
}

static hr_status run_best(const hri_attention *a, const hri_gpu_call *c,
                          const hri_gpu_attention_at *at, int back) {
    ways w = {a, c, at, back};
    const hri_gpu_attention x = described(a, back);
    char key[128];
    uint64_t bytes = 0;
    uint32_t way = OWN;
    hri_gpu_operand operands[HRI_GPU_ATTENTION_OPERANDS];
    hri_gpu_result results[HRI_GPU_ATTENTION_RESULTS];
    hri_gpu_contest contest = {.count = 2,
                               .first = LIBRARY,
                               .run = try_way,
                               .user = &w,
                               .operands = operands,
                               .results = results};
    hri_gpu_attention_contest(&x, at, &contest, operands, results);
    if (hri_gpu_attention_workspace(c->gpu, &x, &bytes) == HR_OK && bytes <= c->workspace_bytes &&
        hri_gpu_choose(c->gpu, way_key(a, back, key, sizeof key), &contest, &way) != HR_OK) {
        way = LIBRARY; /* nothing was tried before */
    }
    const hr_status status = try_way(&w, way);
    return status == HR_E_UNSUPPORTED && way == LIBRARY ? try_way(&w, OWN) : status;
}

hr_status hri_attention_cuda(const hri_attention *a, const hri_gpu_call *c, const hr_addr in[3],
                             hr_addr o, hr_addr lse, hr_addr mask) {
    const hri_gpu_attention_at at = {.q = begin_of(a, &a->q, in[0]),
                                     .k = begin_of(a, &a->k, in[1]),
                                     .v = begin_of(a, &a->v, in[2]),
                                     .o = o,
                                     .stats = lse,
                                     .mask = mask};
    if (a->batch * a->heads * a->queries == 0) {
        return HR_OK;
    }
    return own_alone(a, c->gpu, 0) ? forward(a, c, &at, mask) : run_best(a, c, &at, 0);
}

hr_status hri_attention_grad_cuda(const hri_attention *a, const hri_gpu_call *c,
                                  const hr_addr in[3], hr_addr o, hr_addr lse, hr_addr dout,
                                  const hr_addr out[3], hr_addr mask) {
    const hri_gpu_attention_at at = {.q = begin_of(a, &a->q, in[0]),
                                     .k = begin_of(a, &a->k, in[1]),
                                     .v = begin_of(a, &a->v, in[2]),
                                     .o = o,
                                     .stats = lse,
                                     .dout = dout,
                                     .dq = begin_of(a, &a->q, out[0]),
                                     .dk = begin_of(a, &a->k, out[1]),
                                     .dv = begin_of(a, &a->v, out[2]),
                                     .mask = mask};
    if (a->batch * a->heads * a->depth == 0) {
        return HR_OK;
    }
    if (!has_mask(a) && hri_attention_scores_workspace(a, c->gpu) > 0) {
        return hri_attention_scores_run(a, c, &at);
    }
    return own_alone(a, c->gpu, 1) ? backward(a, c, &at, mask) : run_best(a, c, &at, 1);
}
