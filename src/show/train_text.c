/* A training before its first step and behind its last one, for people; see train.h. */
#include "show/train.h"

#include <headroom/bytes.h>
#include <math.h>
#include <stdio.h>

#include "base/number.h"
#include "base/prose.h"
#include "show/plan.h"

/* What was loaded, and where it goes on. */
void hri_train_show_start(const hri_train_view *v) {
    const hri_train_job *j = v->job;
    hri_out *out = v->out;
    if (v->json) {
        return;
    }
    if (j->init.replaced) {
        hri_out_printf(out,
                       "%s: %zu parameters loaded; %s has %lld classes in the file and %lld "
                       "here, so the classifier starts over\n",
                       j->o.init, j->init.loaded, j->init.head, (long long)j->init.file_classes,
                       (long long)j->want.classes);
    } else if (j->init.missing) {
        hri_out_printf(out,
                       "%s: %zu parameters loaded; the file has no %s, so the classifier starts "
                       "over\n",
                       j->o.init, j->init.loaded, j->init.head);
    } else if (j->init.loaded) {
        hri_out_printf(out, "%s: %zu parameters loaded\n", j->o.init, j->init.loaded);
    }
    if (j->resumes) {
        const hri_progress_state *at = hri_trainer_progress(j->trainer);
        hri_out_printf(out, "resuming from step %llu, epoch %llu of %s\n",
                       (unsigned long long)at->state.step, (unsigned long long)at->epoch + 1,
                       j->folder);
    }
    hri_out_flush(out);
}

/* ---- before ---- */

static void say_start(const hri_train_view *v) {
    const hri_train_job *j = v->job;
    hri_out *out = v->out;
    if (j->said[0]) {
        hri_out_printf(out, "from the data: %s\n", j->said);
    }
    if (j->train_count != HR_COUNT_UNKNOWN) {
        hri_out_printf(out, "%llu training sample%s", (unsigned long long)j->train_count,
                       hri_plural(j->train_count));
        if (j->val_count) {
            hri_out_printf(out, ", %llu validation sample%s", (unsigned long long)j->val_count,
                           hri_plural(j->val_count));
        }
        hri_out_printf(out, "; %llu step%s per epoch", (unsigned long long)j->steps_per_epoch,
                       hri_plural(j->steps_per_epoch));
        const uint64_t rest = j->train_count % (uint64_t)j->batch;
        if (rest) {
            hri_out_printf(out, ", %llu dropped per epoch (different ones each time)",
                           (unsigned long long)rest);
        }
        hri_out_text(out, "\n");
    }
    if (j->batch_chosen) {
        hri_out_printf(out,
                       "batch auto chose %lld: the highest predicted samples/s with at least "
                       "16 steps per epoch where the data allows\n",
                       (long long)(j->batch / j->o.accumulate));
    }
    if (j->o.accumulate > 1) {
        hri_out_printf(out, "gradient accumulation: %lld batches of %lld per step%s\n",
                       (long long)j->o.accumulate, (long long)(j->batch / j->o.accumulate),
                       j->answer->coupled ? "; batch norm sees one batch at a time" : "");
    }
}

hr_status hri_train_show_plan(const hri_train_view *v) {
    if (v->json) {
        return HR_OK;
    }
    const hr_status status = hri_plan_print_parts(
        &(hri_plan_sheet){.job = v->job->plan, .answer = v->job->answer}, v->out, v->out_term);
    if (status == HR_OK) {
        say_start(v);
    }
    return status;
}

/* ---- after ---- */

static double seconds(uint64_t ns) {
    return (double)ns / 1e9;
}

static void say_bad(const hri_train_view *v) {
    const hri_train_job *j = v->job;
    const uint64_t bad = hri_train_bad_samples(j);
    if (bad) {
        const char *name = hr_pipeline_bad(hri_supply_pipeline(j->train), 0);
        hri_out_printf(v->out, "  skipped  %llu sample%s that could not be read%s%s\n",
                       (unsigned long long)bad, hri_plural(bad), name ? ", first " : "",
                       name ? name : "");
    }
}

static void say_left_over(const hri_train_view *v) {
    const hri_train_job *j = v->job;
    const uint64_t count = j->train_count == HR_COUNT_UNKNOWN ? hri_train_left_over(j) : 0;
    if (count) {
        hri_out_printf(v->out,
                       "  dropped  %llu sample%s per epoch that do%s not fill a batch of %lld\n",
                       (unsigned long long)count, hri_plural(count), count == 1 ? "es" : "",
                       (long long)j->batch);
    }
}

static void say_saved(const hri_train_view *v) {
    const hri_train_job *j = v->job;
    uint64_t step;
    const char *saved = hri_trainer_saved(j->trainer, &step);
    const hri_progress_state *p = hri_trainer_progress(j->trainer);
    if (!*saved) {
        return;
    }
    hri_out_printf(v->out, "  saved    %s: %s (resume from step %llu)", j->folder,
                   HRI_CHECKPOINT_LAST, (unsigned long long)step);
    if (p->best_epoch) {
        hri_out_printf(v->out, ", %s (epoch %llu", HRI_CHECKPOINT_BEST,
                       (unsigned long long)p->best_epoch);
        if (j->best_by != HRI_BEST_BY_LOSS) {
            hri_out_printf(v->out, ", %s %.4f", j->wanted.of[j->best_by].name, p->best);
        }
        hri_out_text(v->out, ")");
    }
    hri_out_text(v->out, "\n");
}

