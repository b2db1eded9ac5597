/* linear_cross_entropy(x, w, ids; smoothing, sum, keep): cross_entropy of the scores x w^T, which need not be whole.
 *
 *   x (..., C)   w (V, C)   ids (...)   loss ()   lse (...)   scores (..., 0), or (..., V) with `keep`
 *   s = x w^T,  lse_i = log sum_v exp(s_iv)
 *   loss = mean_i [ lse_i - (1 - a) * s_i,ids - a / V * sum_v s_iv ]       a: smoothing
 *
 * For heads with many classes: the scores of a language model are larger than anything else in it.  They are made a
 * block of classes at a time, with a running maximum and sum for each row (common/linear_loss.h).  The gradient makes
 * them again from x, w and lse, one product more, unless they were kept; the bits are the same.  Ids, sums and means are
 * those of cross_entropy; an id of V or more is HR_E_RANGE.  There is no bias: heads that share their weights with an
 * embedding have none. */
#include "ops/common/linear_loss.h"
#include "ops/common/linear_loss_cuda.h"
#include "ops/common/rows.h"
#include "ops/common/vmath.h"

#include <math.h>

static const hri_field linear_cross_entropy_fields[] = {HRI_LINEAR_LOSS_FIELDS, {0}};

static hr_status linear_cross_entropy_infer(hri_infer *c) {
    const hr_status status = hri_linear_loss_infer(c, 0);
    if (status != HR_OK) {
        return status;
    }
    c->out[0] = (hr_meta){.type = HR_TYPE_F32};
    c->out[1] = (hr_meta){HR_TYPE_F32, c->in[2].shape};
    c->out[2] =
        hri_linear_loss_kept(&c->in[1], &c->in[2], ((const hri_linear_loss_attr *)c->attr)->keep);
    return HR_OK;
}

static void linear_cross_entropy_grad(hri_grad *c) {
    const hri_linear_loss_attr *p = c->sig->attr;
    const hr_value in[] = {c->dout[0], c->in[0], c->in[1], c->in[2], c->out[1], c->out[2]};
    const hr_value dx = hri_node(c->g, "linear_cross_entropy_grad", in, p->keep ? 6 : 5, p);
    c->din[0] = HRI_NEEDS(c, 0) ? dx : HR_NONE;
    c->din[1] = HRI_NEEDS(c, 1) ? hr_graph_output(c->g, dx, 1) : HR_NONE;
}

static hri_samples linear_cross_entropy_samples(const hri_sig *s, uint32_t batched) {
    const hri_linear_loss_attr *p = s->attr;
    return !batched       ? HRI_SAMPLES_APART
           : batched & 2u ? HRI_SAMPLES_COUPLED
           : p->sum       ? HRI_SAMPLES_SUM
                          : HRI_SAMPLES_MEAN;
}

static hri_linear_loss sizes_of(const hri_sig *s) {
    return hri_linear_loss_of(&s->in[0], &s->in[1], &s->in[2]);
}

static void linear_cross_entropy_cost(const hri_sig *s, hri_cost *cost) {
    const hri_linear_loss z = sizes_of(s);
    cost->flops = (double)z.rows * (double)z.classes * (2.0 * (double)z.depth + 8.0);
}

/* What is known of a row after some blocks. */
typedef struct row_state {
    double sum, all; /* of exp(s - most), and of s */
    double loss;
    float most, target;
} row_state;

static uint64_t states_bytes(const hri_linear_loss *z) {
    return hri_linear_loss_up((uint64_t)z->rows * sizeof(row_state));
}

static uint64_t linear_cross_entropy_workspace(const hri_sig *s, uint32_t threads) {
    const hri_linear_loss z = sizes_of(s);
    const uint64_t a = hri_gemm_workspace(1, z.rows, z.width, z.depth, threads);
    const uint64_t b = hri_gemm_workspace(1, z.rows, hri_linear_loss_last(&z), z.depth, threads);
    const int keep = ((const hri_linear_loss_attr *)s->attr)->keep;
    return (keep ? 0 : hri_linear_loss_bytes(&z)) + states_bytes(&z) + (a > b ? a : b);
}

typedef struct task {
    const hri_call *c;
    hri_linear_loss z;
    int64_t v0, count; /* the block */
    const float *scores;
    row_state *states;
} task;

static void add_block(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    const hri_call *c = t->c;
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        const float *s = t->scores + i * t->count;
        const int64_t id = hri_row_id(c->sig->in[2].type, c->in[2], i) - t->v0;
        row_state r = {.most = -INFINITY};
        if (t->v0) {
            r = t->states[i];
        }
        const float most = hri_block_max(s, t->count, r.most);
        r.sum *= r.most < most ? exp((double)r.most - (double)most) : 1.0;
        r.most = most;
        for (int64_t k0 = 0; k0 < t->count; k0 += HRI_BLOCK) {
            const int64_t n = hri_min64(HRI_BLOCK, t->count - k0);
            const float *v = s + k0;
            float exps[HRI_LANES] = {0}, lanes[HRI_LANES] = {0};
            HRI_LANES_ADD(exps, n, hri_exp(v[k] - most));
            hri_lanes_add(lanes, v, n);
            r.sum += (double)hri_lanes_sum(exps);
            r.all += (double)hri_lanes_sum(lanes);
        }
        if (id >= 0 && id < t->count) {
            r.target = s[id];
        }
        t->states[i] = r;
    }
}

