/* States: the bytes that say where a pipeline is.  Numbers are eight little-endian bytes; a blob is its length and its
 * bytes.  A writer that runs out of memory remembers it, a reader that runs out of bytes says HR_E_FORMAT: both are
 * checked once, at the end.  Threads: one at a time. */
#ifndef HRI_DATA_STATE_H
#define HRI_DATA_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>

typedef struct hri_state {
    unsigned char *data;
    size_t count, capacity; /* of a reader: data borrowed */
    size_t at;              /* of a reader */
    bool failed, reads;
} hri_state;

void hri_state_put(hri_state *w, uint64_t number);
void hri_state_put_bytes(hri_state *w, const void *data, size_t bytes); /* without a length */
void hri_state_put_blob(hri_state *w, const void *data, size_t bytes);
void hri_state_deinit(hri_state *w);

hri_state hri_state_reader(const void *data, size_t bytes);
/* 0 when there is no more. */
uint64_t hri_state_get(hri_state *r);
/* A blob as a reader of its own, within r's bytes. */
hri_state hri_state_get_blob(hri_state *r);
/* HR_OK, HR_E_FORMAT for a reader, HR_E_NOMEM_HOST for a writer. */
HR_MUST_CHECK hr_status hri_state_status(const hri_state *s);

#endif
