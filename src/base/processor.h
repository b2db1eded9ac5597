/* The processor's name: what the kernel tells, or on Arm what the numbers of its maker stand for. */
#ifndef HRI_BASE_PROCESSOR_H
#define HRI_BASE_PROCESSOR_H

#include <stddef.h>

/* "AMD EPYC 7763", "Arm Neoverse-N1", "implementer 0x99 part 0x123"; "" when nothing can be read.  `root` is put in
 * front of every path: "" on a real machine, a folder in tests. */
void hri_processor_name(const char *root, char *out, size_t size);

#endif
