/* The gradient of attention on a GPU of the Hopper generation, causal or with a mask or dropout: the gradients of scores are made once.
 *
 * The pass of keys (src/ops/cuda/attention_hopper_grad.cu) leaves them in the work space, 2 bytes each, in tiles that its threads write as
 * they have them, and a product of those with k gives dq.  That is five products instead of the seven of two passes that each make the
 * scores again, and the bits are the same every time.  Heads go in turns, so that a turn's scores take about TURN_BYTES and never more than MOST_BYTES.  The
 * work space is
 *
 *   delta (B, H, T) f32   words (attention_mask.c) or flags of the mask   the mask with whole rows, or its numbers as tiles   scores of a turn
 *
 * Up to 64 deep rows of numbers are words, and tiles of numbers where there is anything to add (attention_hopper_tiles.cuh). */
#include "ops/common/attention.h"

#include "ops/common/gpu.h"

HRI_CU(attention_hopper_grad);
HRI_CU(attention_hopper_sum);

enum { TILE = 64, PIECE = 16, DEPTH_MOST = 128, STAGES = 3, FILL = 128, FEW = 8, MANY_KEYS = 512 };
enum { TILE_BYTES = TILE * TILE * 2 };
#define TURN_BYTES (128ull << 20) /* of a turn, where that fills a GPU */
#define MOST_BYTES (512ull << 20) /* of a turn */

typedef struct cut {
    int depth, groups,
        blocks; /* of the kernels; warpgroups of a block; blocks of a multiprocessor */
    int early;  /* the next tile is begun before this one is over */
    int split;  /* of two warpgroups each waits for the other's part of a tile alone */
    int kind;   /* of mask */
    int taken;  /* nobody looks at the mask first */
    int sum_groups, sum_stages; /* of the sum: warpgroups of a block; tiles under way */
    int64_t own, sum_own;       /* rows of a block */
    int64_t heads, turn;        /* of k and v; of those in a turn */
    int64_t pitch; /* of rows of the mask that are written again, in elements; 0: they are not */
    uint64_t delta_bytes, look_bytes, copy_bytes, scores_bytes;
    uint64_t keys_shared, sum_shared;
} cut;

/* Heads that fill a GPU, in turns that are alike. */
static void cut_turns(cut *c, const hri_attention *a) {
    const int64_t queries = hri_gpu_up(a->queries, TILE), keys = hri_gpu_up(a->keys, TILE);
    const uint64_t each = (uint64_t)(a->group * queries * keys) * TILE_BYTES;
    const int64_t fill = hri_gpu_up(FILL, hri_gpu_up(a->keys, c->own));
    const int64_t many = (int64_t)(TURN_BYTES / each);
    const int64_t most = many > fill ? many : fill;
    c->heads = a->batch * a->heads / a->group;
    c->turn = hri_gpu_up(c->heads, hri_gpu_up(c->heads, most));
    c->scores_bytes = (uint64_t)c->turn * each;
}

/* The kernels have the same sums. */
static void cut_shared(cut *c, const hri_attention *a) {
    const uint64_t tile = (uint64_t)(TILE * c->depth * 2), own = (uint64_t)(c->own * c->depth * 2);
    const uint64_t mask =
        c->kind == HRI_ATTENTION_WHOLE_ROWS || c->kind == HRI_ATTENTION_BITS_AND_NUMBERS
            ? (uint64_t)(c->own * TILE) * hr_type_bytes(a->extra.mask_type) + 64
            : 0;
    c->keys_shared = 1024 + 64 + 2 * own + STAGES * (2 * tile + 2 * TILE * sizeof(float)) +
                     2 * mask + (uint64_t)(hri_gpu_up(a->queries, TILE) * a->group) * 4;
    c->sum_shared = 1024 + (uint64_t)c->sum_stages * (tile + (uint64_t)c->sum_own * TILE * 2) +
                    (uint64_t)hri_gpu_up(a->keys, TILE) * 4;
}

/* Rows of numbers that are no whole pieces of 16 bytes are written again, so that they are. */
static void cut_rows(cut *c, const hri_attention *a) {
    const hri_attention_extra *x = &a->extra;
    const int64_t width = (int64_t)hr_type_bytes(x->mask_type), each = PIECE / width;
    if (c->kind == HRI_ATTENTION_ANY_ROWS && a->keys % each != 0) {
        c->kind = HRI_ATTENTION_WHOLE_ROWS;
        c->pitch = hri_gpu_up(a->keys, each) * each;
        c->copy_bytes = hri_gpu_whole(
            (uint64_t)(x->mask_samples * x->mask_heads * x->mask_rows * c->pitch * width));
    }
}

/* Blocks of the sum: what it reads comes from the second cache, keys as often as there are blocks for a head.  Over 64 deep products are
 * waited for a step later, which takes one stage more. */
