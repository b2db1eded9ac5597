/* range_scale: the average with the last step's numbers, which is never the step of the test. */
#include <math.h>

#include "ref.h"

static void run(const ref_call *c) {
    const struct {
        int64_t begin;
        double keep;
        bool evaluate;
    } *p = c->sig->attr;
    const double *s = c->in[0], last = s[5] < 1.0 ? -1.0 : (s[5] - 1.0) * 65536.0 + s[4];
    const double at = p->evaluate ? last : (double)c->step;
    double low = s[0], high = s[1];
    if (last >= 0.0 && (p->evaluate || last != (double)c->step)) {
        low = p->keep * s[0] + (1.0 - p->keep) * s[2];
        high = p->keep * s[1] + (1.0 - p->keep) * s[3];
    }
    low = fmin(low, 0.0);
    high = fmax(high, 0.0);
    const double scale = at >= (double)p->begin ? (high - low) / 255.0 : 0.0;
    c->out[0][0] = scale;
    c->out[0][1] = scale > 0.0 ? fmin(nearbyint(-low / scale), 255.0) : 0.0;
}

const test_ref test_ref_range_scale = {"range_scale", run};
