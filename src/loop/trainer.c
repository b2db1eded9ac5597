/* The loop, one step at a time; see trainer.h. */
#include "loop/trainer_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"

/* ---- the clock and memory ---- */

static double seconds(uint64_t ns) {
    return (double)ns / 1e9;
}

/* What the outside sees.  Asking costs (a file of /proc, a call of NVML), and a step may be short: five times a second
 * is enough, because the kernel keeps the peak itself. */
static void read_memory(hri_trainer *t, uint64_t *now, uint64_t *peak) {
    const uint64_t time = hri_clock_ns();
    if (!t->measured_ns || time - t->measured_ns > 200000000u) {
        hri_planned_measure(t->o.planned, &t->measured);
        t->measured_ns = time;
    }
    const hri_measured *m = &t->measured;
    *now = m->process_bytes ? m->process_bytes : m->resident_bytes;
    *peak = m->peak_bytes;
}

void hri_trainer_log(const hri_trainer *t, hr_log_level level, const char *line) {
    if (t->o.log) {
        t->o.log(t->o.log_user, level, line);
    }
}

/* ---- steps ---- */

static hr_status not_finite(const hri_trainer *t, float loss, hri_prose *why) {
    char saved[96] = "no checkpoint was saved before";
    if (t->saved_path[0]) {
        snprintf(saved, sizeof saved, "the checkpoint of step %llu is kept",
                 (unsigned long long)t->saved_step);
    }
    return hri_prose_set(why, HR_E_RANGE,
                         "the loss of step %llu is %s; %s.  A smaller `rate`, `clip=1` or "
                         "`warmup` usually helps",
                         (unsigned long long)t->at.state.step,
                         isnan(loss) ? "not a number" : "infinite", saved);
}

static void count_step(hri_trainer *t, const hri_numbers *n, uint64_t ns, uint64_t wait_ns) {
    const double counted = (double)n->counted;
    uint32_t bits;
    if (!t->at.epoch_step) {
        t->epoch_means = (hri_trainer_means){.counted = 0};
    }
    hri_trainer_add_means(t, &t->epoch_means, n->counted);
    memcpy(&bits, &n->loss, sizeof bits);
    t->at.digest = hri_hash_u64(t->at.digest ^ bits) + t->at.state.step;
    t->at.loss_sum += (double)n->loss * counted;
    t->at.right_sum += (double)n->accuracy * counted;
    t->at.top_sum += (double)n->top5 * counted;
    t->at.counted += n->counted;
    t->at.samples += t->at.batch;
    t->at.epoch_step++;
    t->epoch_own_samples += t->at.batch;
    t->sums.steps++;
    t->sums.samples += t->at.batch;
    t->sums.step_ns += ns;
    t->sums.wait_ns += wait_ns;
    t->sums.loss = n->loss;
    t->validated = 0;
}

static void say_step(hri_trainer *t) {
    hri_record_step *s = &t->unsaid;
    if (!t->has_unsaid) {
        return;
    }
    t->has_unsaid = 0;
    read_memory(t, &s->memory_bytes, &s->peak_bytes);
    hri_record_step_done(t->o.record, s);
    if (t->o.on_step) {
        t->o.on_step(t->o.user, s);
    }
}

static void report_step(hri_trainer *t, const hri_numbers *n, uint64_t ns, uint64_t wait_ns) {
    t->unsaid = (hri_record_step){.step = t->at.state.step,
                                  .epoch = t->at.epoch + 1,
                                  .loss = (double)n->loss,
                                  .accuracy = (double)n->accuracy,
                                  .top5 = (double)n->top5,
                                  .rate = (double)n->rate,
                                  .norm = (double)n->norm,
                                  .samples_per_second = (double)t->at.batch / seconds(ns ? ns : 1),
                                  .seconds = seconds(ns),
                                  .wait_seconds = seconds(wait_ns),
                                  .device_seconds = seconds(n->busy_ns)};
    t->has_unsaid = 1;
    if (!hri_planned_is_fed(t->o.planned) || t->over) {
        say_step(t); /* else while the next one runs */
    }
}

/* Of the time that the pipeline made us wait, what the device waited too: it had nothing to do. */
static uint64_t exposed(const hri_numbers *n, uint64_t ns, uint64_t wait_ns) {
    const uint64_t idle = n->busy_ns && n->busy_ns < ns ? ns - n->busy_ns : n->busy_ns ? 0 : ns;
    return wait_ns < idle ? wait_ns : idle;
}