static void say_numbers(const hri_train_view *v, const hri_trainer_sums *sums) {
    const hri_train_job *j = v->job;
    const hri_progress_state *p = hri_trainer_progress(j->trainer);
    double loss, accuracy;
    char numbers[96] = "nothing left to do";
    hri_train_final_numbers(sums, &loss, &accuracy);
    if (!isnan(loss)) {
        const int n = snprintf(numbers, sizeof numbers, "%sloss %.4f",
                               sums->validation.epoch ? "validation " : "", loss);
        if (!isnan(accuracy) && n > 0) {
            hri_snprintf(numbers + n, sizeof numbers - (size_t)n, ", accuracy %.4f", accuracy);
        }
    }
    hri_show_title(v->out, v->out_term, "%s%s%s: %llu step%s, %llu epoch%s in %.1f s; %s",
                   v->many ? j->name : "", v->many ? ", " : "",
                   hri_train_reason(hri_trainer_over(j->trainer)),
                   (unsigned long long)p->state.step, hri_plural(p->state.step),
                   (unsigned long long)p->epoch, hri_plural(p->epoch),
                   seconds(p->seconds_ns > sums->all_ns ? p->seconds_ns : sums->all_ns), numbers);
}

static void say_memory(const hri_train_view *v, const hri_measured *m) {
    const hri_train_job *j = v->job;
    char planned[32], measured[32];
    const int over = hri_train_over_budget(j, m);
    hri_out_printf(v->out, "  memory   planned %s, measured peak %s%s\n",
                   hr_bytes_print(j->row.peak_bytes, planned, sizeof planned),
                   hr_bytes_print(m->peak_bytes, measured, sizeof measured),
                   over ? ": OVER THE BUDGET" : "");
}

static void say_time(const hri_train_view *v, const hri_trainer_sums *sums) {
    const uint64_t known = sums->step_ns + sums->validate_ns + sums->save_ns;
    hri_out_printf(v->out,
                   "  time     %.1f s: compute %.1f, waiting for data %.1f, validation %.1f, "
                   "saving %.1f, other %.1f; %.1f samples/s\n",
                   seconds(sums->all_ns), seconds(sums->step_ns - sums->wait_ns),
                   seconds(sums->wait_ns), seconds(sums->validate_ns), seconds(sums->save_ns),
                   seconds(sums->all_ns > known ? sums->all_ns - known : 0),
                   sums->step_ns ? (double)sums->samples / seconds(sums->step_ns) : 0.0);
}

/* Ranks wait for the last of them: who that was, where it cost a tenth of the time or more. */
static void say_slowest(const hri_train_view *v, const hri_trainer_sums *sums) {
    hri_net_stats net = {0};
    if (v->job->net) {
        hri_net_get_stats(v->job->net, &net);
    }
    if (net.slowest_ns > sums->all_ns / 10) {
        hri_out_printf(v->out, "  slowest  %s: %.1f s slower than the fastest in all\n",
                       hri_net_member(v->job->net, net.slowest), seconds(net.slowest_ns));
    }
}

void hri_train_show_end(const hri_train_view *v) {
    hri_trainer_sums sums;
    hri_measured m;
    hri_trainer_get_sums(v->job->trainer, &sums);
    hri_planned_measure(v->job->planned, &m);
    say_numbers(v, &sums);
    say_memory(v, &m);
    say_time(v, &sums);
    say_slowest(v, &sums);
    say_bad(v);
    say_left_over(v);
    say_saved(v);
}

/* ---- two of them ---- */

void hri_train_show_pair(const hri_train_view *v, const hri_together *t) {
    const hri_train_job *a = &t->jobs[0], *b = &t->jobs[1];
    const hri_train_job *larger = a->answer->row.peak_bytes > b->answer->row.peak_bytes ? a : b;
    char both[32], separate[32], weights[2][32], rest[32];
    hri_out_printf(v->out,
                   "two runs, alternating: %s in one process (persistent %s and %s, one arena of "
                   "%s for the steps of both); two processes would need %s\n",
                   hr_bytes_print(larger->row.peak_bytes, both, sizeof both),
                   hr_bytes_print(a->plans->c->own_bytes, weights[0], sizeof weights[0]),
                   hr_bytes_print(b->plans->c->own_bytes, weights[1], sizeof weights[1]),
                   hr_bytes_print(larger->row.arena_bytes, rest, sizeof rest),
                   hr_bytes_print(t->separate_bytes, separate, sizeof separate));
}

void hri_train_show_refusal(const hri_train_view *v, const hri_together *t) {
    const hri_train_job *j = v->job;
    uint64_t floor, least;
    char both[32], own[32], budget[32], enough[32];
    hri_together_least(t, &floor, &least);
    hri_show_title(v->out, v->out_term,
                   "does not fit: the runs together need at least %s, the budget is %s",
                   hr_bytes_print(floor, both, sizeof both),
                   hr_bytes_print(j->plan->budget_bytes, budget, sizeof budget));
    if (t->at_least) {
        hri_out_text(v->out, "the exact minimum is not known: planning the runs takes more memory "
                             "than the budget allows\n");
        return;
    }
    hri_out_printf(
        v->out,
        "the %s run needs %s in addition to parameters, optimizer state and input of the "
        "other one; %s is enough for all\n",
        j->name, hr_bytes_print(j->plan->floor_bytes, own, sizeof own),
        hr_bytes_print(least, enough, sizeof enough));
}
