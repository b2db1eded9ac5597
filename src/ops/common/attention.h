/* Scaled dot-product attention in tiles: the T x T matrix exists 64 x 96 at a time.
 *
 *   s_ij = scale * q_i . k_j     p_ij = exp(s_ij - lse_i)     o_i = sum_j p_ij v_j      (for each sample and head)
 *
 * Forward goes over the keys with a running maximum and sum for each query; what is kept is o and lse.  Backward makes
 * each tile of p again from q, k and lse.  Products are the panels and the kernel of gemm.h.  A forward task is one tile
 * of queries of one head, a backward task one head (its dq lies in the scratch); both depend on the shape alone.
 *
 * A head of k and v may serve a group of heads of q (grouped keys); backward the task is then a head of k and v, and adds up
 * what the group gives.
 *
 * q, k and v are seen through strides, so that three values (B, T, H, D) and one (B, T, 3, H, D) are the same code. */
#ifndef HRI_OPS_COMMON_ATTENTION_H
#define HRI_OPS_COMMON_ATTENTION_H

#include "graph/op.h"

typedef struct hri_attention_attr {
    double scale; /* 0: 1 / sqrt(D) */
    bool causal;
} hri_attention_attr;

extern const hri_field hri_attention_fields[];

/* attention_packed: the same in front, so that one may be read as the other. */
typedef struct hri_attention_packed_attr {
    double scale;
    bool causal;
    int64_t queries; /* the first so many places alone ask; 0: all */
} hri_attention_packed_attr;

extern const hri_field hri_attention_packed_fields[];

/* attention_masked: the same in front, so that one may be read as the other. */
typedef struct hri_attention_masked_attr {
    double scale;
    bool causal;
    double dropout; /* probability that a probability becomes 0 */
    int64_t node;   /* whose numbers are drawn; -1: this node's */
} hri_attention_masked_attr;

extern const hri_field hri_attention_masked_fields[];

/* What attention_masked adds: numbers added to the scores, and dropped probabilities. */
typedef struct hri_attention_extra {
    int on;           /* 0: none of this */
    const void *mask; /* NULL: none */
    hr_type mask_type;
    int64_t mask_batch, mask_head,
        mask_row; /* elements between samples, heads, queries; 0: the same for all */
    int64_t mask_samples, mask_heads, mask_rows; /* how many there are of each */
    float drop;
    uint64_t seed;
    uint32_t step, node, first_sample;
} hri_attention_extra;

typedef struct hri_attention_view {
    const void *data;
    int64_t first, batch, row; /* elements: of (0, 0, head 0), between samples, between places */
} hri_attention_view;

typedef struct hri_attention {
    int64_t batch, heads, queries, keys, depth;
    int64_t group; /* heads of q to a head of k and v: 1, or more of them share one */
    hr_type type;
    float scale;
    int causal;
    hri_attention_view q, k, v; /* also the layout of the gradients */
    hri_attention_view o, d;    /* the output and its gradient, (B, T, H, D) */
    float *lse;                 /* (B, H, T); read backward, written forward */
    void *dq, *dk, *dv;         /* by the views of q, k, v */
    hri_attention_extra extra;
} hri_attention;

/* Sizes and scale; views for data that the caller sets. */
void hri_attention_apart(hri_attention *a, const hri_attention_attr *p, const hr_meta *q,
                         const hr_meta *k);
void hri_attention_packed(hri_attention *a, const hri_attention_packed_attr *p, const hr_meta *qkv);
/* Shapes of o (B, queries, H, D) and lse (B, H, queries); what qkv or the attributes have wrong otherwise. */
hr_status hri_attention_packed_infer(hri_infer *c, const hr_meta *qkv, hr_meta *o, hr_meta *lse);

/* As hri_attention_apart, with what does not depend on the call; mask NULL: there is none. */
void hri_attention_masked(hri_attention *a, const hri_attention_masked_attr *p, const hr_meta *q,
                          const hr_meta *k, const hr_meta *mask);
