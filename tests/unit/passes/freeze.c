/* Freezing and rates of layers: what the plan has not, what stays, and the rates against a training of their own. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/graph.h"
#include "loop/run.h"
#include "passes/common/pass.h"
#include "step/objective.h"
#include "test.h"

static hr_status build_net(void *user, hr_graph *g, int64_t batch, int training) {
    const int64_t in[] = {batch, 5}, out[] = {batch};
    (void)user;
    (void)training;
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_from(2, in));
    const hr_value ids = hr_graph_input(g, "ids", HR_TYPE_I32, hr_shape_from(1, out));
    hr_value y = x;
    static const char *const names[] = {"a", "b", "head"};
    static const int64_t sizes[] = {5, 8, 8, 3};
    for (int k = 0; k < 3; k++) {
        hr_graph_push(g, names[k]);
        const hr_value w = hr_graph_param(g, "weight", HR_TYPE_F32,
                                          hr_shape_2(sizes[k + 1], sizes[k]), hr_init_normal(.5));
        const hr_value b =
            hr_graph_param(g, "bias", HR_TYPE_F32, hr_shape_1(sizes[k + 1]), hr_init_constant(0));
        y = hr_linear(g, y, w, b);
        y = k < 2 ? hr_relu(g, y) : y;
        hr_graph_pop(g);
    }
    hr_graph_result(g, hr_cross_entropy(g, y, ids, 0), "loss");
    return HR_OK;
}

typedef struct weights {
    float a[40], b[64], head[24];
} weights;

static hri_objective objective(const char *text, hri_passes *passes) {
    hri_prose why = {""};
    if (hri_passes_parse(text, passes, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.text);
    }
    return (hri_objective){.build = build_net, .no_metrics = 1, .passes = passes};
}

static weights kept;

static hr_status keep(void *user, const hr_graph *g, hri_interp *it) {
    (void)user;
    memcpy(kept.a, hri_interp_data(it, hr_graph_find(g, "a.weight")), sizeof kept.a);
    memcpy(kept.b, hri_interp_data(it, hr_graph_find(g, "b.weight")), sizeof kept.b);
    memcpy(kept.head, hri_interp_data(it, hr_graph_find(g, "head.weight")), sizeof kept.head);
    return HR_OK;
}

static weights trained(const char *text, const char *training, uint64_t steps, int64_t part) {
    hri_passes passes = {0};
    hri_objective o = objective(text, &passes);
    hr_error why = {0};
    float losses[32];
    hri_interp_job job = {.options = {.size = sizeof job.options},
                          .build = hri_objective_build,
                          .user = &o,
                          .batch = 8,
                          .part = part,
                          .steps = steps,
                          .seed = 5,
                          .limit = 3,
                          .end = keep};
    CHECK_OK(hr_train_options_parse(training, &job.options, NULL));
    if (hri_train_run(&job, losses, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hri_passes_deinit(&passes);
    return kept;
}

static hr_graph *step_graph(const char *text, hr_step_kind kind, const char *training) {
    hri_passes passes = {0};
    hri_objective o = objective(text, &passes);
    hr_train_options t = {.size = sizeof t};
    hr_graph *g = NULL;
    hr_error why = {0};
    CHECK_OK(hr_train_options_parse(training, &t, NULL));
    if (hr_step_build(&t, hri_objective_build, &o, kind, 8, &g, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hri_passes_deinit(&passes);
    return g;
}

static int has(const hr_graph *g, const char *name) {
    return hr_graph_find(g, name) != HR_NONE;
}

static size_t backward_nodes(const hr_graph *g) {
    size_t count = 0;
    for (uint32_t i = 0; i < g->node_count; i++) {
        count += g->nodes[i].phase == HRI_BACKWARD && !g->nodes[i].dropped;
    }
    return count;
}

TEST(freeze, frozen_weights_have_no_gradient_state_or_sum_in_the_graph) {
    hr_graph *g = step_graph("freeze:layers=a+b", HR_STEP_LAST, "optimizer=adamw");
    hr_graph *all = step_graph(NULL, HR_STEP_LAST, "optimizer=adamw");
    CHECK(has(g, "head.weight.first") && has(g, "head.bias.sum") && has(g, "a.weight"));
    CHECK(!has(g, "a.weight.first") && !has(g, "a.weight.second") && !has(g, "b.bias.sum"));
    CHECK(has(all, "a.weight.first") && has(all, "b.bias.sum"));
    CHECK(2 * backward_nodes(g) < backward_nodes(all)); /* nothing goes back below the head */
    hr_graph_destroy(g);
    hr_graph_destroy(all);
}

TEST(freeze, frozen_weights_stay_to_the_bit_and_the_others_move) {
    static const char *const optimizers[] = {"optimizer=sgd", "optimizer=adamw,decay=0.1",
                                             "optimizer=lion,rate=0.01"};
    for (size_t k = 0; k < 3; k++) {
        const weights before = trained("freeze:layers=*,except=b", optimizers[k], 0, 0);
        const weights after = trained("freeze:layers=*,except=b", optimizers[k], 6, 3 * (k == 1));
        CHECK(!memcmp(before.a, after.a, sizeof before.a));
        CHECK(!memcmp(before.head, after.head, sizeof before.head));
        CHECK(memcmp(before.b, after.b, sizeof before.b) != 0);
    }
}

