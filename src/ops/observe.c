/* observe(x, histogram): counts the numbers of x in a histogram, in its memory; common/histogram.h says what is kept.
 *
 *   x f32 (...)   histogram i64 (HRI_HISTOGRAM_WORDS)
 *
 * For calibration: as much memory for a million samples as for one.  Whole numbers are added, so that neither threads nor
 * the order of batches change a bit.  Two passes: the range, then the counts, by worker. */
#include "graph/op.h"
#include "ops/common/histogram.h"

enum { CHUNK = 32768, BINS = 2 * HRI_HISTOGRAM_SIDE };

static hr_status observe_infer(hri_infer *c) {
    if (c->in[0].type != HR_TYPE_F32 || c->in[1].type != HR_TYPE_I64 || c->in[1].shape.rank != 1 ||
        c->in[1].shape.dim[0] != HRI_HISTOGRAM_WORDS) {
        return hri_infer_fail(c, "the inputs must be f32 and an i64 histogram of %d numbers",
                              HRI_HISTOGRAM_WORDS);
    }
    c->out[0] = c->in[1];
    return HR_OK;
}

typedef struct seen {
    float least, greatest;
    int64_t some; /* 1: they are of numbers */
} seen;

typedef struct task {
    const float *x;
    seen *seen;      /* by worker */
    uint32_t *count; /* by worker, BINS each */
    float by;        /* SIDE / 2^e */
} task;

static void find_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    seen s = t->seen[worker];
    for (uint64_t i = begin; i < end; i++) {
        const float x = t->x[i];
        if (isfinite(x)) {
            s.least = s.some && s.least < x ? s.least : x;
            s.greatest = s.some && s.greatest > x ? s.greatest : x;
            s.some = 1;
        }
    }
    t->seen[worker] = s;
}

static void count_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    uint32_t *count = t->count + (uint64_t)worker * BINS;
    for (uint64_t i = begin; i < end; i++) {
        const float x = t->x[i];
        if (isfinite(x)) {
            count[(int)floorf(x * t->by) + HRI_HISTOGRAM_SIDE]++;
        }
    }
}

static uint64_t observe_workspace(const hri_sig *s, uint32_t threads) {
    (void)s;
    return threads * (sizeof(seen) + BINS * sizeof(uint32_t));
}

/* -0 is 0, so that the order of numbers does not show. */
static void widen(int64_t *h, const seen *s) {
    const int64_t *is = h;
    const float least = s->least + 0.0f, greatest = s->greatest + 0.0f;
    const float low = hri_histogram_real(is[HRI_HISTOGRAM_LEAST]);
    const float high = hri_histogram_real(is[HRI_HISTOGRAM_GREATEST]);
    if (!(is[HRI_HISTOGRAM_LEAST] >> 32) || least < low) {
        h[HRI_HISTOGRAM_LEAST] = hri_histogram_word(least);
    }
    if (!(is[HRI_HISTOGRAM_GREATEST] >> 32) || greatest > high) {
        h[HRI_HISTOGRAM_GREATEST] = hri_histogram_word(greatest);
    }
    hri_histogram_widen(h, hri_histogram_exponent(fmaxf(fabsf(least), fabsf(greatest))));
}

static hr_status observe_host(const hri_call *c) {
    const uint32_t threads = hri_threads_count(c->threads);
    const uint64_t n = (uint64_t)hr_shape_count(&c->sig->in[0].shape);
    int64_t *h = c->out[0];
    task t = {.x = c->in[0], .seen = c->workspace};
    t.count = (uint32_t *)(void *)(t.seen + threads);
    memset(c->workspace, 0, observe_workspace(c->sig, threads));
    hri_threads_range(c->threads, n, CHUNK, find_range, &t);
    seen all = {0};
    for (uint32_t w = 0; w < threads; w++) {
        const seen *s = &t.seen[w];
        if (s->some) {
            all.least = all.some && all.least < s->least ? all.least : s->least;
            all.greatest = all.some && all.greatest > s->greatest ? all.greatest : s->greatest;
            all.some = 1;
        }
    }
    if (!all.some) {
        return HR_OK;
    }
    widen(h, &all);
    t.by = ldexpf((float)HRI_HISTOGRAM_SIDE, -(int)(h[HRI_HISTOGRAM_EXPONENT] - 1024));
    for (uint64_t at = 0; at < n; at += UINT64_C(1) << 30) { /* counts of a round fit 32 bits */
        task part = t;
        part.x = t.x + at;
        const uint64_t left = n - at < UINT64_C(1) << 30 ? n - at : UINT64_C(1) << 30;
        hri_threads_range(c->threads, left, CHUNK, count_range, &part);
        for (uint32_t w = 0; w < threads; w++) {
            for (int i = 0; i < BINS; i++) {
                h[HRI_HISTOGRAM_BINS + i] += t.count[(uint64_t)w * BINS + (uint64_t)i];
            }
        }
        memset(t.count, 0, threads * BINS * sizeof *t.count);
    }
    return HR_OK;
}

static hri_samples observe_samples(const hri_sig *s, uint32_t batched) {
    (void)s;
    return batched & 1 ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

static const hri_case observe_cases[] = {
    {"some", "f32[7,33] i64[4104]"},
    {"many", "f32[3,40001] i64[4104]", .low = -9, .high = 100},
    {"small", "f32[99] i64[4104]", .low = 1e-9, .high = 2e-9},
    {"tiny", "f32[99] i64[4104]", .low = -1e-38, .high = 2e-38},
    {"nothing", "f32[0,3] i64[4104]"},
    {"too few bins", "f32[7] i64[2048]", .flags = HRI_CASE_BAD},
    {"small type", "bf16[7] i64[4104]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_observe = {
    .name = "observe",
    .formula = "histogram += counts of x",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .infer = observe_infer,
    .updates = {2},
    .host_only = 1,
    .samples = observe_samples,
    .host = {.run = observe_host, .workspace = observe_workspace},
    .cases = HRI_CASES(observe_cases),
};
