/* adafactor(w, g, rate, t, r, c [, factor]; exponent, epsilon, floor, clip, relative, decay):
 *
 *   d <- factor * g,    k = t^exponent
 *   r <- r + k (mean over columns of d^2 - r),    c <- c + k (mean over rows of d^2 - c)
 *   v = r c / max(mean r, epsilon),    u = d / sqrt(max(v, epsilon^2))
 *   w <- (1 - rate decay) w - a / max(1, rms(u) / clip) u,    a = max(floor, rms(w)) min(rate, t^-1/2), or rate
 *
 * as torch.optim.Adafactor (Shazeer and Stern 2018); a is the second where `relative` is off.  t is the number of this update,
 * from 1.  w is a matrix of rows and columns: it is cut between two of its dimensions where rows and columns together are fewest,
 * dimensions of 1 not counted.  torch cuts before the last dimension, which is the same for two of them.  A vector has c alone:
 * v = c.  A factor of 0, or one that is not finite, means "skip this step": nothing is touched.
 *
 * Sums are taken in double over fixed chunks, so the result does not depend on the threads. */
#include "ops/common/adafactor.h"

#include <math.h>

#include "ops/common/blocks.h"
#include "ops/common/launch.h"
#include "ops/common/squares.h"
#include "ops/common/update.h"

enum { CHUNK = HRI_SLICE_CHUNK, COLUMNS = 256, ROWS = 8 };

typedef struct adafactor_attr {
    double exponent, epsilon, floor, clip, decay;
    bool relative;
} adafactor_attr;

static const hri_field adafactor_fields[] = {
    {"exponent", "the share of this step in the averages is t to this power",
     offsetof(adafactor_attr, exponent), HRI_FIELD_DOUBLE, "-0.8", .min = -10, .max = 0},
    {"epsilon", "least square root of an average", offsetof(adafactor_attr, epsilon),
     HRI_FIELD_DOUBLE, "1.1920928955078125e-07", .min = 0, .max = 1},
    {"floor", "least root mean square of the weights that the step is relative to",
     offsetof(adafactor_attr, floor), HRI_FIELD_DOUBLE, "0.001", .min = 0, .max = 1e6},
    {"clip", "largest root mean square of an update", offsetof(adafactor_attr, clip),
     HRI_FIELD_DOUBLE, "1", .min = 1e-6, .max = 1e6},
    {"decay", "weight decay", offsetof(adafactor_attr, decay), HRI_FIELD_DOUBLE, "0"},
    {"relative", "steps are relative to the weights and never above t^-1/2",
     offsetof(adafactor_attr, relative), HRI_FIELD_BOOL, "true"},
    {0},
};

void hri_adafactor_cut(const hr_shape *s, int64_t *rows, int64_t *columns) {
    int64_t before = 1, behind = hr_shape_count(s);
    *rows = 1;
    *columns = behind;
    for (int d = 0; d + 1 < s->rank && behind > 0; d++) {
        before *= s->dim[d];
        behind /= s->dim[d];
        if (before > 1 && behind > 1 && (*rows == 1 || before + behind < *rows + *columns)) {
            *rows = before;
            *columns = behind;
        }
    }
}

/* ---- on the host ---- */

typedef struct job {
    const hri_call *call;
    const void *g;
    hr_type type;
    int64_t rows, columns;
    bool vector;
    float *w, *r, *c;
    float factor;
    double share;    /* k */
    double over;     /* 1 / max(mean r, epsilon) */
    double least;    /* epsilon^2 */
    double by, keep; /* the step, and what decay leaves of w */
    double *sums;
} job;

static void lerp(float *to, double mean, double share) {
    *to = (float)((double)*to + share * (mean - (double)*to));
}

static void row_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const job *j = arg;
    float room[HRI_BLOCK];
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        double sum = 0;
        for (int64_t at = 0; at < j->columns; at += HRI_BLOCK) {
            const int64_t n = j->columns - at < HRI_BLOCK ? j->columns - at : HRI_BLOCK;
            const float *g = hri_block_in(j->type, j->g, i * j->columns + at, n, room);
            sum += hri_squares_f32(g, (uint64_t)n);
        }
        const double f = (double)j->factor;
        lerp(&j->r[i], f * f * sum / (double)j->columns, j->share);
    }
}

