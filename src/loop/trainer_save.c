/* Checkpoints of a training, and going on from one; see trainer_parts.h. */
#include "loop/trainer_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "passes/common/ema.h"
#include "weights/adapter.h"

/* ---- writing ---- */

static void tell_save(const hri_trainer *t, int failed, const char *text) {
    if (t->o.on_save) {
        t->o.on_save(t->o.user, failed, text);
    } else if (failed) {
        hri_trainer_log(t, HR_LOG_WARN, text);
    }
}

static hri_values values_of(hri_planned *p) {
    return (hri_values){.get = hri_planned_get,
                        .put = hri_planned_put,
                        .user = p,
                        .buffer_bytes = hri_planned_band_bytes(p)};
}

/* Averages in place of the weights, where there are some. */
static hr_status get_average(void *planned, hr_value value, uint64_t at, void *to, uint64_t bytes) {
    const hr_graph *g = hri_planned_graph(planned);
    const hr_value ema = g->values[value].kind == HR_VALUE_PARAM ? hri_ema_of(g, value) : HR_NONE;
    return hri_planned_get(planned, ema != HR_NONE ? ema : value, at, to, bytes);
}

hr_status hri_trainer_begin_averages(hri_trainer *t, hri_prose *why) {
    const hr_graph *g = hri_planned_graph(t->o.planned);
    hr_status status = HR_OK;
    for (hr_value v = 1; v < g->value_count && status == HR_OK; v++) {
        const hr_value ema = g->values[v].kind == HR_VALUE_PARAM ? hri_ema_of(g, v) : HR_NONE;
        const uint64_t all = ema == HR_NONE ? 0 : hr_meta_bytes(&g->values[v].meta);
        char some[4096];
        for (uint64_t at = 0; at < all && status == HR_OK; at += sizeof some) {
            const uint64_t n = all - at < sizeof some ? all - at : sizeof some;
            status = hri_planned_get(t->o.planned, v, at, some, n);
            status = status == HR_OK ? hri_planned_put(t->o.planned, ema, at, some, n) : status;
        }
    }
    return status == HR_OK ? HR_OK
                           : hri_prose_set(why, status, "the average of the parameters: %s",
                                           hr_status_text(status));
}

void hri_trainer_drop_place(hri_trainer *t) {
    hr_pipeline_state_free(t->place);
    t->place = NULL;
    t->place_bytes = 0;
}

/* The place of the data behind the last step: now, or as it was before the next batch was fed ahead. */
hr_status hri_trainer_keep_place(hri_trainer *t) {
    return t->place ? HR_OK
                    : hr_pipeline_save(hri_supply_pipeline(t->o.feeds->train), &t->place,
                                       &t->place_bytes);
}

static hr_status write_whole(hri_trainer *t, const char *path, hri_prose *why) {
    const int fed = hri_planned_is_fed(t->o.planned);
    if (!fed) {
        hri_trainer_drop_place(t);
    }
    hr_status status = fed && !t->place ? HR_E_BUSY : hri_trainer_keep_place(t);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "the position in the input data cannot be saved: %s",
                             hr_status_text(status));
    }
    const hri_values from = values_of(t->o.planned);
    const hri_checkpoint_write w = {.g = hri_planned_graph(t->o.planned),
                                    .from = &from,
                                    .about = t->o.about,
                                    .progress = &t->at,
                                    .input = t->place,
                                    .input_bytes = t->place_bytes};
    return hri_checkpoint_save(path, &w, why);
}

static hr_status write_weights(hri_trainer *t, const char *path, hri_prose *why) {
    hri_values from = values_of(t->o.planned);
    from.get = get_average;
    const hri_checkpoint_write w = {.g = hri_planned_graph(t->o.planned),
                                    .from = &from,
                                    .about = t->o.about,
                                    .updates = hri_planned_state(t->o.planned).updates};
    return hri_checkpoint_save(path, &w, why);
}

/* Adapters lie beside the checkpoint, as other programs read them: those of the best weights, or of the last while there are
 * no best. */
static hr_status write_adapter(hri_trainer *t, int best, hri_prose *why) {
    if (!t->o.about->passes || (!best && !isnan(t->at.best))) {
        return HR_OK;
    }
    const hri_values from = values_of(t->o.planned);
    return hri_adapter_save(t->o.folder, hri_planned_graph(t->o.planned), &from, t->o.about, why);
}

/* Beside a last checkpoint of a run that has no best yet lies none of a run before it. */
static void forget_best(const hri_trainer *t) {
    if (!t->at.best_epoch) {
        (void)unlink(t->best_path); /* mostly there is none */
    }
}