/* And what does: the mask's memory and the numbers of the node. */
void hri_attention_call(hri_attention *a, const hri_attention_masked_attr *p, const hri_call *c,
                        const void *mask);

uint64_t hri_attention_workspace(const hri_attention *a, uint32_t threads);
void hri_attention_run(const hri_attention *a, hri_threads *threads, void *workspace);
uint64_t hri_attention_grad_workspace(const hri_attention *a, uint32_t threads);
void hri_attention_grad_run(const hri_attention *a, hri_threads *threads, void *workspace);
/* On a GPU: `in` and `out` are q, k, v and their gradients, or three times the value that holds them; mask 0: none. */
uint64_t hri_attention_cuda_workspace(const hri_attention *a, hri_gpu *gpu, int backward);
hr_status hri_attention_cuda(const hri_attention *a, const hri_gpu_call *c, const hr_addr in[3],
                             hr_addr o, hr_addr lse, hr_addr mask);
hr_status hri_attention_grad_cuda(const hri_attention *a, const hri_gpu_call *c,
                                  const hr_addr in[3], hr_addr o, hr_addr lse, hr_addr dout,
                                  const hr_addr out[3], hr_addr mask);

/* The same, and masks of bytes (attention_shown.c). */
uint64_t hri_attention_masked_cuda_workspace(const hri_attention *a, hri_gpu *gpu, int backward);
hr_status hri_attention_masked_cuda(const hri_attention *a, const hri_gpu_call *c,
                                    const hr_addr in[3], hr_addr o, hr_addr lse, hr_addr mask);
hr_status hri_attention_masked_grad_cuda(const hri_attention *a, const hri_gpu_call *c,
                                         const hr_addr in[3], hr_addr o, hr_addr lse, hr_addr dout,
                                         const hr_addr out[3], hr_addr mask);

/* A mask of bytes as words of bits, in tiles of 16 queries by 64 keys, or TURNED of 16 keys by 64 queries (attention_mask.c). */
typedef struct hri_attention_words {
    hr_addr words, seen;
    int64_t batch, head, row, column; /* tiles from one to the next; 0: the same for all */
} hri_attention_words;
enum { HRI_ATTENTION_NATURAL = 2 };
uint64_t hri_attention_words_bytes(const hri_attention *a, int causal, int turned);
/* `turned` may be HRI_ATTENTION_NATURAL too: not turned, bits as keys lie (attention_hopper_bits_wide.cu and _pairs.cu).  Written at `at`; causal hides later keys too, which is not to be had with TURNED.  copy 0: none, else the mask is written there with rows of
 * `pitch` elements, a multiple of 64; pitch 0: as tiles of numbers. */
hr_status hri_attention_words_make(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                                   hr_addr at, int causal, int turned, hr_addr copy, int64_t pitch,
                                   hri_attention_words *out);

/* Rows of numbers are written again as threads have their scores, behind the words, and the copy engine brings them. */
uint64_t hri_attention_numbers_bytes(const hri_attention *a, int causal, int turned);
int hri_attention_numbers_tiled(const hri_attention *a, const hri_gpu *gpu, int turned);
/* 1 / scale is a number of the mask's type; else it is the sum of two. */
int hri_attention_one_part(const hri_attention *a);

/* hri_attention_grad_cuda takes a mask of bytes as it is. */
int hri_attention_grad_takes_bytes(const hri_attention *a, hri_gpu *gpu);

/* The shape as kernels have it. */
typedef struct hri_attention_shape {
    int64_t queries, keys;
    int64_t q_batch, q_row, k_batch, k_row, v_batch, v_row, o_batch, o_row;
    int32_t heads, depth;
    float scale;
    int32_t group;
} hri_attention_shape;

hri_attention_shape hri_attention_shape_of(const hri_attention *a);

