/* A budget changed the mathematics where labels are ignored: parts, batches of a validation and of an eval were weighted by
 * their samples, while a loss is the mean over the labels that count.  1.3087 whole, 1.1712 in 8 parts. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "pictures.h"
#include "program.h"
#include "run/interpret.h"
#include "test.h"
#include "loop/run.h"
#include "step/share.h"

enum { SAMPLES = 48, PIXELS = 16 };
#define MODEL "mlp:size=4,width=8,layers=1,classes=3"
#define FAKE  "LD_LIBRARY_PATH=" FAKECUDA_ROOT "/fakecuda"

/* ---- data ---- */

static void write_npy(const char *name, const char *type, const char *shape, const void *data,
                      size_t bytes) {
    char path[400], head[128], text[118];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", type,
             shape);
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    memset(head + 10, ' ', 117);
    memcpy(head + 10, text, strlen(text));
    head[127] = '\n';
    CHECK(fwrite(head, 1, 128, f) == 128 && fwrite(data, 1, bytes, f) == bytes);
    fclose(f);
}

/* Half of the labels do not count, and none of the last quarter. */
static int32_t label_at(uint64_t i, uint64_t all, int32_t classes) {
    const uint64_t r = hri_hash_u64(i + 77);
    return r % 2 || i >= all * 3 / 4 ? -1 : (int32_t)(r / 2 % (uint64_t)classes);
}

static void write_data(void) {
    float x[SAMPLES * PIXELS];
    int32_t y[SAMPLES], none[SAMPLES];
    for (uint64_t i = 0; i < SAMPLES * PIXELS; i++) {
        x[i] = (float)(hri_hash_u64(i) % 2000) / 1000.0f - 1.0f;
    }
    for (uint64_t i = 0; i < SAMPLES; i++) {
        y[i] = label_at(i, SAMPLES, 3);
        none[i] = -1;
    }
    write_npy("x.npy", "<f4", "48, 4, 4, 1", x, sizeof x);
    write_npy("y.npy", "<i4", "48,", y, sizeof y);
    write_npy("none.npy", "<i4", "48,", none, sizeof none);
}

static double loss_of(const char *environment, const char *flags) {
    const program_options o = {.environment = environment};
    program_outcome r = program_run(&o,
                                    "train " MODEL " --data npy:x.npy,y.npy --steps 4 --no-save "
                                    "--rate 0.1 --json %s",
                                    flags);
    program_expect(&r, 0, NULL);
    const double loss = program_number(&r, "loss");
    program_end(&r);
    CHECK(isfinite(loss) && loss > 0);
    return loss;
}

static void check_near(double is, double want, double tolerance, const char *what) {
    test_count_check();
    if (!(fabs(is - want) <= tolerance * fabs(want))) {
        test_fail(__FILE__, __LINE__, "%s: %.9g, the batch at once gives %.9g", what, is, want);
    }
}

/* ---- training ---- */

TEST_TIMEOUT(f11_02, parts_give_the_loss_of_the_whole_batch_with_every_optimizer, 120) {
    static const struct {
        const char *flags;
        double tolerance;
    } rows[] = {{"--optimizer sgd", 1e-5},
                {"--optimizer sgd --options momentum=0", 1e-5},
                {"--optimizer sgd --clip 0.3", 1e-5},
                {"--optimizer adamw", 1e-4},
                {"--optimizer rmsprop", 1e-4},
                {"--precision bf16", 2e-3},
                {"--precision f16", 5e-4}};
    write_data();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char flags[200];
        snprintf(flags, sizeof flags, "--batch 48 --micro-batches 1 %s", rows[i].flags);
        const double whole = loss_of(NULL, flags);
        for (int parts = 3; parts <= 48; parts *= 4) {
            snprintf(flags, sizeof flags, "--batch 48 --micro-batches %d %s", parts, rows[i].flags);
            check_near(loss_of(NULL, flags), whole, rows[i].tolerance, flags);
        }
    }
}

TEST_TIMEOUT(f11_02, accumulation_gives_the_loss_of_the_whole_batch, 60) {
    write_data();
    const double whole = loss_of(NULL, "--batch 24 --micro-batches 1");
    check_near(loss_of(NULL, "--batch 6 --accumulate 4"), whole, 1e-5, "6 x 4");
    check_near(loss_of(NULL, "--batch 1 --accumulate 24"), whole, 1e-5, "1 x 24");
}

