/* One training, or two that take turns in one arena.
 *
 * Between two steps every activation is dead.  So two trainings in one process need the weights and states of both, but
 * activations only of the larger:
 *
 *   arena   | persistent of the first | persistent of the second | activations of whoever runs |
 *
 * Each is planned with the other's persistent bytes reserved at the bottom of its arena; the plans then run over one
 * range.  With --logical-devices each has a slice and an arena of its own instead.  Nothing of one can touch the other, so each has the losses of its solo run, to the bit. */
#ifndef HRI_CLI_TRAIN_PAIR_H
#define HRI_CLI_TRAIN_PAIR_H

#include "cli/common/train_job.h"
#include "cli/common/train_show.h"

typedef struct hri_train_pair {
    uint32_t count;
    hri_train_job jobs[2];
    hri_train_show shows[2];
    hri_runner *runner;      /* of two; a single one has its own */
    uint64_t left_bytes;     /* of the budget, beside the plan */
    uint64_t separate_bytes; /* two processes would take so much */
    uint64_t taken_bytes
        [2]; /* of the budget, by the other one: its weights, states, records and input */
    uint64_t slices[2]; /* limits of logical devices; 0: none were given */
    hri_options also;   /* texts of the second one's flags */
    char *also_text, **also_words;
    hri_train_flags also_flags;
} hri_train_pair;

/* Exit codes; reasons were said. */
int hri_train_pair_look(hri_cli *cli, const hri_train_flags *flags, const char *model,
                        hri_train_pair *p);
/* HRI_EXIT_NO: *which does not fit. */
int hri_train_pair_plan(hri_train_pair *p, uint32_t *which);
/* Shows the refusal; HRI_EXIT_NO. */
int hri_train_pair_refuse(hri_train_pair *p, uint32_t which);
int hri_train_pair_start(hri_train_pair *p);
/* A zeroed one is allowed. */
void hri_train_pair_close(hri_train_pair *p);

#endif
