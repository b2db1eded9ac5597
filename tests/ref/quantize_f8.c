/* quantize_f8: the nearest of the 127 sizes, by comparing all of them; of two the even code. */
#include <math.h>

#include "ref.h"

static void run(const ref_call *c) {
    for (int64_t i = 0, n = hr_shape_count(&c->sig->out[0].shape); i < n; i++) {
        const double x = (double)((float)c->in[0][i] / (float)c->in[1][0]);
        int best = 0;
        for (int code = 1; code < 127; code++) {
            const double far = fabs(fabs(x) - ref_f8(code)), was = fabs(fabs(x) - ref_f8(best));
            best = far < was || (far == was && code % 2 == 0) ? code : best;
        }
        c->out[0][i] = best + (signbit(x) ? 128 : 0);
    }
}

const test_ref test_ref_quantize_f8 = {"quantize_f8", run};
