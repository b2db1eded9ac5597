/* The attributes of clip and clip_grad. */
#ifndef HRI_OPS_COMMON_CLIP_H
#define HRI_OPS_COMMON_CLIP_H

typedef struct hri_attr_clip {
    double low, high;
} hri_attr_clip;

#endif
