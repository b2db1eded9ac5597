/* Lines and sums; see train_show.h. */
#include "cli/common/train_show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/common/command.h"
#include "job/print.h"
#include "base/wrap.h"
#include "device/device.h"

/* ---- while it runs ---- */

void hri_train_show_hide(hri_train_show *s) {
    hri_progress_hide(&s->bar);
}

static void on_log(void *user, hr_log_level level, const char *line) {
    hri_train_show *s = user;
    (void)level;
    hri_train_show_hide(s);
    hri_say_note("%s", line);
}

static uint64_t mib(uint64_t bytes) {
    return (bytes + (1 << 20) - 1) >> 20;
}

typedef struct note {
    char text[320];
    size_t used;
} note;

static void add(note *n, const char *format, ...) HR_PRINTF(2, 3);
static void add(note *n, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const size_t room = sizeof n->text - n->used;
    const int wrote = vsnprintf(n->text + n->used, room, format, args);
    va_end(args);
    n->used += wrote > 0 && (size_t)wrote < room ? (size_t)wrote : 0;
}

/* "loss: 0.5410 - accuracy: 0.8123": what is not known is left out. */
static void add_numbers(note *n, const char *prefix, double loss, double accuracy, double top5) {
    const struct {
        const char *name;
        double is;
    } numbers[] = {{"loss", loss}, {"accuracy", accuracy}, {"top5", top5}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (!isnan(numbers[i].is)) {
            add(n, "%s%s%s: %.4f", n->used ? " - " : "", prefix, numbers[i].name, numbers[i].is);
        }
    }
}

static void add_memory(note *n, const hri_train_job *j, uint64_t bytes) {
    if (j->plan.budget_bytes) {
        add(n, " - mem: %llu/%llu MiB", (unsigned long long)mib(bytes),
            (unsigned long long)mib(j->plan.budget_bytes));
    } else {
        add(n, " - mem: %llu MiB", (unsigned long long)mib(bytes));
    }
}

/* The same for narrow terminals: memory always, then the loss, the accuracy and what stands in the note already, as far as
 * there is room. */
static void add_short(note *n, double loss, double accuracy, const hri_train_job *j, uint64_t bytes,
                      size_t room, size_t before) {
    for (int drop = 0;; drop++) {
        n->used = drop ? 0 : before;
        n->text[n->used] = '\0';
        if (drop < 3) {
            add(n, "%sloss %.3f", n->used ? " - " : "", loss);
        }
        if (drop < 2 && !isnan(accuracy)) {
            add(n, " - acc %.3f", accuracy);
        }
        add(n, "%smem %llu", n->used ? " - " : "", (unsigned long long)mib(bytes));
        if (j->plan.budget_bytes) {
            add(n, "/%llu", (unsigned long long)mib(j->plan.budget_bytes));
        }
        add(n, " MiB");
        if (drop == 3 || n->used <= room) {
            return;
        }
    }
}

static void head_line(hri_train_show *s, uint64_t epoch, double seconds_ago) {
    char of[32] = "";
    if (s->job->epochs) {
        snprintf(of, sizeof of, "/%llu", (unsigned long long)s->job->epochs);
    }
    hri_out_printf(&s->err, "%s%sEpoch %llu%s\n", s->many ? s->job->name : "", s->many ? ": " : "",
                   (unsigned long long)epoch, of);
    hri_progress_init(&s->bar, &s->err, &s->job->cli->err_term, "", s->job->steps_per_epoch,
                      hri_clock_ns() - (uint64_t)(seconds_ago * 1e9));
    s->epoch = epoch;
}

