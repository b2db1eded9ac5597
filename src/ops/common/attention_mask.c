/* What a mask becomes in the work space before the kernels of a Hopper read it.
 *
 * As words: one bit a score, as the threads that compute have their scores, and a byte for each 16 queries by 64 keys that says what the
 * mask does there (src/ops/cuda/attention_words.cu).  Its numbers stay where they are, or are written again: as tiles of those threads, so
 * that the copy engine brings a warp its own in one piece; with whole pieces of 16 bytes in a row; finite and as bf16, for kernels that
 * add them by products (attention_spread.cu); and those of one row for all queries by themselves.  Which of them is wanted is the business
 * of who computes: attention_bits.c forward, attention_scores.c backward. */
#include "ops/common/attention_mask.h"

#include <stdio.h>
#include <string.h>

#include "ops/common/gpu.h"

HRI_CU(attention_spread);
HRI_CU(attention_words);

enum { THREADS = 256, ROWS = 16, KEYS = HRI_ATTENTION_TILE_KEYS, PIECE = 16 };

int hri_attention_keyed(const hri_attention *a) {
    const int in_range =
        a->type == HR_TYPE_BF16 || (a->extra.mask_type != HR_TYPE_F32 && a->scale > 0x1p-15f);
    return hri_attention_has_mask(a) && !a->extra.mask_row && !a->causal && in_range;
}

hri_attention_tiles hri_attention_tiles_of(const hri_attention *a, int causal, int turned) {
    const hri_attention_extra *x = &a->extra;
    const int each = x->mask_row || causal;
    hri_attention_tiles t = {.along = turned ? hri_gpu_up(a->keys, ROWS)
                                      : each ? hri_gpu_up(a->queries, ROWS)
                                             : 1,
                             .across = !turned ? hri_gpu_up(a->keys, KEYS)
                                       : each  ? hri_gpu_up(a->queries, KEYS)
                                               : 1};
    t.all = (hri_attention_has_mask(a) ? x->mask_samples * x->mask_heads : 1) * t.along * t.across;
    return t;
}

/* Rows of the mask are whole pieces of 16 bytes. */
static int whole_rows(const hri_attention *a, hr_addr mask) {
    return hri_attention_has_mask(a) &&
           a->keys * (int64_t)hr_type_bytes(a->extra.mask_type) % 16 == 0 && mask % 16 == 0;
}

/* ---- words ---- */

static uint64_t words_bytes(const hri_attention_tiles *t) {
    return (uint64_t)t->all * 32 * sizeof(uint32_t);
}

uint64_t hri_attention_words_bytes(const hri_attention *a, int causal, int turned) {
    const hri_attention_tiles t = hri_attention_tiles_of(a, causal, turned);
    return words_bytes(&t) + hri_gpu_whole((uint64_t)t.all);
}

/* Tiles that a first pass makes, and what it sets to 0. */
typedef struct first_pass {
    int64_t tiles;
    hr_addr zeros;
    uint32_t zero_count;
} first_pass;

static first_pass first_pass_of(const hri_attention_tiles *t, const hri_attention_making *m) {
    return m ? (first_pass){m->first, m->counters, 1 + m->tiles / m->each}
             : (first_pass){.tiles = t->all};
}

