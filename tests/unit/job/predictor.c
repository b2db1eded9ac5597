/* Evaluation and prediction through headroom/predictor.h, over a checkpoint whose data is a file of numbers. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "pictures.h"
#include "test.h"
#include "untrained.h"
#include "weights/checkpoint.h"

static char run_path[512];

static hr_ctx *open_ctx(void) {
    hr_ctx *ctx;
    const hr_ctx_options o = {.size = sizeof o, .visible_devices = "", .no_cuda = 1};
    CHECK_OK(hr_ctx_create(&o, &ctx));
    return ctx;
}

/* A model with the weights it begins with, in a file. */
static void write_checkpoint(void) {
    static const char *const names[] = {"ant", "bee", "cat"};
    const hri_about about = {
        .source = "synthetic", .input = "image", .classes = names, .class_count = 3};
    snprintf(run_path, sizeof run_path, "%s",
             test_untrained("mlp:size=4,channels=1,classes=3,layers=1,width=8", &about,
                            "best.safetensors"));
}

static hr_infer_options ask(const char *data) {
    return (hr_infer_options){
        .size = sizeof(hr_infer_options), .checkpoint = run_path, .data = data, .threads = 1};
}

TEST(job_predictor, evaluates_again_and_again_with_the_same_numbers) {
    hr_ctx *ctx = open_ctx();
    hr_predictor *p = NULL;
    hr_error why = {0};
    write_checkpoint();
    const hr_infer_options o = ask("synthetic:count=20");
    CHECK_OK(hr_predictor_open(ctx, &o, &p, &why));
    hr_infer_info n = {.size = sizeof n};
    hr_infer_result first = {.size = sizeof first}, second = {.size = sizeof second};
    CHECK_OK(hr_predictor_get_info(p, &n));
    CHECK(n.fits && n.class_count == 3 && n.sample_count == 20 && n.batch >= 1);
    CHECK_EQ(n.peak_bytes, n.runtime_bytes + n.persistent_bytes + n.arena_bytes);
    CHECK_OK(hr_predictor_evaluate(p, &first, &why));
    CHECK_OK(hr_predictor_evaluate(p, &second, &why));
    CHECK(first.samples == 20 && first.counted == 20 && first.class_count == 3);
    CHECK(isfinite(first.loss) && first.loss == second.loss);
    CHECK(first.accuracy == second.accuracy);
    uint64_t samples = 0, correct = 0;
    hr_class_result c = {.size = sizeof c};
    for (size_t k = 0; hr_predictor_get_class(p, k, &c) == HR_OK; k++) {
        samples += c.samples;
        correct += c.correct;
        CHECK_EQ(c.correct, hr_predictor_confusion(p, k, k));
    }
    CHECK_EQ(samples, 20);
    CHECK(fabs((double)correct / 20 - first.accuracy) < 1e-6);
    CHECK_STR(hr_predictor_class_name(p, 1), "bee");
    CHECK(!hr_predictor_class_name(p, 3));
    hr_predictor_close(p);
    hr_ctx_destroy(ctx);
}

/* The same file twice: as what the run left, and as parameters of which nothing else is known. */
TEST(job_predictor, parameters_without_a_run_give_what_the_run_gives) {
    static const char model[] = "mlp:size=4,channels=1,classes=3,layers=1,width=8";
    hr_ctx *ctx = open_ctx();
    hr_predictor *p = NULL;
    hr_error why = {0};
    hr_infer_result r[2] = {{.size = sizeof r[0]}, {.size = sizeof r[1]}};
    char file[600];
    write_checkpoint();
    snprintf(file, sizeof file, "%s%s", run_path,
             strstr(run_path, ".safetensors") ? "" : "/best.safetensors");
    for (int plain = 0; plain < 2; plain++) {
        hr_infer_options o = ask("synthetic:count=20");
        o.checkpoint = file;
        o.model = plain ? model : NULL;
        CHECK_OK(hr_predictor_open(ctx, &o, &p, &why));
        CHECK_OK(hr_predictor_evaluate(p, &r[plain], &why));
        hr_predictor_close(p);
    }
    CHECK(r[0].loss == r[1].loss && r[0].accuracy == r[1].accuracy && r[1].samples == 20);
    hr_infer_options o = ask("synthetic:count=20");
    o.checkpoint = file;
    o.model = "mlp:size=4,channels=1,classes=3,layers=1,width=9";
    CHECK_STATUS(hr_predictor_open(ctx, &o, &p, &why), HR_E_SHAPE);
    CHECK(strstr(why.message, "best.safetensors"));
    o.model = "no-such-model";
    CHECK_STATUS(hr_predictor_open(ctx, &o, &p, &why), HR_E_NOT_FOUND);
    o.model = model;
    o.checkpoint = "/no/such/file.pth";
    CHECK_STATUS(hr_predictor_open(ctx, &o, &p, &why), HR_E_NOT_FOUND);
    hr_ctx_destroy(ctx);
}

