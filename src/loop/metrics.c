/* Sums and numbers; see metrics.h. */
#include "loop/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Of one output that is a number. */
typedef struct number_sums {
    double far, squares, origin, sum, sum_squares; /* of errors, and of targets around the first */
    uint64_t count;
} number_sums;

struct hri_metrics {
    hri_metrics_options o;
    uint64_t *
        table; /* (outputs, outputs): ids by predictions; of flags (outputs, 4): truth * 2 + prediction */
    uint64_t *ranks; /* (outputs) of classes: rows whose id has so many scores before it */
    number_sums *numbers;
    float *scores; /* probabilities, row by row: for AUC */
    int32_t *ids;  /* beside them; of flags one per output */
    uint64_t rows, room;
    int full; /* there were too many for AUC */
};

typedef struct scored {
    float score;
    int32_t positive;
} scored;

static int is_flags(const hri_metrics *m) {
    return m->o.target == HRI_TARGET_FLAGS;
}

/* Room for so many rows of scores. */
static hr_status take_room(hri_metrics *m, uint64_t room) {
    const uint64_t n = (uint64_t)m->o.outputs;
    float *scores = hri_realloc(m->scores, room * n * sizeof *scores);
    m->scores = scores ? scores : m->scores;
    int32_t *ids = scores ? hri_realloc(m->ids, room * (is_flags(m) ? n : 1) * sizeof *ids) : NULL;
    m->ids = ids ? ids : m->ids;
    m->room = ids ? room : m->room;
    return ids ? HR_OK : HR_E_NOMEM_HOST;
}

hr_status hri_metrics_open(const hri_metrics_options *o, hri_metrics **out) {
    if (o->outputs < 1 || o->outputs > HRI_METRICS_CLASSES) {
        return HR_E_RANGE;
    }
    const size_t n = (size_t)o->outputs;
    hri_metrics *m = hri_calloc(1, sizeof *m);
    if (!m) {
        return HR_E_NOMEM_HOST;
    }
    m->o = *o;
    if (o->target == HRI_TARGET_NUMBERS) {
        m->numbers = hri_calloc(n, sizeof *m->numbers);
    } else {
        m->table = hri_calloc(is_flags(m) ? 4 * n : n * n, sizeof *m->table);
    }
    if (o->target == HRI_TARGET_CLASSES) {
        m->ranks = hri_calloc(n, sizeof *m->ranks);
    }
    hr_status status = (m->numbers || m->table) && (m->ranks || o->target != HRI_TARGET_CLASSES)
                           ? HR_OK
                           : HR_E_NOMEM_HOST;
    if (status == HR_OK && o->rows && !o->no_auc && o->target != HRI_TARGET_NUMBERS) {
        const uint64_t most = HRI_METRICS_SCORES / (uint64_t)o->outputs;
        status = take_room(m, o->rows < most ? o->rows : most);
    }
    if (status != HR_OK) {
        hri_metrics_close(m);
        return status;
    }
    *out = m;
    return HR_OK;
}

void hri_metrics_clear(hri_metrics *m) {
    const size_t n = (size_t)m->o.outputs;
    if (m->numbers) {
        memset(m->numbers, 0, n * sizeof *m->numbers);
    } else {
        memset(m->table, 0, (is_flags(m) ? 4 * n : n * n) * sizeof *m->table);
    }
    if (m->ranks) {
        memset(m->ranks, 0, n * sizeof *m->ranks);
    }
    m->rows = 0;
    m->full = 0;
}

uint64_t hri_metrics_bytes(const hri_metrics_options *o) {
    const uint64_t n = (uint64_t)o->outputs, most = HRI_METRICS_SCORES / (n ? n : 1);
    const uint64_t rows = o->no_auc || o->target == HRI_TARGET_NUMBERS ? 0
                          : o->rows && o->rows < most                  ? o->rows
                                                                       : most;
    const uint64_t ids = o->target == HRI_TARGET_FLAGS ? n : 1;
    return n * (n + 16) * sizeof(uint64_t) +
           rows * (n * sizeof(float) + ids * sizeof(int32_t) + sizeof(scored));
}

void hri_metrics_close(hri_metrics *m) {
    if (m) {
        hri_free(m->table);
        hri_free(m->ranks);
        hri_free(m->numbers);
        hri_free(m->scores);
        hri_free(m->ids);
        hri_free(m);
    }
}

/* ---- adding ---- */

/* Room for one more row of scores; 0: there is none any more, and AUC is not told. */
static hr_status make_room(hri_metrics *m) {
    const uint64_t n = (uint64_t)m->o.outputs;
    if (m->full || m->o.no_auc || (m->rows + 1) * n > HRI_METRICS_SCORES) {
        m->full = 1;
        return HR_OK;
    }
    return m->rows < m->room ? HR_OK : take_room(m, m->room ? 2 * m->room : 64);
}

