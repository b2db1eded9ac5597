/* The table of names, and values by them; see wanted.h. */
#include "loop/wanted.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OF_CLASSES = 1, OF_FLAGS = 2, OF_NUMBERS = 4, OF_TOKENS = 8, OF_ALL = 15 };

typedef struct row {
    const char *name;
    hri_wanted_kind kind;
    unsigned tasks;
    int each;  /* may be of one class */
    int falls; /* a smaller number is better */
} row;

static const row rows[] = {
    {"loss", HRI_WANTED_LOSS, OF_ALL, 0, 1},
    {"accuracy", HRI_WANTED_ACCURACY, OF_CLASSES | OF_FLAGS | OF_TOKENS, 0, 0},
    {"top", HRI_WANTED_TOP, OF_CLASSES, 0, 0},
    {"precision", HRI_WANTED_PRECISION, OF_CLASSES | OF_FLAGS, 1, 0},
    {"recall", HRI_WANTED_RECALL, OF_CLASSES | OF_FLAGS, 1, 0},
    {"f1", HRI_WANTED_F1, OF_CLASSES | OF_FLAGS, 1, 0},
    {"dice", HRI_WANTED_DICE, OF_CLASSES | OF_FLAGS, 1, 0},
    {"iou", HRI_WANTED_IOU, OF_CLASSES | OF_FLAGS, 1, 0},
    {"auc", HRI_WANTED_AUC, OF_CLASSES | OF_FLAGS, 1, 0},
    {"mae", HRI_WANTED_MAE, OF_NUMBERS, 0, 1},
    {"rmse", HRI_WANTED_RMSE, OF_NUMBERS, 0, 1},
    {"r2", HRI_WANTED_R2, OF_NUMBERS, 0, 0},
    {"perplexity", HRI_WANTED_PERPLEXITY, OF_TOKENS, 0, 1},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static unsigned task_of(const hri_wanted_task *t) {
    return t->tokens                         ? OF_TOKENS
           : t->target == HRI_TARGET_CLASSES ? OF_CLASSES
           : t->target == HRI_TARGET_FLAGS   ? OF_FLAGS
                                             : OF_NUMBERS;
}

static int suits(const row *r, const hri_wanted_task *t) {
    return (r->tasks & task_of(t)) != 0 && !(r->kind == HRI_WANTED_AUC && t->pixels);
}

static hr_status does_not_suit(const char *name, const hri_wanted_task *t, hri_prose *why) {
    char list[160] = "";
    size_t used = 0;
    for (size_t i = 0; i < ROWS; i++) {
        if (suits(&rows[i], t)) {
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s%s", used ? ", " : "",
                                     rows[i].name, rows[i].kind == HRI_WANTED_TOP ? "K" : "");
        }
    }
    return hri_prose_set(why, HR_E_INVALID,
                         "\"%s\" is not a metric of a model that predicts %s (%s)", name,
                         t->tokens                         ? "tokens"
                         : t->pixels                       ? "a class per pixel"
                         : t->target == HRI_TARGET_CLASSES ? "classes"
                         : t->target == HRI_TARGET_FLAGS   ? "0 or 1 for each class"
                                                           : "numbers",
                         list);
}

/* The row of "f1", "top3" (*top then), or NULL. */
static const row *find(const char *name, size_t length, int64_t *top) {
    for (size_t i = 0; i < ROWS; i++) {
        const size_t n = strlen(rows[i].name);
        if (rows[i].kind == HRI_WANTED_TOP && length > n && length < n + 8 &&
            !strncmp(name, rows[i].name, n) && strspn(name + n, "0123456789") >= length - n) {
            *top = strtoll(name + n, NULL, 10);
            return &rows[i];
        }
        if (rows[i].kind != HRI_WANTED_TOP && n == length && !strncmp(name, rows[i].name, n)) {
            return &rows[i];
        }
    }
    return NULL;
}

/* A class by its name, or by its number. */
static hr_status find_class(const char *name, const hri_wanted_task *t, int64_t *out,
                            hri_prose *why) {
    char *end;
    for (size_t i = 0; t->classes && i < t->class_count; i++) {
        if (!strcmp(t->classes[i], name)) {
            *out = (int64_t)i;
            return HR_OK;
        }
    }
    const long long n = strtoll(name, &end, 10);
    if (!*name || *end || n < 0 || n >= t->outputs) {
        return hri_prose_set(why, HR_E_INVALID,
                             "\"%s\" is not a class of the model, which has %lld (from 0)", name,
                             (long long)t->outputs);
    }
    *out = n;
    return HR_OK;
}