TEST_TIMEOUT(f11_02, parts_on_a_gpu_give_the_loss_of_the_whole_batch, 240) {
    write_data();
    const double whole = loss_of(FAKE, "--device cuda:0 --batch 48 --micro-batches 1");
    check_near(loss_of(FAKE, "--device cuda:0 --batch 48 --micro-batches 6"), whole, 1e-5, "6");
    check_near(loss_of(NULL, "--batch 48 --micro-batches 6"), whole, 1e-4, "the host");
}

/* ---- validation, eval ---- */

TEST_TIMEOUT(f11_02, validation_and_eval_do_not_depend_on_their_batches, 120) {
    double first[2] = {0};
    static const int batches[] = {1, 5, 48};
    write_data();
    for (int i = 0; i < 3; i++) {
        program_outcome r = program_run(
            NULL,
            "train " MODEL " --data npy:x.npy,y.npy --val-data npy:x.npy,y.npy --batch 16 "
            "--epochs 2 --val-batch %d --out run%d --json",
            batches[i], i);
        program_expect(&r, 0, NULL);
        const double val = program_number(&r, "val_loss");
        program_end(&r);
        r = program_run(NULL, "eval run0 --data npy:x.npy,y.npy --batch %d --json", batches[i]);
        program_expect(&r, 0, NULL);
        const double loss = program_number(&r, "loss"), right = program_number(&r, "accuracy");
        program_end(&r);
        first[0] = i ? first[0] : val;
        first[1] = i ? first[1] : right;
        check_near(val, first[0], 1e-6, "val_loss");
        check_near(loss, first[0], 1e-6, "eval's loss");
        check_near(right, first[1], 1e-6, "eval's accuracy");
    }
    program_outcome r = program_run(NULL, "eval run0 --data npy:x.npy,none.npy --json");
    program_expect(&r, 2, "all labels are negative");
    program_end(&r);
}

TEST_TIMEOUT(f11_02, nothing_that_counts_is_no_nan, 60) {
    write_data();
    program_outcome r = program_run(
        NULL, "train " MODEL " --data npy:x.npy,none.npy --batch 48 --steps 3 --no-save "
              "--micro-batches 4 --json");
    program_expect(&r, 0, NULL);
    program_end(&r);
}

/* ---- labels for every token and pixel ---- */

static hr_status build_model(void *user, hr_graph *g, int64_t batch, int training) {
    return hr_model_build(user, g, batch, training);
}

/* Labels of which the first half of each odd sample and all of the last sample do not count. */
static int fill_labels(void *user, const char *name, const hr_meta *meta, uint64_t step,
                       uint32_t first_sample, void *out) {
    const int64_t samples = meta->shape.dim[0], each = hr_shape_count(&meta->shape) / samples;
    (void)user;
    if (strcmp(name, "label") != 0) {
        return 0;
    }
    for (int64_t s = 0; s < samples; s++) {
        const int64_t sample = (int64_t)first_sample + s;
        for (int64_t i = 0; i < each; i++) {
            const uint64_t r = hri_hash_u64((uint64_t)(sample * each + i) + step * 131071);
            const int ignored = sample == 5 || (sample % 2 && i < each / 2);
            ((int32_t *)out)[s * each + i] = ignored ? -1 : (int32_t)(r % 2);
        }
    }
    return 1;
}

