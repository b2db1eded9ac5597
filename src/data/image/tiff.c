/* TIFF through libtiff 4.5 or later, found at run time: without it such a picture is refused with a sentence that names the library.
 *
 * The first picture of a file, whatever it is compressed with; 16 bits become 8, alpha lies over black.  The library decodes it whole,
 * into a buffer of ours, and takes memory of its own: no piece of it larger than one that is held in the ledger meanwhile
 * (whole_bytes has both), so a picture that declares a great size is refused by the ledger, not by the machine.
 *
 * A mask has its pixels read as they are stored: one channel of up to 8 bits as numbers, three as colours.
 *
 * Unlike other formats a TIFF may have its header (the directory) anywhere, mostly at the end: hri_tiff_directory says where. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "data/image/image.h"
#include "data/image/library.h"

typedef struct tiff_file tiff_file;
typedef struct tiff_options tiff_options;
typedef int tiff_say(tiff_file *t, void *user, const char *module, const char *format,
                     va_list args);

/* As tiffio.h has them. */
typedef struct library {
    void *handle;
    const char *(*TIFFGetVersion)(void);
    tiff_options *(*TIFFOpenOptionsAlloc)(void);
    void (*TIFFOpenOptionsFree)(tiff_options *o);
    void (*TIFFOpenOptionsSetMaxSingleMemAlloc)(tiff_options *o, int64_t bytes);
    void (*TIFFOpenOptionsSetErrorHandlerExtR)(tiff_options *o, tiff_say *say, void *user);
    void (*TIFFOpenOptionsSetWarningHandlerExtR)(tiff_options *o, tiff_say *say, void *user);
    tiff_file *(*TIFFClientOpenExt)(const char *name, const char *mode, void *user,
                                    int64_t (*read)(void *, void *, int64_t),
                                    int64_t (*write)(void *, void *, int64_t),
                                    uint64_t (*seek)(void *, uint64_t, int), int (*close)(void *),
                                    uint64_t (*size)(void *),
                                    int (*map)(void *, void **, uint64_t *),
                                    void (*unmap)(void *, void *, uint64_t), tiff_options *o);
    int (*TIFFReadRGBAImageOriented)(tiff_file *t, uint32_t width, uint32_t height, uint32_t *to,
                                     int orientation, int stop);
    void (*TIFFClose)(tiff_file *t);
    int (*TIFFGetFieldDefaulted)(tiff_file *t, uint32_t tag, ...);
    int (*TIFFSetField)(tiff_file *t, uint32_t tag, ...);
    int (*TIFFIsTiled)(tiff_file *t);
    int64_t (*TIFFScanlineSize)(tiff_file *t);
    int64_t (*TIFFTileSize)(tiff_file *t);
    int (*TIFFReadScanline)(tiff_file *t, void *to, uint32_t row, uint16_t sample);
    int64_t (*TIFFReadTile)(tiff_file *t, void *to, uint32_t x, uint32_t y, uint32_t z,
                            uint16_t sample);
} library;

#define GET(NAME) hri_image_library_get(l->handle, #NAME, &l->NAME)

static bool load(library *l) {
    static const char *const names[] = {"libtiff.so.6", NULL};
    *l = (library){.handle = hri_image_library_open(names)};
    return GET(TIFFGetVersion) && GET(TIFFOpenOptionsAlloc) && GET(TIFFOpenOptionsFree) &&
           GET(TIFFOpenOptionsSetMaxSingleMemAlloc) && GET(TIFFOpenOptionsSetErrorHandlerExtR) &&
           GET(TIFFOpenOptionsSetWarningHandlerExtR) && GET(TIFFClientOpenExt) &&
           GET(TIFFReadRGBAImageOriented) && GET(TIFFClose) && GET(TIFFGetFieldDefaulted) &&
           GET(TIFFSetField) && GET(TIFFIsTiled) && GET(TIFFScanlineSize) && GET(TIFFTileSize) &&
           GET(TIFFReadScanline) && GET(TIFFReadTile);
}

