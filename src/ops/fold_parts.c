/* fold_parts(s, weights, firsts, x0, x1, ...; velocity, momentum, spare, ranks): row after row, and in each row x after x,
 *
 *   s <- (1 - first) * s + weight * x[row]                       first: firsts[row] for x0, 0 for the others
 *   s <- (first ? momentum * s : s) + weight * x[row]            with `velocity`
 *
 * with the kernels of accumulate and sgd_velocity, so that the bits are those of parts that come one by one.  Every x is
 * (rows, n) and s has n elements.  With `spare` the last row of the last x is left out: the update takes it.  With `ranks` s is
 * whole, n are the elements of a slice of it (graph/slices.h), and this rank's slice of s alone changes. */
#include <string.h>

#include "ops/common/launch.h"
#include "ops/common/ranks.h"
#include "ops/common/update.h"

typedef struct fold_parts_attr {
    double momentum;
    bool velocity, spare;
    int64_t ranks;
} fold_parts_attr;

static const hri_field fold_parts_fields[] = {
    {"momentum", "of the velocity", offsetof(fold_parts_attr, momentum), HRI_FIELD_DOUBLE, "0.9"},
    {"velocity", "s is a velocity", offsetof(fold_parts_attr, velocity), HRI_FIELD_BOOL, "false"},
    {"spare", "without the last row of the last x", offsetof(fold_parts_attr, spare),
     HRI_FIELD_BOOL, "false"},
    HRI_RANKS_FIELD(fold_parts_attr),
    {0},
};

/* What of s a rank changes: elements first .. first + count, from rows of n. */
typedef struct fold_range {
    int64_t first, count, n;
} fold_range;

static fold_range range_of(const fold_parts_attr *p, const hr_meta *s, int64_t rank) {
    const int64_t whole = hr_shape_count(&s->shape),
                  n = p->ranks > 1 ? hri_slice_count(whole, p->ranks) : whole;
    return (fold_range){n < whole ? rank * n : 0, hri_slice_filled(whole, n, rank), n};
}

static hr_status fold_parts_infer(hri_infer *c) {
    const int64_t rows = hr_shape_count(&c->in[1].shape);
    const int64_t n = range_of(c->attr, &c->in[0], 0).n;
    for (uint32_t i = 0; i < c->in_count; i++) {
        const hr_shape *x = &c->in[i].shape;
        const int list = i == 1 || i == 2;
        if (!hr_type_is_real(c->in[i].type) || (list && c->in[i].type != HR_TYPE_F32)) {
            return hri_infer_fail(c, "input %u is %s", i, hr_type_name(c->in[i].type));
        }
        if ((list && (x->rank != 1 || x->dim[0] != rows)) ||
            (i > 2 && (x->rank != 2 || x->dim[0] != rows || x->dim[1] != n))) {
            return hri_infer_fail(c, "input %u does not have %lld rows of %lld", i, (long long)rows,
                                  (long long)n);
        }
    }
    c->out[0] = c->in[0];
    return HR_OK;
}

static hr_status fold_parts_host(const hri_call *c) {
    const fold_parts_attr *p = c->sig->attr;
    const hr_op *op = hri_op_find(p->velocity ? "sgd_velocity" : "accumulate");
    const uint32_t pieces = c->sig->in_count - 3;
    const fold_range own = range_of(p, &c->sig->in[0], hri_ranks_own(c));
    const hr_shape flat = hr_shape_1(own.count);
    const int64_t rows = hr_shape_count(&c->sig->in[1].shape);
    const float *weights = c->in[1], *firsts = c->in[2], none = 0.0f;
    void *to = (char *)c->out[0] + (uint64_t)own.first * hr_type_bytes(c->sig->in[0].type);
    hr_status status = p->ranks > 1 ? hri_ranks_check(c, p->ranks) : HR_OK;
    for (int64_t r = 0; r < rows && own.count; r++) {
        for (uint32_t k = 0; k < pieces && status == HR_OK; k++) {
            if (p->spare && r + 1 == rows && k + 1 == pieces) {
                continue;
            }
            const hr_type type = c->sig->in[3 + k].type;
            const hr_meta in[] = {{c->sig->in[0].type, flat},
                                  {type, flat},
                                  {.type = HR_TYPE_F32},
                                  {.type = HR_TYPE_F32}};
            /* sgd_velocity has its momentum alone, which comes first here, too */
            const hri_sig sig = {
                .op = op, .attr = &p->momentum, .in_count = 4, .out_count = 1, .in = in, .out = in};
            const void *const from[] = {
                to, (const char *)c->in[3 + k] + (uint64_t)(r * own.n) * hr_type_bytes(type),
                &weights[r], k ? &none : &firsts[r]};
            hri_call one = *c;
            one.sig = &sig;
            one.in = from;
            one.out = &to;
            status = op->host.run(&one);
        }
    }
    return status;
}

