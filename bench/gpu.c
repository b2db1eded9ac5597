/* Whole trainings on a GPU inside budgets: speed, the peak that NVML shows, and the bits of the loss.
 *
 *   bench/gpu                          the list below, each in a process of its own, then one table
 *   bench/gpu --only resnet50          those whose line contains the text (again: any of the texts)
 *   bench/gpu --list                   says what would run
 *   bench/gpu [--profile] --floors     operations and bytes of a step of each, counted from the graph: needs no GPU
 *   bench/gpu --one MODEL BATCH BUDGET OPTIONS     one configuration: "resnet50 256 8GiB precision=bf16"
 *   bench/gpu --one MODEL BATCH - OPTIONS          budgets from the input, a line each, one after another: what is said of each ends with
 *                                                  a line "--".  The peak is that from the moment the arena is taken on.  "plan 8GiB":
 *                                                  nothing is run
 *
 *   --device cuda:0   --steps 20   --warm 5   --effort 8000 (thousands)   --exact (no tf32)   --no-offload
 *   --fastest         algorithms by time alone: what the rule of src/device/cuda/gpu_tune.h costs
 *   --reserve MIB     kept free beside what is measured; a line whose graph took more than was estimated is tried again so
 *   --no-measure      times of ops from the analytic model
 *   --drag SHARE      of a copy's time that kernels beside it are planned to lose, instead of what was measured
 *   --profile         after the steps: one more, call by call: measured and planned time of each kind of op, what goes together as one turn;
 *                     a graph has no gaps between turns, so all of them are taken to be as long
 *   --feed            a new batch every step; without it the first one is trained on again and again
 *   --lock FILE       held (flock) while the GPU is used, so that processes side by side plan at once and measure one by one
 *
 * The peak is sampled every 10 ms by a thread, from before anything is opened on.  A row ends with the loss of the last
 * step in hexadecimal: equal texts are equal bits. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <headroom/headroom.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "fit/planned.h"
#include "fit/timing.h"
#include "gpu_feed.h"
#include "gpu_profile.h"
#include "gpu_stop.h"
#include "gpu_watch.h"

#define MIB 1048576.0
/* Measured on an H200: dense bf16 products, and copies within the device. */
#define PEAK_FLOPS_PER_NS 790e3
#define PEAK_BYTES_PER_NS 4300.0
#define SGD               "optimizer=sgd,momentum=0.9,rate=0.01"
#define ADAMW             "optimizer=adamw,rate=3e-4"

typedef struct configuration {
    const char *model, *batch, *budget, *options;
} configuration;

/* Issue 7's list. */
static const configuration all[] = {
    {"resnet50", "256", "0", SGD ",precision=bf16"},
    {"resnet50", "256", "8GiB", SGD ",precision=bf16"},
    {"resnet50", "256", "6GiB", SGD ",precision=bf16"},
    {"resnet50", "256", "5GiB", SGD ",precision=bf16"},
    {"resnet50", "256", "4GiB", SGD ",precision=bf16"},
    {"resnet50", "256", "3GiB", SGD ",precision=bf16"},
    {"resnet50", "256", "0", SGD},
    {"resnet50", "1024", "16GiB", SGD ",precision=bf16"},
    {"gpt2", "16", "0", ADAMW ",precision=bf16"},
    {"gpt2", "16", "8.5GiB", ADAMW ",precision=bf16"},
    {"gpt2", "16", "8GiB", ADAMW ",precision=bf16"},
    {"gpt2", "16", "6GiB", ADAMW ",precision=bf16"},
    {"gpt2", "16", "4GiB", ADAMW ",precision=bf16"},
};
enum { OUTGROWN = 4 }; /* exit code: more was taken outside the arena than was planned for */
enum { ALL = sizeof all / sizeof all[0], FLAGS = 32, ROW = 512 };

typedef struct flags {
    const char *device;
    const char *lock; /* NULL: nobody else uses the GPU */
    const char *only[FLAGS];
    int only_count;
    int steps, warm, exact, fastest, no_offload, no_measure, profile, feed, list;
    uint64_t effort, reserve;
    double drag; /* negative: as measured */
    const configuration *one;
} flags;

