/* Small blocks.  Free stretches of all cut pages wait in one set of bins, so a stretch that fits is used before another
 * page is cut, and a refusal means that neither a page nor a stretch was there. */
#include "memory/small.h"

#include "memory/runs.h"

static uint64_t page_units(const hri_heap *heap) {
    return heap->pool.source.page_bytes / HRI_UNIT_BYTES;
}

/* A page of its own for small blocks, as one free cell that is in no bin.  Needs one cell in reserve. */
static hr_status cut_page(hri_heap *heap, uint32_t *out) {
    uint32_t page;
    const hr_status status = hri_run_alloc(heap, 1, &page);
    if (status != HR_OK) {
        return status;
    }
    hri_cell_at(&heap->cells, page)->state = HRI_CELL_PAGE;
    const uint32_t id = hri_cell_new(&heap->cells, HRI_CELL_FREE);
    hri_cell *cell = hri_cell_at(&heap->cells, id);
    cell->addr = hri_cell_at(&heap->cells, page)->addr;
    cell->units = page_units(heap);
    cell->parent = page;
    *out = id;
    return HR_OK;
}

hr_status hri_small_alloc(hri_heap *heap, uint64_t units, uint32_t *out) {
    hri_cells *cells = &heap->cells;
    uint32_t id = hri_bins_find(&heap->small, cells, units);
    if (id) {
        const hr_status status = hri_cells_reserve(cells, 1);
        if (status != HR_OK) {
            return status;
        }
        hri_bins_remove(&heap->small, cells, id);
    } else {
        hr_status status =
            hri_cells_reserve(cells, 8); /* the run's own, the page's, and one to cut */
        if (status == HR_OK) {
            status = cut_page(heap, &id);
        }
        if (status != HR_OK) {
            return status;
        }
    }
    if (hri_cell_at(cells, id)->units > units) {
        const uint32_t rest = hri_cell_split(cells, id, units, HRI_UNIT_BYTES);
        hri_bins_add(&heap->small, cells, rest);
    }
    hri_cell_at(cells, id)->state = HRI_CELL_SMALL;
    *out = id;
    return HR_OK;
}

void hri_small_free(hri_heap *heap, uint32_t id) {
    hri_cells *cells = &heap->cells;
    hri_cell *cell = hri_cell_at(cells, id);
    cell->state = HRI_CELL_FREE;
    if (cell->above && hri_cell_at(cells, cell->above)->state == HRI_CELL_FREE) {
        hri_bins_remove(&heap->small, cells, cell->above);
        hri_cell_join(cells, id);
    }
    if (cell->below && hri_cell_at(cells, cell->below)->state == HRI_CELL_FREE) {
        id = cell->below;
        hri_bins_remove(&heap->small, cells, id);
        hri_cell_join(cells, id);
        cell = hri_cell_at(cells, id);
    }
    if (cell->units == page_units(heap)) {
        const uint32_t page = cell->parent;
        hri_cell_drop(cells, id);
        hri_run_free(heap, page);
        return;
    }
    hri_bins_add(&heap->small, cells, id);
}