static void on_step(void *user, const hri_record_step *r) {
    hri_train_show *s = user;
    const hri_progress_state *p = hri_trainer_progress(s->job->trainer);
    if (!s->job->cli->err_term.tty || s->many) {
        return;
    }
    if (s->epoch != r->epoch) {
        head_line(s, r->epoch, r->seconds);
    }
    note n = {.used = 0};
    const uint64_t now = hri_clock_ns(), done = p->epoch_step;
    if (s->bar.total && done) {
        const double each = (double)(now - s->bar.start_ns) / (double)done;
        add(&n, "ETA %.0fs", each * (double)(s->bar.total - done) / 1e9);
    }
    const double all = (double)p->samples;
    const size_t eta = n.used, room = hri_progress_room(&s->bar, done, now);
    if (s->job->cli->err_term.width >= 100) {
        add_numbers(&n, "", p->loss_sum / all, p->right_sum / all, p->top_sum / all);
        add_memory(&n, s->job, r->memory_bytes);
    } else {
        add_short(&n, p->loss_sum / all, p->right_sum / all, s->job, r->memory_bytes, room, eta);
    }
    hri_progress_step(&s->bar, done, n.text, now);
}

/* The bar's last state, and validation on a line of its own: both together are wider than most terminals. */
static void end_bar(hri_train_show *s, const hri_record_epoch *e, const hri_record_validation *v) {
    note n = {.used = 0};
    const hri_progress_state *p = hri_trainer_progress(s->job->trainer);
    const uint64_t now = hri_clock_ns();
    const size_t room = hri_progress_room(&s->bar, p->epoch_step, now);
    add_numbers(&n, "", e->loss, e->accuracy, v ? NAN : e->top5);
    add_memory(&n, s->job, e->peak_bytes);
    if (n.used > room) {
        add_short(&n, e->loss, e->accuracy, s->job, e->peak_bytes, room, 0);
    }
    hri_progress_end(&s->bar, p->epoch_step, n.text, now);
    if (v) {
        note val = {.used = 0};
        add_numbers(&val, "val_", v->loss, v->accuracy, v->top5);
        add(&val, "%s", v->best ? " - the best so far" : "");
        hri_out_text(&s->err, "  ");
        hri_wrap(&s->err, val.text, s->job->cli->err_term.width, 2, 2);
        hri_out_text(&s->err, "\n");
        hri_out_flush(&s->err);
    }
}

static void on_epoch(void *user, const hri_record_epoch *e, const hri_record_validation *v) {
    hri_train_show *s = user;
    hri_cli *cli = s->job->cli;
    note n = {.used = 0};
    add_numbers(&n, "", e->loss, e->accuracy, e->top5);
    if (v) {
        add_numbers(&n, "val_", v->loss, v->accuracy, v->top5);
    }
    add_memory(&n, s->job, e->peak_bytes);
    if (cli->err_term.tty && !s->many) {
        end_bar(s, e, v);
        if (cli->out_term.tty || s->job->flags.json) {
            return;
        }
    }
    char of[32] = "";
    if (s->job->epochs) {
        snprintf(of, sizeof of, "/%llu", (unsigned long long)s->job->epochs);
    }
    hri_out *out = s->job->flags.json ? &s->err : &cli->out;
    const uint64_t steps = hri_trainer_progress(s->job->trainer)->epoch_step;
    const double each = e->seconds * 1e3 / (double)(steps ? steps : 1);
    hri_out_printf(out, "%s%sepoch %llu%s - %.1f s, %.0f ms/step, %.1f samples/s - %s\n",
                   s->many ? s->job->name : "", s->many ? ": " : "", (unsigned long long)e->epoch,
                   of, e->seconds, each, e->samples_per_second, n.text);
    hri_out_flush(out);
}

void hri_train_show_init(hri_train_show *s, hri_train_job *job, int many) {
    *s = (hri_train_show){.job = job, .many = many};
    hri_out_init(&s->err, STDERR_FILENO);
    job->trainer_options.user = s;
    job->trainer_options.on_step = on_step;
    job->trainer_options.on_epoch = on_epoch;
    job->trainer_options.log = on_log;
    job->trainer_options.log_user = s;
}

/* ---- before ---- */