/* ---- floors ---- */

/* What a step must do: its operations, and every operand of every op moved once.  The second is no law (ops could
 * be fused further), but what the ops as they are cannot go under. */
static void show_floor(const configuration *c, int by_op) {
    hr_model *m;
    hr_train_options o = {.size = sizeof o};
    hr_graph *g;
    hr_error why = {0};
    need(c->model, hr_model_open(c->model, &m, &why), why.message);
    need(c->options, hr_train_options_parse(c->options, &o, &why), why.message);
    need(c->model, hr_step_build(&o, hr_model_build, m, HR_STEP_WHOLE, atoll(c->batch), &g, &why),
         why.message);
    static profile p;
    p = (profile){.g = g};
    double flops = 0, bytes = 0, bound_bytes = 0, floor = 0;
    uint32_t ops = 0;
    for (uint32_t n = 0; n < g->node_count; n++) {
        const hri_sig *sig = &g->nodes[n].sig;
        if (!g->nodes[n].live || sig->op->view) {
            continue;
        }
        const hri_cost cost = hri_op_cost(sig);
        const double compute = cost.flops / PEAK_FLOPS_PER_NS;
        const double memory = cost.bytes / PEAK_BYTES_PER_NS;
        flops += cost.flops;
        bound_bytes += compute > memory ? cost.bytes : 0;
        bytes += cost.bytes;
        floor += compute > memory ? compute : memory;
        add_call(&p, n, 0, compute > memory ? compute : memory, 1);
        ops++;
    }
    printf("%-10s %5s %-44s %5u %8.2f %8.1f %8.1f %7.2f %7.2f %7.2f\n", c->model, c->batch,
           c->options, ops, flops / 1e12, bound_bytes / 1e9, bytes / 1e9,
           flops / PEAK_FLOPS_PER_NS / 1e6, bytes / PEAK_BYTES_PER_NS / 1e6, floor / 1e6);
    if (by_op) {
        show_lines(&p);
    }
    hr_graph_destroy(g);
    hr_model_close(m);
}

static int show_floors(int by_op) {
    printf("%-10s %5s %-44s %5s %8s %8s %8s %7s %7s %7s\n", "model", "batch", "options", "ops",
           "TFLOP", "GB there", "GB, all", "ms comp", "ms mem", "ms both");
    for (size_t i = 0; i < ALL; i++) {
        if (!strcmp(all[i].budget, "0") || !strcmp(all[i].batch, "1024")) {
            show_floor(&all[i], by_op);
        }
    }
    return 0;
}

/* ---- one configuration ---- */

typedef struct rig {
    const flags *f;
    const configuration *c;
    hr_ctx *ctx;
    hr_device *device;
    hri_engine *engine;
    hr_model *model;
    hri_timing *timing;
    hri_fit_job job;
    hri_fit fit;
    hri_fit_plans plans;
    uint64_t budget, total_bytes;
    int many; /* budgets come one after another */
    sampler sampler;
    turn turn;
    double plan_seconds;
} rig;

/* Kernels are tried in this process's turn, which lasts until the search begins. */
static void trial_begins(void *user) {
    rig *r = user;
    turn_take(&r->turn);
}

static hr_status search_begins(void *user) {
    rig *r = user;
    turn_give(&r->turn);
    return HR_OK;
}

static uint64_t budget_of(const rig *r, const char *text) {
    uint64_t bytes = 0;
    if (hr_bytes_parse(text, r->total_bytes, &bytes) != HR_OK) {
        stop(text, HR_E_INVALID, "no size");
    }
    return bytes;
}

