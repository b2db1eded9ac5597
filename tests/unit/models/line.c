/* Networks in one line: twelve that open, what they are made of, and every mistake with its place in the text. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "models/common/line.h"
#include "pictures.h"
#include "test.h"

static hr_model *open_line(const char *text) {
    hr_model *m;
    hr_error why = {0};
    if (hr_model_open(text, &m, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, why.message);
    }
    return m;
}

static const char *const networks[] = {
    "net: input(28x28x1) | conv(32,3) | relu | max_pool(2) | conv(64,3) | batch_norm | relu | "
    "global_pool | "
    "dense(128) | dropout(0.5) | dense(10)",
    "net: input(784) | dense(64) | relu | dense(10)",
    "net: input(8x8x3,classes=4) | flatten | dense(16) | tanh | dense(classes)",
    "net: input(32x32x3) | conv(8) | repeat(3, residual(conv(8) | batch_norm | relu | conv(8) | "
    "batch_norm) | relu) "
    "| residual(conv(16,stride=2) | batch_norm | relu | conv(16) | batch_norm) | relu | "
    "global_pool | dense(10)",
    "net: input(16,vocab=40) | embedding(24,40) | repeat(2, residual(layer_norm | "
    "attention(3,causal=1)) | "
    "residual(layer_norm | dense(96) | gelu | dense(24))) | layer_norm | dense(40)",
    "net: input(32x32x3) | conv(24,8,stride=8,pad=0) | rows | residual(layer_norm | attention(4)) "
    "| "
    "global_pool | dense(5)",
    "net: input(16x16x3) | conv(8,1) | relu6 | depthwise(5) | hard_swish | conv(16,1,groups=2) | "
    "group_norm | "
    "avg_pool(2) | mish | global_pool | dense(7)",
    "net: input(16x16x1) | conv(4) | elu(0.5) | max_pool | conv(8,dilation=2) | leaky_relu | "
    "upsample | conv(3,1)",
    "net: input(20) | repeat(2, dense(32) | silu | dropout) | residual(dense(9) | softplus | "
    "dense(16)) | dense(2)",
    "net:input(12x12x2)|conv(6,kernel=4,stride=3)|sigmoid|flatten|dense(3)",
    "net: input(18, vocab=30) | embedding(8, 30, positions=0) | lstm(6, both=1) | dropout(0.1) | "
    "gru(5, last=1) | dense(2)",
    "net: input(6, vocab=9) | embedding(4, 9) | lstm(3, both=1, last=1) | dense(2)",
    "net: input(33x3) | conv1d(8,5) | batch_norm | relu | max_pool1d | "
    "residual(conv1d(8,3,dilation=2) "
    "| silu) | avg_pool1d(3,stride=2,pad=1) | conv1d(12,1,stride=2) | gru(6) | global_pool | "
    "dense(4)",
};

/* Written as a model file and read again, each is the same model: one fingerprint. */
TEST_TIMEOUT(line, networks_open_and_are_saved_as_model_files, 120) {
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        char path[600];
        hr_model *m = open_line(networks[i]), *file;
        hr_error why = {0};
        snprintf(path, sizeof path, "%s/line.hr", test_folder());
        if (hr_model_write(m, path, &why) != HR_OK || hr_model_open(path, &file, &why) != HR_OK) {
            test_fail(__FILE__, __LINE__, "%s: %s", networks[i], why.message);
        }
        CHECK_STR(hr_model_text(m), networks[i]);
        CHECK(hr_model_classes(m) > 1 && hr_model_classes(file) == hr_model_classes(m));
        CHECK(hr_model_fingerprint(m) != 0);
        CHECK_EQ(hr_model_fingerprint(m), hr_model_fingerprint(file));
        hr_model_close(m);
        hr_model_close(file);
    }
}

TEST(line, parameters_are_named_for_their_layers) {
    hr_model *m = open_line(networks[3]);
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    CHECK_OK(hr_model_build(m, g, 2, 1));
    CHECK(hr_graph_find(g, "conv1.weight") != HR_NONE);
    CHECK(hr_graph_find(g, "repeat1.2.residual1.conv2.bias") != HR_NONE);
    CHECK(hr_graph_find(g, "repeat1.0.residual1.batch_norm2.running_var") != HR_NONE);
    CHECK(hr_graph_find(g, "residual1.shortcut.weight") != HR_NONE);
    CHECK(hr_graph_find(g, "repeat1.0.residual1.shortcut.weight") == HR_NONE);
    const hr_shape w = hr_graph_meta(g, hr_graph_find(g, "conv1.weight")).shape;
    CHECK(w.rank == 4 && w.dim[0] == 3 && w.dim[2] == 3 && w.dim[3] == 8);
    hr_graph_destroy(g);
    hr_model_close(m);
}

