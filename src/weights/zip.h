/* The list of files in a zip container, and where their bytes lie.
 *
 * For containers whose files are stored as they are (torch.save writes such ones): a file is then a run of bytes in the
 * container, read with pread like any other.  The list at the container's end is believed only as far as it can be checked:
 * every file lies inside the container, the list and its names are bounded.  Compressed, encrypted and split ones are
 * refused by hri_zip_data.  Nothing is unpacked.
 *
 * HR_E_FORMAT for what is no zip, with a sentence that names the path.  Threads: an opened list may be read by many. */
#ifndef HRI_WEIGHTS_ZIP_H
#define HRI_WEIGHTS_ZIP_H

#include <headroom/status.h>
#include "base/arena.h"
#include "base/prose.h"

enum {
    HRI_ZIP_LIST_MAX = 16 << 20, /* bytes of the list */
    HRI_ZIP_NAME_MAX = 1023      /* bytes of a name */
};

typedef struct hri_zip_entry {
    const char *name;
    uint64_t at, bytes; /* of its head in the container; of its contents */
    uint16_t method, flags;
} hri_zip_entry;

typedef struct hri_zip {
    hri_arena names;
    hri_zip_entry *items; /* in the order of names */
    size_t count;
} hri_zip;

/* fd: the container, of `size` bytes. */
HR_MUST_CHECK hr_status hri_zip_open(const char *path, int fd, uint64_t size, hri_zip *out,
                                     hri_prose *why);
/* A zeroed one is allowed. */
void hri_zip_close(hri_zip *z);
/* NULL: none of that name. */
const hri_zip_entry *hri_zip_find(const hri_zip *z, const char *name);
/* Where its contents begin. */
HR_MUST_CHECK hr_status hri_zip_data(const char *path, int fd, uint64_t size,
                                     const hri_zip_entry *e, uint64_t *out, hri_prose *why);

#endif
