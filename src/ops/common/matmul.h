/* Attributes of matmul, for those who make such nodes elsewhere. */
#ifndef HRI_OPS_COMMON_MATMUL_H
#define HRI_OPS_COMMON_MATMUL_H

#include <stdbool.h>

typedef struct hri_matmul_attr {
    bool ta, tb; /* a is (K, M); b is (N, K) */
} hri_matmul_attr;

#endif
