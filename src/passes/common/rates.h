/* What others know of the pass `layer-rates`: where it says the factor of a parameter. */
#ifndef HRI_PASSES_COMMON_RATES_H
#define HRI_PASSES_COMMON_RATES_H

#define HRI_RATES_NOTE ".rate" /* the note "<param>.rate" is the factor as text; none: 1 */

#endif
