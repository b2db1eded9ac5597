/* gather(table, ids; axis): rows of a table by their numbers: embedding; with an axis, an index select along it.
 *
 *   table (V, ...)      ids (...) of i32 or i64   y (ids' shape, ...)
 *   table (A, V, B)     ids (...)                 y (A, ids' shape, B)     A: the dimensions before the axis
 *
 * Any type of table.  An id below 0 or from V on is HR_E_RANGE; on a GPU, which cannot say so, its row is NaN (-1 in whole
 * numbers).  The gradient keeps the ids alone; gather_grad adds up
 * the rows of dy in the order of the ids. */
#include "ops/common/gather.h"
#include "ops/common/launch.h"
#include "ops/common/rows.h"

#include <string.h>

static const hri_field gather_fields[] = {
    {"axis", "the axis that the ids count along; below 0: from the end",
     offsetof(hri_gather_attr, axis), HRI_FIELD_INT, "0", .min = -HR_RANK_MAX, .max = HR_RANK_MAX},
    {0},
};

static hr_status gather_infer(hri_infer *c) {
    const hr_shape *table = &c->in[0].shape, *ids = &c->in[1].shape;
    const int axis = hri_gather_axis(c->attr, table->rank);
    if (c->in[1].type != HR_TYPE_I32 && c->in[1].type != HR_TYPE_I64) {
        return hri_infer_fail(c, "the ids must be i32 or i64");
    }
    if (table->rank < 1 || table->rank - 1 + ids->rank > HR_RANK_MAX) {
        return hri_infer_fail(c, "a table has rows, and the result at most %d dimensions",
                              HR_RANK_MAX);
    }
    if (axis < 0 || axis >= table->rank) {
        return hri_infer_fail(c, "the axis is outside the table's %d dimensions", table->rank);
    }
    hr_shape *out = &c->out[0].shape;
    c->out[0] = (hr_meta){.type = c->in[0].type};
    for (int d = 0; d < axis; d++) {
        out->dim[out->rank++] = table->dim[d];
    }
    for (int d = 0; d < ids->rank; d++) {
        out->dim[out->rank++] = ids->dim[d];
    }
    for (int d = axis + 1; d < table->rank; d++) {
        out->dim[out->rank++] = table->dim[d];
    }
    return HR_OK;
}

static void gather_grad(hri_grad *c) {
    if (HRI_NEEDS(c, 0)) {
        const hri_gather s = hri_gather_of(c->sig);
        const hri_gather_attr attr = {.axis = s.axis, .rows = s.rows};
        c->din[0] = HRI_NODE(c->g, "gather_grad", &attr, c->dout[0], c->in[1]);
    }
}

static hri_samples gather_samples(const hri_sig *s, uint32_t batched) {
    /* Along the first axis samples are those of the ids, else those of the table. */
    return batched & (hri_gather_of(s).axis ? 2u : 1u) ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

/* Of the table only the rows that are read count. */
static int64_t gather_ids(const hri_sig *s) {
    return hri_gather_of(s).rows;
}

static void gather_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 0.0;
    cost->bytes = 2.0 * (double)hr_meta_bytes(&s->out[0]) + (double)hr_meta_bytes(&s->in[1]);
}

static void gather_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const hri_gather s = hri_gather_of(c->sig);
    const uint64_t bytes = (uint64_t)s.width * hr_type_bytes(c->sig->in[0].type);
    (void)worker;
    for (uint64_t i = begin; i < end; i++) {
        const int64_t outer = (int64_t)i / s.picks, place = (int64_t)i % s.picks;
        const int64_t id = hri_row_id(c->sig->in[1].type, c->in[1], place);
        memcpy((char *)c->out[0] + i * bytes,
               (const char *)c->in[0] + (uint64_t)(outer * s.rows + id) * bytes, bytes);
    }
}

