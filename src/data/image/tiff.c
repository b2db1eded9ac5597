/* TIFF through libtiff 4.5 or later, found at run time: without it such a picture is refused with a sentence that names the library.
 *
 * The first picture of a file, whatever it is compressed with; 16 bits become 8, alpha lies over black.  The library decodes it whole,
 * into a buffer of ours, and takes memory of its own: no piece of it larger than one that is held in the ledger meanwhile
 * (whole_bytes has both), so a picture that declares a great size is refused by the ledger, not by the machine.
 *
 * Unlike other formats a TIFF may have its header (the directory) anywhere, mostly at the end: hri_tiff_directory says where. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fault.h"
#include "data/image/image.h"

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
} library;

static bool get(const library *l, const char *name, void *to) {
    void *function = l->handle ? dlsym(l->handle, name) : NULL;
    memcpy(to, &function, sizeof function);
    return function != NULL;
}

#define GET(NAME) get(l, #NAME, &l->NAME)

/* It stays in the process, so that the next picture finds it at once. */
static bool load(library *l) {
    *l = (library){.handle = HRI_FAULT(OPEN)
                                 ? NULL
                                 : dlopen("libtiff.so.6", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)};
    return GET(TIFFGetVersion) && GET(TIFFOpenOptionsAlloc) && GET(TIFFOpenOptionsFree) &&
           GET(TIFFOpenOptionsSetMaxSingleMemAlloc) && GET(TIFFOpenOptionsSetErrorHandlerExtR) &&
           GET(TIFFOpenOptionsSetWarningHandlerExtR) && GET(TIFFClientOpenExt) &&
           GET(TIFFReadRGBAImageOriented) && GET(TIFFClose);
}

static void unload(library *l) {
    if (l->handle) {
        dlclose(l->handle);
    }
}

bool hri_tiff_version(char *text, size_t size) {
    library l;
    const bool there = load(&l);
    const char *said = there ? l.TIFFGetVersion() : "";
    const char *number = strstr(said, "Version ");
    const char *from = number ? number + 8 : said;
    snprintf(text, size, "%.*s", (int)strcspn(from, "\n"), from);
    unload(&l);
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

static hr_status decode(const library *l, bytes *b, const hri_image_info *info, uint32_t *to,
                        hri_prose *why) {
    tiff_options *o = HRI_FAULT(ALLOC) ? NULL : l->TIFFOpenOptionsAlloc();
    if (!o) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "TIFF: out of memory");
    }
    l->TIFFOpenOptionsSetMaxSingleMemAlloc(
        o, (int64_t)((uint64_t)info->width * info->height * 8 + (1 << 20)));
    l->TIFFOpenOptionsSetErrorHandlerExtR(o, swallow, NULL);
    l->TIFFOpenOptionsSetWarningHandlerExtR(o, swallow, NULL);
    tiff_file *t = l->TIFFClientOpenExt("image", "rm", b, read_bytes, write_nothing, seek_bytes,
                                        close_nothing, size_of, map_nothing, unmap_nothing, o);
    const int good =
        t && l->TIFFReadRGBAImageOriented(t, info->width, info->height, to, 1 /* from above */, 1);
    if (t) {
        l->TIFFClose(t);
    }
    l->TIFFOpenOptionsFree(o);
    return good ? HR_OK
                : hri_prose_set(why, HR_E_FORMAT,
                                "TIFF: truncated, damaged, or a kind that libtiff cannot show");
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
    hri_buffer *pixels = NULL, *held = NULL;
    bytes b = {.data = data, .size = size};
    hr_status status = hri_tiff_probe(data, size, &info, why);
    if (status != HR_OK) {
        return status == HR_E_EOF ? hri_prose_set(why, HR_E_FORMAT, "TIFF: the file is truncated")
                                  : status;
    }
    if (!load(&l)) {
        status = hri_prose_set(
            why, HR_E_UNSUPPORTED,
            "TIFF: libtiff.so.6 of version 4.5 or later is not installed (Debian: libtiff6)");
    }
    const uint64_t plain = (uint64_t)info.width * info.height * sizeof(uint32_t);
    status = status == HR_OK ? hri_memory_buffer(memory, plain, &pixels) : status;
    status = status == HR_OK ? hri_memory_buffer(memory, info.whole_bytes - plain, &held) : status;
    status = status == HR_OK ? decode(&l, &b, &info, pixels->data, why) : status;
    hri_buffer_unref(held);
    unload(&l);
    if (status == HR_OK) {
        picture p = {.pixels = pixels->data, .width = info.width};
        status = hri_image_feed(info.width, info.height, view, memory, out, fill, &p);
    }
    hri_buffer_unref(pixels);
    return status;
}
