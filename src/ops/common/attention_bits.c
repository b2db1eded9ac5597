/* Attention on a GPU of the Hopper generation with a mask: by bits.  Which kernel does it, and its launch.
 *
 * attention_mask.c writes the mask again first: a bit a score, and what it does to each tile.  Forward attention_hopper_bits.cu reads a word
 * a step, and the numbers of a mask only where they are neither 0 nor so low that they hide; over 64 deep attention_hopper_bits_pairs.cu
 * does it, and with dropout, or where there are no maps of tensors, attention_hopper_bits_deep.cu.  With many queries, up to 64 deep,
 * attention_hopper_bits_wide.cu does it.  Backward is in attention_scores.c. */
#include <math.h>
#include <string.h>

#include "ops/common/attention_mask.h"
#include "ops/common/gpu.h"

HRI_CU(attention_hopper_bits);
HRI_CU(attention_hopper_bits_deep);
HRI_CU(attention_hopper_bits_pairs);
HRI_CU(attention_hopper_bits_wide);

enum {
    OWN = 128,
    KEYS = HRI_ATTENTION_TILE_KEYS,
    DEPTH = 64,
    DEPTH_MOST = 128,
    WARPS = 8,
    BARS = 6, /* at most, of each kind */
    ONES_BYTES = 512,
    KEY_BYTES = 64 * 16,
    KEY_ROW_BYTES = KEYS * 4,
    PAIRS_THREADS = 384,
    PAIRS_BARS = 26,
    PIECE = 8,           /* keys that a thread has side by side */
    PIECED_MOST = 14336, /* keys whose list fits behind three steps of keys and values */
    FEW = 16,
    PAIRS_NUMBERS = 4 * 128 * 64 * 2 /* bytes of a mask in shared memory */
};

typedef struct bits_shape {
    int64_t batch, head, rows, mask_batch, mask_head, mask_row;
    float over, keep;
    uint32_t node, limit;
    int64_t samples;
} bits_shape;

static int deep(const hri_attention *a) {
    return a->depth > DEPTH;
}

/* What a map can say. */
static int mapped(const hri_attention_view *v) {
    return v->row % 8 == 0 && v->batch % 8 == 0 && v->row > 0 && v->batch > 0;
}

/* Rows from sample to sample are whole pieces: then the places of keys within a tile are in a map. */
static int in_pieces(const hri_attention_view *v) {
    return v->row > 0 && v->batch % (PIECE * v->row) == 0;
}

/* Do threads load numbers themselves, and the copy engine lays keys as they need them?  Of f32 there are too many for their registers: a
 * first pass makes two of bf16 of each, of which the second is 0 in most masks (`halved`).  Offsets within the mask of a head have 32 bits. */
static int halved(const hri_attention *a) {
    return a->extra.mask_type == HR_TYPE_F32 && !a->causal && hri_attention_spread_fits(a);
}
static int pieced(const hri_attention *a) {
    return a->depth == DEPTH_MOST && hri_attention_adds(a) && !hri_attention_keyed(a) &&
           (a->extra.mask_type != HR_TYPE_F32 || halved(a)) && a->keys % KEYS == 0 && a->keys > 0 &&
           a->keys <= PIECED_MOST && a->queries <= INT32_MAX / (a->extra.mask_row + a->keys) &&
           in_pieces(&a->k) && in_pieces(&a->v);
}

/* Over 64 deep, without dropout: attention_hopper_bits_pairs.cu, which has the same sum. */
static uint64_t pairs_shared(const hri_attention *a) {
    const uint64_t side = (uint64_t)2 * KEYS * DEPTH_MOST * 2;
    const uint64_t numbers = hri_attention_keyed(a)  ? (uint64_t)2 * KEYS * 128
                             : pieced(a)             ? 2 * side
                             : hri_attention_adds(a) ? (uint64_t)PAIRS_NUMBERS
                                                     : 0;
    return 1024 + 5 * side + numbers + PAIRS_BARS * sizeof(uint64_t) +
           2 * (uint64_t)(hri_gpu_up(a->keys, KEYS) + 1) * sizeof(uint32_t);
}

