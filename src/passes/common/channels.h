/* Which channels of a model stay or go together.
 *
 * An *element* is one place along the channel dimension of a value, or along one of the last two dimensions of a parameter or
 * state (inputs and outputs of a weight).  The ops say which elements are the same channel: what a convolution reads with
 * what its weight has for inputs, the two sides of a sum, the parts of a concatenation at their offsets, channel c of (N, H, W, C)
 * with every h W C + w C + c of the flattened row.  Elements that are tied are one *unit*: all of it is removed, or nothing.
 * A unit is fixed where one of its elements must stay: inputs and results of the model, and whatever meets an op that is not
 * known here, or one that looks across channels (layer norm, attention).
 *
 * Grouped convolutions tie the same places of all groups, so that every group loses as many; depthwise ones tie input and
 * output.  No numbers are looked at: weights/shrink.h chooses by them, and shrinking.h makes the graph. */
#ifndef HRI_PASSES_COMMON_CHANNELS_H
#define HRI_PASSES_COMMON_CHANNELS_H

#include "graph/graph.h"

/* A convolution or matmul whose weight is a parameter or state. */
typedef struct hri_channel_layer {
    uint32_t node;
    hr_value in, weight, bias, out; /* bias: HR_NONE without one */
    uint8_t conv, turned;           /* turned: the weight is (outputs, inputs) */
    uint8_t depthwise;              /* one input channel for each group */
    int64_t ins, outs;              /* of the weight: its own two dimensions */
    int64_t groups;
    uint32_t in_first, out_first; /* elements of these dimensions */
} hri_channel_layer;

typedef struct hri_channels {
    const hr_graph *g;
    hri_arena arena;
    uint32_t count; /* elements */
    uint32_t *
        first; /* by value: its first element, of the channel dimension; of weights the one before it follows */
    int8_t *axis;   /* by value: its channel dimension; -1: it has none */
    uint32_t *up;   /* by element: another one of its unit, or itself */
    uint8_t *fixed; /* by unit */
    hri_channel_layer *layers;
    uint32_t layer_count;
} hri_channels;

/* HR_E_UNSUPPORTED for a graph of more than 2^31 elements.  A zeroed one may be taken apart. */
HR_MUST_CHECK hr_status hri_channels_init(hri_channels *c, const hr_graph *g);
void hri_channels_deinit(hri_channels *c);
/* Ties and fixes in c what is tied and fixed in another graph of the same model, by the names of parameters and states. */
HR_MUST_CHECK hr_status hri_channels_join(hri_channels *c, const hri_channels *other);

/* The unit of an element: one of its elements. */
uint32_t hri_channels_unit(const hri_channels *c, uint32_t element);
/* Elements of a value: those of its channel dimension, and of a weight those of the dimension before. */
uint32_t hri_channels_size(const hri_channels *c, hr_value v);
uint32_t hri_channels_before(const hri_channels *c, hr_value v);

#endif
