/* prune_state, one number after the other; of codes, block after block. */
#include "ops/common/sparsity.h"
#include "ref.h"

static void run(const ref_call *c) {
    const hri_sparsity *s = c->sig->attr;
    const int64_t n = hr_shape_count(&c->sig->in[0].shape), step = (int64_t)c->step;
    const int now = step >= s->begin && step <= s->end;
    const int codes = c->sig->in[0].type == HR_TYPE_U8;
    for (int64_t i = 0; i < n; i++) {
        const int64_t weight = codes ? i / 260 * 256 + i % 260 - 4 : i;
        const int scale = codes && i % 260 < 4;
        const int64_t byte = weight / 8;
        const int inside = !scale && byte < hr_shape_count(&c->sig->in[1].shape);
        const int stays = !inside || ((int64_t)c->in[1][byte] >> weight % 8 & 1) || !now;
        c->out[0][i] = stays ? c->in[0][i] : 0.0;
    }
}

const test_ref test_ref_prune_state = {"prune_state", run};