/* Rows of numbers that are one for all queries are no tiles. */
static int pairs(const hri_attention *a, const hri_gpu *gpu) {
    const hri_attention_extra *x = &a->extra;
    return deep(a) && hri_gpu_maps(gpu) && hri_attention_has_mask(a) && !(x->drop > 0.0f) &&
           (!hri_attention_adds(a) || hri_attention_keyed(a) || x->mask_row > 0) && mapped(&a->q) &&
           mapped(&a->k) && mapped(&a->v) && pairs_shared(a) <= hri_gpu_warpgroup_shared(gpu);
}

/* Does nobody look at a mask before its numbers are added?  Of one that few heads share: looking takes longer than what is passed over
 * saves. */
static int taken(const hri_attention *a, const hri_gpu *gpu) {
    const hri_attention_extra *x = &a->extra;
    return pairs(a, gpu) && pieced(a) && !halved(a) && !a->causal &&
           x->mask_samples * x->mask_heads * FEW >= a->batch * a->heads;
}

/* Numbers of 2 bytes are as fast as they are. */
static int tiled(const hri_attention *a, const hri_gpu *gpu) {
    return !pairs(a, gpu) && a->extra.mask_type == HR_TYPE_F32 &&
           hri_attention_numbers_tiled(a, gpu, 0);
}

/* ---- the kernels ---- */

/* Tiles of keys and values in shared memory, how many steps ahead they are copied, and whether rows are added up by a product with
 * ones where nothing is added: as measured on an H200.  Two blocks of a multiprocessor have 227 KiB. */
typedef struct ring {
    int tiles, lead, ones;
} ring;

static ring ring_of(const hri_attention *a) {
    const int width = hri_attention_adds(a) ? (int)hr_type_bytes(a->extra.mask_type) : 0;
    const int ones = !(a->extra.drop > 0.0f); /* sums are those before anything is dropped */
    return deep(a)                  ? (ring){width == 4 && !hri_attention_keyed(a) ? 5 : 6, 3, 0}
           : hri_attention_keyed(a) ? (ring){5, 3, 0}
           : width == 4             ? (ring){4, 2, ones}
           : width == 2             ? (ring){5, 3, ones}
           : ones                   ? (ring){5, 3, 1}
                                    : (ring){6, 3, 0};
}

/* The kernel has the same sums.  Memory begins at a multiple of 1,024 bytes where it has to be used whole. */
static uint64_t shared_bytes(const hri_attention *a, const hri_gpu *gpu) {
    const uint64_t tile = KEYS * (uint64_t)(deep(a) ? DEPTH_MOST : DEPTH) * 2;
    const uint64_t numbers =
        hri_attention_keyed(a) ? (uint64_t)(deep(a) ? 2 : 1) * KEYS * 128
        : tiled(a, gpu)
            ? (uint64_t)(deep(a) ? 2 : 1) *
                  (OWN * KEYS * hr_type_bytes(a->extra.mask_type) + WARPS * sizeof(uint64_t))
        : hri_attention_adds(a)
            ? (uint64_t)OWN * KEYS * (deep(a) ? 4 : hr_type_bytes(a->extra.mask_type))
            : 0;
    const ring r = ring_of(a);
    const uint64_t bytes = (uint64_t)r.tiles * 2 * tile + BARS * 16 + numbers + 8 +
                           (uint64_t)hri_gpu_up(a->keys, KEYS) * 4;
    if (hri_attention_adds(a) && !hri_attention_keyed(a) &&
        !deep(a)) { /* queries stay, and sums are in the room of numbers */
        return (bytes + 2 * tile + (tiled(a, gpu) ? ONES_BYTES : 0) + 1023) / 1024 * 1024;
    }
    return 1024 + bytes + (r.ones ? ONES_BYTES : 0);
}