/* ---- on a GPU ---- */

/* With the kernels of the ops themselves, for any types; a zero of its own in work space. */
static hr_status fold_row_by_row(const hri_gpu_call *c) {
    const fold_parts_attr *p = c->sig->attr;
    const hr_op *op = hri_op_find(p->velocity ? "sgd_velocity" : "accumulate");
    const uint32_t pieces = c->sig->in_count - 3;
    const fold_range own = range_of(p, &c->sig->in[0], c->rank);
    const hr_shape flat = hr_shape_1(own.count);
    const int64_t rows = hr_shape_count(&c->sig->in[1].shape);
    const hr_addr to = c->out[0] + (uint64_t)own.first * hr_type_bytes(c->sig->in[0].type);
    hr_status status = hri_gpu_fill(c->gpu, c->workspace, 0, sizeof(float));
    for (int64_t r = 0; r < rows && own.count; r++) {
        for (uint32_t k = 0; k < pieces && status == HR_OK; k++) {
            if (p->spare && r + 1 == rows && k + 1 == pieces) {
                continue;
            }
            const hr_type type = c->sig->in[3 + k].type;
            const hr_meta in[] = {{c->sig->in[0].type, flat},
                                  {type, flat},
                                  {.type = HR_TYPE_F32},
                                  {.type = HR_TYPE_F32}};
            const hri_sig sig = {
                .op = op, .attr = &p->momentum, .in_count = 4, .out_count = 1, .in = in, .out = in};
            const hr_addr from[] = {to, c->in[3 + k] + (uint64_t)(r * own.n) * hr_type_bytes(type),
                                    c->in[1] + (uint64_t)r * sizeof(float),
                                    k ? c->workspace : c->in[2] + (uint64_t)r * sizeof(float)};
            hri_gpu_call one = *c;
            one.sig = &sig;
            one.kernel = hri_kernel_for(hri_gpu_kernels(c->gpu), &sig);
            one.in = from;
            one.out = &to;
            status = hri_op_launch(&one);
        }
    }
    return status;
}

HRI_CU(update);

enum { TENSORS = 64, PIECE = 2048, THREADS = 256, PIECES = 2 };

/* As in update.cu. */
typedef struct folded {
    hr_addr to, x[PIECES];
    int64_t count, stride;
    uint32_t first, wide;
} folded;

typedef struct folds {
    hr_addr weights, firsts;
    float c[HRI_UPDATE_CONSTANTS];
    uint32_t count, rows, pieces, spare;
    folded tensor[TENSORS];
} folds;

_Static_assert(sizeof(folds) <= 4096, "the table is the parameter of a kernel");

/* What tensors of one launch have in common. */
typedef struct fold_kind {
    hr_addr weights, firsts;
    double momentum;
    uint32_t rows, pieces, spare, velocity;
    hr_type type;
} fold_kind;

/* 1: the kernel that folds all rows at once takes it. */
static int find_kind(const hri_gpu_call *c, fold_kind *kind, folded *out) {
    const fold_parts_attr *p = c->sig->attr;
    const uint32_t pieces = c->sig->in_count - 3;
    const fold_range own = range_of(p, &c->sig->in[0], c->rank);
    int usual = c->sig->in[0].type == HR_TYPE_F32 && pieces <= PIECES;
    memset(kind, 0, sizeof *kind); /* kinds are compared as bytes */
    kind->weights = c->in[1];
    kind->firsts = c->in[2];
    kind->momentum = p->velocity ? p->momentum : 0.0;
    kind->rows = (uint32_t)hr_shape_count(&c->sig->in[1].shape);
    kind->pieces = pieces;
    kind->spare = p->spare;
    kind->velocity = p->velocity;
    kind->type = c->sig->in[3].type;
    *out = (folded){
        .to = c->out[0] + (uint64_t)own.first * sizeof(float), .count = own.count, .stride = own.n};
    out->wide = hri_launch_wide(out->to) && own.n % 4 == 0;
    for (uint32_t k = 0; k < pieces && usual; k++) {
        usual &= (hr_type)c->sig->in[3 + k].type == kind->type;
        out->x[k] = c->in[3 + k];
        out->wide = out->wide && hri_launch_wide(out->x[k]);
    }
    return usual;
}

