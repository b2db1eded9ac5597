/* normalise, one number after the other; f32 arithmetic is within the tolerance of doubles, small types are stored. */
#include "ref.h"

static void run(const ref_call *c) {
    const hr_type to = c->sig->out[0].type;
    for (int64_t i = 0, n = hr_shape_count(&c->sig->out[0].shape); i < n; i++) {
        const int64_t k = i % c->sig->in[1].shape.dim[0];
        const double y = c->in[0][i] * c->in[1][k] + c->in[2][k];
        float room;
        if (to != HR_TYPE_F32) {
            ref_store(to, &room, 0, (double)(float)y);
        }
        c->out[0][i] = to == HR_TYPE_F32 ? y : ref_load(to, &room, 0);
    }
}

const test_ref test_ref_normalise = {"normalise", run};
