/* range_move: part after part. */
#include <math.h>

#include "ref.h"

static void take(double *s, const double *seen, double step, double keep) {
    const double last = s[5] < 1.0 ? -1.0 : (s[5] - 1.0) * 65536.0 + s[4];
    const double low = fmin(seen[0], 0.0), high = fmax(seen[1], 0.0);
    if (last == step) {
        s[2] = fmin(s[2], low);
        s[3] = fmax(s[3], high);
        return;
    }
    if (last >= 0.0) {
        s[0] = keep * s[0] + (1.0 - keep) * s[2];
        s[1] = keep * s[1] + (1.0 - keep) * s[3];
    }
    s[0] = fmin(s[0], 0.0);
    s[1] = fmax(s[1], 0.0);
    s[2] = low;
    s[3] = high;
    s[4] = fmod(step, 65536.0);
    s[5] = floor(step / 65536.0) + 1.0;
}

static void run(const ref_call *c) {
    const struct {
        int64_t until;
        double keep;
    } *p = c->sig->attr;
    for (int i = 0; i < 6; i++) {
        c->out[0][i] = c->in[0][i];
    }
    for (int64_t i = 0; i < hr_shape_count(&c->sig->in[1].shape) / 2; i++) {
        if ((int64_t)c->step < p->until) {
            take(c->out[0], c->in[1] + 2 * i, (double)c->step, p->keep);
        }
    }
}

const test_ref test_ref_range_move = {"range_move", run};
