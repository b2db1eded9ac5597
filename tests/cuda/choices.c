/* Choices between algorithms: kept from run to run, damaged lines passed over, candidates that fail left out. */
#include "desk.h"

#include <stdio.h>
#include <string.h>
#include "device/cuda/gpu_tune.h"

static void write_choices(const desk *d, const char *text) {
    char path[96];
    snprintf(path, sizeof path, "%s/choices", d->folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs(text, file);
    CHECK_EQ(fclose(file), 0);
}

TEST(choices, are_found_again_by_the_next_process) {
    desk d;
    desk_open(&d, (hri_gpu_options){.no_cublaslt = 1, .no_cudnn = 1});
    CHECK(hri_gpu_choice_get(d.gpu, "a key") == NULL);
    hri_gpu_choice_put(d.gpu, "a key", "first");
    hri_gpu_choice_put(d.gpu, "another", "x");
    hri_gpu_choice_put(d.gpu, "a key", "second");
    CHECK_STR(hri_gpu_choice_get(d.gpu, "a key"), "second");
    desk_again(&d, (hri_gpu_options){.no_cublaslt = 1, .no_cudnn = 1});
    CHECK_STR(hri_gpu_choice_get(d.gpu, "a key"), "second");
    CHECK_STR(hri_gpu_choice_get(d.gpu, "another"), "x");
    desk_close(&d);
}

TEST(choices, damaged_lines_are_passed_over) {
    desk d;
    desk_open(&d, (hri_gpu_options){.no_cublaslt = 1, .no_cudnn = 1});
    write_choices(&d, "no tab here\n\tno key\ngood\ttag\nlast\tline without an end");
    CHECK(hri_gpu_choice_get(d.gpu, "no tab here") == NULL);
    CHECK(hri_gpu_choice_get(d.gpu, "") == NULL);
    CHECK(hri_gpu_choice_get(d.gpu, "last") == NULL);
    CHECK_STR(hri_gpu_choice_get(d.gpu, "good"), "tag");
    desk_close(&d);
}

/* Candidates below `from` fail. */
typedef struct trial {
    uint32_t from, runs;
} trial;

static hr_status try_it(void *user, uint32_t index) {
    trial *t = user;
    t->runs++;
    return index < t->from ? HR_E_UNSUPPORTED : HR_OK;
}

TEST(choices, a_candidate_that_fails_is_left_out) {
    desk d;
    uint32_t best = 99;
    trial t = {.from = 2};
    desk_open(&d, (hri_gpu_options){.no_cublaslt = 1, .no_cudnn = 1});
    desk_check(&d, hri_gpu_fastest(d.gpu, 3, try_it, &t, &best), "choosing");
    CHECK_EQ(best, 2);
    CHECK(t.runs > 4); /* the good one ran several times, the others once */
    t.from = 3;
    best = 99;
    CHECK_STATUS(hri_gpu_fastest(d.gpu, 3, try_it, &t, &best), HR_E_UNSUPPORTED);
    CHECK_EQ(best, 99);
    desk_close(&d);
}

TEST(choices, nothing_is_timed_while_a_step_is_captured) {
    desk d;
    uint32_t best = 99;
    trial t = {0};
    desk_open(&d, (hri_gpu_options){.no_cublaslt = 1, .no_cudnn = 1});
    desk_check(&d, hri_gpu_capture_begin(d.gpu), "capturing");
    CHECK_STATUS(hri_gpu_fastest(d.gpu, 3, try_it, &t, &best), HR_E_BUSY);
    CHECK_EQ(t.runs, 0);
    hri_gpu_capture_drop(d.gpu);
    desk_close(&d);
}

TEST(choices, a_way_is_timed_once_and_kept) {
    desk d;
    uint32_t best = 99;
    trial t = {.from = 1};
    desk_open(&d, (hri_gpu_options){.no_cublaslt = 1, .no_cudnn = 1});
    CHECK_EQ(hri_gpu_chosen(d.gpu, "a job"), -1);
    desk_check(&d, hri_gpu_choose(d.gpu, "a job", 2, try_it, &t, &best), "choosing");
    CHECK_EQ(best, 1);
    CHECK(t.runs > 2);
    t.runs = 0;
    desk_again(&d, (hri_gpu_options){.no_cublaslt = 1, .no_cudnn = 1});
    CHECK_EQ(hri_gpu_chosen(d.gpu, "a job"), 1);
    desk_check(&d, hri_gpu_choose(d.gpu, "a job", 2, try_it, &t, &best), "choosing again");
    CHECK_EQ(best, 1);
    CHECK_EQ(t.runs, 0);
    desk_close(&d);
}
