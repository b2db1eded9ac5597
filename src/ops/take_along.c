/* take_along(x, index; axis): elements of x by their numbers along one axis.
 *
 *   x (A, C, B)   index (A, K, B) of i32 or i64   y (A, K, B),   y[a, k, b] = x[a, index[a, k, b], b]
 *
 * A and B stand for any dimensions.  Any type of x.  An index below 0 or from C on is HR_E_RANGE; on a GPU, which cannot say
 * so, its element is NaN (-1 in whole numbers).  The gradient keeps the index alone: put_along.  gather is the op for an
 * index that is the same everywhere. */
#include "ops/common/along.h"
#include "ops/common/launch.h"
#include "ops/common/rows.h"

#include <string.h>

static const hri_field take_along_fields[] = {
    {"axis", "the axis; below 0: from the end", offsetof(hri_along_attr, axis), HRI_FIELD_INT, "-1",
     .min = -HR_RANK_MAX, .max = HR_RANK_MAX},
    {0},
};

static hr_status take_along_infer(hri_infer *c) {
    const hr_status status = hri_along_infer(c, 0);
    if (status == HR_OK) {
        c->out[0] = (hr_meta){c->in[0].type, c->in[1].shape};
    }
    return status;
}

static hri_along along_of(const hri_sig *s) {
    const hri_along_attr *p = s->attr;
    return hri_along_of(p, &s->in[1].shape,
                        s->in[0].shape.dim[p->axis < 0 ? p->axis + s->in[0].shape.rank : p->axis]);
}

static void take_along_grad(hri_grad *c) {
    if (HRI_NEEDS(c, 0)) {
        hri_along_attr attr = *(const hri_along_attr *)c->sig->attr;
        attr.size = along_of(c->sig).size;
        c->din[0] = HRI_NODE(c->g, "put_along", &attr, c->dout[0], c->in[1]);
    }
}

static void take_along_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 0.0;
    cost->bytes = 2.0 * (double)hr_meta_bytes(&s->out[0]) + (double)hr_meta_bytes(&s->in[1]);
}

static void take_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const hri_along a = along_of(c->sig);
    const size_t bytes = hr_type_bytes(c->sig->in[0].type);
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        const int64_t id = hri_row_id(c->sig->in[1].type, c->in[1], i);
        const int64_t from = (i / (a.picks * a.inner) * a.size + id) * a.inner + i % a.inner;
        memcpy((char *)c->out[0] + (size_t)i * bytes, (const char *)c->in[0] + (size_t)from * bytes,
               bytes);
    }
}

static hr_status take_along_host(const hri_call *c) {
    const int64_t count = hr_shape_count(&c->sig->out[0].shape), size = along_of(c->sig).size;
    hri_call call = *c;
    for (int64_t i = 0; i < count; i++) {
        const int64_t id = hri_row_id(c->sig->in[1].type, c->in[1], i);
        if (id < 0 || id >= size) {
            return HR_E_RANGE;
        }
    }
    hri_threads_range(c->threads, (uint64_t)count, 4096, take_range, &call);
    return HR_OK;
}

HRI_CU(along);

static hr_status take_along_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256 };
    const hr_type type = c->sig->in[0].type;
    const hri_defines d =
        hri_launch_defines("-DHR_T=%s -DHR_REAL=%d", hri_launch_type(type), hr_type_is_real(type));
    hri_along a = along_of(c->sig);
    hr_addr x = c->in[0], index = c->in[1], y = c->out[0];
    uint32_t wide = c->sig->in[1].type == HR_TYPE_I64;
    int64_t count = hr_shape_count(&c->sig->out[0].shape);
    return count ? hri_gpu_launch(
                       c->gpu, &hri_cu_along, d.text, "take_along",
                       &(hri_gpu_grid){.x = hri_launch_blocks(count, THREADS), .threads = THREADS},
                       HRI_GPU_ARGS(&x, &index, &wide, &y, &count, &a))
                 : HR_OK;
}

static const hri_case take_along_cases[] = {
    {"columns", "f32[7,33] i32[7,5]", .ids = 33, .batched = 3},
    {"rows", "f32[10,7] i64[4,7]", "axis=0"},
    {"the middle", "f32[2,10,3] i32[2,12,3]", "axis=1"},
    {"one number", "f32[10] i32[1]"},
    {"none", "f32[3,10] i32[3,0]"},
    {"bf16", "bf16[7,10] i32[7,5]"},
    {"f16", "f16[7,10,3] i64[7,5,3]", "axis=-2"},
    {"integers", "i32[3,10] i32[3,4]", .negative = 0},
    {"another shape", "f32[7,10] i32[6,5]", .flags = HRI_CASE_BAD},
    {"no such axis", "f32[7,10] i32[7,5]", "axis=2", .flags = HRI_CASE_BAD},
    {"real index", "f32[7,10] f32[7,5]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_take_along = {
    .name = "take_along",
    .formula = "y[a, k, b] = x[a, index[a, k, b], b]",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = take_along_fields,
    .attr_bytes = sizeof(hri_along_attr),
    .infer = take_along_infer,
    .grad = take_along_grad,
    .keeps = {{.in = 2}},
    .samples = hri_along_samples,
    .cost = take_along_cost,
    .host = {.run = take_along_host},
    .cases = HRI_CASES(take_along_cases),
};

const hri_kernel hri_kernel_cuda_take_along = {.launch = take_along_cuda};
