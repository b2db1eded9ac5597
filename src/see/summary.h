/* A model as a table of layers: output, parameters, arithmetic, and what training keeps of it for the backward pass.
 *
 * The one idea: the numbers are those of the planner's problem for the whole batch, so that they add up to what `headroom
 * plan` says of the same model, batch and precision: parameter_bytes is the plan's, byte for byte.
 *
 * A layer is the part of a node's name before the last dot: "layer1.0.conv1.conv2d" belongs to "layer1.0.conv1". */
#ifndef HRI_SEE_SUMMARY_H
#define HRI_SEE_SUMMARY_H

#include <headroom/model.h>
#include "base/json.h"
#include "base/out.h"
#include "base/term.h"
#include "base/vector.h"

typedef struct hri_see_layer {
    char *name;       /* owned */
    const char *kind; /* the op with the most arithmetic; "input" for what is fed in */
    hr_meta output;   /* of the layer's last op */
    uint64_t parameters, parameter_bytes;
    double flops, op_flops; /* forward; of the op that `kind` names */
    uint64_t kept_bytes; /* made here and read by the backward pass, rounded up as in the arena */
} hri_see_layer;

HRI_VECTOR(hri_see_layers, hri_see_layer)

typedef struct hri_see_summary {
    hr_model *model;
    hr_graph *graph; /* one training step */
    int64_t batch;
    hri_see_layers layers;
    hri_see_layer total;         /* sums */
    uint64_t trained_parameters; /* of them, those that are not frozen */
    uint64_t state_bytes;        /* optimizer state and running statistics, as in the plan */
    double step_flops;           /* forward, backward and update */
} hri_see_summary;

/* `training` is text for hr_train_options_parse; NULL: the defaults.  *why may be NULL.  A zeroed summary may be closed. */
HR_MUST_CHECK hr_status hri_see_summary_open(const char *model, const char *training, int64_t batch,
                                             hri_see_summary *out, hr_error *why);
void hri_see_summary_close(hri_see_summary *s);

HR_MUST_CHECK hr_status hri_see_summary_text(const hri_see_summary *s, hri_out *out,
                                             const hri_term *term);
void hri_see_summary_json(const hri_see_summary *s, hri_json *json);

/* Parameters of a model that is only named: for lists. */
HR_MUST_CHECK hr_status hri_see_count_parameters(const char *model, uint64_t *out, hr_error *why);
/* "25.6 M", "1.56 G": counts for people. */
const char *hri_see_count(double count, char *buf, size_t size);

#endif
