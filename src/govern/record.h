/* What is left of governed processes: their pages in the user's folder, read for `headroom why` and `headroom top`. */
#ifndef HRI_GOVERN_RECORD_H
#define HRI_GOVERN_RECORD_H

#include "broker/page.h"

/* The page of a job (0: of any) that has the latest refusal; one with a refusal goes before one without.  hri_free() it.
 * NULL: there is none. */
hri_page *hri_record_find(const char *folder, uint64_t job);
/* The moment of its last refusal, or of its start where there was none; nanoseconds of CLOCK_REALTIME. */
uint64_t hri_record_moment(const hri_page *page);
/* Does its process run still? */
int hri_record_alive(const hri_page *page);
/* Why the last request was refused, as the end of a sentence. */
const char *hri_record_reason(const hri_page *page);
/* A budget in which the refused request would have fitted: it, what was held, and a little more. */
uint64_t hri_record_enough(const hri_page *page);
/* Records of jobs long gone make room: those of the last 32 before `job` stay. */
void hri_record_forget(const char *folder, uint64_t job);

#endif