bool hri_tiff_version(char *text, size_t size) {
    library l;
    const bool there = load(&l);
    const char *said = there ? l.TIFFGetVersion() : "";
    const char *number = strstr(said, "Version ");
    const char *from = number ? number + 8 : said;
    snprintf(text, size, "%.*s", (int)strcspn(from, "\n"), from);
    hri_image_library_close(l.handle);
    return there;
}

/* ---- the directory ---- */

typedef struct order {
    bool big_end, wide; /* wide: BigTIFF */
} order;

static uint64_t number_at(const uint8_t *p, int bytes, bool big_end) {
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++) {
        x = x << 8 | p[big_end ? i : bytes - 1 - i];
    }
    return x;
}

static order order_of(const uint8_t *p) {
    const bool big_end = p[0] == 'M';
    return (order){.big_end = big_end, .wide = number_at(p + 2, 2, big_end) == 43};
}

bool hri_tiff_directory(const void *head, size_t bytes, uint64_t *at) {
    const uint8_t *p = head;
    if (bytes < 16 || (memcmp(p, "II", 2) != 0 && memcmp(p, "MM", 2) != 0)) {
        return false;
    }
    const order o = order_of(p);
    const uint64_t magic = number_at(p + 2, 2, o.big_end);
    *at = o.wide ? number_at(p + 8, 8, o.big_end) : number_at(p + 4, 4, o.big_end);
    return magic == 42 || magic == 43;
}

hr_status hri_tiff_probe_at(const void *head, const void *directory, size_t bytes,
                            hri_image_info *out, hri_prose *why) {
    const order o = order_of(head);
    const uint8_t *p = directory;
    const size_t counts = o.wide ? 8 : 2, entry = o.wide ? 20 : 12, value = o.wide ? 12 : 8;
    if (bytes < counts) {
        return HR_E_EOF;
    }
    const uint64_t count = number_at(p, (int)counts, o.big_end);
    uint64_t sizes[2] = {0};
    for (uint64_t i = 0; i < count && i < 4096; i++) {
        const uint8_t *e = p + counts + i * entry;
        if (bytes - counts < (i + 1) * entry) {
            return HR_E_EOF;
        }
        const uint64_t tag = number_at(e, 2, o.big_end), type = number_at(e + 2, 2, o.big_end);
        if (tag == 256 || tag == 257) { /* ImageWidth, ImageLength: SHORT, LONG or LONG8 */
            sizes[tag - 256] = number_at(e + value,
                                         type == 3              ? 2
                                         : type == 16 && o.wide ? 8
                                                                : 4,
                                         o.big_end);
        }
        if (tag > 257) {
            break; /* they are sorted */
        }
    }
    if (!sizes[0] || !sizes[1] || sizes[0] >> 31 || sizes[1] >> 31) {
        return hri_prose_set(why, HR_E_FORMAT, "TIFF: invalid size %llu x %llu",
                             (unsigned long long)sizes[0], (unsigned long long)sizes[1]);
    }
    *out = (hri_image_info){.format = HRI_IMAGE_TIFF,
                            .width = (uint32_t)sizes[0],
                            .height = (uint32_t)sizes[1],
                            .whole_bytes = sizes[0] * sizes[1] * 12 + (1 << 20)};
    return HR_OK;
}

hr_status hri_tiff_probe(const void *data, size_t bytes, hri_image_info *out, hri_prose *why) {
    uint64_t at;
    if (!hri_tiff_directory(data, bytes, &at) || at >= bytes) {
        return HR_E_EOF;
    }
    return hri_tiff_probe_at(data, (const char *)data + at, bytes - (size_t)at, out, why);
}

/* ---- a file in memory ---- */

typedef struct bytes {
    const uint8_t *data;
    uint64_t size, at;
} bytes;

