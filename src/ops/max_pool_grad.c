/* max_pool_grad(dy, index; kernel, stride, pad, height, width): each place of x collects dy from the windows it won.
 *
 *   dy (N, OH, OW, C)   index the same, u8   dx (N, height, width, C) */
#include "ops/common/pool.h"

static const hri_field max_pool_grad_fields[] = {HRI_POOL_FIELDS, HRI_POOL_GRAD_FIELDS, {0}};

static hr_status max_pool_grad_infer(hri_infer *c) {
    const hri_pool_attr *a = c->attr;
    const hr_shape *dy = &c->in[0].shape;
    hri_pooling p;
    if (!hr_type_is_real(c->in[0].type) || dy->rank != 4 || c->in[1].type != HR_TYPE_U8 ||
        !hr_shape_same(dy, &c->in[1].shape)) {
        return hri_infer_fail(c, "expected dy (N, OH, OW, C) and u8 indices of that shape");
    }
    if (hri_pool_init(&p, a, dy->dim[0], a->height, a->width, dy->dim[3]) || p.oh != dy->dim[1] ||
        p.ow != dy->dim[2]) {
        return hri_infer_fail(c, "the windows do not give dy's height and width");
    }
    c->out[0] = hri_pool_meta(c->in[0].type, p.n, p.h, p.w, p.channels);
    return HR_OK;
}

typedef struct task {
    const hri_call *c;
    hri_pooling p;
} task;

static void grad_pixel(const task *t, int64_t b, int64_t h, int64_t w, int64_t c0, int64_t n) {
    const hri_pooling *p = &t->p;
    const hri_call *c = t->c;
    const hr_type type = c->sig->in[0].type;
    const int64_t to = ((b * p->h + h) * p->w + w) * p->channels + c0;
    int64_t i0, i1, j0, j1;
    float room[HRI_BLOCK], sum[HRI_BLOCK];
    memset(sum, 0, (size_t)n * sizeof *sum);
    hri_pool_owners(h, p->kh, p->sh, p->ph, p->oh, &i0, &i1);
    hri_pool_owners(w, p->kw, p->sw, p->pw, p->ow, &j0, &j1);
    for (int64_t i = i0; i < i1; i++) {
        for (int64_t j = j0; j < j1; j++) {
            const int64_t at = ((b * p->oh + i) * p->ow + j) * p->channels + c0;
            const uint8_t *index = (const uint8_t *)c->in[1] + at;
            const float *dy = hri_block_in(type, c->in[0], at, n, room);
            const uint8_t code = (uint8_t)((h - i * p->sh + p->ph) * p->kw + w - j * p->sw + p->pw);
            for (int64_t k = 0; k < n; k++) {
                const float d = dy[k];
                sum[k] += index[k] == code ? d : 0.0f;
            }
        }
    }
    float *dx = hri_block_out(type, c->out[0], to, room);
    memcpy(dx, sum, (size_t)n * sizeof *dx);
    hri_block_put(type, c->out[0], to, n, dx);
}

/* What eight places get of their owners: what is written beyond the channels is written again. */
static inline void take_few(const float *dy, const uint8_t *index, int32_t code, float *dx) {
    hri_pool_codes codes;
    hri_pool_numbers d;
    memcpy(&codes, index, sizeof codes);
    memcpy(&d, dy, sizeof d);
    const hri_pool_masks is = __builtin_convertvector(codes, hri_pool_masks) == code;
    d = (hri_pool_numbers)((hri_pool_masks)(d + 0.0f) & is);
    memcpy(dx, &d, sizeof d);
}

/* Windows of 2 x 2 side by side: a row of f32 has one owner a place.  Adding 0 makes a -0 what a sum makes of it. */
static void grad_row_2x2(const task *t, int64_t b, int64_t h) {
    const hri_pooling *p = &t->p;
    const int64_t n = p->channels, at = (b * p->oh + h / 2) * p->ow * n;
    const float *dy = (const float *)t->c->in[0] + at;
    const uint8_t *index = (const uint8_t *)t->c->in[1] + at;
    float *dx = (float *)t->c->out[0] + (b * p->h + h) * p->w * n;
    const uint8_t first = (uint8_t)(h % 2 * 2), second = (uint8_t)(first + 1);
    const int64_t owned = h / 2 < p->oh ? p->ow : 0;
    for (int64_t j = 0; j < owned; j++, dy += n, index += n, dx += 2 * n) {
        if (!hri_pool_is_few(n, (owned - j) * n)) {
            HRI_IVDEP for (int64_t k = 0; k < n; k++) {
                const float d = dy[k] + 0.0f;
                dx[k] = index[k] == first ? d : 0.0f;
                dx[n + k] = index[k] == second ? d : 0.0f;
            }
            continue;
        }
        for (int64_t k = 0; k < n; k += HRI_POOL_FEW) {
            take_few(dy + k, index + k, first, dx + k);
        }
        for (int64_t k = 0; k < n; k += HRI_POOL_FEW) {
            take_few(dy + k, index + k, second, dx + n + k);
        }
    }
    memset(dx, 0, (size_t)((p->w - 2 * owned) * n) * sizeof *dx);
}

