/* Graphs and models as text: what is written is what is read, for every model, to the last bit of a step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <headroom/headroom.h>

#include "base/hash.h"
#include "graph/text.h"
#include "models/common/file.h"
#include "pictures.h"
#include "test.h"

static hr_status collect(void *user, const char *text, size_t bytes) {
    return hri_chars_append(user, text, bytes);
}

static hri_chars text_of(const hr_graph *g) {
    hri_chars out = {0};
    hr_error why = {0};
    CHECK_OK(hr_graph_write(g, collect, &out, &why));
    return out;
}

static int same(const hri_chars *a, const hri_chars *b) {
    return a->count == b->count && !memcmp(a->items, b->items, a->count);
}

/* The graph of a step, written, read, and written again. */
static void check_step(hr_model *m, hr_model *copy, hr_step_kind kind, const char *options) {
    hr_train_options o = {.size = sizeof o};
    hr_graph *g, *again, *read;
    hr_error why = {0};
    CHECK_OK(hr_train_options_parse(options, &o, NULL));
    CHECK_OK(hr_step_build(&o, hr_model_build, m, kind, 3, &g, NULL));
    CHECK_OK(hr_step_build(&o, hr_model_build, copy, kind, 3, &again, &why));
    hri_chars a = text_of(g), b = text_of(again);
    CHECK(same(&a, &b));
    const hr_status status = hr_graph_parse(a.items, a.count, &read, &why);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    hri_chars c = text_of(read);
    CHECK(same(&a, &c));
    CHECK_EQ(hr_graph_node_count(g), hr_graph_node_count(read));
    hri_chars_deinit(&a);
    hri_chars_deinit(&b);
    hri_chars_deinit(&c);
    hr_graph_destroy(g);
    hr_graph_destroy(again);
    hr_graph_destroy(read);
}

static void check_model(const char *text) {
    static const char *const options[] = {"optimizer=sgd", "optimizer=adamw,precision=bf16,clip=1",
                                          "optimizer=sgd,scores=slices"};
    char path[600];
    hr_model *m, *copy;
    hr_error why = {0};
    snprintf(path, sizeof path, "%s/model.hr", test_folder());
    CHECK_OK(hr_model_open(text, &m, NULL));
    if (hr_model_write(m, path, &why) != HR_OK || hr_model_open(path, &copy, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, why.message);
    }
    CHECK_STR(hr_model_name(copy), hr_model_name(m));
    CHECK_EQ(hr_model_classes(copy), hr_model_classes(m));
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        for (hr_step_kind kind = HR_STEP_WHOLE; kind <= HR_STEP_UPDATE; kind++) {
            check_step(m, copy, kind, options[i]);
        }
    }
    hr_model_close(m);
    hr_model_close(copy);
}

/* Small ones of each family; sizes do not change what a text can say. */
TEST_TIMEOUT(model_file, every_family_is_read_back_to_the_same_graphs, 120) {
    static const char *const texts[] = {"mlp",
                                        "lenet",
                                        "gpt2-nano",
                                        "gpt2-nano:dropout=0.1",
                                        "resnet18:size=32,width=8",
                                        "resnet50:size=32,width=8,norm=group",
                                        "vit-tiny:size=32",
                                        "unet:size=32"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        check_model(texts[i]);
    }
}

/* And every name that there is, as it is. */
TEST_TIMEOUT(model_file, every_named_model_is_written_and_opened, 300) {
    hr_model_info info = {.size = sizeof info};
    for (size_t i = 0; hr_model_list(i, &info) == HR_OK; i++) {
        char path[600];
        hr_model *m, *copy;
        hr_error why = {0};
        snprintf(path, sizeof path, "%s/%s.hr", test_folder(), info.name);
        CHECK_OK(hr_model_open(info.name, &m, NULL));
        if (hr_model_write(m, path, &why) != HR_OK || hr_model_open(path, &copy, &why) != HR_OK) {
            test_fail(__FILE__, __LINE__, "%s: %s", info.name, why.message);
        }
        hr_model_close(m);
        hr_model_close(copy);
    }
}

/* ---- walking ---- */