typedef struct seen {
    uint64_t count, stop_at;
} seen;

static hr_status look(void *user, const hr_prediction *p) {
    seen *s = user;
    double sum = 0;
    CHECK_EQ(p->index, s->count);
    for (uint64_t k = 0; k < p->class_count; k++) {
        sum += p->probabilities[k];
        CHECK(!k || p->probabilities[p->order[k - 1]] >= p->probabilities[p->order[k]]);
    }
    CHECK(fabs(sum - 1) < 1e-9);
    s->count++;
    return s->stop_at && s->count == s->stop_at ? HR_E_CANCELLED : HR_OK;
}

TEST(job_predictor, runs_over_data_stops_on_request_and_takes_other_data) {
    hr_ctx *ctx = open_ctx();
    hr_predictor *p = NULL;
    hr_error why = {0};
    write_checkpoint();
    hr_infer_options o = ask("synthetic:count=10");
    o.no_labels = 1;
    o.batch = 4;
    CHECK_OK(hr_predictor_open(ctx, &o, &p, &why));
    hr_infer_result r = {.size = sizeof r};
    seen s = {0};
    CHECK_OK(hr_predictor_run(p, look, &s, &r, &why));
    CHECK(s.count == 10 && r.samples == 10);
    s = (seen){.stop_at = 5};
    CHECK_STATUS(hr_predictor_run(p, look, &s, &r, &why), HR_E_CANCELLED);
    CHECK(s.count == 5 && why.cause == HR_CAUSE_CANCELLED);
    CHECK_STATUS(hr_predictor_set_data(p, "images:/no/where", &why), HR_E_NOT_FOUND);
    CHECK_OK(hr_predictor_set_data(p, "synthetic:count=3", &why));
    s = (seen){0};
    CHECK_OK(hr_predictor_run(p, look, &s, NULL, NULL));
    CHECK_EQ(s.count, 3);
    hr_predictor_close(p);
    hr_ctx_destroy(ctx);
}

TEST(job_predictor, what_does_not_fit_is_an_answer_and_mistakes_are_failures) {
    hr_ctx *ctx = open_ctx();
    hr_predictor *p = NULL;
    hr_error why = {0};
    write_checkpoint();
    hr_infer_options o = ask("synthetic:count=4");
    o.budget = "64KiB";
    o.data_budget_bytes = 32 << 10;
    CHECK_OK(hr_predictor_open(ctx, &o, &p, &why));
    hr_infer_info n = {.size = sizeof n};
    hr_infer_result r = {.size = sizeof r};
    CHECK_OK(hr_predictor_get_info(p, &n));
    CHECK(!n.fits && n.refusal[0]);
    CHECK_STATUS(hr_predictor_evaluate(p, &r, &why), HR_E_NO_PLAN);
    CHECK_EQ(why.cause, HR_CAUSE_NO_FIT);
    hr_predictor_close(p);
    p = NULL;
    o = ask("images:/no/where");
    CHECK_STATUS(hr_predictor_open(ctx, &o, &p, &why), HR_E_NOT_FOUND);
    o = ask(NULL);
    CHECK_STATUS(hr_predictor_open(ctx, &o, &p, &why), HR_E_INVALID);
    CHECK(!strncmp(why.message, "data", (size_t)why.option_bytes) && why.option_bytes == 4);
    o = ask("synthetic:count=4");
    o.checkpoint = "/no/where";
    CHECK_STATUS(hr_predictor_open(ctx, &o, &p, NULL), HR_E_NOT_FOUND);
    o = ask("synthetic:count=4");
    o.split = HR_SPLIT_VAL;
    CHECK_STATUS(hr_predictor_open(ctx, &o, &p, &why), HR_E_INVALID);
    CHECK(p == NULL);
    hr_ctx_destroy(ctx);
}