static hr_status take_step(hri_trainer *t, hri_prose *why) {
    hri_numbers n;
    const hri_supply *supply = t->o.feeds->train;
    const uint64_t begin = hri_clock_ns(), waited = hri_supply_wait_ns(supply);
    t->looked = t->over = 0;
    const hr_status status = hri_planned_step(t->o.planned, &n, why);
    if (status != HR_OK) {
        say_step(t);
        return status;
    }
    const uint64_t ns = hri_clock_ns() - begin;
    const uint64_t wait_ns = exposed(&n, ns, hri_supply_wait_ns(supply) - waited);
    t->at.state = hri_planned_state(t->o.planned);
    if (!isfinite(n.loss) && !n.skipped) {
        return not_finite(t, n.loss, why);
    }
    count_step(t, &n, ns, wait_ns);
    report_step(t, &n, ns, wait_ns);
    return HR_OK;
}

static hr_status begin_next_epoch(hri_trainer *t, hri_prose *why) {
    return t->o.steps_per_epoch ? hri_supply_start(t->o.feeds->train, t->at.epoch + 1, why)
                                : hri_supply_go_on(t->o.feeds->train, t->at.epoch + 1, why);
}

static int is_due(const hri_trainer *t, uint64_t step) {
    return (t->o.save_every && step % t->o.save_every == 0) ||
           (t->o.save_seconds &&
            hri_clock_ns() - t->saved_ns >= t->o.save_seconds * UINT64_C(1000000000));
}

/* While a step runs: the report of the one before, the next epoch where this step ends one, the place of the data where
 * a checkpoint will want it, and whether the next batch may be fed already.  Before a validation it may not; and behind
 * the last step there is none. */
static int step_runs(void *user) {
    hri_trainer *t = user;
    hri_prose why = {""};
    const uint64_t step = t->at.state.step + 1; /* when this one is over */
    say_step(t);
    hri_trainer_drop_place(t);
    t->over = t->o.steps_per_epoch ? t->at.epoch_step + 1 >= t->o.steps_per_epoch
                                   : hri_supply_ended(t->o.feeds->train);
    t->looked = 1;
    if (t->stopping || t->o.feeds->fields || (t->o.steps && step >= t->o.steps) ||
        (t->over && t->o.epochs && t->at.epoch + 1 >= t->o.epochs)) {
        return 0;
    }
    if (t->over) {
        t->begun = begin_next_epoch(t, &why) == HR_OK; /* else it is tried, and said, at its end */
    }
    if ((t->over && !t->begun) ||
        (t->o.feeds->validation &&
         (t->o.validate_every ? step % t->o.validate_every == 0 : t->over))) {
        return 0;
    }
    return !t->last_path || !(t->over || is_due(t, step)) || hri_trainer_keep_place(t) == HR_OK;
}

static int epoch_is_over(const hri_trainer *t) {
    return t->looked              ? t->over
           : t->o.steps_per_epoch ? t->at.epoch_step >= t->o.steps_per_epoch
                                  : hri_supply_ended(t->o.feeds->train);
}

static int enough(const hri_trainer *t) {
    return (t->o.epochs && t->at.epoch >= t->o.epochs) ||
           (t->o.steps && t->at.state.step >= t->o.steps);
}

static void report_epoch(hri_trainer *t) {
    const uint64_t now = hri_clock_ns();
    const double all = (double)t->at.counted, own = (double)t->epoch_own_samples;
    const double took = seconds(now - t->epoch_begun_ns + 1);
    hri_record_epoch e = {.step = t->at.state.step,
                          .epoch = t->at.epoch + 1,
                          .samples = t->at.samples,
                          .loss = t->at.loss_sum / all,
                          .accuracy = t->at.right_sum / all,
                          .top5 = t->at.top_sum / all,
                          .samples_per_second = own / took,
                          .seconds = took,
                          .wait_seconds = seconds(t->sums.wait_ns - t->epoch_wait_ns)};
    read_memory(t, &e.memory_bytes, &e.peak_bytes);
    t->sums.epoch = e;
    hri_record_epoch_done(t->o.record, &e);
    if (t->o.on_epoch) {
        t->o.on_epoch(t->o.user, &e, t->validated ? &t->sums.validation : NULL);
    }
}

static void begin_epoch(hri_trainer *t) {
    t->epoch_begun_ns = hri_clock_ns();
    t->epoch_wait_ns = t->sums.wait_ns;
    t->epoch_own_samples = 0;
}

