/* Storage of cells (chunks that never move, a free list) and the two cuts that keep the address order. */
#include "memory/cell.h"

#include <string.h>

#include "base/alloc.h"

hr_status hri_cells_reserve(hri_cells *cells, uint32_t count) {
    while (cells->free_count < count) {
        if (cells->chunk_count == cells->chunk_capacity) {
            const uint32_t capacity = cells->chunk_capacity ? cells->chunk_capacity * 2 : 8;
            hri_cell **chunks = hri_realloc(cells->chunks, capacity * sizeof *chunks);
            if (!chunks) {
                return HR_E_NOMEM_HOST;
            }
            cells->chunks = chunks;
            cells->chunk_capacity = capacity;
        }
        hri_cell *chunk = hri_calloc(HRI_CELL_CHUNK, sizeof *chunk);
        if (!chunk) {
            return HR_E_NOMEM_HOST;
        }
        const uint32_t base = cells->chunk_count * HRI_CELL_CHUNK;
        cells->chunks[cells->chunk_count++] = chunk;
        /* low ids first, so that the records in use stay together; id 0 is none */
        for (uint32_t i = HRI_CELL_CHUNK; i-- > 0;) {
            if (base + i != 0) {
                chunk[i].bin_next = cells->free_head;
                cells->free_head = base + i;
                cells->free_count++;
            }
        }
    }
    return HR_OK;
}

uint32_t hri_cell_new(hri_cells *cells, hri_cell_state state) {
    const uint32_t id = cells->free_head;
    hri_cell *cell = hri_cell_at(cells, id);
    cells->free_head = cell->bin_next;
    cells->free_count--;
    cells->used_count++;
    memset(cell, 0, sizeof *cell);
    cell->state = (uint8_t)state;
    cell->generation = ++cells->last_generation;
    return id;
}

void hri_cell_drop(hri_cells *cells, uint32_t id) {
    hri_cell *cell = hri_cell_at(cells, id);
    cell->state = HRI_CELL_UNUSED;
    cell->bin_next = cells->free_head;
    cells->free_head = id;
    cells->free_count++;
    cells->used_count--;
}

uint64_t hri_cell_handle(const hri_cells *cells, uint32_t id) {
    return (uint64_t)hri_cell_at(cells, id)->generation << 32 | id;
}

uint32_t hri_cell_of_handle(const hri_cells *cells, uint64_t handle) {
    const uint32_t id = (uint32_t)handle;
    if (id == 0 || id / HRI_CELL_CHUNK >= cells->chunk_count) {
        return 0;
    }
    const hri_cell *cell = hri_cell_at(cells, id);
    const int is_block = cell->state == HRI_CELL_LARGE || cell->state == HRI_CELL_SMALL;
    return is_block && cell->generation == (uint32_t)(handle >> 32) ? id : 0;
}

void hri_cells_deinit(hri_cells *cells) {
    for (uint32_t i = 0; i < cells->chunk_count; i++) {
        hri_free(cells->chunks[i]);
    }
    hri_free(cells->chunks);
    const uint32_t generation = cells->last_generation;
    memset(cells, 0, sizeof *cells);
    cells->last_generation = generation;
}

void hri_cells_shrink(hri_cells *cells) {
    if (cells->used_count == 0) {
        hri_cells_deinit(cells);
    }
}

uint32_t hri_cell_split(hri_cells *cells, uint32_t id, uint64_t units, uint64_t unit_bytes) {
    hri_cell *cell = hri_cell_at(cells, id);
    const uint32_t rest_id = hri_cell_new(cells, (hri_cell_state)cell->state);
    hri_cell *rest = hri_cell_at(cells, rest_id);
    rest->addr = cell->addr + units * unit_bytes;
    rest->units = cell->units - units;
    rest->parent = cell->parent;
    rest->epoch = cell->epoch;
    rest->below = id;
    rest->above = cell->above;
    if (cell->above) {
        hri_cell_at(cells, cell->above)->below = rest_id;
    }
    cell->above = rest_id;
    cell->units = units;
    return rest_id;
}

void hri_cell_join(hri_cells *cells, uint32_t id) {
    hri_cell *cell = hri_cell_at(cells, id);
    const uint32_t upper_id = cell->above;
    const hri_cell *upper = hri_cell_at(cells, upper_id);
    cell->units += upper->units;
    cell->above = upper->above;
    if (cell->above) {
        hri_cell_at(cells, cell->above)->below = id;
    }
    hri_cell_drop(cells, upper_id);
}