static int64_t read_bytes(void *user, void *to, int64_t count) {
    bytes *b = user;
    const uint64_t left = b->at < b->size ? b->size - b->at : 0;
    const uint64_t n = count < 0 ? 0 : (uint64_t)count < left ? (uint64_t)count : left;
    if (n) {
        memcpy(to, b->data + b->at, (size_t)n);
    }
    b->at += n;
    return (int64_t)n;
}

static int64_t write_nothing(void *user, void *from, int64_t count) {
    (void)user;
    (void)from;
    (void)count;
    return -1;
}

static uint64_t seek_bytes(void *user, uint64_t to, int whence) {
    bytes *b = user;
    b->at = whence == 0 ? to : whence == 1 ? b->at + to : b->size + to;
    return b->at;
}

static int close_nothing(void *user) {
    (void)user;
    return 0;
}

static uint64_t size_of(void *user) {
    return ((bytes *)user)->size;
}

static int map_nothing(void *user, void **base, uint64_t *size) {
    (void)user;
    (void)base;
    (void)size;
    return 0;
}

static void unmap_nothing(void *user, void *base, uint64_t size) {
    (void)user;
    (void)base;
    (void)size;
}

/* What the library says is in our sentence already. */
static int swallow(tiff_file *t, void *user, const char *module, const char *format, va_list args) {
    (void)t;
    (void)user;
    (void)module;
    (void)format;
    (void)args;
    return 1;
}

static hr_status damaged(hri_prose *why) {
    return hri_prose_set(why, HR_E_FORMAT,
                         "TIFF: truncated, damaged, or a kind that libtiff cannot show");
}

/* Opens the file; what it may take at once follows from its size. */
static hr_status open_file(const library *l, bytes *b, const hri_image_info *info, tiff_file **out,
                           hri_prose *why) {
    tiff_options *o = HRI_FAULT(ALLOC) ? NULL : l->TIFFOpenOptionsAlloc();
    if (!o) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "TIFF: out of memory");
    }
    l->TIFFOpenOptionsSetMaxSingleMemAlloc(
        o, (int64_t)((uint64_t)info->width * info->height * 8 + (1 << 20)));
    l->TIFFOpenOptionsSetErrorHandlerExtR(o, swallow, NULL);
    l->TIFFOpenOptionsSetWarningHandlerExtR(o, swallow, NULL);
    *out = l->TIFFClientOpenExt("image", "rm", b, read_bytes, write_nothing, seek_bytes,
                                close_nothing, size_of, map_nothing, unmap_nothing, o);
    l->TIFFOpenOptionsFree(o);
    return *out ? HR_OK : damaged(why);
}

/* Transparency is left out, as of every other format.  libtiff would multiply colours by it first; of those that are said to
 * be multiplied already it leaves the hands off. */
static void leave_alpha_out(const library *l, tiff_file *t) {
    enum { EXTRA_SAMPLES = 338, MULTIPLIED = 1, PLAIN = 2, MOST = 8 };
    uint16_t count = 0, kinds[MOST];
    const uint16_t *said = NULL;
    if (l->TIFFGetFieldDefaulted(t, EXTRA_SAMPLES, &count, &said) && said && count > 0 &&
        count <= MOST && said[0] == PLAIN) {
        memcpy(kinds, said, count * sizeof *kinds);
        kinds[0] = MULTIPLIED;
        (void)l->TIFFSetField(t, EXTRA_SAMPLES, (int)count, kinds); /* in memory alone */
    }
}

static hr_status read_colours(const library *l, tiff_file *t, const hri_image_info *info,
                              uint32_t *to, hri_prose *why) {
    leave_alpha_out(l, t);
    return l->TIFFReadRGBAImageOriented(t, info->width, info->height, to, 1 /* from above */, 1)
               ? HR_OK
               : damaged(why);
}

