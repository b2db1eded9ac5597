/* Attention on a GPU with a mask of bytes that is the same for all queries and heads: over the keys that are shown, alone.
 *
 * Their rows of k and v are copied close together, and a library that takes lengths does the rest as if there were no mask, from as
 * many keys as are left (src/ops/cuda/attention_keys.cu); backward their gradients are put back.  Nothing depends on the host knowing
 * how many there are.  The work space is
 *
 *   lengths of queries, of keys, counts (B) i32 each   k, v (B, S, H, D)   backward dk, dv   the library's */
#include "ops/common/attention.h"
#include "ops/common/gpu.h"

HRI_CU(attention_keys);

enum { THREADS = 256, ROWS = 32, LSE_ROWS = 8 * THREADS, PIECE = 16 };

/* As the kernels have it. */
typedef struct picked {
    int64_t samples, queries, keys, mask_batch, k_batch, k_row, v_batch, v_row;
    int32_t pieces, heads;
} picked;

typedef struct places {
    hr_addr of_queries, of_keys, counts, k, v, dk, dv, library;
} places;

/* Returns the bytes in front of the library's. */
static uint64_t place(const hri_attention *a, hr_addr at, int back, places *p) {
    const uint64_t lengths = hri_gpu_whole((uint64_t)a->batch * sizeof(int32_t));
    const uint64_t rows = hri_gpu_whole((uint64_t)(a->batch * a->keys * a->heads * a->depth) *
                                        hr_type_bytes(a->type));
    hr_addr *const all[] = {&p->of_queries, &p->of_keys, &p->counts, &p->k,
                            &p->v,          &p->dk,      &p->dv,     &p->library};
    const hr_addr first = at;
    for (int i = 0; i < 8; i++) {
        *all[i] = at;
        at += i < 3 ? lengths : i < 5 || (i < 7 && back) ? rows : 0;
    }
    return p->library - first;
}

int hri_attention_keys_fit(const hri_attention *a) {
    const hri_attention_extra *x = &a->extra;
    return x->on && x->mask_type == HR_TYPE_U8 && x->mask_samples > 0 && x->mask_heads == 1 &&
           x->mask_rows == 1 && !a->causal && !(x->drop > 0.0f) && a->scale > 0.0f &&
           a->group == 1 && a->type != HR_TYPE_F32 && a->depth % 8 == 0 && a->batch > 0 &&
           a->heads > 0 && a->queries > 0 && a->keys > 0 && a->keys < INT32_MAX &&
           a->queries < INT32_MAX && a->k.row % 8 == 0 && a->v.row % 8 == 0;
}

static hri_gpu_attention described(const hri_attention *a, int back) {
    const int64_t close[] = {a->keys * a->heads * a->depth, a->depth, a->heads * a->depth};
    hri_gpu_attention x = {.type = a->type,
                           .b = a->batch,
                           .heads = a->heads,
                           .t = a->queries,
                           .s = a->keys,
                           .d = a->depth,
                           .scale = a->scale,
                           .backward = back != 0,
                           .lengths = 1};
    for (int i = 0; i < 3; i++) {
        x.q_stride[i] = x.dq_stride[i] = i == 0 ? a->q.batch : i == 1 ? a->depth : a->q.row;
        x.o_stride[i] = i == 0 ? a->o.batch : i == 1 ? a->depth : a->o.row;
        x.do_stride[i] = i == 0 ? a->d.batch : i == 1 ? a->depth : a->d.row;
        x.k_stride[i] = x.v_stride[i] = x.dk_stride[i] = x.dv_stride[i] = close[i];
    }
    return x;
}

uint64_t hri_attention_keys_workspace(const hri_attention *a, hri_gpu *gpu, int back) {
    const hri_gpu_attention x = described(a, back);
    places p;
    uint64_t library = 0;
    if (!hri_attention_keys_fit(a) || hri_gpu_attention_workspace(gpu, &x, &library) != HR_OK) {
        return 0;
    }
    return place(a, 0, back, &p) + library;
}

static picked picked_of(const hri_attention *a) {
    const int64_t each = PIECE / (int64_t)hr_type_bytes(a->type);
    return (picked){.samples = a->batch,
                    .queries = a->queries,
                    .keys = a->keys,
                    .mask_batch = a->extra.mask_batch,
                    .k_batch = a->k.batch / each,
                    .k_row = a->k.row / each,
                    .v_batch = a->v.batch / each,
                    .v_row = a->v.row / each,
                    .pieces = (int32_t)(a->heads * a->depth / each),
                    .heads = (int32_t)a->heads};
}

static hri_gpu_grid rows_of(const hri_attention *a) {
    return (hri_gpu_grid){.x = (uint32_t)(a->batch * hri_gpu_up(a->keys, ROWS)),
                          .threads = THREADS};
}

static hr_status gather(const hri_attention *a, const hri_gpu_call *c, hr_addr mask, hr_addr k,
                        hr_addr v, places *p) {
    picked s = picked_of(a);
    const hri_gpu_grid grid = rows_of(a);
    return hri_gpu_launch(
        c->gpu, &hri_cu_attention_keys, "", "attention_gather", &grid,
        HRI_GPU_ARGS(&mask, &k, &v, &p->k, &p->v, &p->of_queries, &p->of_keys, &p->counts, &s));
}

hr_status hri_attention_keys_run(const hri_attention *a, const hri_gpu_call *c,
                                 const hri_gpu_attention_at *given, int back) {
    const hri_gpu_attention x = described(a, back);
    const uint64_t need = hri_attention_keys_workspace(a, c->gpu, back);
    picked s = picked_of(a);
    hri_gpu_attention_at at = *given;
    hr_addr mask = at.mask, lse = at.stats, dk = at.dk, dv = at.dv;
    places p;
    if (need == 0 || need > c->workspace_bytes) {
        return HR_E_UNSUPPORTED;
    }
    place(a, c->workspace, back, &p);
    at.k = p.k, at.v = p.v, at.mask = 0;
    at.of_queries = p.of_queries, at.of_keys = p.of_keys;
    if (back) {
        at.dk = p.dk, at.dv = p.dv;
    }
    hr_status status = gather(a, c, mask, given->k, given->v, &p);
    if (status == HR_OK) {
        status = hri_gpu_attention_run(c->gpu, &x, &at, p.library);
    }
    if (status == HR_OK && back) {
        const hri_gpu_grid grid = rows_of(a);
        status = hri_gpu_launch(c->gpu, &hri_cu_attention_keys, "", "attention_scatter", &grid,
                                HRI_GPU_ARGS(&mask, &p.dk, &p.dv, &dk, &dv, &s));
    } else if (status == HR_OK) {
        const hri_gpu_grid grid = {
            .x = (uint32_t)(a->batch * hri_gpu_up(a->heads * a->queries, LSE_ROWS)),
            .threads = THREADS};
        status = hri_gpu_launch(c->gpu, &hri_cu_attention_keys, "", "attention_unseen", &grid,
                                HRI_GPU_ARGS(&p.counts, &lse, &s));
    }
    return status;
}
