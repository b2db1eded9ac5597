/* dropout(x; p, node, shared): sets each element to 0 with probability p and divides the others by 1 - p.
 *
 *   y = draw >= p ? x / (1 - p) : 0,   draw = the number of (seed, step, node, sample, index in the sample)
 *
 * Samples lie along dimension 0 and are counted through first_sample, so that parts of a batch draw what the whole
 * draws.  Along the dimensions in `shared` one draw holds for all (a noise shape of 1 there): all but the first is stochastic
 * depth, all but the first and the last drops channels; the index is then that in the noise.  The gradient is this op again with the forward node's number: it draws the same mask and keeps nothing. */
#include "base/random.h"
#include "graph/dims.h"
#include "graph/graph.h"
#include "ops/common/blocks.h"
#include "ops/common/launch.h"

typedef struct dropout_attr {
    double p;
    int64_t node; /* whose numbers; -1: this node's */
    hri_dims shared;
} dropout_attr;

static const hri_field dropout_fields[] = {
    {"p", "probability of 0", offsetof(dropout_attr, p), HRI_FIELD_DOUBLE, "0.5", .min = 0,
     .max = 1},
    {"node", "whose numbers to draw; -1: its own", offsetof(dropout_attr, node), HRI_FIELD_INT,
     "-1", .min = -1, .max = 2147483647},
    {"shared", "dimensions with one draw for all, but the first", offsetof(dropout_attr, shared),
     HRI_FIELD_DIMS, NULL},
    {0},
};

static hr_status dropout_infer(hri_infer *c) {
    const hri_dims *shared = &((const dropout_attr *)c->attr)->shared;
    uint32_t axes;
    const hr_status status = hri_infer_same(c);
    if (status == HR_OK && shared->count > 0 &&
        (hri_dims_axes(shared, c->in[0].shape.rank, &axes) || axes & 1u)) {
        return hri_infer_fail(
            c, "a shared dimension is the first, outside the input's %d, or named twice",
            c->in[0].shape.rank);
    }
    return status;
}

/* Where the draw of an element is: the dimensions of a sample and their strides in the noise.  As dropout.cu has it. */
typedef struct noise {
    int32_t rank, shared;
    int64_t dim[HR_RANK_MAX], stride[HR_RANK_MAX];
} noise;

static noise noise_of(const hri_sig *s) {
    const hri_dims *shared = &((const dropout_attr *)s->attr)->shared;
    const hr_shape *x = &s->in[0].shape;
    noise n = {.rank = x->rank > 0 ? x->rank - 1 : 0, .shared = shared->count > 0};
    uint32_t axes = 0;
    int64_t stride = 1;
    if (n.shared) {
        (void)hri_dims_axes(shared, x->rank, &axes);
    }
    for (int d = n.rank - 1; d >= 0; d--) {
        const int one = axes >> (d + 1) & 1u;
        n.dim[d] = x->dim[d + 1];
        n.stride[d] = one ? 0 : stride;
        stride *= one ? 1 : n.dim[d];
    }
    return n;
}

/* The draws of elements at .. at + count of a sample. */
static void shared_draws(const noise *n, const hri_call *c, uint32_t node, uint32_t sample,
                         int64_t at, int64_t count, uint32_t *draws) {
    int64_t last = -1;
    for (int64_t k = 0; k < count; k++) {
        int64_t rest = at + k, index = 0;
        for (int d = n->rank - 1; d >= 0; d--) {
            index += rest % n->dim[d] * n->stride[d];
            rest /= n->dim[d];
        }
        if (index == last) {
            draws[k] = draws[k - 1];
        } else {
            hri_random_fill_u32(c->seed, c->step, node, sample, (uint64_t)index, &draws[k], 1);
        }
        last = index;
    }
}

static void dropout_grad(hri_grad *c) {
    dropout_attr attr = *(const dropout_attr *)c->sig->attr;
    if (attr.node < 0) {
        attr.node = hri_graph_counter(c->g, c->out[0]);
    }
    c->din[0] = HRI_NODE(c->g, "dropout", &attr, c->dout[0]);
}