/* A failure is kept and said; whoever needs the file decides. */
hr_status hri_trainer_write(hri_trainer *t, int best) {
    const char *path = best ? t->best_path : t->last_path;
    if (!path) {
        return HR_OK;
    }
    hri_prose why = {""};
    const uint64_t begin = hri_clock_ns();
    t->at.state = hri_planned_state(t->o.planned);
    t->at.seconds_ns += begin - t->begun_ns;
    t->begun_ns = begin;
    hr_status status = best ? write_weights(t, path, &why) : write_whole(t, path, &why);
    status = status == HR_OK ? write_adapter(t, best, &why) : status;
    const uint64_t end = hri_clock_ns();
    t->sums.save_ns += end - begin;
    t->saved_ns = end;
    if (status == HR_OK) {
        t->sums.saves++;
        if (!best) {
            t->save_failed = 0;
            t->saved_step = t->at.state.step;
            t->saved_path = t->last_path;
            forget_best(t);
        }
        tell_save(t, 0, path);
        return HR_OK;
    }
    char line[800], before[128] = "no earlier checkpoint exists";
    if (t->saved_path[0]) {
        snprintf(before, sizeof before, "the one of step %llu is kept",
                 (unsigned long long)t->saved_step);
    }
    snprintf(line, sizeof line, "the checkpoint could not be written (%s); %s", why.text, before);
    tell_save(t, 1, line);
    t->save_failed = 1;
    hri_prose_set(&t->save_why, status, "%s", line);
    return status;
}

hr_status hri_trainer_save_weights(hri_trainer *t, const char *path, hri_prose *why) {
    return write_weights(t, path, why);
}

hr_status hri_trainer_save(hri_trainer *t, const char *path, hri_prose *why) {
    if (!path && !t->last_path) {
        return hri_prose_set(why, HR_E_INVALID, "the run has no folder to save to");
    }
    if (path) {
        t->at.state = hri_planned_state(t->o.planned);
        return write_whole(t, path, why);
    }
    const hr_status status = hri_trainer_write(t, 0);
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "%s", t->save_why.text);
}

/* ---- going on from one ---- */

/* Adds which file of the data was changed last. */
static void name_newest(const hri_trainer *t, hri_prose *why) {
    char path[512], when[64] = "";
    int64_t changed_s = 0;
    struct tm parts;
    if (hr_pipeline_newest(hri_supply_pipeline(t->o.feeds->train), path, sizeof path, &changed_s) !=
        HR_OK) {
        return;
    }
    const time_t time = (time_t)changed_s;
    if (gmtime_r(&time, &parts)) {
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &parts);
    }
    const hri_prose before = *why;
    (void)hri_prose_set(why, HR_OK, "%s; the most recently changed file is %s (%s)", before.text,
                        path, when);
}

/* Is it the same training?  What may differ: threads, budget, how long. */
static hr_status check_same(const hri_trainer *t, const hri_checkpoint *c, hri_prose *why) {
    hri_prose warning = {""};
    const hr_status status = hri_checkpoint_same(c, t->o.about, &warning, why);
    if (status == HR_OK && warning.text[0]) {
        hri_trainer_log(t, HR_LOG_WARN, warning.text);
    }
    if (status != HR_OK && strstr(why->text, "the data differs from the run's")) {
        name_newest(t, why);
    }
    return status;
}

hr_status hri_trainer_resume(hri_trainer *t, const hri_checkpoint *c, hri_prose *why) {
    void *place = NULL;
    size_t bytes = 0;
    const hri_values to = values_of(t->o.planned);
    hr_status status = check_same(t, c, why);
    if (status == HR_OK && !(t->resumed_path = hri_strdup(c->path))) {
        status = hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for training");
    }
    if (status == HR_OK) {
        status = hri_checkpoint_input(c, &place, &bytes, why);
    }
    if (status == HR_OK) {
        status =
            hri_checkpoint_load(c, hri_planned_graph(t->o.planned), &to, HRI_CHECKPOINT_WHOLE, why);
    }
    if (status == HR_OK) {
        status = hri_supply_restore(t->o.feeds->train, place, bytes, c->progress.epoch, why);
    }
    hri_free(place);
    if (status == HR_OK) {
        t->at = c->progress;
        t->at.parts = t->o.begin.parts;
        hri_planned_resume(t->o.planned, &c->progress.state);
        t->saved_step = t->at.state.step;
        t->saved_path = t->resumed_path;
    }
    return status;
}
