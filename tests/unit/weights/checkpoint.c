/* Checkpoints: what is saved comes back to the bit; what is damaged or another's is refused before anything changes. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "graph/graph.h"
#include "run/interpret.h"
#include "test.h"
#include "weights/checkpoint.h"

typedef struct rig {
    hr_model *model;
    hr_graph *g;
    hri_interp *it;
    hri_values values;
} rig;

static rig rig_open(const char *text, const char *options, hr_step_kind kind, uint64_t seed) {
    rig r = {0};
    hr_train_options o = {.size = sizeof o};
    CHECK_OK(hr_model_open(text, &r.model, NULL));
    CHECK_OK(hr_train_options_parse(options, &o, NULL));
    CHECK_OK(hr_step_build(&o, hr_model_build, r.model, kind, 2, &r.g, NULL));
    CHECK_OK(hri_interp_create(r.g, NULL, seed, &r.it));
    r.values = (hri_values){.get = hri_interp_get, .put = hri_interp_put, .user = r.it};
    return r;
}

static void rig_close(rig *r) {
    hri_interp_destroy(r->it);
    hr_graph_destroy(r->g);
    hr_model_close(r->model);
}

/* Numbers that tell every persistent value apart. */
static void scramble(rig *r, float by) {
    for (hr_value v = 1; v < r->g->value_count; v++) {
        if (hri_keep_of(r->g, v) != HR_KEEP_NOT) {
            float *x = hri_interp_data(r->it, v);
            for (int64_t i = 0; i < hr_shape_count(&r->g->values[v].meta.shape); i++) {
                x[i] = by * (float)v + (float)i;
            }
        }
    }
}

static int same(const rig *a, const rig *b, hr_keep keep) {
    for (hr_value v = 1; v < a->g->value_count; v++) {
        const hr_value w =
            hri_keep_of(a->g, v) == keep ? hr_graph_find(b->g, a->g->values[v].name) : HR_NONE;
        if (w != HR_NONE && memcmp(hri_interp_data(a->it, v), hri_interp_data(b->it, w),
                                   hr_meta_bytes(&a->g->values[v].meta))) {
            return 0;
        }
    }
    return 1;
}

static char folder[64];
static char *in_folder(const char *name) {
    static char path[128];
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "/tmp/headroom-checkpoint-XXXXXX");
        CHECK(mkdtemp(folder));
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void clean(void) {
    unlink(in_folder("last.safetensors"));
    unlink(in_folder("best.safetensors"));
    rmdir(folder);
}

static const hri_fact facts[] = {{"--batch", "8"}, {"--rate", "0.01"}, {"device", "host"}};
static const char *const classes[] = {"rose", "tulip \"red\""};

static hr_status save(const rig *r, const char *name, int whole, hri_prose *why) {
    const hri_about about = {
        .model = hr_model_text(r->model),
        .precision = "f32",
        .source = "images:flowers",
        .pixels = {.channels = 3, .mean = {0.25, 0.5, 0.75}, .std = {1, 2, 3}},
        .split = {.fraction = 0.25, .seed = 3, .val_count = 5, .train_count = 15},
        .run = facts,
        .run_count = 2,
        .environment = facts + 2,
        .environment_count = 1,
        .input = "image",
        .classes = classes,
        .class_count = 2};
    const hri_progress_state progress = {
        .state = {.step = 7, .updates = 6, .scale = 0x1p15},
        .epoch = 2,
        .loss_sum = 1.0 / 3,
        .best = NAN,
        .digest = UINT64_C(0xfedcba9876543210),
    };
    const hri_checkpoint_write w = {.g = r->g,
                                    .from = &r->values,
                                    .about = &about,
                                    .progress = whole ? &progress : NULL,
                                    .input = "place",
                                    .input_bytes = whole ? 5 : 0};
    return hri_checkpoint_save(in_folder(name), &w, why);
}

static const char model[] = "resnet18:size=16,width=4,classes=2";

TEST(checkpoint, a_whole_one_brings_back_every_bit_and_number) {
    rig a = rig_open(model, "optimizer=adam", HR_STEP_WHOLE, 1);
    rig b = rig_open(model, "optimizer=adam", HR_STEP_LAST, 2); /* sums of parts are no matter */
    hri_checkpoint c;
    hri_prose why = {""};
    scramble(&a, 0.125f);
    CHECK_OK(save(&a, "last.safetensors", 1, &why));
    CHECK_OK(hri_checkpoint_open(folder, &c, &why)); /* without a best one the last is taken */
    CHECK(!same(&a, &b, HR_KEEP_MODEL) && !same(&a, &b, HR_KEEP_OPTIMIZER));
    CHECK_OK(hri_checkpoint_load(&c, b.g, &b.values, HRI_CHECKPOINT_WHOLE, &why));
    CHECK(same(&a, &b, HR_KEEP_MODEL) && same(&a, &b, HR_KEEP_OPTIMIZER));
    CHECK(c.whole && c.progress.state.step == 7 && c.progress.state.updates == 6);
    CHECK(c.progress.state.scale == 0x1p15 && c.progress.epoch == 2 && isnan(c.progress.best));
    CHECK(c.progress.loss_sum == 1.0 / 3 && c.progress.digest == UINT64_C(0xfedcba9876543210));
    CHECK(c.about.run_count == 2 && !strcmp(c.about.run[1].name, "--rate"));
    CHECK(c.about.environment_count == 1 && !strcmp(c.about.environment[0].value, "host"));
    CHECK(c.about.split.fraction == 0.25 && c.about.split.seed == 3);
    CHECK(c.about.split.val_count == 5 && c.about.split.train_count == 15);
    CHECK_EQ(strcmp(c.about.model, hr_model_text(a.model)), 0);
    CHECK(c.about.class_count == 2 && !strcmp(c.about.classes[1], classes[1]));
    CHECK(c.about.pixels.channels == 3 && c.about.pixels.mean[2] == 0.75);
    CHECK(c.about.pixels.std[1] == 2 && !strcmp(c.about.pixels.name, "image"));
    void *place;
    size_t bytes;
    CHECK_OK(hri_checkpoint_input(&c, &place, &bytes, &why));
    CHECK(bytes == 5 && !memcmp(place, "place", 5));
    hri_free(place);
    hri_checkpoint_close(&c);
    rig_close(&a);
    rig_close(&b);
    clean();
}

