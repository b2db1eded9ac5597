/* Columns and cells from all ops and buffers; see overview.h. */
#include "see/overview.h"

#include "base/alloc.h"

enum { COLUMNS = 512, ROWS = 96 };

/* Bytes times ops in each cell, by category: as differences along a row until they are summed up. */
typedef struct cells {
    double weight[HRI_SEE_CATEGORIES][ROWS][COLUMNS + 1];
} cells;

static void add_row(double *row, double from, double to, double bytes) {
    const size_t first = (size_t)from,
                 last = to > (double)first + 1 ? (size_t)(to + .999) : first + 1;
    const double share = last == first + 1 ? to - from : 1;
    row[first < COLUMNS ? first : COLUMNS - 1] += bytes * share;
    row[last < COLUMNS ? last : COLUMNS] -= bytes * share;
}

static void add_buffer(cells *c, const hri_see_buffer *b, double ops, double top) {
    const double low = (double)b->offset / top * ROWS,
                 high = (double)(b->offset + b->bytes) / top * ROWS;
    const double from = b->birth / ops * COLUMNS, to = b->death / ops * COLUMNS;
    for (size_t row = (size_t)low; row < ROWS && (double)row < high; row++) {
        const double begin = low > (double)row ? low : (double)row;
        const double end = high < (double)row + 1 ? high : (double)row + 1;
        add_row(c->weight[b->category][row], from, to, end - begin);
    }
}

static char cell_letter(double *const sums, const cells *c, size_t row, size_t column) {
    static const char full[] = "RPOIAGWU", half[] = "rpoiagwu";
    double all = 0;
    int best = 0;
    for (int k = 0; k < HRI_SEE_CATEGORIES; k++) {
        sums[k] += c->weight[k][row][column];
        all += sums[k];
        best = sums[k] > sums[best] ? k : best;
    }
    return all < .06 ? '.' : all < .5 ? half[best] : full[best];
}

static hr_status add_map(const hri_recording *r, hri_text *out) {
    const double ops = (double)r->tables[HRI_SEE_OPS].count, top = (double)r->head.arena_bytes;
    const hri_see_buffer *b = hri_recording_buffers(r);
    cells *c = hri_calloc(1, sizeof *c);
    if (!c) {
        return HR_E_NOMEM_HOST;
    }
    for (size_t i = 0; i < r->tables[HRI_SEE_BUFFERS].count; i++) {
        add_buffer(c, &b[i], ops, top);
    }
    hri_text_add(out, ",\"map\":[");
    for (size_t row = 0; row < ROWS; row++) {
        char line[COLUMNS + 1];
        double sums[HRI_SEE_CATEGORIES] = {0};
        for (size_t x = 0; x < COLUMNS; x++) {
            line[x] = cell_letter(sums, c, row, x);
        }
        line[COLUMNS] = '\0';
        hri_text_add(out, "%s\"%s\"", row ? "," : "", line);
    }
    hri_text_add(out, "]");
    hri_free(c);
    return HR_OK;
}

static size_t most_in(const uint64_t *live, size_t from, size_t to) {
    uint64_t most = 0;
    size_t best = from;
    for (size_t i = from; i < to; i++) {
        uint64_t sum = 0;
        for (size_t k = 0; k < HRI_SEE_CATEGORIES; k++) {
            sum += live[i * HRI_SEE_CATEGORIES + k];
        }
        best = sum > most ? i : best;
        most = sum > most ? sum : most;
    }
    return best;
}

static hr_status add_columns(const hri_recording *r, hri_text *out) {
    const size_t ops = r->tables[HRI_SEE_OPS].count;
    uint64_t *live;
    const hr_status status = hri_recording_live(r, &live);
    if (status != HR_OK) {
        return status;
    }
    hri_text_add(out, ",\"live\":[");
    for (size_t x = 0; x < COLUMNS; x++) {
        const size_t from = x * ops / COLUMNS, to = (x + 1) * ops / COLUMNS;
        const size_t at = most_in(live, from, to > from ? to : from + 1);
        hri_text_add(out, "%s[%llu", x ? "," : "", (unsigned long long)r->head.runtime_bytes);
        for (size_t k = 1; k < HRI_SEE_CATEGORIES; k++) {
            hri_text_add(out, ",%llu", (unsigned long long)live[at * HRI_SEE_CATEGORIES + k]);
        }
        hri_text_add(out, "]");
    }
    hri_text_add(out, "]");
    hri_free(live);
    return HR_OK;
}

hr_status hri_see_overview(const hri_recording *r, hri_text *out) {
    if (!r->tables[HRI_SEE_OPS].count || !r->head.arena_bytes) {
        return HR_OK;
    }
    hri_text_add(out, "{\"ops\":%zu,\"buffers\":%zu,\"arena\":%llu,\"budget\":%llu,\"peak\":%llu",
                 r->tables[HRI_SEE_OPS].count, r->tables[HRI_SEE_BUFFERS].count,
                 (unsigned long long)r->head.arena_bytes, (unsigned long long)r->head.budget_bytes,
                 (unsigned long long)r->head.peak_bytes);
    hr_status status = add_columns(r, out);
    if (status == HR_OK) {
        status = add_map(r, out);
    }
    hri_text_add(out, "}");
    return status == HR_OK ? hri_text_status(out) : status;
}