TEST(graph_walk, nodes_attributes_results_and_tags_are_what_was_built) {
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    const int64_t in[] = {2, 8, 8, 3}, weight[] = {3, 3, 3, 4};
    const hr_value x = hr_graph_input(g, "image", HR_TYPE_F32, hr_shape_from(4, in));
    hr_graph_push(g, "first");
    const hr_value w =
        hr_graph_param(g, "weight", HR_TYPE_F32, hr_shape_from(4, weight), hr_init_normal(0.1));
    const hr_value y = hr_graph_node(g, "conv2d", (const hr_value[]){x, w}, 2, "stride=2,pad=1");
    hr_graph_pop(g);
    hr_graph_set_tags(g, w,
                      &(hr_tags){.size = sizeof(hr_tags), .layout = HR_LAYOUT_CONV, .decay = -1});
    hr_graph_result(g, y, "y");
    hr_node_info n = {.size = sizeof n};
    CHECK_OK(hr_graph_get_node(g, 0, &n));
    CHECK_STR(n.op, "conv2d");
    CHECK_STR(n.name, "first.conv2d");
    CHECK(n.input_count == 2 && n.inputs[0] == x && n.inputs[1] == w && n.first_output == y);
    n.size = sizeof n;
    CHECK_STATUS(hr_graph_get_node(g, 1, &n), HR_E_EOF);
    size_t node = 9;
    CHECK_OK(hr_graph_find_node(g, y, &node));
    CHECK_EQ(node, 0);
    CHECK_STATUS(hr_graph_find_node(g, w, &node), HR_E_NOT_FOUND);
    int strides = 0;
    hr_attribute a = {.size = sizeof a};
    for (size_t i = 0; hr_graph_get_attribute(g, 0, i, &a) == HR_OK; i++, a.size = sizeof a) {
        if (!strcmp(a.name, "stride")) {
            CHECK(a.kind == HR_ATTRIBUTE_INTEGERS && a.integer_count == 1 && a.integers[0] == 2 &&
                  !a.is_default);
            CHECK_STR(a.text, "2");
            strides++;
        } else if (!strcmp(a.name, "groups")) {
            CHECK(a.is_default && a.integer == 1);
        }
    }
    CHECK_EQ(strides, 1);
    hr_tags tags = {.size = sizeof tags};
    CHECK_OK(hr_graph_get_tags(g, w, &tags));
    CHECK(tags.layout == HR_LAYOUT_CONV && tags.decay == -1 && !tags.frozen);
    CHECK_STATUS(hr_graph_get_tags(g, x, &tags), HR_E_INVALID);
    hr_value found;
    const char *name;
    CHECK_OK(hr_graph_get_result(g, 0, &found, &name));
    CHECK(found == y && !strcmp(name, "y"));
    CHECK_STATUS(hr_graph_get_result(g, 1, &found, &name), HR_E_EOF);
    hr_graph_destroy(g);
}

TEST(graph_walk, an_older_caller_gets_what_it_knows_and_a_newer_one_zeroes) {
    hr_graph *g;
    struct {
        hr_node_info info;
        uint64_t more[2];
    } newer = {.more = {7, 7}};
    const int64_t two = 2;
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_from(1, &two));
    hr_graph_result(g, hr_graph_node(g, "relu", &x, 1, NULL), "y");
    newer.info.size = sizeof newer;
    CHECK_OK(hr_graph_get_node(g, 0, &newer.info));
    CHECK(newer.info.size == sizeof newer.info && !newer.more[0] && !newer.more[1]);
    hr_node_info older = {.size = offsetof(hr_node_info, inputs), .input_count = 77};
    CHECK_OK(hr_graph_get_node(g, 0, &older));
    CHECK_STR(older.op, "relu");
    CHECK_EQ(older.input_count, 77); /* beyond its size nothing is touched */
    CHECK(HR_HAS(&older, name) && !HR_HAS(&older, input_count));
    older.size = 0;
    CHECK_STATUS(hr_graph_get_node(g, 0, &older), HR_E_INVALID);
    hr_graph_destroy(g);
}

/* ---- what is wrong ---- */

static void refused(const char *text, hr_status status, const char *sentence) {
    hr_graph *g = NULL;
    hr_error why = {0};
    CHECK_STATUS(hr_graph_parse(text, strlen(text), &g, &why), status);
    CHECK(!g);
    if (!strstr(why.message, sentence)) {
        test_fail(__FILE__, __LINE__, "said: %s", why.message);
    }
}

#define HEAD "headroom graph 1\n"