static hr_status read_one(const char *name, const hri_wanted_task *t, hri_wanted_metric *out,
                          hri_prose *why) {
    const size_t length = strcspn(name, ":");
    hri_wanted_metric m = {.of = -1};
    const row *r = find(name, length, &m.top);
    if (!r || !suits(r, t)) {
        return does_not_suit(name, t, why);
    }
    m.kind = r->kind;
    m.scores = m.kind != HRI_WANTED_LOSS && m.kind != HRI_WANTED_PERPLEXITY &&
               (m.kind != HRI_WANTED_ACCURACY || t->target == HRI_TARGET_FLAGS);
    snprintf(m.name, sizeof m.name, "%s", name);
    if (m.kind == HRI_WANTED_TOP && (m.top < 1 || m.top > t->outputs)) {
        return hri_prose_set(why, HR_E_RANGE, "\"%s\": the model has %lld classes", name,
                             (long long)t->outputs);
    }
    if (m.scores && (t->outputs < 1 || t->outputs > HRI_METRICS_CLASSES)) {
        return hri_prose_set(why, HR_E_RANGE, "\"%s\" needs a model with 1 to %d outputs, not %lld",
                             name, HRI_METRICS_CLASSES, (long long)t->outputs);
    }
    if (name[length] == ':' && !r->each) {
        return hri_prose_set(why, HR_E_INVALID, "\"%s\": %s is not of a single class", name,
                             r->name);
    }
    const hr_status status =
        name[length] == ':' ? find_class(name + length + 1, t, &m.of, why) : HR_OK;
    if (status == HR_OK) {
        *out = m;
    }
    return status;
}

hr_status hri_wanted_add(hri_wanted *w, const char *list, const hri_wanted_task *task, size_t *last,
                         hri_prose *why) {
    for (const char *at = list ? list : ""; *at;) {
        const size_t n = strcspn(at, ",");
        char name[HRI_WANTED_NAME];
        hri_wanted_metric m;
        size_t k = 0;
        if (n >= sizeof name) {
            return hri_prose_set(why, HR_E_INVALID, "\"%.*s...\" is not a metric", 40, at);
        }
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        at += n + (at[n] == ',');
        const hr_status status = read_one(name, task, &m, why);
        if (status != HR_OK) {
            return status;
        }
        while (k < w->count && strcmp(w->of[k].name, m.name) != 0) {
            k++;
        }
        if (k == HRI_WANTED_MAX) {
            return hri_prose_set(why, HR_E_RANGE, "more than %d metrics", HRI_WANTED_MAX);
        }
        w->of[k] = m;
        w->count += k == w->count;
        if (last) {
            *last = k;
        }
    }
    return HR_OK;
}

int hri_wanted_rises(const hri_wanted_metric *m) {
    for (size_t i = 0; i < ROWS; i++) {
        if (rows[i].kind == m->kind) {
            return !rows[i].falls;
        }
    }
    return 0;
}

/* ---- values ---- */

static double part_of(const hri_class_metrics *c, hri_wanted_kind kind) {
    return kind == HRI_WANTED_PRECISION ? c->precision
           : kind == HRI_WANTED_RECALL  ? c->recall
           : kind == HRI_WANTED_IOU     ? c->iou
           : kind == HRI_WANTED_AUC     ? c->auc
                                        : c->f1;
}

/* The mean that hri_metrics_get has under this name. */
static hr_status mean_of(const hri_wanted_metric *w, hri_metrics *m, double *out) {
    hri_metric made[HRI_METRICS_MAX];
    size_t count = 0;
    const char *name = w->kind == HRI_WANTED_DICE ? "f1" : w->name;
    const hr_status status = hri_metrics_get(m, made, &count);
    for (size_t i = 0; status == HR_OK && i < count; i++) {
        if (!strcmp(made[i].name, name)) {
            *out = made[i].value;
        }
    }
    return status;
}

hr_status hri_wanted_value(const hri_wanted_metric *w, hri_metrics *m, const hri_wanted_sums *sums,
                           double *out) {
    hri_class_metrics c;
    *out = (double)NAN;
    switch (w->kind) {
    case HRI_WANTED_LOSS:
        *out = sums->loss;
        return HR_OK;
    case HRI_WANTED_PERPLEXITY:
        *out = exp(sums->loss);
        return HR_OK;
    case HRI_WANTED_ACCURACY:
        *out = sums->accuracy;
        return isnan(*out) && m ? mean_of(w, m, out) : HR_OK;
    case HRI_WANTED_TOP:
        *out = m ? hri_metrics_top(m, w->top) : (double)NAN;
        return HR_OK;
    default:
        break;
    }
    if (!m || w->of < 0) {
        return m ? mean_of(w, m, out) : HR_OK;
    }
    const hr_status status = hri_metrics_class(m, w->of, &c);
    if (status == HR_OK) {
        *out = part_of(&c, w->kind);
    }
    return status;
}
