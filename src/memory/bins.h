/* Bins: free cells by size, so that a fitting one is found in constant time.
 *
 * Eight bins to each power of two; sizes under 16 units have a bin each.  A search looks through the bin of its own
 * size for the best fit, then takes from the next larger bin that holds anything.  Only when there is none does it
 * look through its own bin to the end: so a cell that fits is always found, and nearly always at once.
 *
 * The lists run through the cells' bin_prev and bin_next.  Callers hold the heap's lock. */
#ifndef HRI_MEMORY_BINS_H
#define HRI_MEMORY_BINS_H

#include "memory/cell.h"

enum { HRI_BINS_LEVELS = 48, HRI_BINS_SUB = 8 };

typedef struct hri_bins {
    uint64_t levels; /* bit l: some bin of level l holds a cell */
    uint8_t subs[HRI_BINS_LEVELS];
    uint32_t head[HRI_BINS_LEVELS][HRI_BINS_SUB];
} hri_bins;

void hri_bins_add(hri_bins *bins, hri_cells *cells, uint32_t id);
void hri_bins_remove(hri_bins *bins, hri_cells *cells, uint32_t id);
/* A cell of at least `units`, still in its bin, or 0. */
uint32_t hri_bins_find(const hri_bins *bins, const hri_cells *cells, uint64_t units);
/* Some cell of the smallest or the largest bin that holds any, or 0. */
uint32_t hri_bins_smallest(const hri_bins *bins);
uint32_t hri_bins_largest(const hri_bins *bins);
/* The largest size in the bins, exactly; 0 when empty. */
uint64_t hri_bins_largest_units(const hri_bins *bins, const hri_cells *cells);

#endif
