/* JPEG through libjpeg-turbo: header, scale, crop, rows.  Errors leave libjpeg by longjmp, as it asks for; all that
 * must be undone afterwards lies in one struct. */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <jpeglib.h>
#include <jerror.h>
#include "data/image/image.h"
#include "data/image/jpeg_memory.h"

enum { SCANS_MAX = 100 }; /* a small file can hold thousands of passes over a large picture */

typedef struct decoder {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf jump;
    hri_jpeg_memory memory;
    bool attached;
    hri_prose *why;
    hr_status status;
    hri_resizer resizer;
    hri_buffer *cmyk; /* one row of four inks */
} decoder;

static void on_error(j_common_ptr cinfo) {
    decoder *d = cinfo->client_data;
    if (d->attached && d->memory.status != HR_OK) {
        d->status = d->memory.status;
    } else {
        char text[JMSG_LENGTH_MAX];
        cinfo->err->format_message(cinfo, text);
        d->status = hri_prose_set(d->why, HR_E_FORMAT, "JPEG: %s", text);
    }
    longjmp(d->jump, 1);
}

/* libjpeg goes on after damage with grey; we do not.  Stray bytes between segments are harmless and common. */
static void on_message(j_common_ptr cinfo, int level) {
    if (level >= 0) {
        return;
    }
    switch (cinfo->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_BOGUS_PROGRESSION:
        on_error(cinfo);
        break;
    default:
        break;
    }
}

static void on_progress(j_common_ptr common) {
    const struct jpeg_decompress_struct *cinfo = (const struct jpeg_decompress_struct *)common;
    if (cinfo->input_scan_number > SCANS_MAX) {
        decoder *d = common->client_data;
        d->status = hri_prose_set(d->why, HR_E_FORMAT, "JPEG: more than %d scans", SCANS_MAX);
        longjmp(d->jump, 1);
    }
}

static void decoder_init(decoder *d, hri_prose *why) {
    memset(d, 0, sizeof *d);
    d->why = why;
    d->cinfo.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = on_error;
    d->errors.emit_message = on_message;
    d->progress.progress_monitor = on_progress;
    d->cinfo.client_data = d;
}

static void decoder_deinit(decoder *d) {
    hri_resizer_deinit(&d->resizer);
    hri_buffer_unref(d->cmyk);
    if (d->attached) {
        hri_jpeg_memory_detach(&d->memory, &d->cinfo);
    }
    jpeg_destroy_decompress(&d->cinfo);
}

/* Creates the decompressor and reads the header.  Called under setjmp. */
static void read_header(decoder *d, const void *data, size_t bytes, hri_memory *memory) {
    jpeg_create_decompress(&d->cinfo);
    d->cinfo.client_data = d;
    d->cinfo.progress = &d->progress;
    if (memory) {
        hri_jpeg_memory_attach(&d->memory, memory, &d->cinfo);
        d->attached = true;
    }
    jpeg_mem_src(&d->cinfo, (const unsigned char *)data, (unsigned long)bytes);
    jpeg_read_header(&d->cinfo, TRUE);
}

static uint64_t coefficient_bytes(const struct jpeg_decompress_struct *cinfo) {
    uint64_t sum = 0;
    for (int i = 0; i < cinfo->num_components; i++) {
        const jpeg_component_info *c = &cinfo->comp_info[i];
        const uint64_t wide = ((uint64_t)cinfo->image_width * (uint64_t)c->h_samp_factor +
                               8u * (uint64_t)cinfo->max_h_samp_factor - 1) /
                                  (8u * (uint64_t)cinfo->max_h_samp_factor) +
                              4;
        const uint64_t high = ((uint64_t)cinfo->image_height * (uint64_t)c->v_samp_factor +
                               8u * (uint64_t)cinfo->max_v_samp_factor - 1) /
                                  (8u * (uint64_t)cinfo->max_v_samp_factor) +
                              4;
        sum += wide * high * sizeof(JBLOCK);
    }
    return sum;
}

hr_status hri_jpeg_probe(const void *data, size_t bytes, hri_image_info *out, hri_prose *why) {
    decoder d;
    decoder_init(&d, why);
    if (setjmp(d.jump)) {
        const bool cut = d.errors.msg_code == JWRN_JPEG_EOF;
        decoder_deinit(&d);
        return cut ? HR_E_EOF : d.status;
    }
    read_header(&d, data, bytes, NULL);
    *out = (hri_image_info){
        .format = HRI_IMAGE_JPEG, .width = d.cinfo.image_width, .height = d.cinfo.image_height};
    if (jpeg_has_multiple_scans(&d.cinfo)) {
        out->whole_bytes = coefficient_bytes(&d.cinfo);
    }
    decoder_deinit(&d);
    return HR_OK;
}

/* The smallest scale, in eighths, at which the view still has the pixels that its output needs. */
static unsigned choose_scale(const hri_view *v) {
    for (unsigned eighths = 1; eighths < 8; eighths *= 2) {
        if (v->width * eighths / 8 >= v->out_width && v->height * eighths / 8 >= v->out_height) {
            return eighths;
        }
    }
    return 8;
}

/* Whether colours, of which a picture has fewer pixels, are blended between pixels: not where half a pixel more goes into each
 * of the output anyway. */
