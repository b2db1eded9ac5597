/* Which weights are pruned, and when: a schedule and a selection, both functions of their arguments alone.
 *
 * The share of zeros in step t, with p = (t - begin) / (end - begin) kept within 0 and 1:
 *
 *   s(t) = final + (initial - final) (1 - p)^3                              (Zhu and Gupta 2017)
 *
 * Masks change after the updates of steps begin, begin + every, ... up to end, and of step `end` itself, so the final
 * share is reached whatever `every` is.  initial = final is a constant share.
 *
 * Of n weights the max(1, round(n (1 - s))) of largest magnitude stay; among equal ones those with the higher index, as after
 * a stable sort.  Magnitudes are compared by their bits, counted in three rounds and not sorted, so any number of threads
 * gives the same mask.  A NaN counts as the largest.
 *
 * A mask has one bit a weight, bit i % 8 of byte i / 8: 1 stays.  Bits behind the last weight are 1. */
#ifndef HRI_OPS_COMMON_SPARSITY_H
#define HRI_OPS_COMMON_SPARSITY_H

#include <stdint.h>
#include "base/options.h"
#include "base/threads.h"

typedef struct hri_sparsity {
    double initial, final;
    int64_t begin, end, every;
} hri_sparsity;

#define HRI_SPARSITY_FIELDS(STRUCT, MEMBER)                                                        \
    {"initial",                                                                                    \
     "share of zeros at the beginning",                                                            \
     offsetof(STRUCT, MEMBER.initial),                                                             \
     HRI_FIELD_DOUBLE,                                                                             \
     "0",                                                                                          \
     .min = 0,                                                                                     \
     .max = 0.9999},                                                                               \
        {"final",                                                                                  \
         "share of zeros at the end",                                                              \
         offsetof(STRUCT, MEMBER.final),                                                           \
         HRI_FIELD_DOUBLE,                                                                         \
         "0.5",                                                                                    \
         .min = 0,                                                                                 \
         .max = 0.9999},                                                                           \
        {"begin",                                                                                  \
         "step of the first change",                                                               \
         offsetof(STRUCT, MEMBER.begin),                                                           \
         HRI_FIELD_INT,                                                                            \
         "0",                                                                                      \
         .min = 0,                                                                                 \
         .max = 9e15},                                                                             \
        {"end",                                                                                    \
         "step of the last change",                                                                \
         offsetof(STRUCT, MEMBER.end),                                                             \
         HRI_FIELD_INT,                                                                            \
         "0",                                                                                      \
         .min = 0,                                                                                 \
         .max = 9e15},                                                                             \
    {                                                                                              \
        "every", "steps between changes", offsetof(STRUCT, MEMBER.every), HRI_FIELD_INT, "100",    \
            .min = 1, .max = 9e15                                                                  \
    }

/* Does the mask change after step t, counted from 0? */
int hri_sparsity_changes(const hri_sparsity *s, uint64_t t);
/* The share of zeros then. */
double hri_sparsity_at(const hri_sparsity *s, uint64_t t);
/* How many of n are pruned. */
int64_t hri_sparsity_cut(int64_t n, double share);

static inline int64_t hri_mask_bytes(int64_t elements) {
    return elements / 8 + (elements % 8 != 0);
}
static inline int hri_mask_has(const unsigned char *mask, uint64_t i) {
    return mask[i / 8] >> (i % 8) & 1;
}

/* Memory for a selection among n weights. */
uint64_t hri_mask_workspace(int64_t n, uint32_t threads);
/* The mask of w[0 .. n) with `cut` zeros; workspace is 8-byte aligned. */
void hri_mask_select(const float *w, int64_t n, int64_t cut, hri_threads *threads, void *workspace,
                     unsigned char *mask);
/* Two of every four: w is (any, a multiple of 4, inner), and groups lie along the second; of equal magnitudes the lower index
 * stays. */
void hri_mask_select_2_of_4(const float *w, int64_t n, int64_t inner, unsigned char *mask);

#endif
