/* What others know of the pass `lora`: its options, the names of adapters, and which way a weight lies. */
#ifndef HRI_PASSES_COMMON_LORA_H
#define HRI_PASSES_COMMON_LORA_H

#include "graph/graph.h"

/* Of the pass `lora` (hri_passes_find). */
typedef struct hri_lora {
    int64_t rank;
    double alpha;       /* NAN: the rank */
    const char *layers; /* pattern.h; NULL: every layer that can have adapters, less the head */
    const char *train;  /* parameters that are trained whole; "head", "none", or a pattern */
} hri_lora;

#define HRI_LORA_A ".lora_A.weight" /* (rank, in) */
#define HRI_LORA_B ".lora_B.weight" /* (out, rank) */

/* alpha / rank: what B A is multiplied by. */
double hri_lora_scale(const hri_lora *o);
/* Length of the layer's path in the name of its weight: without ".weight". */
size_t hri_lora_layer(const char *weight);
/* The adapters of a weight; HR_NONE: it has none. */
hr_value hri_lora_find(const hr_graph *g, const char *weight, const char *which);
/* Is this parameter an adapter?  Files of the model do not have it. */
int hri_lora_is_adapter(const hr_graph *g, hr_value v);
/* How the products of g read this weight: 1: as (in, out); 0: as (out, in); -1: it is read otherwise, too, or not at all. */
int hri_lora_in_first(const hr_graph *g, hr_value weight);

#endif
