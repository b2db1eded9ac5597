/* What was alive when, from what calls touched: the measured counterpart of a plan's lifetimes.
 *
 * The one idea: bytes are alive from the call that writes them to the last one that reads them before they are written again.
 * A range that an op reads and writes in place is alive once.  What is persistent is alive throughout.
 *
 *   hri_see_lives lives = {0};
 *   status = hri_see_alive(touches, count, first_op, end_op, &lives);    once per graph of a step
 *   hri_see_lives_deinit(&lives); */
#ifndef HRI_SEE_ALIVE_H
#define HRI_SEE_ALIVE_H

#include "base/vector.h"
#include "run/touch.h"
#include "see/recording.h"

/* As hri_touch_fn was told it, in that order; op: in the recording. */
typedef struct hri_see_touch {
    uint64_t at, bytes;
    uint32_t op;
    uint8_t how; /* hri_touch_how */
} hri_see_touch;

typedef struct hri_see_life {
    uint64_t at, bytes;
    uint32_t birth, death; /* birth <= op < death; UINT32_MAX: always */
} hri_see_life;

HRI_VECTOR(hri_see_lives, hri_see_life)

/* Adds the lives of one graph, whose ops end before end_op.  Persistent ranges that are in *lives already are not added
 * again. */
HR_MUST_CHECK hr_status hri_see_alive(const hri_see_touch *touches, size_t count, uint32_t end_op,
                                      hri_see_lives *lives);

/* Planned and measured bytes in use, op by op. */
typedef struct hri_see_agreement {
    size_t ops, equal;      /* that were measured; of them, those where both are the same number */
    size_t first_different; /* op */
    uint64_t planned_bytes, measured_bytes; /* there; where all are equal: at the peak */
} hri_see_agreement;

/* Planned bytes are those asked for, before rounding up.  All zero when nothing was measured. */
HR_MUST_CHECK hr_status hri_see_agree(const hri_recording *r, hri_see_agreement *out);

#endif