static bool needs_blending(const hri_view *v, unsigned eighths) {
    return eighths == 8 &&
           (2 * v->width < 3.0 * v->out_width || 2 * v->height < 3.0 * v->out_height);
}

static void choose_colours(decoder *d, const hri_view *v) {
    struct jpeg_decompress_struct *c = &d->cinfo;
    if (c->jpeg_color_space == JCS_CMYK || c->jpeg_color_space == JCS_YCCK) {
        c->out_color_space = JCS_CMYK;
    } else {
        c->out_color_space = v->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    }
}

/* Adobe writes inks inverted, and so does everybody who writes such files. */
static void from_cmyk(const uint8_t *cmyk, uint8_t *to, uint32_t n, uint32_t channels,
                      bool inverted) {
    for (uint32_t i = 0; i < n; i++, cmyk += 4, to += channels) {
        unsigned rgb[3];
        for (int k = 0; k < 3; k++) {
            const unsigned ink = inverted ? cmyk[k] : 255u - cmyk[k];
            const unsigned black = inverted ? cmyk[3] : 255u - cmyk[3];
            rgb[k] = (ink * black + 127) / 255;
        }
        if (channels == 1) {
            to[0] = (uint8_t)((rgb[0] * 77 + rgb[1] * 150 + rgb[2] * 29 + 128) >> 8);
        } else {
            to[0] = (uint8_t)rgb[0], to[1] = (uint8_t)rgb[1], to[2] = (uint8_t)rgb[2];
        }
    }
}

/* A failure that is ours, from inside libjpeg's land. */
static void leave(decoder *d, hr_status status) {
    d->status = status;
    longjmp(d->jump, 1);
}

/* The columns [*left, *left + *width) and rows [*top, *top + *height) of the scaled picture that the view touches. */
static void touched(const decoder *d, const hri_view *v, double scale, uint32_t *left,
                    uint32_t *top, uint32_t *width, uint32_t *height) {
    const struct jpeg_decompress_struct *c = &d->cinfo;
    const double x0 = v->x * scale, y0 = v->y * scale;
    const double x1 = (v->x + v->width) * scale + 1, y1 = (v->y + v->height) * scale + 1;
    *left = x0 > 1 ? (uint32_t)x0 - 1 : 0;
    *top = y0 > 1 ? (uint32_t)y0 - 1 : 0;
    *left = *left < c->output_width ? *left : c->output_width - 1;
    *top = *top < c->output_height ? *top : c->output_height - 1;
    const uint32_t right = x1 + 1 < c->output_width ? (uint32_t)x1 + 1 : c->output_width;
    const uint32_t bottom = y1 + 1 < c->output_height ? (uint32_t)y1 + 1 : c->output_height;
    *width = right > *left ? right - *left : 1;
    *height = bottom > *top ? bottom - *top : 1;
}

static void read_rows(decoder *d, const hri_view *v, uint32_t width, uint32_t height) {
    struct jpeg_decompress_struct *c = &d->cinfo;
    for (uint32_t i = 0; i < height && !hri_resizer_is_finished(&d->resizer); i++) {
        JSAMPROW row = d->cmyk ? d->cmyk->data : hri_resizer_row(&d->resizer);
        if (jpeg_read_scanlines(c, &row, 1) != 1) {
            leave(d, hri_prose_set(d->why, HR_E_FORMAT, "JPEG: truncated"));
        }
        if (d->cmyk) {
            from_cmyk(row, hri_resizer_row(&d->resizer), width, v->channels, c->saw_Adobe_marker);
        }
        hri_resizer_done_row(&d->resizer);
    }
}

hr_status hri_jpeg_decode(const void *data, size_t bytes, const hri_view *v, hri_memory *memory,
                          uint8_t *out, hri_prose *why) {
    decoder d;
    decoder_init(&d, why);
    if (setjmp(d.jump)) {
        decoder_deinit(&d);
        return d.status;
    }
    read_header(&d, data, bytes, memory);
    struct jpeg_decompress_struct *c = &d.cinfo;
    const unsigned eighths = choose_scale(v);
    const double scale = eighths / 8.0;
    c->scale_num = eighths;
    c->scale_denom = 8;
    c->do_fancy_upsampling = needs_blending(v, eighths);
    choose_colours(&d, v);
    jpeg_start_decompress(c);
    uint32_t left, top, width, height;
    touched(&d, v, scale, &left, &top, &width, &height);
    JDIMENSION x = left, w = width;
    if (w < c->output_width) {
        jpeg_crop_scanline(c, &x, &w); /* widened to whole blocks */
    }
    hr_status status =
        hri_resizer_init(&d.resizer, memory, v->x * scale - x, v->y * scale - top, v->width * scale,
                         v->height * scale, w, height, v->out_width, v->out_height, v->channels,
                         v->filter, v->flip, out);
    if (status == HR_OK && c->out_color_space == JCS_CMYK) {
        status = hri_memory_buffer(memory, (uint64_t)w * 4, &d.cmyk);
    }
    if (status != HR_OK) {
        leave(&d, status);
    }
    if (top > 0) {
        jpeg_skip_scanlines(c, top);
    }
    read_rows(&d, v, w, height);
    const bool finished = hri_resizer_is_finished(&d.resizer);
    jpeg_abort_decompress(c);
    decoder_deinit(&d);
    return finished ? HR_OK
                    : hri_prose_set(why, HR_E_INTERNAL, "JPEG: truncated, rows are missing");
}