static hr_status end_epoch(hri_trainer *t, hri_prose *why) {
    hr_status status = HR_OK;
    if (t->o.feeds->validation && !t->o.validate_every) {
        status = hri_trainer_do_validation(t, why);
    }
    if (status != HR_OK) {
        return status;
    }
    if (!t->o.feeds->validation && hri_trainer_judge(t, t->at.loss_sum / (double)t->at.counted)) {
        (void)hri_trainer_write(t, 1);
    }
    report_epoch(t);
    status = t->begun ? HR_OK : begin_next_epoch(t, why);
    t->begun = 0;
    t->at.epoch++;
    t->at.epoch_step = 0;
    t->at.loss_sum = t->at.right_sum = t->at.top_sum = 0;
    t->at.samples = t->at.counted = 0;
    begin_epoch(t);
    return status;
}

/* The end of a training needs its last checkpoint. */
static hr_status finish(hri_trainer *t, hri_trainer_end end, hri_prose *why) {
    const hr_status status =
        t->last_path && (t->saved_step != t->at.state.step || !t->saved_path[0] || t->save_failed)
            ? hri_trainer_write(t, 0)
            : HR_OK;
    t->end = status == HR_OK ? end : HRI_TRAINER_FAILED;
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "%s", t->save_why.text);
}

static int is_time_to_save(const hri_trainer *t) {
    if (hri_planned_is_fed(t->o.planned) && !t->place) {
        return 0; /* the clock has just come to it: after the next step */
    }
    return is_due(t, t->at.state.step);
}

static hr_status advance(hri_trainer *t, hri_prose *why) {
    hr_status status = take_step(t, why);
    const int ended =
        status == HR_E_EOF && t->at.epoch_step; /* before this step, as it turns out */
    if (status != HR_OK && !ended) {
        return status;
    }
    status = HR_OK;
    if (!ended && t->o.feeds->validation && t->o.validate_every &&
        t->at.state.step % t->o.validate_every == 0) {
        status = hri_trainer_do_validation(t, why);
    }
    const int over = ended || epoch_is_over(t);
    if (status == HR_OK && over) {
        status = end_epoch(t, why);
    }
    if (status != HR_OK) {
        return status;
    }
    if (t->o.patience && t->at.bad_epochs >= t->o.patience) {
        return finish(t, HRI_TRAINER_EARLY, why);
    }
    if (enough(t)) {
        if (!over && t->o.feeds->validation && !t->validated) {
            status = hri_trainer_do_validation(t, why);
        }
        return status == HR_OK ? finish(t, HRI_TRAINER_DONE, why) : status;
    }
    if (over || is_time_to_save(t)) {
        say_step(t);
        (void)hri_trainer_write(t, 0); /* a warning was given, and it is tried again */
    }
    return HR_OK;
}

hr_status hri_trainer_step(hri_trainer *t, hri_prose *why) {
    if (t->end != HRI_TRAINER_RUNS) {
        return hri_prose_set(why, HR_E_BUSY, "training has finished");
    }
    const uint64_t begin = hri_clock_ns();
    const hr_status status = advance(t, why);
    t->sums.all_ns += hri_clock_ns() - begin;
    if (status != HR_OK) {
        t->end = HRI_TRAINER_FAILED;
    }
    return status;
}

hr_status hri_trainer_stop(hri_trainer *t, hri_prose *why) {
    hr_status status = HR_OK;
    t->stopping = 1;
    if (t->end == HRI_TRAINER_RUNS && hri_planned_is_fed(t->o.planned) && !t->place) {
        status = hri_trainer_step(t, why); /* its batch has left the pipeline */
    }
    say_step(t);
    return t->end != HRI_TRAINER_RUNS ? status : finish(t, HRI_TRAINER_INTERRUPTED, why);
}

/* ---- beginning ---- */

static hr_status make_paths(hri_trainer *t, hri_prose *why) {
    if (!t->o.folder) {
        return HR_OK;
    }
    hr_status status =
        t->o.locked ? HR_OK : hri_folder_open(t->o.folder, HRI_FOLDER_ANY, &t->own, why);
    if (status == HR_OK) {
        status = hri_path_join(t->o.folder, HRI_CHECKPOINT_LAST, &t->last_path);
    }
    if (status == HR_OK) {
        status = hri_path_join(t->o.folder, HRI_CHECKPOINT_BEST, &t->best_path);
    }
    return status;
}

