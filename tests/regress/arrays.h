/* Small data sets for the cases of this folder: .npy files, text files, images. */
#ifndef HR_REGRESS_ARRAYS_H
#define HR_REGRESS_ARRAYS_H

#include <stddef.h>
#include <stdint.h>

/* f32[count, width]: uniform numbers that depend on the seed alone. */
void arrays_write_reals(const char *path, uint32_t count, uint32_t width, uint64_t seed);
/* i64[count]: i % classes. */
void arrays_write_labels(const char *path, uint32_t count, int64_t classes);
/* i64[count]: these. */
void arrays_write_i64(const char *path, const int64_t *labels, uint32_t count);
/* A .npy file with this header text and these bytes behind it. */
void arrays_write_npy(const char *path, int major, const char *header, const void *data,
                      size_t bytes);
void arrays_write(const char *path, const void *data, size_t bytes);

#endif
