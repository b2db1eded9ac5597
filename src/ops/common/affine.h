/* The attributes of affine, for the gradient rules that scale or negate. */
#ifndef HRI_OPS_COMMON_AFFINE_H
#define HRI_OPS_COMMON_AFFINE_H

typedef struct hri_attr_affine {
    double scale, shift;
} hri_attr_affine;

#endif
