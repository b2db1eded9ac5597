/* Decoding and rounding of weight_codes.h. */
#include "ops/common/weight_codes.h"

#include <math.h>

static float scale_at(const hri_weight_codes *w, int64_t at) {
    return w->bits == 4 ? hri_from_bf16(((const hri_bf16 *)w->scales)[at])
                        : ((const float *)w->scales)[at];
}

static int half_at(const uint8_t *bytes, int64_t i) {
    return bytes[i / 2] >> (i % 2 * 4) & 15;
}

static void put_half(uint8_t *bytes, int64_t i, int code) {
    const int other = i % 2 ? bytes[i / 2] & 15 : 0;
    bytes[i / 2] = (uint8_t)(other | code << (i % 2 * 4));
}

/* Of one group. */
static void decode4(const uint8_t *row, int64_t first, int64_t count, float scale, int zero,
                    float *to) {
    int64_t i = 0;
    for (; i < count && (first + i) % 2; i++) {
        to[i] = (float)(half_at(row, first + i) - zero) * scale;
    }
    for (; i + 2 <= count; i += 2) {
        const int byte = row[(first + i) / 2];
        to[i] = (float)((byte & 15) - zero) * scale;
        to[i + 1] = (float)((byte >> 4) - zero) * scale;
    }
    for (; i < count; i++) {
        to[i] = (float)(half_at(row, first + i) - zero) * scale;
    }
}

void hri_weight_decode(const hri_weight_codes *w, int64_t row, int64_t first, int64_t count,
                       float *to) {
    const int64_t groups = hri_weight_groups(w->in, w->group);
    const uint8_t *bytes = (const uint8_t *)w->codes + row * hri_weight_row_bytes(w->bits, w->in);
    for (int64_t done = 0; done < count;) {
        const int64_t at = first + done, g = at / w->group;
        const int64_t left = (g + 1) * w->group - at;
        const int64_t n = left < count - done ? left : count - done;
        const float scale = scale_at(w, row * groups + g);
        if (w->bits == 4) {
            decode4(bytes, at, n, scale, half_at(w->zero + row * ((groups + 1) / 2), g), to + done);
        } else {
            const int8_t *code = (const int8_t *)bytes + at;
            for (int64_t i = 0; i < n; i++) {
                to[done + i] = (float)code[i] * scale;
            }
        }
        done += n;
    }
}

/* ---- rounding ---- */

static float real_or_0(float x) {
    return isfinite(x) ? x : 0.0f;
}

static float usable(float scale) {
    return scale >= 0x1p-120f && isfinite(scale) ? scale : 1.0f;
}

static void encode8(int64_t n, const float *from, int8_t *codes, float *scale) {
    float most = 0.0f;
    for (int64_t i = 0; i < n; i++) {
        most = fmaxf(most, fabsf(real_or_0(from[i])));
    }
    *scale = usable(most / 127.0f);
    for (int64_t i = 0; i < n; i++) {
        const float code = rintf(real_or_0(from[i]) / *scale);
        codes[i] = (int8_t)(code > 127.0f ? 127.0f : code < -127.0f ? -127.0f : code);
    }
}

/* The range contains 0, which is a code. */
static void encode4(int64_t first, int64_t n, const float *from, uint8_t *codes, hri_bf16 *to,
                    int *zero) {
    float low = 0.0f, high = 0.0f;
    for (int64_t i = 0; i < n; i++) {
        low = fminf(low, real_or_0(from[first + i]));
        high = fmaxf(high, real_or_0(from[first + i]));
    }
    *to = hri_to_bf16(usable((high - low) / 15.0f));
    const float scale = hri_from_bf16(*to);
    const float at = rintf(-low / scale);
    *zero = (int)(at > 15.0f ? 15.0f : at);
    for (int64_t i = 0; i < n; i++) {
        const float code = rintf(real_or_0(from[first + i]) / scale) + (float)*zero;
        put_half(codes, first + i, (int)(code > 15.0f ? 15.0f : code < 0.0f ? 0.0f : code));
    }
}

void hri_weight_encode(int bits, int64_t group, int64_t in, const float *from, void *codes,
                       void *scales, uint8_t *zero) {
    for (int64_t g = 0; g * group < in; g++) {
        const int64_t first = g * group, n = in - first < group ? in - first : group;
        if (bits == 4) {
            int z = 0;
            encode4(first, n, from, codes, (hri_bf16 *)scales + g, &z);
            put_half(zero, g, z);
        } else {
            encode8(n, from + first, (int8_t *)codes + first, (float *)scales + g);
        }
    }
}