/* Over 64 deep, bytes of keys are those of a library that takes lengths where the kernel of pairs is out of the question. */
static int fits_deep(const hri_attention *a, hri_gpu *gpu) {
    return a->depth <= DEPTH_MOST &&
           (pairs(a, gpu) || hri_attention_keys_workspace(a, gpu, 0) == 0);
}

static int fits(const hri_attention *a, hri_gpu *gpu) {
    const hri_attention_extra *x = &a->extra;
    const int drops = x->drop > 0.0f;
    return x->on && (hri_attention_has_mask(a) || drops) && a->scale > 0.0f &&
           a->type != HR_TYPE_F32 && a->depth % 8 == 0 && a->depth > 0 &&
           (!deep(a) || fits_deep(a, gpu)) && a->batch * a->heads * a->queries > 0 && a->keys > 0 &&
           a->keys < 65536 * KEYS && x->mask_row < INT32_MAX / 8 && a->k.row == a->v.row &&
           a->k.row < INT32_MAX / 2 &&
           (pairs(a, gpu) || shared_bytes(a, gpu) <= hri_gpu_warpgroup_shared(gpu));
}

/* ---- many queries: attention_hopper_bits_wide.cu ---- */

enum {
    WIDE = 256,
    WIDE_THREADS = 640,
    WIDE_BARS = 48,   /* at most */
    WIDE_KEYS = 8192, /* so many leave room for longer rings */
    NARROW = 128      /* so many queries and fewer fill a block of the other kernel */
};

/* One row for all queries. */
static int keys_alone(const hri_attention *a) {
    return hri_attention_has_mask(a) && !a->extra.mask_row && !a->causal;
}

/* Tiles of keys and of values, and of numbers, in shared memory. */
typedef struct rooms {
    int ring, numbers;
} rooms;

static rooms rooms_of(const hri_attention *a) {
    const int many = a->keys > WIDE_KEYS;
    return !hri_attention_adds(a) || keys_alone(a) ? (rooms){many ? 4 : 8, 4}
           : many ? (rooms){3, hri_attention_spread_planes(a) == 2 ? 3 : 2}
                  : (rooms){4, 3};
}

static uint64_t wide_numbers(const hri_attention *a) {
    return keys_alone(a)           ? KEYS * sizeof(float)
           : hri_attention_adds(a) ? (uint64_t)WIDE * KEYS * 2
                                   : 0;
}

static uint64_t wide_shared(const hri_attention *a) {
    const rooms r = rooms_of(a);
    return 1024 + 2 * WIDE * 128 + (uint64_t)r.ring * 2 * KEYS * 128 +
           (uint64_t)r.numbers * wide_numbers(a) + WIDE_BARS * sizeof(uint64_t) +
           2 * ((uint64_t)hri_gpu_up(a->keys, KEYS) + 1) * sizeof(uint32_t);
}

static int64_t wide_works(const hri_attention *a) {
    return a->batch * a->heads * hri_gpu_up(a->queries, WIDE);
}

/* Where more than half of the multiprocessors have work; with less, smaller blocks spread better.  Rows of numbers that are one for all queries
 * are no tiles. */
static int wide(const hri_attention *a, hri_gpu *gpu) {
    const hri_attention_extra *x = &a->extra;
    const int64_t works = wide_works(a);
    return fits(a, gpu) && hri_gpu_maps(gpu) && !deep(a) && hri_attention_has_mask(a) &&
           !(x->drop > 0.0f) &&
           (!hri_attention_adds(a) || keys_alone(a) || hri_attention_spread_fits(a)) &&
           a->queries > NARROW && works * 2 > hri_gpu_processors(gpu) && works < INT32_MAX &&
           mapped(&a->q) && mapped(&a->k) && mapped(&a->v) &&
           wide_shared(a) <= hri_gpu_warpgroup_shared(gpu);
}