/* What every way of reading begins with. */
static hr_status begin(const void *data, size_t size, library *l, hri_image_info *info,
                       hri_prose *why) {
    const hr_status status = hri_tiff_probe(data, size, info, why);
    *l = (library){.handle = NULL};
    if (status != HR_OK) {
        return status == HR_E_EOF ? hri_prose_set(why, HR_E_FORMAT, "TIFF: the file is truncated")
                                  : status;
    }
    return load(l) ? HR_OK
                   : hri_prose_set(why, HR_E_UNSUPPORTED,
                                   "TIFF: libtiff.so.6 of version 4.5 or later is not installed "
                                   "(Debian: libtiff6)");
}

typedef struct picture {
    const uint32_t *pixels;
    uint32_t width;
} picture;

static void fill(void *user, uint32_t y, uint32_t left, uint32_t width, uint8_t *rgb) {
    const picture *p = user;
    const uint32_t *from = p->pixels + (size_t)y * p->width + left;
    for (uint32_t i = 0; i < width; i++, rgb += 3) {
        rgb[0] = (uint8_t)from[i];
        rgb[1] = (uint8_t)(from[i] >> 8);
        rgb[2] = (uint8_t)(from[i] >> 16);
    }
}

hr_status hri_tiff_decode(const void *data, size_t size, const hri_view *view, hri_memory *memory,
                          uint8_t *out, hri_prose *why) {
    hri_image_info info;
    library l;
    tiff_file *t = NULL;
    hri_buffer *pixels = NULL, *held = NULL;
    bytes b = {.data = data, .size = size};
    hr_status status = begin(data, size, &l, &info, why);
    const uint64_t plain = status == HR_OK ? (uint64_t)info.width * info.height * 4 : 0;
    status = status == HR_OK ? hri_memory_buffer(memory, plain, &pixels) : status;
    status = status == HR_OK ? hri_memory_buffer(memory, info.whole_bytes - plain, &held) : status;
    status = status == HR_OK ? open_file(&l, &b, &info, &t, why) : status;
    status = status == HR_OK ? read_colours(&l, t, &info, pixels->data, why) : status;
    if (t) {
        l.TIFFClose(t);
    }
    hri_buffer_unref(held);
    hri_image_library_close(l.handle);
    if (status == HR_OK) {
        picture p = {.pixels = pixels->data, .width = info.width};
        status = hri_image_feed(info.width, info.height, view, memory, out, fill, &p);
    }
    hri_buffer_unref(pixels);
    return status;
}

/* ---- pixels as they are ---- */

enum { /* tags, and some of their values, as tiff.h has them */
       BITS = 258,
       PACKING = 259,
       PHOTOMETRIC = 262,
       ORIENTATION = 274,
       SAMPLES = 277,
       COLOUR_MAP = 320,
       TILE_WIDTH = 322,
       TILE_LENGTH = 323,
       WHITE_IS_0 = 0,
       BLACK_IS_0 = 1,
       RGB = 2,
       PALETTE = 3
};

/* Pixels in rows of `stride` bytes: packed numbers, or colours in four bytes each. */
typedef struct plane {
    hri_png_rows of;
    hri_buffer *pixels;
    uint64_t stride;
    uint32_t bits;
    bool inverted; /* 0 is white */
} plane;

static uint32_t short_of(const library *l, tiff_file *t, uint32_t tag) {
    uint16_t x = 0;
    return l->TIFFGetFieldDefaulted(t, tag, &x) ? x : 0;
}

/* None, fax, LZW, Deflate, PackBits, LZMA, Zstandard. */
static bool keeps_values(uint32_t packing) {
    static const uint16_t good[] = {1, 2, 3, 4, 5, 8, 32773, 32946, 34925, 50000};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (packing == good[i]) {
            return true;
        }
    }
    return false;
}