static void open_device(rig *r) {
    const hri_gpu_options o = {.exact_f32 = r->f->exact, .fastest = r->f->fastest};
    hri_prose why = {0};
    hri_engine_speed speed;
    hr_device_info info = {.size = sizeof info};
    need("a context", hr_ctx_create(NULL, &r->ctx), NULL);
    need(r->f->device, hr_device_find(r->ctx, r->f->device, &r->device), NULL);
    need(r->f->device, hri_engine_open(r->device, &o, &r->engine, &why), why.text);
    r->sampler.engine = r->engine;
    r->sampler.turn = &r->turn;
    if (pthread_create(&r->sampler.thread, NULL, sample, &r->sampler)) {
        stop("a thread", HR_E_NOMEM_HOST, NULL);
    }
    hri_engine_measure_speed(r->engine, &speed);
    need("the device", hr_device_get_info(r->device, &info), NULL);
    r->job.machine = (hri_machine){.flops_per_ns = speed.flops_per_ns,
                                   .bytes_per_ns = speed.bytes_per_ns,
                                   .launch_ns = speed.launch_ns,
                                   .out_bytes_per_ns = speed.out_bytes_per_ns,
                                   .in_bytes_per_ns = speed.in_bytes_per_ns,
                                   .copy_latency_ns = speed.copy_latency_ns,
                                   .gpu = hri_engine_gpu(r->engine)};
    r->job.engine = r->engine;
    r->job.reserve_bytes = r->f->reserve << 20;
    r->job.page_bytes = info.page_bytes;
    r->total_bytes = info.total_bytes;
    r->budget = r->many ? 0 : budget_of(r, r->c->budget);
    char *folder = NULL;
    const uint64_t taken = hri_engine_runtime(r->engine) + (UINT64_C(256) << 20);
    const uint64_t most = r->budget ? r->budget : info.free_bytes / 2;
    if (hri_path_cache(&folder) != HR_OK) {
        folder = NULL;
    }
    const hri_timing_options t = {.engine = r->engine,
                                  .try_only = r->f->no_measure,
                                  .folder = folder,
                                  .device = r->f->exact ? "exact" : info.description,
                                  .flops_per_ns = speed.flops_per_ns,
                                  .bytes_per_ns = speed.bytes_per_ns,
                                  .most_bytes = most > taken ? most - taken : 64 << 20,
                                  .before = trial_begins,
                                  .before_user = r};
    need("timings", hri_timing_open(&t, &r->timing), NULL);
    free(folder);
    hri_timing_measure_graphs(r->timing);
    hri_machine *m = &r->job.machine;
    m->copy_drag = r->f->drag >= 0 ? r->f->drag : hri_timing_copy_drag(r->timing);
    m->out_bytes_per_ns = hri_timing_keep(r->timing, HRI_TIMING_COPY_OUT, m->out_bytes_per_ns);
    m->in_bytes_per_ns = hri_timing_keep(r->timing, HRI_TIMING_COPY_IN, m->in_bytes_per_ns);
    r->job.nominal = hri_fit_nominal_gpu(m);
    printf(
        "%s, copies out %.1f GB/s, in %.1f GB/s, drag %.3f, runtime %.1f MiB, graphs %.1f MiB per "
        "1,000 ops\n",
        info.description, m->out_bytes_per_ns, m->in_bytes_per_ns, m->copy_drag,
        (double)hri_engine_runtime(r->engine) / MIB,
        (double)hri_engine_graph_reserve(r->engine, 1, 1000) / MIB);
}

static void open_fit(rig *r) {
    hr_error error = {0};
    hri_prose why = {0};
    need(r->c->model, hr_model_open(r->c->model, &r->model, &error), error.message);
    r->job.options.size = sizeof r->job.options;
    need(r->c->options, hr_train_options_parse(r->c->options, &r->job.options, &error),
         error.message);
    r->job.build = hr_model_build;
    r->job.user = r->model;
    r->job.batch = atoll(r->c->batch);
    r->job.no_offload = (uint8_t)r->f->no_offload;
    r->job.effort = r->f->effort * 1000;
    r->job.time_ns = hri_timing_time;
    r->job.together_ns = hri_timing_together;
    r->job.many_ns = hri_timing_many;
    r->job.pace = hri_timing_take_pace;
    r->job.time_user = r->timing;
    r->job.tick = search_begins;
    r->job.tick_user = r;
    need("planning", hri_fit_open(&r->job, &r->fit, &why), why.text);
}

