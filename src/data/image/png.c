/* PNG through libpng: every kind of PNG becomes 8-bit grey or RGB; transparency is dropped.  Rows go to the resizer as
 * they come; an interlaced picture must be read as a whole first.  libpng's memory is ours (hri_memory), so a picture
 * that declares a great size is refused by the ledger, not by the machine. */
#include <png.h>
#include <setjmp.h>
#include <string.h>
#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "data/image/image.h"

typedef struct decoder {
    png_structp png;
    png_infop info;
    const uint8_t *data;
    size_t bytes, at;
    hri_memory *memory;
    hri_prose *why;
    hr_status status;
    hri_resizer resizer;
    hri_buffer *whole, *row; /* an interlaced picture; a row that is wider than the view */
} decoder;

/* The buffer's own pointer lies in front of what libpng gets. */
static png_voidp take(png_structp png, png_alloc_size_t bytes) {
    decoder *d = png_get_mem_ptr(png);
    hri_buffer *b;
    if (bytes > (size_t)1 << 40) {
        d->status = HR_E_RANGE;
        return NULL;
    }
    const hr_status status = hri_memory_buffer(d->memory, bytes + 64, &b);
    if (status != HR_OK) {
        d->status = status;
        return NULL;
    }
    memcpy(b->data, &b, sizeof b);
    return (char *)b->data + 64;
}

static void give(png_structp png, png_voidp memory) {
    (void)png;
    if (memory) {
        hri_buffer *b;
        memcpy(&b, (char *)memory - 64, sizeof b);
        hri_buffer_unref(b);
    }
}

static void on_error(png_structp png, png_const_charp text) {
    decoder *d = png_get_error_ptr(png);
    if (d->status == HR_OK) {
        d->status = hri_prose_set(d->why, HR_E_FORMAT, "PNG: %s", text);
    }
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text) {
    (void)png, (void)text;
}

static void on_read(png_structp png, png_bytep to, size_t bytes) {
    decoder *d = png_get_io_ptr(png);
    if (bytes > d->bytes - d->at) {
        png_error(png, "the file is truncated");
    }
    memcpy(to, d->data + d->at, bytes);
    d->at += bytes;
}

static uint32_t word_at(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

hr_status hri_png_probe(const void *data, size_t bytes, hri_image_info *out, hri_prose *why) {
    const uint8_t *p = data;
    if (bytes < 29) {
        return HR_E_EOF;
    }
    if (memcmp(p + 12, "IHDR", 4) != 0) {
        return hri_prose_set(why, HR_E_FORMAT, "PNG: the header is missing");
    }
    *out = (hri_image_info){
        .format = HRI_IMAGE_PNG, .width = word_at(p + 16), .height = word_at(p + 20)};
    if (out->width == 0 || out->height == 0 || out->width >> 31 || out->height >> 31) {
        return hri_prose_set(why, HR_E_FORMAT, "PNG: invalid size %u x %u", out->width,
                             out->height);
    }
    if (p[28] != 0) { /* interlaced */
        out->whole_bytes = (uint64_t)out->width * out->height * 3;
    }
    return HR_OK;
}

static void decoder_deinit(decoder *d) {
    png_destroy_read_struct(&d->png, &d->info, NULL);
    hri_resizer_deinit(&d->resizer);
    hri_buffer_unref(d->whole);
    hri_buffer_unref(d->row);
}

/* Every kind of pixel to 8-bit grey or RGB. */
static void choose_pixels(decoder *d, uint32_t channels) {
    png_structp png = d->png;
    const int colour = png_get_color_type(png, d->info);
    png_set_scale_16(png);
    png_set_packing(png);
    if (colour == PNG_COLOR_TYPE_PALETTE) {
        png_set_palette_to_rgb(png);
    }
    if (colour == PNG_COLOR_TYPE_GRAY) {
        png_set_expand_gray_1_2_4_to_8(png);
    }
    if (channels == 3 && !(colour & PNG_COLOR_MASK_COLOR)) {
        png_set_gray_to_rgb(png);
    }
    if (channels == 1 && (colour & PNG_COLOR_MASK_COLOR)) {
        png_set_rgb_to_gray(png, PNG_ERROR_ACTION_NONE, PNG_RGB_TO_GRAY_DEFAULT,
                            PNG_RGB_TO_GRAY_DEFAULT);
    }
    png_set_strip_alpha(png);
}

static void leave(decoder *d, hr_status status) {
    d->status = status;
    png_longjmp(d->png, 1);
}

static void take_buffer(decoder *d, uint64_t bytes, hri_buffer **out) {
    const hr_status status = hri_memory_buffer(d->memory, bytes, out);
    if (status != HR_OK) {
        leave(d, status);
    }
}

/* Sets the resizer up, and reads an interlaced picture whole. */
static void begin(decoder *d, const hri_view *v, uint8_t *out) {
    png_structp png = d->png;
    const uint32_t width = png_get_image_width(png, d->info);
    const uint32_t height = png_get_image_height(png, d->info);
    const uint32_t channels = v->channels;
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, d->info);
    const size_t row_bytes = png_get_rowbytes(png, d->info);
    if (row_bytes != (size_t)width * channels) {
        png_error(png, "unknown pixel format");
    }
    uint32_t left, top, w, h;
    hri_image_touched(v->x, v->width, width, &left, &w);
    hri_image_touched(v->y, v->height, height, &top, &h);
    const hr_status status =
        hri_resizer_init(&d->resizer, d->memory, v->x - left, v->y - top, v->width, v->height, w, h,
                         v->out_width, v->out_height, channels, v->filter, v->flip, out);
    if (status != HR_OK) {
        leave(d, status);
    }
    if (passes > 1) {
        take_buffer(d, (uint64_t)row_bytes * height, &d->whole);
        memset(d->whole->data, 0, row_bytes * height);
        for (int pass = 0; pass < passes; pass++) {
            for (uint32_t y = 0; y < height; y++) {
                png_read_row(png, (png_bytep)d->whole->data + y * row_bytes, NULL);
            }
        }
    }
}

