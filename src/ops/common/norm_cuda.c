/* The launches of layer norm, RMS norm and group norm on a GPU (src/ops/cuda/norm.cu).
 *
 * Rows that fit into the registers of a warp or of a block, 8,192 numbers at most, are read once; longer rows and groups
 * go through the kernels for (N, S, G, K).  How many partial rows gamma and beta have follows from the shape alone.  The
 * work space of a gradient is those rows, (parts, 2, G K) f32, and behind them (parts, G K) for sums of what it writes, where it may
 * be asked for them (hri_norm_grad_summed_cuda). */
#include "ops/common/norm.h"

#include <string.h>

#include "ops/common/gpu.h"
#include "ops/common/launch.h"
#include "ops/common/reduce_cuda.h"

HRI_CU(norm);

enum { THREADS = 256, HELD = 32, PARTS = 132 * 2, ROWS_A_PART = 32 };

typedef struct cut {
    int64_t width; /* G K */
    int pack, row, keep;
    int in_registers;
    int64_t parts; /* of the gradient */
    char defines[224];
} cut;

static cut cut_of(const hri_norm *v, hr_type type) {
    cut c = {.width = v->g * v->k, .pack = hri_gpu_pack(type, v->k), .row = 32, .keep = 1};
    if (v->s == 1 && v->g == 1) {
        const int64_t packs = c.width / c.pack;
        c.row = hri_gpu_up(packs, 32) * c.pack <= HELD ? 32 : THREADS;
        c.in_registers = hri_gpu_up(packs, c.row) * c.pack <= HELD;
        c.keep = c.in_registers ? (int)hri_gpu_up(packs, c.row) : 1;
        c.keep = c.keep > 0 ? c.keep : 1;
    }
    c.parts =
        c.in_registers ? hri_gpu_up(v->n, THREADS / c.row) : hri_gpu_up(v->n * v->s, ROWS_A_PART);
    c.parts = c.parts < PARTS ? c.parts : PARTS;
    return c;
}

static void define(cut *c, const hri_norm *v, hr_type type, hr_type gamma, hr_type beta,
                   int backward) {
    snprintf(c->defines, sizeof c->defines,
             "-DELEM=%s -DPACK=%d -DGAMMA=%s -DBETA=%s -DRMS=%d -DROW=%d -DKEEP=%d "
             "-DBACKWARD=%d -DGROUPED=%d",
             hri_gpu_type(type), c->pack, hri_gpu_type(gamma), hri_gpu_type(beta), v->rms, c->row,
             c->keep, backward, !c->in_registers);
}

static void define_more(cut *c, const char *text) {
    const size_t used = strlen(c->defines);
    snprintf(c->defines + used, sizeof c->defines - used, "%s", text);
}

/* Where x comes from: it is there (`more` 0), or is the sum of two, to be left at `whole` where somebody may read it. */
typedef struct arrival {
    hr_addr x, more, whole;
} arrival;

static hr_status run_norm(const hri_norm *v, const hri_gpu_call *c, double epsilon, arrival from) {
    const hri_sig *s = c->sig;
    cut k = cut_of(v, s->in[0].type);
    hr_addr x = from.x, gamma = c->in[1], beta = v->rms ? 0 : c->in[2], y = c->out[0];
    hr_addr mean = v->rms ? 0 : c->out[1], inv = c->out[v->rms ? 1 : 2];
    int64_t rows = v->n, places = v->s;
    int32_t width = (int32_t)k.width, groups = (int32_t)v->g, channels = (int32_t)v->k;
    float eps = (float)epsilon;
    if (v->n * v->g == 0) {
        return HR_OK;
    }
    define(&k, v, s->in[0].type, s->in[1].type, v->rms ? HR_TYPE_F32 : s->in[2].type, 0);
    if (from.more) {
        define_more(&k, " -DSUM=1");
    }
    if (k.in_registers) {
        const hri_gpu_grid grid = {.x = (uint32_t)hri_gpu_up(rows, THREADS / k.row),
                                   .threads = THREADS};
        return hri_gpu_launch(c->gpu, &hri_cu_norm, k.defines, "norm_rows", &grid,
                              HRI_GPU_ARGS(&x, &from.more, &from.whole, &gamma, &beta, &y, &mean,
                                           &inv, &rows, &width, &eps));
    }
    const hri_gpu_grid grid = {.x = (uint32_t)(v->n * v->g), .threads = THREADS};
    return hri_gpu_launch(
        c->gpu, &hri_cu_norm, k.defines, "norm_groups", &grid,
        HRI_GPU_ARGS(&x, &gamma, &beta, &y, &mean, &inv, &places, &groups, &channels, &eps));
}