static hr_status plan(rig *r, uint64_t begin, hri_prose *why) {
    if (r->many) {
        hri_timing_share(r->timing);
    }
    const hr_status status = hri_fit_search(&r->fit, r->budget, 1, &r->plans, why);
    if (r->many) {
        hri_timing_share(r->timing);
    }
    if (status != HR_OK) {
        return status;
    }
    uint64_t known, measured;
    hri_timing_counts(r->timing, &known, &measured);
    r->plan_seconds = (double)(hri_clock_ns() - begin) / 1e9;
    printf("planned in %.1f s: peak %.1f MiB, floor %.1f, plain %.1f; %u parts, %llu ops again, "
           "%.1f MiB away, predicted %.3f ms (%.3f without a budget); %llu timings, %llu new, %.1f "
           "s\n",
           r->plan_seconds, (double)r->plans.peak_bytes / MIB,
           (double)r->plans.c->floor_bytes / MIB, (double)r->fit.unplanned_bytes / MIB,
           r->plans.c->parts, (unsigned long long)r->plans.again_count,
           (double)r->plans.copied_bytes / MIB, r->plans.time_ns / 1e6, r->fit.base_time_ns / 1e6,
           (unsigned long long)known, (unsigned long long)measured,
           (double)hri_timing_trial_ns(r->timing) / 1e9);
    fflush(stdout);
    return HR_OK;
}

static void finish(rig *r) {
    atomic_store(&r->sampler.over, 1);
    pthread_join(r->sampler.thread, NULL);
    hri_fit_close(&r->fit);
    hri_timing_close(r->timing);
    hri_engine_close(r->engine);
    hr_model_close(r->model);
    hr_ctx_destroy(r->ctx);
    if (r->turn.fd >= 0) {
        close(r->turn.fd);
    }
}

/* Of a step: images, or tokens where a sample is a row of ids. */
static double things(const hr_graph *g, int64_t samples) {
    for (hr_value v = 1; v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        if (value->kind == HR_VALUE_INPUT && value->meta.shape.rank == 2 &&
            (value->meta.type == HR_TYPE_I32 || value->meta.type == HR_TYPE_I64)) {
            return (double)(samples * value->meta.shape.dim[1]);
        }
    }
    return (double)samples;
}

/* Says so; where budgets come one after another, the next one follows. */
static int give_up(rig *r, const char *what, hr_status status, const char *why) {
    turn_give(&r->turn);
    if (!r->many) {
        stop(what, status, why);
    }
    printf("gpu: %s: %s\n", what, why && *why ? why : hr_status_text(status));
    return 1;
}

static void print_row(const rig *r, const hri_fit_plans *planned, uint32_t parts, double peak,
                      double count, double ms, float loss, uint64_t digest, int row_fd) {
    char row[ROW];
    snprintf(row, sizeof row,
             "%-10s %-5s %5s %8s %5u %9.1f %9.1f %4s %10.0f %9.3f %9.3f %6llu %9.1f %a %016llx\n",
             r->c->model,
             r->job.options.precision == HR_PRECISION_BF16  ? "bf16"
             : r->job.options.precision == HR_PRECISION_F16 ? "f16"
             : r->f->exact                                  ? "f32"
                                                            : "tf32",
             r->c->batch, r->budget ? r->c->budget : "none", parts,
             (double)planned->peak_bytes / MIB, peak / MIB,
             r->budget && peak > (double)r->budget ? "OVER" : "ok", count / ms * 1e3, ms,
             planned->time_ns / 1e6, (unsigned long long)planned->again_count,
             (double)planned->copied_bytes / MIB, (double)loss, (unsigned long long)digest);
    printf("%s", row);
    fflush(stdout);
    if (row_fd >= 0 && write(row_fd, row, strlen(row)) < 0) {
        fprintf(stderr, "gpu: %s\n", strerror(errno));
    }
}

/* The steps; what they take on average, and the median. */
static int by_number(const void *a, const void *b) {
    const double d = *(const double *)a - *(const double *)b;
    return d > 0 ? 1 : d < 0 ? -1 : 0;
}

