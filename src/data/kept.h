/* Elements kept by their number: the cache behind a source whose places are known.
 *
 * The one idea: such a cache keeps what loading a ticket gave, under the number of the element in its source.  The order,
 * the epochs and every random choice stay those of the stages around it; only the loading is saved, whatever part of the
 * elements is kept and whoever kept it.  A ticket of the same number that stands for other data (random windows of tokens)
 * is recognised, and loaded as if there were no cache.
 *
 * In memory as many as the budget has room for, or in a file (formats/cachefile.h) whose records begin with the number and
 * the ticket, in whatever order they came.  Eight bytes an element for its place, in the stage's working set.
 *
 * Any thread loads. */
#ifndef HRI_DATA_KEPT_H
#define HRI_DATA_KEPT_H

#include "data/stage.h"

typedef struct hri_kept hri_kept;

/* For the cache stage `s`, whose input has random access; fills s->spec and s->smallest_bytes.  folder NULL: in memory. */
HR_MUST_CHECK hr_status hri_kept_open(hri_stage *s, const char *folder, int64_t level,
                                      hri_kept **out, hri_prose *why);
/* NULL is allowed. */
void hri_kept_close(hri_kept *k);
/* Makes a ticket of the input one of `s`. */
void hri_kept_ticket(const hri_kept *k, hri_item *item);
/* The ticket as the input gave it. */
hri_item hri_kept_inner(const hri_kept *k, const hri_item *item);
HR_MUST_CHECK hr_status hri_kept_load(hri_kept *k, const hri_item *item, hr_emit *emit);

#endif
