/* What `headroom train` shows: the plan, a line that moves, an epoch's line, the sums at the end; see train_run.h. */
#include "cli/common/train_run.h"

#include <headroom/bytes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/common/command.h"
#include "show/plan.h"
#include "base/wrap.h"
#include "device/device.h"

/* ---- while it runs ---- */

void hri_train_show_hide(hri_train_run *s) {
    hri_progress_hide(&s->bar);
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
    if (j->plan->budget_bytes) {
        add(n, " - mem: %llu/%llu MiB", (unsigned long long)mib(bytes),
            (unsigned long long)mib(j->plan->budget_bytes));
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
        if (j->plan->budget_bytes) {
            add(n, "/%llu", (unsigned long long)mib(j->plan->budget_bytes));
        }
        add(n, " MiB");
        if (drop == 3 || n->used <= room) {
            return;
        }
    }
}

static void head_line(hri_train_run *s, uint64_t epoch, double seconds_ago) {
    char of[32] = "";
    if (s->job->epochs) {
        snprintf(of, sizeof of, "/%llu", (unsigned long long)s->job->epochs);
    }
    hri_out_printf(&s->err, "%s%sEpoch %llu%s\n", s->many ? s->job->name : "", s->many ? ": " : "",
                   (unsigned long long)epoch, of);
    hri_progress_init(&s->bar, &s->err, &s->cli->err_term, "", s->job->steps_per_epoch,
                      hri_clock_ns() - (uint64_t)(seconds_ago * 1e9));
    s->epoch = epoch;
}

static void show_step(hri_train_run *s, const hr_numbers *r) {
    const hri_progress_state *p = hri_trainer_progress(s->job->trainer);
    if (!s->cli->err_term.tty || s->many) {
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
    if (s->cli->err_term.width >= 100) {
        add_numbers(&n, "", p->loss_sum / all, p->right_sum / all, p->top_sum / all);
        add_memory(&n, s->job, r->memory_bytes);
    } else {
        add_short(&n, p->loss_sum / all, p->right_sum / all, s->job, r->memory_bytes, room, eta);
    }
    hri_progress_step(&s->bar, done, n.text, now);
}

/* The bar's last state, and validation on a line of its own: both together are wider than most terminals. */
static void end_bar(hri_train_run *s, const hr_numbers *e, const hri_record_validation *v) {
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
        add(&val, "%s", v->best ? " - best so far" : "");
        hri_out_text(&s->err, "  ");
        hri_wrap(&s->err, val.text, s->cli->err_term.width, 2, 2);
        hri_out_text(&s->err, "\n");
        hri_out_flush(&s->err);
    }
}

static void show_epoch(hri_train_run *s, const hr_numbers *e, const hri_record_validation *v) {
    hri_cli *cli = s->cli;
    note n = {.used = 0};
    add_numbers(&n, "", e->loss, e->accuracy, e->top5);
    if (v) {
        add_numbers(&n, "val_", v->loss, v->accuracy, v->top5);
    }
    add_memory(&n, s->job, e->peak_bytes);
    if (cli->err_term.tty && !s->many) {
        end_bar(s, e, v);
        if (cli->out_term.tty || s->flags->json) {
            return;
        }
    }
    char of[32] = "";
    if (s->job->epochs) {
        snprintf(of, sizeof of, "/%llu", (unsigned long long)s->job->epochs);
    }
    hri_out *out = s->flags->json ? &s->err : &cli->out;
    const uint64_t steps = hri_trainer_progress(s->job->trainer)->epoch_step;
    const double each = e->seconds * 1e3 / (double)(steps ? steps : 1);
    hri_out_printf(out, "%s%sepoch %llu%s - %.1f s, %.0f ms/step, %.1f samples/s - %s\n",
                   s->many ? s->job->name : "", s->many ? ": " : "", (unsigned long long)e->epoch,
                   of, e->seconds, each, e->samples_per_second, n.text);
    hri_out_flush(out);
}