hr_status hri_norm_cuda(const hri_norm *v, const hri_gpu_call *c, double epsilon) {
    return run_norm(v, c, epsilon, (arrival){.x = c->in[0]});
}

/* ---- together with a sum: rows lie over one another whole, or not at all ---- */

static int in_rows(hr_addr a, hr_addr b, uint64_t bytes) {
    return a == b || hri_launch_apart(a, bytes, b, bytes);
}

hr_status hri_norm_sum_cuda(const hri_norm *v, const hri_gpu_call *c, double eps, hr_addr a,
                            hr_addr b) {
    const hri_sig *s = c->sig;
    const uint64_t bytes = hr_meta_bytes(&s->in[0]);
    const hr_addr of[] = {a, b}, whole = c->in[0], y = c->out[0];
    int good = cut_of(v, s->in[0].type).in_registers && v->n > 0 && in_rows(whole, y, bytes);
    for (int i = 0; i < 2; i++) {
        good = good && in_rows(of[i], whole, bytes) && in_rows(of[i], y, bytes);
        for (uint32_t k = 1; k < s->out_count; k++) { /* statistics, while other rows are read */
            const uint64_t size = hr_meta_bytes(&s->out[k]);
            good = good && hri_launch_apart(of[i], bytes, c->out[k], size) &&
                   hri_launch_apart(whole, bytes, c->out[k], size);
        }
    }
    return good ? run_norm(v, c, eps, (arrival){a, b, whole == y ? 0 : whole}) : HR_E_UNSUPPORTED;
}

/* Whether the parts of its rows are those of a sum of their columns; one part would not be joined. */
static int may_total(const hri_norm *v, hr_type type, const cut *c) {
    return c->in_registers && c->row == 32 && c->parts > 1 &&
           c->pack == (int)(16 / hr_type_bytes(type)) &&
           hri_turns(type, v->n, c->width) == c->parts;
}

uint64_t hri_norm_grad_cuda_workspace(const hri_norm *v, hr_type type) {
    const cut c = cut_of(v, type);
    return (uint64_t)(c.parts * (may_total(v, type, &c) ? 3 : 2) * c.width) * sizeof(float);
}

/* What the kernel needs to make y again; see norm.cu. */
typedef struct again_y {
    hr_addr beta, y, mean, inv;
    float eps;
} again_y;

/* Where dx goes: to its place (0: to none), and, added to `other`, to `to`.  `again`: the forward call in the same launch; `total`: the
 * sum of the columns of what is written last; NULL: none. */
typedef struct departure {
    hr_addr dx, other, to;
    const hri_gpu_call *again, *total;
} departure;

static again_y again_of(const hri_norm *v, const hri_gpu_call *again) {
    const hri_norm_attr *p = again->sig->attr;
    return (again_y){.beta = v->rms ? 0 : again->in[2],
                     .y = again->out[0],
                     .mean = v->rms ? 0 : again->out[1],
                     .inv = again->out[v->rms ? 1 : 2],
                     .eps = (float)p->eps};
}

