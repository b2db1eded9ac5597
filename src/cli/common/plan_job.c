/* Opening what is to be planned; see plan_job.h. */
#include "cli/common/plan_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cores.h"
#include "base/file.h"
#include "cli/common/plan_ways.h"
#include "cli/common/train_flags.h"
#include "device/device.h"
#include "memory/left.h"
#include "run/resident.h"

#define MIB (UINT64_C(1) << 20)

enum {
    LONGER = 8, /* looks that get more effort */
    LAST = 2    /* and those that get half of it */
};

const char *const hri_plan_optimizers[] = {"sgd", "adam", "adamw", "rmsprop", NULL};
const char *const hri_plan_precisions[] = {"f32", "bf16", "f16", NULL};

#define AT(MEMBER) offsetof(hri_plan_flags, MEMBER)
#define A_MODEL    "!problem"

const hri_field hri_plan_fields[] = {
    {"batch", "samples in a step", AT(batch), HRI_FIELD_INT, "32", .min = 1, .max = 1e6,
     .metavar = "N", .needs = A_MODEL},
    {"budget",
     "the most that may ever be used, or a share of the device; default: what it has free",
     AT(budget), HRI_FIELD_SIZE, NULL, .metavar = "SIZE"},
    {"host-budget",
     "of a GPU: the most of the host's memory that this process may use, with what waits there; "
     "default: what it has free",
     AT(host_budget), HRI_FIELD_SIZE, NULL, .metavar = "SIZE"},
    {"device", "host, cuda:0, or null:SIZE for one that is not there", AT(device), HRI_FIELD_STRING,
     "host", .metavar = "DEVICE", .needs = A_MODEL},
    {"device-spec",
     "of a device that is not there: flops=15e12,bandwidth=900e9,launch=4e-6,copy=25e9,runtime=0,"
     "page=2MiB",
     AT(device_spec), HRI_FIELD_STRING, NULL, .metavar = "KEYS", .needs = A_MODEL},
    {"optimizer", "sgd has momentum 0.9", AT(optimizer), HRI_FIELD_ENUM, "sgd", .metavar = "NAME",
     .choices = hri_plan_optimizers, .needs = A_MODEL},
    {"momentum", "of sgd (0.9) and rmsprop (0)", AT(momentum), HRI_FIELD_DOUBLE, "auto", .min = 0,
     .max = 1, .metavar = "X", .word = "auto", .needs = "optimizer=sgd/rmsprop"},
    {"precision", "of products; weights stay f32", AT(precision), HRI_FIELD_ENUM, "f32",
     .metavar = "TYPE", .choices = hri_plan_precisions, .needs = A_MODEL},
    {"options", "further options of training: clip=1,scores=kept", AT(options), HRI_FIELD_STRING,
     NULL, .metavar = "KEYS", .needs = A_MODEL},
    {"micro-batches", "parts of a batch: auto, off, or a number", AT(micro_batches),
     HRI_FIELD_STRING, "auto", .metavar = "K", .needs = A_MODEL},
    {"ghost-norm", "cut the batch even where batch norm couples its samples: another function",
     AT(ghost_norm), HRI_FIELD_BOOL, .value = NULL, .needs = A_MODEL},
    {"measure", "time the ops of this device (kept on disk) in place of the analytic model",
     AT(measure), HRI_FIELD_BOOL, "true", .needs = A_MODEL},
    {"exact", "f32 products of a GPU in f32 arithmetic, not tf32", AT(exact), HRI_FIELD_BOOL,
     .value = NULL, .needs = "device=cuda*"},
    {"offload", "let values wait in the host's memory where the device can copy", AT(offload),
     HRI_FIELD_BOOL, "true"},
    {"spill",
     "on the host: let values wait in a file without a name in this folder, at 1 GB/s unless "
     "--device-spec copy= says otherwise",
     AT(spill), HRI_FIELD_STRING, NULL, .metavar = "DIR", .needs = A_MODEL},
    {"choices", "look at other budgets, batches and ways out too", AT(choices), HRI_FIELD_BOOL,
     "true"},
    {"effort", "steps of search in thousands", AT(effort), HRI_FIELD_INT, "16000", .min = 1,
     .max = 1e9, .metavar = "N"},
    {"json", "print one JSON object, sizes in bytes", AT(json), HRI_FIELD_BOOL, .value = NULL},
    {"curve", "print budget against time, from the floor to no bound", AT(curve), HRI_FIELD_BOOL,
     .value = NULL},
    {"svg", "draw the curve", AT(svg), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"map", "draw which buffer lies where, step by step", AT(map), HRI_FIELD_STRING, NULL,
     .metavar = "FILE"},
    {"dot", "write the graph for Graphviz", AT(dot), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"save", "write the plan", AT(save), HRI_FIELD_STRING, NULL, .metavar = "FILE"},
    {"load", "take a saved plan, and check it again", AT(load), HRI_FIELD_STRING, NULL,
     .metavar = "FILE"},
    {"compare", "show the plan beside a saved one", AT(compare), HRI_FIELD_STRING, NULL,
     .metavar = "FILE"},
    {"save-problem", "write the planner's problem as JSON", AT(save_problem), HRI_FIELD_STRING,
     NULL, .metavar = "FILE"},
    {"problem", "plan a problem from JSON in place of a model", AT(problem), HRI_FIELD_STRING, NULL,
     .metavar = "FILE"},
    {"try", "run so many steps of the plan on made-up data, and measure", AT(tries), HRI_FIELD_INT,
     "0", .min = 0, .max = 1e6, .metavar = "STEPS"},
    {"seed", "of weights and made-up data", AT(seed), HRI_FIELD_INT, "0", .min = 0, .max = 1e15,
     .metavar = "N", .needs = "try"},
    {0},
};

