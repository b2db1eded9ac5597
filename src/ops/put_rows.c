/* put_rows(c, x, ids): c <- c with the rows x in the places that their numbers say: a cache of keys and values is filled so.
 *
 *   c (N, S, ...)   x (N, T, ...)   ids (T) i32 or i64,   c[n, ids[t], ...] = x[n, t, ...]
 *
 * In c's own memory; one type, and bytes are moved and nothing else.  A number below 0 leaves its row out; of rows with the same
 * number the last one counts.  From S on it is HR_E_RANGE; on a GPU it is left out, too. */
#include "graph/op.h"
#include "ops/common/launch.h"
#include "ops/common/rows.h"

#include <string.h>

/* c is (outer, rows, width), x (outer, picks, width). */
typedef struct layout {
    int64_t outer, rows, picks, width;
} layout;

static layout layout_of(const hri_sig *s) {
    const hr_shape *c = &s->in[0].shape;
    layout l = {c->dim[0], c->dim[1], s->in[1].shape.dim[1], 1};
    for (int d = 2; d < c->rank; d++) {
        l.width *= c->dim[d];
    }
    return l;
}

static hr_status put_rows_infer(hri_infer *c) {
    const hr_shape *to = &c->in[0].shape, *x = &c->in[1].shape, *ids = &c->in[2].shape;
    hr_shape like = *to;
    if (to->rank < 2 || x->rank != to->rank || c->in[0].type != c->in[1].type) {
        return hri_infer_fail(c,
                              "rows must have the type and the rank, 2 or more, of what they are "
                              "put into");
    }
    like.dim[1] = x->dim[1];
    if (!hr_shape_same(&like, x)) {
        return hri_infer_fail(c, "rows must have the shape of what they are put into, but for "
                                 "dimension 1");
    }
    if ((c->in[2].type != HR_TYPE_I32 && c->in[2].type != HR_TYPE_I64) || ids->rank != 1 ||
        ids->dim[0] != x->dim[1]) {
        return hri_infer_fail(c, "there must be one number, i32 or i64, for each row");
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

static hri_samples put_rows_samples(const hri_sig *s, uint32_t batched) {
    (void)s;
    return batched & 4u ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

/* What is not written stays: only the rows count. */
static void put_rows_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 0.0;
    cost->bytes = 2.0 * (double)hr_meta_bytes(&s->in[1]) + (double)hr_meta_bytes(&s->in[2]);
}

static hr_status put_rows_host(const hri_call *c) {
    const layout l = layout_of(c->sig);
    const uint64_t bytes = (uint64_t)l.width * hr_type_bytes(c->sig->in[0].type);
    for (int64_t t = 0; t < l.picks; t++) {
        if (hri_row_id(c->sig->in[2].type, c->in[2], t) >= l.rows) {
            return HR_E_RANGE;
        }
    }
    for (int64_t i = 0; bytes && i < l.outer * l.picks; i++) { /* few rows: not worth a thread */
        const int64_t id = hri_row_id(c->sig->in[2].type, c->in[2], i % l.picks);
        if (id >= 0) {
            memcpy((char *)c->out[0] + (uint64_t)(i / l.picks * l.rows + id) * bytes,
                   (const char *)c->in[1] + (uint64_t)i * bytes, bytes);
        }
    }
    return HR_OK;
}

HRI_CU(put_rows);

static hr_status put_rows_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256 };
    const layout l = layout_of(c->sig);
    const hri_defines d = hri_launch_defines("-DHR_T=%s", hri_launch_type(c->sig->in[0].type));
    hr_addr to = c->out[0], x = c->in[1], ids = c->in[2];
    uint32_t wide = c->sig->in[2].type == HR_TYPE_I64;
    int64_t rows = l.rows, picks = l.picks, width = l.width, count = l.outer * picks * width;
    return count ? hri_gpu_launch(
                       c->gpu, &hri_cu_put_rows, d.text, "put_rows",
                       &(hri_gpu_grid){.x = hri_launch_blocks(count, THREADS), .threads = THREADS},
                       HRI_GPU_ARGS(&to, &x, &ids, &wide, &count, &rows, &picks, &width))
                 : HR_OK;
}

static const hri_case put_rows_cases[] = {
    {"a cache", "f32[1,10,3,5] f32[1,4,3,5] i32[4]", .ids = 10},
    {"samples", "f32[3,33,7] f32[3,5,7] i64[5]", .ids = 33, .batched = 3},
    {"the same row", "f32[2,2,9] f32[2,7,9] i32[7]", .ids = 2},
    {"numbers", "f32[2,10] f32[2,3] i32[3]"},
    {"none", "f32[2,10,4] f32[2,0,4] i32[0]"},
    {"bf16", "bf16[1,10,12] bf16[1,9,12] i32[9]"},
    {"f16", "f16[1,20,6] f16[1,3,6] i64[3]", .ids = 20},
    {"another type", "f32[1,10,4] bf16[1,2,4] i32[2]", .flags = HRI_CASE_BAD},
    {"another width", "f32[1,10,4] f32[1,2,5] i32[2]", .flags = HRI_CASE_BAD},
    {"too few numbers", "f32[1,10,4] f32[1,2,4] i32[1]", .flags = HRI_CASE_BAD},
    {"real numbers", "f32[1,10,4] f32[1,2,4] f32[2]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_put_rows = {
    .name = "put_rows",
    .formula = "c[n, ids[t]] = x[n, t]",
    .in_min = 3,
    .in_max = 3,
    .out_count = 1,
    .infer = put_rows_infer,
    .updates = {1},
    .samples = put_rows_samples,
    .cost = put_rows_cost,
    .host = {.run = put_rows_host},
    .cases = HRI_CASES(put_rows_cases),
};

const hri_kernel hri_kernel_cuda_put_rows = {.launch = put_rows_cuda};
