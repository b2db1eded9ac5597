/* The attributes of gelu and gelu_grad. */
#ifndef HRI_OPS_COMMON_GELU_H
#define HRI_OPS_COMMON_GELU_H

typedef struct hri_attr_gelu {
    int approximate; /* index into the choices */
} hri_attr_gelu;

static const char *const hri_gelu_choices[] = {"erf", "tanh", 0};

#endif