/* What was loaded, and where it goes on. */
static void show_start(const hri_train_run *s) {
    const hri_train_job *j = s->job;
    hri_out *out = &s->cli->out;
    if (s->flags->json) {
        return;
    }
    if (j->init.replaced) {
        hri_out_printf(out,
                       "%s: %zu parameters loaded; %s has %lld classes in the file and %lld "
                       "here, so the classifier starts over\n",
                       s->flags->init, j->init.loaded, j->init.head,
                       (long long)j->init.file_classes, (long long)j->want.classes);
    } else if (j->init.loaded) {
        hri_out_printf(out, "%s: %zu parameters loaded\n", s->flags->init, j->init.loaded);
    }
    if (j->resumes) {
        const hri_progress_state *at = hri_trainer_progress(j->trainer);
        hri_out_printf(out, "resuming from step %llu, epoch %llu of %s\n",
                       (unsigned long long)at->state.step, (unsigned long long)at->epoch + 1,
                       j->folder);
    }
    hri_out_flush(out);
}

void hri_train_show_event(hri_train_run *s, const hr_job_event *e) {
    const hr_numbers *n = e->numbers;
    switch (e->kind) {
    case HR_EVENT_STARTED:
        show_start(s);
        break;
    case HR_EVENT_STEP:
        show_step(s, n);
        break;
    case HR_EVENT_VALIDATED:
        s->validation = (hri_record_validation){.step = n->step,
                                                .epoch = n->epoch,
                                                .loss = n->loss,
                                                .accuracy = n->accuracy,
                                                .top5 = n->top5,
                                                .best = n->best};
        break;
    case HR_EVENT_EPOCH:
        show_epoch(s, n,
                   s->validation.epoch && s->validation.step == n->step ? &s->validation : NULL);
        break;
    case HR_EVENT_WARNING:
    case HR_EVENT_SAVE_FAILED:
        hri_train_show_hide(s);
        hri_say_note("%s", e->text);
        break;
    default:
        break;
    }
}

/* ---- before ---- */

static void say_start(hri_train_run *s) {
    const hri_train_job *j = s->job;
    hri_out *out = &s->cli->out;
    if (j->said[0]) {
        hri_out_printf(out, "from the data: %s\n", j->said);
    }
    if (j->train_count != HR_COUNT_UNKNOWN) {
        hri_out_printf(out, "%llu training samples", (unsigned long long)j->train_count);
        if (j->val_count) {
            hri_out_printf(out, ", %llu validation samples", (unsigned long long)j->val_count);
        }
        hri_out_printf(out, "; %llu steps per epoch", (unsigned long long)j->steps_per_epoch);
        const uint64_t rest = j->train_count % (uint64_t)j->batch;
        if (rest) {
            hri_out_printf(out, ", %llu dropped per epoch (different ones each time)",
                           (unsigned long long)rest);
        }
        hri_out_text(out, "\n");
    }
    if (j->batch_chosen) {
        hri_out_printf(out,
                       "--batch auto chose %lld: the highest predicted samples/s with at least "
                       "16 steps per epoch where the data allows\n",
                       (long long)(j->batch / s->flags->accumulate));
    }
    if (s->flags->accumulate > 1) {
        hri_out_printf(out, "gradient accumulation: %lld batches of %lld per step%s\n",
                       (long long)s->flags->accumulate,
                       (long long)(j->batch / s->flags->accumulate),
                       j->answer->coupled ? "; batch norm sees one batch at a time" : "");
    }
}

hr_status hri_train_show_plan(hri_train_run *s) {
    if (s->flags->json) {
        return HR_OK;
    }
    const hr_status status =
        hri_plan_print_parts(&(hri_plan_sheet){.job = s->job->plan, .answer = s->job->answer},
                             &s->cli->out, &s->cli->out_term);
    if (status == HR_OK) {
        say_start(s);
    }
    return status;
}

/* ---- after ---- */

static double seconds(uint64_t ns) {
    return (double)ns / 1e9;
}

static void say_bad(const hri_train_run *s) {
    const hri_train_job *j = s->job;
    const uint64_t bad = hri_train_bad_samples(j);
    if (bad) {
        const char *name = hr_pipeline_bad(hri_supply_pipeline(j->train), 0);
        hri_out_printf(&s->cli->out, "  skipped  %llu samples that could not be read%s%s\n",
                       (unsigned long long)bad, name ? ", first " : "", name ? name : "");
    }
}

