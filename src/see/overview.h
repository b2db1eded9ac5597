/* The whole of a recording at one glance, small: what the page draws before it has read the rest.
 *
 * The one idea: what a first picture costs must not depend on how much was recorded.  COLUMNS of the upper chart, each at its op
 * with the most bytes so that no peak is lost, and a coarse address map: for each cell the letter of the category that has most
 * of it, small where it has less than half, '.' where there is next to nothing. */
#ifndef HRI_SEE_OVERVIEW_H
#define HRI_SEE_OVERVIEW_H

#include "base/text.h"
#include "see/recording.h"

/* Below this many buffers the exact picture comes as fast. */
enum { HRI_SEE_OVERVIEW_FROM = 20000 };

/* Adds one JSON object without '<'. */
HR_MUST_CHECK hr_status hri_see_overview(const hri_recording *r, hri_text *out);

#endif