static void column_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const job *j = arg;
    float room[COLUMNS];
    double sums[COLUMNS] = {0};
    const int64_t n = (int64_t)(end - begin);
    const double f = (double)j->factor;
    (void)worker;
    for (int64_t i = 0; i < j->rows; i++) {
        const float *g = hri_block_in(j->type, j->g, i * j->columns + (int64_t)begin, n, room);
        for (int64_t k = 0; k < n; k++) {
            sums[k] += (double)g[k] * (double)g[k];
        }
    }
    for (int64_t k = 0; k < n; k++) {
        lerp(&j->c[begin + (uint64_t)k], f * f * sums[k] / (double)j->rows, j->share);
    }
}

/* u of elements begin .. begin + n, which is at most a block. */
static void update_of(const job *j, int64_t begin, int64_t n, float *u) {
    float room[HRI_BLOCK];
    const float *g = hri_block_in(j->type, j->g, begin, n, room);
    int64_t i = begin / j->columns, k = begin % j->columns;
    for (int64_t q = 0; q < n; q++) {
        const double v = (double)j->c[k] * (j->vector ? 1.0 : (double)j->r[i] * j->over);
        u[q] = (float)((double)(j->factor * g[q]) / sqrt(v > j->least ? v : j->least));
        if (++k == j->columns) {
            k = 0;
            i++;
        }
    }
}

static void norm_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const job *j = arg;
    float u[HRI_BLOCK];
    double sum = 0;
    (void)worker;
    for (uint64_t at = begin; at < end; at += HRI_BLOCK) {
        const uint64_t n = end - at < HRI_BLOCK ? end - at : HRI_BLOCK;
        update_of(j, (int64_t)at, (int64_t)n, u);
        sum += hri_squares_f32(u, n);
    }
    j->sums[begin / CHUNK] = sum;
}

static void weight_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const job *j = arg;
    (void)worker;
    j->sums[begin / CHUNK] = hri_squares_f32(j->w + begin, end - begin);
}

static void apply_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const job *j = arg;
    float u[HRI_BLOCK];
    (void)worker;
    for (uint64_t at = begin; at < end; at += HRI_BLOCK) {
        const uint64_t n = end - at < HRI_BLOCK ? end - at : HRI_BLOCK;
        update_of(j, (int64_t)at, (int64_t)n, u);
        for (uint64_t q = 0; q < n; q++) {
            j->w[at + q] = (float)((double)j->w[at + q] * j->keep - j->by * (double)u[q]);
        }
    }
}

/* Root mean square of what fn sums. */
static double rms(job *j, uint64_t count, hri_range_fn *fn) {
    hri_threads_range(j->call->threads, count, CHUNK, fn, j);
    return sqrt(hri_sum(j->sums, hri_chunk_count(count, CHUNK)) / (double)count);
}

static hr_status adafactor_host(const hri_call *call) {
    const adafactor_attr *p = call->sig->attr;
    const hr_shape *shape = &call->sig->in[0].shape;
    const uint64_t count = (uint64_t)hr_shape_count(shape);
    const double rate = (double)*(const float *)call->in[2],
                 t = (double)*(const float *)call->in[3];
    job j = {.call = call,
             .type = call->sig->in[1].type,
             .vector = shape->rank<2, .w = call->out[0], .r = call->out[1], .c = call->out[2],
                                   .factor = call->sig->in_count> 6
                           ? *(const float *)call->in[6]
                           : 1.0f,
             .share = pow(t, p->exponent),
             .least = p->epsilon * p->epsilon,
             .keep = 1.0 - rate * p->decay,
             .sums = call->workspace};
    j.g = (const char *)call->in[1] + (uint64_t)hri_update_skip(call->sig) * hr_type_bytes(j.type);
    hri_adafactor_cut(shape, &j.rows, &j.columns);
    if (j.factor == 0.0f || !isfinite(j.factor) || count == 0) {
        return HR_OK;
    }
    const double size = rms(&j, count, weight_range);
    const double root = 1.0 / sqrt(t);
    const double step = (size > p->floor ? size : p->floor) * (rate < root ? rate : root);
    hri_threads_range(call->threads, (uint64_t)j.rows, ROWS, row_range, &j);
    hri_threads_range(call->threads, (uint64_t)j.columns, COLUMNS, column_range, &j);
    double mean = 0;
    for (int64_t i = 0; i < j.rows; i++) {
        mean += (double)j.r[i] / (double)j.rows;
    }
    j.over = 1.0 / (mean > p->epsilon ? mean : p->epsilon);
    const double large = rms(&j, count, norm_range) / p->clip;
    j.by = (p->relative ? step : rate) / (large > 1.0 ? large : 1.0);
    hri_threads_range(call->threads, count, CHUNK, apply_range, &j);
    return HR_OK;
}

