/* AVIF through libavif 0.11 or later, found at run time: without it such a picture is refused with a sentence that names the library.
 *
 * The primary picture of a file that is one AV1 frame; more than 8 bits become 8, alpha is left out.  Animations and grids (one
 * picture of many frames, each with a decoder of its own) are refused.  Marks to turn, mirror or crop are not followed, as those of
 * a JPEG are not.
 *
 * The library decodes a picture whole and takes memory of its own that cannot be given to it, so that much is held in the
 * ledger meanwhile (whole_bytes has it, with the pixels): a picture that declares a great size is refused by the ledger, not
 * by the machine.  The decoder behind the library is dav1d, since it can be told the number of pixels that are held:
 * what the frame says of itself is no more to be believed than what the file says of the frame.
 *
 * The size is read by us, from the properties of the primary item: boxes in boxes, each a length, four letters and contents. */
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "data/image/image.h"
#include "data/image/library.h"

enum {
    MOST_PIXELS = 1 << 28, /* of libavif */
    MOST_SIDE = 1 << 16,   /* of AV1 */
    DAV1D = 2,
    PRIMARY_ITEM = 1
};

/* ---- the library: as avif.h has it ---- */

typedef struct avif_image { /* more follows */
    uint32_t width, height, depth;
} avif_image;

typedef struct avif_decoder { /* more follows */
    int codec, threads, source, progressive, incremental, ignore_exif, ignore_xmp;
    uint32_t most_pixels, most_side, most_images, strict;
    const avif_image *image;
} avif_decoder;

/* What the pixels become; the last two are elsewhere in 0.11. */
typedef struct avif_rgb {
    uint32_t width, height, depth;
    int format, up, down, no_libyuv, no_alpha, multiplied, is_float;
    union {
        struct {
            uint8_t *pixels;
            uint32_t row_bytes;
        } before_1;
        struct {
            int threads;
            uint8_t *pixels;
            uint32_t row_bytes;
        } since_1;
    };
    uint64_t more[8];
} avif_rgb;

typedef struct library {
    void *handle;
    const char *(*avifVersion)(void);
    avif_decoder *(*avifDecoderCreate)(void);
    void (*avifDecoderDestroy)(avif_decoder *d);
    int (*avifDecoderSetIOMemory)(avif_decoder *d, const uint8_t *data, size_t bytes);
    int (*avifDecoderSetSource)(avif_decoder *d, int source);
    int (*avifDecoderParse)(avif_decoder *d);
    int (*avifDecoderNextImage)(avif_decoder *d);
    void (*avifRGBImageSetDefaults)(avif_rgb *rgb, const avif_image *image);
    int (*avifImageYUVToRGB)(const avif_image *image, avif_rgb *rgb);
    const char *(*avifCodecName)(int codec, uint32_t flags);
} library;

#define GET(NAME) hri_image_library_get(l->handle, #NAME, &l->NAME)

static bool load(library *l) {
    static const char *const names[] = {"libavif.so.16", "libavif.so.15", NULL};
    *l = (library){.handle = hri_image_library_open(names)};
    return GET(avifVersion) && GET(avifDecoderCreate) && GET(avifDecoderDestroy) &&
           GET(avifDecoderSetIOMemory) && GET(avifDecoderSetSource) && GET(avifDecoderParse) &&
           GET(avifDecoderNextImage) && GET(avifRGBImageSetDefaults) && GET(avifImageYUVToRGB) &&
           GET(avifCodecName) && l->avifCodecName(DAV1D, 1 /* can decode */);
}

bool hri_avif_version(char *text, size_t size) {
    library l;
    const bool there = load(&l);
    snprintf(text, size, "%s", there ? l.avifVersion() : "");
    hri_image_library_close(l.handle);
    return there;
}

/* ---- boxes ---- */

typedef struct span {
    const uint8_t *p;
    size_t bytes;
} span;

#define LETTERS(A, B, C, D) ((uint32_t)(A) << 24 | (uint32_t)(B) << 16 | (uint32_t)(C) << 8 | (D))

/* Takes a number from the front; 0 where the span ends before, which is then empty. */
static uint32_t take(span *s, size_t bytes) {
    uint32_t x = 0;
    if (s->bytes < bytes) {
        s->bytes = 0;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++) {
        x = x << 8 | s->p[i];
    }
    s->p += bytes;
    s->bytes -= bytes;
    return x;
}

static void skip(span *s, size_t bytes) {
    const size_t n = bytes < s->bytes ? bytes : s->bytes;
    s->p += n;
    s->bytes -= n;
}

