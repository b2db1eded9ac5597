/* Levels of processor that ops are compiled for (cmake/levels.cmake): 0, the least that the program was built for, and on
 * x86-64 1, AVX2, and 2, AVX-512.  Which of them this processor has never changes while a process runs. */
#ifndef HRI_BASE_LEVEL_H
#define HRI_BASE_LEVEL_H

#include <stdint.h>

/* The highest that the processor has and the build knows. */
uint32_t hri_level_best(void);
/* Bytes of the program's code that never become resident here, because they are ops of another level than the best; those of level
 * 0 count as used.  The kernel maps pages next to those that are read, so both ends of each piece count as used, too. */
uint64_t hri_level_unused_bytes(void);

#endif
