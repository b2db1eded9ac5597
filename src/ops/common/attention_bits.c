/* Attention on a GPU of the Hopper generation with a mask of bytes: by bits.
 *
 * The bytes become one bit a score in the work space, as the threads that compute have their scores, and a byte for each 16 queries by
 * 64 keys that says whether anything is seen there (src/ops/cuda/attention_words.cu).  Forward attention_hopper_bits.cu reads a word a
 * step; backward is in attention_cuda.c. */
#include "ops/common/attention.h"
#include "ops/common/gpu.h"

HRI_CU(attention_words);
HRI_CU(attention_hopper_bits);

enum { THREADS = 256, ALIGN = 256, OWN = 128, RING = 6, ROWS = 16, KEYS = 64, DEPTH = 64 };

typedef struct bits_shape {
    int64_t batch, head, rows;
} bits_shape;

/* With one row for all queries there is one tile of queries. */
typedef struct tiles {
    int64_t along, across, all;
} tiles;

static tiles tiles_of(const hri_attention *a, int causal, int turned) {
    const hri_attention_extra *x = &a->extra;
    const int each = x->mask_row || causal;
    tiles t = {.along = turned ? hri_gpu_up(a->keys, ROWS)
                        : each ? hri_gpu_up(a->queries, ROWS)
                               : 1,
               .across = !turned ? hri_gpu_up(a->keys, KEYS)
                         : each  ? hri_gpu_up(a->queries, KEYS)
                                 : 1};
    t.all = x->mask_samples * x->mask_heads * t.along * t.across;
    return t;
}

static uint64_t words_bytes(const tiles *t) {
    return (uint64_t)t->all * 32 * sizeof(uint32_t);
}

uint64_t hri_attention_words_bytes(const hri_attention *a, int causal, int turned) {
    const tiles t = tiles_of(a, causal, turned);
    return words_bytes(&t) + (uint64_t)hri_gpu_up(t.all, ALIGN) * ALIGN;
}

hr_status hri_attention_words_make(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                                   hr_addr at, int causal, int turned, hri_attention_words *out) {
    const hri_attention_extra *x = &a->extra;
    const int rows_differ = x->mask_row || causal;
    tiles t = tiles_of(a, causal, turned);
    int64_t rows = x->mask_rows, queries = a->queries, keys = a->keys;
    const int64_t each = t.along * t.across;
    char defines[64];
    *out = (hri_attention_words){.words = at,
                                 .seen = at + words_bytes(&t),
                                 .batch = x->mask_batch ? x->mask_heads * each : 0,
                                 .head = x->mask_head ? each : 0,
                                 .row = turned || rows_differ ? t.across : 0,
                                 .column = !turned || rows_differ};
    snprintf(defines, sizeof defines, "-DCAUSAL=%d -DPAIRS=%d -DTURNED=%d", causal,
             keys % 2 == 0 && mask % 2 == 0, turned);
    const hri_gpu_grid grid = {.x = (uint32_t)hri_gpu_up(t.all, THREADS / 32), .threads = THREADS};
    return hri_gpu_launch(c->gpu, &hri_cu_attention_words, defines, "attention_words", &grid,
                          HRI_GPU_ARGS(&mask, &out->words, &out->seen, &t.all, &t.along, &t.across,
                                       &rows, &queries, &keys));
}

/* The kernel has the same sums. */
static uint64_t shared_bytes(const hri_attention *a) {
    const uint64_t tile = KEYS * DEPTH * 2;
    return 1024 + RING * 2 * tile + RING * 16 + 8 + (uint64_t)hri_gpu_up(a->keys, KEYS) * 2;
}

static int fits(const hri_attention *a, hri_gpu *gpu) {
    const hri_attention_extra *x = &a->extra;
    return x->on && x->mask_type == HR_TYPE_U8 && x->mask_samples > 0 && !(x->drop > 0.0f) &&
           a->scale > 0.0f && a->type != HR_TYPE_F32 && a->depth % 8 == 0 && a->depth > 0 &&
           a->depth <= DEPTH && a->batch * a->heads * a->queries > 0 && a->keys > 0 &&
           a->k.row == a->v.row && a->k.row < INT32_MAX / 2 &&
           shared_bytes(a) <= hri_gpu_warpgroup_shared(gpu);
}

uint64_t hri_attention_bits_workspace(const hri_attention *a, hri_gpu *gpu) {
    return fits(a, gpu) ? hri_attention_words_bytes(a, a->causal != 0, 0) : 0;
}

hr_status hri_attention_bits_run(const hri_attention *a, const hri_gpu_call *c,
                                 const hri_gpu_attention_at *at) {
    hri_attention_words w;
    hri_attention_shape s = hri_attention_shape_of(a);
    hr_addr q = at->q, k = at->k, v = at->v, o = at->o, lse = at->stats;
    char defines[160];
    const hr_status status =
        hri_attention_words_make(a, c, at->mask, c->workspace, a->causal != 0, 0, &w);
    if (status != HR_OK) {
        return status;
    }
    bits_shape e = {.batch = w.batch, .head = w.head, .rows = w.row};
    snprintf(defines, sizeof defines,
             "-DELEM=%s -DMELEM=%s -DDP=%d -DCAUSAL=%d -DBACKWARD=0 -DWGS=%d -DBLOCKS=2 -DMASK=0 "
             "-DRING=%d -DLEAD=3",
             hri_gpu_type(a->type), hri_gpu_type(a->type), DEPTH, a->causal != 0, OWN / 64, RING);
    const hri_gpu_grid grid = {.x = (uint32_t)(a->batch * a->heads * hri_gpu_up(a->queries, OWN)),
                               .threads = 2 * OWN,
                               .shared_bytes = (uint32_t)shared_bytes(a)};
    return hri_gpu_launch(c->gpu, &hri_cu_attention_hopper_bits, defines, "attention_forward_bits",
                          &grid, HRI_GPU_ARGS(&q, &k, &v, &o, &lse, &s, &w.words, &w.seen, &e));
}
