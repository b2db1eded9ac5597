/* What each part of a batch weighs in its step.
 *
 * A part's loss and gradient are means over the labels that count in it (a negative label does not), so a part weighs
 * what it has of all the labels that count in the batch.  How many those are is known only when the last part is
 * there; until then the parts so far speak for the rest.  Each new part says by how much that guess was off, and what
 * was added up before it is scaled once:
 *
 *   sum <- keep * sum + share * part          after the last part: the mean over all labels that count, exactly
 *
 * Where every sample has equally many labels that count, keep is 1 and share is samples / batch, to the bit.  A part in
 * which nothing counts weighs nothing; a step in which nothing counts has a loss and gradients of 0. */
#ifndef HRI_STEP_SHARE_H
#define HRI_STEP_SHARE_H

#include <stdint.h>

/* The parts of this step so far.  Zeroed: none. */
typedef struct hri_share {
    uint64_t samples, counted;
} hri_share;

typedef struct hri_share_part {
    double share, keep;
    float weight, first; /* the inputs train.weight and train.first of the part's graph */
    int even;            /* keep is 1, share is samples / batch */
} hri_share_part;

/* The next part of a batch of `batch` samples: it has `samples` of them, in which `counted` labels count. */
hri_share_part hri_share_add(hri_share *s, uint64_t batch, uint64_t samples, uint64_t counted);

#endif
