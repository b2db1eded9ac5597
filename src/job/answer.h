/* The answer to "does it fit?": what was found, what else would be, and the ways out when nothing was.
 *
 * Everything in it is computed, by planning; nothing is an estimate.  Built once, then shown for people or as JSON
 * (show/plan.h). */
#ifndef HRI_JOB_ANSWER_H
#define HRI_JOB_ANSWER_H

#include "job/compression.h"

enum { HRI_PLAN_CHOICES = 8, HRI_PLAN_WAYS = 12, HRI_PLAN_POINTS = 24 };

/* An option that is set anew: "batch", "27".  Keys are those of hr_job_options and of its training text. */
typedef struct hri_way_change {
    const char *key; /* a static text */
    char value[40];
} hri_way_change;

enum { HRI_WAY_CHANGES = 4 };

/* The same job with a few changes, which would fit. */
typedef struct hri_plan_way {
    hri_way_change changes[HRI_WAY_CHANGES];
    uint32_t change_count;
    bool needs_more, changes_result; /* a larger budget; another model, batch or optimizer */
    const char *text;                /* what it does */
    hri_plan_row row;
    int64_t batch;
} hri_plan_way;

typedef struct hri_plan_answer {
    hri_plan_row row;      /* the plan, or the smallest there is when nothing fits */
    bool fits, impossible; /* impossible: the floor proves it */
    /* The budget left no room to find the smallest one, which is so many bytes or more; 0: it was found.  Then there are no
     * ways, and row has this as its peak and no other number. */
    uint64_t at_least_bytes;
    char peak_op[256], floor_op[256], floor_kind[32];
    uint64_t floor_op_bytes; /* what that op needs beside persistent values */
    /* add up to row.persistent_bytes; others are those of another training in the same arena */
    uint64_t weights_bytes, states_bytes, constants_bytes, others_bytes;
    uint64_t moments_saved_bytes; /* what states_bytes would be more with optimizer state of f32 */
    /* With LoRA; all 0 without: layers with adapters, what is trained (the bytes of the adapter file), what is frozen, and
     * the optimizer state that that would have. */
    uint64_t lora_layers, lora_bytes, frozen_bytes, frozen_saved_bytes;
    /* With pruning: weights that have masks, bytes of those, and what a compressed file of the weights has less at the end. */
    uint64_t pruned_weights, mask_bytes, pruned_file_bytes;
    /* With fake quantization: layers, activations, bytes of their ranges, of the bits that gradients keep in a step that is not split
     * and recomputes nothing, and of the largest rounded weight. */
    uint64_t qat_layers, qat_ranges, qat_range_bytes, qat_bit_bytes, qat_weight_bytes;
    hri_quantized_bytes quantized; /* where it was asked for; .layers 0: it was not */
    bool may_cut, coupled;
    uint32_t custom_ops;             /* nodes of a step that run custom ops, gradients included */
    double custom_ns;                /* and their time */
    uint64_t custom_workspace_bytes; /* the most that one of them asks for */
    int64_t largest_batch;           /* -1: not looked for */
    hri_plan_row choices[HRI_PLAN_CHOICES];
    uint32_t choice_count;
    hri_plan_way ways[HRI_PLAN_WAYS];
    uint32_t way_count;
    hri_plan_row points[HRI_PLAN_POINTS]; /* of the curve, by rising budget */
    uint32_t point_count;
} hri_plan_answer;

/* Plans for the job's budget; when nothing fits, looks for ways out.  plans (may be NULL) and plan get what was found,
 * when it fits.  HR_E_NO_PLAN is not a failure: then fits is false. */
HR_MUST_CHECK hr_status hri_plan_answer_make(hri_plan_job *job, hri_plan_answer *out,
                                             hri_fit_plans *plans, hri_plan **plan, hri_prose *why);
/* Looks at other batches and budgets too: hr_explore values, added.  While it does, the plans rest. */
HR_MUST_CHECK hr_status hri_plan_answer_explore(hri_plan_job *job, uint32_t what,
                                                hri_plan_answer *out, hri_fit_plans *plans,
                                                hri_prose *why);
/* The parts of the persistent bytes, and the ops at peak and floor. */
void hri_plan_answer_describe(const hri_plan_job *job, const hri_fit_plans *plans,
                              const hri_plan *plan, hri_plan_answer *out);

#endif