static uint64_t adafactor_workspace(const hri_sig *s, uint32_t threads) {
    (void)threads;
    return hri_chunk_count((uint64_t)hr_shape_count(&s->in[0].shape), CHUNK) * sizeof(double);
}

/* ---- on a GPU ---- */

HRI_CU(adafactor);

enum { THREADS = 256, PIECE = 16384, SLAB = 64, FINISH = 1024, NUMBERS = 4 };

/* As in adafactor.cu. */
typedef struct table {
    hr_addr w, g, r, c, rate, t, factor;
    hr_addr numbers, sums, slabs; /* in the workspace */
    int64_t rows, columns, pieces, slab_count, vector, relative;
    double exponent, epsilon, floor, clip, decay;
} table;

static void fill_sizes(const hri_sig *s, table *t) {
    hri_adafactor_cut(&s->in[0].shape, &t->rows, &t->columns);
    t->pieces = hri_launch_up(t->rows * t->columns, PIECE);
    t->slab_count = hri_launch_up(t->rows, SLAB);
}

static uint64_t adafactor_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    table t = {.rows = 0};
    (void)gpu;
    (void)variant;
    fill_sizes(s, &t);
    return (uint64_t)(NUMBERS * 2 + t.pieces + t.slab_count * t.columns) * sizeof(float);
}

static hr_status launch(const hri_gpu_call *c, table *t, const char *kernel, int64_t blocks,
                        uint32_t threads) {
    const hri_defines d = hri_launch_defines("-DHR_T=%s", hri_launch_type(c->sig->in[1].type));
    return hri_gpu_launch(c->gpu, &hri_cu_adafactor, d.text, kernel,
                          &(hri_gpu_grid){.x = (uint32_t)blocks, .threads = threads},
                          HRI_GPU_ARGS(t));
}

static hr_status adafactor_cuda(const hri_gpu_call *c) {
    const adafactor_attr *p = c->sig->attr;
    table t = {.w = c->out[0],
               .g =
                   c->in[1] + (uint64_t)hri_update_skip(c->sig) * hr_type_bytes(c->sig->in[1].type),
               .r = c->out[1],
               .c = c->out[2],
               .rate = c->in[2],
               .t = c->in[3],
               .factor = c->sig->in_count > 6 ? c->in[6] : 0,
               .numbers = c->workspace,
               .vector = c->sig->in[0].shape.rank < 2,
               .relative = p->relative,
               .exponent = p->exponent,
               .epsilon = p->epsilon,
               .floor = p->floor,
               .clip = p->clip,
               .decay = p->decay};
    fill_sizes(c->sig, &t);
    if (t.pieces == 0) {
        return HR_OK;
    }
    t.sums = t.numbers + NUMBERS * sizeof(double);
    t.slabs = t.sums + (uint64_t)t.pieces * sizeof(float);
    const int64_t across = hri_launch_up(t.columns, THREADS);
    hr_status status = launch(c, &t, "rows", t.rows, THREADS);
    status = status == HR_OK ? launch(c, &t, "slabs", across * t.slab_count, THREADS) : status;
    status = status == HR_OK ? launch(c, &t, "columns", across, THREADS) : status;
    status = status == HR_OK ? launch(c, &t, "weights", t.pieces, THREADS) : status;
    status = status == HR_OK ? launch(c, &t, "begin", 1, FINISH) : status;
    status = status == HR_OK ? launch(c, &t, "updates", t.pieces, THREADS) : status;
    status = status == HR_OK ? launch(c, &t, "finish", 1, FINISH) : status;
    return status == HR_OK ? launch(c, &t, "apply", t.pieces, THREADS) : status;
}