static void say_start(hri_train_show *s) {
    const hri_train_job *j = s->job;
    hri_out *out = &j->cli->out;
    if (j->said[0]) {
        hri_out_printf(out, "from the data: %s\n", j->said);
    }
    if (j->train_count != HR_COUNT_UNKNOWN) {
        hri_out_printf(out, "%llu samples to train on", (unsigned long long)j->train_count);
        if (j->val_count) {
            hri_out_printf(out, ", %llu to validate on", (unsigned long long)j->val_count);
        }
        hri_out_printf(out, "; %llu steps an epoch", (unsigned long long)j->steps_per_epoch);
        const uint64_t rest = j->train_count % (uint64_t)j->batch;
        if (rest) {
            hri_out_printf(out, ", %llu left over, others each time", (unsigned long long)rest);
        }
        hri_out_text(out, "\n");
    }
    if (j->batch_chosen) {
        hri_out_printf(out,
                       "--batch auto took %lld: the most samples/s that are predicted, with at "
                       "least 16 steps per epoch where there is the data for it\n",
                       (long long)(j->batch / j->flags.accumulate));
    }
    if (j->flags.accumulate > 1) {
        hri_out_printf(out, "%lld batches of %lld make one step%s\n",
                       (long long)j->flags.accumulate, (long long)(j->batch / j->flags.accumulate),
                       j->answer.coupled ? "; batch norm sees one of them at a time" : "");
    }
}

hr_status hri_train_show_plan(hri_train_show *s) {
    if (s->job->flags.json) {
        return HR_OK;
    }
    const hr_status status =
        hri_plan_print_parts(&(hri_plan_sheet){.job = &s->job->plan, .answer = &s->job->answer},
                             &s->job->cli->out, &s->job->cli->out_term);
    if (status == HR_OK) {
        say_start(s);
    }
    return status;
}

/* ---- after ---- */

static const char *reason_of(hri_trainer_end end) {
    switch (end) {
    case HRI_TRAINER_DONE:
        return "done";
    case HRI_TRAINER_EARLY:
        return "early stop";
    case HRI_TRAINER_INTERRUPTED:
        return "interrupted";
    default:
        return "failed";
    }
}

/* Loss and accuracy of the last validation, else of the last epoch, else of the last step. */
static void final_numbers(const hri_trainer_sums *sums, double *loss, double *accuracy) {
    *loss = sums->validation.epoch ? sums->validation.loss
            : sums->epoch.epoch    ? sums->epoch.loss
            : sums->steps          ? (double)sums->loss
                                   : NAN; /* it was over before it began */
    *accuracy = sums->validation.epoch ? sums->validation.accuracy
                : sums->epoch.epoch    ? sums->epoch.accuracy
                                       : NAN;
}

static double seconds(uint64_t ns) {
    return (double)ns / 1e9;
}

static void record_end(hri_train_show *s, const hri_trainer_sums *sums, const hri_measured *m) {
    const hri_train_job *j = s->job;
    uint64_t step;
    const char *saved = hri_trainer_saved(j->trainer, &step);
    hri_record_end e = {.step = hri_trainer_progress(j->trainer)->state.step,
                        .reason = reason_of(hri_trainer_over(j->trainer)),
                        .checkpoint = *saved ? saved : NULL,
                        .planned_peak_bytes = j->row.peak_bytes,
                        .measured_peak_bytes = m->peak_bytes,
                        .samples_per_second =
                            sums->step_ns ? (double)sums->samples / seconds(sums->step_ns) : 0,
                        .seconds = seconds(sums->all_ns)};
    final_numbers(sums, &e.loss, &e.accuracy);
    hri_record_ended(j->record, &e);
}

/* Samples that --skip-bad left out, with the first names. */
static uint64_t bad_samples(const hri_train_job *j) {
    hr_pipeline_stats train = {0}, validation = {0};
    hr_pipeline_get_stats(hri_supply_pipeline(j->train), &train);
    if (j->validation) {
        hr_pipeline_get_stats(hri_supply_pipeline(j->validation), &validation);
    }
    return train.bad + validation.bad;
}

