/* top_k: an element's place is the number of elements that come before it. */
#include "ref.h"

static void run(const ref_call *c) {
    const int64_t k = *(const int64_t *)c->sig->attr;
    const hr_shape *s = &c->sig->in[0].shape;
    const int64_t width = s->dim[s->rank - 1];
    for (int64_t i = 0; i < hr_shape_count(s); i++) {
        const int64_t row = i / width;
        int64_t place = 0;
        for (int64_t j = row * width; j < (row + 1) * width; j++) {
            place += c->in[0][j] > c->in[0][i] || (c->in[0][j] == c->in[0][i] && j < i);
        }
        if (place < k) {
            c->out[0][row * k + place] = c->in[0][i];
            c->out[1][row * k + place] = (double)(i % width);
        }
    }
}

const test_ref test_ref_top_k = {"top_k", run};
