/* What a training asks of a model: an hri_objective wraps the function that builds it.
 *
 * Passes that change the model (LoRA) come first, in training and evaluation alike.  The pass `loss` adds accuracy and top5 where the model shows scores and labels, and puts another loss in place of the
 * model's.  Label smoothing and class weights are training's own: evaluation keeps the plain loss.  Images that come as bytes are normalised by the first node of the graph
 * (graph/pixels.h), in training and evaluation alike. */
#ifndef HRI_STEP_OBJECTIVE_H
#define HRI_STEP_OBJECTIVE_H

#include <headroom/train.h>
#include "graph/pixels.h"
#include "passes/common/losses.h"
#include "passes/common/pass.h"

typedef struct hri_objective {
    hr_build_fn *build; /* the model's */
    void *user;
    double smoothing; /* 0: none */
    int no_metrics;
    hri_loss loss; /* in place of the model's own; weights of samples are evaluation's, too */
    int wide;      /* 1: such a loss is computed in f32 although scores are of a small type */
    /* One per class, of training alone; NULL: none.  The loss is then a cross entropy if it is not said. */
    const float *class_weights;
    size_t class_weight_count;
    int soft; /* targets of training are distributions over the classes, for a cross entropy */
    const hri_passes *passes; /* over the model, before the loss; NULL: none */
    /* Images that come as bytes, to train on and to evaluate; zeros: the data is what the model asks for. */
    hri_pixels pixels, eval_pixels;
} hri_objective;

/* An hr_build_fn; `objective` is an hri_objective. */
HR_MUST_CHECK hr_status hri_objective_build(void *objective, hr_graph *g, int64_t batch,
                                            int training);

#endif