static void say_left_over(const hri_train_run *s) {
    const hri_train_job *j = s->job;
    const uint64_t count = j->train_count == HR_COUNT_UNKNOWN ? hri_train_left_over(j) : 0;
    if (count) {
        hri_out_printf(&s->cli->out,
                       "  dropped  %llu samples per epoch that do not fill a batch of %lld\n",
                       (unsigned long long)count, (long long)j->batch);
    }
}

static void say_saved(hri_train_run *s) {
    const hri_train_job *j = s->job;
    uint64_t step;
    const char *saved = hri_trainer_saved(j->trainer, &step);
    const hri_progress_state *p = hri_trainer_progress(j->trainer);
    if (!*saved) {
        return;
    }
    hri_out_printf(&s->cli->out, "  saved    %s: %s (resume from step %llu)", j->folder,
                   HRI_CHECKPOINT_LAST, (unsigned long long)step);
    if (p->best_epoch) {
        hri_out_printf(&s->cli->out, ", %s (epoch %llu)", HRI_CHECKPOINT_BEST,
                       (unsigned long long)p->best_epoch);
    }
    hri_out_text(&s->cli->out, "\n");
}

/* The command again, as it was given, to continue with. */
static hr_status resume_command(const hri_train_run *s, hri_text *out) {
    const hri_train_job *j = s->job;
    const hri_change changes[] = {
        {"out", j->folder}, {"resume", "true"}, {"overwrite", NULL}, {"init", NULL}};
    return hri_train_run_command(s, changes, sizeof changes / sizeof changes[0], out);
}

