/* Geometry and the three products of conv.h. */
#include "ops/common/conv.h"

#include "ops/common/conv_few.h"
#include "ops/common/conv_patches.h"
#include "ops/common/conv_winograd.h"
#include "ops/common/depthwise.h"
#include "ops/common/gemm.h"

/* ---- geometry ---- */

const hri_field hri_conv_fields[] = {
    {"stride", "stride of the window", offsetof(hri_conv_attr, stride), HRI_FIELD_DIMS, "1"},
    {"pad", "zeros at each edge; four numbers: top, left, bottom, right",
     offsetof(hri_conv_attr, pad), HRI_FIELD_DIMS, "0"},
    {"dilation", "step between taps", offsetof(hri_conv_attr, dilation), HRI_FIELD_DIMS, "1"},
    {"size", "of gradients: height and width of the result", offsetof(hri_conv_attr, size),
     HRI_FIELD_DIMS, NULL},
    {"groups", "number of channel groups", offsetof(hri_conv_attr, groups), HRI_FIELD_INT, "1",
     .min = 1, .max = 1e9},
    {0},
};

static int64_t down(const hri_dims *d) {
    return d->count ? d->at[0] : 1;
}

static int64_t across(const hri_dims *d) {
    return d->count > 1 ? d->at[1] : down(d);
}

hri_conv hri_conv_of(const hri_conv_attr *p, const hr_shape *x, const hr_shape *w) {
    hri_conv v = {.n = x->dim[0], .h = x->dim[1], .w = x->dim[2], .c = x->dim[3]};
    v.kh = w->dim[0];
    v.kw = w->dim[1];
    v.cg = w->dim[2];
    v.o = w->dim[3];
    v.sh = down(&p->stride);
    v.sw = across(&p->stride);
    v.ph = down(&p->pad);
    v.pw = across(&p->pad);
    v.dh = down(&p->dilation);
    v.dw = across(&p->dilation);
    v.groups = p->groups;
    v.og = v.o / v.groups;
    v.ph_after = p->pad.count == 4 ? p->pad.at[2] : v.ph;
    v.pw_after = p->pad.count == 4 ? p->pad.at[3] : v.pw;
    v.oh = (v.h + v.ph + v.ph_after - v.dh * (v.kh - 1) - 1) / v.sh + 1;
    v.ow = (v.w + v.pw + v.pw_after - v.dw * (v.kw - 1) - 1) / v.sw + 1;
    return v;
}

hr_status hri_conv_make(hri_infer *c, const hri_conv_attr *p, const hr_shape *x, const hr_shape *w,
                        hri_conv *out) {
    const int64_t limit = 1 << 20;
    const hri_dims *all[] = {&p->stride, &p->pad, &p->dilation};
    for (int i = 0; i < 3; i++) {
        const int64_t low = i == 1 ? 0 : 1;
        int good = all[i]->count <= 2 || (i == 1 && all[i]->count == 4);
        for (int64_t k = 0; good && k < all[i]->count; k++) {
            good = all[i]->at[k] >= low && all[i]->at[k] <= limit;
        }
        if (!good) {
            return hri_infer_fail(c, "stride and dilation are 1 or more, pad 0 or more, one or two "
                                     "numbers each, or four for pad");
        }
    }
    if (x->rank != 4 || w->rank != 4) {
        return hri_infer_fail(c, "images are (N, H, W, C) and weights (KH, KW, C / groups, O)");
    }
    if (w->dim[0] < 1 || w->dim[1] < 1 || w->dim[0] > limit || w->dim[1] > limit || p->groups < 1 ||
        w->dim[2] * p->groups != x->dim[3] || w->dim[3] % p->groups) {
        return hri_infer_fail(c,
                              "%lld channels in %lld groups do not fit weights for %lld channels "
                              "per group and %lld outputs",
                              (long long)x->dim[3], (long long)p->groups, (long long)w->dim[2],
                              (long long)w->dim[3]);
    }
    *out = hri_conv_of(p, x, w);
    if (x->dim[1] + out->ph + out->ph_after < out->dh * (out->kh - 1) + 1 ||
        x->dim[2] + out->pw + out->pw_after < out->dw * (out->kw - 1) + 1) {
        return hri_infer_fail(c, "the window is larger than the padded image");
    }
    return HR_OK;
}

hr_shape hri_conv_out(const hri_conv *v) {
    return (hr_shape){.rank = 4, .dim = {v->n, v->oh, v->ow, v->o}};
}

hri_conv hri_conv_joined(const hri_conv *v) {
    hri_conv out = *v;
    for (int64_t by = 2; by <= v->groups && out.og < 32; by++) {
        if (v->groups % by == 0) {
            out.groups = v->groups / by;
            out.cg = v->cg * by;
            out.og = v->og * by;
        }
    }
    return out;
}

double hri_conv_flops(const hri_conv *v) {
    return 2.0 * (double)(v->n * v->oh * v->ow) * (double)(v->kh * v->kw * v->cg) * (double)v->o;
}

