/* Steps that replicas share; they may hold slices of what a training keeps (stages 1 to 3 of ZeRO).
 *
 * A round is one part of the batch on each rank.  The graph of a round computes the gradients of one part, sends every rank
 * its slice of them (exchange_parts) and folds the slices of all parts into the sums, in the order of the parts; that
 * of the last round updates the slices, too.  What ranks exchange are nodes like all others, so that the planner knows
 * how long a gradient lives, and where a parameter is gathered again.
 *
 *   HRI_SHARD_NONE      sums alone, each gathered when it is complete; every rank has the rest and updates all of it
 *   HRI_SHARD_STATES    sums and optimizer states in slices; parameters whole, gathered after the update
 *   HRI_SHARD_WEIGHTS   parameters in slices as well, gathered where they are read
 *
 * Inputs beside those of other steps: train.weights and train.firsts, (rows), one for each part of the round. */
#ifndef HRI_STEP_SHARD_H
#define HRI_STEP_SHARD_H

#include <headroom/train.h>

typedef enum hri_shard_mode {
    HRI_SHARD_NONE = 0,
    HRI_SHARD_STATES,
    HRI_SHARD_WEIGHTS
} hri_shard_mode;

extern const char *const hri_shard_names[]; /* "none", "states", "weights"; NULL at the end */

typedef struct hri_shard {
    hri_shard_mode mode;
    uint32_t ranks;
    uint32_t rows; /* parts of the round: one each of the first ranks */
    uint8_t
        gather_norm; /* a GPU: gradients are gathered for their norm, since its sums have their own order */
    uint8_t near; /* all ranks are slices of one GPU: small tensors need not travel together */
} hri_shard;

/* As hr_step_build, whose kinds it builds without a shard.  With one: HR_STEP_ROUND, HR_STEP_ROUND_LAST, HR_STEP_EVALUATE. */
HR_MUST_CHECK hr_status hri_step_build(const hr_train_options *o, hr_build_fn *build, void *user,
                                       hr_step_kind kind, int64_t batch, const hri_shard *shard,
                                       hr_graph **out, hr_error *why);

#endif