static void cut_sum(cut *c) {
    const int deep = c->depth > 64;
    c->sum_groups = deep ? 4 : 2;
    c->sum_stages = STAGES + deep;
    c->sum_own = 64 * c->sum_groups;
}

/* Of a mask that few heads share, looking at it takes longer than what is passed over saves. */
static int is_taken(const cut *c, const hri_attention *a) {
    const hri_attention_extra *x = &a->extra;
    return c->kind == HRI_ATTENTION_WHOLE_ROWS && !c->pitch && !a->causal &&
           x->mask_samples * x->mask_heads * FEW >= a->batch * a->heads;
}

/* Causal attention is faster so than by cuDNN 9.14 where keys are many, and up to 64 deep where they fill two tiles: as measured on an H200. */
static int causal_alone(const hri_attention *a) {
    return a->causal && a->keys >= (a->depth <= 64 ? 2 * TILE : MANY_KEYS);
}

static int cut_init(cut *c, const hri_attention *a, hri_gpu *gpu, hr_addr mask) {
    const hri_attention_extra *x = &a->extra;
    const uint64_t shared = hri_gpu_warpgroup_shared(gpu);
    const int drops = x->drop > 0.0f;
    if ((x->mask_samples <= 0 && !drops && !causal_alone(a)) || a->scale <= 0.0f ||
        a->type == HR_TYPE_F32 || a->depth % 8 != 0 || a->depth <= 0 || a->depth > DEPTH_MOST ||
        a->batch * a->heads * a->queries <= 0 || a->keys <= 0) {
        return 0;
    }
    /* Blocks of one warpgroup wait for nobody, larger ones read less: as measured on an H200. */
    *c = (cut){.depth = a->depth <= 64 ? 64 : DEPTH_MOST,
               .kind = hri_attention_mask_kind(a, x->mask_samples > 0 ? mask : 0)};
    /* Over 64 deep rows of numbers are faster as they are. */
    const int tiled = c->depth == 64 && hri_attention_numbers_tiled(a, gpu, 1);
    c->kind = tiled ? HRI_ATTENTION_BITS_AND_NUMBERS : c->kind;
    const int light = c->kind == HRI_ATTENTION_BITS || c->kind == HRI_ATTENTION_NO_MASK || tiled;
    c->groups = c->depth == 64 && light ? 1 : 2;
    c->blocks = 2 / c->groups;
    c->early = c->groups == 1 || !light;
    c->own = 64 * c->groups;
    cut_rows(c, a);
    cut_sum(c);
    c->split = c->groups == 2 && c->early;
    c->taken = is_taken(c, a);
    c->copy_bytes = tiled ? hri_attention_numbers_bytes(a, 0, 1) : c->copy_bytes;
    cut_turns(c, a);
    cut_shared(c, a);
    c->delta_bytes = hri_gpu_whole((uint64_t)(a->batch * a->heads * a->queries) * sizeof(float));
    c->look_bytes = c->kind == HRI_ATTENTION_NO_MASK
                        ? 0
                        : hri_gpu_whole(c->kind == HRI_ATTENTION_BITS || tiled
                                            ? hri_attention_words_bytes(a, 0, 1)
                                            : hri_attention_flags_bytes(a));
    return c->scores_bytes <= MOST_BYTES && c->keys_shared <= shared && c->sum_shared <= shared;
}

uint64_t hri_attention_scores_workspace(const hri_attention *a, hri_gpu *gpu) {
    cut c;
    return cut_init(&c, a, gpu, PIECE)
               ? c.delta_bytes + c.look_bytes + c.copy_bytes + c.scores_bytes
               : 0;
}

static hr_status look_at(const hri_attention *a, const hri_gpu_call *c, const cut *k, hr_addr mask,
                         hri_attention_look *out) {
    const hr_addr at = c->workspace + k->delta_bytes;
    hri_attention_words w;
    *out = (hri_attention_look){mask, at, hri_attention_masks_of(a, mask)};
    if (k->kind == HRI_ATTENTION_NO_MASK || k->taken) {
        return HR_OK;
    }
    const int tiled = k->kind == HRI_ATTENTION_BITS_AND_NUMBERS;
    if (k->kind != HRI_ATTENTION_BITS && !tiled) {
        const int64_t rows = a->extra.mask_rows * k->pitch;
        const hr_addr copy = k->pitch > 0 ? at + k->look_bytes : 0;
        if (copy) {
            out->mask = copy;
            out->extra.mask_row = k->pitch;
            out->extra.mask_head = a->extra.mask_head ? rows : 0;
            out->extra.mask_batch = a->extra.mask_batch ? a->extra.mask_heads * rows : 0;
        }
        return hri_attention_flags_make(a, c, mask, at, copy, k->pitch);
    }
    const hr_status status =
        hri_attention_words_make(a, c, mask, at, 0, 1, tiled ? at + k->look_bytes : 0, 0, &w);
    out->mask = w.words;
    out->flags = w.seen;
    out->extra.flag_batch = w.batch;
    out->extra.flag_head = w.head;
    out->extra.mask_row = w.row;
    out->extra.flag_row = w.column;
    return status;
}

