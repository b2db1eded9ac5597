/* Reading files for sources: pread, never mmap: mapped pages would count in the resident set without being in the
 * ledger.  Any thread. */
#ifndef HRI_DATA_READ_H
#define HRI_DATA_READ_H

#include "data/element.h"

/* A whole file as the field `name`, u8[n].  HR_E_IO when it cannot be read, or changes while it is read. */
HR_MUST_CHECK hr_status hri_emit_file(hr_emit *emit, const char *name, const char *path);
/* Exactly `bytes` bytes at `offset`; the reason of a failure, with the path in it, goes to why.  HR_E_FORMAT when the
 * file is too short. */
HR_MUST_CHECK hr_status hri_read_at(int fd, const char *path, uint64_t offset, void *to,
                                    uint64_t bytes, hri_prose *why);

#endif
