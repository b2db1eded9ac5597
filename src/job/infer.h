/* The object behind hr_predictor: a checkpoint, data, a device and a budget.
 *
 * The one idea: the same budget rules as in training.  The budget bounds everything that the outside sees of the
 * process, and the answer comes before the first sample. */
#ifndef HRI_JOB_INFER_H
#define HRI_JOB_INFER_H

#include <headroom/predictor.h>
#include "base/arena.h"
#include "base/vector.h"
#include "job/trained.h"
#include "loop/scorer.h"
#include "loop/predictor.h"

HRI_VECTOR(hri_letters, char)

struct hr_predictor {
    hri_arena texts;
    hr_infer_options o; /* its texts are ours */
    hr_ctx *ctx;        /* the caller's */
    hri_trained of;
    hri_target target; /* what its outputs are */
    hri_source source;
    hri_supply *supply;
    hri_predictor *predictor; /* NULL: it does not fit */
    hri_prose refusal;
    uint64_t minimum_bytes; /* of a refusal */
    int32_t *label_map;     /* NULL: the data numbers its classes as the model does */
    uint64_t data_bytes;
    uint64_t
        less_bytes; /* what the input has to do with, because nothing fits beside more; 0: enough */
    uint64_t begun_ns, samples; /* of this pass */
    uint64_t bad_said;          /* bad samples that were named already */
    bool passed;                /* the data was gone through: it is opened anew for the next pass */
    /* What was seen of the samples of this batch: labels, and names one after the other, each with its NUL. */
    int32_t *labels;     /* ids: label_room samples of label_each; NULL: targets are real */
    float *targets;      /* the same of real ones */
    uint64_t label_each; /* labels of a sample */
    uint32_t label_room;
    hri_letters names;
    bool has_names, no_memory;
    hri_tabular bare;     /* the table without its targets; see table_of */
    hri_metrics *metrics; /* of the last evaluation; NULL: none can be told */
    int64_t classes;      /* of its tables; 0: none */
    hri_wanted wanted;    /* metrics that were asked for by name */
    hri_wanted_sums sums; /* of the last evaluation */
    double perplexity;    /* of the last evaluation, of a model of tokens; NAN: it is none */
};

/* As hr_predictor_open, with passes behind those of the checkpoint (NULL: none). */
HR_MUST_CHECK hr_status hri_infer_open(hr_ctx *ctx, const hr_infer_options *o,
                                       const char *more_passes, hr_predictor **out, hri_why *why);
/* Before a pass: HR_E_NO_PLAN for what does not fit; data that was gone through begins anew. */
HR_MUST_CHECK hr_status hri_infer_begin(hr_predictor *p, hri_why *why);
/* One batch; *over at the end of the data.  Bad samples and progress go to the listener. */
HR_MUST_CHECK hr_status hri_infer_next(hr_predictor *p, bool *over, hri_why *why);
/* Fills what every pass has: samples, memory, time. */
void hri_infer_finish(hr_predictor *p, hr_infer_result *out);

#endif