static void keep_softmax(hri_metrics *m, const float *row, int32_t id) {
    const int64_t n = m->o.outputs;
    float most = row[0], *to = m->scores + m->rows * (uint64_t)n;
    double sum = 0;
    for (int64_t c = 1; c < n; c++) {
        most = row[c] > most ? row[c] : most;
    }
    for (int64_t c = 0; c < n; c++) {
        sum += exp((double)row[c] - (double)most);
    }
    for (int64_t c = 0; c < n; c++) {
        to[c] = (float)(exp((double)row[c] - (double)most) / sum);
    }
    m->ids[m->rows++] = id;
}

/* How many classes come before this one: those with a higher score, and with the same one those of smaller number.  A score
 * that is not a number comes last. */
static int64_t rank_of(const float *row, int64_t n, int32_t id) {
    const float own = row[id];
    int64_t before = 0;
    for (int64_t k = 0; k < n; k++) {
        before += k != id && (row[k] > own || (row[k] == own && k < id) || own != own);
    }
    return before;
}

hr_status hri_metrics_add_ids(hri_metrics *m, const float *scores, const int32_t *ids,
                              uint64_t rows) {
    const int64_t n = m->o.outputs;
    hr_status status = HR_OK;
    for (uint64_t i = 0; i < rows && status == HR_OK; i++) {
        const float *row = scores + i * (uint64_t)n;
        int64_t best = 0;
        if (ids[i] < 0 || ids[i] >= n) {
            continue;
        }
        for (int64_t c = 1; c < n; c++) {
            best = row[c] > row[best] ? c : best;
        }
        m->table[ids[i] * n + best]++;
        m->ranks[rank_of(row, n, ids[i])]++;
        status = make_room(m);
        if (status == HR_OK && !m->full) {
            keep_softmax(m, row, ids[i]);
        }
    }
    return status;
}

static void add_number(number_sums *s, double is, double should) {
    const double d = should - (s->count ? s->origin : (s->origin = should));
    s->far += fabs(is - should);
    s->squares += (is - should) * (is - should);
    s->sum += d;
    s->sum_squares += d * d;
    s->count++;
}

static void add_row(hri_metrics *m, const float *row, const float *target) {
    const hri_tabular *t = m->o.table;
    for (int64_t c = 0; c < m->o.outputs; c++) {
        if (isnan(target[c])) {
            continue;
        }
        if (is_flags(m)) {
            m->table[4 * c + 2 * (target[c] > 0.5f) + (row[c] > 0)]++;
            continue;
        }
        const double std = t && (size_t)c < t->target_count ? t->targets[c].std : 1;
        const double mean = t && (size_t)c < t->target_count ? t->targets[c].mean : 0;
        add_number(&m->numbers[c], (double)row[c] * std + mean, (double)target[c] * std + mean);
    }
}

hr_status hri_metrics_add_reals(hri_metrics *m, const float *scores, const float *targets,
                                uint64_t rows) {
    const uint64_t n = (uint64_t)m->o.outputs;
    hr_status status = HR_OK;
    for (uint64_t i = 0; i < rows && status == HR_OK; i++) {
        const float *row = scores + i * n, *target = targets + i * n;
        add_row(m, row, target);
        status = is_flags(m) ? make_room(m) : HR_OK;
        if (status != HR_OK || !is_flags(m) || m->full) {
            continue;
        }
        memcpy(m->scores + m->rows * n, row, n * sizeof *row);
        for (uint64_t c = 0; c < n; c++) {
            m->ids[m->rows * n + c] = isnan(target[c]) ? -1 : target[c] > 0.5f;
        }
        m->rows++;
    }
    return status;
}

/* ---- the numbers ---- */

static double ratio(double a, double b) {
    return b > 0 ? a / b : 0;
}

static int by_score(const void *a, const void *b) {
    const scored *x = a, *y = b;
    return (x->score > y->score) - (x->score < y->score);
}

/* The chance that a positive has a higher score than a negative; ties count half. */
static double area(scored *s, uint64_t n) {
    double below = 0, wins = 0, positives = 0;
    qsort(s, n, sizeof *s, by_score);
    for (uint64_t i = 0; i < n;) {
        double here = 0, others = 0;
        uint64_t k = i;
        for (; k < n && s[k].score == s[i].score; k++) {
            here += s[k].positive != 0;
            others += s[k].positive == 0;
        }
        wins += here * (below + others / 2);
        below += others;
        positives += here;
        i = k;
    }
    return positives > 0 && below > 0 ? wins / (positives * below) : (double)NAN;
}

