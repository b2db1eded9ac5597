/* BMP: pixels that are stored as they are, so a row is found by its place and nothing but the resizer takes memory.
 *
 * Headers of Windows (40 bytes and longer) and of OS/2 (12 bytes); 1, 4 and 8 bits with a palette, 16, 24 and 32 bits; from below
 * or from above.  Compressed ones (RLE, JPEG or PNG inside) are refused. */
#include <string.h>

#include "data/image/image.h"

typedef struct bitmap {
    const uint8_t *data, *palette, *pixels;
    size_t bytes;
    uint32_t width, height, bits, colours, entry_bytes;
    uint64_t stride;
    uint32_t masks[3]; /* red, green, blue; of 16 and 32 bits */
    bool from_above;
} bitmap;

static uint32_t half_at(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t word_at(const uint8_t *p) {
    return half_at(p) | half_at(p + 2) << 16;
}

static hr_status wrong(hri_prose *why, const char *what) {
    return hri_prose_set(why, HR_E_FORMAT, "BMP: %s", what);
}

/* Sizes and bits; old is the header of OS/2. */
static hr_status read_sizes(bitmap *b, bool old, hri_prose *why) {
    const uint8_t *p = b->data;
    const uint32_t height = old ? half_at(p + 20) : word_at(p + 22);
    b->width = old ? half_at(p + 18) : word_at(p + 18);
    b->from_above = !old && height >> 31;
    b->height = b->from_above ? 0u - height : height;
    b->bits = half_at(p + (old ? 24 : 28));
    b->entry_bytes = old ? 3 : 4;
    if (!b->width || !b->height || b->width >> 31 || b->height >> 31) {
        return hri_prose_set(why, HR_E_FORMAT, "BMP: invalid size %u x %u", b->width, b->height);
    }
    if (b->bits != 1 && b->bits != 4 && b->bits != 8 && b->bits != 16 && b->bits != 24 &&
        b->bits != 32) {
        return hri_prose_set(why, HR_E_FORMAT, "BMP: %u bits per pixel", b->bits);
    }
    b->stride = ((uint64_t)b->width * b->bits + 31) / 32 * 4;
    return HR_OK;
}

/* HR_E_EOF: these bytes end before the header does. */
static hr_status read_header(const void *data, size_t bytes, bitmap *b, hri_prose *why) {
    static const uint32_t narrow[] = {0x7c00, 0x3e0, 0x1f}, wide[] = {0xff0000, 0xff00, 0xff};
    *b = (bitmap){.data = data, .bytes = bytes};
    if (bytes < 26) {
        return HR_E_EOF;
    }
    const uint32_t header = word_at(b->data + 14);
    const bool old = header == 12;
    if (!old && bytes < 54) {
        return HR_E_EOF;
    }
    if (!old && (header < 40 || header > 1024)) {
        return wrong(why, "an unknown header");
    }
    const hr_status status = read_sizes(b, old, why);
    const uint32_t packing = old ? 0 : word_at(b->data + 30);
    if (status != HR_OK) {
        return status;
    }
    if (packing != 0 && packing != 3 && packing != 6) {
        return wrong(why, "compressed pixels are not supported");
    }
    memcpy(b->masks, b->bits == 16 ? narrow : wide, sizeof b->masks);
    if (packing) {
        if (bytes < 66) {
            return HR_E_EOF;
        }
        for (int i = 0; i < 3; i++) {
            b->masks[i] = word_at(b->data + 54 + 4 * i);
        }
    }
    const uint32_t said = old ? 0 : word_at(b->data + 46);
    b->colours = b->bits > 8 ? 0 : said && said < 1u << b->bits ? said : 1u << b->bits;
    b->palette = b->data + 14 + header + (packing && header == 40 ? 12 : 0);
    return HR_OK;
}

hr_status hri_bmp_probe(const void *data, size_t bytes, hri_image_info *out, hri_prose *why) {
    bitmap b;
    const hr_status status = read_header(data, bytes, &b, why);
    if (status == HR_OK) {
        *out = (hri_image_info){.format = HRI_IMAGE_BMP, .width = b.width, .height = b.height};
    }
    return status;
}

/* The bits under a mask as 0 to 255. */
static uint8_t under(uint32_t pixel, uint32_t mask) {
    if (!mask) {
        return 0;
    }
    const uint32_t shift = (uint32_t)__builtin_ctz(mask), most = mask >> shift;
    return (uint8_t)(((uint64_t)((pixel & mask) >> shift) * 255 + most / 2) / most);
}

static void fill(void *user, uint32_t y, uint32_t left, uint32_t width, uint8_t *rgb) {
    const bitmap *b = user;
    const uint8_t *row = b->pixels + (b->from_above ? y : b->height - 1 - y) * b->stride;
    for (uint32_t i = 0, x = left; i < width; i++, x++, rgb += 3) {
        if (b->bits <= 8) {
            const uint32_t each = 8 / b->bits, shift = (each - 1 - x % each) * b->bits;
            const uint32_t k = (uint32_t)(row[x / each] >> shift) & ((1u << b->bits) - 1);
            const uint8_t *c = b->palette + (k < b->colours ? k : 0) * b->entry_bytes;
            rgb[0] = c[2], rgb[1] = c[1], rgb[2] = c[0];
        } else if (b->bits == 24) {
            rgb[0] = row[3 * x + 2], rgb[1] = row[3 * x + 1], rgb[2] = row[3 * x];
        } else {
            const uint32_t p =
                b->bits == 16 ? half_at(row + 2 * (size_t)x) : word_at(row + 4 * (size_t)x);
            for (int c = 0; c < 3; c++) {
                rgb[c] = under(p, b->masks[c]);
            }
        }
    }
}

/* All of it is there. */
static hr_status open_bitmap(const void *data, size_t bytes, bitmap *b, hri_prose *why) {
    const hr_status status = read_header(data, bytes, b, why);
    if (status != HR_OK) {
        return status == HR_E_EOF ? wrong(why, "the file is truncated") : status;
    }
    const uint64_t at = word_at(b->data + 10), all = hri_bytes_mul(b->stride, b->height);
    const uint64_t palette =
        (uint64_t)(b->palette - b->data) + (uint64_t)b->colours * b->entry_bytes;
    if (at > bytes || all > bytes - at || palette > bytes) {
        return wrong(why, "the file is truncated");
    }
    b->pixels = b->data + at;
    return HR_OK;
}

hr_status hri_bmp_decode(const void *data, size_t bytes, const hri_view *view, hri_memory *memory,
                         uint8_t *out, hri_prose *why) {
    bitmap b;
    const hr_status status = open_bitmap(data, bytes, &b, why);
    return status == HR_OK ? hri_image_feed(b.width, b.height, view, memory, out, fill, &b)
                           : status;
}

/* ---- pixels as they are ---- */

static void describe(const bitmap *b, hri_png_rows *out) {
    *out = (hri_png_rows){.width = b->width,
                          .height = b->height,
                          .kind = b->bits <= 8 ? HRI_PNG_INDEXED : HRI_PNG_COLOUR};
    for (uint32_t i = 0; i < 256; i++) {
        const uint8_t *c = b->palette + (size_t)i * b->entry_bytes;
        out->palette[i] = i < b->colours
                              ? (uint32_t)c[2] << 16 | (uint32_t)c[1] << 8 | (uint32_t)c[0]
                              : i * 0x010101u;
    }
}

static void fill_numbers(const bitmap *b, uint32_t y, uint8_t *to) {
    const uint8_t *row = b->pixels + (b->from_above ? y : b->height - 1 - y) * b->stride;
    const uint32_t each = 8 / b->bits;
    for (uint32_t x = 0; x < b->width; x++) {
        const uint32_t shift = (each - 1 - x % each) * b->bits;
        to[x] = (uint8_t)((uint32_t)(row[x / each] >> shift) & ((1u << b->bits) - 1));
    }
}

hr_status hri_bmp_each_row(const void *data, size_t bytes, hri_memory *memory, hri_png_row_fn *fn,
                           void *user, hri_prose *why) {
    bitmap b;
    hri_png_rows of;
    hri_buffer *row = NULL;
    hr_status status = open_bitmap(data, bytes, &b, why);
    status = status == HR_OK ? hri_memory_buffer(memory, (uint64_t)b.width * 3, &row) : status;
    if (status != HR_OK) {
        return status;
    }
    describe(&b, &of);
    for (uint32_t y = 0; y < b.height && status == HR_OK; y++) {
        if (of.kind == HRI_PNG_INDEXED) {
            fill_numbers(&b, y, row->data);
        } else {
            fill(&b, y, 0, b.width, row->data);
        }
        status = fn(user, &of, y, row->data);
    }
    hri_buffer_unref(row);
    return status;
}
