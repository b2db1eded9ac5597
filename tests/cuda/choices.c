/* Choices between algorithms: bits first, times inside a group alone; kept from run to run, damaged lines passed over. */
#include "desk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device/cuda/gpu_tune.h"

static void write_choices(const desk *d, const char *text) {
    char path[96];
    snprintf(path, sizeof path, "%s/choices-2", d->folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs(text, file);
    CHECK_EQ(fclose(file), 0);
}

TEST(choices, are_found_again_by_the_next_process) {
    desk d;
    desk_open(&d, (hri_gpu_options){.no_cublaslt = 1, .no_cudnn = 1});
    CHECK(hri_gpu_choice_get(d.gpu, "a key") == NULL);
    const hri_hash128 bits = {.lo = 1, .hi = 2};
    hri_gpu_choice_put(d.gpu, "a key", "first", bits);
    hri_gpu_choice_put(d.gpu, "another", "x", bits);
    hri_gpu_choice_put(d.gpu, "a key", "second", bits);
    CHECK_STR(hri_gpu_choice_get(d.gpu, "a key"), "second");
    desk_again(&d, (hri_gpu_options){.no_cublaslt = 1, .no_cudnn = 1});
    CHECK_STR(hri_gpu_choice_get(d.gpu, "a key"), "second");
    CHECK_STR(hri_gpu_choice_get(d.gpu, "another"), "x");
    desk_close(&d);
}

TEST(choices, damaged_lines_are_passed_over) {
    desk d;
    desk_open(&d, (hri_gpu_options){.no_cublaslt = 1, .no_cudnn = 1});
    write_choices(&d, "no tab here\n\tno key\nno digest\ttag\n"
                      "short\ttag\t12345\nodd\ttag\t0123456789abcdeg0123456789abcdef\n"
                      "good\ttag\t0123456789abcdef0123456789abcdef\n"
                      "last\tline without an end\t0123456789abcdef0123456789abcdef");
    desk_again(&d, (hri_gpu_options){.no_cublaslt = 1, .no_cudnn = 1});
    CHECK(hri_gpu_choice_get(d.gpu, "no tab here") == NULL);
    CHECK(hri_gpu_choice_get(d.gpu, "") == NULL);
    CHECK(hri_gpu_choice_get(d.gpu, "no digest") == NULL);
    CHECK(hri_gpu_choice_get(d.gpu, "short") == NULL);
    CHECK(hri_gpu_choice_get(d.gpu, "odd") == NULL);
    CHECK(hri_gpu_choice_get(d.gpu, "last") == NULL);
    CHECK_STR(hri_gpu_choice_get(d.gpu, "good"), "tag");
    desk_close(&d);
}

/* Candidates that write `bits` and take `work` fills to do so. */
typedef struct trial {
    desk *d;
    tensor room, result;
    uint32_t count, runs;
    struct {
        uint8_t bits;
        int work;
        int fails, moody;
    } of[4];
} trial;

static hr_status try_it(void *user, uint32_t index) {
    trial *t = user;
    uint8_t bits = t->of[index].bits;
    t->runs++;
    if (t->of[index].fails) {
        return HR_E_UNSUPPORTED;
    }
    bits = t->of[index].moody ? (uint8_t)t->runs : bits;
    for (int i = 0; i < t->of[index].work + 1; i++) {
        desk_fill(t->d, &t->result, bits);
    }
    return HR_OK;
}

static void trial_open(desk *d, trial *t, hri_gpu_options options) {
    options.no_cublaslt = options.no_cudnn = 1;
    desk_open(d, options);
    t->d = d;
    t->room = desk_tensor(d, HR_TYPE_U8, HRI_GPU_TRIAL_BYTES);
    t->result = desk_tensor(d, HR_TYPE_U8, 64);
    hri_gpu_trial(d->gpu, t->room.block.addr);
}

static void trial_close(trial *t) {
    hri_gpu_trial(t->d->gpu, 0);
    desk_free(t->d, &t->room);
    desk_free(t->d, &t->result);
    desk_close(t->d);
}

static hr_status hold(trial *t, uint32_t first, uint32_t *out) {
    const hri_gpu_result result = {t->result.block.addr, 64};
    const hri_gpu_contest c = {.count = t->count,
                               .first = first,
                               .run = try_it,
                               .user = t,
                               .results = &result,
                               .result_count = 1};
    hri_hash128 digest;
    return hri_gpu_pick(t->d->gpu, "a job", &c, NULL, out, &digest);
}

TEST(choices, a_faster_candidate_with_other_bits_is_not_taken) {
    desk d;
    uint32_t best = 99;
    trial t = {.count = 3, .of = {{.bits = 1, .work = 2000}, {.bits = 2}, {.bits = 2}}};
    trial_open(&d, &t, (hri_gpu_options){0});
    desk_check(&d, hold(&t, 0, &best), "choosing");
    CHECK_EQ(best, 0);
    desk_check(&d, hold(&t, 1, &best), "choosing");
    CHECK(best == 1 || best == 2);
    trial_close(&t);
}

TEST(choices, the_fastest_of_the_same_bits_is_taken) {
    desk d;
    uint32_t best = 99;
    trial t = {.count = 3, .of = {{.bits = 1, .work = 2000}, {.bits = 2}, {.bits = 1}}};
    trial_open(&d, &t, (hri_gpu_options){0});
    desk_check(&d, hold(&t, 0, &best), "choosing");
    CHECK_EQ(best, 2);
    trial_close(&t);
}

TEST(choices, by_time_alone_when_that_is_wanted) {
    desk d;
    uint32_t best = 99;
    trial t = {.count = 2, .of = {{.bits = 1, .work = 2000}, {.bits = 2}}};
    trial_open(&d, &t, (hri_gpu_options){.fastest = 1});
    desk_check(&d, hold(&t, 0, &best), "choosing");
    CHECK_EQ(best, 1);
    trial_close(&t);
}

TEST(choices, a_candidate_that_fails_is_left_out) {
    desk d;
    uint32_t best = 99;
    trial t = {.count = 3, .of = {{.fails = 1}, {.fails = 1}, {.bits = 7}}};
    trial_open(&d, &t, (hri_gpu_options){0});
    desk_check(&d, hold(&t, 0, &best), "choosing");
    CHECK_EQ(best, 2);
    t.of[2].fails = 1;
    best = 99;
    CHECK_STATUS(hold(&t, 0, &best), HR_E_UNSUPPORTED);
    CHECK_EQ(best, 99);
    trial_close(&t);
}

TEST(choices, a_candidate_that_differs_from_run_to_run_is_left_out) {
    desk d;
    uint32_t best = 99;
    trial t = {.count = 2, .of = {{.moody = 1}, {.bits = 7, .work = 100}}};
    trial_open(&d, &t, (hri_gpu_options){0});
    desk_check(&d, hold(&t, 0, &best), "choosing");
    CHECK_EQ(best, 1);
    trial_close(&t);
}

TEST(choices, nothing_is_tried_outside_a_trial_or_while_a_step_is_captured) {
    desk d;
    uint32_t best = 99;
    trial t = {.count = 2};
    trial_open(&d, &t, (hri_gpu_options){0});
    desk_check(&d, hri_gpu_capture_begin(d.gpu), "capturing");
    CHECK_STATUS(hold(&t, 0, &best), HR_E_BUSY);
    hri_gpu_capture_drop(d.gpu);
    hri_gpu_trial(d.gpu, 0);
    CHECK_STATUS(hold(&t, 0, &best), HR_E_BUSY);
    CHECK_EQ(t.runs, 0);
    CHECK_EQ(best, 99);
    trial_close(&t);
}

TEST(choices, a_way_is_tried_once_and_kept) {
    desk d;
    uint32_t best = 99;
    trial t = {.count = 2, .of = {{.fails = 1}}};
    trial_open(&d, &t, (hri_gpu_options){0});
    const hri_gpu_result result = {t.result.block.addr, 64};
    const hri_gpu_contest c = {
        .count = 2, .run = try_it, .user = &t, .results = &result, .result_count = 1};
    CHECK_EQ(hri_gpu_chosen(d.gpu, "a job"), -1);
    desk_check(&d, hri_gpu_choose(d.gpu, "a job", &c, &best), "choosing");
    CHECK_EQ(best, 1);
    CHECK(t.runs > 2);
    t.runs = 0;
    desk_again(&d, (hri_gpu_options){.no_cublaslt = 1, .no_cudnn = 1});
    CHECK_EQ(hri_gpu_chosen(d.gpu, "a job"), 1);
    desk_check(&d, hri_gpu_choose(d.gpu, "a job", &c, &best), "choosing again");
    CHECK_EQ(best, 1);
    CHECK_EQ(t.runs, 0);
    trial_close(&t);
}

/* ---- are the made-up operands good enough to tell orders of a sum apart? ---- */

/* y (M, N) = a (M, K) b (K, N), the sum from the front, from the back, in two halves, or from the front by columns. */
static const char sums[] =
    "HR_KERNEL sums(const HR_T *a, const HR_T *b, HR_T *y, int m, int n, int k, int how) {\n"
    "    const int at = (int)(blockIdx.x * blockDim.x + threadIdx.x);\n"
    "    if (at >= m * n) return;\n"
    "    const int i = how == 3 ? at % m : at / n, o = how == 3 ? at / m : at % n;\n"
    "    float sum[2] = {0.0f, 0.0f};\n"
    "    for (int s = 0; s < k; s++) {\n"
    "        const int c = how == 1 ? k - 1 - s : s;\n"
    "        sum[how == 2 && s >= k / 2] += hr_load(a[i * k + c]) * hr_load(b[c * n + o]);\n"
    "    }\n"
    "    hr_store(&y[i * n + o], sum[0] + sum[1]);\n"
    "}\n";
enum { M = 12, N = 8, K = 24, WAYS = 4 };

typedef struct orders {
    desk *d;
    const hri_gpu_source *source;
    tensor a, b, y;
} orders;

static hr_status sum_up(void *user, uint32_t index) {
    orders *o = user;
    hr_addr a = o->a.block.addr, b = o->b.block.addr, y = o->y.block.addr;
    int m = M, n = N, k = K, how = (int)index;
    const hri_gpu_grid grid = {.x = 1, .threads = 128};
    return hri_gpu_launch(o->d->gpu, o->source,
                          o->y.type == HR_TYPE_BF16 ? "-DHR_T=hr_bf16" : "-DHR_T=float", "sums",
                          &grid, HRI_GPU_ARGS(&a, &b, &y, &m, &n, &k, &how));
}

static void seen(void *user, const char *key, const hri_gpu_candidate *candidates, uint32_t count,
                 uint32_t chosen) {
    (void)key;
    (void)chosen;
    for (uint32_t i = 0; i < count; i++) {
        ((int *)user)[i] = candidates[i].group;
    }
}

HRI_CU(turn);

/* The prelude is the front of every text. */
static char *with_prelude(void) {
    const char *end = strstr(hri_cu_turn.text, "HR_KERNEL turn(");
    CHECK(end != NULL);
    char *text = malloc((size_t)(end - hri_cu_turn.text) + sizeof sums);
    memcpy(text, hri_cu_turn.text, (size_t)(end - hri_cu_turn.text));
    memcpy(text + (end - hri_cu_turn.text), sums, sizeof sums);
    return text;
}

static void tell_orders_apart(hr_type type) {
    desk d;
    int groups[WAYS] = {-1, -1, -1, -1};
    desk_open(&d, (hri_gpu_options){
                      .no_cublaslt = 1, .no_cudnn = 1, .report = seen, .report_user = groups});
    char *text = with_prelude();
    const hri_gpu_source source = {"sums", text};
    orders o = {&d, &source, desk_tensor(&d, type, M * K), desk_tensor(&d, type, K * N),
                desk_tensor(&d, type, M * N)};
    tensor room = desk_tensor(&d, HR_TYPE_U8, HRI_GPU_TRIAL_BYTES);
    const hri_gpu_operand operands[] = {{.at = o.a.block.addr,
                                         .type = type,
                                         .top = 3,
                                         .count = M * K,
                                         .stride = 1,
                                         .period = K,
                                         .extent = K},
                                        {.at = o.b.block.addr,
                                         .type = type,
                                         .top = 3,
                                         .negate = 1,
                                         .count = K * N,
                                         .stride = N,
                                         .period = K * N,
                                         .extent = K}};
    const hri_gpu_result result = {o.y.block.addr, M * N * hr_type_bytes(type)};
    const hri_gpu_contest c = {.count = WAYS,
                               .run = sum_up,
                               .user = &o,
                               .operands = operands,
                               .operand_count = 2,
                               .results = &result,
                               .result_count = 1};
    uint32_t best = 99;
    hri_hash128 digest;
    hri_gpu_trial(d.gpu, room.block.addr);
    desk_check(&d, hri_gpu_pick(d.gpu, "sums", &c, NULL, &best, &digest), "choosing");
    hri_gpu_trial(d.gpu, 0);
    CHECK_EQ(groups[0], 0);
    CHECK_EQ(groups[1], 1);
    CHECK_EQ(groups[2], 2);
    CHECK_EQ(groups[3], 0);
    desk_free(&d, &o.a), desk_free(&d, &o.b), desk_free(&d, &o.y), desk_free(&d, &room);
    desk_close(&d);
    free(text);
}

TEST(choices, orders_of_a_small_sum_are_told_apart) {
    tell_orders_apart(HR_TYPE_F32);
    tell_orders_apart(HR_TYPE_BF16);
}
