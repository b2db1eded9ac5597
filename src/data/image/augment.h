/* The operations of RandAugment (Cubuk et al. 2019) on pictures of bytes, as torchvision has them for tensors.
 *
 * Each takes the magnitude that torchvision gives to the function behind it: a shear, pixels, degrees, a factor minus 1, bits
 * or a threshold.  Turning, shearing and moving take the nearest pixel; what comes in from outside is black.  No file
 * but this one knows the formulas. */
#ifndef HRI_DATA_IMAGE_AUGMENT_H
#define HRI_DATA_IMAGE_AUGMENT_H

#include "data/image/op.h"

typedef enum hri_augment_op {
    HRI_AUGMENT_IDENTITY = 0,
    HRI_AUGMENT_SHEAR_X,
    HRI_AUGMENT_SHEAR_Y,
    HRI_AUGMENT_TRANSLATE_X,
    HRI_AUGMENT_TRANSLATE_Y,
    HRI_AUGMENT_ROTATE,
    HRI_AUGMENT_BRIGHTNESS,
    HRI_AUGMENT_COLOR,
    HRI_AUGMENT_CONTRAST,
    HRI_AUGMENT_SHARPNESS,
    HRI_AUGMENT_POSTERIZE,
    HRI_AUGMENT_SOLARIZE,
    HRI_AUGMENT_AUTO_CONTRAST,
    HRI_AUGMENT_EQUALIZE,
    HRI_AUGMENT_OPS
} hri_augment_op;

/* The magnitude of an operation in bin `bin` of `bins` (torchvision: 9 of 31) for a picture of this size; *either: its sign is
 * drawn. */
double hri_augment_magnitude(hri_augment_op op, int64_t bin, int64_t bins, int64_t height,
                             int64_t width, bool *either);
/* Where a pixel comes from; false: the operation moves none. */
bool hri_augment_moves(hri_augment_op op, double magnitude, int64_t height, int64_t width,
                       hri_plane_move *out);
/* in and out have one size, 1 or 3 channels, and are not the same. */
void hri_augment_apply(hri_augment_op op, double magnitude, const hri_bitmap *in, hri_bitmap *out);

#endif
