/* headroom run: a program of somebody else's inside a budget. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/common/command.h"
#include "cli/common/outputs.h"
#include "govern/alone.h"
#include "govern/budget.h"
#include "govern/env.h"
#include "govern/holders.h"
#include "govern/program.h"
#include "govern/ram.h"
#include "govern/story.h"
#include "govern/watch.h"
#include "show/help_texts.h"

typedef struct run_options {
    const char *budget, *wait, *record;
    uint64_t spill_bytes, ram_bytes;
    bool overcommit, plain, explain;
} run_options;

static const hri_field fields[] = {
    {"budget",
     "GPU memory for the program and all processes it starts: a size, a percentage, or "
     "cuda:0=SIZE,cuda:1=SIZE; "
     "a single size applies to every visible GPU; default: the memory that is free now",
     offsetof(run_options, budget), HRI_FIELD_STRING, .metavar = "SIZE"},
    {"wait", "how long to wait for memory that others hold: 30s, 10m, 2h; 0: not at all",
     offsetof(run_options, wait), HRI_FIELD_STRING, "0", .metavar = "TIME"},
    {"overcommit",
     "reserve nothing: programs share the GPU and wait for one another while they run",
     offsetof(run_options, overcommit), HRI_FIELD_BOOL, .value = NULL},
    {"spill",
     "host memory for allocations that do not fit: they are slower, and move to the GPU when it "
     "has room",
     offsetof(run_options, spill_bytes), HRI_FIELD_BYTES, "0", .metavar = "SIZE"},
    {"ram", "limit of host memory for the program and all processes it starts; 0: none",
     offsetof(run_options, ram_bytes), HRI_FIELD_BYTES, "0", .metavar = "SIZE"},
    {"record", "write every allocation: call, thread, stack, line of Python; see headroom report",
     offsetof(run_options, record), HRI_FIELD_STRING, .metavar = "FILE"},
    {"plain", "do not set environment variables for JAX, TensorFlow and PyTorch",
     offsetof(run_options, plain), HRI_FIELD_BOOL, .value = NULL},
    {"explain", "show what would be reserved and set; start nothing",
     offsetof(run_options, explain), HRI_FIELD_BOOL, .value = NULL},
    {0},
};

static void explain(hri_cli *cli, const hri_door_job *job, const hri_run_env *env,
                    const char *what) {
    char size[32];
    hri_out_printf(&cli->out, "%s\n", what);
    for (int i = 0; i < job->count; i++) {
        hri_out_printf(&cli->out, "  cuda:%d  %s\n", i,
                       hr_bytes_print(job->limits[i], size, sizeof size));
    }
    hri_out_text(&cli->out, "variables\n");
    for (size_t i = 0; i < env->count; i++) {
        const hri_run_variable *v = &env->variables[i];
        hri_out_printf(&cli->out, "  %s%s%s  (%s)\n", v->name, v->kept ? "" : "=",
                       v->kept ? " is already set and kept" : v->value, v->why);
    }
}

/* Words for a door that did not open. */
static int refused(hri_cli *cli, hri_link *link, const hri_door_job *job, hr_status status,
                   const char *wait) {
    char wanted[32], left[32], total[32];
    hri_wire row;
    if (status != HR_E_AGAIN && status != HR_E_LIMIT) {
        return hri_cli_failed(cli, NULL, "asking the broker", status);
    }
    for (uint32_t r = 0; hri_link_row(link, r, &row) == HR_OK; r++) {
        for (int i = 0; (row.flags & HRI_WIRE_ROW_DEVICE) && i < job->count; i++) {
            if (memcmp(row.uuid, job->uuids[i], 16) || job->limits[i] <= row.free_bytes) {
                continue;
            }
            hri_say_error(cli, "cuda:%d: %s needed, %s of %s left%s%s", i,
                          hr_bytes_print(job->limits[i], wanted, sizeof wanted),
                          hr_bytes_print(row.free_bytes, left, sizeof left),
                          hr_bytes_print(row.total_bytes, total, sizeof total),
                          strcmp(wait, "0") ? " after " : "", strcmp(wait, "0") ? wait : "");
            hri_say_hint(cli, "headroom top shows who holds it; --wait 10m waits for it");
            return HRI_EXIT_NO;
        }
    }
    hri_say_error(cli, "others are already waiting for memory; --wait 10m joins the queue");
    return HRI_EXIT_NO;
}

