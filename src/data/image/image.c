/* Pictures: which decoder, and what it may take.  See image.h. */
#include "data/image/image.h"

#include <string.h>
#include <strings.h>

static bool is_jpeg(const uint8_t *p, size_t bytes) {
    return bytes >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff;
}

static bool is_png(const uint8_t *p, size_t bytes) {
    return bytes >= 8 && memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0;
}

static bool is_bmp(const uint8_t *p, size_t bytes) {
    return bytes >= 14 && p[0] == 'B' && p[1] == 'M' && !memcmp(p + 6, "\0\0\0\0", 4);
}

static bool is_webp(const uint8_t *p, size_t bytes) {
    return bytes >= 12 && !memcmp(p, "RIFF", 4) && !memcmp(p + 8, "WEBP", 4);
}

static bool is_tiff(const uint8_t *p, size_t bytes) {
    return bytes >= 16 && (!memcmp(p, "II*\0", 4) || !memcmp(p, "MM\0*", 4) ||
                           !memcmp(p, "II+\0\10", 5) || !memcmp(p, "MM\0+\0\10", 6));
}

/* mif1: a picture that other names say more of; AV1 or not, the probe tells. */
static bool is_avif(const uint8_t *p, size_t bytes) {
    return bytes >= 12 && !memcmp(p + 4, "ftyp", 4) &&
           (!memcmp(p + 8, "avif", 4) || !memcmp(p + 8, "avis", 4) || !memcmp(p + 8, "mif1", 4));
}

typedef struct decoder {
    bool (*is)(const uint8_t *p, size_t bytes);
    hr_status (*probe)(const void *data, size_t bytes, hri_image_info *out, hri_prose *why);
    hr_status (*decode)(const void *data, size_t bytes, const hri_view *view, hri_memory *memory,
                        uint8_t *out, hri_prose *why);
} decoder;

static const decoder decoders[] = {
    [HRI_IMAGE_JPEG] = {is_jpeg, hri_jpeg_probe, hri_jpeg_decode},
    [HRI_IMAGE_PNG] = {is_png, hri_png_probe, hri_png_decode},
    [HRI_IMAGE_BMP] = {is_bmp, hri_bmp_probe, hri_bmp_decode},
    [HRI_IMAGE_WEBP] = {is_webp, hri_webp_probe, hri_webp_decode},
    [HRI_IMAGE_TIFF] = {is_tiff, hri_tiff_probe, hri_tiff_decode},
    [HRI_IMAGE_AVIF] = {is_avif, hri_avif_probe, hri_avif_decode},
};

static const decoder *find(const void *data, size_t bytes) {
    for (size_t i = 0; i < sizeof decoders / sizeof decoders[0]; i++) {
        if (decoders[i].is(data, bytes)) {
            return &decoders[i];
        }
    }
    return NULL;
}

bool hri_image_is(const void *data, size_t bytes) {
    return find(data, bytes) != NULL;
}

bool hri_image_is_name(const char *name) {
    static const char *const ends[] = {".jpg",  ".jpeg", ".png",  ".bmp",
                                       ".webp", ".tif",  ".tiff", ".avif"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof ends / sizeof ends[0]; i++) {
        if (strcasecmp(dot, ends[i]) == 0) {
            return true;
        }
    }
    return false;
}

hr_status hri_image_probe(const void *data, size_t bytes, hri_image_info *out, hri_prose *why) {
    if (bytes == 0) {
        return hri_prose_set(why, HR_E_FORMAT, "the file is empty");
    }
    const decoder *d = find(data, bytes);
    return d ? d->probe(data, bytes, out, why)
             : hri_prose_set(why, HR_E_FORMAT, "not a JPEG, PNG, BMP, WebP, TIFF or AVIF file");
}

hr_status hri_image_decode(const void *data, size_t bytes, const hri_image_info *info,
                           const hri_view *view, hri_memory *memory, uint8_t *out, hri_prose *why) {
    return decoders[info->format].decode(data, bytes, view, memory, out, why);
}

void hri_image_touched(double from, double size, uint32_t whole, uint32_t *first, uint32_t *count) {
    *first = from > 1 ? (uint32_t)from - 1 : 0;
    *first = *first < whole ? *first : whole - 1;
    const double end = from + size + 2;
    const uint32_t last = end < whole ? (uint32_t)end : whole;
    *count = last > *first ? last - *first : 1;
}

/* With libpng's weights. */
static void make_grey(const uint8_t *rgb, uint32_t count, uint8_t *out) {
    for (uint32_t i = 0; i < count; i++, rgb += 3) {
        out[i] = (uint8_t)((rgb[0] * 6968u + rgb[1] * 23434u + rgb[2] * 2366u + 16384) >> 15);
    }
}

hr_status hri_image_feed(uint32_t width, uint32_t height, const hri_view *v, hri_memory *memory,
                         uint8_t *out, hri_image_row_fn *fn, void *user) {
    hri_resizer r = {.memory = NULL};
    hri_buffer *row = NULL;
    uint32_t left, top, w, h;
    hri_image_touched(v->x, v->width, width, &left, &w);
    hri_image_touched(v->y, v->height, height, &top, &h);
    hr_status status = hri_memory_buffer(memory, (uint64_t)w * 3, &row);
    if (status == HR_OK) {
        status =
            hri_resizer_init(&r, memory, v->x - left, v->y - top, v->width, v->height, w, h,
                             v->out_width, v->out_height, v->channels, v->filter, v->flip, out);
    }
    for (uint32_t y = 0; status == HR_OK && y < h && !hri_resizer_is_finished(&r); y++) {
        if (v->channels == 1) {
            fn(user, top + y, left, w, row->data);
            make_grey(row->data, w, hri_resizer_row(&r));
        } else {
            fn(user, top + y, left, w, hri_resizer_row(&r));
        }
        hri_resizer_done_row(&r);
    }
    hri_resizer_deinit(&r);
    hri_buffer_unref(row);
    return status;
}

/* Measured over pictures of all kinds, with room: libjpeg holds some forty rows of samples (two groups of rows a
 * component, upsampled ones, context rows), libpng two rows of up to eight bytes a pixel and zlib's window. */
uint64_t hri_image_scratch_bytes(uint32_t width, uint32_t height, uint64_t whole_bytes,
                                 uint32_t out_width, uint32_t out_height) {
    const uint64_t rows = hri_bytes_mul(width, 3 * 48);
    const uint64_t resizer = hri_resizer_bytes(width, height, out_width, out_height);
    const uint64_t sum = hri_bytes_add(hri_bytes_add(rows, resizer), whole_bytes);
    return hri_bytes_add(hri_bytes_add(sum, sum / 7), 256 << 10); /* rounding; tables and windows */
}
