/* headroom train: plans, proves, trains, validates, saves.
 *
 * The one idea: the plan comes first and is shown; then the loop runs inside it.  Signals are this file's alone: the
 * first Ctrl-C (or a scheduler's SIGTERM, or the end of the terminal) ends the training behind the step that runs, with
 * a checkpoint to go on from; the second one is the system's, except that a terminal may say twice that it ends. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/common/command.h"
#include "cli/common/ranks.h"
#include "cli/common/outputs.h"
#include "cli/common/train_run.h"
#include "net/speak.h"
#include "see/train.h"
#include "show/help_texts.h"

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    interrupted = number;
}

static void watch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    struct sigaction before;
    interrupted = 0;
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    action.sa_flags = 0;
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN) { /* no nohup */
        (void)sigaction(SIGHUP, &action, NULL);
    }
}

/* What the library tells while it plans and trains; what it is told. */
static hr_status on_event(void *user, const hr_job_event *e) {
    hri_train_run *r = user;
    if (!e->trainer && e->kind == HR_EVENT_WARNING) {
        return hri_cli_on_event(r->cli, e);
    }
    hri_startup_event(&r->cli->startup, r->view.job, e);
    if (e->kind == HR_EVENT_STARTED && r->ranks) {
        watch_signals();
    }
    if (r->profile && r->view.job && r->view.job->planned) {
        hri_see_train_event(r->profile, r->view.job->planned, e);
    }
    if (!e->trainer) {
        return HR_OK;
    }
    if (e->kind == HR_EVENT_WARNING || e->kind == HR_EVENT_SAVE_FAILED) {
        hri_train_show_hide(&r->view);
        hri_say_note("%s", e->text);
    }
    hri_train_show_event(&r->view, e);
    return interrupted ? HR_E_CANCELLED : HR_OK;
}

/* ---- the parts of it ---- */

typedef struct work {
    hri_cli *cli;
    const hri_train_flags *flags;
    uint32_t count;
    hri_train_run runs[HRI_TOGETHER_MAX];
    hri_train_also also[HRI_TOGETHER_MAX];
    uint64_t slices[HRI_TOGETHER_MAX];
    hr_ctx *ctx;
    hr_plan *plan;
    bool started; /* several processes have met, or it was tried */
} work;

static int read_all(work *w, const char *model) {
    const hri_train_flags *f = w->flags;
    int code = HRI_EXIT_YES;
    w->count = 1;
    for (const char *at = f->also; at && (*at || w->count == 1) && code == HRI_EXIT_YES;) {
        if (w->count == HRI_TOGETHER_MAX) {
            hri_say_error(w->cli, "--also: more than %d runs", HRI_TOGETHER_MAX);
            return HRI_EXIT_USAGE;
        }
        code = hri_train_also_read(w->cli, f, &at, &w->also[w->count++]);
    }
    if (code == HRI_EXIT_YES && f->logical_devices) {
        code = hri_train_slices_read(w->cli, f->logical_devices, w->count, w->slices);
    }
    for (uint32_t i = 0; i < w->count && code == HRI_EXIT_YES; i++) {
        hri_train_run *r = &w->runs[i];
        *r = (hri_train_run){.cli = w->cli,
                             .flags = i ? &w->also[i].flags : f,
                             .model = i ? w->also[i].model : model,
                             .ranks = hri_ranks_many(f),
                             .view = {.many = w->count > 1}};
        if (!r->flags->data) {
            hri_say_error(w->cli,
                          "%s: --data is required, for example --data images:DIR, "
                          "mnist:DIR, npy:X,Y or synthetic",
                          i ? "--also" : "train");
            hri_say_hint(w->cli, "headroom train --help");
            return HRI_EXIT_USAGE;
        }
        code = hri_train_run_init(r);
        r->o.on_event = on_event;
        r->o.user = r;
    }
    if (code == HRI_EXIT_YES) {
        code = hri_cli_output_check(w->cli, "--profile", f->profile, HRI_OUTPUT_FILE);
    }
    uint64_t first, last;
    if (code == HRI_EXIT_YES && hri_see_train_steps(f->profile_steps, &first, &last) != HR_OK) {
        hri_say_error(w->cli, "--profile-steps: '%s' is not a step or a range such as 100-102",
                      f->profile_steps);
        return HRI_EXIT_USAGE;
    }
    return code == HRI_EXIT_YES ? hri_cli_open_for(w->cli, f->device, &w->ctx) : code;
}

