/* rotary(x, cos, sin; pairs, back): rotary embedding: pairs of numbers of every head turned by the angle of their place.
 *
 *   x (B, T, H, D)   cos, sin (T, R / 2) or (B, T, R / 2), R <= D   y like x
 *   y1 = x1 cos - x2 sin,   y2 = x2 cos + x1 sin;   what lies beyond R stays
 *
 * pairs "halves": x1 is the first half of R and x2 the second (Llama, NeoX); "neighbours": x1 and x2 lie side by side
 * (GPT-J).  The tables are of x's type or f32.  The gradient turns dy back with the same tables (`back`), so nothing of x is
 * kept, and y may take x's place. */
#include "ops/common/launch.h"
#include "ops/common/rows.h"

typedef enum rotary_pairs { HALVES, NEIGHBOURS } rotary_pairs;

typedef struct rotary_attr {
    int pairs;
    bool back;
} rotary_attr;

static const char *const pair_names[] = {"halves", "neighbours", NULL};

static const hri_field rotary_fields[] = {
    {"pairs", "which numbers are turned together", offsetof(rotary_attr, pairs), HRI_FIELD_ENUM,
     "halves", .choices = pair_names},
    {"back", "turns the other way", offsetof(rotary_attr, back), HRI_FIELD_BOOL, NULL},
    {0},
};

static hr_status rotary_infer(hri_infer *c) {
    const hr_meta *x = &c->in[0], *table = &c->in[1];
    const int rank = table->shape.rank;
    const int64_t *t = table->shape.dim, *dim = x->shape.dim;
    if (!hr_type_is_real(x->type) || x->shape.rank != 4) {
        return hri_infer_fail(c, "the input must be floating point, (B, T, H, D)");
    }
    if (!hr_shape_same(&table->shape, &c->in[2].shape) || table->type != c->in[2].type ||
        (table->type != x->type && table->type != HR_TYPE_F32)) {
        return hri_infer_fail(c, "cos and sin must have one shape, and the input's type or f32");
    }
    if ((rank != 2 && rank != 3) || t[rank - 2] != dim[1] || (rank == 3 && t[0] != dim[0]) ||
        t[rank - 1] > dim[3] / 2) {
        return hri_infer_fail(c, "expected tables (T, D / 2 or less) or (B, T, D / 2 or less)");
    }
    c->out[0] = *x;
    return HR_OK;
}

static void rotary_grad(hri_grad *c) {
    if (HRI_NEEDS(c, 0)) {
        rotary_attr attr = *(const rotary_attr *)c->sig->attr;
        attr.back = !attr.back;
        c->din[0] = HRI_NODE(c->g, "rotary", &attr, c->dout[0], c->in[1], c->in[2]);
    }
}

static hri_samples rotary_samples(const hri_sig *s, uint32_t batched) {
    const uint32_t all = s->in[1].shape.rank == 3 ? 7u : 1u;
    return batched == 0 || batched == all ? HRI_SAMPLES_APART : HRI_SAMPLES_COUPLED;
}

/* As rotary.cu has it. */
typedef struct sizes {
    int64_t places, heads, depth, half;
    int64_t table_batch; /* 0: one table for all samples */
    int32_t neighbours;
    float sign;
} sizes;

static sizes sizes_of(const hri_sig *s) {
    const rotary_attr *p = s->attr;
    const hr_shape *t = &s->in[1].shape;
    const int64_t *dim = s->in[0].shape.dim;
    return (sizes){.places = dim[1],
                   .heads = dim[2],
                   .depth = dim[3],
                   .half = t->dim[t->rank - 1],
                   .table_batch = t->rank == 3 ? dim[1] * t->dim[2] : 0,
                   .neighbours = p->pairs == NEIGHBOURS,
                   .sign = p->back ? -1.0f : 1.0f};
}

