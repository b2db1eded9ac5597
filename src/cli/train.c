/* headroom train: plans, proves, trains, validates, saves.
 *
 * The one idea: the plan comes first and is shown; then the loop runs inside it.  Signals are this file's alone: the
 * first Ctrl-C (or a scheduler's SIGTERM) ends the training behind the step that runs, with a checkpoint to go on from;
 * the second one is the system's. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/alloc.h"
#include "cli/common/command.h"
#include "cli/common/train_pair.h"
#include "cli/common/train_show.h"

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    interrupted = number;
}

static void watch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    interrupted = 0;
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

/* ---- the loop ---- */

/* One failed: it is said, what it left is named, and the other one is saved. */
static int fail(hri_train_pair *p, uint32_t which, hr_status status, const hri_prose *why) {
    const hri_train_job *j = &p->jobs[which];
    hri_train_show_hide(&p->shows[which]);
    hri_say_error(p->jobs[0].cli, "%s%s%s", j->name, *j->name ? ": " : "",
                  why->text[0] ? why->text : hr_status_text(status));
    /* HR_E_RANGE: a loss that is not a number */
    const int bad_data =
        hri_cli_exit_code_of_input(status) == HRI_EXIT_USAGE && status != HR_E_RANGE;
    if (bad_data && !j->flags.skip_bad && status != HR_E_INVALID) {
        hri_say_note("--skip-bad leaves such samples out");
    }
    hri_train_show_failed(&p->shows[which]);
    for (uint32_t i = 0; i < p->count; i++) {
        hri_prose reason = {""};
        if (i != which && hri_trainer_stop(p->jobs[i].trainer, &reason) != HR_OK) {
            hri_say_error(p->jobs[0].cli, "%s: %s", p->jobs[i].name, reason.text);
        }
    }
    return bad_data && hri_trainer_over(j->trainer) == HRI_TRAINER_FAILED &&
                   !hri_trainer_save_failed(j->trainer)
               ? HRI_EXIT_USAGE
               : HRI_EXIT_FAULT;
}

/* One step of each that is not over yet, by turns. */
static int run_loop(hri_train_pair *p) {
    int running = 1;
    while (running) {
        running = 0;
        for (uint32_t i = 0; i < p->count; i++) {
            hri_train_job *j = &p->jobs[i];
            hri_prose why = {""};
            if (hri_trainer_over(j->trainer) != HRI_TRAINER_RUNS) {
                continue;
            }
            const hr_status status = interrupted ? hri_trainer_stop(j->trainer, &why)
                                                 : hri_trainer_step(j->trainer, &why);
            if (status != HR_OK) {
                return fail(p, i, status, &why);
            }
            if (!j->cli->startup.end_ns) {
                hri_startup_mark(&j->cli->startup, "first_step", 0);
                hri_startup_end(&j->cli->startup);
            }
            running = running || hri_trainer_over(j->trainer) == HRI_TRAINER_RUNS;
        }
    }
    return HRI_EXIT_YES;
}

static int show_end(hri_train_pair *p) {
    hri_cli *cli = p->jobs[0].cli;
    int code = HRI_EXIT_YES;
    for (uint32_t i = 0; i < p->count; i++) {
        const int own = hri_train_show_end(&p->shows[i]);
        code = own != HRI_EXIT_YES ? own : code;
    }
    if (!p->jobs[0].flags.json) {
        return code;
    }
    hri_json json;
    hri_cli_json_start(&json);
    hri_train_show_json(&p->shows[0], &json);
    if (p->count > 1) {
        hri_json_u64(&json, "separate_bytes", p->separate_bytes);
        hri_json_object(&json, "also");
        hri_train_show_json(&p->shows[1], &json);
        hri_json_end(&json);
    }
    return hri_cli_json_end(cli, &json, code);
}

static int work(hri_cli *cli, const hri_train_flags *flags, const char *model, hri_train_pair *p) {
    uint32_t which = 0;
    hri_waiting waiting;
    hri_waiting_start(&waiting, &cli->err_term, model);
    cli->waiting = &waiting;
    int code = hri_train_pair_look(cli, flags, model, p);
    const int planned = code == HRI_EXIT_YES ? hri_train_pair_plan(p, &which) : code;
    cli->waiting = NULL;
    hri_waiting_stop(&waiting);
    if (code == HRI_EXIT_YES) {
        code = planned;
        if (code == HRI_EXIT_NO) {
            return hri_train_pair_refuse(p, which);
        }
    }
    if (code == HRI_EXIT_YES) {
        code = hri_train_pair_start(p);
    }
    if (code == HRI_EXIT_YES) {
        watch_signals();
        code = run_loop(p);
        code = code == HRI_EXIT_YES ? show_end(p) : code;
    }
    return code;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    (void)count;
    hri_cli_wrap(cli);
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, 64 << 10); /* large pieces of planning go straight back */
    mallopt(M_TRIM_THRESHOLD, 64 << 10);
    mallopt(M_ARENA_MAX, 1);
#endif
    hri_train_pair *p = hri_calloc(1, sizeof *p);
    if (!p) {
        return hri_cli_failed(p->jobs[0].cli, NULL, "train", HR_E_NOMEM_HOST);
    }
    const int code = work(cli, options, arguments[0], p);
    hri_train_pair_close(p);
    hri_free(p);
    return code;
}

const hri_command hri_command_train = {
    .name = "train",
    .summary = "plans a training within a budget, proves it, and trains",
    .arguments = "MODEL",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = 1,
    .help =
        "Trains MODEL (name[:key=value,...]) on --data. The budget bounds everything the outside "
        "sees: on the host the resident set of the process, input pipeline included. The plan is "
        "made and checked before the first step; when nothing fits, the exit code is 1 and ways "
        "out are shown, and nothing was run. Classes, and the size of pictures that all have one, "
        "are taken from the data where the model string does not say them.\n\n"
        "Losses depend on model, data, options and seed alone: not on the number of threads, not "
        "on a budget that only makes things be computed again, not on being stopped and resumed. "
        "--micro-batches cuts a batch (sums by labels that count; clipping, decay and rate once a "
        "step); "
        "batch norm keeps it whole unless --ghost-norm allows the cut. --accumulate K makes one "
        "step of K batches.\n\n"
        "In the folder --out, last.safetensors is everything to go on from (--resume) and "
        "best.safetensors the weights of the best validation, for other programs too. Both are "
        "replaced whole or not at all. Ctrl-C saves and stops; a second one kills. --also trains a "
        "second model by turns in the same arena: weights of both, activations of the larger.\n\n"
        "The exit code is 0 when the training is done, 1 when it does not fit or was stopped, 2 "
        "for wrong use or bad data, 3 when something broke, a loss that is no number included.",
    .examples = {{"headroom train resnet18:size=64 --data images:flowers --val-split 0.1 --batch "
                  "32 --budget 256MiB",
                  "a folder of pictures, a folder a class"},
                 {"headroom train mlp --data mnist:mnist --batch auto --budget 128MiB",
                  "the fastest batch that fits"},
                 {"headroom train resnet18:size=64 --data images:flowers --budget 256MiB --out "
                  "runs/flowers --resume",
                  "goes on where it was stopped"},
                 {"headroom train resnet18 --data images:a --budget 2GiB --also 'resnet18 --data "
                  "images:b'",
                  "two models, one arena"}},
    .fields = hri_train_flag_fields,
    .options_bytes = sizeof(hri_train_flags),
    .settle = hri_train_keys_settle,
    .run = run,
};