static int plan(work *w) {
    hr_error error = {.code = HR_OK};
    const hr_job_options *jobs[HRI_TOGETHER_MAX];
    for (uint32_t i = 0; i < w->count; i++) {
        jobs[i] = &w->runs[i].o;
    }
    const hr_status status = hri_job_plan_jobs(
        w->ctx, jobs, w->count, w->flags->logical_devices ? w->slices : NULL, &w->plan, &error);
    if (w->cli->waiting) {
        hri_waiting_stop(w->cli->waiting); /* the answer comes */
    }
    if (status != HR_OK) {
        const int code = hri_cli_error(w->cli, &error);
        if (status == HR_E_UNSUPPORTED && !strncmp(error.message, "device ", 7)) {
            hri_say_hint(w->cli, "headroom plan %s --device %s", w->runs[0].model,
                         w->flags->device);
        }
        return code;
    }
    for (uint32_t i = 0; i < w->count; i++) {
        w->runs[i].view.job = &w->plan->together->jobs[i];
    }
    return HRI_EXIT_YES;
}

static int show_plan(work *w) {
    hr_status status = HR_OK;
    hri_startup_planned(&w->cli->startup, w->plan->together);
    for (uint32_t i = 0; i < w->count && status == HR_OK && !w->flags->json; i++) {
        status = hri_train_show_plan(&w->runs[i].view);
    }
    if (status != HR_OK) {
        return hri_cli_failed(w->cli, NULL, "train", status);
    }
    if (w->count > 1 && !w->slices[0] && !w->flags->json) {
        hri_train_show_pair(&w->runs[0].view, w->plan->together);
    }
    hri_out_flush(&w->cli->out);
    return HRI_EXIT_YES;
}

/* It is said, what it left is named. */
static int fail(work *w, hr_status status, const hr_error *error) {
    const hri_train_run *bad = NULL;
    for (uint32_t i = 0; i < w->count; i++) {
        hri_train_run *r = &w->runs[i];
        hri_train_show_hide(&r->view);
        bad = r->view.job->trainer && hri_trainer_over(r->view.job->trainer) == HRI_TRAINER_FAILED
                  ? r
                  : bad;
    }
    if (status != HR_E_PEER || hri_ranks_stands_in(w->plan->together, error->message)) {
        hri_group_unmute();
    }
    const int code = hri_cli_error(w->cli, error);
    if (bad && error->cause == HR_CAUSE_DATA && !bad->flags->skip_bad && status != HR_E_INVALID) {
        hri_say_note("--skip-bad skips such samples");
    }
    if (bad || status == HR_E_PEER) {
        hri_train_run_failed(bad ? bad : &w->runs[0], status != HR_E_PEER);
    }
    return code;
}

static int show_end(work *w) {
    int code = HRI_EXIT_YES;
    for (uint32_t i = 0; i < w->count; i++) {
        const int own = hri_train_run_end(&w->runs[i]);
        code = own != HRI_EXIT_YES ? own : code;
    }
    if (!w->flags->json) {
        return code;
    }
    hri_json json;
    hri_cli_json_start(&json);
    hr_status status = hri_train_show_json(w->plan, 0, &w->cli->startup, &json);
    if (w->count > 1) {
        hri_json_u64(&json, "separate_bytes", w->plan->together->separate_bytes);
        hri_json_object(&json, "also");
        status =
            status == HR_OK ? hri_train_show_json(w->plan, 1, &w->cli->startup, &json) : status;
        hri_json_end(&json);
    }
    for (uint32_t i = 2; i < w->count && status == HR_OK; i++) { /* "also_2" ... "also_7" */
        char key[16];
        snprintf(key, sizeof key, "also_%u", i);
        hri_json_object(&json, key);
        status = hri_train_show_json(w->plan, i, &w->cli->startup, &json);
        hri_json_end(&json);
    }
    if (status != HR_OK) {
        hri_json_deinit(&json);
        return hri_cli_failed(w->cli, NULL, "train", status);
    }
    return hri_cli_json_end(w->cli, &json, code);
}

