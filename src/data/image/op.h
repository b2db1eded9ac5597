/* What the stages that work on decoded pictures share.  A picture is the field "image", u8[height,width,channels]; all
 * other fields go on as they are. */
#ifndef HRI_DATA_IMAGE_OP_H
#define HRI_DATA_IMAGE_OP_H

#include "data/apply.h"
#include "data/stage.h"

typedef struct hri_bitmap {
    uint8_t *data; /* (height, width, channels) */
    int64_t height, width, channels;
} hri_bitmap;

/* Height and width from an option like "224" or "224x320".  False when it is neither. */
bool hri_bitmap_size(const hri_dims *dims, int64_t *height, int64_t *width);

/* At build: the spec's picture gets these dimensions (-1: unknown; 0: as it was) and this type, and the bytes of an
 * element follow; where they are not known, an element takes at most `bound` bytes more than before. */
HR_MUST_CHECK hr_status hri_bitmap_open(hri_stage *s, int64_t height, int64_t width, hr_type type,
                                        uint64_t bound, hri_prose *why);
/* The input's picture, read only.  HR_E_SHAPE with a reason when it has none. */
HR_MUST_CHECK hr_status hri_bitmap_input(hr_emit *emit, hri_bitmap *out);
/* A new picture in place of the old, and all other fields. */
HR_MUST_CHECK hr_status hri_bitmap_output(hr_emit *emit, int64_t height, int64_t width,
                                          int64_t channels, hri_bitmap *out);
/* [0, 1) */
double hri_emit_uniform(hr_emit *emit);

#endif