/* Range over rows (b, t, h). */
static void rotary_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const sizes z = sizes_of(c->sig);
    (void)worker;
    for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
        const int64_t t = r / z.heads % z.places, b = r / z.heads / z.places;
        const hri_row x = {c->sig->in[0].type, c->in[0], r * z.depth};
        const hri_row_out y = {c->sig->out[0].type, c->out[0], r * z.depth};
        const int64_t angle = b * z.table_batch + t * z.half;
        const hri_row cosine = {c->sig->in[1].type, c->in[1], angle};
        const hri_row sine = {c->sig->in[2].type, c->in[2], angle};
        for (int64_t i = 0; i < z.half; i++) {
            const int64_t one = z.neighbours ? 2 * i : i, two = z.neighbours ? one + 1 : i + z.half;
            const float a = hri_row_at(&x, one), d = hri_row_at(&x, two);
            const float by = hri_row_at(&cosine, i), off = z.sign * hri_row_at(&sine, i);
            hri_row_put(&y, one, a * by - d * off);
            hri_row_put(&y, two, d * by + a * off);
        }
        for (int64_t i = 2 * z.half; i < z.depth; i++) {
            hri_row_put(&y, i, hri_row_at(&x, i));
        }
    }
}

static hr_status rotary_host(const hri_call *c) {
    const int64_t *dim = c->sig->in[0].shape.dim;
    hri_call call = *c;
    if (dim[3]) {
        hri_threads_range(c->threads, (uint64_t)(dim[0] * dim[1] * dim[2]), hri_row_chunk(dim[3]),
                          rotary_rows, &call);
    }
    return HR_OK;
}

HRI_CU(rotary);

static hr_status rotary_cuda(const hri_gpu_call *c) {
    enum { THREADS = 256 };
    const hri_defines d =
        hri_launch_defines("-DHR_T=%s -DHR_TABLE_T=%s", hri_launch_type(c->sig->in[0].type),
                           hri_launch_type(c->sig->in[1].type));
    sizes z = sizes_of(c->sig);
    hr_addr x = c->in[0], cosine = c->in[1], sine = c->in[2], y = c->out[0];
    /* A thread has a pair, or one of what stays. */
    int64_t units = z.half + (z.depth - 2 * z.half);
    int64_t count = hr_shape_count(&c->sig->in[0].shape) / (z.depth ? z.depth : 1) * units;
    return count && z.depth
               ? hri_gpu_launch(
                     c->gpu, &hri_cu_rotary, d.text, "rotary",
                     &(hri_gpu_grid){.x = hri_launch_blocks(count, THREADS), .threads = THREADS},
                     HRI_GPU_ARGS(&x, &cosine, &sine, &y, &count, &units, &z))
               : HR_OK;
}

static void rotary_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 3.0 * (double)hr_shape_count(&s->in[0].shape);
}

static const hri_case rotary_cases[] = {
    {"halves", "f32[2,7,3,10] f32[7,5] f32[7,5]", .batched = 1},
    {"neighbours", "f32[2,7,3,10] f32[7,5] f32[7,5]", "pairs=neighbours"},
    {"a table for each sample", "f32[2,7,3,10] f32[2,7,5] f32[2,7,5]", .batched = 7},
    {"a part of the depth", "f32[1,5,2,9] f32[5,2] f32[5,2]", "back"},
    {"nothing turned", "f32[1,5,2,3] f32[5,0] f32[5,0]"},
    {"no places", "f32[2,0,3,10] f32[0,5] f32[0,5]"},
    {"bf16", "bf16[2,7,3,8] f32[7,4] f32[7,4]"},
    {"f16", "f16[2,7,3,8] f16[7,4] f16[7,4]", "pairs=neighbours"},
    {"too wide", "f32[2,7,3,8] f32[7,5] f32[7,5]", .flags = HRI_CASE_BAD},
    {"other places", "f32[2,7,3,8] f32[6,4] f32[6,4]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_rotary = {
    .name = "rotary",
    .formula = "y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin",
    .in_min = 3,
    .in_max = 3,
    .out_count = 1,
    .fields = rotary_fields,
    .attr_bytes = sizeof(rotary_attr),
    .infer = rotary_infer,
    .grad = rotary_grad,
    .keeps = {{.in = 6}},
    .no_grad = 6,
    .overwrite = {1},
    .samples = rotary_samples,
    .cost = rotary_cost,
    .host = {.run = rotary_host},
    .cases = HRI_CASES(rotary_cases),
};

const hri_kernel hri_kernel_cuda_rotary = {.launch = rotary_cuda};