static void say_bad(const hri_train_job *j) {
    const uint64_t bad = bad_samples(j);
    if (bad) {
        const char *name = hr_pipeline_bad(hri_supply_pipeline(j->train), 0);
        hri_out_printf(&j->cli->out, "  left out %llu samples that could not be read%s%s\n",
                       (unsigned long long)bad, name ? ", first " : "", name ? name : "");
    }
}

/* What no batch was left for, at the end of an epoch of a source whose length nobody knew before. */
static uint64_t left_over(const hri_train_job *j) {
    hr_pipeline_stats train = {0};
    hr_pipeline_get_stats(hri_supply_pipeline(j->train), &train);
    return j->train_count == HR_COUNT_UNKNOWN ? train.left_over
                                              : j->train_count % (uint64_t)j->batch;
}

static void say_left_over(const hri_train_job *j) {
    const uint64_t count = j->train_count == HR_COUNT_UNKNOWN ? left_over(j) : 0;
    if (count) {
        hri_out_printf(&j->cli->out,
                       "  left over %llu samples an epoch, which fill no batch of %lld\n",
                       (unsigned long long)count, (long long)j->batch);
    }
}

static void say_saved(hri_train_show *s) {
    const hri_train_job *j = s->job;
    uint64_t step;
    const char *saved = hri_trainer_saved(j->trainer, &step);
    const hri_progress_state *p = hri_trainer_progress(j->trainer);
    if (!*saved) {
        return;
    }
    hri_out_printf(&j->cli->out, "  saved    %s: %s goes on from step %llu", j->folder,
                   HRI_CHECKPOINT_LAST, (unsigned long long)step);
    if (p->best_epoch) {
        hri_out_printf(&j->cli->out, ", %s is of epoch %llu", HRI_CHECKPOINT_BEST,
                       (unsigned long long)p->best_epoch);
    }
    hri_out_text(&j->cli->out, "\n");
}

/* The command again, as it was given, to continue with. */
static hr_status resume_command(const hri_train_job *j, hri_text *out) {
    const hri_change changes[] = {
        {"out", j->folder}, {"resume", "true"}, {"overwrite", NULL}, {"init", NULL}};
    return hri_train_job_command(j, changes, sizeof changes / sizeof changes[0], out);
}

/* How good it is: on the data that was held out, where that has a name. */
static hr_status eval_command(const hri_train_job *j, hri_text *out) {
    const hri_train_flags *f = &j->flags;
    hri_text_add(out, "headroom eval ");
    hri_text_word(out, j->folder);
    hri_text_add(out, " --data ");
    hri_text_word(out, f->val_data ? f->val_data : f->data);
    hri_text_add(out, "%s", f->val_split > 0 ? " --split val" : "");
    if (!hri_device_name_is_host(f->device)) {
        hri_text_add(out, " --device ");
        hri_text_word(out, f->device);
    }
    hri_text_add(out, "%s", f->skip_bad ? " --skip-bad" : "");
    return hri_text_status(out);
}

static void say_next(hri_train_show *s) {
    const hri_train_job *j = s->job;
    const hri_trainer_end end = hri_trainer_over(j->trainer);
    const hri_change save = {"save", "true"};
    hri_text command = {0};
    hr_status status;
    if (s->many && strcmp(j->name, "second") != 0) {
        return; /* one next command at the very end */
    }
    if (!j->folder) {
        status = s->many ? HR_E_UNSUPPORTED : hri_train_job_command(j, &save, 1, &command);
    } else if (!s->many && (!hri_command_find("eval") || end == HRI_TRAINER_INTERRUPTED)) {
        status = resume_command(j, &command);
    } else {
        status = eval_command(j, &command);
    }
    if (status == HR_OK) {
        hri_say_next(j->cli, hri_text_get(&command));
    }
    hri_text_deinit(&command);
}