static void check_refused(const char *text, const char *part) {
    hri_passes passes = {0};
    hri_objective o = {.build = build_net, .no_metrics = 1, .passes = &passes};
    hr_train_options t = {.size = sizeof t};
    hr_graph *g = NULL;
    hri_prose prose = {""};
    hr_error why = {0};
    CHECK_OK(hr_train_options_parse(NULL, &t, NULL));
    const hr_status status = hri_passes_parse(text, &passes, &prose);
    if (status == HR_OK) {
        CHECK_STATUS(hr_step_build(&t, hri_objective_build, &o, HR_STEP_WHOLE, 8, &g, &why),
                     HR_E_INVALID);
        hri_passes_deinit(&passes);
    }
    if (!strstr(status == HR_OK ? why.message : prose.text, part)) {
        test_fail(__FILE__, __LINE__, "%s: \"%s\" does not say \"%s\"", text,
                  status == HR_OK ? why.message : prose.text, part);
    }
}

TEST(freeze, patterns_that_mean_nothing_or_all_are_refused_with_the_names_there_are) {
    check_refused("freeze:layers=c", "no layer matches c; there are a, b, head");
    check_refused("freeze:layers=*", "nothing is left to train with *");
    check_refused("freeze:layers=a++b", "a name is missing");
    check_refused("layer-rates:rates=c=2", "no layer matches c");
    check_refused("layer-rates:rates=a=0", "--freeze");
    check_refused("layer-rates:rates=a", "is not PATTERN=FACTOR");
}

/* Without momentum one step moves by rate * gradient: twice the factor, twice as far. */
TEST(layer_rates, a_layer_moves_by_its_factor_and_the_others_as_before) {
    const weights begin = trained(NULL, "optimizer=sgd,momentum=0,rate=0.125", 0, 0);
    const weights plain = trained(NULL, "optimizer=sgd,momentum=0,rate=0.125", 1, 0);
    const weights twice =
        trained("layer-rates:rates=b=2+head=0.5", "optimizer=sgd,momentum=0,rate=0.125", 1, 0);
    CHECK(!memcmp(plain.a, twice.a, sizeof plain.a));
    size_t moved = 0;
    for (int i = 0; i < 64; i++) {
        const float d = plain.b[i] - begin.b[i];
        moved += d != 0.0f;
        CHECK_LE(fabsf(twice.b[i] - begin.b[i] - 2 * d), 1e-6f);
    }
    for (int i = 0; i < 24; i++) {
        CHECK_LE(fabsf(twice.head[i] - begin.head[i] - (plain.head[i] - begin.head[i]) / 2), 1e-6f);
    }
    CHECK(moved > 10);
}

/* All layers at a factor of 2 (exact) are a training with twice the rate, to the bit, with and without parts. */
TEST(layer_rates, a_factor_for_all_is_another_rate_for_every_optimizer) {
    static const char *const text[][2] = {
        {"optimizer=sgd,rate=0.0625", "optimizer=sgd,rate=0.125"},
        {"optimizer=adamw,rate=0.0078125,decay=0.1", "optimizer=adamw,rate=0.015625,decay=0.1"},
        {"optimizer=lion,rate=0.0078125,clip=1", "optimizer=lion,rate=0.015625,clip=1"}};
    for (size_t k = 0; k < 3; k++) {
        for (int64_t part = 0; part <= 4; part += 4) {
            const weights layers = trained("layer-rates:rates=*=2", text[k][0], 5, part);
            const weights rate = trained(NULL, text[k][1], 5, part);
            CHECK(!memcmp(&layers, &rate, sizeof rate));
        }
    }
}

/* Factors of the decay: 0 for all is a training without, 2 for all one with twice as much, to the bit, with and without parts. */
TEST(layer_rates, a_factor_of_the_decay_is_another_decay_for_every_optimizer) {
    static const char *const text[][3] = {
        {"optimizer=sgd,rate=0.1,decay=0.125", "optimizer=sgd,rate=0.1,decay=0.25",
         "optimizer=sgd,rate=0.1,decay=0"},
        {"optimizer=adamw,rate=0.01,decay=0.125", "optimizer=adamw,rate=0.01,decay=0.25",
         "optimizer=adamw,rate=0.01,decay=0"},
        {"optimizer=rmsprop,rate=0.01,decay=0.125", "optimizer=rmsprop,rate=0.01,decay=0.25",
         "optimizer=rmsprop,rate=0.01,decay=0"}};
    for (size_t k = 0; k < 3; k++) {
        for (int64_t part = 0; part <= 4; part += 4) {
            const weights more = trained("layer-rates:decays=*=2", text[k][0], 5, part);
            const weights less = trained("layer-rates:rates=*=1,decays=*=0", text[k][0], 5, part);
            const weights twice = trained(NULL, text[k][1], 5, part);
            const weights none = trained(NULL, text[k][2], 5, part);
            CHECK(!memcmp(&more, &twice, sizeof more));
            CHECK(!memcmp(&less, &none, sizeof less));
        }
    }
}

TEST(layer_rates, a_layer_without_decay_is_alone_in_that) {
    static const char *const with = "optimizer=sgd,momentum=0,rate=0.125,decay=0.5";
    const weights plain = trained(NULL, with, 1, 0);
    const weights none = trained(NULL, "optimizer=sgd,momentum=0,rate=0.125,decay=0", 1, 0);
    const weights some = trained("layer-rates:decays=b=0", with, 1, 0);
    CHECK(!memcmp(plain.a, some.a, sizeof plain.a));
    CHECK(!memcmp(plain.head, some.head, sizeof plain.head));
    CHECK(!memcmp(none.b, some.b, sizeof none.b));
    CHECK(memcmp(plain.b, some.b, sizeof plain.b) != 0);
    check_refused("layer-rates:decays=c=2", "no layer matches c");
    check_refused("layer-rates:decays=a=-1", "is not from 0 to 1e6");
}
