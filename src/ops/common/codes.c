/* The table, and blocks in both directions; see codes.h. */
#include "ops/common/codes.h"

#include <math.h>
#include <string.h>

/* The middle of part k of 2^i (twice that: positive) of [0.1, 1], times 10^(i - 6).  Both numbers are exact. */
static float middle(int positive, int i, int k) {
    static const float tens[] = {1e7f, 1e6f, 1e5f, 1e4f, 1e3f, 1e2f, 1e1f};
    const int twice = 2 << (i + positive);
    return (float)(twice + 9 * (2 * k + 1)) / ((float)twice * tens[i]);
}

void hri_codes_init(hri_codes *out, int positive) {
    int n = 0;
    out->positive = positive;
    out->magnitude[n++] = 0.0f;
    for (int i = 0; i < 7; i++) {
        for (int k = 0; k < 1 << (i + positive); k++) {
            out->magnitude[n++] = middle(positive, i, k);
        }
    }
    out->magnitude[n++] = 1.0f;
    for (int code = 0; code < 256; code++) {
        out->value[code] = code < n ? out->magnitude[code] : -out->magnitude[256 - code];
    }
    for (; n < 257; n++) {
        out->magnitude[n] = INFINITY;
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < HRI_CODES_STARTS; i++) {
        const uint32_t bits = (HRI_CODES_START_FIRST + i) << HRI_CODES_START_SHIFT;
        float x;
        memcpy(&x, &bits, sizeof x);
        while (out->magnitude[at + 1] <= x) {
            at++;
        }
        out->start[i] = (unsigned char)at;
    }
}

static int is_finite(float x) {
    return x - x == 0.0f;
}

void hri_codes_decode(const hri_codes *c, const unsigned char *from, uint64_t n, float *out) {
    for (uint64_t at = 0; at < n; at += HRI_CODES_BLOCK, from += HRI_CODES_BLOCK_BYTES) {
        const uint64_t count = n - at < HRI_CODES_BLOCK ? n - at : HRI_CODES_BLOCK;
        const unsigned char *codes = from + sizeof(float);
        float scale;
        memcpy(&scale, from, sizeof scale);
        for (uint64_t i = 0; i < count; i++) {
            out[at + i] = c->value[codes[i]] * scale;
        }
    }
}

/* The largest magnitude, by its bits: a NaN is above infinity, and no order of looking matters. */
static float largest(const float *x, uint64_t n) {
    uint32_t most = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffffu;
        most = bits > most ? bits : most;
    }
    float out;
    memcpy(&out, &most, sizeof out);
    return out;
}

/* Of 0 <= x <= 1: the last magnitude that is not above it. */
static uint32_t below(const hri_codes *c, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int32_t place = (int32_t)(bits >> HRI_CODES_START_SHIFT) - HRI_CODES_START_FIRST;
    uint32_t at = place < 0 ? 0 : c->start[place];
    at += c->magnitude[at + 1] <= x;
    at += c->magnitude[at + 1] <= x;
    return at;
}

/* draw: 0 .. 65535; negative: to the nearest. */
static unsigned char encode(const hri_codes *c, float x, int32_t draw) {
    const float a = fabsf(x);
    uint32_t at = below(c, a);
    const float under = a - c->magnitude[at], over = c->magnitude[at + 1] - a;
    at += draw < 0 ? under > over : (float)draw * (under + over) < 65536.0f * under;
    at += c->positive && at == 0 && a > 0.0f;
    if (!(x < 0.0f)) {
        return (unsigned char)at;
    }
    return (unsigned char)(at > 127 ? 129 : 256 - at); /* there is no code for -1 */
}

void hri_codes_encode(const hri_codes *c, const float *from, uint64_t n, const uint32_t *draws,
                      uint32_t shift, unsigned char *to) {
    for (uint64_t at = 0; at < n; at += HRI_CODES_BLOCK, to += HRI_CODES_BLOCK_BYTES) {
        const uint64_t count = n - at < HRI_CODES_BLOCK ? n - at : HRI_CODES_BLOCK;
        const float scale = largest(from + at, count);
        unsigned char *codes = to + sizeof(float);
        memcpy(to, &scale, sizeof scale);
        memset(codes, 0, HRI_CODES_BLOCK);
        for (uint64_t i = 0; i < count && scale != 0.0f; i++) {
            const int32_t draw = draws ? (int32_t)(draws[at + i] >> shift & 0xffffu) : -1;
            codes[i] = is_finite(scale) ? encode(c, from[at + i] / scale, draw) : 1;
        }
    }
}