static void say_numbers(hri_train_show *s, const hri_trainer_sums *sums) {
    const hri_train_job *j = s->job;
    const hri_progress_state *p = hri_trainer_progress(j->trainer);
    double loss, accuracy;
    char numbers[96] = "nothing was left to do";
    final_numbers(sums, &loss, &accuracy);
    if (!isnan(loss)) {
        const int n = snprintf(numbers, sizeof numbers, "%sloss %.4f",
                               sums->validation.epoch ? "validation " : "", loss);
        if (!isnan(accuracy) && n > 0) {
            snprintf(numbers + n, sizeof numbers - (size_t)n, ", accuracy %.4f", accuracy);
        }
    }
    hri_say_title(j->cli, "%s%s%s: %llu steps, %llu epochs in %.1f s; %s", s->many ? j->name : "",
                  s->many ? ", " : "", reason_of(hri_trainer_over(j->trainer)),
                  (unsigned long long)p->state.step, (unsigned long long)p->epoch,
                  seconds(p->seconds_ns > sums->all_ns ? p->seconds_ns : sums->all_ns), numbers);
}

static void say_memory(const hri_train_job *j, const hri_measured *m) {
    char planned[32], measured[32];
    const int over = j->plan.budget_bytes && m->peak_bytes > j->plan.budget_bytes;
    hri_out_printf(&j->cli->out, "  memory   planned %s, measured %s at most%s\n",
                   hr_bytes_print(j->row.peak_bytes, planned, sizeof planned),
                   hr_bytes_print(m->peak_bytes, measured, sizeof measured),
                   over ? ": OVER THE BUDGET" : "");
}

/* It never happens; if it does, nobody may take it for a success. */
static int check_kept(const hri_train_job *j, const hri_measured *m) {
    char budget[32], measured[32];
    if (!j->plan.budget_bytes || m->peak_bytes <= j->plan.budget_bytes) {
        return HRI_EXIT_YES;
    }
    hri_say_error(j->cli,
                  "the budget was not kept: %s were used at most, %s were granted; the checkpoint "
                  "is good, but this is a fault of headroom: please report it",
                  hr_bytes_print(m->peak_bytes, measured, sizeof measured),
                  hr_bytes_print(j->plan.budget_bytes, budget, sizeof budget));
    return HRI_EXIT_FAULT;
}

static void say_time(const hri_train_job *j, const hri_trainer_sums *sums) {
    const uint64_t known = sums->step_ns + sums->validate_ns + sums->save_ns;
    hri_out_printf(&j->cli->out,
                   "  time     %.1f s: computing %.1f, waiting for data %.1f, validation %.1f, "
                   "saving %.1f, other %.1f; %.1f samples/s\n",
                   seconds(sums->all_ns), seconds(sums->step_ns - sums->wait_ns),
                   seconds(sums->wait_ns), seconds(sums->validate_ns), seconds(sums->save_ns),
                   seconds(sums->all_ns > known ? sums->all_ns - known : 0),
                   sums->step_ns ? (double)sums->samples / seconds(sums->step_ns) : 0.0);
}

int hri_train_show_end(hri_train_show *s) {
    const hri_train_job *j = s->job;
    hri_trainer_sums sums;
    hri_measured m;
    hri_trainer_get_sums(j->trainer, &sums);
    hri_planned_measure(j->planned, &m);
    record_end(s, &sums, &m);
    hri_train_show_hide(s);
    if (!j->flags.json) {
        say_numbers(s, &sums);
        say_memory(j, &m);
        say_time(j, &sums);
        say_bad(j);
        say_left_over(j);
        say_saved(s);
        say_next(s);
    }
    if (hri_trainer_over(j->trainer) == HRI_TRAINER_INTERRUPTED) {
        hri_refuse(j->cli, "interrupted", "stopped by a signal after step %llu",
                   (unsigned long long)hri_trainer_progress(j->trainer)->state.step);
        return HRI_EXIT_NO;
    }
    return check_kept(j, &m);
}

void hri_train_show_failed(hri_train_show *s) {
    const hri_train_job *j = s->job;
    hri_trainer_sums sums;
    hri_measured m;
    uint64_t step;
    hri_text command = {0};
    hri_trainer_get_sums(j->trainer, &sums);
    hri_planned_measure(j->planned, &m);
    record_end(s, &sums, &m);
    if (*hri_trainer_saved(j->trainer, &step) && !s->many) {
        if (resume_command(j, &command) == HR_OK) {
            hri_say_hint(j->cli, "%s", hri_text_get(&command));
        }
        hri_text_deinit(&command);
    }
}