/* How a program's end becomes ours: its exit code, or its signal as shells tell it. */
static int exit_of(hri_cli *cli, uint64_t job, const hri_ram *ram, int status) {
    if (ram->record.kills_count) {
        char limit[32];
        hri_say_note("%llu process%s killed: the program exceeded its %s of RAM",
                     (unsigned long long)ram->record.kills_count,
                     ram->record.kills_count == 1 ? " was" : "es were",
                     hr_bytes_print(ram->record.limit_bytes, limit, sizeof limit));
    }
    if (WIFSIGNALED(status)) {
        hri_say_note("the program was killed by signal %d (%s)", WTERMSIG(status),
                     strsignal(WTERMSIG(status)));
        hri_say_hint(cli, "headroom why %llu", (unsigned long long)job);
        return 128 + WTERMSIG(status);
    }
    return WEXITSTATUS(status);
}

typedef struct queue {
    const hri_door_job *job;
    bool said;
} queue;

/* Once, when it is clear that this is no matter of a moment. */
static hr_status on_wait(void *user, uint64_t waited_ms) {
    enum { MOMENT_MS = 400 };
    queue *q = user;
    if (!q->said && waited_ms >= MOMENT_MS) {
        for (int i = 0; i < q->job->count; i++) {
            char device[32];
            hri_text text = {0};
            snprintf(device, sizeof device, "cuda:%d", i);
            hri_holders_say("waiting for", q->job->limits[i], device, q->job->uuids[i], &text);
            hri_say_note("%s", hri_text_get(&text));
            hri_text_deinit(&text);
        }
        q->said = true;
    }
    return HR_OK;
}

static void say_watched(const run_options *o, const hri_ram *ram, const hri_prose *why) {
    if (o->ram_bytes && !hri_ram_enforced(ram)) {
        hri_say_note("--ram is watched, not enforced: %s; short peaks can exceed it", why->text);
    }
}

static int start(hri_cli *cli, const run_options *o, hri_link *link, hri_door_job *job,
                 char *const *argv, uint64_t wait_ms) {
    hri_run_env env = {0};
    hri_prose why = {0};
    char *library = NULL;
    int ended = 0;
    hr_status status = hri_run_library_find(&library, &why);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", why.text);
        return HRI_EXIT_USAGE;
    }
    if (!o->explain) {
        queue q = {.job = job};
        status = hri_run_enter(link, job, wait_ms, on_wait, &q);
        hri_story_begin(link->folder, job->id, argv);
        if (status != HR_OK) {
            hri_free(library);
            return refused(cli, link, job, status, o->wait);
        }
        hri_story_forget(link->folder, job->id);
    }
    status = hri_run_env_init(&env, &(hri_run_env_options){.library = library,
                                                           .job = job->id,
                                                           .wait_ms = o->overcommit ? wait_ms : 0,
                                                           .spill_bytes = o->spill_bytes,
                                                           .record = o->record,
                                                           .plain = o->plain});
    hri_free(library);
    if (status == HR_OK && o->explain) {
        explain(cli, job, &env, o->overcommit ? "limits" : "reserved at the start");
        hri_run_env_deinit(&env);
        return HRI_EXIT_YES;
    }
    if (o->record) {
        (void)unlink(o->record); /* the program's first process makes it */
    }
    hri_ram ram = {0};
    if (status == HR_OK) {
        status = hri_ram_init(&ram, o->ram_bytes, &why);
        say_watched(o, &ram, &why);
    }
    if (status == HR_OK) {
        status = hri_run_watch(link, job, &ram, argv, env.list, &ended, &why);
        hri_ram_deinit(&ram, link->folder, job->id);
    }
    hri_run_env_deinit(&env);
    if (status == HR_OK) {
        hri_story_end(link->folder, job->id, argv, ended);
    }
    if (status != HR_OK) {
        hri_say_error(cli, "%s", *why.text ? why.text : hr_status_text(status));
        return status == HR_E_NOT_FOUND ? HRI_EXIT_USAGE : HRI_EXIT_FAULT;
    }
    return exit_of(cli, job->id, &ram, ended);
}

