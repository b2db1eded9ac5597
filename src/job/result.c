/* How a training ended; see train.h. */
#include <math.h>

#include "job/train.h"
#include "weights/digest.h"

const char *hri_train_reason(hri_trainer_end end) {
    switch (end) {
    case HRI_TRAINER_DONE:
        return "done";
    case HRI_TRAINER_EARLY:
        return "early stopping";
    case HRI_TRAINER_INTERRUPTED:
        return "interrupted";
    default:
        return "failed";
    }
}

void hri_train_final_numbers(const hri_trainer_sums *sums, double *loss, double *accuracy) {
    *loss = sums->validation.epoch ? sums->validation.loss
            : sums->epoch.epoch    ? sums->epoch.loss
            : sums->steps          ? (double)sums->loss
                                   : NAN; /* it was over before it began */
    *accuracy = sums->validation.epoch ? sums->validation.accuracy
                : sums->epoch.epoch    ? sums->epoch.accuracy
                                       : NAN;
}

uint64_t hri_train_bad_samples(const hri_train_job *j) {
    hr_pipeline_stats train = {.size = sizeof train}, validation = {.size = sizeof validation};
    hr_pipeline_get_stats(hri_supply_pipeline(j->train), &train);
    if (j->validation) {
        hr_pipeline_get_stats(hri_supply_pipeline(j->validation), &validation);
    }
    return train.bad + validation.bad;
}

/* What no batch was left for, at the end of an epoch of a source whose length nobody knew before too. */
uint64_t hri_train_left_over(const hri_train_job *j) {
    hr_pipeline_stats train = {.size = sizeof train};
    hr_pipeline_get_stats(hri_supply_pipeline(j->train), &train);
    return j->train_count == HR_COUNT_UNKNOWN ? train.left_over
                                              : j->train_count % (uint64_t)j->batch;
}

bool hri_train_over_budget(const hri_train_job *j, const hri_measured *m) {
    const hri_plan_job *p = j->plan;
    const uint64_t most = j->process_bytes    ? j->process_bytes
                          : p->holding.shared ? hri_holding_limit(&p->holding)
                                              : p->budget_bytes;
    return most && m->peak_bytes > most;
}

static double seconds(uint64_t ns) {
    return (double)ns / 1e9;
}

/* Every rank reads its values, in one order. */
static uint64_t digest_of(const hri_train_job *j) {
    const hri_trainer_end end = hri_trainer_over(j->trainer);
    const hri_values from = {.get = hri_planned_get,
                             .user = j->planned,
                             .buffer_bytes = hri_planned_band_bytes(j->planned)};
    uint64_t digest = HR_UNKNOWN;
    return (end == HRI_TRAINER_DONE || end == HRI_TRAINER_EARLY) &&
                   hri_values_digest(hri_planned_graph(j->planned), &from, &digest) == HR_OK
               ? digest
               : HR_UNKNOWN;
}

void hri_train_record_end(hri_train_job *j) {
    hri_trainer_sums sums;
    hri_measured m;
    uint64_t step;
    if (j->ended || !j->trainer) {
        return;
    }
    j->ended = true;
    j->digest = digest_of(j);
    hri_trainer_get_sums(j->trainer, &sums);
    hri_planned_measure(j->planned, &m);
    hri_pace_keep(&j->pace, hri_planned_step_ns(j->planned));
    const char *saved = hri_trainer_saved(j->trainer, &step);
    hri_record_end e = {.step = hri_trainer_progress(j->trainer)->state.step,
                        .reason = hri_train_reason(hri_trainer_over(j->trainer)),
                        .checkpoint = *saved ? saved : NULL,
                        .planned_peak_bytes = j->row.peak_bytes,
                        .measured_peak_bytes = m.peak_bytes,
                        .samples_per_second =
                            sums.step_ns ? (double)sums.samples / seconds(sums.step_ns) : 0,
                        .seconds = seconds(sums.all_ns)};
    hri_train_final_numbers(&sums, &e.loss, &e.accuracy);
    hri_record_ended(j->record, &e);
}