/* The gradients of `count` heads of k and v from `first` on. */
static hr_status turn(const hri_attention *a, const hri_gpu_call *c, const cut *k,
                      const hri_gpu_attention_at *at, hri_attention_look l, int64_t first,
                      int64_t count) {
    hri_attention_shape shape = hri_attention_shape_of(a);
    hr_addr q = at->q, key = at->k, v = at->v, dout = at->dout, lse = at->stats;
    hr_addr dq = at->dq, dk = at->dk, dv = at->dv, delta = c->workspace, control = c->control;
    hr_addr scores = c->workspace + k->delta_bytes + k->look_bytes + k->copy_bytes;
    hr_addr numbers = c->workspace + k->delta_bytes + k->look_bytes;
    int64_t of_queries = first * a->group;
    char defines[288], of_sum[192];
    snprintf(defines, sizeof defines,
             "-DELEM=%s -DMELEM=%s -DDP=%d -DCAUSAL=%d -DBACKWARD=1 -DWGS=%d -DBLOCKS=%d -DMASK=%d "
             "-DSCORES=1 -DEARLY=%d -DSPLIT=%d -DDROP=%d -DTWO_PARTS=%d -DALONE=%d -DTAKEN=%d",
             hri_gpu_type(a->type),
             hri_gpu_type(k->kind == HRI_ATTENTION_BITS || k->kind == HRI_ATTENTION_NO_MASK
                              ? a->type
                              : a->extra.mask_type),
             k->depth, a->causal != 0, k->groups, k->blocks, k->kind, k->early, k->split,
             a->extra.drop > 0.0f, !hri_attention_one_part(a), a->group == 1, k->taken);
    const int bits = k->kind == HRI_ATTENTION_BITS || k->kind == HRI_ATTENTION_BITS_AND_NUMBERS;
    snprintf(of_sum, sizeof of_sum,
             "-DELEM=%s -DMELEM=%s -DDP=%d -DCAUSAL=%d -DBACKWARD=1 -DWGS=%d -DBLOCKS=1 -DMASK=%d",
             hri_gpu_type(a->type), hri_gpu_type(a->type), k->depth, a->causal != 0, k->sum_groups,
             k->kind == HRI_ATTENTION_NO_MASK || k->taken ? HRI_ATTENTION_NO_MASK
             : bits                                       ? HRI_ATTENTION_BITS
                                                          : HRI_ATTENTION_ANY_ROWS);
    const hri_gpu_grid keys = {.x = (uint32_t)(count * hri_gpu_up(a->keys, k->own)),
                               .threads = (uint32_t)(2 * k->own),
                               .shared_bytes = (uint32_t)k->keys_shared};
    const hri_gpu_grid queries = {
        .x = (uint32_t)(count * a->group * hri_gpu_up(a->queries, k->sum_own)),
        .threads = (uint32_t)(2 * k->sum_own),
        .shared_bytes = (uint32_t)k->sum_shared};
    const hr_status status =
        hri_gpu_launch(c->gpu, &hri_cu_attention_hopper_grad, defines, "attention_grad_keys", &keys,
                       HRI_GPU_ARGS(&q, &key, &v, &dout, &lse, &delta, &dk, &dv, &shape, &l.mask,
                                    &l.flags, &control, &l.extra, &scores, &first, &numbers));
    return status == HR_OK ? hri_gpu_launch(c->gpu, &hri_cu_attention_hopper_sum, of_sum,
                                            "attention_grad_sum", &queries,
                                            HRI_GPU_ARGS(&key, &scores, &dq, &shape, &l.mask,
                                                         &l.flags, &l.extra, &of_queries))
                           : status;
}

hr_status hri_attention_scores_run(const hri_attention *a, const hri_gpu_call *c,
                                   const hri_gpu_attention_at *at) {
    cut k;
    hri_attention_look l;
    if (!cut_init(&k, a, c->gpu, at->mask)) {
        return HR_E_UNSUPPORTED;
    }
    hr_status status = hri_attention_delta_make(a, c, at->o, at->dout, c->workspace);
    if (status == HR_OK) {
        status = look_at(a, c, &k, at->mask, &l);
    }
    for (int64_t first = 0; first < k.heads && status == HR_OK; first += k.turn) {
        const int64_t left = k.heads - first;
        status = turn(a, c, &k, at, l, first, left < k.turn ? left : k.turn);
    }
    return status;
}