static void finish_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    const hri_call *c = t->c;
    const double smoothing = ((const hri_linear_loss_attr *)c->sig->attr)->smoothing;
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        row_state *r = &t->states[i];
        const double lse = (double)r->most + log(r->sum);
        ((float *)c->out[1])[i] = (float)lse;
        r->loss = hri_row_id(c->sig->in[2].type, c->in[2], i) < 0
                      ? 0.0
                      : lse - (1.0 - smoothing) * (double)r->target -
                            smoothing / (double)t->z.classes * r->all;
    }
}

static hr_status linear_cross_entropy_host(const hri_call *c) {
    const hri_linear_loss_attr *p = c->sig->attr;
    const hri_linear_loss z = sizes_of(c->sig);
    char *after = (char *)c->workspace + (p->keep ? 0 : hri_linear_loss_bytes(&z));
    task t = {.c = c, .z = z, .states = (row_state *)(void *)after};
    int64_t counted = 0;
    for (int64_t i = 0; i < z.rows; i++) {
        const int64_t id = hri_row_id(c->sig->in[2].type, c->in[2], i);
        counted += id >= 0;
        if (id >= z.classes) {
            return HR_E_RANGE;
        }
    }
    for (t.v0 = 0; t.v0 < z.classes; t.v0 += z.width) {
        t.count = hri_min64(z.width, z.classes - t.v0);
        float *scores = p->keep ? (float *)c->out[2] + t.v0 * z.rows : c->workspace;
        t.scores = scores;
        hri_linear_loss_scores(&z, c->sig->in[0].type, c->in[0], c->in[1], t.v0, t.count, scores,
                               c->threads, after + states_bytes(&z));
        hri_threads_range(c->threads, (uint64_t)z.rows, hri_row_chunk(t.count), add_block, &t);
    }
    hri_threads_range(c->threads, (uint64_t)z.rows, 256, finish_rows, &t);
    double sum = 0.0; /* in double: the order is that of the rows */
    for (int64_t i = 0; i < z.rows; i++) {
        sum += t.states[i].loss;
    }
    *(float *)c->out[0] = (float)(p->sum ? sum : counted ? sum / (double)counted : 0.0);
    return HR_OK;
}

static const hri_case linear_cross_entropy_cases[] = {
    {"ignored", "f32[7,5] f32[33,5] i32[7]", "smoothing=0.1", .ids = 33, .batched = 5,
     .negative = 1},
    {"ignored, kept", "f32[7,5] f32[33,5] i64[7]", "keep", .ids = 33, .batched = 5, .negative = 1},
    {"ignored, a sum", "f32[2,4,5] f32[10,5] i32[2,4]", "sum", .batched = 5, .negative = 1},
    {"nothing counts", "f32[4,5] f32[10,5] i32[4]", .batched = 5, .negative = 2},
    {"odd", "f32[7,5] f32[33,5] i32[7]", .ids = 33, .batched = 5},
    {"one row", "f32[1,5] f32[13,5] i64[1]"},
    {"one class", "f32[3,4] f32[1,4] i64[3]", .ids = 1},
    {"smoothing", "f32[5,6] f32[11,6] i64[5]", "smoothing=0.1"},
    {"sum over a sequence", "f32[2,3,4] f32[10,4] i32[2,3]", "sum", .batched = 5},
    {"large scores", "f32[4,2] f32[10,2] i32[4]", .low = -8, .high = 8, .grad_tolerance = 1e-2},
    {"several blocks", "f32[3,2] f32[13000,2] i32[3]", "smoothing=0.1", .ids = 13000,
     .flags = HRI_CASE_NO_GRAD},
    {"a last block of another cut", "f32[150,40] f32[6150,40] i32[150]", .ids = 6150,
     .flags = HRI_CASE_NO_GRAD},
    {"kept", "f32[7,5] f32[33,5] i32[7]", "keep,smoothing=0.1", .ids = 33, .batched = 5},
    {"kept, bf16", "bf16[2,7,33] bf16[10,33] i32[2,7]", "keep,sum", .tolerance = 1e-2},
    {"no rows", "f32[0,5] f32[10,5] i32[0]"},
    {"no depth", "f32[3,0] f32[10,0] i32[3]"},
    {"bf16", "bf16[7,33] bf16[10,33] i32[7]", .tolerance = 1e-2},
    {"f16", "f16[7,33] f16[10,33] i32[7]", .tolerance = 1e-2},
    {"w of another depth", "f32[7,5] f32[10,6] i32[7]", .flags = HRI_CASE_BAD},
    {"ids of another shape", "f32[7,5] f32[10,5] i32[6]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_linear_cross_entropy = {
    .name = "linear_cross_entropy",
    .formula = "loss = mean(logsumexp(x w^T) - (x w^T)[id])",
    .in_min = 3,
    .in_max = 3,
    .out_count = 3,
    .fields = linear_cross_entropy_fields,
    .attr_bytes = sizeof(hri_linear_loss_attr),
    .infer = linear_cross_entropy_infer,
    .grad = linear_cross_entropy_grad,
    .keeps = {{.in = 7, .out = 6}, {.in = 7, .out = 6}},
    .aux = 6,
    .product = 1,
    .samples = linear_cross_entropy_samples,
    .cost = linear_cross_entropy_cost,
    .host = {.run = linear_cross_entropy_host, .workspace = linear_cross_entropy_workspace},
    .cases = HRI_CASES(linear_cross_entropy_cases),
};

const hri_kernel hri_kernel_cuda_linear_cross_entropy = {
    .launch = hri_linear_loss_cuda,
    .launch_workspace = hri_linear_loss_cuda_workspace,
};