/* dx, and the partial rows in the work space. */
static hr_status launch_parts(const hri_norm *v, const hri_gpu_call *c, const cut *k,
                              departure where) {
    hr_addr dy = c->in[0], x = c->in[1], gamma = c->in[2], mean = v->rms ? 0 : c->in[3];
    hr_addr inv = c->in[v->rms ? 3 : 4], dx = where.dx, partial = c->workspace;
    hr_addr totals = partial + (uint64_t)(k->parts * 2 * k->width) * sizeof(float);
    int64_t places = v->s, rows = v->n * v->s;
    int32_t width = (int32_t)k->width, groups = (int32_t)v->g, channels = (int32_t)v->k;
    if (k->in_registers) {
        const hri_gpu_grid grid = {.x = (uint32_t)k->parts, .threads = THREADS};
        again_y again = where.again ? again_of(v, where.again) : (again_y){0};
        return hri_gpu_launch(c->gpu, &hri_cu_norm, k->defines, "norm_rows_grad", &grid,
                              HRI_GPU_ARGS(&dy, &x, &gamma, &mean, &inv, &dx, &where.other,
                                           &where.to, &partial, &totals, &rows, &width, &again));
    }
    /* The sums come first: dx may lie over dy or x. */
    const hri_gpu_grid columns = {
        .x = (uint32_t)hri_gpu_up(width, THREADS), .y = (uint32_t)k->parts, .threads = THREADS};
    const hri_gpu_grid grid = {.x = (uint32_t)(v->n * v->g), .threads = THREADS};
    const hr_status status = hri_gpu_launch(
        c->gpu, &hri_cu_norm, k->defines, "norm_columns", &columns,
        HRI_GPU_ARGS(&dy, &x, &mean, &inv, &partial, &rows, &places, &groups, &channels));
    return status != HR_OK
               ? status
               : hri_gpu_launch(
                     c->gpu, &hri_cu_norm, k->defines, "norm_groups_grad", &grid,
                     HRI_GPU_ARGS(&dy, &x, &gamma, &mean, &inv, &dx, &places, &groups, &channels));
}

static hr_status run_grad(const hri_norm *v, const hri_gpu_call *c, departure where) {
    const hri_sig *s = c->sig;
    cut k = cut_of(v, s->in[1].type);
    hr_addr dgamma = c->out[1], dbeta = v->rms ? 0 : c->out[2], partial = c->workspace;
    int32_t width = (int32_t)k.width, parts = (int32_t)k.parts;
    hr_status status = HR_OK;
    if (width == 0) {
        return HR_OK;
    }
    const hri_sig *f = where.again ? where.again->sig : NULL;
    define(&k, v, s->in[1].type, s->in[2].type, f && !v->rms ? f->in[2].type : HR_TYPE_F32, 1);
    define_more(&k, where.to ? " -DSUM=1" : "");
    define_more(&k, f ? " -DAGAIN=1" : "");
    define_more(&k, where.total ? " -DTOTAL=1" : "");
    if (parts > 0) {
        status = launch_parts(v, c, &k, where);
    }
    const hri_gpu_grid grid = {.x = (uint32_t)hri_gpu_up(width, 8), .threads = 512};
    if (status == HR_OK) {
        status = hri_gpu_launch(c->gpu, &hri_cu_norm, k.defines, "norm_finish", &grid,
                                HRI_GPU_ARGS(&partial, &dgamma, &dbeta, &width, &parts));
    }
    return status == HR_OK && where.total
               ? hri_turns_combine(c->gpu, s->out[0].type, k.width, k.parts,
                                   partial + (uint64_t)(k.parts * 2 * k.width) * sizeof(float),
                                   where.total->out[0])
               : status;
}

hr_status hri_norm_grad_cuda(const hri_norm *v, const hri_gpu_call *c) {
    return run_grad(v, c, (departure){.dx = c->out[0]});
}

/* Whether the forward call may be made in the same launch: the gradient reads its statistics, and nobody y, which lies apart. */
static int may_do_again(const hri_norm *v, const hri_gpu_call *c, const hri_gpu_call *again) {
    const hri_sig *s = c->sig;
    const uint64_t bytes = hr_meta_bytes(&s->in[1]),
                   work = hri_norm_grad_cuda_workspace(v, s->in[1].type);
    const hr_addr y = again->out[0];
    const uint32_t statistics = v->rms ? 1 : 2;
    int good = cut_of(v, s->in[1].type).in_registers && v->n > 0 && v->k > 0 &&
               again->in[0] == c->in[1] && again->in[1] == c->in[2] &&
               again->sig->in[1].type == s->in[2].type &&
               hri_launch_apart(y, bytes, c->workspace, work);
    for (uint32_t i = 0; i < s->in_count; i++) {
        good = good && hri_launch_apart(y, bytes, c->in[i], hr_meta_bytes(&s->in[i]));
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        good = good && hri_launch_apart(y, bytes, c->out[k], hr_meta_bytes(&s->out[k]));
    }
    for (uint32_t k = 1; k <= statistics; k++) {
        const uint64_t size = hr_meta_bytes(&again->sig->out[k]);
        good = good && again->out[k] == c->in[2 + k] &&
               hri_launch_apart(again->out[k], size, c->workspace, work);
        for (uint32_t j = 0; j < s->out_count; j++) {
            good =
                good && hri_launch_apart(again->out[k], size, c->out[j], hr_meta_bytes(&s->out[j]));
        }
    }
    return good;
}

