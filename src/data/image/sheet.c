/* A contact sheet: see sheet.h.  At most 256 pictures, in a grid about as high as wide, two pixels apart. */
#include "data/image/sheet.h"

#include <math.h>
#include "base/alloc.h"
#include "data/element.h"
#include "data/image/image.h"

enum { GAP = 2, PICTURES_MAX = 256, PIXELS_MAX = 1 << 28 };

static void find_range(const hr_field *f, int64_t count, double *low, double *high) {
    *low = 0;
    *high = 255;
    if (f->meta.type == HR_TYPE_U8 || count == 0) {
        return;
    }
    *low = *high = hri_field_number(f, 0);
    for (int64_t i = 1; i < count; i++) {
        const double x = hri_field_number(f, (uint64_t)i);
        *low = x < *low ? x : *low;
        *high = x > *high ? x : *high;
    }
    *high = *high > *low ? *high : *low + 1;
}

hr_status hri_sheet_write(const hr_element *element, const char *path, hri_prose *why) {
    const hr_field *f = hr_element_find(element, "image");
    const int rank = f ? f->meta.shape.rank : 0;
    const int64_t *d = f ? f->meta.shape.dim : NULL;
    if (!f || rank < 3 || rank > 4 || (d[rank - 1] != 1 && d[rank - 1] != 3) ||
        f->meta.type == HR_TYPE_I32 || f->meta.type == HR_TYPE_I64) {
        return hri_prose_set(why, HR_E_SHAPE,
                             "the element has no \"image\" of (height, width, 1 or 3 channels)");
    }
    int64_t n = rank == 4 ? d[0] : 1;
    n = n < PICTURES_MAX ? n : PICTURES_MAX;
    const int64_t h = d[rank - 3], w = d[rank - 2], c = d[rank - 1];
    const int64_t across =
        n > 0 ? (int64_t)ceil(sqrt((double)n * (double)h / (double)(w ? w : 1))) : 0;
    const int64_t columns = across < 1 ? 1 : across > n ? n : across;
    const int64_t rows = n ? (n + columns - 1) / columns : 0;
    const int64_t width = columns * (w + GAP) - GAP, height = rows * (h + GAP) - GAP;
    if (n == 0 || h == 0 || w == 0 || width * height > PIXELS_MAX) {
        return hri_prose_set(why, HR_E_SHAPE, "a sheet of %lld x %lld pixels cannot be made",
                             (long long)width, (long long)height);
    }
    uint8_t *sheet = hri_calloc((size_t)(width * height), 3);
    if (!sheet) {
        return HR_E_NOMEM_HOST;
    }
    double low, high;
    find_range(f, n * h * w * c, &low, &high);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t y = 0; y < h; y++) {
            uint8_t *to =
                sheet + 3 * ((i / columns * (h + GAP) + y) * width + i % columns * (w + GAP));
            for (int64_t x = 0; x < w; x++, to += 3) {
                for (int64_t k = 0; k < 3; k++) {
                    const double v = hri_field_number(
                        f, (uint64_t)(((i * h + y) * w + x) * c + (c == 3 ? k : 0)));
                    to[k] = (uint8_t)((v - low) / (high - low) * 255 + 0.5);
                }
            }
        }
    }
    const hr_status status = hri_png_write(path, sheet, (uint32_t)width, (uint32_t)height, why);
    hri_free(sheet);
    return status;
}
