/* Who holds a GPU's memory, and for how long, in words. */
#ifndef HRI_GOVERN_HOLDERS_H
#define HRI_GOVERN_HOLDERS_H

#include "base/text.h"
#include "govern/link.h"

/* What the broker's list says of a device. */
typedef struct hri_holders {
    int found;
    uint64_t total_bytes, free_bytes, outside_bytes;
} hri_holders;

/* Looks, and adds "resnet50 (job 3, 6 GiB for 12 min), python (job 4, 1 GiB for 3 s), programs outside (300 MiB)" to *names (may
 * be NULL); the largest are first, five at most.  HR_E_IO: the broker does not answer. */
HR_MUST_CHECK hr_status hri_holders_read(hri_link *link, const unsigned char uuid[16],
                                         hri_holders *out, hri_text *names);
/* "waiting for 3.2 GiB on cuda:0: 1 GiB free, held by ..." of a device under the broker, with `verb` in front; *out is emptied
 * first.  Makes a connection of its own: the asker's has a question under way. */
void hri_holders_say(const char *verb, uint64_t bytes, const char *device,
                     const unsigned char uuid[16], hri_text *out);
/* "12 s", "3 min", "2 h". */
const char *hri_holders_time(uint64_t ms, char *out, size_t size);

#endif