hr_status hri_norm_grad_beside_cuda(const hri_norm *v, const hri_gpu_call *c,
                                    const hri_gpu_call *again) {
    return may_do_again(v, c, again) ? run_grad(v, c, (departure){.dx = c->out[0], .again = again})
                                     : HR_E_UNSUPPORTED;
}

/* Whether the forward call in the same launch writes nothing that is added, and reads nothing that is written. */
static int lie_apart(const hri_gpu_call *again, hr_addr other, hr_addr to, uint64_t bytes) {
    const hri_sig *s = again->sig;
    int good = hri_launch_apart(to, bytes, again->out[0], bytes);
    for (uint32_t i = 1; i < s->in_count; i++) {
        good = good && hri_launch_apart(to, bytes, again->in[i], hr_meta_bytes(&s->in[i]));
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        good = good && hri_launch_apart(other, bytes, again->out[k], hr_meta_bytes(&s->out[k]));
    }
    return good;
}

/* Whether what is written may go to `to`, added to `other`, too. */
static int may_add(const hri_norm *v, const hri_gpu_call *c, hr_addr other, hr_addr to,
                   const hri_gpu_call *again) {
    const hri_sig *s = c->sig;
    const uint64_t bytes = hr_meta_bytes(&s->out[0]);
    const cut k = cut_of(v, s->in[1].type);
    const hr_addr dx = c->out[0], rows[] = {c->in[0], c->in[1], other, dx};
    int good =
        k.in_registers && v->n > 0 && k.width > 0 && in_rows(dx, other, bytes) &&
        hri_launch_apart(to, bytes, c->workspace, hri_norm_grad_cuda_workspace(v, s->in[1].type));
    for (int i = 0; i < 4; i++) {
        good = good && in_rows(to, rows[i], bytes);
    }
    for (uint32_t i = 2; i < s->in_count; i++) { /* read for one row while others are written */
        good = good && hri_launch_apart(to, bytes, c->in[i], hr_meta_bytes(&s->in[i]));
    }
    for (uint32_t i = 1; i < s->out_count; i++) {
        good = good && hri_launch_apart(to, bytes, c->out[i], hr_meta_bytes(&s->out[i]));
    }
    return good && (!again || lie_apart(again, other, to, bytes));
}

hr_status hri_norm_grad_added_cuda(const hri_norm *v, const hri_gpu_call *c, hr_addr other,
                                   hr_addr to, const hri_gpu_call *again) {
    const int good = may_add(v, c, other, to, again) && (!again || may_do_again(v, c, again));
    return good ? run_grad(v, c,
                           (departure){to == c->out[0] ? 0 : c->out[0], other, to, again, NULL})
                : HR_E_UNSUPPORTED;
}

/* The sums are written by a launch of their own, when nothing but their parts is read. */
hr_status hri_norm_grad_summed_cuda(const hri_norm *v, const hri_gpu_call *c, hr_addr other,
                                    hr_addr to, const hri_gpu_call *again,
                                    const hri_gpu_call *total) {
    const hr_type type = c->sig->in[1].type;
    const cut k = cut_of(v, type);
    const int good =
        may_total(v, type, &k) && (!to || may_add(v, c, other, to, again)) &&
        (!again || may_do_again(v, c, again)) &&
        hri_launch_wide(total->in[0] | total->out[0]) && /* or the sum alone is cut otherwise */
        hri_launch_apart(total->out[0], hr_meta_bytes(&total->sig->out[0]), c->workspace,
                         hri_norm_grad_cuda_workspace(v, type));
    const hr_addr dx = to && to == c->out[0] ? 0 : c->out[0];
    return good ? run_grad(v, c, (departure){dx, other, to, again, total}) : HR_E_UNSUPPORTED;
}
