/* Cells: the host-side records of device memory.  Device memory cannot hold our headers, so every stretch of it that
 * is cut, free or in use has a cell here, found by a 32-bit id.
 *
 * The one idea: memory is cut at two levels by the same rules.  A window of addresses is cut into runs of pages; a
 * page is cut into small blocks of 256-byte units.  At either level the cells lie in address order in a doubly linked
 * list without gaps, neighbours of the same free state are joined at once, and free cells wait in bins by size.
 *
 * Ids and pointers stay valid until the cell is dropped.  Id 0 is none.  Callers hold the heap's lock. */
#ifndef HRI_MEMORY_CELL_H
#define HRI_MEMORY_CELL_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/device.h>

typedef enum hri_cell_state {
    HRI_CELL_UNUSED, /* the record is not in use */
    HRI_CELL_HOLE,   /* addresses without pages */
    HRI_CELL_IDLE,   /* pages mapped, used by nobody */
    HRI_CELL_LARGE,  /* a block with pages of its own */
    HRI_CELL_PAGE,   /* one page, cut into small blocks */
    HRI_CELL_FREE,   /* in a page: free */
    HRI_CELL_SMALL   /* in a page: a block */
} hri_cell_state;

typedef struct hri_cell {
    hr_addr addr;
    uint64_t units;        /* pages, or 256-byte units inside a page */
    uint64_t asked_bytes;  /* of a block: what the caller asked for */
    uint32_t below, above; /* neighbours in address order, 0 at the ends */
    uint32_t bin_prev, bin_next;
    uint32_t parent;     /* of a run: its window; of a small cell: the cell of its page */
    uint32_t generation; /* unique among all cells ever made: a stale handle is recognised */
    uint32_t owner;
    uint32_t epoch; /* of an idle run: when it was last in use */
    uint8_t state, category;
} hri_cell;

enum { HRI_CELL_CHUNK = 512 };

typedef struct hri_cells {
    hri_cell **chunks;
    uint32_t chunk_count, chunk_capacity;
    uint32_t free_head; /* linked through bin_next */
    uint32_t free_count, used_count;
    uint32_t last_generation;
} hri_cells;

static inline hri_cell *hri_cell_at(const hri_cells *cells, uint32_t id) {
    return &cells->chunks[id / HRI_CELL_CHUNK][id % HRI_CELL_CHUNK];
}

/* Makes sure that the next `count` calls of hri_cell_new succeed.  HR_E_NOMEM_HOST. */
HR_MUST_CHECK hr_status hri_cells_reserve(hri_cells *cells, uint32_t count);
/* A zeroed cell of the given state; never fails after a reserve. */
uint32_t hri_cell_new(hri_cells *cells, hri_cell_state state);
void hri_cell_drop(hri_cells *cells, uint32_t id);
/* The live cell of a block's handle, or 0. */
uint32_t hri_cell_of_handle(const hri_cells *cells, uint64_t handle);
uint64_t hri_cell_handle(const hri_cells *cells, uint32_t id);
/* Frees the records themselves when none is in use. */
void hri_cells_shrink(hri_cells *cells);
void hri_cells_deinit(hri_cells *cells);

/* Cuts a cell after `units`; the upper part is a new cell of the same state and parent, whose id is returned. */
uint32_t hri_cell_split(hri_cells *cells, uint32_t id, uint64_t units, uint64_t unit_bytes);
/* Joins `id` with its upper neighbour, which is dropped. */
void hri_cell_join(hri_cells *cells, uint32_t id);

#endif
