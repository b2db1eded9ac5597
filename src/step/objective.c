/* The model built, its images as bytes where they are, then the passes that are asked for, then `loss`; see objective.h. */
#include "step/objective.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "graph/graph.h"
#include "passes/common/pass.h"

/* The model into g, with the images that come as bytes. */
static hr_status build_model(const hri_objective *o, hr_graph *g, int64_t batch, int training) {
    const hri_pixels *pixels = training ? &o->pixels : &o->eval_pixels;
    g->pixels = pixels;
    const hr_status status = o->build(o->user, g, batch, training);
    g->pixels = NULL;
    const hr_value image = pixels->channels ? hr_graph_find(g, pixels->name) : HR_NONE;
    if (status == HR_OK && image != HR_NONE && g->values[image].meta.type != HR_TYPE_U8) {
        hri_graph_fail(g, HR_E_SHAPE, "its input %s does not accept u8 images with %u channels",
                       pixels->name, pixels->channels);
    }
    if (status == HR_OK && g->error.code == HR_OK && g->depth) {
        hri_graph_fail(g, HR_E_INVALID, "scope \"%s\" was never left (hr_graph_pop)", g->path);
    }
    return status == HR_OK ? g->error.code : status;
}

hr_status hri_objective_build(void *objective, hr_graph *g, int64_t batch, int training) {
    const hri_objective *o = objective;
    char text[256], loss[HRI_LOSS_TEXT];
    hri_pass_options pass;
    hri_pass_map map = {0};
    hr_graph *model = NULL;
    const int weighted = training && o->class_weights, soft = training && o->soft;
    const int named = (weighted || soft || o->loss.weighted) && !o->loss.kind;
    const hri_loss entropy = {.kind = HRI_LOSS_CROSS_ENTROPY};
    char *key = strchr(hri_loss_print(named ? &entropy : &o->loss, loss, sizeof loss), ':');
    if (key) {
        *key = ','; /* "huber:delta=1" */
    }
    hri_snprintf(text, sizeof text,
                 "loss:loss=%s,smoothing=%.17g,metrics=%s,wide=%s,soft=%s,weighted=%s", loss,
                 training ? o->smoothing : 0.0, o->no_metrics ? "no" : "yes",
                 o->wide ? "yes" : "no", soft ? "yes" : "no", o->loss.weighted ? "yes" : "no");
    hr_status status = hri_pass_parse(text, &pass, NULL);
    if (status != HR_OK) {
        return status;
    }
    status = hr_graph_create(&model);
    if (status != HR_OK) {
        hri_pass_options_deinit(&pass);
        return status;
    }
    model->keep_scores = g->keep_scores;
    model->class_weights = weighted ? o->class_weights : NULL;
    model->class_weight_count = o->class_weight_count;
    status = build_model(o, model, batch, training);
    if (status == HR_OK && o->passes) {
        status = hri_passes_apply(o->passes, training, &model);
    }
    if (status == HR_OK) {
        status = hri_pass_apply(&pass, model, g, &map);
    } else if (model->error.code != HR_OK) {
        hri_graph_fail(g, model->error.code, "%s", model->error.message);
    }
    hri_pass_map_deinit(&map);
    hri_pass_options_deinit(&pass);
    hr_graph_destroy(model);
    return status;
}