/* ---- the device ---- */

typedef struct spec {
    double flops, bandwidth, launch, copy;
    uint64_t runtime, page;
} spec;

static const hri_field spec_fields[] = {
    {"flops", "operations a second", offsetof(spec, flops), HRI_FIELD_DOUBLE, "15e12", .min = 1,
     .max = 1e20},
    {"bandwidth", "bytes a second of its memory", offsetof(spec, bandwidth), HRI_FIELD_DOUBLE,
     "900e9", .min = 1, .max = 1e18},
    {"launch", "seconds that starting a kernel takes", offsetof(spec, launch), HRI_FIELD_DOUBLE,
     "4e-6", .min = 0, .max = 1},
    {"copy", "bytes a second to the host and back; 0: no copies", offsetof(spec, copy),
     HRI_FIELD_DOUBLE, "0", .min = 0, .max = 1e18},
    {"runtime", "bytes taken before any tensor", offsetof(spec, runtime), HRI_FIELD_BYTES, "0"},
    {"page", "bytes in which memory is taken", offsetof(spec, page), HRI_FIELD_BYTES, "2MiB",
     .min = 1, .max = 1e12},
    {0},
};

static int read_spec(const hri_plan_job *j, const char *text, spec *out) {
    hri_options o;
    hri_prose why = {0};
    hr_status status = hri_options_init(&o, spec_fields, out, &why);
    if (status == HR_OK) {
        status = hri_options_set_text(&o, text ? text : "", &why);
        hri_options_deinit(&o);
    }
    if (status != HR_OK) {
        hri_say_error(j->cli, "--device-spec: %s", why.text);
    }
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_exit_code(status);
}

static void take_spec(hri_plan_job *j, const spec *s) {
    j->job.machine.flops_per_ns = s->flops / 1e9;
    j->job.machine.bytes_per_ns = s->bandwidth / 1e9;
    j->job.machine.launch_ns = s->launch * 1e9;
    j->job.machine.out_bytes_per_ns = s->copy / 1e9;
    j->job.machine.in_bytes_per_ns = s->copy / 1e9;
    j->job.machine.copy_latency_ns = s->copy > 0 ? 10e3 : 0;
    j->job.runtime_bytes = s->runtime;
    j->job.page_bytes = s->page;
}

static int is_given(const hri_plan_job *j, const char *key) {
    return j->flags->device_spec && strstr(j->flags->device_spec, key);
}

static int open_host(hri_cli *cli, hri_plan_job *j, const hr_device_info *info, spec *s) {
    const int64_t asked = cli->settings->threads;
    const uint32_t threads = asked > 0 ? (uint32_t)asked : hri_cores_usable();
    const uint64_t runtime = hri_resident_runtime(); /* before there are threads */
    const hr_status status = hri_threads_create(threads, &j->threads);
    if (status != HR_OK) {
        return hri_cli_failed(j->cli, NULL, "threads", status);
    }
    /* A core does about this much on our kernels; a disk behind the page cache takes about this much. */
    const double given = s->flops;
    s->flops = 15e9 * threads;
    s->bandwidth = is_given(j, "bandwidth=") ? s->bandwidth : 10e9;
    s->launch = is_given(j, "launch=") ? s->launch : 2e-6;
    s->copy = is_given(j, "copy=") || !j->flags->spill ? s->copy : 1e9;
    if (is_given(j, "flops=")) {
        s->flops = given;
    }
    take_spec(j, s);
    j->job.machine.copies_block = 1;
    j->job.machine.threads = threads;
    j->job.machine.align = 64;
    j->job.nominal = j->job.machine; /* two such cores, whatever there is */
    j->job.nominal.flops_per_ns = is_given(j, "flops=") ? s->flops / 1e9 : 30;
    j->job.nominal.threads = 1;
    j->job.page_bytes = info->page_bytes;
    j->job.runtime_bytes = runtime + HRI_RESIDENT_THREAD;
    j->job.thread_bytes = HRI_RESIDENT_THREAD;
    j->job.count_records = 1;
    return HRI_EXIT_YES;
}

