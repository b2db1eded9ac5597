/* Fourteen operations; see augment.h.  Blends are computed in f32 and cut off, as torchvision's are;
 * this file is compiled without contracting a product and a sum into one, so that every machine gives the same bytes. */
#include "data/image/augment.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

/* Place `bin` of `bins` from 0 to `end`, rounded as torch.linspace rounds. */
static double place(double end, int64_t bin, int64_t bins) {
    const float step = (float)((double)(float)end / (double)(bins - 1));
    const float low = (float)((double)step * (double)bin);
    const float below = (float)((double)step * (double)(bins - 1 - bin));
    return (double)(bin < bins / 2 ? low : (float)((double)(float)end - (double)below));
}

double hri_augment_magnitude(hri_augment_op op, int64_t bin, int64_t bins, int64_t height,
                             int64_t width, bool *either) {
    *either = op >= HRI_AUGMENT_SHEAR_X && op <= HRI_AUGMENT_SHARPNESS;
    switch (op) {
    case HRI_AUGMENT_SHEAR_X:
    case HRI_AUGMENT_SHEAR_Y:
        return place(0.3, bin, bins);
    case HRI_AUGMENT_TRANSLATE_X:
        return place(150.0 / 331.0 * (double)width, bin, bins);
    case HRI_AUGMENT_TRANSLATE_Y:
        return place(150.0 / 331.0 * (double)height, bin, bins);
    case HRI_AUGMENT_ROTATE:
        return place(30, bin, bins);
    case HRI_AUGMENT_BRIGHTNESS:
    case HRI_AUGMENT_COLOR:
    case HRI_AUGMENT_CONTRAST:
    case HRI_AUGMENT_SHARPNESS:
        return place(0.9, bin, bins);
    case HRI_AUGMENT_POSTERIZE:
        return 8 - rint(4 * (double)bin / (double)(bins - 1));
    case HRI_AUGMENT_SOLARIZE:
        return 255 - place(255, bin, bins);
    default:
        return 0;
    }
}

/* ---- moving ---- */

bool hri_augment_moves(hri_augment_op op, double m, int64_t height, int64_t width,
                       hri_plane_move *out) {
    const double w = (double)width / 2, h = (double)height / 2;
    switch (op) {
    case HRI_AUGMENT_SHEAR_X: /* about the corner */
        *out = (hri_plane_move){{0, 1, m}, {0, 0, 1}};
        return true;
    case HRI_AUGMENT_SHEAR_Y:
        *out = (hri_plane_move){{0, 1, 0}, {0, m, 1}};
        return true;
    case HRI_AUGMENT_TRANSLATE_X:
        *out = (hri_plane_move){{-trunc(m), 1, 0}, {0, 0, 1}};
        return true;
    case HRI_AUGMENT_TRANSLATE_Y:
        *out = (hri_plane_move){{0, 1, 0}, {-trunc(m), 0, 1}};
        return true;
    case HRI_AUGMENT_ROTATE: {
        const double c = cos(m * pi / 180), s = sin(m * pi / 180);
        *out = (hri_plane_move){{w - c * w + s * h, c, -s}, {h - s * w - c * h, s, c}};
        return true;
    }
    default:
        return false;
    }
}

/* The nearest pixel; of two that are equally near the even one. */
static void move(const hri_bitmap *in, const hri_plane_move *m, hri_bitmap *out) {
    const size_t pixel = (size_t)in->channels;
    uint8_t *to = out->data;
    for (int64_t y = 0; y < in->height; y++) {
        for (int64_t x = 0; x < in->width; x++, to += pixel) {
            const double px = (double)x + 0.5, py = (double)y + 0.5;
            const double sx = rint(m->x[0] + m->x[1] * px + m->x[2] * py - 0.5);
            const double sy = rint(m->y[0] + m->y[1] * px + m->y[2] * py - 0.5);
            if (sx >= 0 && sy >= 0 && sx < (double)in->width && sy < (double)in->height) {
                memcpy(to, in->data + (size_t)((int64_t)sy * in->width + (int64_t)sx) * pixel,
                       pixel);
            } else {
                memset(to, 0, pixel);
            }
        }
    }
}

/* ---- colours ---- */

