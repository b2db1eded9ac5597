/* gather_grad(dy, ids; rows, axis): the rows of dy added up by their ids: the gradient of gather.
 *
 *   dy (ids' shape, ...)      ids (...)   dtable (rows, ...)
 *   dy (A, ids' shape, B)     ids (...)   dtable (A, rows, B)     A: the dimensions before the axis
 *
 * First the ids are sorted by counting (in order among equals); then each row of the table adds its own rows of dy, in
 * f32, in the order of the ids, 64 to a block.  So a row has one writer, rows nobody asked for are written once, as
 * zeros, and the bits do not depend on the number of threads.  On a GPU the same with a radix sort (cuda/gather.cu);
 * there an id outside of the table counts nowhere.  The workspace holds one i32 a table row and one an id. */
#include "ops/common/gather.h"
#include "ops/common/launch.h"
#include "ops/common/rows.h"

#include <string.h>

enum { TILE = 64, BLOCK = 64 };

static const hri_field gather_grad_fields[] = {
    {"rows", "rows of the table", offsetof(hri_gather_attr, rows), HRI_FIELD_INT, "1", .min = 0,
     .max = 2147483646},
    {"axis", "the table's axis that the ids count along; below 0: from the end",
     offsetof(hri_gather_attr, axis), HRI_FIELD_INT, "0", .min = -HR_RANK_MAX, .max = HR_RANK_MAX},
    {0},
};

static hr_status gather_grad_infer(hri_infer *c) {
    const hri_gather_attr *p = c->attr;
    const hr_shape *dy = &c->in[0].shape, *ids = &c->in[1].shape;
    if (!hr_type_is_real(c->in[0].type) ||
        (c->in[1].type != HR_TYPE_I32 && c->in[1].type != HR_TYPE_I64)) {
        return hri_infer_fail(c, "the gradient must be floating point, the ids i32 or i64");
    }
    const int axis = hri_gather_axis(p, dy->rank - ids->rank + 1);
    int same = dy->rank - ids->rank < HR_RANK_MAX && axis >= 0 && dy->rank >= axis + ids->rank;
    for (int d = 0; same && d < ids->rank; d++) {
        same &= dy->dim[axis + d] == ids->dim[d];
    }
    if (!same || hr_shape_count(ids) > INT32_MAX || p->rows < 0 || p->rows >= INT32_MAX) {
        return hri_infer_fail(c,
                              "the gradient must have the shape of the ids at the axis, both below "
                              "2^31 rows");
    }
    hr_shape *out = &c->out[0].shape;
    c->out[0] = (hr_meta){.type = c->in[0].type};
    for (int d = 0; d < axis; d++) {
        out->dim[out->rank++] = dy->dim[d];
    }
    out->dim[out->rank++] = p->rows;
    for (int d = axis + ids->rank; d < dy->rank; d++) {
        out->dim[out->rank++] = dy->dim[d];
    }
    return HR_OK;
}

static hri_samples gather_grad_samples(const hri_sig *s, uint32_t batched) {
    return !batched                      ? HRI_SAMPLES_APART
           : !hri_gather_grad_of(s).axis ? HRI_SAMPLES_SUM
           : batched & 2u                ? HRI_SAMPLES_COUPLED
                                         : HRI_SAMPLES_APART;
}

static void gather_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = (double)hr_shape_count(&s->in[0].shape);
}

static int64_t gather_grad_ids(const hri_sig *s) {
    return hri_gather_grad_of(s).rows;
}

static uint64_t gather_grad_workspace(const hri_sig *s, uint32_t threads) {
    const hri_gather_attr *p = s->attr;
    (void)threads;
    return ((uint64_t)p->rows + 1 + (uint64_t)hr_shape_count(&s->in[1].shape)) * sizeof(int32_t);
}

typedef struct task {
    const hri_call *c;
    hri_gather s;
    const int32_t *end;   /* [rows]: where the ids of a row end in `order` */
    const int32_t *order; /* [ids]: positions, sorted by their id */
} task;