/* One GPU stands for all, so that where a batch is cut depends on none. */
static void set_nominal_gpu(hri_plan_job *j) {
    j->job.nominal = j->job.machine;
    j->job.nominal.flops_per_ns = 100e3;
    j->job.nominal.bytes_per_ns = 2e3;
    j->job.nominal.launch_ns = 4e3;
    j->job.nominal.out_bytes_per_ns = j->job.nominal.in_bytes_per_ns = 25;
    j->job.nominal.copy_latency_ns = 10e3;
}

/* Kernels and libraries are opened before anything is planned: what they take is runtime.  A GPU without a compiler for
 * kernels can be planned for all the same. */
static int open_cuda(hri_cli *cli, hri_plan_job *j, const hr_device_info *info, spec *s) {
    char folder[1024];
    const hri_gpu_options o = {.cache =
                                   hri_settings_cache_dir(cli->settings, folder, sizeof folder),
                               .exact_f32 = j->flags->exact,
                               .fastest = j->flags->tune,
                               .choices = j->flags->gpu_choices};
    hri_prose why = {0};
    const hr_status status = hri_engine_open(j->device, &o, &j->engine, &why);
    if (status == HR_E_UNSUPPORTED) {
        hri_say_warning(j->cli, "%s runs no kernels: %s; planning anyway", info->name, why.text);
        s->copy = j->flags->device_spec ? s->copy : 20e9;
        take_spec(j, s);
        j->job.runtime_bytes = s->runtime ? s->runtime : info->runtime_bytes;
        j->job.page_bytes = info->page_bytes;
        return HRI_EXIT_YES;
    }
    if (status != HR_OK) {
        hri_say_error(j->cli, "%s: %s", info->name,
                      why.text[0] ? why.text : hr_status_text(status));
        return hri_cli_exit_code(status);
    }
    if (!j->flags->device_spec) {
        hri_engine_speed speed;
        hri_engine_measure_speed(j->engine, &speed);
        j->job.machine = (hri_machine){.flops_per_ns = speed.flops_per_ns,
                                       .bytes_per_ns = speed.bytes_per_ns,
                                       .launch_ns = speed.launch_ns,
                                       .out_bytes_per_ns = speed.out_bytes_per_ns,
                                       .in_bytes_per_ns = speed.in_bytes_per_ns,
                                       .copy_latency_ns = speed.copy_latency_ns};
        set_nominal_gpu(j);
    } else {
        take_spec(j, s);
    }
    j->job.machine.gpu = hri_engine_gpu(j->engine);
    j->job.engine = j->engine;
    j->job.runtime_bytes = s->runtime ? s->runtime : hri_engine_runtime(j->engine);
    j->job.page_bytes = info->page_bytes;
    snprintf(j->device_what, sizeof j->device_what, "%s%s", info->description,
             j->flags->exact ? " exact" : "");
    return HRI_EXIT_YES;
}

static int open_real(hri_cli *cli, hri_plan_job *j, spec *s) {
    hr_device_info info;
    int code = hri_cli_open_for(cli, j->flags->device, &j->ctx);
    if (code != HRI_EXIT_YES) {
        return code;
    }
    hr_status status = hr_device_find(j->ctx, j->flags->device, &j->device);
    if (status == HR_OK) {
        status = hri_device_open(j->device);
    }
    if (status == HR_OK) {
        status = hr_device_get_info(j->device, &info);
    }
    if (status != HR_OK) {
        return hri_cli_failed(j->cli, j->ctx, j->flags->device, status);
    }
    snprintf(j->device_name, sizeof j->device_name, "%s", info.name);
    j->device_bytes = info.total_bytes;
    j->device_free = info.free_bytes;
    const uint32_t can = hri_device_can(j->device);
    if (can & HRI_CAN_POINT) {
        j->job.machine.kernels = hri_device_kernels(j->device);
        return open_host(cli, j, &info, s);
    }
    if (can & HRI_CAN_QUEUE) {
        return open_cuda(cli, j, &info, s);
    }
    take_spec(j, s);
    j->job.runtime_bytes = s->runtime ? s->runtime : info.runtime_bytes;
    j->job.page_bytes = info.page_bytes;
    return HRI_EXIT_YES;
}

/* Copies on the host go to a file, or there are none. */
static int check_spill(const hri_plan_job *j) {
    if (!j->flags->spill && !(j->threads && j->job.machine.out_bytes_per_ns > 0)) {
        return HRI_EXIT_YES;
    }
    if (!j->threads) {
        hri_say_error(j->cli,
                      "--spill: only the host spills to a file; a GPU's values wait in the host's "
                      "memory (--offload)");
        return HRI_EXIT_USAGE;
    }
    if (!j->flags->spill) {
        hri_say_error(j->cli,
                      "--device-spec: copy= on the host needs --spill DIR, a folder for the file");
        return HRI_EXIT_USAGE;
    }
    return HRI_EXIT_YES;
}