static uint8_t blend(double factor, float of, float with) {
    const float v = (float)factor * of + (float)(1 - factor) * with;
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* A pixel's grey; of one channel itself. */
static uint8_t grey_of(const uint8_t *p, int64_t channels) {
    return channels == 3
               ? (uint8_t)(0.2989f * (float)p[0] + 0.587f * (float)p[1] + 0.114f * (float)p[2])
               : p[0];
}

static void mix_grey(const hri_bitmap *in, double factor, bool mean, hri_bitmap *out) {
    const int64_t n = in->height * in->width, c = in->channels;
    uint64_t sum = 0;
    for (int64_t i = 0; mean && i < n; i++) {
        sum += grey_of(in->data + i * c, c);
    }
    const float level = (float)((double)sum / (double)n);
    for (int64_t i = 0; i < n; i++) {
        const float with = mean ? level : (float)grey_of(in->data + i * c, c);
        for (int64_t k = 0; k < c; k++) {
            out->data[i * c + k] =
                c == 1 && !mean ? in->data[i] : blend(factor, (float)in->data[i * c + k], with);
        }
    }
}

static void brighten(const hri_bitmap *in, double factor, hri_bitmap *out) {
    const int64_t n = in->height * in->width * in->channels;
    for (int64_t i = 0; i < n; i++) {
        out->data[i] = blend(factor, (float)in->data[i], 0);
    }
}

/* The blurred picture: eight neighbours once and the pixel five times, rounded; edges as they are. */
static void sharpen(const hri_bitmap *in, double factor, hri_bitmap *out) {
    const int64_t w = in->width, c = in->channels, row = w * c;
    for (int64_t y = 0; y < in->height; y++) {
        for (int64_t i = 0; i < row; i++) {
            const uint8_t *p = in->data + y * row + i;
            uint8_t *to = out->data + y * row + i;
            if (w <= 2 || in->height <= 2) { /* torchvision leaves those alone */
                *to = *p;
            } else if (y == 0 || y == in->height - 1 || i < c || i >= row - c) {
                *to = blend(factor, (float)*p, (float)*p);
            } else {
                const int sum = p[-row - c] + p[-row] + p[-row + c] + p[-c] + 5 * p[0] + p[c] +
                                p[row - c] + p[row] + p[row + c];
                *to = blend(factor, (float)*p, rintf((float)sum / 13.0f));
            }
        }
    }
}

/* Each channel from its darkest to its brightest becomes 0 to 255. */
static void stretch(const hri_bitmap *in, int64_t c, hri_bitmap *out) {
    const int64_t n = in->height * in->width;
    uint8_t least = 255, most = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t v = in->data[i * in->channels + c];
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    const float low = most > least ? (float)least : 0.0f;
    const float scale = most > least ? 255.0f / (float)(most - least) : 1.0f;
    for (int64_t i = 0; i < n; i++) {
        const float v = ((float)in->data[i * in->channels + c] - low) * scale;
        out->data[i * in->channels + c] = (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
    }
}

/* All values equally often, as far as that goes. */
static void equalize(const hri_bitmap *in, int64_t c, hri_bitmap *out) {
    const int64_t n = in->height * in->width;
    int64_t counts[256] = {0}, last = 0, before = 0;
    uint8_t table[256];
    for (int64_t i = 0; i < n; i++) {
        counts[in->data[i * in->channels + c]]++;
    }
    for (int v = 0; v < 256; v++) {
        last = counts[v] ? counts[v] : last;
    }
    const int64_t step = (n - last) / 255;
    for (int v = 0; v < 256; v++) {
        const int64_t to = step ? (before + step / 2) / step : v;
        table[v] = (uint8_t)(v == 0 && step ? 0 : to > 255 ? 255 : to);
        before += counts[v];
    }
    for (int64_t i = 0; i < n; i++) {
        out->data[i * in->channels + c] = table[in->data[i * in->channels + c]];
    }
}

static void each_value(hri_augment_op op, double m, const hri_bitmap *in, hri_bitmap *out) {
    const int64_t n = in->height * in->width * in->channels;
    const uint8_t mask = op == HRI_AUGMENT_POSTERIZE ? (uint8_t)(0xff << (8 - (int)m)) : 0;
    for (int64_t i = 0; i < n; i++) {
        const uint8_t v = in->data[i];
        out->data[i] = op == HRI_AUGMENT_POSTERIZE ? v & mask
                       : (double)v >= m            ? (uint8_t)(255 - v)
                                                   : v;
    }
}

void hri_augment_apply(hri_augment_op op, double m, const hri_bitmap *in, hri_bitmap *out) {
    hri_plane_move by;
    if (hri_augment_moves(op, m, in->height, in->width, &by)) {
        move(in, &by, out);
        return;
    }
    switch (op) {
    case HRI_AUGMENT_BRIGHTNESS:
        brighten(in, 1 + m, out);
        break;
    case HRI_AUGMENT_COLOR:
    case HRI_AUGMENT_CONTRAST:
        mix_grey(in, 1 + m, op == HRI_AUGMENT_CONTRAST, out);
        break;
    case HRI_AUGMENT_SHARPNESS:
        sharpen(in, 1 + m, out);
        break;
    case HRI_AUGMENT_POSTERIZE:
    case HRI_AUGMENT_SOLARIZE:
        each_value(op, m, in, out);
        break;
    case HRI_AUGMENT_AUTO_CONTRAST:
    case HRI_AUGMENT_EQUALIZE:
        for (int64_t c = 0; c < in->channels; c++) {
            (op == HRI_AUGMENT_EQUALIZE ? equalize : stretch)(in, c, out);
        }
        break;
    default:
        memcpy(out->data, in->data, (size_t)(in->height * in->width * in->channels));
        break;
    }
}