static double run_steps(const flags *f, hri_planned *p, hri_numbers *last, uint64_t *digest,
                        double *median) {
    hri_prose why = {0};
    uint64_t begin = hri_clock_ns();
    double *each_ms = must(calloc((size_t)f->steps, sizeof *each_ms));
    for (int s = 0; s < f->warm + f->steps; s++) {
        const uint64_t start = hri_clock_ns();
        begin = s == f->warm ? start : begin;
        need("a step", hri_planned_step(p, last, &why), why.text);
        *digest = hri_hash_u64(*digest ^ hri_hash_bytes(&last->loss, sizeof last->loss, 0));
        if (s >= f->warm) {
            each_ms[s - f->warm] = (double)(hri_clock_ns() - start) / 1e6;
        }
    }
    const double ms = (double)(hri_clock_ns() - begin) / 1e6 / f->steps;
    qsort(each_ms, (size_t)f->steps, sizeof *each_ms, by_number);
    *median = each_ms[f->steps / 2];
    free(each_ms);
    return ms;
}

/* What was planned is run.  Not 0: it took more than was planned for. */
static int run_plans(rig *r, feeder *feeds, int row_fd) {
    hri_prose why = {0};
    hri_planned *p;
    hri_numbers last = {0};
    hri_measured m;
    turn_take(&r->turn);
    const uint64_t turn_ns = hri_clock_ns();
    if (r->many) {
        atomic_store(&r->sampler.most, 0); /* timings are of all budgets */
    }
    feeds->limit = (uint32_t)hr_model_classes(r->model);
    feeds->parted = r->plans.c->parts > 1;
    const hri_planned_options o = {.device = r->device,
                                   .plans = &r->plans,
                                   .job = &r->job,
                                   .seed = 1,
                                   .cycle = 1,
                                   .limit = feeds->limit,
                                   .feed = feed,
                                   .feed_user = feeds};
    need("binding", hri_planned_open(&o, &p, &why), why.text);
    const hri_fit_plans planned = r->plans;
    const uint32_t parts = planned.c->parts;
    said times;
    ask_plan(&planned, hri_planned_graph(p), &times);
    const uint64_t planned_runtime = planned.peak_bytes - planned.arena_bytes;
    hri_pace pace = {.predicted_ns = 0};
    if (parts == 1 && planned.copied_bytes == 0) {
        hri_timing_pace_of(r->timing, hri_planned_graph(p), planned.time_ns, &pace);
    }
    if (!r->many) {
        hri_fit_drop_others(&r->fit, planned.c);
        hri_fit_plans_deinit(&r->plans);
        hri_fit_release(&r->fit);
    }
    const uint64_t bound_ns = hri_clock_ns();
    const hr_status taken = hri_planned_take(p, &why);
    if (taken == HR_E_LIMIT) {
        fprintf(stderr, "gpu: %s\n", why.text);
    } else {
        need("set-up", taken, why.text);
        const uint64_t taken_ns = hri_clock_ns();
        const uint64_t before = atomic_exchange(&r->sampler.most, 0); /* timings take memory, too */
        uint64_t digest = 0;
        double median = 0;
        const double ms = run_steps(r->f, p, &last, &digest, &median);
        const uint64_t ran_ns = hri_clock_ns();
        const double count = things(hri_planned_graph(p), r->job.batch);
        hri_planned_measure(p, &m);
        look(&r->sampler);
        const uint64_t most = atomic_load(&r->sampler.most);
        hri_pace_keep(&pace, hri_planned_step_ns(p));
        if (r->f->profile) {
            show_profile(p, &times, ms);
        }
        if (r->many) {
            hri_planned_close(p); /* in this turn: the next process sees a GPU without it */
            p = NULL;
        }
        turn_give(&r->turn);
        if (r->f->lock) {
            printf(
                "waited %.1f s for the GPU, held it %.1f s; the last turn: binding %.2f s, set-up "
                "%.2f s, steps %.2f s, closing %.2f s\n",
                (double)r->turn.waited_ns / 1e9, (double)r->turn.held_ns / 1e9,
                (double)(bound_ns - turn_ns) / 1e9, (double)(taken_ns - bound_ns) / 1e9,
                (double)(ran_ns - taken_ns) / 1e9, (double)(hri_clock_ns() - ran_ns) / 1e9);
        }
        printf("runtime planned %.1f MiB, measured %.1f MiB; %llu looks; median step %.3f ms, NVML "
               "meanwhile %.1f MiB\n",
               (double)planned_runtime / MIB, (double)m.runtime_bytes / MIB,
               (unsigned long long)atomic_load(&r->sampler.looks), median, (double)most / MIB);
        print_row(r, &planned, parts, (double)(most > before ? most : before), count, ms, last.loss,
                  digest, row_fd);
    }
    hri_planned_close(p);
    free(times.ns);
    free(times.runs);
    return taken == HR_E_LIMIT;
}

