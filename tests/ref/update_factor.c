/* update_factor as its formula says. */
#include "ref.h"

#include <math.h>

static void run(const ref_call *c) {
    const double clip = *(const double *)c->sig->attr;
    const double scale = c->sig->in_count > 1 ? c->in[1][0] : 1.0;
    const double norm = sqrt(c->in[0][0]) / scale;
    double factor = 1.0;
    if (clip > 0.0 && clip / (norm + 1e-6) < 1.0) {
        factor = clip / (norm + 1e-6);
    }
    c->out[0][0] = isfinite(norm) ? factor / scale : 0.0;
    c->out[1][0] = norm;
}

const test_ref test_ref_update_factor = {"update_factor", run};