/* ---- the products ---- */

static int64_t forward_row(const hri_gemm *g, int64_t group, int64_t i) {
    const hri_conv_patches *p = g->ctx;
    return i * p->v->o + group * p->v->og;
}

static int is_plain(const hri_conv *v) { /* 1 x 1: x is its own matrix of patches */
    return v->kh == 1 && v->kw == 1 && v->sh == 1 && v->sw == 1 && v->ph == 0 && v->pw == 0 &&
           v->ph_after == 0 && v->pw_after == 0 && v->groups == 1;
}

uint64_t hri_conv_forward_workspace(const hri_conv *v, const hri_sig *s, uint32_t threads) {
    if (hri_depthwise_is(v)) {
        return 0;
    }
    if (hri_few_forward_is(v)) {
        return hri_few_forward_workspace(v, threads);
    }
    if (hri_winograd_takes(v, s)) {
        return hri_winograd_forward_workspace(v, threads);
    }
    return hri_gemm_workspace(v->groups, v->n * v->oh * v->ow, v->og, v->kh * v->kw * v->cg,
                              threads);
}

void hri_conv_forward(const hri_conv *v, const hri_call *c) {
    if (hri_depthwise_is(v)) {
        hri_depthwise_forward(v, c);
        return;
    }
    if (hri_few_forward_is(v)) {
        hri_few_forward(v, c);
        return;
    }
    if (hri_winograd_takes(v, c->sig)) {
        hri_winograd_forward(v, c);
        return;
    }
    const hri_conv_patches p = hri_conv_patches_of(v, c->sig->in[0].type, c->in[0]);
    const hri_gemm g = {
        .batch = v->groups,
        .m = v->n * v->oh * v->ow,
        .n = v->og,
        .k = v->kh * v->kw * v->cg,
        .pack_a = is_plain(v) ? hri_pack_a : hri_pack_patches,
        .lines = is_plain(v) ? hri_gemm_lines_a : hri_lines_patches,
        .pack_b = hri_pack_b,
        .row = v->groups > 1 ? forward_row : NULL,
        .ctx = &p,
        .c_type = c->sig->out[0].type,
        .c = c->out[0],
        .bias = c->sig->in_count > 2 ? c->in[2] : NULL,
        .bias_type = c->sig->in_count > 2 ? c->sig->in[2].type : HR_TYPE_F32,
        .bias_step = v->og,
        .a = c->in[0],
        .a_type = c->sig->in[0].type,
        .lda = v->c,
        .b = c->in[1],
        .b_type = c->sig->in[1].type,
        .ldb = v->o,
        .b_step = v->og,
    };
    hri_gemm_run(&g, c->threads, c->workspace);
}

uint64_t hri_conv_weight_workspace(const hri_conv *v, const hri_sig *s, uint32_t threads) {
    if (hri_depthwise_is(v)) {
        return hri_depthwise_weight_workspace(v);
    }
    if (hri_few_weight_is(v)) {
        return hri_few_weight_workspace(v, threads);
    }
    if (hri_winograd_takes_weight(v, s)) {
        return hri_winograd_weight_workspace(v, threads);
    }
    return hri_gemm_workspace(v->groups, v->kh * v->kw * v->cg, v->og, v->n * v->oh * v->ow,
                              threads);
}

void hri_conv_weight(const hri_conv *v, const hri_call *c) {
    if (hri_depthwise_is(v)) {
        hri_depthwise_weight(v, c);
        return;
    }
    if (hri_few_weight_is(v)) {
        hri_few_weight(v, c);
        return;
    }
    if (hri_winograd_takes_weight(v, c->sig)) {
        hri_winograd_weight(v, c);
        return;
    }
    const hri_conv_patches p = hri_conv_patches_of(v, c->sig->in[0].type, c->in[0]);
    const hri_gemm g = {
        .batch = v->groups,
        .m = v->kh * v->kw * v->cg,
        .n = v->og,
        .k = v->n * v->oh * v->ow,
        .pack_a = is_plain(v) ? hri_pack_a_t : hri_pack_patches_t,
        .pack_b = hri_pack_b,
        .row = v->groups > 1 ? forward_row : NULL,
        .ctx = &p,
        .c_type = c->sig->out[0].type,
        .c = c->out[0],
        .a = c->in[0],
        .a_type = c->sig->in[0].type,
        .lda = v->c,
        .b = c->in[1],
        .b_type = c->sig->in[1].type,
        .ldb = v->o,
        .b_step = v->og,
    };
    hri_gemm_run(&g, c->threads, c->workspace);
}