/* y[0..n) = the sum of the rows of dy in order[first..end), elements from `column` on. */
static void add_rows(const task *t, int64_t first, int64_t end, int64_t column, int64_t n,
                     const hri_row_out *y) {
    float total[TILE] = {0};
    for (int64_t block = first; block < end; block += BLOCK) {
        const int64_t stop = end - block < BLOCK ? end : block + BLOCK;
        float sum[TILE] = {0}, v[TILE];
        for (int64_t i = block; i < stop; i++) {
            const hri_row x = {t->c->sig->in[0].type, t->c->in[0],
                               t->order[i] * t->s.width + column};
            if (x.type == HR_TYPE_F32) {
                const float *row = (const float *)x.data + x.first;
                for (int64_t k = 0; k < n; k++) {
                    sum[k] += row[k];
                }
            } else {
                hri_row_load(&x, n, v);
                for (int64_t k = 0; k < n; k++) {
                    sum[k] += v[k];
                }
            }
        }
        for (int64_t k = 0; k < n; k++) {
            total[k] += sum[k];
        }
    }
    for (int64_t k = 0; k < n; k++) {
        hri_row_put(y, k, total[k]);
    }
}

static void table_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    const hr_type type = t->c->sig->out[0].type;
    const int64_t width = t->s.width;
    const size_t bytes = hr_type_bytes(type) * (size_t)width;
    (void)worker;
    for (int64_t row = (int64_t)begin; row < (int64_t)end; row++) {
        const int64_t id = row % t->s.rows, skip = row / t->s.rows * t->s.picks * width;
        const int64_t first = id ? t->end[id - 1] : 0;
        if (first == t->end[id]) {
            memset((char *)t->c->out[0] + (size_t)row * bytes, 0, bytes);
            continue;
        }
        for (int64_t column = 0; column < width; column += TILE) {
            const int64_t n = width - column < TILE ? width - column : TILE;
            const hri_row_out y = {type, t->c->out[0], row * width + column};
            add_rows(t, first, t->end[id], skip + column, n, &y);
        }
    }
}

/* Counts, turns counts into first places, and puts each position into its place; `start` ends as the ends. */
static hr_status sort_ids(const hri_call *c, int64_t rows, int64_t count, int32_t *start,
                          int32_t *order) {
    const hr_type type = c->sig->in[1].type;
    int32_t at = 0;
    memset(start, 0, (size_t)(rows + 1) * sizeof *start);
    for (int64_t i = 0; i < count; i++) {
        const int64_t id = hri_row_id(type, c->in[1], i);
        if (id < 0 || id >= rows) {
            return HR_E_RANGE;
        }
        start[id]++;
    }
    for (int64_t row = 0; row < rows; row++) {
        const int32_t n = start[row];
        start[row] = at;
        at += n;
    }
    for (int64_t i = 0; i < count; i++) {
        order[start[hri_row_id(type, c->in[1], i)]++] = (int32_t)i;
    }
    return HR_OK;
}

static hr_status gather_grad_host(const hri_call *c) {
    const hri_gather s = hri_gather_grad_of(c->sig);
    int32_t *start = c->workspace, *order = start + s.rows + 1;
    const hr_status status = sort_ids(c, s.rows, s.picks, start, order);
    if (status != HR_OK || hr_shape_count(&c->sig->out[0].shape) == 0) {
        return status;
    }
    task t = {c, s, start, order};
    hri_threads_range(c->threads, (uint64_t)(s.outer * s.rows), hri_row_chunk(s.width), table_rows,
                      &t);
    return HR_OK;
}

/* ---- on a GPU ---- */

HRI_CU(gather);

enum { SORT_TILE = 1024, SORT_BITS = 8, GPU_THREADS = 256, SHORT = 16, SIDES_MOST = 32768 };

/* Where things lie in the work space: two lists of keys and of positions, first places of digits, starts of rows. */
typedef struct sorting {
    hr_addr keys[2], order[2], table, start;
    int64_t n, rows, tiles;
    uint64_t bytes;
} sorting;

static sorting sorting_of(const hri_sig *s, hr_addr at) {
    sorting x = {.n = hr_shape_count(&s->in[1].shape), .rows = hri_gather_grad_of(s).rows};
    const hr_addr first = at;
    x.tiles = hri_launch_up(x.n, SORT_TILE);
    hr_addr *const lists[] = {&x.keys[0], &x.keys[1], &x.order[0], &x.order[1], &x.table, &x.start};
    const int64_t counts[] = {x.n, x.n, x.n, x.n, x.tiles << SORT_BITS, x.rows + 1};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        *lists[i] = at;
        at += (uint64_t)hri_launch_up(counts[i], 64) * 64 * sizeof(uint32_t);
    }
    x.bytes = at - first;
    return x;
}

