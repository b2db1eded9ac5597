/* See bins.h.  `place` maps a size to its bin; larger sizes never map to a lower bin. */
#include "memory/bins.h"

enum { NEAR_SCAN = 32 };

static void place(uint64_t units, uint32_t *level, uint32_t *sub) {
    if (units < HRI_BINS_SUB) {
        *level = 0;
        *sub = (uint32_t)units;
        return;
    }
    const uint32_t top = 63u - (uint32_t)__builtin_clzll(units); /* >= 3 */
    *level = top - 2 < HRI_BINS_LEVELS ? top - 2 : HRI_BINS_LEVELS - 1;
    *sub = (uint32_t)(units >> (top - 3)) & (HRI_BINS_SUB - 1);
}

void hri_bins_add(hri_bins *bins, hri_cells *cells, uint32_t id) {
    uint32_t level, sub;
    hri_cell *cell = hri_cell_at(cells, id);
    place(cell->units, &level, &sub);
    const uint32_t old = bins->head[level][sub];
    cell->bin_prev = 0;
    cell->bin_next = old;
    if (old) {
        hri_cell_at(cells, old)->bin_prev = id;
    }
    bins->head[level][sub] = id;
    bins->subs[level] = (uint8_t)(bins->subs[level] | 1u << sub);
    bins->levels |= UINT64_C(1) << level;
}

void hri_bins_remove(hri_bins *bins, hri_cells *cells, uint32_t id) {
    uint32_t level, sub;
    hri_cell *cell = hri_cell_at(cells, id);
    place(cell->units, &level, &sub);
    if (cell->bin_next) {
        hri_cell_at(cells, cell->bin_next)->bin_prev = cell->bin_prev;
    }
    if (cell->bin_prev) {
        hri_cell_at(cells, cell->bin_prev)->bin_next = cell->bin_next;
    } else {
        bins->head[level][sub] = cell->bin_next;
        if (!cell->bin_next) {
            bins->subs[level] = (uint8_t)(bins->subs[level] & ~(1u << sub));
            if (!bins->subs[level]) {
                bins->levels &= ~(UINT64_C(1) << level);
            }
        }
    }
    cell->bin_prev = cell->bin_next = 0;
}

/* The best fit among the first `most` cells of a list; *rest is where to go on. */
static uint32_t best_of(const hri_cells *cells, uint32_t id, uint64_t units, uint32_t most,
                        uint32_t *rest) {
    uint32_t best = 0;
    uint64_t best_units = UINT64_MAX;
    for (; id && most > 0 && best_units != units; most--) {
        const hri_cell *cell = hri_cell_at(cells, id);
        if (cell->units >= units && cell->units < best_units) {
            best = id;
            best_units = cell->units;
        }
        id = cell->bin_next;
    }
    *rest = id;
    return best;
}

static uint32_t next_larger(const hri_bins *bins, uint32_t level, uint32_t sub) {
    const uint32_t subs = bins->subs[level] & ~((2u << sub) - 1u);
    if (subs) {
        return bins->head[level][__builtin_ctz(subs)];
    }
    const uint64_t levels =
        level + 1 < HRI_BINS_LEVELS ? bins->levels & ~((UINT64_C(2) << level) - 1) : 0;
    if (!levels) {
        return 0;
    }
    const uint32_t upper = (uint32_t)__builtin_ctzll(levels);
    return bins->head[upper][__builtin_ctz(bins->subs[upper])];
}

uint32_t hri_bins_find(const hri_bins *bins, const hri_cells *cells, uint64_t units) {
    uint32_t level, sub, rest, unused;
    place(units, &level, &sub);
    uint32_t id = best_of(cells, bins->head[level][sub], units, NEAR_SCAN, &rest);
    if (!id) {
        id = next_larger(bins, level, sub);
    }
    return id ? id : best_of(cells, rest, units, UINT32_MAX, &unused);
}

uint32_t hri_bins_smallest(const hri_bins *bins) {
    if (!bins->levels) {
        return 0;
    }
    const uint32_t level = (uint32_t)__builtin_ctzll(bins->levels);
    return bins->head[level][__builtin_ctz(bins->subs[level])];
}

uint32_t hri_bins_largest(const hri_bins *bins) {
    if (!bins->levels) {
        return 0;
    }
    const uint32_t level = 63u - (uint32_t)__builtin_clzll(bins->levels);
    return bins->head[level][31u - (uint32_t)__builtin_clz(bins->subs[level])];
}

uint64_t hri_bins_largest_units(const hri_bins *bins, const hri_cells *cells) {
    uint64_t most = 0;
    for (uint32_t id = hri_bins_largest(bins); id; id = hri_cell_at(cells, id)->bin_next) {
        const uint64_t units = hri_cell_at(cells, id)->units;
        most = units > most ? units : most;
    }
    return most;
}
