/* Learning by heart: a small transformer a text, a small residual network 256 images with random labels.
 *
 * Each training runs twice, on one thread and on two: every loss of every step has the same bits. */
#include <headroom/headroom.h>

#include <stdlib.h>
#include <string.h>

#include "test.h"
#include "loop/run.h"

enum { CONTEXT = 32, ROWS = 8 };

/* 257 characters or more: eight samples of 32 and the one behind. */
static const char text[] = "You state a budget; the program states a plan; the plan holds. Before "
                           "the first step it answers "
                           "whether the model fits, in bytes, with the reason and the cheapest "
                           "ways out. What is planned is "
                           "what happens, and after the beginning nothing takes memory any more. "
                           "Out of memory is an answer.";

_Static_assert(sizeof text > ROWS * CONTEXT + 1, "the text is too short");

static int fill_text(void *user, const char *name, const hr_meta *meta, uint64_t step,
                     uint32_t first_sample, void *out) {
    const int ahead = !strcmp(name, "label"); /* the next character */
    const int64_t count = hr_shape_count(&meta->shape);
    (void)user, (void)step;
    for (int64_t i = 0; i < count; i++) {
        ((int32_t *)out)[i] = (unsigned char)text[first_sample * CONTEXT + i + ahead];
    }
    return 1;
}

/* Trains twice and gives the last loss. */
static double train(const char *model, const char *options, hri_interp_job job) {
    float *losses[2];
    hr_error why = {0};
    hr_model *m;
    CHECK_OK(hr_model_open(model, &m, NULL));
    job.options.size = sizeof job.options;
    CHECK_OK(hr_train_options_parse(options, &job.options, NULL));
    job.build = hr_model_build;
    job.user = m;
    job.seed = 7;
    job.limit = (uint32_t)hr_model_classes(m);
    for (uint32_t run = 0; run < 2; run++) {
        losses[run] = calloc(job.steps, sizeof(float));
        CHECK(losses[run] != NULL);
        CHECK_OK(hri_threads_create(run + 1, &job.threads));
        if (hri_train_run(&job, losses[run], &why) != HR_OK) {
            test_fail(__FILE__, __LINE__, "%s: %s", model, why.message);
        }
        hri_threads_destroy(job.threads);
    }
    CHECK(memcmp(losses[0], losses[1], job.steps * sizeof(float)) == 0);
    const double last = (double)losses[0][job.steps - 1];
    printf("    %s: %.6f, after %llu steps %.6f\n", model, (double)losses[0][0],
           (unsigned long long)job.steps, last);
    free(losses[0]);
    free(losses[1]);
    hr_model_close(m);
    return last;
}

/* The text has 256 characters to learn; without knowing them the loss is about 3. */
TEST_TIMEOUT(overfit, a_tiny_gpt_learns_a_text_by_heart, 120) {
    const hri_interp_job job = {.batch = ROWS, .steps = 200, .fill = fill_text};
    CHECK(train("gpt2-nano", "optimizer=adamw,rate=0.006", job) < 0.1);
}

/* Four batches of 64 images of noise with random labels; guessing is ln 10 = 2.3. */
TEST_TIMEOUT(overfit, a_small_resnet_learns_256_images_by_heart, 120) {
    const hri_interp_job job = {.batch = 64, .steps = 40, .cycle = 4};
    const char *model = "resnet18:size=32,width=16,layers=1x1x1,classes=10";
    CHECK(train(model, "optimizer=adamw,rate=0.005", job) < 0.1);
}