hr_status hri_trainer_open(const hri_trainer_options *o, hri_trainer **out, hri_prose *why) {
    hri_trainer *t = hri_calloc(1, sizeof *t);
    if (!t) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for training");
    }
    t->o = *o;
    t->own.fd = -1;
    t->saved_path = "";
    t->at = o->begin;
    t->at.state = hri_planned_state(o->planned);
    t->at.best = NAN;
    hr_status status = make_paths(t, why);
    if (status == HR_OK && o->resume) {
        status = hri_trainer_resume(t, o->resume, why);
    } else if (status == HR_OK) {
        status = hri_supply_start(o->feeds->train, 0, why);
        status = status == HR_OK ? hri_trainer_begin_averages(t, why) : status;
    }
    if (status != HR_OK) {
        hri_trainer_close(t);
        return status;
    }
    t->begun_ns = t->saved_ns = hri_clock_ns();
    begin_epoch(t);
    t->end = enough(t)                                        ? HRI_TRAINER_DONE
             : o->patience && t->at.bad_epochs >= o->patience ? HRI_TRAINER_EARLY
                                                              : HRI_TRAINER_RUNS;
    hri_planned_set_ahead(o->planned, step_runs, t);
    hri_planned_set_tick(o->planned, o->on_tick, o->user);
    *out = t;
    return HR_OK;
}

void hri_trainer_close(hri_trainer *t) {
    if (t) {
        hri_trainer_drop_place(t);
        hri_folder_close(&t->own);
        hri_free(t->resumed_path);
        hri_free(t->last_path);
        hri_free(t->best_path);
        hri_free(t);
    }
}

/* ---- questions ---- */

hri_trainer_end hri_trainer_over(const hri_trainer *t) {
    return t->end;
}

void hri_trainer_get_sums(const hri_trainer *t, hri_trainer_sums *out) {
    *out = t->sums;
}

const hri_progress_state *hri_trainer_progress(const hri_trainer *t) {
    return &t->at;
}

int hri_trainer_save_failed(const hri_trainer *t) {
    return t->save_failed;
}

const char *hri_trainer_saved(const hri_trainer *t, uint64_t *step) {
    if (step) {
        *step = t->saved_step;
    }
    return t->saved_path;
}

hr_status hri_trainer_backward(hri_trainer *t, double share, hri_numbers *out, hri_prose *why) {
    const uint64_t begin = hri_clock_ns();
    if (t->end != HRI_TRAINER_RUNS) {
        return hri_prose_set(why, HR_E_BUSY, "training has finished");
    }
    const hr_status status = hri_planned_backward(t->o.planned, share, !t->added_ns, out, why);
    if (status != HR_OK) {
        t->end = HRI_TRAINER_FAILED; /* some parts may be in the sums */
        return status;
    }
    if (!t->added_ns) {
        t->added = (hri_numbers){.counted = 0};
    }
    t->added.loss += (float)(share * (double)out->loss);
    t->added.accuracy += (float)(share * (double)out->accuracy);
    t->added.top5 += (float)(share * (double)out->top5);
    t->added.counted += out->counted;
    t->added_ns += hri_clock_ns() - begin + 1;
    return HR_OK;
}

int hri_trainer_has_gradients(const hri_trainer *t) {
    return t->added_ns != 0;
}

void hri_trainer_drop(hri_trainer *t) {
    t->added_ns = 0;
}

hr_status hri_trainer_apply(hri_trainer *t, hri_record_step *out, hri_prose *why) {
    const uint64_t begin = hri_clock_ns(), before = t->added_ns;
    hri_numbers n = t->added;
    if (t->end != HRI_TRAINER_RUNS || !before) {
        return hri_prose_set(why, HR_E_BUSY,
                             before ? "training has finished" : "there are no gradients to apply");
    }
    t->added_ns = 0;
    t->looked = t->over = 0;
    hr_status status = hri_planned_apply(t->o.planned, &n, why);
    if (status == HR_OK) {
        t->at.state = hri_planned_state(t->o.planned);
        status = !isfinite(n.loss) && !n.skipped ? not_finite(t, n.loss, why) : HR_OK;
    }
    if (status != HR_OK) {
        t->end = HRI_TRAINER_FAILED;
        return status;
    }
    const uint64_t ns = hri_clock_ns() - begin + before;
    count_step(t, &n, ns, 0);
    report_step(t, &n, ns, 0);
    say_step(t);
    t->sums.all_ns += ns;
    *out = t->unsaid;
    return HR_OK;
}

hr_status hri_trainer_update(hri_trainer *t, hri_record_step *out, hri_prose *why) {
    if (t->end != HRI_TRAINER_RUNS || hri_planned_is_fed(t->o.planned)) {
        return hri_prose_set(why, HR_E_BUSY,
                             t->end != HRI_TRAINER_RUNS
                                 ? "training has finished"
                                 : "the next batch is already on the device");
    }
    const uint64_t begin = hri_clock_ns();
    const hr_status status = take_step(t, why);
    t->sums.all_ns += hri_clock_ns() - begin;
    if (status != HR_OK) {
        t->end = HRI_TRAINER_FAILED;
        return status;
    }
    say_step(t);
    *out = t->unsaid;
    return HR_OK;
}