/* The same samples as arrays: the numbers of the text, and outputs beside the scores. */
static hr_pipeline *open_arrays(const float *image, const int32_t *label, int64_t count) {
    const hr_field arrays[] = {{.name = "image",
                                .meta = {HR_TYPE_F32, hr_shape_4(count, 4, 4, 1)},
                                .bytes = (uint64_t)count * 64,
                                .data = (void *)(uintptr_t)image},
                               {.name = "label",
                                .meta = {HR_TYPE_I32, hr_shape_1(count)},
                                .bytes = (uint64_t)count * 4,
                                .data = (void *)(uintptr_t)label}};
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 1 << 20, .workers = 1};
    hr_pipeline *p = NULL;
    CHECK_OK(hr_pipeline_create(&o, &p));
    CHECK_OK(hr_pipeline_arrays(p, arrays, 2));
    CHECK_OK(hr_pipeline_build(p));
    return p;
}

static hr_status count_outputs(void *user, const hr_prediction *p) {
    uint64_t *count = user;
    CHECK(p->class_count == 3 && p->output == p->scores);
    CHECK(p->output_meta.shape.rank == 1 && p->output_meta.shape.dim[0] == 3);
    CHECK_EQ(p->index, *count);
    ++*count;
    return HR_OK;
}

TEST(job_predictor, takes_a_pipeline_in_place_of_text_pass_after_pass) {
    float image[7 * 16];
    const int32_t label[7] = {0, 1, 2, 0, 1, 2, 0};
    hr_ctx *ctx = open_ctx();
    hr_predictor *p = NULL;
    hr_error why = {0};
    hr_infer_result first = {.size = sizeof first}, second = {.size = sizeof second};
    uint64_t count = 0;
    for (int i = 0; i < 7 * 16; i++) {
        image[i] = (float)(i % 13) / 13;
    }
    write_checkpoint();
    hr_pipeline *data = open_arrays(image, label, 7);
    hr_infer_options o = ask(NULL);
    o.pipeline = data;
    CHECK_OK(hr_predictor_open(ctx, &o, &p, &why));
    CHECK_OK(hr_predictor_evaluate(p, &first, &why));
    CHECK_OK(hr_predictor_evaluate(p, &second, &why));
    CHECK(first.samples == 7 && second.samples == 7 && first.loss == second.loss);
    hr_predictor_close(p);
    o.no_labels = 1;
    CHECK_OK(hr_predictor_open(ctx, &o, &p, &why));
    CHECK_OK(hr_predictor_run(p, count_outputs, &count, &second, &why));
    CHECK_EQ(count, 7);
    hr_predictor_close(p);
    o.data = "synthetic";
    CHECK_EQ(hr_predictor_open(ctx, &o, &p, &why), HR_E_INVALID);
    o.data = NULL;
    o.split = HR_SPLIT_VAL;
    CHECK_EQ(hr_predictor_open(ctx, &o, &p, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "pipeline") != NULL);
    hr_pipeline_destroy(data);
    hr_ctx_destroy(ctx);
}

static hr_status count_blocks(void *user, const hr_prediction *p) {
    const hr_shape shape = hr_shape_3(16, 16, 2);
    CHECK(!p->scores && hr_shape_same(&p->output_meta.shape, &shape));
    CHECK(isfinite(p->output[0]) && isfinite(p->output[511]));
    ++*(uint64_t *)user;
    return HR_OK;
}

TEST(job_predictor, gives_outputs_of_models_without_one_class_a_sample) {
    hr_ctx *ctx = open_ctx();
    hr_predictor *p = NULL;
    hr_error why = {0};
    hr_infer_info n = {.size = sizeof n};
    const hri_about about = {.source = "synthetic", .input = "image"};
    snprintf(run_path, sizeof run_path, "%s",
             test_untrained("unet:size=16,channels=1,classes=2,width=4,depth=1", &about,
                            "best.safetensors"));
    hr_infer_options o = ask("synthetic:count=3");
    o.no_labels = 1;
    CHECK_OK(hr_predictor_open(ctx, &o, &p, &why));
    CHECK_OK(hr_predictor_get_info(p, &n));
    CHECK_EQ(n.class_count, 0);
    uint64_t count = 0;
    CHECK_OK(hr_predictor_run(p, count_blocks, &count, NULL, &why));
    CHECK_EQ(count, 3);
    hr_predictor_close(p);
    hr_ctx_destroy(ctx);
}
