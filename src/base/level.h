/* Levels of processor that ops are compiled for (cmake/levels.cmake): 0, the least that the program was built for, and on
 * x86-64 1, AVX2, and 2, AVX-512.  Which of them this processor has never changes while a process runs. */
#ifndef HRI_BASE_LEVEL_H
#define HRI_BASE_LEVEL_H

#include <stdint.h>

/* The highest that the processor has and the build knows. */
uint32_t hri_level_best(void);
/* Code of the program that no op runs here, because it is of another level than the best; of level 0 everything may run.  Nothing
 * of it is ever read but the pages next to what is, which are not counted. */
uint64_t hri_level_unused_bytes(void);

#endif
