/* What a step and a checkpoint do with a parameter follows its tags, never its name or rank. */
#include <headroom/headroom.h>

#include <string.h>

#include "graph/graph.h"
#include "test.h"
#include "weights/checkpoint.h"

/* Parameters whose names and ranks say the opposite of their tags. */
static hr_status build(void *user, hr_graph *g, int64_t batch, int training) {
    (void)user, (void)training;
    const int64_t wide[] = {batch, 4}, matrix[] = {3, 4}, four[] = {1, 1, 2, 3};
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_from(2, wide));
    const hr_init one = hr_init_constant(1.0);
    const hr_value w = hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_from(2, matrix), one);
    const hr_value b = hr_graph_param(g, "b", HR_TYPE_F32, hr_shape_from(1, matrix), one);
    const hr_value rest = hr_graph_param(g, "rest", HR_TYPE_F32, hr_shape_from(1, matrix), one);
    const hr_value plain = hr_graph_param(g, "plain", HR_TYPE_F32, hr_shape_from(4, four), one);
    const hr_value conv = hr_graph_param(g, "conv", HR_TYPE_F32, hr_shape_from(4, four), one);
    hr_graph_state(g, "rest.sum", HR_TYPE_F32, hr_shape_from(1, matrix), one);
    hr_graph_set_tags(g, w, &(hr_tags){.size = sizeof(hr_tags), .decay = -1});
    hr_graph_set_tags(g, b, &(hr_tags){.size = sizeof(hr_tags), .decay = 1});
    hr_graph_set_tags(g, rest, &(hr_tags){.size = sizeof(hr_tags), .frozen = 1});
    hr_graph_set_tags(g, conv, &(hr_tags){.size = sizeof(hr_tags), .layout = HR_LAYOUT_CONV});
    const hr_value y = hr_add(g, hr_linear(g, x, w, b), rest);
    const hr_value z = hr_sum(g, hr_mul(g, plain, conv), NULL, 0);
    hr_graph_result(g, hr_add(g, hr_mean(g, y, NULL, 0), z), "loss");
    return HR_OK;
}

static hr_graph *step(const char *text) {
    hr_train_options o = {.size = sizeof o};
    hr_graph *g = NULL;
    hr_error why = {0};
    CHECK_OK(hr_train_options_parse(text, &o, NULL));
    if (hr_step_build(&o, build, NULL, HR_STEP_LAST, 2, &g, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return g;
}

/* The weight decay of the node that updates a parameter; -1: nobody updates it. */
static double decay_of(const hr_graph *g, const char *name) {
    const hr_value wanted = hr_graph_find(g, name);
    hr_node_info n = {.size = sizeof n};
    for (size_t i = 0; hr_graph_get_node(g, i, &n) == HR_OK; n.size = sizeof n, i++) {
        hr_attribute a = {.size = sizeof a};
        for (size_t k = 0; n.phase == 2 && n.input_count && n.inputs[0] == wanted &&
                           hr_graph_get_attribute(g, i, k, &a) == HR_OK;
             a.size = sizeof a, k++) {
            if (!strcmp(a.name, "decay")) {
                return a.real;
            }
        }
    }
    return -1;
}

TEST(tags, weight_decay_follows_them) {
    hr_graph *g = step("decay=0.5,decay-all=off"), *all = step("decay=0.5,decay-all=on");
    CHECK(decay_of(g, "w") == 0.0 && decay_of(g, "b") == 0.5 && decay_of(g, "plain") == 0.5);
    CHECK(decay_of(all, "w") == 0.5 && decay_of(all, "b") == 0.5);
    hr_graph_destroy(g);
    hr_graph_destroy(all);
}

TEST(tags, what_is_frozen_is_not_trained) {
    hr_graph *g = step("");
    CHECK(decay_of(g, "rest") == -1 && decay_of(g, "b") >= 0);
    CHECK_EQ(hr_graph_find(g, "rest.velocity"), HR_NONE);
    hr_graph_destroy(g);
}

TEST(tags, what_is_saved_follows_them_and_not_a_name) {
    static const char *const texts[] = {"optimizer=adam", "optimizer=adam,precision=bf16"};
    for (int i = 0; i < 2; i++) { /* a pass keeps them */
        hr_graph *g = step(texts[i]);
        hr_tags tags = {.size = sizeof tags};
        CHECK_EQ(hri_keep_of(g, hr_graph_find(g, "rest.sum")), HR_KEEP_MODEL);
        CHECK_EQ(hri_keep_of(g, hr_graph_find(g, "b.sum")), HR_KEEP_NOT);
        CHECK_EQ(hri_keep_of(g, hr_graph_find(g, "b.first")), HR_KEEP_OPTIMIZER);
        CHECK_OK(hr_graph_get_tags(g, hr_graph_find(g, "conv.second"), &tags));
        CHECK_EQ(tags.owner, hr_graph_find(g, "conv"));
        CHECK_EQ(tags.layout, HR_LAYOUT_CONV);
        const hr_meta conv = hri_file_meta(g, hr_graph_find(g, "conv"));
        const hr_meta plain = hri_file_meta(g, hr_graph_find(g, "plain"));
        CHECK(conv.shape.dim[0] == 3 && conv.shape.dim[1] == 2 && plain.shape.dim[3] == 3);
        hr_graph_destroy(g);
    }
}
