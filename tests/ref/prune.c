/* prune: weights in the order of their magnitudes, by a plain stable sort. */
#include <math.h>
#include <stdlib.h>

#include "ops/common/sparsity.h"
#include "ref.h"

typedef struct place {
    double size;
    int64_t at;
} place;

static int by_size(const void *x, const void *y) {
    const place *a = x, *b = y;
    return a->size < b->size ? -1 : a->size > b->size ? 1 : a->at < b->at ? -1 : a->at > b->at;
}

static void clear(const ref_call *c, int64_t i) {
    const int64_t bit = (int64_t)1 << i % 8;
    c->out[0][i] = 0.0;
    c->out[1][i / 8] = (double)((int64_t)c->out[1][i / 8] & ~bit);
}

static void run(const ref_call *c) {
    const struct {
        hri_sparsity s;
        int64_t inner;
    } *p = c->sig->attr;
    const int64_t n = hr_shape_count(&c->sig->in[0].shape), step = (int64_t)c->step;
    const int now = step >= p->s.begin && step <= p->s.end &&
                    ((step - p->s.begin) % p->s.every == 0 || step == p->s.end);
    for (int64_t i = 0; i < n; i++) {
        c->out[0][i] = c->in[0][i];
    }
    for (int64_t i = 0; i < (n + 7) / 8; i++) {
        c->out[1][i] = now && n ? 255.0 : c->in[1][i];
    }
    if (!now || !n) {
        return;
    }
    const int64_t group = p->inner ? 4 : n;
    const double far =
        p->s.end > p->s.begin ? (double)(step - p->s.begin) / (double)(p->s.end - p->s.begin) : 1.0;
    const double share = p->s.final + (p->s.initial - p->s.final) * pow(1.0 - far, 3.0);
    const double kept = floor((double)n * (1.0 - share) + 0.5);
    const double *by = c->sig->in_count > 2 ? c->in[2] : c->in[0];
    const int64_t cut = p->inner ? 2 : n - (kept < 1.0 ? 1 : (int64_t)kept);
    place *order = calloc((size_t)group, sizeof *order);
    for (int64_t first = 0; first < n; first++) {
        const int64_t stride = p->inner ? p->inner : 1;
        if (p->inner ? first / stride % 4 : first) {
            continue; /* not the first of its group */
        }
        for (int64_t k = 0; k < group; k++) {
            /* of equal magnitudes the lower index stays among four, the higher one among all */
            order[k] = (place){fabs(by[first + k * stride]), p->inner ? -k : k};
        }
        qsort(order, (size_t)group, sizeof *order, by_size);
        for (int64_t k = 0; k < cut; k++) {
            clear(c, first + (p->inner ? -order[k].at : order[k].at) * stride);
        }
    }
    free(order);
}

const test_ref test_ref_prune = {"prune", run};
