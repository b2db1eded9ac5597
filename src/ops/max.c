/* max(x; axes, keep) = the largest element over some dimensions, or over all of them, and where it was.
 *
 *   y      of x's type
 *   index  i32, the position among the reduced dimensions, row-major; the first one of equals
 *
 * A NaN counts as the largest.  The gradient goes to that one position: it keeps one i32 a result, where comparing
 * again would keep x and y.  The largest of nothing does not exist, and is refused. */
#include "ops/common/axes.h"
#include "ops/common/reduce_cuda.h"
#include "ops/common/rows.h"

#include <math.h>

enum { TILE = 64 };

static const hri_field max_fields[] = {HRI_AXES_FIELDS, {0}};

static hr_status max_infer(hri_infer *c) {
    uint32_t axes;
    int64_t each = 0;
    const hr_status status = hri_axes_infer(c, &axes, &each);
    if (status != HR_OK) {
        return status;
    }
    if (each < 1 || each > INT32_MAX) {
        return hri_infer_fail(c, "each result would be the largest of %lld elements",
                              (long long)each);
    }
    c->out[1] = (hr_meta){HR_TYPE_I32, c->out[0].shape};
    return HR_OK;
}

static void max_grad(hri_grad *c) {
    const struct {
        hri_dims axes, to;
    } attr = {((const hri_attr_axes *)c->sig->attr)->axes, hri_dims_of(&c->sig->in[0].shape)};
    c->din[0] = HRI_NODE(c->g, "max_grad", &attr, c->dout[0], c->out[1]);
}

static hri_samples max_samples(const hri_sig *s, uint32_t batched) {
    return batched & hri_axes_of(s) & 1u ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

static void max_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = (double)hr_shape_count(&s->in[0].shape);
}

typedef struct task {
    const hri_call *c;
    hri_reduction r;
    int64_t tiles; /* of the inner dimension */
} task;

static int above(float v, float most) {
    return v > most || (v != v && most == most);
}

static void put(const task *t, int64_t i, float most, int32_t index) {
    hri_row_put(&(hri_row_out){t->c->sig->out[0].type, t->c->out[0], 0}, i, most);
    ((int32_t *)t->c->out[1])[i] = index;
}

/* One dense row: the value first, in lanes, then the first place that has it. */
static void max_row(const task *t, int64_t i) {
    const int64_t n = t->r.middle;
    const hri_row x = {t->c->sig->in[0].type, t->c->in[0], i * n};
    float lanes[16], most;
    int64_t k = 0, at = 0;
    int nan = 0;
    for (int lane = 0; lane < 16; lane++) {
        lanes[lane] = -INFINITY;
    }
    for (; x.type == HR_TYPE_F32 && k + 16 <= n; k += 16) {
        const float *v = (const float *)x.data + x.first + k;
        for (int lane = 0; lane < 16; lane++) {
            lanes[lane] = v[lane] > lanes[lane] ? v[lane] : lanes[lane];
            nan |= v[lane] != v[lane];
        }
    }
    most = lanes[0];
    for (int lane = 1; lane < 16; lane++) {
        most = lanes[lane] > most ? lanes[lane] : most;
    }
    for (; k < n; k++) {
        const float v = hri_row_at(&x, k);
        most = v > most ? v : most;
        nan |= v != v;
    }
    while (at + 1 < n && !(nan ? isnan(hri_row_at(&x, at)) : hri_row_at(&x, at) == most)) {
        at++;
    }
    put(t, i, nan ? NAN : most, (int32_t)at);
}

/* A tile of columns, row after row. */
static void max_columns(const task *t, int64_t outer, int64_t column) {
    const hri_reduction *r = &t->r;
    const int64_t width = r->inner - column < TILE ? r->inner - column : TILE;
    float most[TILE], v[TILE];
    int32_t index[TILE] = {0};
    hri_row x = {t->c->sig->in[0].type, t->c->in[0], outer * r->middle * r->inner + column};
    hri_row_load(&x, width, most);
    for (int64_t i = 1; i < r->middle; i++) {
        x.first += r->inner;
        hri_row_load(&x, width, v);
        for (int64_t k = 0; k < width; k++) {
            const int better = above(v[k], most[k]);
            most[k] = better ? v[k] : most[k];
            index[k] = better ? (int32_t)i : index[k];
        }
    }
    for (int64_t k = 0; k < width; k++) {
        put(t, outer * r->inner + column + k, most[k], index[k]);
    }
}