/* What the mask becomes, and counters behind it where masks are made meanwhile. */
static uint64_t wide_mask_bytes(const hri_attention *a) {
    return keys_alone(a)           ? hri_attention_key_rows_bytes(a, KEY_ROW_BYTES)
           : hri_attention_adds(a) ? hri_attention_spread_bytes(a)
                                   : hri_attention_words_bytes(a, a->causal != 0, 0);
}

static uint64_t wide_workspace(const hri_attention *a) {
    return wide_mask_bytes(a) + hri_attention_making_bytes(a);
}

/* Of q, k or v: `rows` of one head. */
static hr_status map_of(const hri_attention *a, hri_gpu *gpu, const hri_attention_view *v,
                        hr_addr at, int64_t heads, int64_t places, uint32_t rows,
                        hri_gpu_map *out) {
    const uint64_t sizes[4] = {(uint64_t)a->depth, (uint64_t)heads, (uint64_t)places,
                               (uint64_t)a->batch};
    const uint64_t strides[3] = {(uint64_t)a->depth * 2, (uint64_t)v->row * 2,
                                 (uint64_t)v->batch * 2};
    const uint32_t box[4] = {DEPTH, 1, rows, 1};
    return hri_gpu_map_make(gpu, out, a->type, at, sizes, strides, box);
}

/* Of k or v of all heads, 32 rows at a time: of every 8 the two side by side, the same of the next 8, and then the next two. */
static hr_status map_of_pieces(const hri_attention *a, hri_gpu *gpu, const hri_attention_view *v,
                               hr_addr at, hri_gpu_map *out) {
    const uint64_t row = (uint64_t)v->row * 2,
                   pieces =
                       (uint64_t)((a->batch - 1) * (v->batch / (PIECE * v->row)) + a->keys / PIECE);
    const uint64_t sizes[4] = {(uint64_t)(a->heads / a->group * a->depth), 2, pieces, PIECE / 2};
    const uint64_t strides[3] = {row, PIECE * row, 2 * row};
    const uint32_t box[4] = {DEPTH, 2, 4, PIECE / 2};
    return hri_gpu_map_make(gpu, out, a->type, at, sizes, strides, box);
}

/* Of rows of numbers, `row` elements each, in one or two planes. */
static hr_status map_of_numbers(const hri_attention *a, hri_gpu *gpu, hr_addr at, hr_type type,
                                int64_t row, int64_t planes, uint32_t rows, hri_gpu_map *out) {
    const hri_attention_extra *x = &a->extra;
    const uint64_t bytes = hr_type_bytes(type), line = (uint64_t)row * bytes;
    const uint64_t sizes[4] = {(uint64_t)row, (uint64_t)x->mask_rows, (uint64_t)x->mask_heads,
                               (uint64_t)(x->mask_samples * planes)};
    const uint64_t strides[3] = {line, line * (uint64_t)x->mask_rows,
                                 line * (uint64_t)(x->mask_rows * x->mask_heads)};
    const uint32_t box[4] = {(uint32_t)(128 / bytes), rows, 1, 1};
    return hri_gpu_map_make(gpu, out, type, at, sizes, strides, box);
}

/* Of k or v. */
static hr_status side_map(const hri_attention *a, hri_gpu *gpu, const hri_attention_view *v,
                          hr_addr at, hri_gpu_map *out) {
    return pieced(a) ? map_of_pieces(a, gpu, v, at, out)
                     : map_of(a, gpu, v, at, a->heads / a->group, a->keys, KEYS, out);
}

/* Queries, `own` at a time, keys, values and numbers, as they are or SPREAD, in this order. */
static hr_status maps_make(const hri_attention *a, hri_gpu *gpu, const hri_gpu_attention_at *at,
                           hr_addr numbers, int64_t row, int spread, uint32_t own,
                           hri_gpu_map out[4]) {
    hr_status status = map_of(a, gpu, &a->q, at->q, a->heads, a->queries, own, &out[0]);
    if (status == HR_OK) {
        status = side_map(a, gpu, &a->k, at->k, &out[1]);
    }
    if (status == HR_OK) {
        status = side_map(a, gpu, &a->v, at->v, &out[2]);
    }
    if (status == HR_OK && numbers) {
        status = map_of_numbers(a, gpu, numbers, spread ? HR_TYPE_BF16 : a->extra.mask_type, row,
                                spread ? hri_attention_spread_planes(a) : 1, own, &out[3]);
    }
    return status;
}