static int open_device(hri_cli *cli, hri_plan_job *j) {
    const char *name = j->flags->device;
    spec s = {0};
    const int code = read_spec(j, j->flags->device_spec, &s);
    if (code != HRI_EXIT_YES) {
        return code;
    }
    const char *size = hri_device_name_null(name);
    if (!size || !strcmp(size, "0")) {
        return open_real(cli, j, &s);
    }
    if (hr_bytes_parse(size, 0, &j->device_bytes) != HR_OK || !j->device_bytes) {
        hri_say_error(j->cli, "--device: \"%s\" is no size; null:24GiB is a device of 24 GiB",
                      size);
        return HRI_EXIT_USAGE;
    }
    snprintf(j->device_name, sizeof j->device_name, "%s", name);
    j->device_free = j->device_bytes;
    take_spec(j, &s);
    return HRI_EXIT_YES;
}

/* ---- model or problem ---- */

int hri_plan_read_parts(hri_cli *cli, const char *text, int64_t *out) {
    char *end;
    const long long k = strtoll(text, &end, 10);
    if (!strcmp(text, "auto")) {
        *out = 0;
    } else if (!strcmp(text, "off")) {
        *out = 1;
    } else if (*text && !*end && k >= 1 && k <= 1000000) {
        *out = k;
    } else {
        hri_say_error(cli, "--micro-batches: \"%s\" is neither auto nor off nor a number from 1",
                      text);
        return HRI_EXIT_USAGE;
    }
    return HRI_EXIT_YES;
}

void hri_plan_train_text(const hri_plan_flags *flags, hri_text *out) {
    if (flags->train_text) {
        hri_text_add(out, "%s", flags->train_text);
        return;
    }
    hri_train_keys_add(hri_plan_fields, flags, out);
    if (flags->options && *flags->options) {
        hri_text_add(out, ",%s", flags->options);
    }
}

hr_status hri_plan_train_options(const hri_plan_flags *flags, hr_train_options *out,
                                 hr_error *why) {
    hri_text text = {0};
    hri_plan_train_text(flags, &text);
    hr_status status = hri_text_status(&text);
    if (status == HR_OK) {
        status = hr_train_options_parse(hri_text_get(&text), out, why);
    }
    hri_text_deinit(&text);
    return status;
}

static int open_model(hri_plan_job *j, const char *name) {
    hr_error why = {0};
    hr_status status = hr_model_open(name, &j->model, &why);
    if (status == HR_OK) {
        status = hri_plan_train_options(j->flags, &j->job.options, &why);
    }
    if (status != HR_OK) {
        hri_say_error(j->cli, "%s", why.message[0] ? why.message : hr_status_text(status));
        return hri_cli_exit_code(status);
    }
    j->job.build = hr_model_build;
    j->job.user = j->model;
    j->job.batch = j->flags->batch;
    j->job.allow_coupled = j->flags->ghost_norm;
    j->job.evaluate = 1;
    j->job.no_offload = !j->flags->offload;
    j->job.effort = (uint64_t)j->flags->effort * 1000;
    snprintf(j->what, sizeof j->what, "%s", name);
    j->given_model = name;
    return hri_plan_read_parts(j->cli, j->flags->micro_batches, &j->job.parts);
}

static int open_problem(hri_plan_job *j) {
    char *text;
    size_t bytes;
    hri_prose why = {0};
    hr_status status =
        hri_file_read(j->flags->problem, HRI_PROBLEM_FILE_BYTES, &text, &bytes, &why);
    if (status == HR_OK) {
        status = hri_problem_parse(text, bytes, &j->problem, &why);
        hri_free(text);
    }
    if (status == HR_OK) {
        const hri_plan_options o = {.effort = (uint64_t)j->flags->effort * 1000};
        status = hri_plan_make(&j->problem, &o, &j->reference, NULL, &why);
    }
    if (status != HR_OK) {
        hri_say_error(j->cli, "%s: %s", j->flags->problem, why.text);
        return hri_cli_exit_code_of_input(status);
    }
    j->floor_bytes = j->reference->floor_bytes;
    j->unplanned_bytes = j->reference->unplanned_bytes;
    j->base_time_ns = j->reference->time_ns;
    snprintf(j->what, sizeof j->what, "%s", j->flags->problem);
    return HRI_EXIT_YES;
}

uint64_t hri_plan_job_there(const hri_plan_job *j) {
    hri_memory_left left;
    uint64_t now;
    if (!j->threads) {
        return j->device_free ? j->device_free : UINT64_MAX;
    }
    hri_memory_left_read("", &left);
    hri_resident_read(&now, NULL);
    if (!left.free_bytes) {
        return UINT64_MAX;
    }
    const uint64_t there =
        left.free_bytes + now; /* code may be resident here and charged elsewhere */
    return left.total_bytes && there > left.total_bytes ? left.total_bytes : there;
}

