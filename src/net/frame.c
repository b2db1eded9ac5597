/* See frame.h. */
#include "net/frame.h"

#include <string.h>

#include "base/crc32c.h"

static void put(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) {
        at[i] = (unsigned char)(value >> (8 * i));
    }
}

static uint64_t get(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

void hri_frame_encode(const hri_frame *f, unsigned char out[HRI_FRAME_BYTES]) {
    memset(out, 0, HRI_FRAME_BYTES);
    put(out, HRI_FRAME_MAGIC, 4);
    put(out + 4, HRI_FRAME_VERSION, 1);
    put(out + 5, (uint64_t)f->kind, 1);
    put(out + 8, f->from, 4);
    put(out + 12, f->to, 4);
    put(out + 16, f->number, 8);
    put(out + 24, f->epoch, 4);
    put(out + 32, f->offset, 8);
    put(out + 40, f->bytes, 8);
    put(out + 48, f->total, 8);
    put(out + 56, f->payload_crc, 4);
    put(out + 60, hri_crc32c(0, out, 60), 4);
}

hr_status hri_frame_decode(const unsigned char in[HRI_FRAME_BYTES], hri_frame *out) {
    if (get(in, 4) != HRI_FRAME_MAGIC || in[4] != HRI_FRAME_VERSION || in[5] < HRI_FRAME_HELLO ||
        in[5] >= HRI_FRAME_KIND_END || get(in + 6, 2) != 0 || get(in + 28, 4) != 0 ||
        get(in + 60, 4) != hri_crc32c(0, in, 60)) {
        return HR_E_FORMAT;
    }
    const hri_frame f = {.kind = (hri_frame_kind)in[5],
                         .from = (uint32_t)get(in + 8, 4),
                         .to = (uint32_t)get(in + 12, 4),
                         .number = get(in + 16, 8),
                         .epoch = (uint32_t)get(in + 24, 4),
                         .offset = get(in + 32, 8),
                         .bytes = get(in + 40, 8),
                         .total = get(in + 48, 8),
                         .payload_crc = (uint32_t)get(in + 56, 4)};
    if (f.bytes > HRI_FRAME_MOST || f.offset > f.total || f.bytes > f.total - f.offset) {
        return HR_E_FORMAT;
    }
    *out = f;
    return HR_OK;
}

hr_status hri_frame_expect(const hri_frame *f, const hri_frame *expected) {
    if (f->kind != expected->kind || f->from != expected->from || f->to != expected->to ||
        f->epoch != expected->epoch || f->number != expected->number) {
        return HR_E_FORMAT;
    }
    if (f->total != expected->total) {
        return HR_E_SHAPE;
    }
    /* Pieces come in order, none is empty but that of an empty message. */
    return f->offset == expected->offset && (f->bytes != 0 || f->total == 0) ? HR_OK : HR_E_FORMAT;
}