static hr_status words_make(const hri_attention *a, const hri_gpu_call *c, hr_addr mask, hr_addr at,
                            int causal, int how, hr_addr copy, int64_t pitch,
                            const hri_attention_making *m, hri_attention_words *out) {
    const hri_attention_extra *x = &a->extra;
    const int natural = how == HRI_ATTENTION_NATURAL, turned = how == 1;
    const int rows_differ = x->mask_row || causal;
    hri_attention_tiles t = hri_attention_tiles_of(a, causal, turned);
    first_pass f = first_pass_of(&t, m);
    int64_t rows = hri_attention_has_mask(a) ? x->mask_rows : 1, queries = a->queries,
            keys = a->keys;
    const int64_t each = t.along * t.across;
    char defines[160];
    *out = (hri_attention_words){.words = at,
                                 .seen = at + words_bytes(&t),
                                 .batch = x->mask_batch ? x->mask_heads * each : 0,
                                 .head = x->mask_head ? each : 0,
                                 .row = turned || rows_differ ? t.across : 0,
                                 .column = !turned || rows_differ};
    snprintf(defines, sizeof defines,
             "-DMELEM=%s -DCAUSAL=%d -DWHOLE=%d -DTURNED=%d -DCOPY=%d -DTILED=%d -DNATURAL=%d",
             hri_gpu_type(hri_attention_adds(a) ? x->mask_type : HR_TYPE_U8), causal,
             whole_rows(a, mask), turned, copy && pitch > 0, copy && pitch == 0, natural);
    const hri_gpu_grid grid = {.x = (uint32_t)hri_gpu_up(f.tiles, THREADS / 32),
                               .threads = THREADS};
    return hri_gpu_launch(c->gpu, &hri_cu_attention_words, defines, "attention_words", &grid,
                          HRI_GPU_ARGS(&mask, &out->words, &out->seen, &f.tiles, &t.along,
                                       &t.across, &rows, &queries, &keys, &copy, &pitch, &f.zeros,
                                       &f.zero_count));
}

hr_status hri_attention_words_make(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                                   hr_addr at, int causal, int how, hr_addr copy, int64_t pitch,
                                   hri_attention_words *out) {
    return words_make(a, c, mask, at, causal, how, copy, pitch, NULL, out);
}

hr_status hri_attention_words_begin(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                                    hr_addr at, const hri_attention_making *m,
                                    hri_attention_words *out) {
    return words_make(a, c, mask, at, a->causal != 0, HRI_ATTENTION_NATURAL, 0, 0, m, out);
}

/* ---- numbers in whole rows, and as tiles ---- */

#define NUMBERS_MOST (128ull << 20) /* bytes that are written again as threads have their scores */

int64_t hri_attention_pitch(const hri_attention *a) {
    const int whole = a->keys * (int64_t)hr_type_bytes(a->extra.mask_type) % PIECE == 0;
    return hri_attention_adds(a) && !hri_attention_keyed(a) && !whole
               ? hri_gpu_up(a->keys, KEYS) * KEYS
               : 0;
}

uint64_t hri_attention_copy_bytes(const hri_attention *a) {
    const hri_attention_extra *x = &a->extra;
    return (uint64_t)(x->mask_samples * x->mask_heads * x->mask_rows * hri_attention_pitch(a)) *
           hr_type_bytes(x->mask_type);
}

uint64_t hri_attention_numbers_bytes(const hri_attention *a, int causal, int turned) {
    const hri_attention_tiles t = hri_attention_tiles_of(a, causal, turned);
    return hri_gpu_whole((uint64_t)t.all * ROWS * KEYS * hr_type_bytes(a->extra.mask_type));
}

/* 1 / scale has to be a number of f16 where the mask is f16.  With dropout backward (TURNED) alone. */
int hri_attention_numbers_tiled(const hri_attention *a, const hri_gpu *gpu, int turned) {
    const hri_attention_extra *x = &a->extra;
    return hri_gpu_warpgroup_shared(gpu) > 0 && hri_attention_adds(a) && x->mask_row > 0 &&
           (turned || !(x->drop > 0.0f)) && (x->mask_type != HR_TYPE_F16 || a->scale > 0x1p-15f) &&
           hri_attention_numbers_bytes(a, !turned && a->causal, turned) <= NUMBERS_MOST;
}

int hri_attention_one_part(const hri_attention *a) {
    const float over = 1.0f / a->scale;
    const hr_type type = a->extra.mask_type;
    uint32_t bits;
    memcpy(&bits, &over, sizeof bits);
    return type == HR_TYPE_F32 || (bits & (type == HR_TYPE_BF16 ? 0xffffu : 0x1fffu)) == 0;
}