/* Greys, or the palette: 16 bits, of which some programs use the lower 8 only. */
static hr_status read_palette(const library *l, tiff_file *t, plane *p, hri_prose *why) {
    const uint16_t *map[3] = {NULL};
    const uint32_t count = 1u << p->bits;
    uint32_t shift = 0;
    for (uint32_t i = 0; i < 256; i++) {
        p->of.palette[i] = i * 0x010101;
    }
    if (p->of.kind != HRI_PNG_INDEXED) {
        return HR_OK;
    }
    if (!l->TIFFGetFieldDefaulted(t, COLOUR_MAP, &map[0], &map[1], &map[2]) || !map[0] || !map[1] ||
        !map[2]) {
        return damaged(why);
    }
    for (uint32_t i = 0; i < 3 * count; i++) {
        shift = map[i / count][i % count] > 255 ? 8 : shift;
    }
    for (uint32_t i = 0; i < count; i++) {
        p->of.palette[i] = (uint32_t)(map[0][i] >> shift) << 16 |
                           (uint32_t)(map[1][i] >> shift) << 8 | (uint32_t)(map[2][i] >> shift);
    }
    return HR_OK;
}

/* What kind it is, or why it cannot be a mask. */
static hr_status describe(const library *l, tiff_file *t, plane *p, hri_prose *why) {
    const uint32_t samples = short_of(l, t, SAMPLES), is = short_of(l, t, PHOTOMETRIC);
    const uint32_t packing = short_of(l, t, PACKING);
    p->bits = short_of(l, t, BITS);
    if (!keeps_values(packing)) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "TIFF: compression %u may change values and colours, so this cannot "
                             "be a mask; save it with LZW or Deflate",
                             packing);
    }
    const bool numbers = samples == 1 && (is == BLACK_IS_0 || is == WHITE_IS_0 || is == PALETTE);
    if (!numbers && !(samples == 3 && is == RGB)) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "TIFF: %u channels; a mask has one (values) or three (red, green, "
                             "blue)",
                             samples);
    }
    if ((p->bits != 8 && !numbers) ||
        (p->bits != 1 && p->bits != 2 && p->bits != 4 && p->bits != 8)) {
        return hri_prose_set(why, HR_E_FORMAT, "TIFF: %u bits per channel; a mask has at most 8",
                             p->bits);
    }
    if (short_of(l, t, ORIENTATION) != 1) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "TIFF: marked as turned or mirrored, which a mask must not be");
    }
    p->of.kind = !numbers ? HRI_PNG_COLOUR : is == PALETTE ? HRI_PNG_INDEXED : HRI_PNG_GREY;
    p->inverted = is == WHITE_IS_0;
    p->stride = numbers ? ((uint64_t)p->of.width * p->bits + 7) / 8 : (uint64_t)p->of.width * 4;
    return read_palette(l, t, p, why);
}

static hr_status read_lines(const library *l, tiff_file *t, plane *p, hri_prose *why) {
    uint8_t *to = p->pixels->data;
    if (l->TIFFScanlineSize(t) != (int64_t)p->stride) {
        return damaged(why);
    }
    for (uint32_t y = 0; y < p->of.height; y++, to += p->stride) {
        if (l->TIFFReadScanline(t, to, y, 0) != 1) {
            return damaged(why);
        }
    }
    return HR_OK;
}

