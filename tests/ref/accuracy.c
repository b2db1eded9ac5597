/* accuracy: takes the best class away, again and again. */
#include "ref.h"

#include <stdlib.h>

static void run(const ref_call *c) {
    const int64_t top = *(const int64_t *)c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape;
    const int64_t width = x->dim[x->rank - 1], rows = hr_shape_count(&c->sig->in[1].shape);
    double right = 0.0, counted = 0.0;
    char *gone = calloc((size_t)width + 1, 1);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < width; k++) {
            gone[k] = 0;
        }
        counted += c->in[1][i] >= 0;
        for (int64_t place = 0; place < top && place < width; place++) {
            int64_t best = -1;
            for (int64_t k = 0; k < width; k++) {
                if (!gone[k] &&
                    (best < 0 || c->in[0][i * width + k] > c->in[0][i * width + best])) {
                    best = k;
                }
            }
            gone[best] = 1;
            right += (double)best == c->in[1][i];
        }
    }
    free(gone);
    c->out[0][0] = counted > 0 ? right / counted : 0.0;
}

const test_ref test_ref_accuracy = {"accuracy", run};
