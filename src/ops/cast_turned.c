/* cast_turned(x; to): a matrix turned, its numbers as another floating-point type: y[j][i] = x[i][j].
 *
 * Steps with small types have it for weights that products with a bias read (step/turn.c): cuBLASLt adds a bias faster to products
 * whose second operand lies so.  Rounding is that of cast; the gradient turns dy back. */
#include "graph/half.h"
#include "ops/common/launch.h"

typedef struct cast_turned_attr {
    int to; /* hr_type */
} cast_turned_attr;

static const char *const cast_turned_types[] = {
#define CAST_NAME(NAME, TEXT, BYTES, REAL) TEXT,
    HR_TYPE_MAP(CAST_NAME)
#undef CAST_NAME
        NULL};

static const hri_field cast_turned_fields[] = {
    {"to", "the type of the result", offsetof(cast_turned_attr, to), HRI_FIELD_ENUM, "f32",
     .choices = cast_turned_types},
    {0},
};

static hr_status cast_turned_infer(hri_infer *c) {
    const cast_turned_attr *p = c->attr;
    const hr_shape *in = &c->in[0].shape;
    if (p->to < 0 || p->to >= HR_TYPE_COUNT || !hr_type_is_real((hr_type)p->to) ||
        !hr_type_is_real(c->in[0].type)) {
        return hri_infer_fail(c, "both types must be floating-point types");
    }
    if (in->rank != 2) {
        return hri_infer_fail(c, "a matrix is turned, not %d dimensions", in->rank);
    }
    c->out[0] = (hr_meta){(hr_type)p->to, hr_shape_2(in->dim[1], in->dim[0])};
    return HR_OK;
}

static void cast_turned_grad(hri_grad *c) {
    const cast_turned_attr back = {(int)c->sig->in[0].type};
    c->din[0] = HRI_NODE(c->g, "cast_turned", &back, c->dout[0]);
}

static hri_samples cast_turned_samples(const hri_sig *s, uint32_t batched) {
    (void)s;
    return batched ? HRI_SAMPLES_COUPLED : HRI_SAMPLES_APART;
}

/* ---- on the host: tiles of TILE rows and columns ---- */

enum { TILE = 64 };

static float take(hr_type type, const void *x, int64_t at) {
    return type == HR_TYPE_F32    ? ((const float *)x)[at]
           : type == HR_TYPE_BF16 ? hri_from_bf16(((const hri_bf16 *)x)[at])
                                  : hri_from_f16(((const hri_f16 *)x)[at]);
}

/* Columns j0 .. j0 + columns of x are rows of y. */
static void turn_tile(const hri_call *c, int64_t i0, int64_t rows, int64_t j0, int64_t columns) {
    const hr_type from = c->sig->in[0].type, to = c->sig->out[0].type;
    const int64_t high = c->sig->in[0].shape.dim[0], wide = c->sig->in[0].shape.dim[1];
    float tile[TILE][TILE];
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            tile[j][i] = take(from, c->in[0], (i0 + i) * wide + j0 + j);
        }
    }
    for (int64_t j = 0; j < columns; j++) {
        const int64_t at = (j0 + j) * high + i0;
        if (to == HR_TYPE_F32) {
            for (int64_t i = 0; i < rows; i++) {
                ((float *)c->out[0])[at + i] = tile[j][i];
            }
        } else if (to == HR_TYPE_BF16) {
            for (int64_t i = 0; i < rows; i++) {
                ((hri_bf16 *)c->out[0])[at + i] = hri_to_bf16(tile[j][i]);
            }
        } else {
            for (int64_t i = 0; i < rows; i++) {
                ((hri_f16 *)c->out[0])[at + i] = hri_to_f16(tile[j][i]);
            }
        }
    }
}

/* Range over rows of tiles. */
static void cast_turned_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const hr_shape *in = &c->sig->in[0].shape;
    (void)worker;
    for (int64_t i = (int64_t)begin * TILE; i < (int64_t)end * TILE; i += TILE) {
        for (int64_t j = 0; j < in->dim[1]; j += TILE) {
            turn_tile(c, i, hri_launch_min(TILE, in->dim[0] - i), j,
                      hri_launch_min(TILE, in->dim[1] - j));
        }
    }
}

static hr_status cast_turned_host(const hri_call *c) {
    hri_call call = *c;
    const int64_t tiles = hri_launch_up(c->sig->in[0].shape.dim[0], TILE);
    hri_threads_range(c->threads, (uint64_t)tiles, 1, cast_turned_range, &call);
    return HR_OK;
}

/* ---- on a GPU: many matrices of one pair of types to a launch ---- */

HRI_CU(cast_turned);