static bits_shape bits_shape_of(const hri_attention *a, const hri_attention_words *w) {
    const hri_attention_extra *x = &a->extra;
    return (bits_shape){.batch = w->batch,
                        .head = w->head,
                        .rows = w->row,
                        .mask_batch = x->mask_batch,
                        .mask_head = x->mask_head,
                        .mask_row = x->mask_row,
                        .over = 1.0f / a->scale,
                        .keep = x->drop < 1.0f ? 1.0f / (1.0f - x->drop) : 0.0f,
                        .node = x->node,
                        .limit = (uint32_t)ceil((double)x->drop * 0x1p24) << 8,
                        .samples = a->batch};
}

static int power_of_two(float x) {
    int exponent;
    return frexpf(x, &exponent) == 0.5f && exponent > -8 && exponent < 8;
}

/* What the mask becomes in the work space, all of it or the first. */
static hr_status wide_mask(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                           const hri_attention_making *m, hri_attention_words *out) {
    return keys_alone(a)
               ? hri_attention_key_rows_make(a, c, mask, "attention_key_row", KEY_ROW_BYTES, out)
           : hri_attention_adds(a) ? hri_attention_spread_make(a, c, mask, c->workspace, m, out)
                                   : hri_attention_words_begin(a, c, mask, c->workspace, m, out);
}

static hr_status wide_run(const hri_attention *a, const hri_gpu_call *c,
                          const hri_gpu_attention_at *at) {
    const hri_attention_extra *x = &a->extra;
    const int keyed_ = keys_alone(a), spread = hri_attention_adds(a) && !keyed_;
    hr_addr v = at->v, o = at->o, lse = at->stats, mask = at->mask;
    hri_attention_shape s = hri_attention_shape_of(a);
    hri_attention_words w;
    hri_gpu_map maps[4] = {0};
    uint32_t heads = (uint32_t)(a->batch * a->heads), works = (uint32_t)wide_works(a);
    const uint32_t processors = hri_gpu_processors(c->gpu);
    const hri_gpu_grid grid = {.x = works < processors ? works : processors,
                               .threads = WIDE_THREADS,
                               .shared_bytes = (uint32_t)wide_shared(a)};
    char defines[432];
    hri_attention_making m;
    const int making =
        hri_attention_making_of(a, mask, c->workspace + wide_mask_bytes(a), grid.x, &m);
    hr_status status = wide_mask(a, c, mask, making ? &m : NULL, &w);
    if (status == HR_OK) {
        status = maps_make(a, c->gpu, at,
                           !spread  ? 0
                           : making ? mask
                                    : w.words,
                           hri_gpu_up(a->keys, KEYS) * KEYS, spread, WIDE, maps);
    }
    if (status != HR_OK) {
        return status;
    }
    bits_shape e = bits_shape_of(a, &w);
    const rooms r = rooms_of(a);
    snprintf(defines, sizeof defines,
             "-DELEM=%s -DMELEM=%s -DDP=%d -DCAUSAL=%d -DBACKWARD=0 -DWGS=%d -DBLOCKS=1 -DMASK=0 "
             "-DRING=%d -DLEAD=1 -DONES=%d -DNUMBERS=%d -DKEYED=%d "
             "-DPLANES=%d -DTWO_PARTS=%d -DNUMBER_ROOMS=%d -DMAKING=%d",
             hri_gpu_type(a->type), hri_gpu_type(hri_attention_adds(a) ? x->mask_type : a->type),
             DEPTH, a->causal != 0, WIDE / 64, r.ring, !hri_attention_adds(a) && !keyed_,
             hri_attention_adds(a), keyed_, spread ? (int)hri_attention_spread_planes(a) : 1,
             spread && !power_of_two(a->scale), r.numbers, making);
    return hri_gpu_launch(c->gpu, &hri_cu_attention_hopper_bits_wide, defines,
                          "attention_forward_wide", &grid,
                          HRI_GPU_ARGS(&maps[0], &maps[1], &maps[2], &maps[3], &v, &o, &lse, &s,
                                       &w.words, &w.seen, &e, &mask, &heads, &works, &m));
}