/* What attention_masked adds, as kernels have it. */
typedef struct hri_attention_masks {
    int64_t mask_batch, mask_head, mask_row;
    int64_t flag_batch, flag_head, flag_row;
    float drop, keep;
    uint32_t node, pairs;
} hri_attention_masks;

hri_attention_masks hri_attention_masks_of(const hri_attention *a, hr_addr mask);

/* What a kernel backward has of a mask: numbers and flags, or words and what they show. */
typedef struct hri_attention_look {
    hr_addr mask, flags;
    hri_attention_masks extra;
} hri_attention_look;

/* rowsum(o do), (B, H, T) f32, written at `at`; for 2-byte types. */
hr_status hri_attention_delta_make(const hri_attention *a, const hri_gpu_call *c, hr_addr o,
                                   hr_addr dout, hr_addr at);

/* How the kernels of a Hopper get a mask. */
enum {
    HRI_ATTENTION_NO_MASK,
    HRI_ATTENTION_ONE_ROW,
    HRI_ATTENTION_WHOLE_ROWS,
    HRI_ATTENTION_ANY_ROWS,
    HRI_ATTENTION_BITS,
    HRI_ATTENTION_BITS_AND_NUMBERS
};
int hri_attention_mask_kind(const hri_attention *a, hr_addr mask);

/* What a mask of numbers does to each tile, written at `at` (attention_flags.cu); copy 0: none, else the mask is written there with rows
 * of `pitch` elements. */
uint64_t hri_attention_flags_bytes(const hri_attention *a);
hr_status hri_attention_flags_make(const hri_attention *a, const hri_gpu_call *c, hr_addr mask,
                                   hr_addr at, hr_addr copy, int64_t pitch);

/* Of those, forward by bits (attention_bits.c).  0: that is not how it is done. */
uint64_t hri_attention_bits_workspace(const hri_attention *a, hri_gpu *gpu);
hr_status hri_attention_bits_run(const hri_attention *a, const hri_gpu_call *c,
                                 const hri_gpu_attention_at *at);

/* Of those, masks of keys: over the keys that are shown (attention_keys.c).  0: that is not how it is done. */
int hri_attention_keys_fit(const hri_attention *a);
uint64_t hri_attention_keys_workspace(const hri_attention *a, hri_gpu *gpu, int backward);
hr_status hri_attention_keys_run(const hri_attention *a, const hri_gpu_call *c,
                                 const hri_gpu_attention_at *at, int backward);

/* Of those, and of causal attention, backward by the gradients of scores in the work space (attention_scores.c).  0: that is not how it is done. */
uint64_t hri_attention_scores_workspace(const hri_attention *a, hri_gpu *gpu);
hr_status hri_attention_scores_run(const hri_attention *a, const hri_gpu_call *c,
                                   const hri_gpu_attention_at *at);

double hri_attention_flops(const hri_attention *a); /* of one product of all queries and keys */

/* ---- the ops (attention_op.c): attention and attention_masked, and their gradients ---- */

HR_MUST_CHECK hr_status hri_attention_infer(hri_infer *c);
HR_MUST_CHECK hr_status hri_attention_grad_infer(hri_infer *c);
uint64_t hri_attention_op_workspace(const hri_sig *s, uint32_t threads);
void hri_attention_op_cost(const hri_sig *s, hri_cost *cost);
HR_MUST_CHECK hr_status hri_attention_op_host(const hri_call *c);
uint64_t hri_attention_op_launch_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant);
HR_MUST_CHECK hr_status hri_attention_op_launch(const hri_gpu_call *c);
uint64_t hri_attention_op_grad_workspace(const hri_sig *s, uint32_t threads);
void hri_attention_op_grad_cost(const hri_sig *s, hri_cost *cost);
HR_MUST_CHECK hr_status hri_attention_op_grad_host(const hri_call *c);
uint64_t hri_attention_op_grad_launch_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant);
HR_MUST_CHECK hr_status hri_attention_op_grad_launch(const hri_gpu_call *c);

#endif