static int read_budget(hri_plan_job *j) {
    if (!j->flags->budget) { /* what the device has */
        j->budget_bytes = j->device_free;
        if (j->threads) { /* some of it stays free: others live here, too, and the kernel's own memory grows */
            const uint64_t there = hri_plan_job_there(j), most = 64 * MIB;
            const uint64_t keep = there / 32 < most ? there / 32 : most;
            j->budget_bytes = there == UINT64_MAX ? j->device_free : there - keep;
        }
        return HRI_EXIT_YES;
    }
    const hr_status status = hr_bytes_parse(j->flags->budget, j->device_bytes, &j->budget_bytes);
    if (status != HR_OK || j->budget_bytes == 0) {
        hri_say_error(j->cli, "--budget: \"%s\" is no amount of memory", j->flags->budget);
        return HRI_EXIT_USAGE;
    }
    /* a container's limit is in whole pages */
    if (j->device_bytes && j->budget_bytes / 4096 > j->device_bytes / 4096) {
        char text[32];
        hri_say_warning(j->cli, "--budget exceeds what %s has (%s); planning anyway",
                        j->device_name, hr_bytes_print(j->device_bytes, text, sizeof text));
    }
    return HRI_EXIT_YES;
}

/* The second budget: of the host beside a GPU. */
static int read_host_budget(hri_plan_job *j) {
    hri_memory_left left;
    uint64_t now;
    hri_memory_left_read("", &left);
    hri_resident_read(&now, NULL);
    const uint64_t there = left.free_bytes ? left.free_bytes + now : 0;
    if (!j->flags->host_budget) {
        j->host_budget_bytes = j->engine ? there : 0;
        return HRI_EXIT_YES;
    }
    if (j->threads) {
        hri_say_error(j->cli, "--host-budget is for GPUs; on the host --budget bounds everything");
        return HRI_EXIT_USAGE;
    }
    const hr_status status =
        hr_bytes_parse(j->flags->host_budget, left.total_bytes, &j->host_budget_bytes);
    if (status != HR_OK || j->host_budget_bytes == 0) {
        hri_say_error(j->cli, "--host-budget: \"%s\" is no amount of memory",
                      j->flags->host_budget);
        return HRI_EXIT_USAGE;
    }
    if (j->engine && there && j->host_budget_bytes > there) {
        char text[32];
        hri_say_warning(j->cli,
                        "--host-budget exceeds what the host has left (%s); planned for that",
                        hr_bytes_print(there, text, sizeof text));
        j->host_budget_bytes = there;
    }
    return HRI_EXIT_YES;
}

/* What the host budget leaves for values that wait: measured once kernels and libraries are there. */
static int bound_other(hri_plan_job *j) {
    if (!j->host_budget_bytes) {
        return HRI_EXIT_YES;
    }
    /* A device that is not there has no process either.  Of a GPU's libraries most is never touched, and what is can be
     * dropped by a container that has no room: what is resident counts, and some more of it. */
    uint64_t now = 0;
    hri_resident_read(&now, NULL);
    const uint64_t lane = j->fit.case_count ? j->fit.cases[0]->lane.large : 0;
    if (j->engine) {
        j->host_runtime_bytes =
            (now / MIB + 1 + 32) * MIB + j->host_extra_bytes + 2 * lane + HRI_LANE_BOUNCE;
    }
    if (j->host_runtime_bytes > j->host_budget_bytes) {
        char takes[32], budget[32];
        hri_say_error(j->cli,
                      "the host budget of %s is less than the %s that this process takes there "
                      "before anything is offloaded",
                      hr_bytes_print(j->host_budget_bytes, budget, sizeof budget),
                      hr_bytes_print(j->host_runtime_bytes, takes, sizeof takes));
        return HRI_EXIT_NO;
    }
    const uint64_t left = j->host_budget_bytes - j->host_runtime_bytes;
    j->job.other_budget_bytes = j->fit.job.other_budget_bytes = left;
    j->job.no_offload = j->fit.job.no_offload = j->job.no_offload || !left;
    return HRI_EXIT_YES;
}

/* What kernels may be tried in before the arena is there: the budget, less what is taken and what every plan leaves for
 * its graph.  An op that needs more is in no plan of this budget, so whether it is tried changes no result. */
static uint64_t scratch_bytes(const hri_plan_job *j) {
    const uint64_t taken = hri_engine_runtime(j->engine) + hri_engine_graph_reserve(0);
    return j->budget_bytes > taken ? j->budget_bytes - taken : 64 * MIB;
}

/* ---- the same with other flags ---- */

void hri_plan_job_spill(const hri_plan_job *j, const char *folder, hri_fit_job *out) {
    if (!j->threads || !folder == !j->job.spill) {
        return;
    }
    out->spill = folder ? "." : NULL;
    out->machine.out_bytes_per_ns = out->machine.in_bytes_per_ns = folder ? 1 : 0;
    out->machine.copy_latency_ns = folder ? 10e3 : 0;
    out->nominal.out_bytes_per_ns = out->nominal.in_bytes_per_ns = folder ? 1 : 0;
    out->nominal.copy_latency_ns = folder ? 10e3 : 0;
}

