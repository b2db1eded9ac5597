/* WebP through libwebp, found at run time: without it such a picture is refused with a sentence that names the library.
 *
 * The library decodes a picture whole, into a buffer of ours, and takes memory of its own that cannot be given to it.  So that
 * much is held in the ledger meanwhile (whole_bytes has both): a picture that declares a great size is refused by the
 * ledger, not by the machine.  Animations are refused.
 *
 * Lossless ones keep values as they are, so their pixels can be had as they are stored, too: for masks. */
#include <string.h>

#include "data/image/image.h"
#include "data/image/library.h"

typedef struct library {
    void *handle;
    int (*WebPGetInfo)(const uint8_t *data, size_t bytes, int *width, int *height);
    uint8_t *(*WebPDecodeRGBInto)(const uint8_t *data, size_t bytes, uint8_t *out, size_t out_bytes,
                                  int stride);
    int (*WebPGetDecoderVersion)(void);
} library;

#define GET(NAME) hri_image_library_get(l->handle, #NAME, &l->NAME)

static bool load(library *l) {
    static const char *const names[] = {"libwebp.so.7", NULL};
    *l = (library){.handle = hri_image_library_open(names)};
    return GET(WebPGetInfo) && GET(WebPDecodeRGBInto) && GET(WebPGetDecoderVersion);
}

int hri_webp_version(void) {
    library l;
    const int version = load(&l) ? l.WebPGetDecoderVersion() : 0;
    hri_image_library_close(l.handle);
    return version;
}

static uint32_t three_at(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}

/* The first chunk says it all: VP8 (lossy), VP8L (lossless) or VP8X (either, with more). */
hr_status hri_webp_probe(const void *data, size_t bytes, hri_image_info *out, hri_prose *why) {
    const uint8_t *p = data;
    uint32_t width, height;
    if (bytes < 30) {
        return HR_E_EOF;
    }
    if (!memcmp(p + 12, "VP8X", 4)) {
        if (p[20] & 2) {
            return hri_prose_set(why, HR_E_FORMAT, "WebP: animations are not supported");
        }
        width = three_at(p + 24) + 1;
        height = three_at(p + 27) + 1;
    } else if (!memcmp(p + 12, "VP8L", 4) && p[20] == 0x2f) {
        const uint32_t bits = three_at(p + 21) | (uint32_t)p[24] << 24;
        width = (bits & 0x3fff) + 1;
        height = (bits >> 14 & 0x3fff) + 1;
    } else if (!memcmp(p + 12, "VP8 ", 4) && !memcmp(p + 23, "\x9d\x01\x2a", 3)) {
        width = three_at(p + 26) & 0x3fff;
        height = three_at(p + 28) & 0x3fff; /* two bytes of it */
    } else {
        return hri_prose_set(why, HR_E_FORMAT, "WebP: the header is missing");
    }
    if (!width || !height) {
        return hri_prose_set(why, HR_E_FORMAT, "WebP: invalid size %u x %u", width, height);
    }
    *out = (hri_image_info){.format = HRI_IMAGE_WEBP,
                            .width = width,
                            .height = height,
                            .whole_bytes = (uint64_t)width * height * 9 + (1 << 20)};
    return HR_OK;
}

typedef struct picture {
    const uint8_t *pixels;
    size_t stride;
} picture;

static void fill(void *user, uint32_t y, uint32_t left, uint32_t width, uint8_t *rgb) {
    const picture *p = user;
    memcpy(rgb, p->pixels + y * p->stride + (size_t)left * 3, (size_t)width * 3);
}

static hr_status decode(const library *l, const void *data, size_t bytes,
                        const hri_image_info *info, uint8_t *to, hri_prose *why) {
    int width = 0, height = 0;
    if (!l->WebPGetInfo(data, bytes, &width, &height) || width != (int)info->width ||
        height != (int)info->height) {
        return hri_prose_set(why, HR_E_FORMAT, "WebP: the size is not that of the header");
    }
    const size_t stride = (size_t)info->width * 3;
    return l->WebPDecodeRGBInto(data, bytes, to, stride * info->height, (int)stride)
               ? HR_OK
               : hri_prose_set(why, HR_E_FORMAT, "WebP: truncated or damaged");
}

/* All pixels, three bytes each. */
static hr_status read_pixels(const void *data, size_t bytes, hri_memory *memory, picture *out,
                             hri_image_info *info, hri_buffer **pixels, hri_prose *why) {
    library l;
    hri_buffer *held = NULL;
    hr_status status = hri_webp_probe(data, bytes, info, why);
    if (status != HR_OK) {
        return status == HR_E_EOF ? hri_prose_set(why, HR_E_FORMAT, "WebP: the file is truncated")
                                  : status;
    }
    if (!load(&l)) {
        status = hri_prose_set(why, HR_E_UNSUPPORTED,
                               "WebP: libwebp.so.7 is not installed (Debian: libwebp7)");
    }
    const uint64_t plain = (uint64_t)info->width * info->height * 3;
    status = status == HR_OK ? hri_memory_buffer(memory, plain, pixels) : status;
    status = status == HR_OK ? hri_memory_buffer(memory, info->whole_bytes - plain, &held) : status;
    status = status == HR_OK ? decode(&l, data, bytes, info, (*pixels)->data, why) : status;
    hri_buffer_unref(held);
    hri_image_library_close(l.handle);
    if (status == HR_OK) {
        *out = (picture){.pixels = (*pixels)->data, .stride = (size_t)info->width * 3};
    }
    return status;
}

hr_status hri_webp_decode(const void *data, size_t bytes, const hri_view *view, hri_memory *memory,
                          uint8_t *out, hri_prose *why) {
    hri_image_info info;
    hri_buffer *pixels = NULL;
    picture p;
    hr_status status = read_pixels(data, bytes, memory, &p, &info, &pixels, why);
    if (status == HR_OK) {
        status = hri_image_feed(info.width, info.height, view, memory, out, fill, &p);
    }
    hri_buffer_unref(pixels);
    return status;
}

/* ---- pixels as they are ---- */

/* The first chunk with pixels is VP8L. */
static bool is_lossless(const uint8_t *p, size_t bytes) {
    for (uint64_t at = 12; at + 8 <= bytes;) {
        if (!memcmp(p + at, "VP8L", 4) || !memcmp(p + at, "VP8 ", 4)) {
            return p[at + 3] == 'L';
        }
        const uint64_t size = three_at(p + at + 4) | (uint64_t)p[at + 7] << 24;
        at += 8 + size + size % 2;
    }
    return true; /* there are none: decoding says so */
}

hr_status hri_webp_each_row(const void *data, size_t bytes, hri_memory *memory, hri_png_row_fn *fn,
                            void *user, hri_prose *why) {
    hri_image_info info;
    hri_buffer *pixels = NULL;
    picture p = {0};
    if (!is_lossless(data, bytes)) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "a lossy WebP cannot be a mask, since its compression changes values "
                             "and colours; save it as lossless");
    }
    hr_status status = read_pixels(data, bytes, memory, &p, &info, &pixels, why);
    hri_png_rows of = {.kind = HRI_PNG_COLOUR};
    for (uint32_t y = 0; status == HR_OK && y < info.height; y++) {
        of.width = info.width, of.height = info.height;
        status = fn(user, &of, y, p.pixels + y * p.stride);
    }
    hri_buffer_unref(pixels);
    return status;
}