/* The ops of some steps of the first run, by its first rank. */
static int open_profile(work *w) {
    hri_prose why = {0};
    const hri_train_flags *f = w->flags;
    if (!f->profile || w->plan->together->jobs[0].who.rank) {
        return HRI_EXIT_YES;
    }
    const hr_status status =
        hri_see_train_open(w->plan, f->profile, f->profile_steps, &w->runs[0].profile, &why);
    if (status == HR_OK) {
        return HRI_EXIT_YES;
    }
    hri_say_error(w->cli, "--profile: %s", why.text[0] ? why.text : hr_status_text(status));
    return hri_cli_exit_code(status);
}

static void write_profile(work *w) {
    hri_prose why = {0};
    hri_see_train *profile = w->runs[0].profile;
    if (profile && !hri_see_train_timed(profile)) {
        hri_say_note("--profile: not written, since the run ended before steps %s",
                     w->flags->profile_steps);
    } else if (profile) {
        const hr_status status = hri_see_train_write(profile, &why);
        if (status == HR_OK && !w->flags->json) {
            hri_say_next_page(w->cli, w->flags->profile);
        } else if (status != HR_OK) {
            hri_say_note("--profile: not written: %s",
                         why.text[0] ? why.text : hr_status_text(status));
        }
    }
    hri_see_train_close(profile);
}

static int train(work *w) {
    hr_error error = {.code = HR_OK};
    w->started = true;
    if (!w->runs[0].ranks) { /* which wait for one another first: nothing is lost by ending then */
        watch_signals();
    }
    const hr_status status = hr_job_train(w->plan, &error);
    return status == HR_OK || status == HR_E_CANCELLED ? show_end(w) : fail(w, status, &error);
}

static int do_work(work *w, const char *model) {
    hri_waiting waiting;
    hri_waiting_start(&waiting, &w->cli->err_term, model);
    w->cli->waiting = &waiting;
    int code = read_all(w, model);
    hri_alloc_tight(true);
    if (code == HRI_EXIT_YES) {
        code = plan(w);
    }
    hri_alloc_tight(false);
    w->cli->waiting = NULL;
    hri_waiting_stop(&waiting);
    if (code == HRI_EXIT_YES && !hri_together_fits(w->plan->together)) {
        return hri_train_run_refusal(w->runs, w->plan->together);
    }
    if (code == HRI_EXIT_YES) {
        code = show_plan(w);
    }
    if (code == HRI_EXIT_YES) {
        code = open_profile(w);
    }
    return code == HRI_EXIT_YES ? train(w) : code;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    (void)count;
    hri_cli_wrap(cli);
    work w = {.cli = cli, .flags = options};
    int code;
    if (hri_ranks_launch(cli, w.flags, arguments[0], &code)) {
        cli->answered = true; /* by rank 0 */
        return code;
    }
    hri_ranks_mute(w.flags);
    code = do_work(&w, arguments[0]);
    if (code != HRI_EXIT_YES && !w.started) {
        hri_ranks_decline(cli, w.flags);
    }
    hr_plan_destroy(w.plan);
    hr_ctx_destroy(w.ctx);
    write_profile(&w); /* in the place of the arena, not beside it */
    for (uint32_t i = 0; i < w.count; i++) {
        hri_train_run_deinit(&w.runs[i]);
    }
    for (uint32_t i = 1; i < w.count; i++) {
        hri_train_also_deinit(&w.also[i]);
    }
    return code;
}

const hri_command hri_command_train = {
    .name = "train",
    .summary = "plan a training run, prove that it fits, and train",
    .arguments = "MODEL",
    .choices = "",
    .arguments_min = 1,
    .arguments_max = 1,
    .help = hri_help_train,
    .examples = {{"headroom train resnet18:size=64 --data images:flowers --val-split 0.1 --batch "
                  "32 --budget 256MiB",
                  "a folder of images, one folder per class"},
                 {"headroom train mlp --data mnist:mnist --batch auto --budget 128MiB",
                  "the fastest batch that fits"},
                 {"headroom train resnet18:size=64 --data images:flowers --budget 256MiB --out "
                  "runs/flowers --resume",
                  "resume where it stopped"},
                 {"headroom train resnet18 --data images:a --budget 2GiB --also 'resnet18 --data "
                  "images:b'",
                  "two models, one arena"}},
    .fields = hri_train_flag_fields,
    .options_bytes = sizeof(hri_train_flags),
    .settle = hri_train_keys_settle,
    .run = run,
};
