/* Parity with PyTorch on a GPU: the histories of tests/e2e/parity.c, by plans close to the floor, without tf32.
 *
 * The fake driver runs kernels thread by thread, so there only the smallest model is trained
 * unless HEADROOM_TEST_LARGE is set. */
#include "parity.h"

#include <stdlib.h>

#include "rig.h"
#include "training.h"

static void put_weights(training *t) {
    const hr_graph *g = hri_planned_graph(t->planned);
    for (hr_value v = 1; v <= hr_graph_value_count(g); v++) {
        if (hr_graph_kind(g, v) == HR_VALUE_PARAM) {
            const hr_meta meta = hr_graph_meta(g, v);
            float *weight = malloc(hr_meta_bytes(&meta));
            CHECK(weight);
            parity_weight(hr_graph_name(g, v), &meta.shape, weight);
            CHECK_OK(hri_planned_put(t->planned, v, 0, weight, hr_meta_bytes(&meta)));
            free(weight);
        }
    }
}

static void check_run(const json_t *record, const json_t *x) {
    training t;
    float losses[PARITY_STEPS];
    hri_prose why = {{0}};
    training_open(&t, parity_text(record, "model"), parity_text(x, "options"),
                  (int64_t)parity_number(record, "batch"));
    t.seed = parity_number(record, "seed");
    t.cycle = parity_number(record, "cycle");
    training_plan(&t, 0.3);
    training_take(&t);
    put_weights(&t);
    for (int s = 0; s < PARITY_STEPS; s++) {
        hri_numbers n;
        const hr_status status = hri_planned_step(t.planned, &n, &why);
        if (status != HR_OK) {
            test_fail(__FILE__, __LINE__, "step %d: %s", s, why.text);
        }
        losses[s] = n.loss;
    }
    parity_compare(x, losses, PARITY_STEPS);
    training_close(&t);
}

static void check_record(const char *name, int large) {
    if (large && is_fake() && !getenv("HEADROOM_TEST_LARGE")) {
        test_skip("too large for a GPU that is not there");
    }
    json_t *record = parity_load(HEADROOM_SOURCE_DIR, name);
    const json_t *runs = json_object_get(record, "runs");
    CHECK_EQ(json_array_size(runs), 4);
    for (size_t i = 0; i < json_array_size(runs); i++) {
        check_run(record, json_array_get(runs, i));
    }
    json_decref(record);
}

TEST_TIMEOUT(parity, mlp, 300) {
    check_record("mlp", 0);
}
TEST_TIMEOUT(parity, lenet, 300) {
    check_record("lenet", 1);
}
TEST_TIMEOUT(parity, resnet18, 300) {
    check_record("resnet18", 1);
}
TEST_TIMEOUT(parity, unet, 300) {
    check_record("unet", 1);
}
TEST_TIMEOUT(parity, vit_tiny, 300) {
    check_record("vit-tiny", 1);
}
TEST_TIMEOUT(parity, gpt2_nano, 300) {
    check_record("gpt2-nano", 1);
}
