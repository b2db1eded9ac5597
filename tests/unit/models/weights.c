/* Weights in files: what is saved is loaded, convolutions are turned, and every file that does not fit is told why. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/interpret.h"
#include "test.h"
#include "weights/safetensors.h"

/* A built model with its memory. */
typedef struct rig {
    hr_model *m;
    hr_graph *g;
    hri_interp *it;
} rig;

static rig rig_make(const char *text, uint64_t seed) {
    rig r;
    CHECK_OK(hr_model_open(text, &r.m, NULL));
    CHECK_OK(hr_graph_create(&r.g));
    CHECK_OK(hr_model_build(r.m, r.g, 2, 1));
    CHECK_OK(hr_graph_freeze(r.g));
    CHECK_OK(hri_interp_create(r.g, NULL, seed, &r.it));
    return r;
}

static void rig_end(rig *r) {
    hri_interp_destroy(r->it);
    hr_graph_destroy(r->g);
    hr_model_close(r->m);
}

static float *data(rig *r, const char *name) {
    return hri_interp_data(r->it, hr_graph_find(r->g, name));
}

static hr_weights_options options(rig *r) {
    return (hr_weights_options){.size = sizeof(hr_weights_options),
                                .get = hri_interp_get,
                                .put = hri_interp_put,
                                .user = r->it};
}

static char path[64];
static const char *temporary(void) {
    snprintf(path, sizeof path, "/tmp/headroom-weights-%d", (int)getpid());
    return path;
}

/* Whether all weights are the same bits. */
static int same(rig *a, rig *b) {
    for (hr_value v = 1; v <= hr_graph_value_count(a->g); v++) {
        const hr_meta meta = hr_graph_meta(a->g, v);
        if ((hr_graph_kind(a->g, v) == HR_VALUE_PARAM ||
             hr_graph_kind(a->g, v) == HR_VALUE_STATE) &&
            memcmp(hri_interp_data(a->it, v), hri_interp_data(b->it, v), hr_meta_bytes(&meta))) {
            return 0;
        }
    }
    return 1;
}

static void round_trip(const char *text) {
    rig a = rig_make(text, 1), b = rig_make(text, 2);
    const hr_weights_options oa = options(&a), ob = options(&b);
    CHECK(!same(&a, &b));
    CHECK_OK(hr_model_save(a.m, a.g, temporary(), &oa, NULL));
    CHECK_OK(hr_model_load(b.m, b.g, path, &ob, NULL));
    CHECK(same(&a, &b));
    unlink(path);
    rig_end(&a);
    rig_end(&b);
}

TEST(weights, every_family_loads_what_it_saved) {
    round_trip("mlp:width=16");
    round_trip("lenet");
    round_trip("resnet50:width=4,size=32");
    round_trip("unet:width=4,size=16");
    round_trip("gpt2-nano");
    round_trip("bert-nano");
    round_trip("bert-nano:classes=3");
    round_trip("lstm-nano:layers=2,both=on,classes=3");
    round_trip("vit-tiny:width=24,layers=2,size=32");
}

TEST(weights, a_convolution_lies_in_the_file_as_torch_has_it) {
    rig r = rig_make("lenet", 3);
    const hr_weights_options o = {.size = sizeof o,
                                  .get = hri_interp_get,
                                  .put = hri_interp_put,
                                  .user = r.it,
                                  .type = HR_TYPE_F32};
    hri_tensors t;
    float file[16 * 6 * 5 * 5];
    CHECK_OK(hr_model_save(r.m, r.g, temporary(), &o, NULL));
    CHECK_OK(hri_tensors_open(path, &t, NULL));
    const hri_tensor *w = hri_tensors_find(&t, "conv2.weight");
    CHECK_EQ(w->shape.dim[0], 16);
    CHECK_EQ(w->shape.dim[1], 6);
    CHECK_OK(hri_tensors_read(&t, w, 0, 16 * 6 * 5 * 5, HR_TYPE_F32, file, NULL));
    const float *ours = data(&r, "conv2.weight");
    CHECK(file[((3 * 6 + 4) * 5 + 1) * 5 + 2] == ours[((1 * 5 + 2) * 6 + 4) * 16 + 3]);
    hri_tensors_close(&t);
    unlink(path);
    rig_end(&r);
}

TEST(weights, batch_norms_keep_their_statistics_and_count_steps) {
    rig a = rig_make("resnet18:width=4,size=32", 1);
    hr_weights_options o = options(&a);
    hri_tensors t;
    int64_t steps = 0;
    o.steps = 1234;
    o.type = HR_TYPE_BF16;
    data(&a, "bn1.running_mean")[1] = 0.1f;
    CHECK_OK(hr_model_save(a.m, a.g, temporary(), &o, NULL));
    CHECK_OK(hri_tensors_open(path, &t, NULL));
    CHECK_STR(hri_tensors_find(&t, "bn1.running_mean")->dtype, "F32");
    CHECK_STR(hri_tensors_find(&t, "bn1.weight")->dtype, "BF16");
    CHECK_OK(hri_tensors_read(&t, hri_tensors_find(&t, "layer4.1.bn2.num_batches_tracked"), 0, 1,
                              HR_TYPE_I64, &steps, NULL));
    CHECK_EQ(steps, 1234);
    hri_tensors_close(&t);
    rig b = rig_make("resnet18:width=4,size=32", 2);
    o = options(&b);
    CHECK_OK(hr_model_load(b.m, b.g, path, &o, NULL));
    CHECK(data(&b, "bn1.running_mean")[1] == 0.1f);
    CHECK(fabsf(data(&b, "conv1.weight")[5] - data(&a, "conv1.weight")[5]) < 0.01f);
    unlink(path);
    rig_end(&a);
    rig_end(&b);
}