TEST(checkpoint, a_band_of_one_column_turns_weights_like_the_whole) {
    rig a = rig_open(model, "optimizer=sgd", HR_STEP_WHOLE, 1);
    rig b = rig_open(model, "optimizer=sgd", HR_STEP_WHOLE, 2);
    hri_checkpoint c;
    hri_prose why = {""};
    scramble(&a, 0.25f);
    a.values.buffer_bytes = 1; /* so small that each column goes alone */
    CHECK_OK(save(&a, "last.safetensors", 1, &why));
    CHECK_OK(hri_checkpoint_open(folder, &c, &why));
    CHECK_OK(hri_checkpoint_load(&c, b.g, &b.values, HRI_CHECKPOINT_WHOLE, &why));
    CHECK(same(&a, &b, HR_KEEP_MODEL) && same(&a, &b, HR_KEEP_OPTIMIZER));
    scramble(&b, 0.75f);
    CHECK(!same(&a, &b, HR_KEEP_MODEL));
    b.values.buffer_bytes = 1;
    CHECK_OK(hri_checkpoint_load(&c, b.g, &b.values, HRI_CHECKPOINT_WHOLE, &why));
    CHECK(same(&a, &b, HR_KEEP_MODEL) && same(&a, &b, HR_KEEP_OPTIMIZER));
    hri_checkpoint_close(&c);
    rig_close(&a);
    rig_close(&b);
    clean();
}

TEST(checkpoint, the_best_one_has_weights_alone_that_strict_loaders_take) {
    rig a = rig_open(model, "optimizer=adam", HR_STEP_WHOLE, 1);
    rig b = rig_open(model, "optimizer=sgd", HR_STEP_EVALUATE, 2);
    hri_checkpoint c;
    hri_prose why = {""};
    hr_error error = {0};
    scramble(&a, 0.5f);
    CHECK_OK(save(&a, "last.safetensors", 1, &why));
    CHECK_OK(save(&a, "best.safetensors", 0, &why));
    CHECK_OK(hri_checkpoint_open(folder, &c, &why));
    CHECK(!c.whole && strstr(c.path, "best"));
    CHECK_OK(hri_checkpoint_load(&c, b.g, &b.values, HRI_CHECKPOINT_WEIGHTS, &why));
    CHECK(same(&a, &b, HR_KEEP_MODEL));
    CHECK_EQ(hri_checkpoint_load(&c, a.g, &a.values, HRI_CHECKPOINT_WHOLE, &why), HR_E_INVALID);
    CHECK(strstr(why.text, "parameters only"));
    hri_checkpoint_close(&c);
    const hr_weights_options o = {
        .size = sizeof o, .put = hri_interp_put, .user = b.it, .check = 1};
    CHECK_OK(hr_model_load(b.model, b.g, in_folder("best.safetensors"), &o, &error));
    rig_close(&a);
    rig_close(&b);
    clean();
}

TEST(checkpoint, of_another_model_or_cut_short_it_is_refused_and_nothing_changes) {
    rig a = rig_open(model, "optimizer=sgd", HR_STEP_WHOLE, 1);
    rig b = rig_open("resnet18:size=16,width=8,classes=2", "optimizer=sgd", HR_STEP_WHOLE, 2);
    rig untouched =
        rig_open("resnet18:size=16,width=8,classes=2", "optimizer=sgd", HR_STEP_WHOLE, 2);
    hri_checkpoint c;
    hri_prose why = {""};
    CHECK_OK(save(&a, "last.safetensors", 1, &why));
    CHECK_OK(hri_checkpoint_open(in_folder("last.safetensors"), &c, &why));
    CHECK_EQ(hri_checkpoint_load(&c, b.g, &b.values, HRI_CHECKPOINT_WHOLE, &why), HR_E_SHAPE);
    CHECK(same(&b, &untouched, HR_KEEP_MODEL));
    hri_checkpoint_close(&c);
    struct stat info;
    CHECK_EQ(stat(in_folder("last.safetensors"), &info), 0);
    for (off_t size = 0; size < info.st_size; size += info.st_size / 50 + 1) {
        CHECK_EQ(truncate(in_folder("last.safetensors"), size), 0);
        CHECK_EQ(hri_checkpoint_open(in_folder("last.safetensors"), &c, &why), HR_E_FORMAT);
        CHECK_OK(save(&a, "last.safetensors", 1, &why));
    }
    CHECK_EQ(hri_checkpoint_open(in_folder("none"), &c, &why), HR_E_NOT_FOUND);
    rig_close(&a);
    rig_close(&b);
    rig_close(&untouched);
    clean();
}
