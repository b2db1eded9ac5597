/* See compression.h: the evaluation graph before and after the pass, and a plan for each. */
#include "job/compression.h"

#include <string.h>

#include "passes/common/quantizing.h"
#include "passes/common/weights.h"
#include "plan/from_graph.h"
#include "weights/checkpoint.h"

/* The model after the job's passes and these, for inference. */
static hr_status build(const hri_plan_job *j, const char *more, int64_t batch, hr_graph **out,
                       hri_prose *why) {
    hri_passes passes = {0};
    hri_text text = {0};
    hr_graph *g = NULL;
    hri_passes_print(&j->passes, &text);
    const char *own = hri_text_get(&text);
    hri_text all = {0};
    hri_text_add(&all, "%s%s%s", own ? own : "", own && *own && *more ? ";" : "", more);
    hr_status status = hri_text_status(&text);
    status = status == HR_OK ? hri_text_status(&all) : status;
    status = status == HR_OK ? hri_passes_parse(hri_text_get(&all), &passes, why) : status;
    passes.without = "ema";
    status = status == HR_OK ? hr_graph_create(&g) : status;
    status = status == HR_OK ? hr_model_build(j->model, g, batch, 0) : status;
    status = status == HR_OK ? hri_passes_apply(&passes, 0, &g) : status;
    status = status == HR_OK && batch > 0 ? hr_graph_freeze(g) : status;
    if (status != HR_OK && !why->text[0]) {
        hri_prose_set(why, status, "%s",
                      g && g->error.code != HR_OK ? g->error.message : hr_status_text(status));
    }
    hri_passes_deinit(&passes);
    hri_text_deinit(&text);
    hri_text_deinit(&all);
    if (status != HR_OK) {
        hr_graph_destroy(g);
        return status;
    }
    *out = g;
    return HR_OK;
}

static hr_status plan(const hr_graph *g, uint64_t *arena, uint64_t *persistent, hri_prose *why) {
    const hri_machine machine = {.threads = 1};
    const hri_plan_options o = {.effort = 100000};
    hri_graph_problem x = {0};
    hri_plan *made = NULL;
    hr_status status = hri_problem_from_graph(g, &machine, &x, why);
    status = status == HR_OK ? hri_plan_make(&x.problem, &o, &made, NULL, why) : status;
    if (status == HR_OK) {
        *arena = made->arena_bytes;
        *persistent = made->persistent_bytes;
    }
    hri_plan_destroy(made);
    hri_graph_problem_deinit(&x);
    return status;
}

static hr_status look_at(const hri_plan_job *j, const char *pass, uint64_t *file, uint64_t *infer,
                         uint64_t *weights, hri_prose *why) {
    hr_graph *g = NULL;
    hr_status status = build(j, pass, j->job.batch > 0 ? j->job.batch : 1, &g, why);
    if (status == HR_OK) {
        *file = hri_checkpoint_bytes(g, HRI_CHECKPOINT_WEIGHTS);
        status = plan(g, infer, weights, why);
    }
    hr_graph_destroy(g);
    return status;
}

static hr_status count_layers(const hri_plan_job *j, int layers, int f8, hri_quantized_bytes *out,
                              hri_prose *why) {
    hr_graph *g = NULL;
    hri_quantizing q = {0};
    hr_status status = build(j, "", 1, &g, why);
    if (status == HR_OK && layers) {
        status = hri_quantizing_init(&q, g, f8);
        out->layers = q.site_count;
        out->real_layers = q.left_out;
        hri_quantizing_deinit(&q);
    }
    for (hr_value v = 1; status == HR_OK && !layers && v < g->value_count; v++) {
        out->layers += (uint64_t)hri_weights_takes(g, v);
    }
    hr_graph_destroy(g);
    return status;
}

hr_status hri_quantized_look(const hri_plan_job *j, const char *text, hri_quantized_bytes *out,
                             hri_prose *why) {
    const int f8 = !strcmp(text, "fp8"), layers = f8 || !strcmp(text, "int8");
    hri_text pass = {0};
    hri_quantized_bytes r = {0};
    hri_text_add(&pass, "%s%s",
                 f8       ? "quantize:to=f8"
                 : layers ? "quantize"
                          : "weights:bits=",
                 layers ? "" : text);
    hr_status status = hri_text_status(&pass);
    if (status == HR_OK) {
        status = look_at(j, hri_text_get(&pass), &r.file, &r.infer, &r.weights, why);
    }
    if (status == HR_OK) {
        status = look_at(j, "", &r.file_before, &r.infer_before, &r.weights_before, why);
    }
    status = status == HR_OK ? count_layers(j, layers, f8, &r, why) : status;
    if (status == HR_OK) {
        *out = r;
    }
    hri_text_deinit(&pass);
    return status;
}