/* Steps as the same numbers for an image of one row would have. */
TEST(line, sequences_are_convolved_along_their_steps) {
    hr_model *m = open_line("net: input(33x3) | conv1d(8,5,stride=2) | conv1d(6,1,pad=1) | "
                            "max_pool1d(3) | flatten | dense(2)");
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    CHECK_OK(hr_model_build(m, g, 2, 1));
    const hr_shape w = hr_graph_meta(g, hr_graph_find(g, "conv1d1.weight")).shape;
    CHECK(w.rank == 4 && w.dim[0] == 1 && w.dim[1] == 5 && w.dim[2] == 3 && w.dim[3] == 8);
    /* 33 -> 17 -> 19 -> 6 steps of 6 */
    CHECK_EQ(hr_graph_meta(g, hr_graph_find(g, "dense1.weight")).shape.dim[1], 36);
    hr_graph_destroy(g);
    hr_model_close(m);
}

TEST(line, arguments_by_name_are_those_by_place) {
    hr_model *a = open_line("net: input(9x9x2) | conv(4,5,2,1) | flatten | dense(3)");
    hr_model *b = open_line(
        "net: input( 9x9x2 )|conv(pad=1, stride = 2,kernel=5,filters=4)|flatten|dense(units=3)");
    hr_model *c = open_line("net: input(9x9x2) | conv(4,5,2) | flatten | dense(3)");
    CHECK_EQ(hr_model_fingerprint(a), hr_model_fingerprint(b));
    CHECK(hr_model_fingerprint(a) != hr_model_fingerprint(c));
    hr_model_close(a);
    hr_model_close(b);
    hr_model_close(c);
}

TEST(line, every_mistake_is_refused_with_its_place) {
    static const struct {
        const char *text, *place, *words;
    } wrong[] = {
        {"net: conv(32,3) | relu", "character 6", "input(28x28x1)"},
        {"net:", "character 5", "input(28x28x1)"},
        {"net: input(4)", "character 14", "no layers"},
        {"net: input(4) | rlu", "character 17", "did you mean relu?"},
        {"net: input(4) | dense(3) |", "character 27", "name of a layer"},
        {"net: input(4) | dense", "character 17", "units is missing"},
        {"net: input(4) | dense(3,4)", "character 25", "too many"},
        {"net: input(4) | dense(unit=3)", "character 23", "dense takes units"},
        {"net: input(4) | dense(0)", "character 23", "units must be an integer from 1"},
        {"net: input(4) | dense(2.5)", "character 23", "integer"},
        {"net: input(4) | dense(x)", "character 23", "expected a number"},
        {"net: input(4) | dense(3", "character 24", "expected , or )"},
        {"net: input(4) | dense(3) dense(3)", "character 26", "expected | or the end"},
        {"net: input(4) | dense(classes)", "character 23", "classes is unknown"},
        {"net: input(4x4x4x4) | dense(3)", "character 12", "size of a sample"},
        {"net: input(28x28) | conv(3) | dense(3)", "character 21", "channels too: input(28x28x1)"},
        {"net: input(28x28) | max_pool | dense(3)", "character 21", "max_pool1d"},
        {"net: input(8x8x1) | conv1d(3) | dense(3)", "character 21", "sequences"},
        {"net: input(9x4) | conv1d(3,groups=3) | dense(3)", "character 19", "3 groups"},
        {"net: input(9x4) | max_pool1d(10) | dense(3)", "character 19", "window"},
        {"net: input(4) | dense(3) | Softmax", "character 28", "part of the loss"},
        {"net: input(4) | Linear(3)", "character 17", "it is called dense here"},
        {"net: input(4) | transmogrify", "character 17", "there are conv, conv1d, depthwise"},
        {"net: input | dense(3)", "character 6", "size is missing"},
        {"net: input(4) | input(4) | dense(3)", "character 17", "only come first"},
        {"net: input(4) | repeat(3) | dense(3)", "character 17", "no layers in its brackets"},
        {"net: input(4) | repeat(relu) | dense(3)", "character 17", "times is missing"},
        {"net: input(8x8x1) | conv(4) | dense(3)", "character 31", "global_pool"},
        {"net: input(4) | conv(4) | dense(3)", "character 17", "images"},
        {"net: input(4) | lstm(4) | dense(3)", "character 17", "sequences"},
        {"net: input(9999,vocab=4) | embedding(4,4) | gru(4) | dense(3)", "character 45",
         "9999 steps"},
        {"net: input(9,vocab=4) | embedding(4,4) | gru(4,5) | dense(3)", "character 48", "both"},
        {"net: input(8x8x1) | conv(4,9,pad=0) | flatten | dense(3)", "character 21", "window"},
        {"net: input(8x8x1) | residual(global_pool) | dense(3)", "character 21", "cannot be added"},
        {"net: input(4)|repeat(1000,repeat(1000,relu))|dense(2)", "character 39", "nodes"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        hr_model *m = NULL;
        hr_error why = {0};
        const hr_status status = hr_model_open(wrong[i].text, &m, &why);
        test_count_check();
        if (status == HR_OK || m || !strstr(why.message, wrong[i].place) ||
            !strstr(why.message, wrong[i].words)) {
            test_fail(__FILE__, __LINE__, "%s: %s, \"%s\"", wrong[i].text, hr_status_name(status),
                      why.message);
        }
    }
}
