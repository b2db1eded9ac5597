/* --smoothing built the loss again from its name and smoothing alone: the kept scores of gpt2 and a sum over rows were lost,
 * and a loss whose name merely holds "cross_entropy" was taken for one. */
#include <headroom/headroom.h>

#include <string.h>

#include "graph/graph.h"
#include "test.h"
#include "step/objective.h"
#include "loop/run.h"

typedef struct loss_case {
    const char *op, *attributes;
} loss_case;

static hr_status build(void *user, hr_graph *g, int64_t batch, int training) {
    const loss_case *c = user;
    const int pair = !strcmp(c->op, "binary_cross_entropy") || strstr(c->op, "soft");
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_2(batch, 6));
    const hr_value w = hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_2(5, 6), hr_init_normal(0.3));
    const hr_value label = pair ? hr_graph_input(g, "y", HR_TYPE_F32, hr_shape_2(batch, 5))
                                : hr_graph_input(g, "label", HR_TYPE_I32, hr_shape_1(batch));
    const hr_value linear[] = {x, w, label}, plain[] = {hr_linear(g, x, w, HR_NONE), label};
    const int fused = !strcmp(c->op, "linear_cross_entropy");
    (void)training;
    hr_graph_result(
        g, hr_graph_node(g, c->op, fused ? linear : plain, fused ? 3 : 2, c->attributes), "loss");
    return HR_OK;
}

/* The attributes of the loss of a training step that smooths labels, as text. */
static hr_status attributes_of(const loss_case *c, char *text, size_t size, hr_error *why) {
    const hri_objective o = {.build = build, .user = (void *)(uintptr_t)c, .smoothing = 0.25};
    hr_train_options options = {.size = sizeof options};
    hr_graph *g = NULL;
    CHECK_OK(hr_train_options_parse("scores=kept", &options, NULL)); /* as the model says */
    const hr_status status = hr_step_build(&options, hri_objective_build, (void *)(uintptr_t)&o,
                                           HR_STEP_WHOLE, 4, &g, why);
    if (status != HR_OK) {
        return status;
    }
    const hri_sig *sig = &g->nodes[g->values[hr_graph_find(g, "loss")].node].sig;
    CHECK_STR(sig->op->name, c->op);
    text[0] = '\0';
    for (const hri_field *f = sig->op->fields; f && f->name; f++) {
        const char *at = (const char *)sig->attr + f->offset;
        const size_t used = strlen(text);
        snprintf(text + used, size - used, "%s=%g;", f->name,
                 f->type == HRI_FIELD_DOUBLE ? *(const double *)(const void *)at
                                             : (double)*(const bool *)(const void *)at);
    }
    hr_graph_destroy(g);
    return HR_OK;
}

TEST(f11_04, smoothing_changes_nothing_but_the_smoothing) {
    static const struct {
        loss_case c;
        const char *smooth, *other;
    } rows[] = {{{"cross_entropy", "sum"}, "smoothing=0.25;", "sum=1;"},
                {{"cross_entropy", NULL}, "smoothing=0.25;", "sum=0;"},
                {{"cross_entropy_soft", "sum"}, "smoothing=0.25;", "sum=1;"},
                {{"linear_cross_entropy", "keep"}, "smoothing=0.25;", "keep=1;"},
                {{"linear_cross_entropy", "sum"}, "smoothing=0.25;", "keep=0;"},
                {{"linear_cross_entropy", "sum,keep"}, "smoothing=0.25;", "sum=1;"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[200];
        CHECK_OK(attributes_of(&rows[i].c, text, sizeof text, NULL));
        if (!strstr(text, rows[i].smooth) || !strstr(text, rows[i].other)) {
            test_fail(__FILE__, __LINE__, "%s(%s) became %s", rows[i].c.op, rows[i].c.attributes,
                      text);
        }
    }
}

TEST(f11_04, a_loss_without_classes_is_refused) {
    static const loss_case rows[] = {{"binary_cross_entropy", NULL}};
    char text[200];
    hr_error why = {0};
    CHECK_STATUS(attributes_of(&rows[0], text, sizeof text, &why), HR_E_UNSUPPORTED);
    CHECK(strstr(why.message, "binary_cross_entropy") && strstr(why.message, "smoothing"));
}

/* Kept or in slices, the scores give the same bits with smoothing too. */
TEST(f11_04, kept_scores_stay_kept) {
    hr_model *m;
    float losses[2][3];
    CHECK_OK(hr_model_open("gpt2-nano:context=8", &m, NULL));
    const hri_objective o = {.build = hr_model_build, .user = m, .smoothing = 0.1};
    static const char *const texts[] = {"scores=kept", "scores=slices"};
    for (int i = 0; i < 2; i++) {
        hri_interp_job job = {.build = hri_objective_build,
                              .user = (void *)(uintptr_t)&o,
                              .batch = 2,
                              .steps = 3,
                              .seed = 3,
                              .limit = 128};
        hr_graph *g;
        job.options.size = sizeof job.options;
        CHECK_OK(hr_train_options_parse(texts[i], &job.options, NULL));
        CHECK_OK(hri_train_run(&job, losses[i], NULL));
        CHECK_OK(hr_step_build(&job.options, job.build, job.user, HR_STEP_WHOLE, 2, &g, NULL));
        const hri_sig *sig = &g->nodes[g->values[hr_graph_find(g, "loss")].node].sig;
        const hri_field *f = sig->op->fields;
        while (strcmp(f->name, "keep") != 0) {
            f++;
        }
        CHECK_EQ(*(const bool *)(const void *)((const char *)sig->attr + f->offset), i == 0);
        hr_graph_destroy(g);
    }
    CHECK(!memcmp(losses[0], losses[1], sizeof losses[0]));
    hr_model_close(m);
}
