/* A training while it runs; see train.h. */
#include "show/train.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/wrap.h"

void hri_train_show_hide(hri_train_view *v) {
    hri_progress_hide(&v->bar);
}

static uint64_t mib(uint64_t bytes) {
    return (bytes + (1 << 20) - 1) >> 20;
}

typedef struct note {
    char text[640];
    size_t used;
} note;

static void add(note *n, const char *format, ...) HR_PRINTF(2, 3);
static void add(note *n, const char *format, ...) {
    va_list args;
    va_start(args, format);
    const size_t room = sizeof n->text - n->used;
    const int wrote = hri_vsnprintf(n->text + n->used, room, format, args);
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

/* Those that were asked for, without what stands there anyway. */
static void add_metrics(note *n, const hri_record_validation *v) {
    for (uint32_t i = 0; i < v->metric_count; i++) {
        const char *name = v->metrics[i].name;
        if (strcmp(name, "loss") != 0 && strcmp(name, "top5") != 0 &&
            (strcmp(name, "accuracy") != 0 || isnan(v->accuracy))) {
            add(n, " - val_%s: %.4f", name, v->metrics[i].value);
        }
    }
}

static void head_line(hri_train_view *v, uint64_t epoch, double seconds_ago) {
    char of[32] = "";
    if (v->job->epochs) {
        snprintf(of, sizeof of, "/%llu", (unsigned long long)v->job->epochs);
    }
    hri_out_printf(v->err, "%s%sEpoch %llu%s\n", v->many ? v->job->name : "", v->many ? ": " : "",
                   (unsigned long long)epoch, of);
    hri_progress_init(&v->bar, v->err, v->err_term, "", v->job->steps_per_epoch,
                      hri_clock_ns() - (uint64_t)(seconds_ago * 1e9));
    v->epoch = epoch;
}

static void show_step(hri_train_view *v, const hr_numbers *r) {
    const hri_progress_state *p = hri_trainer_progress(v->job->trainer);
    if (!v->err_term->tty || v->many) {
        return;
    }
    if (v->epoch != r->epoch) {
        head_line(v, r->epoch, r->seconds);
    }
    note n = {.used = 0};
    const uint64_t now = hri_clock_ns(), done = p->epoch_step;
    if (v->bar.total && done) {
        const double each = (double)(now - v->bar.start_ns) / (double)done;
        add(&n, "ETA %.0fs", each * (double)(v->bar.total - done) / 1e9);
    }
    const double all = (double)p->samples;
    const size_t eta = n.used, room = hri_progress_room(&v->bar, done, now);
    if (v->err_term->width >= 100) {
        add_numbers(&n, "", p->loss_sum / all, p->right_sum / all, p->top_sum / all);
        add_memory(&n, v->job, r->memory_bytes);
    } else {
        add_short(&n, p->loss_sum / all, p->right_sum / all, v->job, r->memory_bytes, room, eta);
    }
    hri_progress_step(&v->bar, done, n.text, now);
}

/* The bar's last state, and validation on a line of its own: both together are wider than most terminals. */
static void end_bar(hri_train_view *v, const hr_numbers *e, const hri_record_validation *val) {
    note n = {.used = 0};
    const hri_progress_state *p = hri_trainer_progress(v->job->trainer);
    const uint64_t now = hri_clock_ns();
    const size_t room = hri_progress_room(&v->bar, p->epoch_step, now);
    add_numbers(&n, "", e->loss, e->accuracy, val ? NAN : e->top5);
    add_memory(&n, v->job, e->peak_bytes);
    if (n.used > room) {
        add_short(&n, e->loss, e->accuracy, v->job, e->peak_bytes, room, 0);
    }
    hri_progress_end(&v->bar, p->epoch_step, n.text, now);
    if (val) {
        note line = {.used = 0};
        add_numbers(&line, "val_", val->loss, val->accuracy, val->top5);
        add_metrics(&line, val);
        add(&line, "%s", val->best ? " - best so far" : "");
        hri_out_text(v->err, "  ");
        hri_wrap(v->err, line.text, v->err_term->width, 2, 2);
        hri_out_text(v->err, "\n");
        hri_out_flush(v->err);
    }
}

static void show_epoch(hri_train_view *v, const hr_numbers *e, const hri_record_validation *val) {
    note n = {.used = 0};
    add_numbers(&n, "", e->loss, e->accuracy, e->top5);
    if (val) {
        add_numbers(&n, "val_", val->loss, val->accuracy, val->top5);
        add_metrics(&n, val);
    }
    add_memory(&n, v->job, e->peak_bytes);
    if (v->err_term->tty && !v->many) {
        end_bar(v, e, val);
        if (v->out_term->tty || v->json) {
            return;
        }
    }
    char of[32] = "";
    if (v->job->epochs) {
        snprintf(of, sizeof of, "/%llu", (unsigned long long)v->job->epochs);
    }
    hri_out *out = v->json ? v->err : v->out;
    const uint64_t steps = hri_trainer_progress(v->job->trainer)->epoch_step;
    const double each = e->seconds * 1e3 / (double)(steps ? steps : 1);
    hri_out_printf(out, "%s%sepoch %llu%s - %.1f s, %.0f ms/step, %.1f samples/s - %s\n",
                   v->many ? v->job->name : "", v->many ? ": " : "", (unsigned long long)e->epoch,
                   of, e->seconds, each, e->samples_per_second, n.text);
    hri_out_flush(out);
}

/* With the metrics that were asked for, which an event has not. */
static void keep_validation(hri_train_view *v, const hr_numbers *n) {
    hri_trainer_sums sums;
    hri_trainer_get_sums(v->job->trainer, &sums);
    v->validation = sums.validation;
    v->validation.step = n->step;
    v->validation.epoch = n->epoch;
    v->validation.loss = n->loss;
    v->validation.accuracy = n->accuracy;
    v->validation.top5 = n->top5;
    v->validation.best = n->best;
}

void hri_train_show_event(hri_train_view *v, const hr_job_event *e) {
    const hr_numbers *n = e->numbers;
    switch (e->kind) {
    case HR_EVENT_STARTED:
        hri_train_show_start(v);
        break;
    case HR_EVENT_STEP:
        show_step(v, n);
        break;
    case HR_EVENT_VALIDATED:
        keep_validation(v, n);
        break;
    case HR_EVENT_EPOCH:
        show_epoch(v, n,
                   v->validation.epoch && v->validation.step == n->step ? &v->validation : NULL);
        break;
    default:
        break;
    }
}
