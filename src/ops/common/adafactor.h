/* How adafactor sees a tensor: as a matrix of rows and columns, whose averages are its state. */
#ifndef HRI_OPS_COMMON_ADAFACTOR_H
#define HRI_OPS_COMMON_ADAFACTOR_H

#include <headroom/graph.h>

/* Cuts between two dimensions where rows + columns are fewest; one row for what has one dimension beside those of 1. */
void hri_adafactor_cut(const hr_shape *s, int64_t *rows, int64_t *columns);

#endif
