/* Drawing and mixing; see mix.h. */
#include "loop/mix.h"

#include <math.h>
#include <string.h>

#include "base/random.h"

/* Gamma(a, 1) by Marsaglia and Tsang's method; below 1 by that of a + 1. */
static double gamma_of(hri_random *r, double a) {
    const double below = a < 1 ? pow(1 - hri_random_double(r), 1 / a) : 1;
    const double d = (a < 1 ? a + 1 : a) - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = (double)hri_random_normal(r), v = pow(1 + c * x, 3);
        const double u = 1 - hri_random_double(r); /* (0, 1] */
        if (1 + c * x > 0 && log(u) < x * x / 2 + d - d * v + d * log(v)) {
            return d * v * below;
        }
    }
}

static double beta_of(hri_random *r, double alpha) {
    const double a = gamma_of(r, alpha), b = gamma_of(r, alpha);
    return a + b > 0 ? a / (a + b) : hri_random_double(r) < 0.5; /* both are 0: alpha is tiny */
}

static int64_t within(int64_t x, int64_t most) {
    return x < 0 ? 0 : x > most ? most : x;
}

void hri_mix_draw(const hri_mix_options *o, uint32_t step, uint32_t pair, int64_t height,
                  int64_t width, hri_mix *out) {
    hri_random r = hri_random_at(o->seed, step, HRI_RANDOM_NODE_MIX, pair);
    const int coin = hri_random_double(&r) < 0.5; /* drawn in any case */
    hri_mix m = {.cut = o->cutmix > 0 && (!(o->mixup > 0) || coin)};
    m.share = beta_of(&r, m.cut ? o->cutmix : o->mixup);
    if (m.cut) {
        const int64_t x = (int64_t)hri_random_below(&r, (uint64_t)width);
        const int64_t y = (int64_t)hri_random_below(&r, (uint64_t)height);
        const double half = 0.5 * sqrt(1 - m.share);
        const int64_t w = (int64_t)(half * (double)width), h = (int64_t)(half * (double)height);
        m.left = within(x - w, width);
        m.top = within(y - h, height);
        m.right = within(x + w, width);
        m.bottom = within(y + h, height);
        m.share = 1 - (double)((m.right - m.left) * (m.bottom - m.top)) / (double)(width * height);
    }
    *out = m;
}

static void cut(const hri_mix *m, const hr_field *own, const hr_field *other, void *to) {
    const int64_t *d = own->meta.shape.dim;
    const size_t pixel = (size_t)d[2] * hr_type_bytes(own->meta.type);
    memcpy(to, own->data, own->bytes);
    for (int64_t y = m->top; y < m->bottom; y++) {
        const size_t at = (size_t)(y * d[1] + m->left) * pixel;
        memcpy((char *)to + at, (const char *)other->data + at,
               (size_t)(m->right - m->left) * pixel);
    }
}

hr_status hri_mix_field(const hri_mix *m, const hr_field *own, const hr_field *other, void *to,
                        hri_prose *why) {
    const int32_t type = own->meta.type;
    const float share = (float)m->share, rest = (float)(1 - m->share);
    if (type != other->meta.type || !hr_shape_same(&own->meta.shape, &other->meta.shape) ||
        (type != HR_TYPE_U8 && type != HR_TYPE_F32) || (m->cut && own->meta.shape.rank != 3)) {
        char a[256], b[256];
        return hri_prose_set(why, HR_E_SHAPE,
                             "samples that are mixed must have one form, u8 or f32, for cutmix "
                             "(height, width, channels): %s and %s",
                             hr_meta_print(&own->meta, a, sizeof a),
                             hr_meta_print(&other->meta, b, sizeof b));
    }
    if (m->cut) {
        cut(m, own, other, to);
        return HR_OK;
    }
    const uint64_t n = own->bytes / hr_type_bytes((hr_type)type);
    for (uint64_t i = 0; type == HR_TYPE_U8 && i < n; i++) {
        const float x = share * (float)((const uint8_t *)own->data)[i] +
                        rest * (float)((const uint8_t *)other->data)[i];
        ((uint8_t *)to)[i] = (uint8_t)(x + 0.5f);
    }
    for (uint64_t i = 0; type == HR_TYPE_F32 && i < n; i++) {
        ((float *)to)[i] =
            share * ((const float *)own->data)[i] + rest * ((const float *)other->data)[i];
    }
    return HR_OK;
}

void hri_mix_target(const hri_mix *m, int64_t own, int64_t other, int64_t classes, float *to) {
    memset(to, 0, (size_t)classes * sizeof *to);
    to[own] = (float)m->share;
    to[other] += (float)(1 - m->share);
}
