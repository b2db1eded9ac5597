/* max_grad(dy, index; axes, to): dy at the position that won, 0 elsewhere: the gradient of max.  `to` is the shape of
 * max's input.  An index outside of it is HR_E_RANGE. */
#include "graph/dims.h"
#include "ops/common/reduce_cuda.h"

#include <stdatomic.h>
#include <string.h>

typedef struct max_grad_attr {
    hri_dims axes, to;
} max_grad_attr;

static const hri_field max_grad_fields[] = {
    {"axes", "the dimensions that were reduced; none: all", offsetof(max_grad_attr, axes),
     HRI_FIELD_DIMS, NULL},
    {"to", "the shape of the result", offsetof(max_grad_attr, to), HRI_FIELD_DIMS, NULL},
    {0},
};

static hr_status max_grad_infer(hri_infer *c) {
    const max_grad_attr *p = c->attr;
    const hr_shape to = hri_dims_shape(&p->to);
    uint32_t axes;
    int64_t kept = 1;
    c->out[0] = (hr_meta){c->in[0].type, to};
    if (!hr_type_is_real(c->in[0].type) || c->in[1].type != HR_TYPE_I32 ||
        !hr_shape_same(&c->in[0].shape, &c->in[1].shape)) {
        return hri_infer_fail(
            c, "the gradient must be floating point, the index i32, both of the same shape");
    }
    if (hri_dims_axes(&p->axes, to.rank, &axes) || hr_meta_check(&c->out[0], NULL) != HR_OK) {
        return hri_infer_fail(c, "an axis or a dimension of the result is invalid");
    }
    for (int d = 0; d < to.rank; d++) {
        kept *= axes >> d & 1u ? 1 : to.dim[d];
    }
    if (kept != hr_shape_count(&c->in[0].shape)) {
        return hri_infer_fail(c, "%lld results do not fit the shape", (long long)kept);
    }
    return HR_OK;
}

static hri_samples max_grad_samples(const hri_sig *s, uint32_t batched) {
    const max_grad_attr *p = s->attr;
    uint32_t axes = 0;
    (void)hri_dims_axes(&p->axes, (int)p->to.count, &axes);
    return batched && axes & 1u ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

typedef struct task {
    const hri_call *c;
    uint32_t axes;
    size_t bytes;
    atomic_int outside;
} task;

static void clear(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    (void)worker;
    memset((char *)t->c->out[0] + begin * t->bytes, 0, (end - begin) * t->bytes);
}

/* Each result goes to a place of its own. */
static void scatter(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    task *t = arg;
    const hr_shape *to = &t->c->sig->out[0].shape;
    (void)worker;
    for (uint64_t i = begin; i < end; i++) {
        int64_t kept = (int64_t)i, index = ((const int32_t *)t->c->in[1])[i], at = 0, stride = 1;
        for (int d = to->rank - 1; d >= 0; d--) {
            int64_t *from = t->axes >> d & 1u ? &index : &kept;
            at += *from % to->dim[d] * stride;
            *from /= to->dim[d];
            stride *= to->dim[d];
        }
        if (((const int32_t *)t->c->in[1])[i] < 0 || index > 0) {
            atomic_store_explicit(&t->outside, 1, memory_order_relaxed);
            continue;
        }
        memcpy((char *)t->c->out[0] + (size_t)at * t->bytes,
               (const char *)t->c->in[0] + i * t->bytes, t->bytes);
    }
}

static hr_status max_grad_host(const hri_call *c) {
    const max_grad_attr *p = c->sig->attr;
    task t = {.c = c, .bytes = hr_type_bytes(c->sig->out[0].type)};
    (void)hri_dims_axes(&p->axes, (int)p->to.count, &t.axes);
    if (hr_shape_count(&c->sig->out[0].shape) == 0) {
        return HR_OK;
    }
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->out[0].shape), 65536, clear,
                      &t);
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->in[0].shape), 4096, scatter,
                      &t);
    return t.outside ? HR_E_RANGE : HR_OK;
}

HRI_CU(reduce);

/* Zeros, then each result to its place; one that is outside goes nowhere. */
static hr_status max_grad_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256 };
    const max_grad_attr *p = c->sig->attr;
    hri_reduction r;
    uint32_t axes = 0;
    hr_addr dy = c->in[0], index = c->in[1], dx = c->out[0];
    (void)hri_dims_axes(&p->axes, (int)p->to.count, &axes);
    hri_reduction_init(&r, &c->sig->out[0].shape, axes);
    hri_pattern pattern = hri_pattern_of(&r);
    int64_t results = r.results;
    if (hr_shape_count(&c->sig->out[0].shape) == 0) {
        return HR_OK;
    }
    const hr_status status = hri_gpu_fill(c->gpu, dx, 0, hr_meta_bytes(&c->sig->out[0]));
    if (status != HR_OK) {
        return status;
    }
    return hri_gpu_launch(
        c->gpu, &hri_cu_reduce, hri_launch_t(c->sig->in[0].type, 1).text, "max_spread",
        &(hri_gpu_grid){.x = hri_launch_blocks(results, THREADS), .threads = THREADS},
        HRI_GPU_ARGS(&dy, &index, &dx, &results, &pattern));
}

static const hri_case max_grad_cases[] = {
    {"all", "f32[] i32[]", "to=7x33"},
    {"last", "f32[7] i32[7]", "axes=-1,to=7x33"},
    {"first", "f32[33] i32[33]", "axes=0,to=17x33"},
    {"both ends", "f32[3] i32[3]", "axes=0x2,to=5x3x4"},
    {"kept", "f32[2,1,1] i32[2,1,1]", "axes=1x2,to=2x5x4"},
    {"no results", "f32[0] i32[0]", "axes=1,to=0x3"},
    {"bf16", "bf16[7] i32[7]", "axes=0,to=10x7"},
    {"f16", "f16[7] i32[7]", "axes=1,to=7x10"},
    {"alternating, bf16", "bf16[2,4] i32[2,4]", "axes=1x3,to=2x3x4x5"},
    {"does not fit", "f32[7] i32[7]", "axes=1,to=6x10", .flags = HRI_CASE_BAD},
    {"index of another type", "f32[7] i64[7]", "axes=1,to=7x10", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_max_grad = {
    .name = "max_grad",
    .formula = "dx[index] = dy, 0 elsewhere",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = max_grad_fields,
    .attr_bytes = sizeof(max_grad_attr),
    .infer = max_grad_infer,
    .samples = max_grad_samples,
    .host = {.run = max_grad_host},
    .cases = HRI_CASES(max_grad_cases),
};

const hri_kernel hri_kernel_cuda_max_grad = {.launch = max_grad_cuda};
