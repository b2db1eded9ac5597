/* What others know of the pass `layer-rates`: where it says the factors of a parameter. */
#ifndef HRI_PASSES_COMMON_RATES_H
#define HRI_PASSES_COMMON_RATES_H

#define HRI_RATES_NOTE ".rate" /* the note "<param>.rate" is the factor as text; none: 1 */
/* The note "<param>.decay": that of the weight decay, whatever the shape of the parameter; none: as its shape says. */
#define HRI_DECAYS_NOTE ".decay"

#endif
