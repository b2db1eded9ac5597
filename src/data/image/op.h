/* What the stages that work on decoded pictures share.  A picture is the field "image", u8[height,width,channels].  A field
 * "label" of [height,width] is a plane: the class of each pixel, which moves with the picture.  All other fields go on as
 * they are. */
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
/* A class for each pixel. */
typedef struct hri_plane {
    void *data; /* (height, width) */
    hr_type type;
    int64_t height, width;
} hri_plane;

/* Which pixel of the input a pixel of the output is: x' = x[0] + x[1] (x + 1/2) + x[2] (y + 1/2), and the same for y';
 * the pixel under that place is taken. */
typedef struct hri_plane_move {
    double x[3], y[3];
} hri_plane_move;

/* The input's plane; false when it has none of the picture's size. */
bool hri_plane_input(const hr_emit *emit, int64_t height, int64_t width, hri_plane *out);
/* The plane of the output, if the input has one, before hri_bitmap_output: pixels from outside are ignored.  Bytes become i32
 * where `wide`, with -1 for those that are ignored. */
HR_MUST_CHECK hr_status hri_plane_apply(hr_emit *emit, const hri_bitmap *in, int64_t height,
                                        int64_t width, const hri_plane_move *move, bool wide);
/* [0, 1) */
double hri_emit_uniform(hr_emit *emit);

#endif
