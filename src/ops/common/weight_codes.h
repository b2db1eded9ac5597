/* Weights of a linear layer in 8 or 4 bits: what the pass `weights`, the op matmul_codes and what writes files share.
 *
 *   W (out, in): rows of `in` numbers in groups, each with a scale; the last group of a row may be shorter
 *   8 bits   codes i8 (out, in)              number = code * scale              code -127 .. 127
 *   4 bits   codes u8 (out, (in + 1) / 2)    number = (code - zero) * scale     code and zero 0 .. 15, two in a byte, the first
 *                                            in the low half; zeros u8 (out, (groups + 1) / 2); scales are bf16, else f32
 *
 * A number is one product of a whole number and the scale, so every machine decodes to the same bits. */
#ifndef HRI_OPS_COMMON_WEIGHT_CODES_H
#define HRI_OPS_COMMON_WEIGHT_CODES_H

#include "graph/half.h"
#include "graph/op.h"

typedef struct hri_weight_codes {
    int64_t out, in, group; /* group: at least 1 */
    int bits;               /* 4 or 8 */
    const void *codes;
    const void *scales;  /* f32 (8 bits), bf16 (4 bits): (out, groups) */
    const uint8_t *zero; /* 4 bits alone */
} hri_weight_codes;

enum { HRI_WEIGHT_GROUP = 64 }; /* of 4 bits, where nothing is said */

/* Numbers of a group; said: 0 is the default, one group in a row of 8 bits. */
static inline int64_t hri_weight_group(int bits, int64_t said, int64_t in) {
    const int64_t group = said ? said : bits == 4 ? HRI_WEIGHT_GROUP : in;
    return group < in ? group : in > 0 ? in : 1;
}

static inline int64_t hri_weight_groups(int64_t in, int64_t group) {
    return (in + group - 1) / group;
}

static inline hr_type hri_weight_code_type(int bits) {
    return bits == 4 ? HR_TYPE_U8 : HR_TYPE_I8;
}

static inline hr_type hri_weight_scale_type(int bits) {
    return bits == 4 ? HR_TYPE_BF16 : HR_TYPE_F32;
}

/* Of a row. */
static inline int64_t hri_weight_row_bytes(int bits, int64_t in) {
    return bits == 4 ? (in + 1) / 2 : in;
}

/* Elements first .. first + count of row `row`. */
void hri_weight_decode(const hri_weight_codes *w, int64_t row, int64_t first, int64_t count,
                       float *to);
/* A whole row; codes, scales (of hri_weight_scale_type) and zero of that row.  What is not finite becomes 0. */
void hri_weight_encode(int bits, int64_t group, int64_t in, const float *from, void *codes,
                       void *scales, uint8_t *zero);

#endif
