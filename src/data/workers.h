/* Workers: threads that run `apply` stages over the elements of an input, in order or as they come.
 *
 * Elements get numbers as they are pulled and lie in a ring of slots.  Any worker pulls (one at a time) and works on
 * what it pulled; the consumer takes the oldest slot (ordered) or the oldest finished one (unordered).  A run of
 * apply stages shares one set of workers: an element goes through all of them in one go.
 *
 * Memory: the oldest slot works in the stage's guarantee, all others in growth (`extra`).  When growth is refused a
 * worker gives back what it loaded, leaves the slot for later, and the stage goes on with one thread less; when the
 * oldest element needs more than the guarantee, finished results of later slots are dropped and made again.
 *
 * With one worker there are no threads at all: the consumer does the work. */
#ifndef HRI_DATA_WORKERS_H
#define HRI_DATA_WORKERS_H

#include "data/stage.h"

/* For `last`, an apply stage, and the folded ones above it (chain[count - 1] == last). */
HR_MUST_CHECK hr_status hri_workers_create(hri_stage *const *chain, uint32_t count, bool ordered,
                                           hri_workers **out);
void hri_workers_destroy(hri_workers *w); /* NULL is allowed */
HR_MUST_CHECK hr_status hri_workers_start(hri_workers *w, uint64_t epoch);
HR_MUST_CHECK hr_status hri_workers_next(hri_workers *w, hri_item *out);
void hri_workers_save(hri_workers *w, hri_state *state);
HR_MUST_CHECK hr_status hri_workers_restore(hri_workers *w, hri_state *state);
void hri_workers_stop(hri_workers *w);
/* May the work in `slot` use the guarantee? */
bool hri_workers_is_oldest(hri_workers *w, uint64_t slot);
/* Drops finished results behind the oldest slot that can be made again. */
void hri_workers_drop_results(hri_workers *w);
/* Workers may start or stand still after parallel was changed. */
void hri_workers_retune(hri_workers *w);

#endif