/* ---- numbers as products add them ---- */

int64_t hri_attention_spread_planes(const hri_attention *a) {
    return a->extra.mask_type == HR_TYPE_BF16 ? 1 : 2;
}

/* Elements of a plane. */
static int64_t spread_plane(const hri_attention *a) {
    const hri_attention_extra *x = &a->extra;
    return x->mask_samples * x->mask_heads * a->queries * hri_gpu_up(a->keys, KEYS) * KEYS;
}

static uint64_t spread_copy_bytes(const hri_attention *a) {
    return (uint64_t)(hri_attention_spread_planes(a) * spread_plane(a)) * 2;
}

/* 1 / scale has to be a number of f16 where the mask is f16. */
int hri_attention_spread_fits(const hri_attention *a) {
    return hri_attention_adds(a) && a->extra.mask_row > 0 && spread_copy_bytes(a) <= NUMBERS_MOST &&
           (a->extra.mask_type != HR_TYPE_F16 || a->scale > 0x1p-15f);
}

uint64_t hri_attention_spread_bytes(const hri_attention *a) {
    const hri_attention_tiles t = hri_attention_tiles_of(a, 0, 0);
    return spread_copy_bytes(a) + hri_gpu_whole((uint64_t)t.all);
}

/* Numbers go to `copy`, and `words` of bits, unless they are 0, before what each tile does, at out->seen. */
static hr_status spread_make(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                             hr_addr copy, hr_addr words, hr_addr seen,
                             const hri_attention_making *m, hri_attention_words *out) {
    const hri_attention_extra *x = &a->extra;
    hri_attention_tiles t = hri_attention_tiles_of(a, 0, 0);
    first_pass f = first_pass_of(&t, m);
    int64_t queries = a->queries, keys = a->keys, plane = spread_plane(a);
    const int64_t each = t.along * t.across;
    char defines[128];
    *out = (hri_attention_words){.words = words ? words : copy,
                                 .seen = seen,
                                 .batch = x->mask_batch ? x->mask_heads * each : 0,
                                 .head = x->mask_head ? each : 0,
                                 .row = t.across,
                                 .column = 1};
    snprintf(defines, sizeof defines,
             "-DMELEM=%s -DCAUSAL=%d -DWHOLE=%d -DPLANES=%d -DCOPY=%d -DWORDS=%d",
             hri_gpu_type(x->mask_type), a->causal != 0, whole_rows(a, mask),
             (int)hri_attention_spread_planes(a), m == NULL, words != 0);
    const hri_gpu_grid grid = {.x = (uint32_t)hri_gpu_up(f.tiles, THREADS / 32),
                               .threads = THREADS};
    return hri_gpu_launch(c->gpu, &hri_cu_attention_spread, defines, "attention_spread", &grid,
                          HRI_GPU_ARGS(&mask, &copy, &out->seen, &f.tiles, &t.along, &t.across,
                                       &queries, &keys, &plane, &f.zeros, &f.zero_count, &words));
}

hr_status hri_attention_spread_make(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                                    hr_addr at, const hri_attention_making *m,
                                    hri_attention_words *out) {
    return spread_make(a, c, mask, at, 0, at + (m ? 0 : spread_copy_bytes(a)), m, out);
}

uint64_t hri_attention_halves_bytes(const hri_attention *a) {
    return hri_attention_words_bytes(a, 0, 0) + spread_copy_bytes(a);
}

hr_status hri_attention_halves_make(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                                    hr_addr at, hri_attention_words *out, hr_addr *halves,
                                    int64_t *plane) {
    const hri_attention_tiles t = hri_attention_tiles_of(a, 0, 0);
    *halves = at + hri_attention_words_bytes(a, 0, 0);
    *plane = spread_plane(a);
    return spread_make(a, c, mask, *halves, at, at + words_bytes(&t), NULL, out);
}

