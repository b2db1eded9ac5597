/* CRC-32C (Castagnoli), as TFRecord files and our caches use it.  Any thread. */
#ifndef HRI_BASE_CRC32C_H
#define HRI_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* crc 0 to begin with; pass the last result to go on. */
uint32_t hri_crc32c(uint32_t crc, const void *data, size_t bytes);
/* The same by tables alone, for the test that compares the two. */
uint32_t hri_crc32c_portable(uint32_t crc, const void *data, size_t bytes);
/* The form in which TFRecord stores it: turned and shifted, so that a checksum of checksums is no trap. */
uint32_t hri_crc32c_masked(const void *data, size_t bytes);

#endif