/* ---- which ---- */

uint64_t hri_attention_bits_workspace(const hri_attention *a, hri_gpu *gpu) {
    return !fits(a, gpu)            ? 0
           : wide(a, gpu)           ? wide_workspace(a)
           : hri_attention_keyed(a) ? hri_attention_key_rows_bytes(a, KEY_BYTES)
           : taken(a, gpu)
               ? hri_gpu_whole(1) /* none is needed; 0 would say that another kernel does it */
           : pairs(a, gpu) && pieced(a) && halved(a)
               ? hri_attention_halves_bytes(a)
               : hri_attention_words_bytes(a, a->causal != 0, 0) +
                     (tiled(a, gpu) ? hri_attention_numbers_bytes(a, a->causal != 0, 0)
                                    : hri_attention_copy_bytes(a));
}

/* Over 64 deep: a block for each multiprocessor takes one tile of queries after the other.  Threads add `numbers`, whose second parts are
 * `plane` elements behind them. */
static hr_status pairs_run(const hri_attention *a, const hri_gpu_call *c,
                           const hri_gpu_attention_at *at, hr_addr mask, hri_attention_words w,
                           bits_shape e, hr_addr numbers, int64_t plane) {
    const uint32_t processors = hri_gpu_processors(c->gpu);
    hri_attention_shape s = hri_attention_shape_of(a);
    hr_addr v = at->v, o = at->o, lse = at->stats, control = c->control;
    uint32_t items = (uint32_t)(a->batch * a->heads * hri_gpu_up(a->queries, OWN));
    hri_gpu_map maps[4] = {0};
    char defines[320];
    const int tiles_of_mask = hri_attention_adds(a) && !hri_attention_keyed(a) && !pieced(a);
    const hr_status status =
        maps_make(a, c->gpu, at, tiles_of_mask ? mask : 0, e.mask_row, 0, OWN, maps);
    if (status != HR_OK) {
        return status;
    }
    snprintf(defines, sizeof defines,
             "-DELEM=%s -DMELEM=%s -DDP=%d -DCAUSAL=%d -DBACKWARD=0 -DWGS=%d -DBLOCKS=1 -DMASK=0 "
             "-DNUMBERS=%d -DKEYED=%d -DPAIRS=1 -DDIRECT=%d -DPIECED=%d -DSPREAD=%d",
             hri_gpu_type(a->type),
             hri_gpu_type(hri_attention_adds(a) ? a->extra.mask_type : a->type), DEPTH_MOST,
             a->causal != 0, OWN / 64, hri_attention_adds(a), hri_attention_keyed(a),
             taken(a, c->gpu), pieced(a), pieced(a) && halved(a));
    const hri_gpu_grid grid = {.x = items < processors ? items : processors,
                               .threads = PAIRS_THREADS,
                               .shared_bytes = (uint32_t)pairs_shared(a)};
    return hri_gpu_launch(
        c->gpu, &hri_cu_attention_hopper_bits_pairs, defines, "attention_forward_pairs", &grid,
        HRI_GPU_ARGS(&maps[0], &maps[1], &maps[2], &maps[3], &v, &o, &lse, &s, &w.words, &w.seen,
                     &e, &mask, &control, &items, &numbers, &plane));
}

