/* From what the user calls data to samples in a model's inputs: which stages follow, what a model string is told, that a
 * split loses and doubles nothing, and what the objective adds. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "pictures.h"
#include "run/interpret.h"
#include "test.h"
#include "step/objective.h"
#include "loop/source.h"

static void input_of(const char *model, hri_model_input *out) {
    hr_model *m;
    hri_prose why = {""};
    CHECK_OK(hr_model_open(model, &m, NULL));
    CHECK_OK(hri_model_input_of(m, out, &why));
    hr_model_close(m);
}

/* A NumPy array of bytes. */
static void write_npy(const char *folder, const char *name, const char *shape, const char *type,
                      const void *data, size_t bytes) {
    static char file[1 << 20];
    char head[256];
    const int n = snprintf(head, sizeof head,
                           "{'descr': '%s', 'fortran_order': False, 'shape': "
                           "%s, }",
                           type, shape);
    const size_t padded = (size_t)(n + 10 + 1 + 63) / 64 * 64 - 10;
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (char)(padded & 255);
    file[9] = (char)(padded >> 8);
    memset(file + 10, ' ', padded);
    memcpy(file + 10, head, (size_t)n);
    file[10 + padded - 1] = '\n';
    CHECK(10 + padded + bytes <= sizeof file);
    memcpy(file + 10 + padded, data, bytes);
    test_write(folder, name, file, 10 + padded + bytes);
}

TEST(source, pictures_are_decoded_at_the_models_size_and_augmented_only_in_training) {
    const char *folder = test_folder();
    for (int i = 0; i < 4; i++) {
        size_t bytes;
        char name[32], text[512];
        unsigned char *jpeg = test_jpeg_of(20, 16, (uint64_t)i, NULL, &bytes);
        snprintf(name, sizeof name, "c%d/%d.jpg", i / 2, i);
        test_write(folder, name, jpeg, bytes);
        free(jpeg);
        snprintf(text, sizeof text, "images:%s", folder);
    }
    char src[300], model[128], said[64], text[HRI_SOURCE_TEXT + 512];
    hri_model_input want;
    hri_source s;
    hri_prose why = {""};
    snprintf(src, sizeof src, "images:%s", folder);
    input_of("resnet18:size=48", &want);
    CHECK_OK(hri_source_look(src, &want, &s, &why));
    CHECK(s.count == 4 && s.class_count == 2 && !strcmp(s.classes[1], "c1"));
    CHECK(s.width == 20 && s.height == 16);
    CHECK_OK(hri_source_fill_model("resnet18:size=48", &s, model, sizeof model, said, sizeof said,
                                   &why));
    CHECK_EQ(strcmp(model, "resnet18:size=48,classes=2"), 0);
    CHECK_EQ(strcmp(said, "classes=2"), 0);
    CHECK_OK(hri_source_fill_model("resnet18:classes=7", &s, model, sizeof model, said, sizeof said,
                                   &why));
    CHECK_EQ(strcmp(model, "resnet18:classes=7"), 0); /* what is said stays */
    const hri_source_use use = {.training = 1, .augment = "flip,crop", .seed = 3};
    CHECK_OK(hri_source_pipeline(&s, &want, &use, text, sizeof text, &why));
    CHECK(strstr(text, "| shuffle(seed=3) | decode(size=48x48") && strstr(text, "random_crop=on") &&
          strstr(text, "flip=on") && !strstr(text, "normalise"));
    hri_pixels pixels;
    hri_source_pixels(&s, &want, &pixels); /* the graph's business */
    CHECK(pixels.channels == 3 && pixels.mean[0] == 0.485 && pixels.std[2] == 0.225 &&
          !strcmp(pixels.name, "image"));
    CHECK_OK(hri_source_stages(&s, &want, NULL, text, sizeof text, &why));
    CHECK(!strstr(text, "random_crop") && !strstr(text, "flip") && strstr(text, "centre=1"));
    hri_source_deinit(&s);
    size_t bytes; /* images that differ have no size */
    unsigned char *jpeg = test_jpeg_of(20, 17, 9, NULL, &bytes);
    test_write(folder, "c0/other.jpg", jpeg, bytes);
    free(jpeg);
    CHECK_OK(hri_source_look(src, &want, &s, &why));
    CHECK(s.count == 5 && s.width == 0 && s.height == 0);
    hri_source_deinit(&s);
}