/* ---- the op ---- */

static hr_status adafactor_infer(hri_infer *c) {
    const hr_shape *w = &c->in[0].shape, *g = &c->in[1].shape;
    int64_t rows, columns;
    hri_adafactor_cut(w, &rows, &columns);
    if (c->in[0].type != HR_TYPE_F32 || !hr_type_is_real(c->in[1].type)) {
        return hri_infer_fail(c, "the weights must be f32 and the gradient a floating-point type");
    }
    if (!hr_shape_same(w, g) &&
        !(g->rank == 2 && g->dim[0] > 0 && g->dim[1] == hr_shape_count(w))) {
        return hri_infer_fail(c, "input 1 does not have the shape of the weights");
    }
    for (uint32_t i = 2; i < c->in_count; i++) {
        const int64_t length = i == 4 ? rows : columns;
        const int state = i == 4 || i == 5;
        if (c->in[i].type != HR_TYPE_F32 || c->in[i].shape.rank != state ||
            (state && c->in[i].shape.dim[0] != length)) {
            return state ? hri_infer_fail(c, "input %u must be f32[%lld]", i, (long long)length)
                         : hri_infer_fail(c, "input %u must be a scalar f32", i);
        }
    }
    c->out[0] = c->in[0];
    c->out[1] = c->in[4];
    c->out[2] = c->in[5];
    return HR_OK;
}

static void adafactor_cost(const hri_sig *s, hri_cost *cost) {
    hri_update_cost(s, cost, 24.0);
}

static const hri_case adafactor_cases[] = {
    {"odd", "f32[7,33] f32[7,33] f32[] f32[] f32[7] f32[33]", .low = 0.5, .high = 2},
    {"all of it", "f32[130,300] f32[130,300] f32[] f32[] f32[130] f32[300] f32[]",
     "exponent=-0.5,floor=2,clip=0.5,decay=0.1", .low = 0.5, .high = 2},
    {"not relative", "f32[20,9] f32[20,9] f32[] f32[] f32[20] f32[9]", "relative=off,clip=100",
     .low = 0.5, .high = 2},
    {"a vector", "f32[20001] f32[20001] f32[] f32[] f32[1] f32[20001]", .low = 0.5, .high = 2},
    {"a number", "f32[] f32[] f32[] f32[] f32[1] f32[1]", .low = 0.5, .high = 2},
    {"a kernel of 3 x 3", "f32[8,3,3,5] f32[8,3,3,5] f32[] f32[] f32[24] f32[15]", .low = 0.5,
     .high = 2},
    {"dimensions of 1", "f32[1,6,1,5] f32[1,6,1,5] f32[] f32[] f32[6] f32[5]", .low = 0.5,
     .high = 2},
    {"bf16 gradient", "f32[33,17] bf16[33,17] f32[] f32[] f32[33] f32[17]", .low = 0.5, .high = 2},
    {"f16 gradient", "f32[33,17] f16[33,17] f32[] f32[] f32[33] f32[17]", .low = 0.5, .high = 2},
    {"empty", "f32[0] f32[0] f32[] f32[] f32[1] f32[0]", .low = 0.5, .high = 2},
    {"states of another shape", "f32[7,33] f32[7,33] f32[] f32[] f32[33] f32[7]",
     .flags = HRI_CASE_BAD},
    {"bf16 weights", "bf16[7,33] f32[7,33] f32[] f32[] f32[7] f32[33]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_adafactor = {
    .name = "adafactor",
    .formula = "r, c = averages of rows and columns of g^2; w -= step * g / sqrt(r c / mean r)",
    .in_min = 6,
    .in_max = 7,
    .out_count = 3,
    .fields = adafactor_fields,
    .attr_bytes = sizeof(adafactor_attr),
    .infer = adafactor_infer,
    .updates = {1, 5, 6},
    .cost = adafactor_cost,
    .host = {.run = adafactor_host, .workspace = adafactor_workspace},
    .cases = HRI_CASES(adafactor_cases),
};

const hri_kernel hri_kernel_cuda_adafactor = {.launch = adafactor_cuda,
                                              .launch_workspace = adafactor_cuda_workspace};