static int run_budget(rig *r, feeder *feeds, uint64_t begin, int only_plan, int row_fd) {
    hri_prose why = {0};
    const hr_status status = plan(r, begin, &why);
    if (status != HR_OK) {
        return give_up(r, "planning", status, why.text);
    }
    const int outgrown = only_plan ? 0 : run_plans(r, feeds, row_fd);
    if (r->many) {
        turn_give(&r->turn);
        hri_fit_plans_deinit(&r->plans);
        feed_anew(feeds);
        r->plans = (hri_fit_plans){0};
        if (outgrown) {
            printf("gpu: more was taken outside the arena than was planned for\n");
        }
    }
    return outgrown;
}

static int run_one(const flags *f, const configuration *c, int row_fd) {
    configuration this = *c;
    rig r = {.f = f, .c = &this, .many = !strcmp(c->budget, "-")};
    feeder feeds = {.again = f->feed};
    char text[64];
    int outgrown = 0;
    turn_open(&r.turn, f->lock);
    turn_take(&r.turn);
    open_device(&r);
    uint64_t begin = hri_clock_ns();
    open_fit(&r);
    if (!r.many) {
        outgrown = run_budget(&r, &feeds, begin, 0, row_fd);
    }
    while (r.many && fgets(text, sizeof text, stdin)) {
        text[strcspn(text, "\n")] = '\0';
        const int only_plan = strncmp(text, "plan ", 5) == 0;
        this.budget = text + (only_plan ? 5 : 0);
        r.budget = budget_of(&r, this.budget);
        begin = hri_clock_ns();
        (void)run_budget(&r, &feeds, begin, only_plan, row_fd);
        puts("--");
        fflush(stdout);
    }
    finish(&r);
    return outgrown ? OUTGROWN : 0;
}

/* ---- all of them ---- */

static int wanted(const flags *f, const configuration *c) {
    char text[256];
    snprintf(text, sizeof text, "%s %s %s %s", c->model, c->batch, c->budget, c->options);
    for (int i = 0; i < f->only_count; i++) {
        if (strstr(text, f->only[i])) {
            return 1;
        }
    }
    return f->only_count == 0;
}