TEST(source, sources_made_to_measure_get_the_models_numbers_and_keep_the_users) {
    hri_model_input want;
    hri_source s;
    hri_prose why = {""};
    input_of("lenet:size=12,classes=4", &want);
    CHECK_OK(hri_source_look("synthetic:9", &want, &s, &why));
    CHECK(strstr(s.text, "classes=4") && strstr(s.text, "shape=12x12x1") && s.count == 9);
    hri_source_deinit(&s);
    CHECK_OK(hri_source_look("synthetic(5,classes=2)", &want, &s, &why));
    CHECK(strstr(s.text, "classes=2") && !strstr(s.text, "classes=4") && s.count == 5);
    hri_source_deinit(&s);
    CHECK_EQ(hri_source_look("range:5", &want, &s, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "rename()"));
    CHECK_EQ(hri_source_look("images:/nowhere", &want, &s, &why), HR_E_NOT_FOUND);
}

TEST(source, arrays_of_another_shape_are_refused_with_both_shapes) {
    const char *folder = test_folder();
    const float x[4 * 6] = {0};
    const int64_t y[4] = {0, 1, 2, 0};
    write_npy(folder, "x.npy", "(4, 6)", "<f4", x, sizeof x);
    write_npy(folder, "y.npy", "(4,)", "<i8", y, sizeof y);
    char src[600], text[512];
    hri_model_input want;
    hri_source s;
    hri_prose why = {""};
    snprintf(src, sizeof src, "npy:%s/x.npy,%s/y.npy", folder, folder);
    input_of("mlp:size=5,channels=1,classes=3", &want);
    CHECK_OK(hri_source_look(src, &want, &s, &why));
    CHECK_EQ(hri_source_stages(&s, &want, NULL, text, sizeof text, &why), HR_E_SHAPE);
    CHECK(strstr(why.text, "f32[6]") && strstr(why.text, "f32[5,5,1]"));
    input_of("mlp:size=1,channels=6,classes=3", &want);
    CHECK_OK(hri_source_stages(&s, &want, NULL, text, sizeof text, &why));
    CHECK_EQ(text[0], 0); /* nothing is to be done */
    hri_source_deinit(&s);
}

TEST(source, labels_that_the_model_needs_and_the_data_has_not_are_missed_at_once) {
    const char *folder = test_folder();
    const float x[4 * 6] = {0};
    const int32_t ids[4 * 8] = {0};
    char src[300];
    hri_model_input want;
    hri_source s;
    hri_prose why = {""};
    write_npy(folder, "x.npy", "(4, 6)", "<f4", x, sizeof x);
    write_npy(folder, "ids.npy", "(4, 8)", "<i4", ids, sizeof ids);
    snprintf(src, sizeof src, "npy:%s/x.npy", folder);
    input_of("mlp:size=1,channels=6,classes=3", &want);
    CHECK_OK(hri_source_look(src, &want, &s, &why));
    CHECK_STATUS(hri_source_check_labels(&s, &want, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "the data has no labels") && strstr(why.text, "npy:x.npy,y.npy"));
    hri_source_deinit(&s);
    /* one for each of three steps */
    const int64_t y[4] = {0, 1, 2, 0};
    char both[600];
    write_npy(folder, "y.npy", "(4,)", "<i8", y, sizeof y);
    write_npy(folder, "s.npy", "(4, 3, 2)", "<f4", x, sizeof x);
    snprintf(both, sizeof both, "npy:%s/s.npy,%s/y.npy", folder, folder);
    input_of("net: input(3x2) | dense(4)", &want);
    CHECK_OK(hri_source_look(both, &want, &s, &why));
    CHECK_STATUS(hri_source_check_labels(&s, &want, &why), HR_E_SHAPE);
    CHECK(strstr(why.text, "one label per sample, but the model expects 3"));
    hri_source_deinit(&s);
    input_of("net: input(3x2) | flatten | dense(4)", &want);
    CHECK_OK(hri_source_look(both, &want, &s, &why));
    CHECK_OK(hri_source_check_labels(&s, &want, &why));
    hri_source_deinit(&s);
    /* a text is its own label: the next token */
    snprintf(src, sizeof src, "npy(%s/ids.npy,names=tokens)", folder);
    input_of("gpt2:layers=1,heads=1,width=8,context=8,vocab=16", &want);
    CHECK_OK(hri_source_look(src, &want, &s, &why));
    CHECK_OK(hri_source_check_labels(&s, &want, &why));
    hri_source_deinit(&s);
}

