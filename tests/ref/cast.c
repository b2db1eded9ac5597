/* cast: doubles are cut and held for whole types, stored and read again for 2-byte ones; for f32 the
 * tolerance covers the rounding, and the gradient needs a smooth function. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    static const double least[] = {
        [HR_TYPE_I32] = -0x1p31, [HR_TYPE_I64] = -0x1p63, [HR_TYPE_I8] = -128};
    static const double most[] = {
        [HR_TYPE_I32] = 0x1p31 - 1, [HR_TYPE_I64] = 0x1p63, [HR_TYPE_U8] = 255, [HR_TYPE_I8] = 127};
    const hr_type to = c->sig->out[0].type;
    for (int64_t i = 0, n = hr_shape_count(&c->sig->out[0].shape); i < n; i++) {
        const double x = c->in[0][i];
        if (to == HR_TYPE_F32) {
            c->out[0][i] = x;
        } else if (hr_type_is_real(to)) {
            float room;
            ref_store(to, &room, 0, x);
            c->out[0][i] = ref_load(to, &room, 0);
        } else {
            const double low = to == HR_TYPE_U8 ? 0.0 : least[to];
            c->out[0][i] = isnan(x) ? 0.0 : fmin(fmax(trunc(x), low), most[to]);
        }
    }
}

const test_ref test_ref_cast = {"cast", run};