static void train_parts(const char *model, const char *text, int64_t part, float losses[3]) {
    hr_model *m;
    hr_error why = {0};
    CHECK_OK(hr_model_open(model, &m, NULL));
    hri_interp_job job = {.build = build_model,
                          .user = m,
                          .batch = 6,
                          .part = part,
                          .steps = 3,
                          .seed = 3,
                          .limit = 2,
                          .fill = fill_labels};
    job.options.size = sizeof job.options;
    CHECK_OK(hr_train_options_parse(text, &job.options, NULL));
    job.options.ignored = true;
    if (hri_train_run(&job, losses, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", model, why.message);
    }
    hr_model_close(m);
}

TEST_TIMEOUT(f11_02, tokens_count_one_by_one, 120) {
    static const char *const texts[] = {"rate=0.05", "optimizer=adamw", "rate=0.05,scores=slices",
                                        "rate=0.05,clip=0.5"};
    for (size_t i = 0; i < 4; i++) {
        float whole[3], parts[3];
        train_parts("gpt2-nano:context=8", texts[i], 0, whole);
        for (int64_t part = 1; part <= 4; part++) { /* parts of one sample have none that counts */
            train_parts("gpt2-nano:context=8", texts[i], part, parts);
            for (int s = 0; s < 3; s++) {
                check_near((double)parts[s], (double)whole[s], 2e-5, texts[i]);
            }
        }
    }
}

static hr_status build_pixels(void *user, hr_graph *g, int64_t batch, int training) {
    const hr_value x = hr_graph_input(g, "image", HR_TYPE_F32, hr_shape_4(batch, 4, 4, 3));
    const hr_value label = hr_graph_input(g, "label", HR_TYPE_I32, hr_shape_3(batch, 4, 4));
    const hr_value w =
        hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_4(1, 1, 3, 2), hr_init_normal(0.5));
    (void)user;
    (void)training;
    hr_graph_result(g, hr_cross_entropy(g, hr_conv2d(g, x, w, HR_NONE, 1, 0, 1, 1), label, 0.1),
                    "loss");
    return HR_OK;
}

TEST(f11_02, pixels_count_one_by_one) {
    hri_interp_job job = {
        .build = build_pixels, .batch = 6, .steps = 3, .seed = 4, .limit = 2, .fill = fill_labels};
    float whole[3], parts[3];
    job.options.size = sizeof job.options;
    CHECK_OK(hr_train_options_parse("rate=0.1", &job.options, NULL));
    CHECK_OK(hri_train_run(&job, whole, NULL));
    job.part = 2;
    hr_error why = {0}; /* the velocity cannot take them, and says so instead of a wrong number */
    CHECK_STATUS(hri_train_run(&job, parts, &why), HR_E_UNSUPPORTED);
    CHECK(strstr(why.message, "ignored"));
    job.options.ignored = true;
    for (job.part = 1; job.part < 6; job.part++) {
        CHECK_OK(hri_train_run(&job, parts, NULL));
        for (int s = 0; s < 3; s++) {
            check_near((double)parts[s], (double)whole[s], 1e-5, "pixels");
        }
    }
}

/* ---- the weights themselves ---- */

TEST(f11_02, shares_add_up_to_the_mean_over_what_counts) {
    uint64_t state = test_seed();
    for (int round = 0; round < 500; round++) {
        const uint64_t parts = 1 + test_random(&state) % 9;
        uint64_t samples[9], counted[9], batch = 0, all = 0;
        double loss[9], want = 0, sum = 0;
        for (uint64_t k = 0; k < parts; k++) {
            samples[k] = 1 + test_random(&state) % 5;
            counted[k] = test_random(&state) % 3 ? test_random(&state) % 40 : 0;
            loss[k] = counted[k] ? (double)(test_random(&state) % 1000) : 0.0;
            batch += samples[k];
            all += counted[k];
            want += loss[k] * (double)counted[k];
        }
        hri_share s = {0};
        for (uint64_t k = 0; k < parts; k++) {
            const hri_share_part p = hri_share_add(&s, batch, samples[k], counted[k]);
            sum = p.keep * sum + p.share * loss[k];
            CHECK(isfinite(p.share) && isfinite(p.keep) && (p.first == 1.0f) == (k == 0));
        }
        want = all ? want / (double)all : 0.0;
        CHECK(fabs(sum - want) <= 1e-9 * (1.0 + fabs(want)));
    }
}

TEST(f11_02, where_every_label_counts_the_weights_have_the_old_bits) {
    hri_share s = {0};
    for (uint64_t k = 0; k < 5; k++) {
        const uint64_t samples = k < 4 ? 7 : 3;
        const hri_share_part p = hri_share_add(&s, 31, samples, samples * 1023);
        CHECK(p.even && p.keep == 1.0 && p.weight == (float)samples / 31.0f);
        CHECK(p.first == (k ? 0.0f : 1.0f));
    }
}
