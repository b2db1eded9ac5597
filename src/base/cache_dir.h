/* A folder of files that only this user may have written: kernels, choices, times kept between runs.
 *
 *   hri_cache cache;
 *   status = hri_cache_open("/home/u/.cache/headroom", "kernels", 1, &cache, &why);
 *   hri_cache_read(&cache, "gemm.cubin", most, &data, &bytes)   hri_cache_write(...)   hri_cache_append(...)
 *   hri_cache_close(&cache);
 *
 * The one idea: what is read from here may be run, so a folder or a file that somebody else could have put there is the same
 * as none.  The folder belongs to the effective user, nobody else may write in it, and it is no symbolic link; folders are made
 * 0700, files 0600.  Files are opened relative to the folder's descriptor without following links, must be regular, of this
 * user, not writable by others and without other names.  A folder given by a symbolic link is refused too: name its target.
 *
 * A cache that cannot be used is no failure of a run: HR_E_INVALID with a sentence, which `headroom doctor` shows.
 * Any thread; one hri_cache may be shared for reading. */
#ifndef HRI_BASE_CACHE_DIR_H
#define HRI_BASE_CACHE_DIR_H

#include <stddef.h>
#include <headroom/status.h>
#include "base/prose.h"

typedef struct hri_cache {
    int fd; /* of the folder; -1: none */
} hri_cache;

/* Where a user's programs keep such things: $XDG_CACHE_HOME/headroom, else ~/.cache/headroom, else "".  Returns buf. */
const char *hri_cache_default(char *buf, size_t size);

/* `inside` names a folder below, or is NULL; make: where they are missing they are made, else HR_E_NOT_FOUND.  HR_E_INVALID
 * when it is not to be trusted, with the reason; HR_E_IO when it cannot be made or opened.  why may be NULL. */
HR_MUST_CHECK hr_status hri_cache_open(const char *folder, const char *inside, int make,
                                       hri_cache *out, hri_prose *why);
/* {.fd = -1} is allowed. */
void hri_cache_close(hri_cache *cache);

/* The whole file with a NUL behind; hri_free() it.  HR_E_NOT_FOUND also for what is not to be trusted; HR_E_RANGE when it is
 * longer than `most`. */
HR_MUST_CHECK hr_status hri_cache_read(const hri_cache *cache, const char *name, size_t most,
                                       char **out, size_t *out_bytes);
/* A descriptor of the file for reading, under the same conditions; close() it. */
HR_MUST_CHECK hr_status hri_cache_open_file(const hri_cache *cache, const char *name, int *out_fd);
/* Replaces the file: written beside it, synced, renamed. */
HR_MUST_CHECK hr_status hri_cache_write(const hri_cache *cache, const char *name, const void *data,
                                        size_t bytes);
/* One write at the end of the file, made where it is missing. */
HR_MUST_CHECK hr_status hri_cache_append(const hri_cache *cache, const char *name, const void *data,
                                         size_t bytes);

#endif
