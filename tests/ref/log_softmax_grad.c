/* log_softmax_grad, by its definition. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const int64_t given = *(const int64_t *)c->sig->attr;
    const hr_shape *s = &c->sig->in[0].shape;
    const int64_t axis = given < 0 ? given + s->rank : given;
    int64_t inner = 1;
    for (int64_t d = axis + 1; d < s->rank; d++) {
        inner *= s->dim[d];
    }
    for (int64_t i = 0; i < hr_shape_count(s); i++) {
        const int64_t first = i / (inner * s->dim[axis]) * inner * s->dim[axis] + i % inner;
        double sum = 0.0;
        for (int64_t k = 0; k < s->dim[axis]; k++) {
            const int64_t at = first + k * inner;
            sum += c->in[0][at];
        }
        c->out[0][i] = c->in[0][i] - exp(c->in[1][i]) * sum;
    }
}

const test_ref test_ref_log_softmax_grad = {"log_softmax_grad", run};