/* Range over elements: runs inside one sample. */
static void dropout_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const dropout_attr *attr = c->sig->attr;
    const hr_shape *x = &c->sig->in[0].shape;
    const hr_type type = c->sig->in[0].type;
    const uint32_t node = attr->node < 0 ? c->node : (uint32_t)attr->node;
    const float p = (float)attr->p, scale = p < 1.0f ? 1.0f / (1.0f - p) : 0.0f;
    const int64_t sample = x->rank ? hr_shape_count(x) / x->dim[0] : 1;
    const noise shared = noise_of(c->sig);
    (void)worker;
    for (int64_t at = (int64_t)begin, n; at < (int64_t)end; at += n) {
        uint32_t draws[HRI_BLOCK];
        float room[2][HRI_BLOCK];
        n = hri_min64(hri_min64(HRI_BLOCK, (int64_t)end - at), sample - at % sample);
        const uint32_t number = c->first_sample + (uint32_t)(at / sample);
        if (shared.shared) {
            shared_draws(&shared, c, node, number, at % sample, n, draws);
        } else {
            hri_random_fill_u32(c->seed, c->step, node, number, (uint64_t)(at % sample), draws,
                                (size_t)n);
        }
        const float *from = hri_block_in(type, c->in[0], at, n, room[0]);
        float *y = hri_block_out(type, c->out[0], at, room[1]);
        HRI_IVDEP for (int64_t k = 0; k < n; k++) {
            const float kept = from[k] * scale;
            y[k] = hri_random_to_float(draws[k]) >= p ? kept : 0.0f;
        }
        hri_block_put(type, c->out[0], at, n, y);
    }
}

static hr_status dropout_host(const hri_call *c) {
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->in[0].shape), 16384,
                      dropout_range, &call);
    return HR_OK;
}

HRI_CU(dropout);

static hr_status dropout_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256, EACH = 8 };
    const dropout_attr *attr = c->sig->attr;
    const hr_shape *shape = &c->sig->in[0].shape;
    hr_addr x = c->in[0], y = c->out[0], control = c->control;
    uint32_t node = attr->node < 0 ? c->node : (uint32_t)attr->node;
    float p = (float)attr->p, scale = p < 1.0f ? 1.0f / (1.0f - p) : 0.0f;
    int64_t count = hr_shape_count(shape);
    if (count == 0) {
        return HR_OK;
    }
    int64_t each = shape->rank ? count / shape->dim[0] : 1;
    noise shared = noise_of(c->sig);
    uint32_t wide = !shared.shared && each % EACH == 0 && hri_launch_wide(x | y);
    return hri_gpu_launch(
        c->gpu, &hri_cu_dropout, hri_launch_t(c->sig->in[0].type, 1).text, "dropout",
        &(hri_gpu_grid){.x = hri_launch_blocks(count, THREADS * EACH), .threads = THREADS},
        HRI_GPU_ARGS(&x, &y, &control, &node, &count, &each, &p, &scale, &wide, &shared));
}

static void dropout_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 20.0 * (double)hr_shape_count(&s->in[0].shape);
}

static const hri_case dropout_cases[] = {
    {"odd", "f32[7,33]", .batched = 1},
    {"seldom", "f32[3,5,1001]", "p=0.1"},
    {"never", "f32[5,7]", "p=0"},
    {"always", "f32[5,7]", "p=1"},
    {"another node's", "f32[5,7]", "node=12"},
    {"one number", "f32[]"},
    {"empty", "f32[0,5]"},
    {"bf16", "bf16[7,33]"},
    {"f16", "f16[7,33]"},
    {"wide, bf16", "bf16[6,8,40]", "p=0.1"},
    {"wide, f16", "f16[3,2056]"},
    {"wide", "f32[5,64]", "p=0.3"},
    {"one draw a sample", "f32[7,4,5]", "shared=1x2", .batched = 1},
    {"whole channels, bf16", "bf16[3,4,5,8]", "p=0.3,shared=1x2"},
    {"shared by samples", "f32[7,4]", "shared=0", .flags = HRI_CASE_BAD},
    {"integers", "i32[7]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_dropout = {
    .name = "dropout",
    .formula = "y = draw >= p ? x / (1 - p) : 0",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = dropout_fields,
    .attr_bytes = sizeof(dropout_attr),
    .infer = dropout_infer,
    .grad = dropout_grad,
    .overwrite = {1},
    .random = 1,
    .cost = dropout_cost,
    .host = {.run = dropout_host},
    .cases = HRI_CASES(dropout_cases),
};

const hri_kernel hri_kernel_cuda_dropout = {.launch = dropout_cuda};
