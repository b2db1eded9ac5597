/* Pictures: which decoder, and what it may take.  See image.h. */
#include "data/image/image.h"

#include <string.h>

static bool is_jpeg(const uint8_t *p, size_t bytes) {
    return bytes >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff;
}

static bool is_png(const uint8_t *p, size_t bytes) {
    return bytes >= 8 && memcmp(p, "\x89PNG\r\n\x1a\n", 8) == 0;
}

hr_status hri_image_probe(const void *data, size_t bytes, hri_image_info *out, hri_prose *why) {
    if (bytes == 0) {
        return hri_prose_set(why, HR_E_FORMAT, "the file is empty");
    }
    if (is_jpeg(data, bytes)) {
        return hri_jpeg_probe(data, bytes, out, why);
    }
    if (is_png(data, bytes)) {
        return hri_png_probe(data, bytes, out, why);
    }
    return hri_prose_set(why, HR_E_FORMAT, "not a JPEG or PNG file");
}

hr_status hri_image_decode(const void *data, size_t bytes, const hri_image_info *info,
                           const hri_view *view, hri_memory *memory, uint8_t *out, hri_prose *why) {
    return info->format == HRI_IMAGE_JPEG ? hri_jpeg_decode(data, bytes, view, memory, out, why)
                                          : hri_png_decode(data, bytes, view, memory, out, why);
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
