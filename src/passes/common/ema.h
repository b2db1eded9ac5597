/* What others know of the pass `ema`: its options, and the names of averages. */
#ifndef HRI_PASSES_COMMON_EMA_H
#define HRI_PASSES_COMMON_EMA_H

#include "graph/graph.h"

typedef struct hri_ema {
    double decay;
} hri_ema;

#define HRI_EMA      ".ema"       /* "<param>.ema", a state like the parameter */
#define HRI_EMA_NOTE "/ema.decay" /* the note that has the decay as text */

/* The average of a parameter; HR_NONE: it has none. */
hr_value hri_ema_of(const hr_graph *g, hr_value param);

#endif