static hr_status gather_host(const hri_call *c) {
    const hri_gather s = hri_gather_of(c->sig);
    hri_call call = *c;
    for (int64_t i = 0; i < s.picks; i++) {
        const int64_t id = hri_row_id(c->sig->in[1].type, c->in[1], i);
        if (id < 0 || id >= s.rows) {
            return HR_E_RANGE;
        }
    }
    if (hr_shape_count(&c->sig->out[0].shape)) {
        hri_threads_range(c->threads, (uint64_t)(s.outer * s.picks), hri_row_chunk(s.width),
                          gather_rows, &call);
    }
    return HR_OK;
}

HRI_CU(gather);

static hr_status gather_cuda(const hri_gpu_call *c) {
    static const char *const elements[] = {"hr_u8", "hr_u16", "hr_u32", "hr_u64", "hr_u128"};
    enum { THREADS = 256, EACH = 4 };
    hr_addr table = c->in[0], ids = c->in[1], y = c->out[0];
    uint32_t wide = c->sig->in[1].type == HR_TYPE_I64;
    const hri_gather s = hri_gather_of(c->sig);
    int64_t rows = s.rows, count = hr_shape_count(&c->sig->out[0].shape), width = s.width;
    int64_t picks = s.outer > 1 ? s.picks : 0;
    if (count == 0) {
        return HR_OK;
    }
    unsigned bytes = (unsigned)hr_type_bytes(c->sig->in[0].type);
    while (bytes < 16 && width % 2 == 0 && (table | y) % (2 * bytes) == 0) {
        bytes *= 2;
        width /= 2;
        count /= 2;
    }
    const hri_defines d =
        hri_launch_defines("-DHR_E=%s -DHR_INDEX=%s", elements[__builtin_ctz(bytes)],
                           count < INT32_MAX ? "hr_u32" : "hr_u64");
    return hri_gpu_launch(
        c->gpu, &hri_cu_gather, d.text, "gather",
        &(hri_gpu_grid){.x = hri_launch_blocks(count, THREADS * EACH), .threads = THREADS},
        HRI_GPU_ARGS(&table, &ids, &wide, &y, &count, &width, &rows, &picks));
}

static const hri_case gather_cases[] = {
    {"embedding", "f32[33,7] i32[2,5]", .ids = 33, .batched = 2},
    {"long ids", "f32[10,7] i64[9]"},
    {"one id", "f32[10,7] i32[]"},
    {"numbers", "f32[10] i32[9]"},
    {"blocks", "f32[10,2,3] i32[4]"},
    {"no ids", "f32[10,7] i32[0]"},
    {"wide", "f32[10,9001] i32[5]"},
    {"bf16", "bf16[10,7] i32[9]"},
    {"f16", "f16[10,7] i32[9]"},
    {"bytes", "u8[10,7] i32[9]"},
    {"wide, bf16", "bf16[300,64] i64[70]", .ids = 300},
    {"wide, f16", "f16[30,20] i32[70]", .ids = 30},
    {"columns", "f32[5,10] i32[9]", "axis=-1"},
    {"the middle", "f32[3,10,4] i64[2,4]", "axis=1", .batched = 1},
    {"the middle, bf16", "bf16[3,10,8] i32[4]", "axis=1"},
    {"real ids", "f32[10,7] f32[9]", .flags = HRI_CASE_BAD},
    {"no such axis", "f32[10,7] i32[9]", "axis=2", .flags = HRI_CASE_BAD},
    {"no table", "f32[] i32[9]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_gather = {
    .name = "gather",
    .formula = "y[i] = table[ids[i]]",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = gather_fields,
    .attr_bytes = sizeof(hri_gather_attr),
    .infer = gather_infer,
    .grad = gather_grad,
    .keeps = {{.in = 2}},
    .samples = gather_samples,
    .cost = gather_cost,
    .ids = gather_ids,
    .host = {.run = gather_host},
    .cases = HRI_CASES(gather_cases),
};

const hri_kernel hri_kernel_cuda_gather = {.launch = gather_cuda};
