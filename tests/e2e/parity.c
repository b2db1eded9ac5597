/* Parity with PyTorch: 20 steps of training from the same weights on the same batches give the same losses.
 *
 * parity/<model>.json holds what PyTorch had; tools/parity/make_losses.py makes it and says how weights and batches are
 * counted.  Every loss of every run is compared: at most 1e-4 of it apart in f32, 2e-2 in bf16. */
#include <headroom/headroom.h>

#include "parity.h"
#include "test.h"
#include "loop/run.h"

static hr_status begin(void *user, const hr_graph *g, hri_interp *it) {
    (void)user;
    for (hr_value v = 1; v <= hr_graph_value_count(g); v++) {
        if (hr_graph_kind(g, v) == HR_VALUE_PARAM) {
            const hr_shape shape = hr_graph_meta(g, v).shape;
            parity_weight(hr_graph_name(g, v), &shape, hri_interp_data(it, v));
        }
    }
    return HR_OK;
}

static void check_record(const char *name) {
    json_t *record = parity_load(HEADROOM_SOURCE, name);
    hr_error error = {0};
    hr_model *m;
    hri_threads *threads;
    CHECK_OK(hr_model_open(parity_text(record, "model"), &m, NULL));
    CHECK_OK(hri_threads_create(2, &threads));
    const json_t *runs = json_object_get(record, "runs");
    CHECK_EQ(json_array_size(runs), 4);
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);
        hri_interp_job job = {.build = hr_model_build,
                              .user = m,
                              .batch = (int64_t)parity_number(record, "batch"),
                              .steps = PARITY_STEPS,
                              .seed = parity_number(record, "seed"),
                              .cycle = parity_number(record, "cycle"),
                              .limit = (uint32_t)hr_model_classes(m),
                              .threads = threads,
                              .begin = begin};
        float losses[PARITY_STEPS];
        job.options.size = sizeof job.options;
        CHECK_OK(hr_train_options_parse(parity_text(run, "options"), &job.options, NULL));
        if (hri_train_run(&job, losses, &error) != HR_OK) {
            test_fail(__FILE__, __LINE__, "%s: %s", parity_text(run, "options"), error.message);
        }
        parity_compare(run, losses, PARITY_STEPS);
    }
    hri_threads_destroy(threads);
    hr_model_close(m);
    json_decref(record);
}

TEST(parity, mlp) {
    check_record("mlp");
}
TEST(parity, lenet) {
    check_record("lenet");
}
TEST_TIMEOUT(parity, resnet18, 240) {
    check_record("resnet18");
}
TEST(parity, unet) {
    check_record("unet");
}
TEST_TIMEOUT(parity, vit_tiny, 240) {
    check_record("vit-tiny");
}
TEST(parity, gpt2_nano) {
    check_record("gpt2-nano");
}