static hr_status launch_folds(hri_gpu *gpu, const fold_kind *kind, folds *t, uint32_t blocks) {
    const hri_defines d = hri_launch_defines("-DHR_OP=%s -DHR_STATES=0 -DHR_G=%s -DHR_FOLD",
                                             kind->velocity ? "sgd_velocity" : "accumulate",
                                             hri_launch_type(kind->type));
    t->weights = kind->weights;
    t->firsts = kind->firsts;
    t->c[0] = (float)kind->momentum;
    t->rows = kind->rows;
    t->pieces = kind->pieces;
    t->spare = kind->spare;
    return t->count
               ? hri_gpu_launch(gpu, &hri_cu_update, d.text, "fold",
                                &(hri_gpu_grid){.x = blocks, .threads = THREADS}, HRI_GPU_ARGS(t))
               : HR_OK;
}

/* Those of one kind, up to a full table, go together; kinds change rarely. */
static hr_status fold_parts_cuda_many(const hri_gpu_call *calls, uint32_t count) {
    folds t = {.count = 0};
    fold_kind group = {0}, kind;
    uint32_t blocks = 0;
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < count && status == HR_OK; i++) {
        folded x;
        if (!find_kind(&calls[i], &kind, &x)) {
            status = fold_row_by_row(&calls[i]);
            continue;
        }
        if (t.count == TENSORS || (t.count && memcmp(&kind, &group, sizeof kind) != 0)) {
            status = launch_folds(calls->gpu, &group, &t, blocks);
            t.count = blocks = 0;
        }
        if (x.count) {
            group = kind;
            x.first = blocks;
            t.tensor[t.count++] = x;
            blocks += hri_launch_blocks(x.count, PIECE);
        }
    }
    return status == HR_OK ? launch_folds(calls->gpu, &group, &t, blocks) : status;
}

static hr_status fold_parts_cuda(const hri_gpu_call *c) {
    return fold_parts_cuda_many(c, 1);
}

static uint64_t fold_parts_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    (void)s;
    (void)gpu;
    (void)variant;
    return sizeof(float);
}

static void fold_parts_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 0.0;
    for (uint32_t i = 3; i < s->in_count; i++) {
        cost->flops += 2.0 * (double)hr_shape_count(&s->in[i].shape);
    }
}

static hri_samples fold_parts_samples(const hri_sig *s, uint32_t batched) {
    (void)s;
    return batched ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

static const hri_case fold_parts_cases[] = {
    {"one row", "f32[7,33] f32[1] f32[1] f32[1,231]"},
    {"rows", "f32[301] f32[3] f32[3] f32[3,301]"},
    {"two of each", "f32[33] f32[2] f32[2] f32[2,33] bf16[2,33]"},
    {"two of one type", "f32[4100] f32[3] f32[3] f32[3,4100] f32[3,4100]"},
    {"bf16", "f32[2056] f32[2] f32[2] bf16[2,2056]"},
    {"all bf16", "bf16[99] f32[2] f32[2] bf16[2,99]"},
    {"velocity", "f32[301] f32[3] f32[3] f32[3,301]", "velocity=true,momentum=0.8"},
    {"all but one", "f32[33] f32[2] f32[2] f32[2,33]", "velocity=true,spare=true"},
    {"other rows", "f32[33] f32[3] f32[3] f32[2,33]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_fold_parts = {
    .name = "fold_parts",
    .formula = "s = (1 - first) * s + weight * x, row after row",
    .in_min = 4,
    .in_max = HRI_IN_MAX,
    .out_count = 1,
    .fields = fold_parts_fields,
    .attr_bytes = sizeof(fold_parts_attr),
    .infer = fold_parts_infer,
    .updates = {1},
    .samples = fold_parts_samples,
    .cost = fold_parts_cost,
    .host = {.run = fold_parts_host},
    .cases = HRI_CASES(fold_parts_cases),
};

const hri_kernel hri_kernel_cuda_fold_parts = {
    .launch = fold_parts_cuda,
    .launch_many = fold_parts_cuda_many,
    .launch_workspace = fold_parts_cuda_workspace,
};