/* w' (taps, O) x (C): turned, tap by tap. */
static void pack_weights_t(const hri_gemm *g, int64_t group, int64_t first, int64_t count,
                           int64_t k0, int64_t kc, float *to) {
    const hri_conv_patches *p = g->ctx;
    const hri_conv *v = p->v;
    for (int64_t i = 0; i < count; i += HRI_GEMM_NR) {
        const int64_t rows = count - i < HRI_GEMM_NR ? count - i : HRI_GEMM_NR;
        const int64_t width = hri_gemm_width(rows);
        for (int64_t k = k0; k < k0 + kc;) {
            const int64_t off = k % v->og;
            const int64_t left = v->og - off < k0 + kc - k ? v->og - off : k0 + kc - k;
            const hri_conv_tap t = hri_conv_tap_of(p, k / v->og);
            const int64_t at = (t.index * v->cg + first + i) * v->o + group * v->og + off;
            hri_pack_turn(g->b_type, g->b, at, v->o, rows, left, width, to);
            to += left * width;
            k += left;
        }
    }
}

static int64_t input_row(const hri_gemm *g, int64_t group, int64_t i) {
    const hri_conv_patches *p = g->ctx;
    const hri_conv *v = p->v;
    const int64_t n = i / (p->gh * p->gw), y = i / p->gw % p->gh, x = i % p->gw;
    return ((n * v->h + y * v->sh + p->a) * v->w + x * v->sw + p->b) * v->c + group * v->cg;
}

/* The taps that reach pixels a, a + stride, ...: first, step, number. */
static void taps_of(int64_t a, int64_t pad, int64_t dilation, int64_t stride, int64_t size,
                    int64_t *first, int64_t *step, int64_t *count) {
    *first = 0;
    *step = 1;
    *count = 0;
    for (int64_t r = 0; r < size; r++) {
        if ((a + pad - r * dilation) % stride == 0) {
            if (*count == 1) {
                *step = r - *first;
            }
            *first = *count == 0 ? r : *first;
            ++*count;
        }
    }
}

/* The product for one class of pixels; 0 rows when the image has none. */
static hri_conv_patches class_of(const hri_conv *v, int64_t a, int64_t b, hr_type type,
                                 const void *dy) {
    hri_conv_patches p = {.from = {type, dy, v->oh, v->ow, v->o, v->og},
                          .gh = a < v->h ? (v->h - a - 1) / v->sh + 1 : 0,
                          .gw = b < v->w ? (v->w - b - 1) / v->sw + 1 : 0,
                          .sh = 1,
                          .sw = 1,
                          .depth = v->og,
                          .v = v,
                          .a = a,
                          .b = b,
                          .input = 1};
    taps_of(a, v->ph, v->dh, v->sh, v->kh, &p.first_r, &p.step_r, &p.rows_r);
    taps_of(b, v->pw, v->dw, v->sw, v->kw, &p.first_s, &p.step_s, &p.rows_s);
    return p;
}

uint64_t hri_conv_input_workspace(const hri_conv *v, const hri_sig *s, uint32_t threads) {
    if (hri_depthwise_is(v)) {
        return 0;
    }
    if (hri_few_input_is(v)) {
        return hri_few_input_workspace(v, threads);
    }
    if (hri_winograd_takes(v, s)) {
        return hri_winograd_input_workspace(v, threads);
    }
    uint64_t most = 0;
    for (int64_t a = 0; a < v->sh; a++) {
        for (int64_t b = 0; b < v->sw; b++) {
            const hri_conv_patches p = class_of(v, a, b, HR_TYPE_F32, NULL);
            const uint64_t bytes = hri_gemm_workspace(v->groups, v->n * p.gh * p.gw, v->cg,
                                                      p.rows_r * p.rows_s * v->og, threads);
            most = bytes > most ? bytes : most;
        }
    }
    return most;
}

void hri_conv_input(const hri_conv *v, const hri_call *c) {
    if (hri_depthwise_is(v)) {
        hri_depthwise_input(v, c);
        return;
    }
    if (hri_few_input_is(v)) {
        hri_few_input(v, c);
        return;
    }
    if (hri_winograd_takes(v, c->sig)) {
        hri_winograd_input(v, c);
        return;
    }
    for (int64_t a = 0; a < v->sh; a++) {
        for (int64_t b = 0; b < v->sw; b++) {
            const hri_conv_patches p = class_of(v, a, b, c->sig->in[0].type, c->in[0]);
            const hri_gemm g = {
                .batch = v->groups,
                .m = v->n * p.gh * p.gw,
                .n = v->cg,
                .k = p.rows_r * p.rows_s * v->og,
                .pack_a = is_plain(v) ? hri_pack_a : hri_pack_patches,
                .lines = is_plain(v) ? hri_gemm_lines_a : hri_lines_patches,
                .pack_b = pack_weights_t,
                .row = v->groups > 1 || v->sh > 1 || v->sw > 1 ? input_row : NULL,
                .ctx = &p,
                .c_type = c->sig->out[0].type,
                .c = c->out[0],
                .a = c->in[0],
                .a_type = c->sig->in[0].type,
                .lda = v->o,
                .b = c->in[1],
                .b_type = c->sig->in[1].type,
            };
            hri_gemm_run(&g, c->threads, c->workspace);
        }
    }
}