static void feed(decoder *d, const hri_view *v) {
    png_structp png = d->png;
    const size_t row_bytes = png_get_rowbytes(png, d->info);
    uint32_t left, top, w, h;
    hri_image_touched(v->x, v->width, png_get_image_width(png, d->info), &left, &w);
    hri_image_touched(v->y, v->height, png_get_image_height(png, d->info), &top, &h);
    if (!d->whole) {
        take_buffer(d, row_bytes, &d->row);
    }
    for (uint32_t y = 0; y < top + h && !hri_resizer_is_finished(&d->resizer); y++) {
        const uint8_t *row;
        if (d->whole) {
            row = (const uint8_t *)d->whole->data + y * row_bytes;
        } else {
            png_read_row(png, d->row->data, NULL);
            row = d->row->data;
        }
        if (y >= top) {
            memcpy(hri_resizer_row(&d->resizer), row + (size_t)left * v->channels,
                   (size_t)w * v->channels);
            hri_resizer_done_row(&d->resizer);
        }
    }
}

/* A reader whose header is read.  On failure everything is given back. */
static void start(decoder *d) {
    d->info = png_create_info_struct(d->png);
    if (!d->info) {
        leave(d, d->status != HR_OK ? d->status : HR_E_NOMEM_HOST);
    }
    png_set_user_limits(d->png, 0x7fffffff, 0x7fffffff); /* the ledger is the limit */
    png_set_chunk_cache_max(d->png, 16);
    png_set_chunk_malloc_max(d->png, 4 << 20);
    png_set_read_fn(d->png, d, on_read);
    png_read_info(d->png, d->info);
}

hr_status hri_png_decode(const void *data, size_t bytes, const hri_view *v, hri_memory *memory,
                         uint8_t *out, hri_prose *why) {
    decoder d = {.data = data, .bytes = bytes, .memory = memory, .why = why};
    d.png =
        png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &d, on_error, on_warning, &d, take, give);
    if (!d.png) {
        return d.status != HR_OK ? d.status : HR_E_NOMEM_HOST;
    }
    if (setjmp(png_jmpbuf(d.png))) {
        decoder_deinit(&d);
        return d.status;
    }
    start(&d);
    choose_pixels(&d, v->channels);
    begin(&d, v, out);
    feed(&d, v);
    const bool finished = hri_resizer_is_finished(&d.resizer);
    decoder_deinit(&d);
    return finished ? HR_OK : hri_prose_set(why, HR_E_INTERNAL, "PNG: truncated, rows are missing");
}

/* ---- pixels as they are ---- */

static void describe(decoder *d, hri_png_rows *out) {
    const int colour = png_get_color_type(d->png, d->info);
    png_colorp palette = NULL;
    int count = 0;
    if (png_get_bit_depth(d->png, d->info) > 8) {
        png_error(d->png, "16 bits per channel, where 8 or fewer are expected");
    }
    *out = (hri_png_rows){.width = png_get_image_width(d->png, d->info),
                          .height = png_get_image_height(d->png, d->info),
                          .kind = colour == PNG_COLOR_TYPE_PALETTE ? HRI_PNG_INDEXED
                                  : colour & PNG_COLOR_MASK_COLOR  ? HRI_PNG_COLOUR
                                                                   : HRI_PNG_GREY};
    if (out->kind == HRI_PNG_INDEXED) {
        (void)png_get_PLTE(d->png, d->info, &palette, &count);
    }
    for (int i = 0; i < 256; i++) {
        out->palette[i] = i < count ? (uint32_t)palette[i].red << 16 |
                                          (uint32_t)palette[i].green << 8 | palette[i].blue
                                    : (uint32_t)i * 0x010101u;
    }
}

