/* What the machine has left for a pipeline that was given no budget. */
#ifndef HRI_DATA_BUDGET_H
#define HRI_DATA_BUDGET_H

#include <stdint.h>

/* Bytes that this process could still take: the smallest of MemAvailable and, for its control group and every one
 * above it, the limit minus what is used and cannot be reclaimed (versions 1 and 2).  `root` is prefixed to every
 * path ("" on a real machine, a folder in tests).  0 when nothing can be read. */
uint64_t hri_budget_available(const char *root);

#endif
