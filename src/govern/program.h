/* The program that `headroom run` is to start: can a library be loaded into it? */
#ifndef HRI_GOVERN_PROGRAM_H
#define HRI_GOVERN_PROGRAM_H

#include "base/prose.h"

/* Finds `name` as a shell would (PATH, unless it has a '/'), follows "#!" lines, and looks at the ELF file at the end.
 * HR_E_NOT_FOUND: there is none.  HR_E_UNSUPPORTED: it is linked statically, runs as another user, is for another machine
 * or for another C library; the sentence says which. */
HR_MUST_CHECK hr_status hri_run_program_check(const char *name, hri_prose *why);

/* The library that is loaded into programs, beside this one or where it was installed; hri_free() it.  HR_E_NOT_FOUND with
 * the places that were looked at. */
HR_MUST_CHECK hr_status hri_run_library_find(char **out, hri_prose *why);

#endif