TEST(source, pictures_of_numbers_are_not_scaled_and_a_column_of_labels_has_classes) {
    const char *folder = test_folder();
    const float x[3 * 3 * 5 * 5] = {0};
    const int64_t y[3] = {0, 1, 1};
    write_npy(folder, "x.npy", "(3, 3, 5, 5)", "<f4", x, sizeof x); /* channels first */
    write_npy(folder, "y.npy", "(3, 1)", "<i8", y, sizeof y);
    char src[600], text[512];
    hri_model_input want;
    hri_source s;
    hri_prose why = {""};
    input_of("lenet:size=12,channels=5,classes=2", &want);
    snprintf(src, sizeof src, "npy:%s/x.npy,%s/y.npy", folder, folder);
    CHECK_OK(hri_source_look(src, &want, &s, &why));
    CHECK_EQ(s.class_count, 2);
    CHECK_EQ(hri_source_stages(&s, &want, NULL, text, sizeof text, &why), HR_E_SHAPE);
    CHECK(strstr(why.text, "f32[3,5,5], but the model expects f32[12,12,5], height x width"));
    hri_source_deinit(&s);
}

TEST(source, an_image_field_keeps_its_name_behind_the_stages) {
    const char *folder = test_folder();
    const float x[2 * 4 * 4 * 3] = {0};
    write_npy(folder, "x.npy", "(2, 4, 4, 3)", "<f4", x, sizeof x);
    char src[600], text[512];
    hri_model_input want;
    hri_source s;
    hri_prose why = {""};
    const int64_t y[2] = {0, 1};
    write_npy(folder, "y.npy", "(2,)", "<i8", y, sizeof y);
    snprintf(src, sizeof src, "npy(%s/x.npy,%s/y.npy,names=picture,label)", folder, folder);
    input_of("mlp:size=4,channels=3,classes=3", &want);
    snprintf(want.name, sizeof want.name, "picture");
    CHECK_OK(hri_source_look(src, &want, &s, &why));
    CHECK_OK(hri_source_stages(&s, &want, NULL, text, sizeof text, &why));
    CHECK_STR(text, "");
    CHECK_OK(hri_source_stages(&s, &want, "flip", text, sizeof text, &why));
    CHECK_STR(text, " | rename(picture,to=image) | flip | rename(image,to=picture)");
    hri_source_deinit(&s);
}

TEST(source, a_split_loses_nothing_and_doubles_nothing) {
    enum { N = 41, VALIDATION = 9 };
    const char *folder = test_folder();
    float x[N];
    int64_t y[N];
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = i % 3;
    }
    write_npy(folder, "x.npy", "(41, 1)", "<f4", x, sizeof x);
    write_npy(folder, "y.npy", "(41,)", "<i8", y, sizeof y);
    char src[600], text[HRI_SOURCE_TEXT + 512];
    hri_model_input want;
    hri_source s;
    hri_prose why = {""};
    snprintf(src, sizeof src, "npy:%s/x.npy,%s/y.npy", folder, folder);
    input_of("mlp:size=1,channels=1,classes=3", &want);
    CHECK_OK(hri_source_look(src, &want, &s, &why));
    int seen[N] = {0}, of_validation = 0;
    for (int part = 0; part < 2; part++) {
        const hri_source_use use = {.training = part,
                                    .seed = 11,
                                    .part_first = part ? VALIDATION : 0,
                                    .part_count = part ? N - VALIDATION : VALIDATION};
        hr_pipeline *p;
        hr_element *e;
        const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 1 << 20, .workers = 1};
        CHECK_OK(hri_source_pipeline(&s, &want, &use, text, sizeof text, &why));
        CHECK_OK(hr_pipeline_open(&o, text, NULL, &p));
        for (int epoch = 0; epoch < 2; epoch++) {
            while (hr_pipeline_next(p, &e) == HR_OK) {
                const int i = (int)*(const float *)hr_element_find(e, "x")->data;
                CHECK(i >= 0 && i < N && (seen[i] & ~(1 << part)) == 0);
                seen[i] |= 1 << part;
                of_validation += part == 0 && epoch == 0;
                hr_element_unref(e);
            }
            CHECK_OK(hr_pipeline_rewind(p));
        }
        hr_pipeline_destroy(p);
    }
    for (int i = 0; i < N; i++) {
        CHECK(seen[i] == 1 || seen[i] == 2);
    }
    CHECK_EQ(of_validation, VALIDATION);
    hri_source_deinit(&s);
}

