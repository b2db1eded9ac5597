/* resize(x; height, width, mode): images to another size, as torch's interpolate.
 *
 *   x (N, H, W, C)   y (N, height, width, C)   mode nearest, bilinear (align_corners=false) or corners
 *   (bilinear with align_corners=true)
 *
 * Linear in x, so the gradient keeps nothing. */
#include "ops/common/resize.h"

static const char *const modes[] = {"nearest", "bilinear", "corners", NULL};

const hri_field hri_resize_fields[] = {
    {"height", "of the result", offsetof(hri_resize_attr, height), HRI_FIELD_INT, "0", .min = 0,
     .max = 1e9},
    {"width", "of the result", offsetof(hri_resize_attr, width), HRI_FIELD_INT, "0", .min = 0,
     .max = 1e9},
    {"mode", "interpolation", offsetof(hri_resize_attr, mode), HRI_FIELD_ENUM, "nearest",
     .choices = modes},
    {0},
};

static hr_status resize_infer(hri_infer *c) {
    const hri_resize_attr *p = c->attr;
    const hr_shape *x = &c->in[0].shape;
    if (!hr_type_is_real(c->in[0].type) || x->rank != 4) {
        return hri_infer_fail(c, "the input must be floating point, (N, H, W, C)");
    }
    if (p->height < 1 || p->width < 1 || x->dim[1] < 1 || x->dim[2] < 1) {
        return hri_infer_fail(c, "height and width must be 1 or more, before and after");
    }
    c->out[0] =
        (hr_meta){c->in[0].type, {.rank = 4, .dim = {x->dim[0], p->height, p->width, x->dim[3]}}};
    return HR_OK;
}

static void resize_grad(hri_grad *c) {
    hri_resize_attr attr = *(const hri_resize_attr *)c->sig->attr;
    attr.height = c->sig->in[0].shape.dim[1];
    attr.width = c->sig->in[0].shape.dim[2];
    c->din[0] = HRI_NODE(c->g, "resize_grad", &attr, c->dout[0]);
}

/* Pixel j of row r, one block of channels. */
static void resize_pixel(const hri_call *c, int64_t r, int64_t j, int64_t c0,
                         const hri_resize_source *h, int64_t image) {
    const int64_t *in = c->sig->in[0].shape.dim, *out = c->sig->out[0].shape.dim;
    const hr_type type = c->sig->in[0].type;
    const int64_t channels = in[3], n = hri_min64(HRI_BLOCK, channels - c0);
    const hri_resize_source w =
        hri_resize_at(((const hri_resize_attr *)c->sig->attr)->mode, j, in[2], out[2]);
    const int64_t to = (r * out[2] + j) * channels + c0;
    const float h0 = 1.0f - h->weight, h1 = h->weight, w0 = 1.0f - w.weight, w1 = w.weight;
    float room[5][HRI_BLOCK];
    const float *x[4];
    for (int k = 0; k < 4; k++) {
        const int64_t row = image + (k & 2 ? h->high : h->low);
        const int64_t at = (row * in[2] + (k & 1 ? w.high : w.low)) * channels + c0;
        x[k] = hri_block_in(type, c->in[0], at, n, room[k]);
    }
    float *y = hri_block_out(type, c->out[0], to, room[4]);
    if (h1 == 0.0f && w1 == 0.0f) {
        memmove(y, x[0], (size_t)n * sizeof *y);
    } else {
        for (int64_t k = 0; k < n; k++) {
            y[k] = h0 * (w0 * x[0][k] + w1 * x[1][k]) + h1 * (w0 * x[2][k] + w1 * x[3][k]);
        }
    }
    hri_block_put(type, c->out[0], to, n, y);
}

/* Range over rows of output pixels. */
static void resize_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const hri_call *c = arg;
    const hri_resize_attr *p = c->sig->attr;
    const int64_t *in = c->sig->in[0].shape.dim, *out = c->sig->out[0].shape.dim;
    const int64_t channels = in[3];
    (void)worker;
    for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
        const hri_resize_source h = hri_resize_at(p->mode, r % out[1], in[1], out[1]);
        const int64_t image = r / out[1] * in[1];
        for (int64_t j = 0; j < out[2]; j++) {
            for (int64_t c0 = 0; c0 < channels; c0 += HRI_BLOCK) {
                resize_pixel(c, r, j, c0, &h, image);
            }
        }
    }
}

static hr_status resize_host(const hri_call *c) {
    const int64_t *out = c->sig->out[0].shape.dim;
    hri_call call = *c;
    hri_threads_range(c->threads, (uint64_t)(out[0] * out[1]),
                      (uint64_t)(16384 / (out[2] * out[3] + 1) + 1), resize_rows, &call);
    return HR_OK;
}

static void resize_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 8.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case resize_cases[] = {
    {"twice, nearest", "f32[2,3,5,7]", "height=6,width=10", .batched = 1},
    {"twice, bilinear", "f32[2,3,5,7]", "height=6,width=10,mode=bilinear"},
    {"smaller, bilinear", "f32[2,9,11,3]", "height=4,width=5,mode=bilinear"},
    {"smaller, nearest", "f32[2,9,11,3]", "height=4,width=5"},
    {"twice, corners", "f32[2,3,5,7]", "height=6,width=10,mode=corners"},
    {"smaller, corners", "f32[2,9,11,3]", "height=4,width=1,mode=corners"},
    {"corners, bf16", "bf16[2,3,5,8]", "height=7,width=5,mode=corners"},
    {"one pixel", "f32[2,1,1,300]", "height=3,width=2,mode=bilinear"},
    {"no samples", "f32[0,2,2,3]", "height=3,width=3"},
    {"no channels", "f32[1,2,2,0]", "height=3,width=3"},
    {"bf16", "bf16[2,3,5,7]", "height=5,width=7,mode=bilinear"},
    {"a long row", "f32[1,1,3,1]", "height=1,width=262149,mode=bilinear",
     .flags = HRI_CASE_NO_GRAD},
    {"f16", "f16[2,3,5,7]", "height=5,width=7"},
    {"no size", "f32[2,3,5,7]", .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_resize = {
    .name = "resize",
    .formula = "y = x at (o + 0.5) * in / out - 0.5",
    .in_min = 1,
    .in_max = 1,
    .out_count = 1,
    .fields = hri_resize_fields,
    .attr_bytes = sizeof(hri_resize_attr),
    .infer = resize_infer,
    .grad = resize_grad,
    .cost = resize_cost,
    .host = {.run = resize_host},
    .cases = HRI_CASES(resize_cases),
};

const hri_kernel hri_kernel_cuda_resize = {.launch = hri_resize_cuda};