TEST(graph_text, says_which_line_is_wrong_and_how) {
    refused("", HR_E_FORMAT, "first line");
    refused("headroom graph 2\n", HR_E_FORMAT, "first line");
    refused(HEAD "%1 = input \"x\" f32[2\n", HR_E_FORMAT, "line 2");
    refused(HEAD "%2 = input \"x\" f32[2]\n", HR_E_FORMAT, "consecutive");
    refused(HEAD "%1 = input \"x\" f32[2]\n%2 = relux(%1) @\"\"\n", HR_E_NOT_FOUND,
            "line 3: unknown op");
    refused(HEAD "%1 = input \"x\" f32[2]\n%2 = relu(%2) @\"\"\n", HR_E_INVALID, "line 3");
    refused(HEAD "%1 = input \"x\" f32[2]\n%2 = relu(%1) {slope=1} @\"\"\n", HR_E_INVALID,
            "line 3: relu");
    refused(HEAD "%1 = input \"x\" f32[N]\n", HR_E_FORMAT, "N is used without a batch");
    refused(HEAD "%1 = input \"x\" f32[-1]\n", HR_E_SHAPE, "line 2");
    refused(HEAD "%1 = constant f32[2] 0x00 @\"\"\n", HR_E_FORMAT, "line 2");
    refused(HEAD "%1 = param \"w\" f32[2] normal 0 1 layout=conv\n", HR_E_RANGE, "tags of w");
    refused(HEAD "%1 = input \"x\" f32[2]\n%2 = input \"x\" f32[2]\n", HR_E_EXISTS, "two values");
    refused(HEAD "nonsense\n", HR_E_FORMAT, "line 2");
}

TEST(graph_text, names_with_quotes_and_controls_come_back) {
    hr_graph *g, *again;
    const int64_t two = 2;
    const float numbers[] = {1.5f, -0.0f};
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = hr_graph_input(g, "a \"b\" \\ N\tc", HR_TYPE_F32, hr_shape_from(1, &two));
    hr_graph_push(g, "4N \"scope\"");
    const hr_value c = hr_graph_constant(g, HR_TYPE_F32, hr_shape_from(1, &two), numbers);
    hr_graph_result(g, hr_graph_node(g, "add", (const hr_value[]){x, c}, 2, NULL), "out");
    hr_graph_pop(g);
    CHECK_OK(hr_graph_freeze(g));
    hri_chars a = text_of(g);
    CHECK_OK(hr_graph_parse(a.items, a.count, &again, NULL));
    hri_chars b = text_of(again);
    CHECK(same(&a, &b));
    CHECK_EQ(hr_graph_find(again, "a \"b\" \\ N\tc"), x);
    hri_chars_deinit(&a);
    hri_chars_deinit(&b);
    hr_graph_destroy(g);
    hr_graph_destroy(again);
}

/* ---- models of a program ---- */

static hr_status build_own(void *user, hr_graph *g, int64_t batch, int training) {
    const int64_t in[] = {batch, 3}, w[] = {2, 3};
    const int64_t wrong = *(const int *)user == 1 ? batch : 2;
    (void)training;
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_from(2, in));
    const hr_value id = hr_graph_input(g, "label", HR_TYPE_I32, hr_shape_from(1, in));
    const hr_value weight =
        hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_from(2, w), hr_init_normal(1));
    hr_graph_param(g, "b", HR_TYPE_F32, hr_shape_from(1, &wrong), hr_init_normal(1));
    const hr_value y = hr_linear(g, x, weight, HR_NONE);
    hr_graph_result(g, hr_cross_entropy(g, y, id, 0.0), *(const int *)user == 2 ? "cost" : "loss");
    return HR_OK;
}

TEST(model_define, takes_a_good_model_and_refuses_one_whose_parameters_follow_the_batch) {
    hr_model *m = NULL;
    hr_error why;
    int how = 0;
    hr_model_options o = {
        .size = sizeof o, .name = "own", .build = build_own, .user = &how, .classes = 2};
    CHECK_OK(hr_model_define(&o, &m, &why));
    CHECK_STR(hr_model_name(m), "own");
    CHECK_EQ(hr_model_classes(m), 2);
    hr_model_close(m);
    how = 1;
    CHECK_STATUS(hr_model_define(&o, &m, &why), HR_E_SHAPE);
    how = 2;
    CHECK_STATUS(hr_model_define(&o, &m, &why), HR_E_SHAPE);
    CHECK(strstr(why.message, "loss"));
    o.build = NULL;
    CHECK_STATUS(hr_model_define(&o, &m, &why), HR_E_INVALID);
}
