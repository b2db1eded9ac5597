/* Runs and tiles; see strided.h. */
#include "ops/common/strided.h"

#include <string.h>

enum { RUN = 16384, TILE = 32 };

typedef struct task {
    hri_strided box;
    int dense;      /* tiles: the dimension along which the source is dense */
    int64_t across; /* pieces of the last dimension: runs or tiles */
    int64_t along;  /* tiles: pieces of the dense dimension */
} task;

void hri_strided_simplify(hri_strided *b) {
    int rank = 0;
    for (int d = 0; d < b->rank; d++) {
        if (b->dim[d] == 1) {
            continue;
        }
        const int last = rank - 1;
        if (rank && b->from[last] == b->from[d] * b->dim[d] &&
            b->to[last] == b->to[d] * b->dim[d]) {
            b->dim[last] *= b->dim[d];
            b->from[last] = b->from[d];
            b->to[last] = b->to[d];
        } else {
            b->dim[rank] = b->dim[d];
            b->from[rank] = b->from[d];
            b->to[rank++] = b->to[d];
        }
    }
    if (!rank) {
        b->dim[0] = b->from[0] = b->to[0] = 1;
        rank = 1;
    }
    b->rank = rank;
}

/* Offsets of outer index `i`, over all dimensions but the last and `skip`. */
static void outer_offsets(const hri_strided *b, int skip, int64_t i, int64_t *from, int64_t *to) {
    *from = *to = 0;
    for (int d = b->rank - 2; d >= 0; d--) {
        if (d != skip) {
            const int64_t at = i % b->dim[d];
            i /= b->dim[d];
            *from += at * b->from[d];
            *to += at * b->to[d];
        }
    }
}

static void copy_runs(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    const hri_strided *b = &t->box;
    const int64_t width = b->dim[b->rank - 1];
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        int64_t from, to;
        const int64_t first = i % t->across * RUN;
        outer_offsets(b, -1, i / t->across, &from, &to);
        memcpy((char *)b->out + (size_t)(to + first) * b->bytes,
               (const char *)b->in + (size_t)(from + first) * b->bytes,
               (size_t)(width - first < RUN ? width - first : RUN) * b->bytes);
    }
}

/* One tile: `rows` along the dense dimension of the source, `columns` along the last one. */
#define TURN(S)                                                                                    \
    {                                                                                              \
        const S *x = (const S *)b->in + from;                                                      \
        S *y = (S *)b->out + to;                                                                   \
        for (int64_t r = 0; r < rows; r++) {                                                       \
            for (int64_t k = 0; k < columns; k++) {                                                \
                y[r * row_to + k * column_to] = x[r * row_from + k * column_from];                 \
            }                                                                                      \
        }                                                                                          \
    }

static void turn_tiles(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    const hri_strided *b = &t->box;
    const int last = b->rank - 1, dense = t->dense;
    const int64_t column_from = b->from[last], column_to = b->to[last];
    const int64_t row_from = dense < 0 ? 0 : b->from[dense], row_to = dense < 0 ? 0 : b->to[dense];
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        int64_t from, to;
        const int64_t column = i % t->across * TILE, row = i / t->across % t->along * TILE;
        const int64_t height = dense < 0 ? 1 : b->dim[dense];
        const int64_t rows = height - row < TILE ? height - row : TILE;
        const int64_t columns = b->dim[last] - column < TILE ? b->dim[last] - column : TILE;
        outer_offsets(b, dense, i / t->across / t->along, &from, &to);
        from += row * row_from + column * column_from;
        to += row * row_to + column * column_to;
        switch (b->bytes) {
        case 1:
            TURN(uint8_t)
            break;
        case 2:
            TURN(uint16_t)
            break;
        case 4:
            TURN(uint32_t)
            break;
        default:
            TURN(uint64_t)
        }
    }
}

void hri_strided_copy(const hri_strided *box, hri_threads *threads) {
    task t = {.box = *box, .dense = -1, .along = 1};
    hri_strided *b = &t.box;
    int64_t outer = 1;
    for (int d = 0; d < b->rank; d++) {
        if (b->dim[d] == 0) {
            return;
        }
    }
    hri_strided_simplify(b);
    const int last = b->rank - 1;
    const int runs = b->from[last] == 1 && b->to[last] == 1;
    for (int d = 0; d < last; d++) {
        t.dense = !runs && b->from[d] == 1 ? d : t.dense;
    }
    for (int d = 0; d < last; d++) {
        outer *= d == t.dense ? 1 : b->dim[d];
    }
    const int64_t piece = runs ? RUN : TILE;
    t.across = (b->dim[last] + piece - 1) / piece;
    t.along = t.dense < 0 ? 1 : (b->dim[t.dense] + TILE - 1) / TILE;
    const int64_t width = b->dim[last] < piece ? b->dim[last] : piece;
    const int64_t chunk = RUN / (width * (t.dense < 0 ? 1 : TILE)) + 1;
    hri_threads_range(threads, (uint64_t)(outer * t.across * t.along), (uint64_t)chunk,
                      runs ? copy_runs : turn_tiles, &t);
}