void hri_train_show_json(hri_train_show *s, hri_json *json) {
    const hri_train_job *j = s->job;
    const hri_progress_state *p = hri_trainer_progress(j->trainer);
    hri_trainer_sums sums;
    hri_measured m;
    double loss, accuracy;
    uint64_t step;
    char digest[24];
    hri_trainer_get_sums(j->trainer, &sums);
    hri_planned_measure(j->planned, &m);
    final_numbers(&sums, &loss, &accuracy);
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)p->digest);
    hri_json_string(json, "ended", reason_of(hri_trainer_over(j->trainer)));
    hri_json_string(json, "model", j->about.model);
    hri_json_string(json, "data", j->source.text);
    hri_json_string(json, "device", j->plan.device_name);
    hri_json_string(json, "precision", j->about.precision);
    hri_json_i64(json, "batch", j->batch);
    hri_json_u64(json, "micro_batches", j->row.micro_batches);
    hri_json_u64(json, "recomputed_ops", j->row.recomputed_ops);
    hri_json_u64(json, "steps", p->state.step);
    hri_json_u64(json, "skipped_steps", p->state.skipped);
    hri_json_u64(json, "epochs", p->epoch);
    hri_json_double(json, "loss", loss);
    hri_json_double(json, "accuracy", accuracy);
    hri_json_double(json, "train_loss", sums.epoch.epoch ? sums.epoch.loss : loss);
    hri_json_double(json, "last_loss", sums.steps ? (double)sums.loss : NAN);
    if (sums.validation.epoch) {
        hri_json_double(json, "val_loss", sums.validation.loss);
        hri_json_double(json, "val_accuracy", sums.validation.accuracy);
        hri_json_double(json, "val_top5", sums.validation.top5);
        hri_json_u64(json, "val_samples", sums.validation.samples);
    }
    hri_json_double(json, "best", p->best);
    hri_json_u64(json, "best_epoch", p->best_epoch);
    hri_json_string(json, "history", digest); /* of every loss: the same history, the same text */
    if (j->plan.budget_bytes) {
        hri_json_u64(json, "budget_bytes", j->plan.budget_bytes);
    } else {
        hri_json_null(json, "budget_bytes");
    }
    hri_json_u64(json, "planned_peak_bytes", j->row.peak_bytes);
    hri_json_u64(json, "measured_peak_bytes", m.peak_bytes);
    hri_json_u64(json, "planned_arena_bytes", m.planned_bytes);
    hri_json_u64(json, "measured_arena_bytes", m.arena_bytes);
    hri_json_u64(json, "data_bytes", j->plan.data_bytes);
    hri_json_u64(json, "host_peak_bytes", j->row.host_peak_bytes);
    if (j->plan.host_budget_bytes) {
        hri_json_u64(json, "host_budget_bytes", j->plan.host_budget_bytes);
    } else {
        hri_json_null(json, "host_budget_bytes");
    }
    hri_json_u64(json, "offloaded_bytes", j->row.offloaded_bytes);
    hri_json_double(json, "samples_per_second",
                    sums.step_ns ? (double)sums.samples / seconds(sums.step_ns) : 0.0);
    hri_json_double(json, "seconds", seconds(sums.all_ns));
    hri_json_double(json, "wait_seconds", seconds(sums.wait_ns));
    hri_json_double(json, "validation_seconds", seconds(sums.validate_ns));
    hri_json_double(json, "save_seconds", seconds(sums.save_ns));
    hri_startup_json(&j->cli->startup, json);
    hri_json_u64(json, "bad_samples", bad_samples(j));
    hri_json_u64(json, "left_over_samples", left_over(j));
    const char *saved = hri_trainer_saved(j->trainer, &step);
    hri_json_string(json, "checkpoint", *saved ? saved : NULL);
}
