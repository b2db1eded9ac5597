/* bench/profile [MODEL [BATCH [ROUNDS [DEVICE]]]]: what looking on costs.
 *
 * One training runs steps in turn, three of a kind: without a profile, with one that is not due, and recorded as `train
 * --profile` records three steps (on the host each op by op, on a GPU the first), so that all see the same machine.  Prints
 * lower quartiles, and the ratios to steps without a profile, by the wall clock and by processor time; on a busy machine the
 * second is the one to read. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <headroom/headroom.h>

#include "job/plan_object.h"
#include "see/watch.h"

/* REST: recorded, but as a whole. */
enum { NONE, OFF, OPS, REST, MODES, KINDS = 3, STEPS = 3, ROUNDS_MAX = 1000 };

typedef struct bench {
    hri_see_watch *watch;
    double wall[MODES][ROUNDS_MAX], cpu[MODES][ROUNDS_MAX];
    int counts[MODES];
    double cpu_begin;
    int gpu;
} bench;

static double cpu_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* In turn, and every kind as often behind each other one. */
static int mode_of(const bench *b, uint64_t step) {
    const uint64_t round = step / (KINDS * STEPS), at = step / STEPS % KINDS;
    const int kind = (int)(round % 2 ? KINDS - 1 - at : at);
    return kind == OPS && b->gpu && step % STEPS ? REST : kind;
}

static void set_mode(bench *b, hri_planned *planned, uint64_t step) {
    const int mode = mode_of(b, step);
    const uint64_t never = mode == OPS ? 0 : UINT64_MAX;
    hri_see_watch_range(b->watch, never, never);
    hri_planned_set_probe(planned, mode == NONE ? NULL : hri_see_watch_probe(b->watch));
    b->cpu_begin = cpu_now();
}

static void on_taken(void *user, hri_planned *planned) {
    set_mode(user, planned, 0);
}

/* The first round touches new memory and loads code: it does not count. */
static void on_step(void *user, hri_planned *planned, uint64_t done, float loss, uint64_t begin_ns,
                    uint64_t end_ns) {
    bench *b = user;
    const int mode = mode_of(b, done - 1);
    const double cpu = cpu_now() - b->cpu_begin;
    (void)loss;
    if (done > KINDS * STEPS && b->counts[mode] < ROUNDS_MAX) {
        b->wall[mode][b->counts[mode]] = 1e-9 * (double)(end_ns - begin_ns);
        b->cpu[mode][b->counts[mode]++] = cpu;
    }
    set_mode(b, planned, done);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The lower quartile: what others do on the machine only ever adds. */
static double usual(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count ? values[count / 4] : 0;
}

static void print(bench *b, const char *model, long long batch) {
    static const char *const names[] = {"no profile", "profile, not due", "a step op by op",
                                        "a step as a whole", "three recorded steps"};
    double wall[MODES + 1], cpu[MODES + 1];
    for (int m = 0; m < MODES; m++) {
        wall[m] = usual(b->wall[m], b->counts[m]);
        cpu[m] = usual(b->cpu[m], b->counts[m]);
    }
    wall[MODES] = b->gpu ? (wall[OPS] + 2 * wall[REST]) / STEPS : wall[OPS];
    cpu[MODES] = b->gpu ? (cpu[OPS] + 2 * cpu[REST]) / STEPS : cpu[OPS];
    printf("%s, batch %lld, %d rounds of three steps, in turn\n", model, batch,
           b->counts[NONE] / STEPS);
    printf("%-20s %12s %12s %10s %10s\n", "", "wall", "processor", "ratio", "ratio");
    for (int m = 0; m <= MODES; m++) {
        if (m != REST || b->gpu) {
            printf("%-20s %9.3f ms %9.3f ms %10.4f %10.4f\n", names[m], 1e3 * wall[m], 1e3 * cpu[m],
                   wall[m] / wall[NONE], cpu[m] / cpu[NONE]);
        }
    }
}

int main(int argc, char **argv) {
    const char *model = argc > 1 ? argv[1] : "resnet18:size=64,classes=10";
    const int64_t batch = argc > 2 ? atoll(argv[2]) : 8;
    const long rounds = argc > 3 ? atol(argv[3]) : 7;
    const hr_ctx_options c = {.size = sizeof c};
    const hr_job_options o = {.size = sizeof o,
                              .model = model,
                              .batch = batch,
                              .device = argc > 4 ? argv[4] : "host",
                              .budget = argc > 5 ? argv[5] : NULL,
                              .no_measure = 1};
    static bench b;
    const hri_try_watch watch = {.user = &b, .taken = on_taken, .step = on_step};
    hr_ctx *ctx = NULL;
    hr_plan *plan = NULL;
    hr_error error = {0};
    hri_prose prose = {0};
    hri_why why = {0};
    hr_try_result result = {.size = sizeof result};
    char beside[] = "/tmp/headroom-bench-XXXXXX";
    const int fd = mkstemp(beside);
    hr_status status = fd < 0 ? HR_E_IO : hr_ctx_create(&c, &ctx);
    if (status == HR_OK) {
        status = hr_job_plan(ctx, &o, &plan, &error);
    }
    if (status == HR_OK) {
        b.gpu = plan->job.engine != NULL;
        status = hri_see_watch_open(plan, 0, beside, &b.watch, &prose);
    }
    if (status == HR_OK) {
        status =
            hri_plan_try(plan, (uint64_t)(rounds + 1) * KINDS * STEPS, NULL, &watch, &result, &why);
    }
    if (status == HR_OK) {
        print(&b, model, (long long)batch);
    } else {
        fprintf(stderr, "profile: %s %s %s\n", hr_status_text(status), error.message, prose.text);
    }
    hri_see_watch_close(b.watch);
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
    if (fd >= 0) {
        close(fd);
        (void)unlink(beside);
    }
    return status == HR_OK ? 0 : 3;
}