static uint64_t gather_grad_cuda_workspace(const hri_sig *s, hri_gpu *gpu, uint32_t variant) {
    (void)gpu;
    (void)variant;
    return sorting_of(s, 0).bytes;
}

/* One digit: from list `from` (-1: the ids themselves) to the other one. */
static hr_status sort_digit(const hri_gpu_call *c, const char *defines, sorting *x, int from,
                            uint32_t shift) {
    hr_addr ids = c->in[1], keys = from < 0 ? 0 : x->keys[from],
            order = from < 0 ? 0 : x->order[from];
    hr_addr new_keys = x->keys[from == 0], new_order = x->order[from == 0];
    const hri_gpu_grid grid = {.x = (uint32_t)x->tiles, .threads = SORT_TILE};
    int64_t digits = x->tiles << SORT_BITS;
    uint32_t wide = c->sig->in[1].type == HR_TYPE_I64;
    hr_status status =
        hri_gpu_launch(c->gpu, &hri_cu_gather, defines, "count", &grid,
                       HRI_GPU_ARGS(&ids, &wide, &keys, &x->table, &x->n, &x->rows, &shift));
    if (status == HR_OK) {
        status = hri_gpu_launch(c->gpu, &hri_cu_gather, defines, "places",
                                &(hri_gpu_grid){.x = 1, .threads = SORT_TILE},
                                HRI_GPU_ARGS(&x->table, &digits));
    }
    if (status == HR_OK) {
        status = hri_gpu_launch(c->gpu, &hri_cu_gather, defines, "move", &grid,
                                HRI_GPU_ARGS(&ids, &wide, &keys, &order, &new_keys, &new_order,
                                             &x->table, &x->n, &x->rows, &shift));
    }
    return status;
}

/* Sums from the sorted list `in` to `out`; with `other` (0: none) its numbers are added. */
static hr_status add_sorted(const hri_gpu_call *c, const char *defines, sorting *x, int in,
                            const hri_gather *s, int each, hr_addr other, hr_addr out) {
    hr_addr dy = c->in[0];
    int64_t width = s->width, outer = s->outer;
    const uint32_t sides = (uint32_t)hri_launch_min(outer, SIDES_MOST);
    uint32_t tiles = hri_launch_blocks(width, 32 * each);
    hr_status status = hri_gpu_launch(
        c->gpu, &hri_cu_gather, defines, "starts",
        &(hri_gpu_grid){.x = hri_launch_blocks(x->rows + 1, GPU_THREADS), .threads = GPU_THREADS},
        HRI_GPU_ARGS(&x->keys[in], &x->start, &x->n, &x->rows));
    if (status == HR_OK) {
        status = hri_gpu_launch(c->gpu, &hri_cu_gather, defines, "add_short",
                                &(hri_gpu_grid){.x = hri_launch_blocks(x->rows, GPU_THREADS / 32),
                                                .y = sides,
                                                .threads = GPU_THREADS},
                                HRI_GPU_ARGS(&dy, &x->order[in], &x->start, &out, &x->rows, &width,
                                             &x->n, &outer, &other));
    }
    if (status == HR_OK) {
        status = hri_gpu_launch(c->gpu, &hri_cu_gather, defines, "add_long",
                                &(hri_gpu_grid){.x = hri_launch_blocks(x->n, SHORT) * tiles,
                                                .y = sides,
                                                .threads = GPU_THREADS},
                                HRI_GPU_ARGS(&dy, &x->keys[in], &x->order[in], &x->start, &out,
                                             &x->rows, &width, &tiles, &x->n, &outer, &other));
    }
    return status;
}

static hr_status sort_and_add(const hri_gpu_call *c, hr_addr other, hr_addr to) {
    const hr_meta *out = &c->sig->out[0];
    sorting x = sorting_of(c->sig, c->workspace);
    const hri_gather s = hri_gather_grad_of(c->sig);
    const int each =
        hri_launch_wide(c->in[0] | other | to) ? hri_launch_width(out->type, s.width) : 1;
    const hri_defines d = hri_launch_t(out->type, each);
    hr_status status = HR_OK;
    int in = -1;
    /* x.rows itself is the key of ids outside. */
    for (uint32_t shift = 0; status == HR_OK && (shift == 0 || x.rows >> shift);
         shift += SORT_BITS) {
        status = sort_digit(c, d.text, &x, in, shift);
        in = in == 0;
    }
    return status == HR_OK ? add_sorted(c, d.text, &x, in, &s, each, other, to) : status;
}