/* Loading into `text` fails in that way, and no weight has changed. */
static void check_refused(const char *text, int check, hr_status status, const char *part) {
    rig r = rig_make(text, 5), same_seed = rig_make(text, 5);
    hr_weights_options o = options(&r);
    hr_error why = {0};
    o.check = check;
    CHECK_STATUS(hr_model_load(r.m, r.g, path, &o, &why), status);
    CHECK_EQ(why.code, status);
    if (!strstr(why.message, part)) {
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", why.message, part);
    }
    CHECK(same(&r, &same_seed));
    rig_end(&r);
    rig_end(&same_seed);
}

TEST(weights, files_of_other_models_are_refused_before_anything_is_loaded) {
    rig r = rig_make("mlp:width=16", 1);
    hr_weights_options o = options(&r);
    CHECK_OK(hr_model_save(r.m, r.g, temporary(), &o, NULL));
    check_refused("mlp:width=16,layers=3", 0, HR_E_NOT_FOUND, "tensor layers.2.weight is missing");
    check_refused("mlp:width=16,layers=1", 0, HR_E_EXISTS, "tensor layers.1.");
    check_refused("mlp:width=17", 0, HR_E_SHAPE, "(16, 784), but mlp expects (17, 784)");
    check_refused("resnet18:width=4,size=32", 0, HR_E_NOT_FOUND, "conv1.weight is missing");
    CHECK_EQ(truncate(path, 5000), 0);
    check_refused("mlp:width=16", 0, HR_E_FORMAT, "but the file has only");
    unlink(path);
    check_refused("mlp:width=16", 0, HR_E_NOT_FOUND, path);
    rig_end(&r);
}

TEST(weights, what_is_not_finite_is_refused_when_asked) {
    rig r = rig_make("lenet", 1);
    hr_weights_options o = options(&r);
    data(&r, "fc3.bias")[7] = NAN;
    CHECK_OK(hr_model_save(r.m, r.g, temporary(), &o, NULL));
    check_refused("lenet", 1, HR_E_RANGE, "tensor fc3.bias: element 7 is not a number");
    CHECK_OK(hr_model_load(r.m, r.g, path, &o, NULL));
    unlink(path);
    rig_end(&r);
}

TEST(weights, a_place_that_cannot_be_written_leaves_the_old_file) {
    rig r = rig_make("lenet", 1);
    hr_weights_options o = options(&r);
    hr_error why = {0};
    CHECK_STATUS(hr_model_save(r.m, r.g, "/tmp/headroom-no-such-folder/x", &o, &why),
                 HR_E_NOT_FOUND);
    CHECK(strstr(why.message, "headroom-no-such-folder") != NULL);
    o.type = HR_TYPE_I32;
    CHECK_STATUS(hr_model_save(r.m, r.g, temporary(), &o, &why), HR_E_INVALID);
    rig_end(&r);
}

/* A file as Hugging Face's newer ones: names behind a prefix, the mask and the tied head beside them. */
TEST(weights, gpt2_files_with_a_prefix_and_masks_are_loaded) {
    rig a = rig_make("gpt2-nano", 1), b = rig_make("gpt2-nano", 2);
    hri_tensor_plan plan[64];
    char names[64][80];
    size_t count = 0;
    for (hr_value v = 1; v <= hr_graph_value_count(a.g); v++) {
        if (hr_graph_kind(a.g, v) == HR_VALUE_PARAM) {
            snprintf(names[count], sizeof names[0], "transformer.%s", hr_graph_name(a.g, v));
            plan[count] = (hri_tensor_plan){names[count], hr_graph_meta(a.g, v)};
            count++;
        }
    }
    plan[count] = (hri_tensor_plan){"lm_head.weight", plan[0].meta};
    plan[count + 1] =
        (hri_tensor_plan){"transformer.h.0.attn.bias", {HR_TYPE_U8, hr_shape_2(4, 4)}};
    hri_tensors_writer w;
    CHECK_OK(hri_tensors_create(&w, temporary(), plan, count + 2, NULL, NULL));
    for (size_t i = 0; i < count; i++) {
        const hr_shape shape = plan[i].meta.shape;
        CHECK_OK(hri_tensors_write(&w, data(&a, names[i] + strlen("transformer.")),
                                   (uint64_t)hr_shape_count(&shape), HR_TYPE_F32, HR_TYPE_F32,
                                   NULL));
    }
    const hr_shape head = plan[0].meta.shape;
    CHECK_OK(hri_tensors_write(&w, data(&a, "wte.weight"), (uint64_t)hr_shape_count(&head),
                               HR_TYPE_F32, HR_TYPE_F32, NULL));
    CHECK_OK(hri_tensors_write(&w, "0123456789abcdef", 16, HR_TYPE_U8, HR_TYPE_U8, NULL));
    CHECK_OK(hri_tensors_commit(&w, NULL));
    const hr_weights_options o = options(&b);
    CHECK_OK(hr_model_load(b.m, b.g, path, &o, NULL));
    CHECK(same(&a, &b));
    unlink(path);
    rig_end(&a);
    rig_end(&b);
}