static void give_rows(decoder *d, const hri_png_rows *of, hri_png_row_fn *fn, void *user) {
    const int passes = png_set_interlace_handling(d->png);
    png_set_packing(d->png);
    png_set_strip_alpha(d->png);
    png_read_update_info(d->png, d->info);
    const size_t row = png_get_rowbytes(d->png, d->info);
    if (row != (size_t)of->width * (of->kind == HRI_PNG_COLOUR ? 3 : 1)) {
        png_error(d->png, "unknown pixel format");
    }
    take_buffer(d, passes > 1 ? (uint64_t)row * of->height : row, &d->whole);
    for (int pass = 0; pass + 1 < passes; pass++) {
        for (uint32_t y = 0; y < of->height; y++) {
            png_read_row(d->png, (png_bytep)d->whole->data + y * row, NULL);
        }
    }
    for (uint32_t y = 0; y < of->height; y++) {
        uint8_t *at = (uint8_t *)d->whole->data + (passes > 1 ? y * row : 0);
        png_read_row(d->png, at, NULL);
        const hr_status status = fn(user, of, y, at);
        if (status != HR_OK) {
            leave(d, status);
        }
    }
}

hr_status hri_png_each_row(const void *data, size_t bytes, hri_memory *memory, hri_png_row_fn *fn,
                           void *user, hri_prose *why) {
    decoder d = {.data = data, .bytes = bytes, .memory = memory, .why = why};
    hri_png_rows of;
    d.png =
        png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &d, on_error, on_warning, &d, take, give);
    if (!d.png) {
        return d.status != HR_OK ? d.status : HR_E_NOMEM_HOST;
    }
    if (setjmp(png_jmpbuf(d.png))) {
        decoder_deinit(&d);
        return d.status;
    }
    start(&d);
    describe(&d, &of);
    give_rows(&d, &of, fn, user);
    decoder_deinit(&d);
    return HR_OK;
}

/* ---- writing ---- */

typedef struct output {
    hri_writer writer;
    hr_status status;
    hri_prose *why;
} output;

static void on_write(png_structp png, png_bytep data, size_t bytes) {
    output *o = png_get_io_ptr(png);
    o->status = hri_writer_write(&o->writer, data, bytes, o->why);
    if (o->status != HR_OK) {
        png_error(png, "writing failed");
    }
}

static void on_flush(png_structp png) {
    (void)png;
}

static void on_write_error(png_structp png, png_const_charp text) {
    (void)text;
    png_longjmp(png, 1);
}

/* What differs between kinds of files: the header, and where rows come from. */
typedef struct content {
    uint32_t width, height;
    const uint32_t *palette; /* NULL: RGB */
    uint32_t count;
    const uint8_t *pixels; /* RGB */
    hri_png_fill_fn *fn;
    void *user;
    uint8_t *row;
} content;

static void put_content(png_structp png, png_infop info, const content *c) {
    png_set_IHDR(png, info, c->width, c->height, 8,
                 c->palette ? PNG_COLOR_TYPE_PALETTE : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (c->palette) {
        png_color colours[256];
        for (uint32_t i = 0; i < c->count && i < 256; i++) {
            const uint32_t x = c->palette[i];
            colours[i] = (png_color){(png_byte)(x >> 16), (png_byte)(x >> 8), (png_byte)x};
        }
        png_set_PLTE(png, info, colours, (int)c->count);
    }
    png_write_info(png, info);
    for (uint32_t y = 0; y < c->height; y++) {
        if (c->palette) {
            c->fn(c->user, y, c->row);
        }
        png_write_row(png, c->palette ? c->row : c->pixels + (size_t)y * c->width * 3);
    }
    png_write_end(png, info);
}

static hr_status write_png(const char *path, const content *c, hri_prose *why) {
    output o = {.writer = {.fd = -1}, .why = why};
    hr_status status = hri_writer_open(&o.writer, path, why);
    if (status != HR_OK) {
        return status;
    }
    png_structp png =
        png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, on_write_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (!info || setjmp(png_jmpbuf(png))) {
        png_destroy_write_struct(&png, &info);
        hri_writer_abandon(&o.writer);
        return o.status != HR_OK ? o.status : HR_E_NOMEM_HOST;
    }
    png_set_write_fn(png, &o, on_write, on_flush);
    put_content(png, info, c);
    png_destroy_write_struct(&png, &info);
    return hri_writer_commit(&o.writer, why);
}

hr_status hri_png_write(const char *path, const uint8_t *pixels, uint32_t width, uint32_t height,
                        hri_prose *why) {
    const content c = {.width = width, .height = height, .pixels = pixels};
    return write_png(path, &c, why);
}

hr_status hri_png_write_indexed(const char *path, uint32_t width, uint32_t height,
                                const uint32_t *palette, uint32_t count, hri_png_fill_fn *fn,
                                void *user, hri_prose *why) {
    const content c = {.width = width,
                       .height = height,
                       .palette = palette,
                       .count = count,
                       .fn = fn,
                       .user = user,
                       .row = hri_malloc(width)};
    const hr_status status =
        c.row ? write_png(path, &c, why) : hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory");
    hri_free(c.row);
    return status;
}
