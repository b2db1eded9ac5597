/* broadcast_to(x; to) repeats x along the dimensions where it has size 1 or none: the gradient of sums. */
#include "graph/dims.h"
#include "ops/common/strided_cuda.h"
#include "ops/common/walk.h"

#include <string.h>

static const hri_field broadcast_to_fields[] = {
    {"to", "the shape of the result", offsetof(hri_attr_dims, to), HRI_FIELD_DIMS, NULL},
    {0},
};

static hr_status broadcast_to_infer(hri_infer *c) {
    const hr_shape to = hri_dims_shape(&((const hri_attr_dims *)c->attr)->to);
    const hr_shape *from = &c->in[0].shape;
    if (from->rank > to.rank) {
        return hri_infer_fail(c, "the result would have fewer dimensions than the input");
    }
    for (int d = 0; d < from->rank; d++) {
        const int64_t want = to.dim[d + to.rank - from->rank];
        if (from->dim[d] != want && from->dim[d] != 1) {
            return hri_infer_fail(c, "dimension %d of the input is %lld, the result has %lld", d,
                                  (long long)from->dim[d], (long long)want);
        }
    }
    c->out[0] = (hr_meta){c->in[0].type, to};
    return HR_OK;
}

static void broadcast_to_grad(hri_grad *c) {
    c->din[0] = hri_sum_to(c->g, c->dout[0], c->in[0]);
}

typedef struct task {
    const hri_call *c;
    hri_walk walk;
    size_t bytes; /* of an element */
} task;

/* One stored element, n times. */
static void fill(char *y, const char *x, size_t bytes, int64_t n) {
    switch (bytes) {
    case 4: {
        uint32_t v;
        memcpy(&v, x, 4);
        for (int64_t i = 0; i < n; i++) {
            ((uint32_t *)(void *)y)[i] = v;
        }
        break;
    }
    case 2: {
        uint16_t v;
        memcpy(&v, x, 2);
        for (int64_t i = 0; i < n; i++) {
            ((uint16_t *)(void *)y)[i] = v;
        }
        break;
    }
    default:
        for (int64_t i = 0; i < n; i++) {
            memcpy(y + (size_t)i * bytes, x, bytes);
        }
    }
}

static void broadcast_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end;) {
        int64_t at[HRI_WALK_IN];
        const int64_t left = hri_walk_at(&t->walk, i, at);
        const int64_t n = left < (int64_t)end - i ? left : (int64_t)end - i;
        const char *x = (const char *)t->c->in[0] + (size_t)at[0] * t->bytes;
        char *y = (char *)t->c->out[0] + (size_t)i * t->bytes;
        if (t->walk.stride[0][t->walk.rank - 1]) {
            memcpy(y, x, (size_t)n * t->bytes);
        } else {
            fill(y, x, t->bytes, n);
        }
        i += n;
    }
}

static hr_status broadcast_to_host(const hri_call *c) {
    task t = {.c = c, .bytes = hr_type_bytes(c->sig->out[0].type)};
    hri_walk_init(&t.walk, &c->sig->out[0].shape, c->sig->in, 1);
    hri_threads_range(c->threads, (uint64_t)t.walk.count, 16384, broadcast_range, &t);
    return HR_OK;
}

static hr_status broadcast_to_cuda(const hri_gpu_call *c) {
    hri_walk walk;
    hri_walk_init(&walk, &c->sig->out[0].shape, c->sig->in, 1);
    hri_strided box = {.rank = walk.rank, .bytes = hr_type_bytes(c->sig->out[0].type)};
    if (walk.count == 0) {
        return HR_OK;
    }
    hri_strides(&(hr_shape){.rank = walk.rank,
                            .dim = {walk.dim[0], walk.dim[1], walk.dim[2], walk.dim[3], walk.dim[4],
                                    walk.dim[5], walk.dim[6], walk.dim[7]}},
                box.to);
    memcpy(box.dim, walk.dim, sizeof box.dim);
    memcpy(box.from, walk.stride[0], sizeof box.from);
    return hri_strided_launch(c->gpu, &box, c->in[0], c->out[0]);
}

static const hri_case broadcast_to_cases[] = {
    {"rows", "f32[33]", "to=50x7x33"},
    {"scalar", "f32[]", "to=5x7"},
    {"column", "f32[5,1]", "to=5x7"},
    {"both", "f32[1,5,1]", "to=4x5x3"},
    {"copy", "f32[4,5]", "to=4x5"},
    {"empty", "f32[1]", "to=0"},
    {"bf16", "bf16[7]", "to=9x7"},
    {"f16", "f16[9,1]", "to=9x7"},
    {"integers", "i64[1,3]", "to=4x3", .negative = 1},
    {"wide rows, bf16", "bf16[64]", "to=9x64"},
    {"wide column, bf16", "bf16[9,1]", "to=9x64"},
    {"wide scalar", "f32[]", "to=300"},
    {"columns inside, f16", "f16[3,1,5]", "to=3x4x5"},
    {"does not fit", "f32[4,5]", "to=5", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_broadcast_to = {
    .name = "broadcast_to",
    .formula = "y = x repeated to the shape of `to`",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = broadcast_to_fields,
    .attr_bytes = sizeof(hri_attr_dims),
    .infer = broadcast_to_infer,
    .grad = broadcast_to_grad,
    .host = {.run = broadcast_to_host},
    .cases = HRI_CASES(broadcast_to_cases),
};

const hri_kernel hri_kernel_cuda_broadcast_to = {.launch = broadcast_to_cuda};
