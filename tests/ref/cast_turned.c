/* cast_turned: every element is put where its turned position says, stored and read again where the type has 2 bytes. */
#include "ref.h"

static void run(const ref_call *c) {
    const hr_type to = c->sig->out[0].type;
    const int64_t rows = c->sig->in[0].shape.dim[0], columns = c->sig->in[0].shape.dim[1];
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            const double x = c->in[0][i * columns + j];
            float room;
            if (to != HR_TYPE_F32) {
                ref_store(to, &room, 0, x);
            }
            c->out[0][j * rows + i] = to == HR_TYPE_F32 ? x : ref_load(to, &room, 0);
        }
    }
}

const test_ref test_ref_cast_turned = {"cast_turned", run};
