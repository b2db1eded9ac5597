/* The host memory of our own records: malloc with a fault point in front.  Every allocation of the library goes
 * through here (libraries we link have their own), so that a test can make each one fail and count what is left. */
#ifndef HRI_BASE_ALLOC_H
#define HRI_BASE_ALLOC_H

#include <stddef.h>

/* NULL when there is none.  count * size is checked for overflow.  hri_calloc zeroes. */
void *hri_malloc(size_t bytes);
void *hri_calloc(size_t count, size_t size);
void *hri_realloc(void *old, size_t bytes);
/* A copy of `text`, or NULL. */
char *hri_strdup(const char *text);
/* NULL is allowed. */
void hri_free(void *memory);
/* Gives pages in which nothing lives back to the system, as far as the C library can: what planning took must not stay
 * resident beside what runs.  Changes no setting of the process. */
void hri_trim(void);

#endif