/* Sides of tiles are multiples of 16, so each begins with a byte. */
static hr_status read_tiles(const library *l, tiff_file *t, plane *p, hri_memory *memory,
                            hri_prose *why) {
    uint32_t width = 0, height = 0;
    hri_buffer *tile = NULL;
    l->TIFFGetFieldDefaulted(t, TILE_WIDTH, &width);
    l->TIFFGetFieldDefaulted(t, TILE_LENGTH, &height);
    const uint64_t stride = (uint64_t)width * p->bits / 8;
    if (!width || !height || width % 16 || l->TIFFTileSize(t) <= 0 ||
        hri_bytes_mul(stride, height) != (uint64_t)l->TIFFTileSize(t)) {
        return damaged(why);
    }
    hr_status status = hri_memory_buffer(memory, stride * height, &tile);
    for (uint64_t y = 0; status == HR_OK && y < p->of.height; y += height) {
        for (uint64_t x = 0; status == HR_OK && x < p->of.width; x += width) {
            if (l->TIFFReadTile(t, tile->data, (uint32_t)x, (uint32_t)y, 0, 0) < 0) {
                status = damaged(why);
                break;
            }
            const uint64_t from = x * p->bits / 8, left = p->stride - from;
            for (uint64_t k = 0; k < height && y + k < p->of.height; k++) {
                memcpy((uint8_t *)p->pixels->data + (y + k) * p->stride + from,
                       (uint8_t *)tile->data + k * stride, left < stride ? left : stride);
            }
        }
    }
    hri_buffer_unref(tile);
    return status;
}

static hr_status read_plane(const library *l, tiff_file *t, const hri_image_info *info, plane *p,
                            hri_memory *memory, hri_prose *why) {
    p->of.width = info->width;
    p->of.height = info->height;
    hr_status status = describe(l, t, p, why);
    if (status == HR_OK) {
        status = hri_memory_buffer(memory, p->stride * info->height, &p->pixels);
    }
    if (status != HR_OK) {
        return status;
    }
    return p->of.kind == HRI_PNG_COLOUR ? read_colours(l, t, info, p->pixels->data, why)
           : l->TIFFIsTiled(t)          ? read_tiles(l, t, p, memory, why)
                                        : read_lines(l, t, p, why);
}

static void unpack(const plane *p, uint32_t y, uint8_t *to) {
    const uint8_t *row = (const uint8_t *)p->pixels->data + y * p->stride;
    const uint32_t each = 8 / p->bits, most = (1u << p->bits) - 1;
    for (uint32_t x = 0; x < p->of.width; x++) {
        const uint32_t shift = (each - 1 - x % each) * p->bits;
        const uint32_t value = (uint32_t)(row[x / each] >> shift) & most;
        to[x] = (uint8_t)(p->inverted ? most - value : value);
    }
}

static hr_status give_rows(const plane *p, hri_memory *memory, hri_png_row_fn *fn, void *user) {
    hri_buffer *row = NULL;
    picture colours = {.pixels = p->pixels->data, .width = p->of.width};
    hr_status status = hri_memory_buffer(memory, (uint64_t)p->of.width * 3, &row);
    for (uint32_t y = 0; status == HR_OK && y < p->of.height; y++) {
        if (p->of.kind == HRI_PNG_COLOUR) {
            fill(&colours, y, 0, p->of.width, row->data);
        } else {
            unpack(p, y, row->data);
        }
        status = fn(user, &p->of, y, row->data);
    }
    hri_buffer_unref(row);
    return status;
}

hr_status hri_tiff_each_row(const void *data, size_t size, hri_memory *memory, hri_png_row_fn *fn,
                            void *user, hri_prose *why) {
    hri_image_info info;
    library l;
    tiff_file *t = NULL;
    hri_buffer *held = NULL;
    plane p = {.pixels = NULL};
    bytes b = {.data = data, .size = size};
    hr_status status = begin(data, size, &l, &info, why);
    if (status == HR_OK) { /* but the pixels */
        status = hri_memory_buffer(
            memory, info.whole_bytes - (uint64_t)info.width * info.height * 4, &held);
    }
    status = status == HR_OK ? open_file(&l, &b, &info, &t, why) : status;
    status = status == HR_OK ? read_plane(&l, t, &info, &p, memory, why) : status;
    if (t) {
        l.TIFFClose(t);
    }
    hri_buffer_unref(held);
    hri_image_library_close(l.handle);
    status = status == HR_OK ? give_rows(&p, memory, fn, user) : status;
    hri_buffer_unref(p.pixels);
    return status;
}
