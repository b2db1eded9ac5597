/* Parity with PyTorch: 20 steps of training from the same weights on the same batches give the same losses.
 *
 * parity/<model>.json holds what PyTorch had; tools/parity/make_losses.py makes it and says how weights and batches are
 * counted.  Every loss of every run is compared: at most 1e-4 of it apart in f32, 2e-2 in bf16. */
#include <headroom/headroom.h>

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/random.h"
#include "test.h"
#include "train/run.h"
#include "train/tensor_move.h"

enum { STEPS = 20, WEIGHT_NODE = 0x7fffff40 };

static uint64_t fnv1a(const char *text) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *text; text++) {
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    }
    return h;
}

/* Where element `i` of the file, (O, C, KH, KW) for convolutions, lies in memory, (KH, KW, C, O). */
static int64_t index_in_memory(const hr_shape *memory, int64_t i) {
    if (memory->rank != 4) {
        return i;
    }
    const int64_t kw = memory->dim[1], kh = memory->dim[0], c = memory->dim[2], o = memory->dim[3];
    const int64_t s = i % kw, r = i / kw % kh, k = i / kw / kh % c;
    return ((r * kw + s) * c + k) * o + i / kw / kh / c;
}

/* One parameter by the rule of the script; `i` counts in the layout of files. */
static void fill_weight(const char *name, const hr_shape *shape, float *out) {
    const uint64_t key = fnv1a(name);
    const hr_shape file = hri_file_shape(shape);
    const int64_t count = hr_shape_count(shape);
    const size_t length = strlen(name);
    const int gain = length >= 6 && !strcmp(name + length - 6, "weight");
    const float scale = (float)(1.0 / sqrt((double)(count / file.dim[0])));
    for (int64_t i = 0; i < count; i++) {
        const uint32_t word = hri_random_u32_of(key, 0, WEIGHT_NODE, 0, (uint64_t)i);
        const float u = (float)(word >> 8) * 0x1p-23f - 1.0f;
        float x = shape->rank > 1 ? u * scale : u / 8.0f;
        x = shape->rank == 1 && gain ? 1.0f + x : x;
        out[index_in_memory(shape, i)] = x;
    }
}

static hr_status begin(void *user, const hr_graph *g, hri_interp *it) {
    (void)user;
    for (hr_value v = 1; v <= hr_graph_value_count(g); v++) {
        if (hr_graph_kind(g, v) == HR_VALUE_PARAM) {
            const hr_shape shape = hr_graph_meta(g, v).shape;
            fill_weight(hr_graph_name(g, v), &shape, hri_interp_data(it, v));
        }
    }
    return HR_OK;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = NULL;
    CHECK_OK(hri_json_get_string(object, key, &text, NULL));
    return text;
}

static uint64_t number_of(const json_t *object, const char *key) {
    uint64_t number = 0;
    CHECK_OK(hri_json_get_u64(object, key, &number, NULL));
    return number;
}

static void compare(const json_t *run, const float *losses) {
    const char *options = text_of(run, "options");
    const double most = strstr(options, "precision=bf16") ? 2e-2 : 1e-4;
    const json_t *wanted = json_object_get(run, "losses");
    double worst = 0.0;
    CHECK_EQ(json_array_size(wanted), STEPS);
    for (size_t s = 0; s < STEPS; s++) {
        const double theirs = json_number_value(json_array_get(wanted, s));
        const double apart = fabs((double)losses[s] - theirs) / theirs;
        if (!(apart <= most)) {
            test_fail(__FILE__, __LINE__,
                      "%s, step %zu: the loss is %.7f and PyTorch's %.7f, %.1e apart", options, s,
                      (double)losses[s], theirs, apart);
        }
        worst = apart > worst ? apart : worst;
    }
    printf("    %s: at most %.1e apart\n", options, worst);
}

static void check_record(const char *name) {
    char path[512];
    json_t *record;
    hri_prose why = {""};
    hr_error error = {0};
    snprintf(path, sizeof path, HEADROOM_SOURCE "/tests/e2e/parity/%s.json", name);
    if (hri_json_load(path, NULL, &record, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.text);
    }
    hr_model *m;
    hri_threads *threads;
    CHECK_OK(hr_model_open(text_of(record, "model"), &m, NULL));
    CHECK_OK(hri_threads_create(2, &threads));
    const json_t *runs = json_object_get(record, "runs");
    CHECK_EQ(json_array_size(runs), 4);
    for (size_t i = 0; i < json_array_size(runs); i++) {
        const json_t *run = json_array_get(runs, i);
        hri_train_job job = {.build = hr_model_build,
                             .user = m,
                             .batch = (int64_t)number_of(record, "batch"),
                             .steps = STEPS,
                             .seed = number_of(record, "seed"),
                             .cycle = number_of(record, "cycle"),
                             .limit = (uint32_t)hr_model_classes(m),
                             .threads = threads,
                             .begin = begin};
        float losses[STEPS];
        CHECK_OK(hr_train_options_parse(text_of(run, "options"), &job.options, NULL));
        if (hri_train_run(&job, losses, &error) != HR_OK) {
            test_fail(__FILE__, __LINE__, "%s: %s", text_of(run, "options"), error.message);
        }
        compare(run, losses);
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