/* Takes a box from the front.  HR_E_EOF: it is longer than the span; HR_E_FORMAT: it is no box. */
static hr_status take_box(span *s, uint32_t *letters, span *contents) {
    span at = *s;
    if (at.bytes < 8) {
        return HR_E_EOF;
    }
    uint64_t size = take(&at, 4);
    *letters = take(&at, 4);
    size_t head = 8;
    if (size == 1) {
        if (at.bytes < 8) {
            return HR_E_EOF;
        }
        const uint64_t high = take(&at, 4);
        size = high << 32 | take(&at, 4);
        head = 16;
    }
    size = size ? size : s->bytes; /* to the end */
    if (size < head) {
        return HR_E_FORMAT;
    }
    if (size > s->bytes) {
        return HR_E_EOF;
    }
    *contents = (span){s->p + head, (size_t)size - head};
    skip(s, (size_t)size);
    return HR_OK;
}

/* The first box of these letters in a span. */
static hr_status find_box(span in, uint32_t wanted, span *contents) {
    uint32_t letters;
    hr_status status;
    while ((status = take_box(&in, &letters, contents)) == HR_OK) {
        if (letters == wanted) {
            return HR_OK;
        }
    }
    return status;
}

/* How an item is coded: letters; 0: there is no such item. */
static uint32_t coding_of(span iinf, uint32_t id) {
    uint32_t letters;
    span infe;
    const uint32_t wide = take(&iinf, 4) >> 24;
    take(&iinf, wide ? 4 : 2); /* how many: the boxes say it too */
    while (take_box(&iinf, &letters, &infe) == HR_OK) {
        const uint32_t version = take(&infe, 4) >> 24;
        const uint32_t is = take(&infe, version > 2 ? 4 : 2);
        take(&infe, 2); /* protection */
        if (letters == LETTERS('i', 'n', 'f', 'e') && version >= 2 && is == id) {
            return take(&infe, 4);
        }
    }
    return 0;
}

/* Property `index` (from 1) gives the size, where it is one. */
static void take_property(span ipco, uint32_t index, uint32_t *width, uint32_t *height) {
    uint32_t letters = 0;
    span contents = {0};
    for (uint32_t i = 0; i < index; i++) {
        if (take_box(&ipco, &letters, &contents) != HR_OK) {
            return;
        }
    }
    if (letters == LETTERS('i', 's', 'p', 'e')) {
        take(&contents, 4);
        *width = take(&contents, 4);
        *height = take(&contents, 4);
    }
}

/* The size among the properties of an item; untouched: there is none. */
static void size_of(span iprp, uint32_t id, uint32_t *width, uint32_t *height) {
    span ipco, ipma;
    uint32_t letters;
    if (find_box(iprp, LETTERS('i', 'p', 'c', 'o'), &ipco) != HR_OK) {
        return;
    }
    while (take_box(&iprp, &letters, &ipma) == HR_OK) {
        if (letters != LETTERS('i', 'p', 'm', 'a')) {
            continue;
        }
        const uint32_t kind = take(&ipma, 4);
        const uint32_t index_bytes = kind & 1 ? 2 : 1, mark = kind & 1 ? 0x7fff : 0x7f;
        for (uint32_t left = take(&ipma, 4); left && ipma.bytes; left--) {
            const uint32_t is = take(&ipma, kind >> 24 ? 4 : 2);
            for (uint32_t k = take(&ipma, 1); k && ipma.bytes; k--) {
                const uint32_t index = take(&ipma, index_bytes) & mark;
                if (is == id && index) {
                    take_property(ipco, index, width, height);
                }
            }
        }
    }
}

static hr_status wrong(hri_prose *why, const char *what) {
    return hri_prose_set(why, HR_E_FORMAT, "AVIF: %s", what);
}

/* The primary item in the box of descriptions. */
static hr_status read_item(span meta, uint32_t *width, uint32_t *height, hri_prose *why) {
    span pitm, iinf, iprp;
    take(&meta, 4);
    if (find_box(meta, LETTERS('p', 'i', 't', 'm'), &pitm) != HR_OK ||
        find_box(meta, LETTERS('i', 'i', 'n', 'f'), &iinf) != HR_OK ||
        find_box(meta, LETTERS('i', 'p', 'r', 'p'), &iprp) != HR_OK) {
        return wrong(why, "the description of the image is missing");
    }
    const uint32_t wide = take(&pitm, 4) >> 24, id = take(&pitm, wide ? 4 : 2);
    const uint32_t coding = coding_of(iinf, id);
    if (coding == LETTERS('g', 'r', 'i', 'd')) {
        return wrong(why, "grids of several images are not supported");
    }
    if (coding != LETTERS('a', 'v', '0', '1')) {
        return wrong(why, "the image is coded in another way than AV1");
    }
    size_of(iprp, id, width, height);
    return HR_OK;
}