static void max_pool_grad_rows(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    (void)worker;
    for (int64_t r = (int64_t)begin; r < (int64_t)end; r++) {
        const int64_t b = r / t->p.h, h = r % t->p.h;
        if (hri_pool_is_2x2(&t->p) && t->c->sig->in[0].type == HR_TYPE_F32) {
            grad_row_2x2(t, b, h);
            continue;
        }
        for (int64_t w = 0; w < t->p.w; w++) {
            for (int64_t c0 = 0; c0 < t->p.channels; c0 += HRI_BLOCK) {
                grad_pixel(t, b, h, w, c0, hri_min64(HRI_BLOCK, t->p.channels - c0));
            }
        }
    }
}

static hr_status max_pool_grad_host(const hri_call *c) {
    const hr_shape *dx = &c->sig->out[0].shape;
    task t = {.c = c};
    if (hri_pool_init(&t.p, c->sig->attr, dx->dim[0], dx->dim[1], dx->dim[2], dx->dim[3])) {
        return HR_E_SHAPE;
    }
    hri_threads_range(c->threads, (uint64_t)(t.p.n * t.p.h), hri_pool_chunk(t.p.w * t.p.channels),
                      max_pool_grad_rows, &t);
    return HR_OK;
}

static void max_pool_grad_cost(const hri_sig *s, hri_cost *cost) {
    cost->flops = 4.0 * (double)hr_shape_count(&s->out[0].shape);
}

static const hri_case max_pool_grad_cases[] = {
    {"resnet's", "f32[2,5,6,19] u8[2,5,6,19]", "kernel=3,stride=2,pad=1,height=9,width=11",
     .ids = 9, .batched = 3},
    {"resnet's in packs", "bf16[2,4,5,64] u8[2,4,5,64]",
     "kernel=3,stride=2,pad=1,height=8,width=10", .ids = 9},
    {"resnet's, padded by 0", "f32[2,4,5,8] u8[2,4,5,8]", "kernel=3,stride=2,height=9,width=11",
     .ids = 9},
    {"rectangle", "f32[1,8,4,3] u8[1,8,4,3]", "kernel=2x3,stride=1x2,pad=1x0,height=7,width=9",
     .ids = 6},
    {"wide", "f32[1,2,2,300] u8[1,2,2,300]", "kernel=2,height=5,width=4", .ids = 4},
    {"two by two, odd", "f32[2,3,4,6] u8[2,3,4,6]", "kernel=2,height=7,width=9", .ids = 4},
    {"no samples", "f32[0,2,2,3] u8[0,2,2,3]", "kernel=2,height=4,width=4", .ids = 4},
    {"bf16", "bf16[2,5,5,7] u8[2,5,5,7]", "kernel=3,stride=2,pad=1,height=9,width=9", .ids = 9},
    {"a long row", "f32[1,1,131074,1] u8[1,1,131074,1]",
     "kernel=1x2,stride=1x2,height=1,width=262149", .ids = 2},
    {"f16", "f16[2,5,5,7] u8[2,5,5,7]", "kernel=3,stride=2,pad=1,height=9,width=9", .ids = 9},
    {"another height", "f32[2,5,5,7] u8[2,5,5,7]", "kernel=3,stride=2,pad=1,height=12,width=9",
     .flags = HRI_CASE_BAD},
    {NULL, NULL},
};

const hr_op hr_op_max_pool_grad = {
    .name = "max_pool_grad",
    .formula = "dx = sum of dy over the windows that x won",
    .in_min = 2,
    .in_max = 2,
    .out_count = 1,
    .fields = max_pool_grad_fields,
    .attr_bytes = sizeof(hri_pool_attr),
    .infer = max_pool_grad_infer,
    .cost = max_pool_grad_cost,
    .host = {.run = max_pool_grad_host},
    .cases = HRI_CASES(max_pool_grad_cases),
};

const hri_kernel hri_kernel_cuda_max_pool_grad = {.launch = hri_max_pool_grad_cuda};