/* Patterns that alternate: each result walks all its elements. */
static void max_general(const task *t, int64_t i) {
    const hri_reduction *r = &t->r;
    const hri_row x = {t->c->sig->in[0].type, t->c->in[0], 0};
    int64_t stride = 1, base = 0, count = 1, kept = i;
    for (int d = r->rank - 1; d >= 0; d--) {
        if (r->sum[d]) {
            count *= r->dim[d];
        } else {
            base += kept % r->dim[d] * stride;
            kept /= r->dim[d];
        }
        stride *= r->dim[d];
    }
    float most = -INFINITY;
    int64_t index = 0;
    for (int64_t k = 0; k < count; k++) {
        int64_t at = base, rest = k;
        stride = 1;
        for (int d = r->rank - 1; d >= 0; d--) {
            if (r->sum[d]) {
                at += rest % r->dim[d] * stride;
                rest /= r->dim[d];
            }
            stride *= r->dim[d];
        }
        const float v = hri_row_at(&x, at);
        if (above(v, most)) {
            most = v;
            index = k;
        }
    }
    put(t, i, most, (int32_t)index);
}

static void max_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        if (!t->r.outer) {
            max_general(t, i);
        } else if (t->r.inner == 1) {
            max_row(t, i);
        } else {
            max_columns(t, i / t->tiles, i % t->tiles * TILE);
        }
    }
}

static hr_status max_host(const hri_call *c) {
    task t = {.c = c};
    hri_reduction_init(&t.r, &c->sig->in[0].shape, hri_axes_of(c->sig));
    if (t.r.results == 0) {
        return HR_OK;
    }
    t.tiles = t.r.outer ? (t.r.inner + TILE - 1) / TILE : 1;
    const int64_t items = t.r.outer ? t.r.outer * t.tiles : t.r.results;
    const int64_t work = hr_shape_count(&c->sig->in[0].shape) / items;
    hri_threads_range(c->threads, (uint64_t)items, (uint64_t)(16384 / (work + 1) + 1), max_range,
                      &t);
    return HR_OK;
}

HRI_CU(reduce);

static hr_status max_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256 };
    hri_reduction r;
    hr_addr in = c->in[0], out = c->out[0], index = c->out[1];
    const hri_defines d = hri_launch_t(c->sig->in[0].type, 1);
    hri_reduction_init(&r, &c->sig->in[0].shape, hri_axes_of(c->sig));
    hri_pattern p = hri_pattern_of(&r);
    int64_t results = r.results, middle = r.middle, inner = r.inner;
    if (results == 0) {
        return HR_OK;
    }
    if (r.outer && inner > 1) {
        return hri_gpu_launch(
            c->gpu, &hri_cu_reduce, d.text, "max_columns",
            &(hri_gpu_grid){.x = hri_launch_blocks(results, THREADS), .threads = THREADS},
            HRI_GPU_ARGS(&in, &out, &index, &results, &middle, &inner));
    }
    const int64_t each = hr_shape_count(&c->sig->in[0].shape) / results;
    return hri_gpu_launch(
        c->gpu, &hri_cu_reduce, d.text, "max_general",
        &(hri_gpu_grid){.x = (uint32_t)results, .threads = each > 256 ? THREADS : 32},
        HRI_GPU_ARGS(&in, &out, &index, &p));
}

static const hri_case max_cases[] = {
    {"scalar", "f32[]"},
    {"all", "f32[7,33]"},
    {"last", "f32[7,33]", "axes=-1"},
    {"first", "f32[70,133]", "axes=0"},
    {"images", "f32[3,5,7,4]", "axes=1x2,keep"},
    {"both ends", "f32[5,3,4]", "axes=0x2"},
    {"alternating", "f32[2,3,4,5]", "axes=1x3,keep"},
    {"one long row", "f32[30001]"},
    {"no results", "f32[0,3]", "axes=1"},
    {"bf16", "bf16[9,7]", "axes=0"},
    {"f16", "f16[9,7]", "axes=1"},
    {"long rows, bf16", "bf16[3,600]", "axes=1"},
    {"images, f16", "f16[2,9,16]", "axes=1"},
    {"of nothing", "f32[0,3]", "axes=0", .flags = HRI_CASE_BAD},
    {"axis out of range", "f32[2]", "axes=1", .flags = HRI_CASE_BAD},
    {"integers", "i32[3]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_max = {
    .name = "max",
    .formula = "y = max of x over axes, index = where",
    .in_min = 1,
    .in_max = 1,
    .out_count = 2,
    .fields = max_fields,
    .attr_bytes = sizeof(hri_attr_axes),
    .infer = max_infer,
    .grad = max_grad,
    .keeps = {{.out = 2}},
    .aux = 2,
    .samples = max_samples,
    .cost = max_cost,
    .host = {.run = max_host},
    .cases = HRI_CASES(max_cases),
};

const hri_kernel hri_kernel_cuda_max = {.launch = max_cuda};