static hr_status gather_grad_cuda(const hri_gpu_call *c) {
    const hr_meta *out = &c->sig->out[0];
    if (hr_shape_count(&out->shape) == 0) {
        return HR_OK;
    }
    return hr_shape_count(&c->sig->in[1].shape) == 0
               ? hri_gpu_fill(c->gpu, c->out[0], 0, hr_meta_bytes(out))
               : sort_and_add(c, 0, c->out[0]);
}

/* With the sum behind it: rows that nobody asked for are not written first, and not read again. */
static hr_status gather_grad_added_cuda(const hri_gpu_call *c, hr_addr other, hr_addr to,
                                        const hri_gpu_call *again) {
    const hri_sig *s = c->sig;
    const uint64_t bytes = hr_meta_bytes(&s->out[0]);
    if (again || bytes == 0 || hr_shape_count(&s->in[1].shape) == 0 || to != c->out[0] ||
        !hri_launch_apart(to, bytes, c->in[0], hr_meta_bytes(&s->in[0])) ||
        !hri_launch_apart(to, bytes, c->in[1], hr_meta_bytes(&s->in[1])) ||
        !hri_launch_apart(to, bytes, c->workspace, c->workspace_bytes) ||
        !hri_launch_apart(other, bytes, c->workspace, c->workspace_bytes) ||
        (other != to && !hri_launch_apart(other, bytes, to, bytes))) {
        return HR_E_UNSUPPORTED;
    }
    return sort_and_add(c, other, to);
}

static const hri_case gather_grad_cases[] = {
    {"embedding", "f32[2,5,7] i32[2,5]", "rows=33", .ids = 33, .batched = 3},
    {"many of few", "f32[500,70] i64[500]", "rows=3", .ids = 3},
    {"one id", "f32[7] i32[]", "rows=10"},
    {"numbers", "f32[9] i32[9]", "rows=10"},
    {"blocks", "f32[4,2,3] i32[4]", "rows=10"},
    {"no ids", "f32[0,7] i32[0]", "rows=10"},
    {"no columns", "f32[4,0] i32[4]", "rows=10"},
    {"bf16", "bf16[30,7] i32[30]", "rows=10"},
    {"f16", "f16[30,7] i32[30]", "rows=10"},
    {"wide", "f32[70,64] i32[70]", "rows=300", .ids = 300},
    {"wide of few, bf16", "bf16[500,64] i64[500]", "rows=5", .ids = 5, .tolerance = 1e-2},
    {"wide of few, f16", "f16[300,72] i32[300]", "rows=20", .ids = 20, .tolerance = 1e-2},
    {"a large table", "f32[2000,4] i32[2000]", "rows=70000", .ids = 70000},
    {"columns", "f32[5,9] i32[9]", "rows=10,axis=-1"},
    {"the middle", "f32[3,40,4] i64[40]", "rows=2,axis=1", .ids = 2, .batched = 1},
    {"the middle of many", "f32[3,2,4,64] i32[2,4]", "rows=20,axis=1", .ids = 20},
    {"shapes differ", "f32[9,7] i32[8]", "rows=10", .flags = HRI_CASE_BAD},
    {"real ids", "f32[9,7] f32[9]", "rows=10", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_gather_grad = {
    .name = "gather_grad",
    .formula = "dtable[r] = sum of dy[i] where ids[i] = r",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = gather_grad_fields,
    .attr_bytes = sizeof(hri_gather_attr),
    .infer = gather_grad_infer,
    .samples = gather_grad_samples,
    .cost = gather_grad_cost,
    .ids = gather_grad_ids,
    .host = {.run = gather_grad_host, .workspace = gather_grad_workspace},
    .cases = HRI_CASES(gather_grad_cases),
};

const hri_kernel hri_kernel_cuda_gather_grad = {
    .launch = gather_grad_cuda,
    .launch_workspace = gather_grad_cuda_workspace,
    .launch_added = gather_grad_added_cuda,
};