/* One step on made-up numbers: what a result is. */
static float result_of(const hri_objective *o, hr_step_kind kind, const char *name) {
    hr_train_options options = {.size = sizeof options};
    hr_graph *g;
    hri_interp *it;
    CHECK_OK(hr_train_options_parse("optimizer=sgd", &options, NULL));
    CHECK_OK(hr_step_build(&options, hri_objective_build, (void *)(uintptr_t)o, kind, 6, &g, NULL));
    CHECK_OK(hri_interp_create(g, NULL, 1, &it));
    float *image = hri_interp_data(it, hr_graph_find(g, "image"));
    int32_t *label = hri_interp_data(it, hr_graph_find(g, "label"));
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 16; k++) {
            image[i * 16 + k] = sinf((float)(i * 16 + k));
        }
        label[i] = i;
    }
    const hr_value rate = hr_graph_find(g, "train.rate");
    if (rate != HR_NONE) {
        *(float *)hri_interp_data(it, rate) = 0;
    }
    CHECK_OK(hri_interp_run(it, 0, NULL));
    const hr_value v = hr_graph_find(g, name);
    const float is = v != HR_NONE ? *(float *)hri_interp_data(it, v) : NAN;
    hri_interp_destroy(it);
    hr_graph_destroy(g);
    return is;
}

TEST(objective, adds_accuracies_and_smooths_the_loss_of_training_alone) {
    hr_model *m;
    CHECK_OK(hr_model_open("mlp:size=4,channels=1,width=8,classes=7", &m, NULL));
    const hri_objective plain = {.build = hr_model_build, .user = m};
    const hri_objective smooth = {.build = hr_model_build, .user = m, .smoothing = 0.2};
    const float accuracy = result_of(&plain, HR_STEP_WHOLE, "accuracy");
    CHECK(accuracy >= 0 && accuracy <= 1);
    CHECK(result_of(&plain, HR_STEP_EVALUATE, "accuracy") == accuracy);
    CHECK(result_of(&plain, HR_STEP_WHOLE, "top5") >= accuracy);
    const float loss = result_of(&plain, HR_STEP_WHOLE, "loss");
    CHECK(result_of(&smooth, HR_STEP_WHOLE, "loss") != loss);
    CHECK(result_of(&smooth, HR_STEP_EVALUATE, "loss") ==
          result_of(&plain, HR_STEP_EVALUATE, "loss"));
    hr_model_close(m);
    CHECK_OK(hr_model_open("mlp:size=4,channels=1,width=8,classes=6", &m, NULL));
    const hri_objective few = {.build = hr_model_build, .user = m};
    CHECK(!isnan(result_of(&few, HR_STEP_WHOLE, "top5")));
    hr_model_close(m);
}

TEST(source, a_stage_is_not_found_in_a_path) {
    static const struct {
        const char *text;
        bool there;
    } rows[] = {
        {"images:shuffled/pictures", false},
        {"images:my shuffle | decode(8)", false},
        {"images:set | shuffle_more", false},
        {"images:set | shuffle", true},
        {"images:set|shuffle(seed=3) | take(4)", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        hri_source s = {.count = 1};
        snprintf(s.text, sizeof s.text, "%s", rows[i].text);
        CHECK_EQ(hri_source_has_stage(&s, "shuffle"), rows[i].there);
    }
}
