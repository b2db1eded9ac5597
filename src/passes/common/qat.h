/* What others know of the pass `qat`: its options, the names of ranges, and a training graph in the form of an evaluation. */
#ifndef HRI_PASSES_COMMON_QAT_H
#define HRI_PASSES_COMMON_QAT_H

#include "graph/graph.h"
#include "ops/common/learned_range.h"

/* Of the pass `qat` (hri_passes_find).  INT64_MIN: not said. */
typedef struct hri_qat {
    int64_t begin;  /* first step with fake quantization */
    int64_t norms;  /* first step with batch norms by their running statistics; -1: never */
    int64_t freeze; /* first step that no longer changes ranges */
    double keep;    /* of a range, in each step */
} hri_qat;

#define HRI_QAT_RANGE ".range" /* "<activation>.range", f32 (HRI_LEARNED_RANGE) */

/* Is the state a range? */
int hri_qat_is_range(const hr_graph *g, hr_value v);
/* What is not said, of a run of so many steps; 0: not known. */
void hri_qat_settle(hri_qat *o, uint64_t steps);
/* The step from which on nothing but weights changes. */
int64_t hri_qat_settled(const hri_qat *o);

/* ---- a training graph in the form of an evaluation ---- */

/* Batch norms become batch_norm_inference, add and relu, and dropout is left out, so that sites and names of ranges are those
 * of the evaluation. */
typedef struct hri_evaluated {
    const hr_graph *from; /* the training graph */
    hr_graph *g;
    uint32_t *norm; /* by node of g: 1 + the batch_norm_apply of `from` that it stands for */
    uint32_t *drop; /* by value of g: 1 + the dropout of `from` that everybody reads it through */
} hri_evaluated;

/* HR_E_NOMEM_HOST, or the reason is on e->g; hri_evaluated_deinit afterwards. */
HR_MUST_CHECK hr_status hri_evaluated_init(hri_evaluated *e, const hr_graph *from);
/* The node of this op in `from` that reads v as input `input`; HRI_NO_NODE: there is not exactly one. */
uint32_t hri_evaluated_reader(const hr_graph *from, hr_value v, uint32_t input, const char *op);
/* A zeroed one is allowed. */
void hri_evaluated_deinit(hri_evaluated *e);

#endif
