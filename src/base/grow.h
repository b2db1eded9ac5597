/* Public structs that begin with `size_t size` and grow by fields at their end.
 *
 *   options, caller to library   hri_take copies what both know into a zeroed struct of our own: an older caller gets the
 *                                default, zero, of fields that it does not know.  A byte that a newer caller set beyond
 *                                what we know is HR_E_UNSUPPORTED: no option is ever ignored.
 *   results, library to caller   hri_give writes what both know, zeroes the rest of the caller's struct, and stores in
 *                                its `size` how many bytes were known (HR_HAS in headroom/status.h tells 0 from unknown).
 *
 * Size 0 is HR_E_INVALID: the caller forgot to set it.  No such struct ends in padding. */
#ifndef HRI_BASE_GROW_H
#define HRI_BASE_GROW_H

#include <stddef.h>
#include <headroom/status.h>

HR_MUST_CHECK hr_status hri_take(void *own, size_t own_size, const void *theirs);
HR_MUST_CHECK hr_status hri_give(void *theirs, const void *own, size_t own_size);

#endif