hr_status hri_attention_bits_run(const hri_attention *a, const hri_gpu_call *c,
                                 const hri_gpu_attention_at *at) {
    if (wide(a, c->gpu)) {
        return wide_run(a, c, at);
    }
    hri_attention_words w;
    hri_attention_shape s = hri_attention_shape_of(a);
    hr_addr q = at->q, k = at->k, v = at->v, o = at->o, lse = at->stats, mask = at->mask;
    hr_addr control = c->control;
    const hri_attention_extra *x = &a->extra;
    const ring r = ring_of(a);
    const int by_tiles = tiled(a, c->gpu);
    const int64_t pitch = by_tiles ? 0 : hri_attention_pitch(a);
    hr_addr copy =
        by_tiles || pitch > 0 ? c->workspace + hri_attention_words_bytes(a, a->causal != 0, 0) : 0;
    char defines[256];
    if (taken(a, c->gpu)) { /* samples that share a mask of each head stand side by side */
        const hri_attention_words none = {.batch = x->mask_batch > 0, .head = x->mask_head > 0};
        return pairs_run(a, c, at, mask, none, bits_shape_of(a, &none), mask, 0);
    }
    if (pairs(a, c->gpu) && pieced(a) && halved(a)) {
        hr_addr halves;
        int64_t plane;
        const hr_status made =
            hri_attention_halves_make(a, c, mask, c->workspace, &w, &halves, &plane);
        return made == HR_OK ? pairs_run(a, c, at, mask, w, bits_shape_of(a, &w), halves, plane)
                             : made;
    }
    const hr_status status =
        hri_attention_keyed(a)
            ? hri_attention_key_rows_make(a, c, mask, "attention_key_numbers", KEY_BYTES, &w)
            : hri_attention_words_make(a, c, mask, c->workspace, a->causal != 0,
                                       pairs(a, c->gpu) && !pieced(a) ? HRI_ATTENTION_NATURAL : 0,
                                       copy, pitch, &w);
    if (status != HR_OK) {
        return status;
    }
    bits_shape e = bits_shape_of(a, &w);
    if (pitch > 0) {
        mask = copy;
        e.mask_row = x->mask_row ? pitch : 0;
        e.mask_head = x->mask_head ? x->mask_rows * pitch : 0;
        e.mask_batch = x->mask_batch ? x->mask_heads * x->mask_rows * pitch : 0;
    }
    if (pairs(a, c->gpu)) {
        return pairs_run(a, c, at, mask, w, e, mask, 0);
    }
    snprintf(defines, sizeof defines,
             "-DELEM=%s -DMELEM=%s -DDP=%d -DCAUSAL=%d -DBACKWARD=0 -DWGS=%d -DBLOCKS=%d -DMASK=0 "
             "-DRING=%d -DLEAD=%d -DNUMBERS=%d -DKEYED=%d -DDROP=%d -DONES=%d "
             "-DTILED=%d -DTWO_PARTS=%d",
             hri_gpu_type(a->type), hri_gpu_type(hri_attention_adds(a) ? x->mask_type : a->type),
             deep(a) ? DEPTH_MOST : DEPTH, a->causal != 0, OWN / 64, deep(a) ? 1 : 2, r.tiles,
             r.lead, hri_attention_adds(a), hri_attention_keyed(a), x->drop > 0.0f, r.ones,
             by_tiles, by_tiles && !hri_attention_one_part(a));
    const hri_gpu_grid grid = {.x = (uint32_t)(a->batch * a->heads * hri_gpu_up(a->queries, OWN)),
                               .threads = 2 * OWN,
                               .shared_bytes = (uint32_t)shared_bytes(a, c->gpu)};
    return hri_gpu_launch(
        c->gpu, deep(a) ? &hri_cu_attention_hopper_bits_deep : &hri_cu_attention_hopper_bits,
        defines, deep(a) ? "attention_forward_deep" : "attention_forward_bits", &grid,
        HRI_GPU_ARGS(&q, &k, &v, &o, &lse, &s, &w.words, &w.seen, &e, &mask, &control, &copy));
}
