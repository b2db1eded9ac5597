/* Which layers of a model can compute in bytes, and what has to be known for it: shared by the pass `quantize`, by what
 * writes quantized files and by what plans them.
 *
 * A site is a convolution or linear layer with what follows it alone: its batch norm, which is folded into weights and bias,
 * and its relu, or relu6: bytes end where the range does, which is not above 6.  Bytes flow from site to site through sums, max pools, means over images, reshapes and transposes; everything else is real, and values
 * are converted where both meet.  A value that is bytes needs a range, except where it has that of its source. */
#ifndef HRI_PASSES_COMMON_QUANTIZING_H
#define HRI_PASSES_COMMON_QUANTIZING_H

#include "base/arena.h"
#include "graph/graph.h"

typedef enum hri_quantize_to {
    HRI_QUANTIZE_I8,
    HRI_QUANTIZE_FOLD,
    HRI_QUANTIZE_OBSERVE,
    HRI_QUANTIZE_F8,
    HRI_QUANTIZE_OBSERVE_F8
} hri_quantize_to;

/* The options of the pass. */
typedef struct hri_quantize_options {
    int to; /* hri_quantize_to */
} hri_quantize_options;

typedef struct hri_site {
    uint32_t node;                  /* conv2d or matmul */
    uint32_t norm;                  /* batch_norm_inference; HRI_NO_NODE: none */
    uint32_t last;                  /* the node that makes `out` */
    hr_value in, weight, bias, out; /* bias HR_NONE: none */
    uint8_t conv, turned, relu;     /* turned: weights of a linear layer are (N, K) */
    uint8_t depthwise;              /* a convolution of single channels */
    double cap;                     /* with relu: results are not above it; 0: no bound */
    int64_t depth, columns;         /* products of a sum; outputs */
    double eps;
    const char *weight_name, *scale_name, *bias_name; /* of the quantized model */
} hri_site;

/* What a node becomes. */
enum {
    HRI_PART_KEEP,
    HRI_PART_SKIP,
    HRI_PART_SITE,
    HRI_PART_ADD,
    HRI_PART_POOL,
    HRI_PART_MEAN,
    HRI_PART_SHAPE
};

typedef struct hri_quantizing {
    const hr_graph *g;
    hri_arena arena;
    hri_site *sites;
    size_t site_count;
    uint8_t *part;     /* by node */
    uint32_t *of;      /* by node: the site; of a sum, the node "add" */
    uint8_t *relu;     /* by node "add": a relu is part of it */
    uint8_t *bytes;    /* by value: it is wanted as bytes */
    hr_value *range;   /* by value: whose range it has; HR_NONE: it needs none */
    const char **name; /* by value with a range of its own */
    size_t range_count;
    size_t left_out; /* convolutions and linear layers that stay real */
} hri_quantizing;

/* For an evaluation graph.  f8: for codes of 8-bit floats, which what sites read is made of, and nothing else.  HR_E_NOMEM_HOST
 * alone; hri_quantizing_deinit afterwards. */
HR_MUST_CHECK hr_status hri_quantizing_init(hri_quantizing *q, const hr_graph *g, int f8);
/* A zeroed one is allowed. */
void hri_quantizing_deinit(hri_quantizing *q);

#define HRI_RANGE_SCALE     ".scale"
#define HRI_RANGE_ZERO      ".zero_point"
#define HRI_RANGE_HISTOGRAM ".histogram"

#endif