/* How good it is: on the data that was held out, where that has a name. */
static hr_status eval_command(const hri_train_run *s, hri_text *out) {
    const hri_train_job *j = s->job;
    const hri_train_flags *f = s->flags;
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

static void say_next(hri_train_run *s) {
    const hri_train_job *j = s->job;
    const hri_trainer_end end = hri_trainer_over(j->trainer);
    const hri_change save = {"save", "true"};
    hri_text command = {0};
    hr_status status;
    if (s->many && j->index == 0) {
        return; /* one next command at the very end */
    }
    if (!j->folder) {
        status = s->many ? HR_E_UNSUPPORTED : hri_train_run_command(s, &save, 1, &command);
    } else if (!s->many && (!hri_command_find("eval") || end == HRI_TRAINER_INTERRUPTED)) {
        status = resume_command(s, &command);
    } else {
        status = eval_command(s, &command);
    }
    if (status == HR_OK) {
        hri_say_next(s->cli, hri_text_get(&command));
    }
    hri_text_deinit(&command);
}

static void say_numbers(hri_train_run *s, const hri_trainer_sums *sums) {
    const hri_train_job *j = s->job;
    const hri_progress_state *p = hri_trainer_progress(j->trainer);
    double loss, accuracy;
    char numbers[96] = "nothing left to do";
    hri_train_final_numbers(sums, &loss, &accuracy);
    if (!isnan(loss)) {
        const int n = snprintf(numbers, sizeof numbers, "%sloss %.4f",
                               sums->validation.epoch ? "validation " : "", loss);
        if (!isnan(accuracy) && n > 0) {
            snprintf(numbers + n, sizeof numbers - (size_t)n, ", accuracy %.4f", accuracy);
        }
    }
    hri_say_title(s->cli, "%s%s%s: %llu steps, %llu epochs in %.1f s; %s", s->many ? j->name : "",
                  s->many ? ", " : "", hri_train_reason(hri_trainer_over(j->trainer)),
                  (unsigned long long)p->state.step, (unsigned long long)p->epoch,
                  seconds(p->seconds_ns > sums->all_ns ? p->seconds_ns : sums->all_ns), numbers);
}

static void say_memory(const hri_train_run *s, const hri_measured *m) {
    const hri_train_job *j = s->job;
    char planned[32], measured[32];
    const int over = j->plan->budget_bytes && m->peak_bytes > j->plan->budget_bytes;
    hri_out_printf(&s->cli->out, "  memory   planned %s, measured peak %s%s\n",
                   hr_bytes_print(j->row.peak_bytes, planned, sizeof planned),
                   hr_bytes_print(m->peak_bytes, measured, sizeof measured),
                   over ? ": OVER THE BUDGET" : "");
}

/* It never happens; if it does, nobody may take it for a success. */
static int check_kept(const hri_train_run *s, const hri_measured *m) {
    const hri_train_job *j = s->job;
    char budget[32], measured[32];
    if (!j->plan->budget_bytes || m->peak_bytes <= j->plan->budget_bytes) {
        return HRI_EXIT_YES;
    }
    hri_say_error(s->cli,
                  "the budget was exceeded: the peak was %s, the budget %s; the checkpoint is "
                  "valid, but this is a bug in Headroom: please report it",
                  hr_bytes_print(m->peak_bytes, measured, sizeof measured),
                  hr_bytes_print(j->plan->budget_bytes, budget, sizeof budget));
    return HRI_EXIT_FAULT;
}

static void say_time(const hri_train_run *s, const hri_trainer_sums *sums) {
    const uint64_t known = sums->step_ns + sums->validate_ns + sums->save_ns;
    hri_out_printf(&s->cli->out,
                   "  time     %.1f s: compute %.1f, waiting for data %.1f, validation %.1f, "
                   "saving %.1f, other %.1f; %.1f samples/s\n",
                   seconds(sums->all_ns), seconds(sums->step_ns - sums->wait_ns),
                   seconds(sums->wait_ns), seconds(sums->validate_ns), seconds(sums->save_ns),
                   seconds(sums->all_ns > known ? sums->all_ns - known : 0),
                   sums->step_ns ? (double)sums->samples / seconds(sums->step_ns) : 0.0);
}

int hri_train_show_end(hri_train_run *s) {
    const hri_train_job *j = s->job;
    hri_trainer_sums sums;
    hri_measured m;
    hri_trainer_get_sums(j->trainer, &sums);
    hri_planned_measure(j->planned, &m);
    hri_train_show_hide(s);
    if (!s->flags->json) {
        say_numbers(s, &sums);
        say_memory(s, &m);
        say_time(s, &sums);
        say_bad(s);
        say_left_over(s);
        say_saved(s);
        say_next(s);
    }
    if (hri_trainer_over(j->trainer) == HRI_TRAINER_INTERRUPTED) {
        hri_refuse(s->cli, "interrupted", "stopped by a signal after step %llu",
                   (unsigned long long)hri_trainer_progress(j->trainer)->state.step);
        return HRI_EXIT_NO;
    }
    return check_kept(s, &m);
}

void hri_train_show_failed(hri_train_run *s) {
    const hri_train_job *j = s->job;
    uint64_t step;
    hri_text command = {0};
    if (*hri_trainer_saved(j->trainer, &step) && !s->many) {
        if (resume_command(s, &command) == HR_OK) {
            hri_say_hint(s->cli, "%s", hri_text_get(&command));
        }
        hri_text_deinit(&command);
    }
}

void hri_train_show_pair(const hri_train_run *s, const hri_together *t) {
    const hri_train_job *a = &t->jobs[0], *b = &t->jobs[1];
    const hri_train_job *larger = a->answer->row.peak_bytes > b->answer->row.peak_bytes ? a : b;
    char both[32], separate[32], weights[2][32], rest[32];
    if (s->flags->json) {
        return;
    }
    hri_out_printf(&s->cli->out,
                   "two runs, alternating: %s in one process (persistent %s and %s, one arena of "
                   "%s for the steps of both); two processes would need %s\n",
                   hr_bytes_print(larger->row.peak_bytes, both, sizeof both),
                   hr_bytes_print(a->plans->c->own_bytes, weights[0], sizeof weights[0]),
                   hr_bytes_print(b->plans->c->own_bytes, weights[1], sizeof weights[1]),
                   hr_bytes_print(larger->row.arena_bytes, rest, sizeof rest),
                   hr_bytes_print(t->separate_bytes, separate, sizeof separate));
}

/* Two that do not fit together: what both need at least, and a budget that a plan was found for. */
static int refuse_two(const hri_train_run *s, const hri_train_run *first, const hri_together *t) {
    const hri_train_job *j = s->job;
    uint64_t floor, least;
    const uint64_t budget = j->plan->budget_bytes;
    char texts[3][32], size[32];
    hri_text command = {0};
    hri_together_least(t, &floor, &least);
    hri_refuse(s->cli, "does_not_fit", "the minimum of both is %llu bytes, the budget %llu",
               (unsigned long long)floor, (unsigned long long)budget);
    if (s->flags->json) {
        hri_json json;
        hri_cli_json_start(&json);
        hri_json_bool(&json, "fits", false);
        hri_json_string(&json, "model", hr_model_text(j->plan->model));
        hri_json_u64(&json, "budget_bytes", budget);
        hri_json_u64(&json, "floor_bytes", floor);
        hri_json_u64(&json, "smallest_bytes", least);
        return hri_cli_json_end(s->cli, &json, HRI_EXIT_NO);
    }
    hri_say_title(s->cli, "does not fit: both runs together need at least %s, the budget is %s",
                  hr_bytes_print(floor, texts[0], sizeof texts[0]),
                  hr_bytes_print(budget, texts[1], sizeof texts[1]));
    hri_out_printf(
        &s->cli->out,
        "the %s run needs %s in addition to parameters, optimizer state and input of the "
        "other one; %s is enough for both\n",
        j->name, hr_bytes_print(j->plan->floor_bytes, texts[0], sizeof texts[0]),
        hr_bytes_print(least, texts[2], sizeof texts[2]));
    snprintf(size, sizeof size, "%lluMiB", (unsigned long long)((least + (1 << 20) - 1) >> 20));
    const hri_change change = {"budget", size};
    if (hri_train_run_command(first, &change, 1, &command) == HR_OK) {
        hri_say_next(s->cli, hri_text_get(&command));
    }
    hri_text_deinit(&command);
    return HRI_EXIT_NO;
}

int hri_train_show_refusal(hri_train_run *runs, const hri_together *t) {
    hri_train_run *s = &runs[t->which];
    const hri_train_job *j = s->job;
    if (!j->plan->floor_bytes) { /* it came to no plan, and why was said */
        return HRI_EXIT_NO;
    }
    if (t->count > 1 && !t->slices[0]) {
        return refuse_two(s, &runs[0], t);
    }
    const hri_plan_sheet sheet = {.job = j->plan, .answer = j->answer, .speller = &s->speller};
    const int code = hri_cli_answer(s->cli, &sheet, s->flags->json);
    if (code == HRI_EXIT_NO && !s->flags->json) {
        hri_cli_next_way(s->cli, &sheet);
    }
    return code;
}

void hri_train_show_json(hri_train_run *s, hri_json *json) {
    const hri_train_job *j = s->job;
    const hri_progress_state *p = hri_trainer_progress(j->trainer);
    hri_trainer_sums sums;
    hri_measured m;
    double loss, accuracy;
    uint64_t step;
    char digest[24];
    hri_trainer_get_sums(j->trainer, &sums);
    hri_planned_measure(j->planned, &m);
    hri_train_final_numbers(&sums, &loss, &accuracy);
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)p->digest);
    hri_json_string(json, "ended", hri_train_reason(hri_trainer_over(j->trainer)));
    hri_json_string(json, "model", j->about.model);
    hri_json_string(json, "data", j->source.text);
    hri_json_string(json, "device", j->plan->device_name);
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
    if (j->plan->budget_bytes) {
        hri_json_u64(json, "budget_bytes", j->plan->budget_bytes);
    } else {
        hri_json_null(json, "budget_bytes");
    }
    hri_json_u64(json, "planned_peak_bytes", j->row.peak_bytes);
    hri_json_u64(json, "measured_peak_bytes", m.peak_bytes);
    hri_json_u64(json, "planned_arena_bytes", m.planned_bytes);
    hri_json_u64(json, "measured_arena_bytes", m.arena_bytes);
    hri_json_u64(json, "data_bytes", j->plan->data_bytes);
    hri_json_u64(json, "host_peak_bytes", j->row.host_peak_bytes);
    if (j->plan->host_budget_bytes) {
        hri_json_u64(json, "host_budget_bytes", j->plan->host_budget_bytes);
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
    hri_startup_json(&s->cli->startup, json);
    hri_json_u64(json, "bad_samples", hri_train_bad_samples(j));
    hri_json_u64(json, "left_over_samples", hri_train_left_over(j));
    const char *saved = hri_trainer_saved(j->trainer, &step);
    hri_json_string(json, "checkpoint", *saved ? saved : NULL);
}