/* ---- masks that a kernel makes while it uses those before them ---- */

enum { CHUNK = 4, WIDE = 256 };

/* Only of bytes and of bf16, and in whole tiles.  Masks of each head come one after the other where samples that share one stand side by side,
 * which they do where numbers are added. */
static int made_meanwhile(const hri_attention *a) {
    const hri_attention_extra *x = &a->extra;
    const hri_attention_tiles t = hri_attention_tiles_of(a, 0, 0);
    const int numbers = hri_attention_adds(a);
    return hri_attention_has_mask(a) && x->mask_row > 0 && !a->causal && a->keys % KEYS == 0 &&
           a->queries % ROWS == 0 && t.along * t.across % CHUNK == 0 && t.all < INT32_MAX / 16 &&
           (!numbers || x->mask_type == HR_TYPE_BF16) && (numbers || x->mask_batch > 0);
}

/* Pieces of work that share a mask, and masks of the first `blocks` of them. */
static int64_t masks_at_once(const hri_attention *a, uint32_t blocks) {
    const hri_attention_extra *x = &a->extra;
    const int64_t whole = a->queries < WIDE ? 1 : a->queries / WIDE;
    const int64_t pieces = a->batch / x->mask_samples * (a->heads / x->mask_heads) * whole;
    return hri_gpu_up(blocks, pieces);
}

uint64_t hri_attention_making_bytes(const hri_attention *a) {
    const hri_attention_extra *x = &a->extra;
    return made_meanwhile(a)
               ? hri_gpu_whole((uint64_t)(1 + x->mask_samples * x->mask_heads) * sizeof(uint32_t))
               : 0;
}

int hri_attention_making_of(const hri_attention *a, hr_addr mask, hr_addr counters, uint32_t blocks,
                            hri_attention_making *out) {
    const hri_attention_tiles t = hri_attention_tiles_of(a, 0, 0);
    const int64_t each = t.along * t.across;
    const int64_t first = made_meanwhile(a) ? masks_at_once(a, blocks) * each : t.all;
    *out = (hri_attention_making){.counters = counters,
                                  .first = (uint32_t)first,
                                  .tiles = (uint32_t)t.all,
                                  .each = (uint32_t)each,
                                  .across = (uint32_t)t.across};
    return first < t.all && whole_rows(a, mask);
}

/* ---- one row for all queries ---- */

uint64_t hri_attention_key_rows_bytes(const hri_attention *a, uint64_t tile_bytes) {
    const hri_attention_tiles t = hri_attention_tiles_of(a, 0, 0);
    return (uint64_t)t.all * tile_bytes + hri_gpu_whole((uint64_t)t.all);
}

hr_status hri_attention_key_rows_make(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                                      const char *kernel, uint64_t tile_bytes,
                                      hri_attention_words *out) {
    const hri_attention_extra *x = &a->extra;
    hri_attention_tiles t = hri_attention_tiles_of(a, 0, 0);
    int64_t keys = a->keys;
    float over = 1.0f / a->scale;
    char defines[80];
    *out = (hri_attention_words){.words = c->workspace,
                                 .seen = c->workspace + (uint64_t)t.all * tile_bytes,
                                 .batch = x->mask_batch ? x->mask_heads * t.across : 0,
                                 .head = x->mask_head ? t.across : 0};
    snprintf(defines, sizeof defines, "-DMELEM=%s -DELEM=%s", hri_gpu_type(x->mask_type),
             hri_gpu_type(a->type));
    const hri_gpu_grid grid = {.x = (uint32_t)hri_gpu_up(t.all, THREADS / 32), .threads = THREADS};
    return hri_gpu_launch(
        c->gpu, &hri_cu_attention_words, defines, kernel, &grid,
        HRI_GPU_ARGS(&mask, &out->words, &out->seen, &t.all, &t.across, &keys, &over));
}