static hr_status road_job(void *user, const hri_change *changes, size_t count, hri_fit_job *out,
                          hri_prose *why) {
    const hri_plan_job *j = user;
    hri_options o;
    hri_plan_flags f;
    hr_error error = {0};
    hr_status status =
        hri_options_changed(&o, hri_plan_fields, j->flags, sizeof f, changes, count, &f, why);
    if (status != HR_OK) {
        return status;
    }
    hri_cli quiet = {.quiet = true};
    *out = j->job;
    out->batch = f.batch;
    out->allow_coupled = f.ghost_norm;
    out->no_offload = !f.offload;
    hri_plan_job_spill(j, f.spill, out);
    status = hri_plan_train_options(&f, &out->options, &error);
    if (status == HR_OK &&
        hri_plan_read_parts(&quiet, f.micro_batches, &out->parts) != HRI_EXIT_YES) {
        status = HR_E_INVALID;
    }
    hri_text_deinit(&quiet.failure);
    hri_options_deinit(&o);
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "%s", error.message);
}

static hr_status road_command(void *user, const hri_change *changes, size_t count, hri_text *out) {
    const hri_plan_job *j = user;
    hri_options o;
    hri_plan_flags f;
    hr_status status =
        hri_options_changed(&o, hri_plan_fields, j->flags, sizeof f, changes, count, &f, NULL);
    if (status == HR_OK) {
        status = hri_cli_command(j->cli, "plan", j->given_model, hri_plan_fields, &f, out);
        hri_options_deinit(&o);
    }
    return status;
}

void hri_plan_job_road(hri_plan_job *j, hri_plan_road *out) {
    *out = (hri_plan_road){
        .user = j, .fields = hri_plan_fields, .job = road_job, .command = road_command};
    j->road = out;
}

/* What the host's kernels may be tried in: a part of the budget, and never more than planning leaves of it. */
static uint64_t trial_bytes(const hri_plan_job *j) {
    const uint64_t taken = j->fit.facts[0].planning_bytes;
    const uint64_t left = j->budget_bytes > taken ? j->budget_bytes - taken : 1;
    return !j->budget_bytes || left > j->budget_bytes / 4 ? j->budget_bytes / 4 : left;
}

static hr_status open_timing(hri_cli *cli, hri_plan_job *j, uint64_t most_bytes) {
    char folder[1024];
    const hri_timing_options o = {.threads = j->threads,
                                  .kernels = j->job.machine.kernels,
                                  .engine = j->engine,
                                  .try_only = !j->flags->measure,
                                  .folder =
                                      hri_settings_cache_dir(cli->settings, folder, sizeof folder),
                                  .device = j->engine ? j->device_what : j->device_name,
                                  .flops_per_ns = j->job.machine.flops_per_ns,
                                  .bytes_per_ns = j->job.machine.bytes_per_ns,
                                  .most_bytes = most_bytes};
    const hr_status status = hri_timing_open(&o, &j->timing);
    if (status == HR_OK) {
        j->job.time_ns = hri_timing_time;
        j->job.time_user = j->timing;
    }
    return status;
}

int hri_plan_job_fit(hri_cli *cli, hri_plan_job *j) {
    hri_prose why = {0};
    hr_status status = HR_OK;
    if (j->engine) { /* on a GPU trying a kernel is what loads it */
        status = open_timing(cli, j, scratch_bytes(j));
    }
    const hri_fit_fact *floor = NULL;
    if (status == HR_OK) {
        status = hri_fit_open(&j->job, &j->fit, &why);
    }
    if (status == HR_OK && j->flags->measure && j->threads) {
        status = open_timing(cli, j, trial_bytes(j));
        if (status == HR_OK) {
            status = hri_fit_set_times(&j->fit, j->job.time_ns, j->job.time_user, &why);
        }
    }
    if (status == HR_OK && bound_other(j) != HRI_EXIT_YES) {
        return HRI_EXIT_NO;
    }
    if (status == HR_OK) {
        status = hri_fit_floor(&j->fit, &floor, &why);
    }
    if (status != HR_OK) {
        hri_say_error(j->cli, "%s: %s", j->what, why.text[0] ? why.text : hr_status_text(status));
        return hri_cli_exit_code(status);
    }
    j->floor_bytes = floor->floor_bytes;
    j->unplanned_bytes = j->fit.unplanned_bytes;
    j->base_time_ns = j->fit.base_time_ns;
    return HRI_EXIT_YES;
}

int hri_plan_job_begin(hri_cli *cli, const hri_plan_flags *flags, const char *model,
                       hri_plan_job *out) {
    *out = (hri_plan_job){.cli = cli, .flags = flags};
    int code = open_model(out, model);
    hri_startup_mark(&cli->startup, "look", 0);
    if (code == HRI_EXIT_YES) {
        code = open_device(cli, out);
    }
    hri_startup_mark(&cli->startup, "device", 0);
    if (code == HRI_EXIT_YES) {
        out->job.spill = flags->spill;
        code = check_spill(out);
    }
    code = code == HRI_EXIT_YES ? read_budget(out) : code;
    return code == HRI_EXIT_YES ? read_host_budget(out) : code;
}