enum { MATRICES = 100, THREADS = 256 };

/* As in cast_turned.cu. */
typedef struct table {
    uint64_t count;
    struct {
        hr_addr x, y;
        int64_t rows, columns;
        uint32_t first, wide;
    } matrix[MATRICES];
} table;

_Static_assert(sizeof(table) <= 4096, "the table is the parameter of a kernel");

static int cast_turned_alike(const hri_gpu_call *a, const hri_gpu_call *b) {
    return a->sig->in[0].type == b->sig->in[0].type && a->sig->out[0].type == b->sig->out[0].type;
}

static hr_status cast_turned_launch(const hri_gpu_call *c, table *t, uint32_t blocks) {
    const hri_defines d =
        hri_launch_defines("-DHR_X=%s -DHR_Y=%s", hri_launch_type(c->sig->in[0].type),
                           hri_launch_type(c->sig->out[0].type));
    return hri_gpu_launch(c->gpu, &hri_cu_cast_turned, d.text, "cast_turned",
                          &(hri_gpu_grid){.x = blocks, .threads = THREADS}, HRI_GPU_ARGS(t));
}

static hr_status cast_turned_cuda_many(const hri_gpu_call *calls, uint32_t count) {
    table t = {.count = 0};
    const hri_gpu_call *group = calls;
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < count; i++) {
        const hri_gpu_call *c = &calls[i];
        const hr_shape *in = &c->sig->in[0].shape;
        if (in->dim[0] == 0 || in->dim[1] == 0) {
            continue;
        }
        if (t.count && (t.count == MATRICES || !cast_turned_alike(c, group))) {
            const hr_status status = cast_turned_launch(group, &t, blocks);
            if (status != HR_OK) {
                return status;
            }
            t.count = blocks = 0;
        }
        group = c;
        t.matrix[t.count].x = c->in[0];
        t.matrix[t.count].y = c->out[0];
        t.matrix[t.count].rows = in->dim[0];
        t.matrix[t.count].columns = in->dim[1];
        t.matrix[t.count].wide =
            in->dim[0] % 8 == 0 && in->dim[1] % 4 == 0 && hri_launch_wide(c->in[0] | c->out[0]);
        t.matrix[t.count++].first = blocks;
        blocks += hri_launch_blocks(in->dim[0], TILE) * hri_launch_blocks(in->dim[1], TILE);
    }
    return t.count ? cast_turned_launch(group, &t, blocks) : HR_OK;
}

static hr_status cast_turned_cuda(const hri_gpu_call *c) {
    return cast_turned_cuda_many(c, 1);
}

static const hri_case cast_turned_cases[] = {
    {"odd", "f32[7,33]", "to=f32"},
    {"tiles", "f32[100,67]", "to=bf16", .flags = HRI_CASE_NO_GRAD},
    {"whole pieces", "f32[72,132]", "to=bf16", .flags = HRI_CASE_NO_GRAD},
    {"several tiles", "f32[200,256]", "to=bf16", .flags = HRI_CASE_NO_GRAD},
    {"f16", "f32[136,68]", "to=f16", .flags = HRI_CASE_NO_GRAD},
    {"too large for f16", "f32[9,11]", "to=f16", -1e5, 1e5, .flags = HRI_CASE_NO_GRAD},
    {"back", "bf16[64,72]", "to=f32"},
    {"back from f16", "f16[9,70]", "to=f32"},
    {"bf16 to f16", "bf16[40,36]", "to=f16"},
    {"f32", "f32[64,64]", "to=f32"},
    {"a row", "f32[1,9]", "to=bf16", .flags = HRI_CASE_NO_GRAD},
    {"a column", "f32[130,1]", "to=bf16", .flags = HRI_CASE_NO_GRAD},
    {"empty", "f32[0,3]", "to=bf16", .flags = HRI_CASE_NO_GRAD},
    {"integers", "i32[3,3]", "to=f32", .flags = HRI_CASE_BAD},
    {"to integers", "f32[3,3]", "to=i32", .flags = HRI_CASE_BAD},
    {"three dimensions", "f32[3,3,3]", "to=bf16", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_cast_turned = {
    .name = "cast_turned",
    .formula = "y = x turned, as another type",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = cast_turned_fields,
    .attr_bytes = sizeof(cast_turned_attr),
    .infer = cast_turned_infer,
    .grad = cast_turned_grad,
    .samples = cast_turned_samples,
    .host = {.run = cast_turned_host},
    .cases = HRI_CASES(cast_turned_cases),
};

const hri_kernel hri_kernel_cuda_cast_turned = {.launch = cast_turned_cuda,
                                                .launch_many = cast_turned_cuda_many};
