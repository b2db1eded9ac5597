/* fake_quantize_weight: for each output the largest weight, then the nearest multiple of its 127th. */
#include <math.h>

#include "ref.h"

static void run(const ref_call *c) {
    const bool rows = *(const bool *)c->sig->attr;
    const hr_shape *w = &c->sig->in[0].shape;
    const int64_t n = hr_shape_count(w), columns = w->dim[rows ? 0 : w->rank - 1];
    for (int64_t o = 0; o < columns; o++) {
        double most = 0.0;
        for (int64_t i = 0; i < n / columns; i++) {
            most = fmax(most, fabs(c->in[0][rows ? o * (n / columns) + i : i * columns + o]));
        }
        const double scale = (double)(float)(most / 127.0);
        for (int64_t i = 0; i < n / columns; i++) {
            const int64_t at = rows ? o * (n / columns) + i : i * columns + o;
            const double code = nearbyint((double)(float)(c->in[0][at] / scale));
            c->out[0][at] =
                c->in[1][0] > 0.0 ? fmin(fmax(code, -127.0), 127.0) * scale : c->in[0][at];
        }
    }
}

const test_ref test_ref_fake_quantize_weight = {"fake_quantize_weight", run};
