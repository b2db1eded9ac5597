/* Sizes that are typed back: a minimum that is shown must be accepted as it stands, so it is never rounded down. */
#ifndef HRI_BASE_BYTES_UP_H
#define HRI_BASE_BYTES_UP_H

#include <stddef.h>
#include <stdint.h>

/* As hr_bytes_print, rounded up: hr_bytes_parse of the text gives `bytes` or more. */
const char *hri_bytes_print_up(uint64_t bytes, char *buf, size_t size);

#endif