int hri_plan_job_open(hri_cli *cli, const hri_plan_flags *flags, int count,
                      const char *const *arguments, hri_plan_job *out) {
    *out = (hri_plan_job){.cli = cli, .flags = flags};
    if ((count == 1) == (flags->problem != NULL)) {
        hri_say_error(cli, count ? "plan: a model or --problem, not both"
                                 : "plan: MODEL is missing (or --problem FILE)");
        hri_say_hint(cli, "headroom plan --help");
        return HRI_EXIT_USAGE;
    }
    int code = HRI_EXIT_YES;
    if (flags->problem) {
        code = read_budget(out);
        code = code == HRI_EXIT_YES ? read_host_budget(out) : code;
        return code == HRI_EXIT_YES ? open_problem(out) : code;
    }
    code = hri_plan_job_begin(cli, flags, arguments[0], out);
    return code == HRI_EXIT_YES ? hri_plan_job_fit(cli, out) : code;
}

void hri_plan_job_close(hri_plan_job *j) {
    hri_fit_close(&j->fit);
    hri_plan_destroy(j->reference);
    hri_plan_destroy(j->least);
    if (j->flags && j->flags->problem) {
        hri_problem_deinit(&j->problem);
    }
    hri_timing_close(j->timing);
    hri_engine_close(j->engine);
    hri_threads_destroy(j->threads);
    hr_model_close(j->model);
    hr_ctx_destroy(j->ctx);
}

/* ---- searching ---- */

void hri_plan_row_of(const hri_plan_job *j, const hri_fit_plans *plans, hri_plan_row *row) {
    *row = (hri_plan_row){.fits = true,
                          .budget_bytes = row->budget_bytes,
                          .peak_bytes = plans->peak_bytes,
                          .runtime_bytes = plans->runtime_bytes,
                          .persistent_bytes = plans->bottom_bytes,
                          .arena_bytes = plans->arena_bytes - plans->bottom_bytes,
                          .live_peak_bytes = plans->live_bytes,
                          .input_bytes = plans->input_bytes,
                          .host_peak_bytes = j->host_runtime_bytes + plans->other_bytes,
                          .planning_bytes = plans->planning_bytes,
                          .threads = j->threads ? plans->threads : 0,
                          .micro_batches = plans->parts,
                          .part = plans->part,
                          .recomputed_ops = plans->again_count,
                          .offloaded_bytes = plans->copied_bytes,
                          .spill_bytes = j->job.spill ? plans->other_bytes : 0,
                          .time_ns = plans->time_ns,
                          .time_ratio = plans->time_ns / j->base_time_ns,
                          .bound_ratio = plans->bound_time_ns / j->base_time_ns};
    if (plans->threads == 0 && j->fit.nominal_time_ns > 0) { /* times of the nominal machine */
        row->time_ratio = plans->time_ns / j->fit.nominal_time_ns;
        row->bound_ratio = plans->bound_time_ns / j->fit.nominal_time_ns;
        row->time_ns = row->time_ratio * j->base_time_ns;
    }
    if (j->threads) { /* on the host the peak of the process is the peak of the device */
        row->host_peak_bytes = plans->peak_bytes;
    }
}

void hri_plan_job_set_threads(hri_plan_job *j, const hri_fit_plans *plans) {
    if (j->threads && plans->plans[0]) {
        hri_threads_shrink(j->threads, plans->threads ? plans->threads : 1);
    }
}

static void row_of_plan(const hri_plan_job *j, const hri_plan *plan, uint64_t budget,
                        hri_plan_row *row) {
    *row = (hri_plan_row){.fits = true,
                          .budget_bytes = budget,
                          .peak_bytes = plan->arena_bytes,
                          .persistent_bytes = plan->persistent_bytes,
                          .arena_bytes = plan->arena_bytes - plan->persistent_bytes,
                          .live_peak_bytes = plan->live_bytes,
                          .host_peak_bytes = plan->other_bytes,
                          .micro_batches = 1,
                          .recomputed_ops = plan->again_count,
                          .offloaded_bytes = plan->copied_bytes,
                          .time_ns = plan->time_ns,
                          .time_ratio = plan->time_ns / j->base_time_ns,
                          .bound_ratio = plan->bound_time_ns / j->base_time_ns};
}

static hr_status make_plan(const hri_plan_job *j, uint64_t budget, uint32_t share,
                           hri_plan_memo *memo, int memo_only, hri_plan **out, hri_prose *why) {
    const hri_plan_options o = {.budget_bytes = budget,
                                .memo = memo,
                                .any = memo != NULL,
                                .memo_only = (uint8_t)memo_only,
                                .no_offload = !j->flags->offload,
                                .other_budget_bytes = j->host_budget_bytes,
                                .effort = (uint64_t)j->flags->effort * 1000 / share + 1};
    return hri_plan_make(&j->problem, &o, out, NULL, why);
}

/* A plan that takes less becomes j->least. */
static hr_status probe(hri_plan_job *j, uint64_t budget, uint32_t share, hri_plan_memo *memo,
                       int memo_only, int *found, hri_prose *why) {
    hri_plan *plan = NULL;
    const hr_status status = make_plan(j, budget, share, memo, memo_only, &plan, why);
    *found = status == HR_OK && (!j->least || plan->arena_bytes < j->least->arena_bytes);
    if (*found) {
        hri_plan_destroy(j->least);
        j->least = plan;
    } else {
        hri_plan_destroy(plan);
    }
    return status == HR_E_NO_PLAN ? HR_OK : status;
}

