/* fold_parts, one number after the other. */
#include "ref.h"

typedef struct attributes {
    double momentum;
    bool velocity, spare;
} attributes;

static void run(const ref_call *c) {
    const attributes *p = c->sig->attr;
    const int64_t n = hr_shape_count(&c->sig->in[0].shape),
                  rows = hr_shape_count(&c->sig->in[1].shape);
    for (int64_t i = 0; i < n; i++) {
        double s = c->in[0][i];
        for (int64_t r = 0; r < rows; r++) {
            for (uint32_t k = 3; k < c->sig->in_count; k++) {
                const double first = k == 3 ? c->in[2][r] : 0.0;
                if (p->spare && r + 1 == rows && k + 1 == c->sig->in_count) {
                    continue;
                }
                s = p->velocity    ? (first != 0.0 ? p->momentum * s : s)
                    : first == 1.0 ? 0.0
                                   : (1.0 - first) * s;
                s += c->in[1][r] * c->in[k][r * n + i];
            }
        }
        c->out[0][i] = s;
    }
}

const test_ref test_ref_fold_parts = {"fold_parts", run};
