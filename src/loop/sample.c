/* From scores to a token; see sample.h. */
#include "loop/sample.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/random.h"

typedef struct candidate {
    double p; /* not normalised */
    int32_t token;
} candidate;

struct hri_sampler {
    hri_sampling how;
    int64_t vocab;
    candidate *of; /* vocab */
};

hr_status hri_sampler_open(const hri_sampling *how, int64_t vocab, hri_sampler **out) {
    hri_sampler *s = hri_calloc(1, sizeof *s);
    candidate *of = hri_calloc((size_t)vocab, sizeof *of);
    if (!s || !of) {
        hri_free(of);
        hri_free(s);
        return HR_E_NOMEM_HOST;
    }
    *s = (hri_sampler){*how, vocab, of};
    *out = s;
    return HR_OK;
}

void hri_sampler_close(hri_sampler *s) {
    if (s) {
        hri_free(s->of);
        hri_free(s);
    }
}

static int32_t largest(const float *scores, int64_t n) {
    int32_t best = -1;
    for (int64_t i = 0; i < n; i++) {
        if (!isnan(scores[i]) && (best < 0 || scores[i] > scores[best])) {
            best = (int32_t)i;
        }
    }
    return best;
}

/* The likely ones first, equal ones in their order. */
static int by_falling_p(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return x->p != y->p ? (x->p < y->p) - (x->p > y->p)
                        : (x->token > y->token) - (x->token < y->token);
}

/* How many candidates stay, and the sum of theirs. */
static int64_t cut(hri_sampler *s, double *sum) {
    const int few = s->how.top_k > 0 && s->how.top_k < s->vocab;
    const int part = s->how.top_p > 0 && s->how.top_p < 1;
    int64_t n = s->vocab;
    if (few || part) {
        qsort(s->of, (size_t)n, sizeof *s->of, by_falling_p);
        n = few ? s->how.top_k : n;
    }
    double all = 0;
    for (int64_t i = 0; i < n; i++) {
        all += s->of[i].p;
    }
    double kept = 0;
    for (int64_t i = 0; part && i < n; i++) {
        kept += s->of[i].p;
        if (kept >= s->how.top_p * all) {
            n = i + 1;
        }
    }
    *sum = part ? kept : all;
    return n;
}

int32_t hri_sampler_pick(hri_sampler *s, const float *scores, uint64_t index) {
    const int32_t best = largest(scores, s->vocab);
    if (best < 0 || !isfinite(scores[best]) || s->how.temperature <= 0) {
        return best < 0 || !isfinite(scores[best]) ? -1 : best;
    }
    for (int64_t i = 0; i < s->vocab; i++) {
        const double d = ((double)scores[i] - (double)scores[best]) / s->how.temperature;
        s->of[i] = (candidate){isnan(d) ? 0 : exp(d), (int32_t)i};
    }
    double sum;
    const int64_t n = cut(s, &sum);
    hri_random r =
        hri_random_at(s->how.seed + (index >> 32), (uint32_t)index, HRI_RANDOM_NODE_TEXT, 0);
    double left = hri_random_double(&r) * sum;
    int64_t i = 0;
    while (i + 1 < n && left >= s->of[i].p) {
        left -= s->of[i++].p;
    }
    return s->of[i].token;
}