/* A problem without a model: as train/fit_least.c goes down for one with. */
static hr_status find_smallest_problem(hri_plan_job *j, hri_plan_row *row, hri_prose *why) {
    const uint64_t floor = j->floor_bytes, step = floor / 128 + 1;
    uint64_t low = floor;
    hri_plan_memo memo = {0};
    int found = 0;
    hr_status status = probe(j, 0, HRI_FIT_LOOK, &memo, 0, &found, why);
    if (status == HR_OK) {
        status = probe(j, low, HRI_FIT_LOOK, &memo, 0, &found, why);
    }
    while (status == HR_OK && j->least->arena_bytes > low + step) {
        const uint64_t middle = low + (j->least->arena_bytes - low) / 2;
        status = probe(j, middle, HRI_FIT_LOOK, &memo, 0, &found, why);
        low = found ? low : middle;
    }
    uint64_t down = status == HR_OK ? (j->least->arena_bytes - floor) / 4 : 0;
    for (int tries = 0; tries < LONGER && status == HR_OK && down >= step; tries++) {
        status =
            probe(j, j->least->arena_bytes - down, HRI_FIT_LOOK / LONGER, &memo, 1, &found, why);
        down = found ? down : down / 2;
    }
    down = status == HR_OK ? (j->least->arena_bytes - floor) / 4 : 0;
    for (int tries = 0; tries < LAST && status == HR_OK && down > floor / 8; tries++) {
        status = probe(j, j->least->arena_bytes - down, 2, &memo, 0, &found, why);
        down = found ? (j->least->arena_bytes - floor) / 4 : down / 2;
    }
    hri_plan_memo_deinit(&memo);
    if (status == HR_OK) {
        row_of_plan(j, j->least, j->least->arena_bytes, row);
    }
    return status;
}

static hr_status find_smallest(hri_plan_job *j, hri_plan_row *row, hri_prose *why) {
    uint64_t bytes;
    hri_fit_plans plans;
    if (!j->model) {
        return find_smallest_problem(j, row, why);
    }
    const hr_status status = hri_fit_smallest(&j->fit, &bytes, &plans, why);
    if (status == HR_OK) {
        *row = (hri_plan_row){.budget_bytes = bytes};
        hri_plan_row_of(j, &plans, row);
    }
    return status;
}

hr_status hri_plan_job_smallest(hri_plan_job *j, hri_plan_row *row, hri_prose *why) {
    const hr_status status = j->smallest.fits ? HR_OK : find_smallest(j, &j->smallest, why);
    if (status == HR_OK) {
        *row = j->smallest;
    }
    return status;
}

/* Looks of two lengths, and where none finds a plan the smallest there is: as for a model (train/fit.h), so that
 * nothing at or above the smallest budget is refused. */
static hr_status search_problem(hri_plan_job *j, uint64_t budget, uint32_t share, hri_plan_row *row,
                                hri_plan **out, hri_prose *why) {
    hri_plan *plan = NULL;
    hri_plan_row least;
    hr_status status = make_plan(j, budget, share, NULL, 0, &plan, why);
    if (status == HR_E_NO_PLAN && share < HRI_FIT_LOOK) {
        status = make_plan(j, budget, HRI_FIT_LOOK, NULL, 0, &plan, why);
    }
    if (status == HR_E_NO_PLAN && budget >= j->floor_bytes) {
        status = hri_plan_job_smallest(j, &least, why);
        if (status == HR_OK && least.peak_bytes <= budget) {
            plan = hri_plan_copy(j->least);
            status = plan ? HR_OK : HR_E_NOMEM_HOST;
        } else if (status == HR_OK) {
            status = hri_prose_set(why, HR_E_NO_PLAN, "no plan was found within the budget");
        }
    }
    if (status != HR_OK) {
        return status;
    }
    row_of_plan(j, plan, budget, row);
    if (out) {
        *out = plan;
    } else {
        hri_plan_destroy(plan);
    }
    return HR_OK;
}

hr_status hri_plan_job_search(hri_plan_job *j, uint64_t budget_bytes, uint32_t share,
                              hri_plan_row *row, hri_fit_plans *plans, hri_plan **plan,
                              hri_prose *why) {
    hri_plan_row found = {.budget_bytes = budget_bytes};
    hri_fit_plans got = {0};
    hr_status status;
    if (!j->model) {
        status = search_problem(j, budget_bytes, share, &found, plan, why);
    } else {
        status = hri_fit_search(&j->fit, budget_bytes, share, &got, why);
        if (status == HR_OK) {
            hri_plan_row_of(j, &got, &found);
        }
    }
    if (status == HR_OK || status == HR_E_NO_PLAN) {
        *row = found;
    }
    if (status == HR_OK && plans && j->model) {
        *plans = got;
    } else {
        hri_fit_plans_deinit(&got);
    }
    return status;
}