hr_status hri_avif_probe(const void *data, size_t bytes, hri_image_info *out, hri_prose *why) {
    const span all = {data, bytes};
    uint32_t width = 0, height = 0;
    span meta;
    if (bytes < 12) {
        return HR_E_EOF;
    }
    if (!memcmp(all.p + 8, "avis", 4)) {
        return wrong(why, "animations are not supported");
    }
    hr_status status = find_box(all, LETTERS('m', 'e', 't', 'a'), &meta);
    if (status == HR_OK) {
        status = read_item(meta, &width, &height, why);
    } else if (status == HR_E_FORMAT) {
        status = wrong(why, "the description of the image is missing");
    }
    if (status != HR_OK) {
        return status;
    }
    if (!width || !height || width > MOST_SIDE || height > MOST_SIDE) {
        return hri_prose_set(why, HR_E_FORMAT, "AVIF: invalid size %u x %u", width, height);
    }
    /* dav1d makes both sides whole multiples of 128; then planes of color and of alpha with 16 bits, twice where grain is added. */
    const uint64_t padded = (uint64_t)(width + 127) / 128 * ((uint64_t)(height + 127) / 128) << 14;
    *out = (hri_image_info){.format = HRI_IMAGE_AVIF,
                            .width = width,
                            .height = height,
                            .whole_bytes = (uint64_t)width * height * 4 + padded * 20 + (2 << 20)};
    return HR_OK;
}

/* ---- pixels ---- */

/* Pixels of the picture that the decoder has into rows of our own. */
static int convert(const library *l, const avif_image *image, uint8_t *to) {
    avif_rgb rgb = {.width = 0};
    const bool before_1 = !strncmp(l->avifVersion(), "0.", 2);
    l->avifRGBImageSetDefaults(&rgb, image);
    rgb.depth = 8;
    rgb.format = 1; /* with alpha: without, the library would multiply by it */
    if (before_1) {
        rgb.before_1.pixels = to;
        rgb.before_1.row_bytes = image->width * 4;
    } else {
        rgb.since_1.pixels = to;
        rgb.since_1.row_bytes = image->width * 4;
    }
    return l->avifImageYUVToRGB(image, &rgb);
}

static hr_status decode(const library *l, const void *data, size_t bytes,
                        const hri_image_info *info, uint8_t *to, hri_prose *why) {
    const uint64_t pixels = (uint64_t)info->width * info->height;
    avif_decoder *d = HRI_FAULT(ALLOC) ? NULL : l->avifDecoderCreate();
    if (!d) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "AVIF: out of memory");
    }
    d->codec = DAV1D;
    d->ignore_exif = d->ignore_xmp = 1;
    d->most_pixels = (uint32_t)(pixels < MOST_PIXELS ? pixels : MOST_PIXELS);
    d->most_side = MOST_SIDE;
    d->strict = 0; /* files of encoders before 2022 leave things out */
    bool good = !l->avifDecoderSetSource(d, PRIMARY_ITEM) &&
                !l->avifDecoderSetIOMemory(d, data, bytes) && !l->avifDecoderParse(d) &&
                !l->avifDecoderNextImage(d);
    const bool fits = good && d->image->width == info->width && d->image->height == info->height;
    good = fits && !convert(l, d->image, to);
    l->avifDecoderDestroy(d);
    return good ? HR_OK : wrong(why, "truncated, damaged, or a kind that libavif cannot decode");
}

typedef struct picture {
    const uint8_t *pixels;
    size_t stride;
} picture;

static void fill(void *user, uint32_t y, uint32_t left, uint32_t width, uint8_t *rgb) {
    const picture *p = user;
    const uint8_t *from = p->pixels + y * p->stride + (size_t)left * 4;
    for (uint32_t i = 0; i < width; i++, from += 4, rgb += 3) {
        memcpy(rgb, from, 3);
    }
}

hr_status hri_avif_decode(const void *data, size_t bytes, const hri_view *view, hri_memory *memory,
                          uint8_t *out, hri_prose *why) {
    hri_image_info info;
    library l;
    hri_buffer *pixels = NULL, *held = NULL;
    hr_status status = hri_avif_probe(data, bytes, &info, why);
    if (status != HR_OK) {
        return status == HR_E_EOF ? wrong(why, "the file is truncated") : status;
    }
    if (!load(&l)) {
        status = hri_prose_set(why, HR_E_UNSUPPORTED,
                               "AVIF: libavif.so.16 or .15, with dav1d, is not installed (Debian: "
                               "libavif15)");
    }
    const uint64_t plain = (uint64_t)info.width * info.height * 4;
    status = status == HR_OK ? hri_memory_buffer(memory, plain, &pixels) : status;
    status = status == HR_OK ? hri_memory_buffer(memory, info.whole_bytes - plain, &held) : status;
    status = status == HR_OK ? decode(&l, data, bytes, &info, pixels->data, why) : status;
    hri_buffer_unref(held);
    hri_image_library_close(l.handle);
    if (status == HR_OK) {
        picture p = {.pixels = pixels->data, .stride = (size_t)info.width * 4};
        status = hri_image_feed(info.width, info.height, view, memory, out, fill, &p);
    }
    hri_buffer_unref(pixels);
    return status;
}