/* NVML counts processes, so each configuration is one. */
static int run_apart(char **argv, int argc, const configuration *c, const char *reserve,
                     char *row) {
    int ends[2];
    if (pipe(ends)) {
        return -1;
    }
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        char fd[16];
        char *child[FLAGS * 2 + 16];
        int n = 0;
        snprintf(fd, sizeof fd, "%d", ends[1]);
        for (int i = 0; i < argc && n < FLAGS * 2; i++) {
            child[n++] = argv[i];
        }
        const char *const more[] = {"--reserve", reserve,  "--row",   fd,         "--one",
                                    c->model,    c->batch, c->budget, c->options, NULL};
        for (int i = 0; more[i]; i++) {
            child[n++] = (char *)(uintptr_t)more[i];
        }
        child[n] = NULL;
        close(ends[0]);
        execv("/proc/self/exe", child);
        _exit(127);
    }
    close(ends[1]);
    size_t used = 0;
    ssize_t got;
    while (used + 1 < ROW && (got = read(ends[0], row + used, ROW - 1 - used)) > 0) {
        used += (size_t)got;
    }
    row[used] = '\0';
    close(ends[0]);
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run_all(const flags *f, char **argv, int argc) {
    static char rows[ALL][ROW];
    int failed = 0;
    for (size_t i = 0; i < ALL; i++) {
        const configuration *c = &all[i];
        if (!wanted(f, c)) {
            continue;
        }
        printf("== %s %s %s %s\n", c->model, c->batch, c->budget, c->options);
        char reserve[32];
        snprintf(reserve, sizeof reserve, "%llu", (unsigned long long)f->reserve);
        int code = f->list ? 0 : run_apart(argv, argc, c, reserve, rows[i]);
        code = code == OUTGROWN ? run_apart(argv, argc, c, "256", rows[i]) : code;
        if (code) {
            failed = 1;
            if (!rows[i][0]) {
                snprintf(rows[i], ROW, "%-10s %s, batch %s in %s: FAILED\n", c->model, c->options,
                         c->batch, c->budget);
            }
        }
    }
    if (!f->list) {
        printf("\n%-10s %-5s %5s %8s %5s %9s %9s %4s %10s %9s %9s %6s %9s %s\n", "model", "type",
               "batch", "budget", "micro", "planned", "NVML MiB", "", "items/s", "ms", "predicted",
               "recom.", "offl. MiB", "loss, digest of all losses");
        for (size_t i = 0; i < ALL; i++) {
            printf("%s", rows[i]);
        }
    }
    return failed;
}

int main(int argc, char **argv) {
    flags f = {.device = "cuda:0", .steps = 20, .warm = 5, .effort = 8000, .drag = -1};
    configuration one;
    int row_fd = -1;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        const int left = argc - 1 - i;
        if (!strcmp(a, "--device") && left) {
            f.device = argv[++i];
        } else if (!strcmp(a, "--steps") && left) {
            f.steps = atoi(argv[++i]);
        } else if (!strcmp(a, "--warm") && left) {
            f.warm = atoi(argv[++i]);
        } else if (!strcmp(a, "--effort") && left) {
            f.effort = (uint64_t)atoll(argv[++i]);
        } else if (!strcmp(a, "--only") && left && f.only_count < FLAGS) {
            f.only[f.only_count++] = argv[++i];
        } else if (!strcmp(a, "--drag") && left) {
            f.drag = atof(argv[++i]);
        } else if (!strcmp(a, "--lock") && left) {
            f.lock = argv[++i];
        } else if (!strcmp(a, "--reserve") && left) {
            f.reserve = (uint64_t)atoll(argv[++i]);
        } else if (!strcmp(a, "--row") && left) {
            row_fd = atoi(argv[++i]);
        } else if (!strcmp(a, "--exact")) {
            f.exact = 1;
        } else if (!strcmp(a, "--fastest")) {
            f.fastest = 1;
        } else if (!strcmp(a, "--no-offload")) {
            f.no_offload = 1;
        } else if (!strcmp(a, "--no-measure")) {
            f.no_measure = 1;
        } else if (!strcmp(a, "--profile")) {
            f.profile = 1;
        } else if (!strcmp(a, "--feed")) {
            f.feed = 1;
        } else if (!strcmp(a, "--floors")) {
            return show_floors(f.profile);
        } else if (!strcmp(a, "--list")) {
            f.list = 1;
        } else if (!strcmp(a, "--one") && left >= 4) {
            one = (configuration){argv[i + 1], argv[i + 2], argv[i + 3], argv[i + 4]};
            f.one = &one;
            i += 4;
        } else {
            fprintf(stderr, "gpu: %s? The head of bench/gpu.c says what there is.\n", a);
            return 2;
        }
    }
    if (f.steps < 1 || f.warm < 0) {
        fprintf(stderr, "gpu: at least one step\n");
        return 2;
    }
    if (f.one) {
        return run_one(&f, f.one, row_fd);
    }
    return run_all(&f, argv, argc);
}