static hr_status auc_of(const hri_metrics *m, int64_t c, double *out) {
    const uint64_t n = (uint64_t)m->o.outputs;
    *out = (double)NAN;
    if (m->full || !m->rows) {
        return HR_OK;
    }
    scored *s = hri_malloc(m->rows * sizeof *s);
    if (!s) {
        return HR_E_NOMEM_HOST;
    }
    uint64_t count = 0;
    for (uint64_t i = 0; i < m->rows; i++) {
        const int32_t id = is_flags(m) ? m->ids[i * n + (uint64_t)c] : m->ids[i] == c;
        if (id >= 0) {
            s[count++] = (scored){m->scores[i * n + (uint64_t)c], id};
        }
    }
    *out = area(s, count);
    hri_free(s);
    return HR_OK;
}

hr_status hri_metrics_class(hri_metrics *m, int64_t c, hri_class_metrics *out) {
    const int64_t n = m->o.outputs;
    hri_class_metrics r = {0};
    if (is_flags(m)) {
        const uint64_t *t = m->table + 4 * c;
        r = (hri_class_metrics){.samples = t[2] + t[3], .predicted = t[1] + t[3], .right = t[3]};
    } else {
        r.right = m->table[c * n + c];
        for (int64_t k = 0; k < n; k++) {
            r.samples += m->table[c * n + k];
            r.predicted += m->table[k * n + c];
        }
    }
    const double right = (double)r.right, samples = (double)r.samples, taken = (double)r.predicted;
    r.precision = ratio(right, taken);
    r.recall = ratio(right, samples);
    r.f1 = ratio(2 * right, samples + taken);
    r.iou = ratio(right, samples + taken - right);
    const hr_status status = auc_of(m, c, &r.auc);
    if (status == HR_OK) {
        *out = r;
    }
    return status;
}

uint64_t hri_metrics_confusion(const hri_metrics *m, int64_t id, int64_t as) {
    return m->table[id * m->o.outputs + as];
}

double hri_metrics_top(const hri_metrics *m, int64_t k) {
    double right = 0, all = 0;
    for (int64_t i = 0; i < m->o.outputs; i++) {
        right += i < k ? (double)m->ranks[i] : 0;
        all += (double)m->ranks[i];
    }
    return all > 0 ? right / all : (double)NAN;
}

static double accuracy_of(const hri_metrics *m) {
    double right = 0, all = 0;
    const int64_t n = m->o.outputs;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t k = 0; k < (is_flags(m) ? 4 : n); k++) {
            const double x = (double)m->table[i * (is_flags(m) ? 4 : n) + k];
            right += (is_flags(m) ? k == 0 || k == 3 : k == i) ? x : 0;
            all += x;
        }
    }
    return all > 0 ? right / all : (double)NAN;
}

static hr_status get_classes(hri_metrics *m, hri_metric *out, size_t *count) {
    double precision = 0, recall = 0, f1 = 0, iou = 0, auc = 0, seen = 0, ranked = 0;
    for (int64_t c = 0; c < m->o.outputs; c++) {
        hri_class_metrics r;
        const hr_status status = hri_metrics_class(m, c, &r);
        if (status != HR_OK) {
            return status;
        }
        if (r.samples || r.predicted || is_flags(m)) { /* those that occur */
            precision += r.precision;
            recall += r.recall;
            f1 += r.f1;
            iou += r.iou;
            seen++;
        }
        auc += isnan(r.auc) ? 0 : r.auc;
        ranked += !isnan(r.auc);
    }
    const hri_metric made[] = {
        {"accuracy", accuracy_of(m)},    {"precision", ratio(precision, seen)},
        {"recall", ratio(recall, seen)}, {"f1", ratio(f1, seen)},
        {"iou", ratio(iou, seen)},       {"auc", ranked > 0 ? auc / ranked : (double)NAN}};
    memcpy(out, made, sizeof made);
    *count = sizeof made / sizeof made[0];
    return HR_OK;
}

static void get_numbers(const hri_metrics *m, hri_metric *out, size_t *count) {
    double mae = 0, rmse = 0, r2 = 0, n = 0;
    for (int64_t c = 0; c < m->o.outputs; c++) {
        const number_sums *s = &m->numbers[c];
        if (s->count) {
            const double k = (double)s->count, spread = s->sum_squares - s->sum * s->sum / k;
            mae += s->far / k;
            rmse += sqrt(s->squares / k);
            r2 += spread > 0 ? 1 - s->squares / spread : s->squares > 0 ? 0 : 1;
            n++;
        }
    }
    const hri_metric made[] = {{"mae", n > 0 ? mae / n : (double)NAN},
                               {"rmse", n > 0 ? rmse / n : (double)NAN},
                               {"r2", n > 0 ? r2 / n : (double)NAN}};
    memcpy(out, made, sizeof made);
    *count = sizeof made / sizeof made[0];
}

hr_status hri_metrics_get(hri_metrics *m, hri_metric *out, size_t *count) {
    if (m->o.target != HRI_TARGET_NUMBERS) {
        return get_classes(m, out, count);
    }
    get_numbers(m, out, count);
    return HR_OK;
}
