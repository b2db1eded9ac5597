/* What the readers of files of tensors share: safetensors.c, pth.c, sharded.c fill an hri_tensors, tensors.c opens and reads. */
#ifndef HRI_WEIGHTS_TENSORS_INT_H
#define HRI_WEIGHTS_TENSORS_INT_H

#include "weights/safetensors.h"

/* All of `bytes` from `at`, or a failure whose sentence names the path. */
HR_MUST_CHECK hr_status hri_tensors_read_at(int fd, const char *path, void *to, size_t bytes,
                                            uint64_t at, hri_prose *why);
/* Fills by_name; HR_E_FORMAT for a name given twice. */
HR_MUST_CHECK hr_status hri_tensors_sort(hri_tensors *t, hri_prose *why);

/* Each opens one kind of file; the descriptor stays the caller's. */
HR_MUST_CHECK hr_status hri_safetensors_open(const char *path, int fd, uint64_t size,
                                             hri_tensors *out, hri_prose *why);
HR_MUST_CHECK hr_status hri_pth_open(const char *path, int fd, uint64_t size, hri_tensors *out,
                                     hri_prose *why);
HR_MUST_CHECK hr_status hri_sharded_open(const char *path, int fd, uint64_t size, hri_tensors *out,
                                         hri_prose *why);

#endif
