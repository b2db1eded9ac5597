/* Mixup (Zhang et al. 2017) and cutmix (Yun et al. 2019): two samples become two mixtures, and their labels distributions.
 *
 *   mixup    x = l a + (1 - l) b                                      target: l of a's class, 1 - l of b's
 *   cutmix   x = a, but a rectangle of b, 1 - l of the area           the same with what the rectangle is, cut at the edges
 *
 * with l from a Beta distribution, as in torchvision.transforms.v2.MixUp and CutMix.  The pairs of a batch are its samples 0
 * and 1, 2 and 3, ...: the second is mixed with the first by the same l.  The last of an odd batch stays alone.  Where both
 * are asked for, each pair has one of them, by a coin.
 *
 * The one idea: what is drawn is a function of seed, step and the pair's number in the batch, and pairs never reach over the
 * end of a batch.  So threads, micro-batches, replicas, budgets and resuming change no bit, and nothing of it is saved. */
#ifndef HRI_LOOP_MIX_H
#define HRI_LOOP_MIX_H

#include <headroom/data.h>
#include "base/prose.h"

typedef struct hri_mix_options {
    double mixup, cutmix; /* alpha of either; 0: not asked for */
    uint64_t seed;
    int64_t classes;
} hri_mix_options;

/* How a pair is mixed. */
typedef struct hri_mix {
    double share; /* of a sample itself: l */
    int cut;      /* 1: a rectangle */
    int64_t top, left, bottom, right;
} hri_mix;

/* Pair number `pair` of step `step`; height and width are those of images, for cutmix. */
void hri_mix_draw(const hri_mix_options *o, uint32_t step, uint32_t pair, int64_t height,
                  int64_t width, hri_mix *out);
/* `own` mixed with `other` into `to`, which has room for own->bytes.  HR_E_SHAPE: they are not of one form, or neither bytes nor
 * f32. */
HR_MUST_CHECK hr_status hri_mix_field(const hri_mix *m, const hr_field *own, const hr_field *other,
                                      void *to, hri_prose *why);
/* The target over `classes` classes, zeros and one or two others. */
void hri_mix_target(const hri_mix *m, int64_t own, int64_t other, int64_t classes, float *to);

#endif
