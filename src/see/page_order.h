/* Buffers in the order in which the page looks them up: by class (category; recomputed activations apart) and octave of lifetime,
 * by birth within.  All buffers that are alive during some ops then lie in one short range per group.  The page sorts what comes
 * in another order; for a million buffers this takes it longer than anything else. */
#ifndef HRI_SEE_PAGE_ORDER_H
#define HRI_SEE_PAGE_ORDER_H

#include "see/recording.h"

/* Of a recording that was finished; hri_free() it.  *out is NULL when there are no buffers. */
HR_MUST_CHECK hr_status hri_see_page_order(const hri_recording *r, hri_see_buffer **out);

#endif
