/* What adam and adamw share: attributes, and what the kernel on a GPU is told. */
#ifndef HRI_OPS_COMMON_ADAM_H
#define HRI_OPS_COMMON_ADAM_H

#include <math.h>

#include "ops/common/update.h"

typedef struct hri_adam_attr {
    double beta1, beta2, epsilon, decay;
    hri_update_small small;
} hri_adam_attr;

static const hri_field hri_adam_fields[] = {
    {"beta1", "decay rate of the first moment", offsetof(hri_adam_attr, beta1), HRI_FIELD_DOUBLE,
     "0.9"},
    {"beta2", "decay rate of the second moment", offsetof(hri_adam_attr, beta2), HRI_FIELD_DOUBLE,
     "0.999"},
    {"epsilon", "added to the denominator", offsetof(hri_adam_attr, epsilon), HRI_FIELD_DOUBLE,
     "1e-8"},
    {"decay", "weight decay", offsetof(hri_adam_attr, decay), HRI_FIELD_DOUBLE, "0"},
    HRI_UPDATE_SMALL_FIELDS(hri_adam_attr),
    {0},
};

static inline void hri_adam_constants(const void *attr, float *c, float *decay) {
    const hri_adam_attr *p = attr;
    c[0] = (float)p->beta1;
    c[1] = (float)(1.0 - p->beta1);
    c[2] = (float)p->beta2;
    c[3] = (float)(1.0 - p->beta2);
    c[4] = (float)p->epsilon;
    c[5] = (float)log(p->beta1);
    c[6] = (float)log(p->beta2);
    *decay = (float)p->decay;
}

#endif