/* Without a GPU --ram is all there is to limit. */
static int start_alone(hri_cli *cli, const run_options *o, char *const *argv, const char *reason) {
    hri_alone alone = {0};
    hri_prose why = {0};
    int ended = 0;
    hri_say_note("%s: only --ram applies", reason);
    if (o->explain) {
        return HRI_EXIT_YES;
    }
    hr_status status = hri_alone_init(&alone, o->ram_bytes, argv, &why);
    say_watched(o, &alone.ram, &why);
    status = status == HR_OK ? hri_alone_run(&alone, argv, &ended, &why) : status;
    if (status != HR_OK) {
        hri_say_error(cli, "%s", *why.text ? why.text : hr_status_text(status));
        return status == HR_E_NOT_FOUND ? HRI_EXIT_USAGE : HRI_EXIT_FAULT;
    }
    return exit_of(cli, alone.job, &alone.ram, ended);
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    const run_options *o = options;
    hri_door_job job = {.flags = o->overcommit ? HRI_WIRE_OVERCOMMIT : 0,
                        .spill_limit_bytes = o->spill_bytes};
    hri_link link = {.client = {.fd = -1}};
    hri_prose why = {0}, unfit = {0};
    uint64_t wait_ms = 0;
    bool no_gpu = false, alone = false; /* without a GPU */
    if (hri_cli_output_check(cli, "--record", o->record, HRI_OUTPUT_FILE) != HRI_EXIT_YES) {
        return HRI_EXIT_USAGE;
    }
    hr_status status = hri_run_wait_parse(o->wait, &wait_ms, &why);
    const hr_status program =
        status == HR_OK ? hri_run_program_check(arguments[0], &unfit) : status;
    const bool ram_only = o->ram_bytes && !o->budget && !o->spill_bytes && !o->record;
    if (status == HR_OK && program != HR_OK && !(ram_only && program == HR_E_UNSUPPORTED)) {
        status = program;
        why = unfit;
    }
    if (status == HR_OK) {
        status = hri_link_open(&link, &why);
        no_gpu = status == HR_E_UNSUPPORTED;
        alone = ram_only && no_gpu;
        status = alone ? HR_OK : status;
    }
    if (status == HR_OK && !alone && program != HR_OK) {
        status = program;
        why = unfit;
    }
    if (status == HR_OK && !alone) {
        status = hri_run_budget(&link, o->budget, &job, &why);
        if (status == HR_E_IO) { /* the broker died just now: the next one */
            hri_link_close(&link);
            status = hri_link_open(&link, &why);
            status = status == HR_OK ? hri_run_budget(&link, o->budget, &job, &why) : status;
        }
    }
    if (status != HR_OK) {
        hri_say_error(cli, "%s", *why.text ? why.text : hr_status_text(status));
        if (no_gpu) {
            hri_say_hint(cli, "headroom run --ram SIZE -- %s, which limits host memory alone",
                         arguments[0]);
        }
        hri_link_close(&link);
        return status == HR_E_IO || status == HR_E_NOMEM_HOST ? HRI_EXIT_FAULT : HRI_EXIT_USAGE;
    }
    const char *slash = strrchr(arguments[0], '/');
    snprintf(job.name, sizeof job.name, "%s", slash ? slash + 1 : arguments[0]);
    char **argv = hri_calloc((size_t)count + 1, sizeof *argv);
    if (!argv) {
        hri_link_close(&link);
        return hri_cli_failed(cli, NULL, "the arguments", HR_E_NOMEM_HOST);
    }
    for (int i = 0; i < count; i++) {
        argv[i] = (char *)arguments[i];
    }
    hri_out_flush(&cli->out);
    const int code =
        alone ? start_alone(cli, o, argv, why.text) : start(cli, o, &link, &job, argv, wait_ms);
    hri_free(argv);
    hri_link_close(&link);
    return code;
}

const hri_command hri_command_run = {
    .name = "run",
    .summary = "run another program within a GPU memory budget",
    .arguments = "-- PROGRAM [ARGUMENT...]",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = INT_MAX,
    .help = hri_help_run,
    .examples = {{"headroom run --budget 8GiB -- python train.py", "train in 8 GiB"},
                 {"headroom run --budget 50% --wait 10m -- python train.py",
                  "half of the GPU, as soon as it is free"},
                 {"headroom run --budget 8GiB --spill 8GiB -- python train.py",
                  "a program that needs more than 8 GiB"},
                 {"headroom run --budget 8GiB --explain -- python train.py",
                  "what would be reserved and set"}},
    .fields = fields,
    .options_bytes = sizeof(run_options),
    .run = run,
};
