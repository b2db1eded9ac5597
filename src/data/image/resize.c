/* Resizing: see resize.h.  Rows are added up first (by resize_lanes.h), then the one
 * row of sums is added up in columns.  Columns of up to four weights all have four, the last of them
 * 0 where a window is shorter: no loop is worth more than the products that it saves. */
#include "data/image/resize.h"

#include <math.h>
#include <string.h>
#include "data/image/resize_lanes.h"

enum { ONE_BITS = 14, ONE = 1 << ONE_BITS, FOUR = 4 };

/* The most source pixels that an output pixel is made of. */
static uint32_t most_taps(double scale) {
    return (uint32_t)ceil(scale) + 2;
}

/* The window of an output pixel whose extent in the source is [from, to); its weights go to w. */
static hri_resize_window make_window(double from, double to, uint32_t size, hri_filter filter,
                                     uint16_t *w) {
    const double centre = (from + to) / 2;
    hri_resize_window out = {0};
    double exact[3] = {0};
    if (filter == HRI_FILTER_NEAREST) {
        const double p = floor(centre);
        out.first = p < 0 ? 0 : p >= size ? size - 1 : (uint32_t)p;
        out.count = 1;
        w[0] = ONE;
        return out;
    }
    if (filter == HRI_FILTER_BILINEAR) {
        const double p = centre - 0.5;
        const double base = floor(p), part = p - base;
        const double last = (double)size - 1;
        const double a = base < 0 ? 0 : base > last ? last : base;
        const double b = base + 1 < 0 ? 0 : base + 1 > last ? last : base + 1;
        out.first = (uint32_t)a;
        out.count = b > a ? 2 : 1;
        exact[1] = out.count == 2 ? part : 0;
        w[1] = (uint16_t)lrint(exact[1] * ONE);
        w[0] = (uint16_t)(ONE - w[1]);
        return out;
    }
    from = from < 0 ? 0 : from;
    to = to > size ? size : to;
    out.first = from >= size ? size - 1 : (uint32_t)from;
    const double end = ceil(to);
    out.count = end > out.first + 1.0 ? (uint32_t)end - out.first : 1;
    /* The running sum is rounded, not each weight: so they add up. */
    uint32_t before = 0;
    for (uint32_t i = 0; i < out.count; i++) {
        const double right = out.first + i + 1.0 < to ? out.first + i + 1.0 : to;
        const double share = to > from ? (right - from) / (to - from) : 1;
        const uint32_t sum = i + 1 == out.count ? ONE : (uint32_t)lrint(share * ONE);
        w[i] = (uint16_t)(sum - before);
        before = sum;
    }
    return out;
}

static hri_filter settle(hri_filter filter, double scale) {
    if (filter == HRI_FILTER_AUTO) {
        return scale > 1 ? HRI_FILTER_AREA : HRI_FILTER_BILINEAR;
    }
    /* An area smaller than a pixel is a blend of neighbours, which is what bilinear means. */
    return filter == HRI_FILTER_AREA && scale < 1 ? HRI_FILTER_BILINEAR : filter;
}

static uint64_t align(uint64_t bytes) {
    return (bytes + 63) / 64 * 64;
}

typedef struct layout {
    uint64_t columns, rows, weights, sums, ring, all;
    uint32_t column_taps, row_taps;
} layout;

static layout lay_out(double x_scale, double y_scale, uint32_t in_width, uint32_t out_width,
                      uint32_t out_height, uint32_t channels) {
    const uint32_t columns = most_taps(x_scale);
    layout l = {.column_taps = columns > FOUR ? columns : FOUR, .row_taps = most_taps(y_scale)};
    l.columns = 0;
    l.rows = align(l.columns + (uint64_t)out_width * sizeof(hri_resize_window));
    l.weights = align(l.rows + (uint64_t)out_height * sizeof(hri_resize_window));
    const uint64_t weights =
        (uint64_t)out_width * l.column_taps + (uint64_t)out_height * l.row_taps;
    l.sums = align(l.weights + weights * sizeof(uint16_t));
    const uint64_t behind = HRI_LANES + (uint64_t)(l.column_taps + 1) * channels;
    l.ring = align(l.sums + ((uint64_t)in_width * channels + behind) * sizeof(uint16_t));
    l.all = align(l.ring + (uint64_t)l.row_taps * align((uint64_t)in_width * channels + 64));
    return l;
}

uint64_t hri_resizer_bytes(uint32_t in_width, uint32_t in_height, uint32_t out_width,
                           uint32_t out_height) {
    const double x = out_width ? (double)in_width / out_width : 1;
    const double y = out_height ? (double)in_height / out_height : 1;
    return lay_out(x, y, in_width, out_width, out_height, 4).all;
}

hr_status hri_resizer_init(hri_resizer *r, hri_memory *memory, double x, double y, double width,
                           double height, uint32_t in_width, uint32_t in_height, uint32_t out_width,
                           uint32_t out_height, uint32_t channels, hri_filter filter, bool flip,
                           uint8_t *out) {
    const double x_scale = width / out_width, y_scale = height / out_height;
    const layout l = lay_out(x_scale, y_scale, in_width, out_width, out_height, channels);
    hri_buffer *buffer;
    const hr_status status = hri_memory_buffer(memory, l.all, &buffer);
    if (status != HR_OK) {
        return status;
    }
    char *base = buffer->data;
    *r = (hri_resizer){.memory = buffer,
                       .columns = (hri_resize_window *)(void *)(base + l.columns),
                       .rows = (hri_resize_window *)(void *)(base + l.rows),
                       .weights = (uint16_t *)(void *)(base + l.weights),
                       .sums = (uint16_t *)(void *)(base + l.sums),
                       .ring = (uint8_t *)(base + l.ring),
                       .out = out,
                       .in_width = in_width,
                       .in_height = in_height,
                       .out_width = out_width,
                       .out_height = out_height,
                       .channels = channels,
                       .ring_rows = l.row_taps,
                       .flip = flip};
    memset(base + l.weights, 0, l.sums - l.weights);
    uint32_t used = 0;
    for (uint32_t i = 0; i < out_width; i++) {
        r->columns[i] = make_window(x + i * x_scale, x + (i + 1) * x_scale, in_width,
                                    settle(filter, x_scale), r->weights + used);
        r->columns[i].weights = used;
        r->column_taps =
            r->columns[i].count > r->column_taps ? r->columns[i].count : r->column_taps;
        used += l.column_taps;
    }
    for (uint32_t i = 0; i < out_height; i++) {
        r->rows[i] = make_window(y + i * y_scale, y + (i + 1) * y_scale, in_height,
                                 settle(filter, y_scale), r->weights + used);
        r->rows[i].weights = used;
        used += l.row_taps;
    }
    return HR_OK;
}

void hri_resizer_deinit(hri_resizer *r) {
    hri_buffer_unref(r->memory);
    r->memory = NULL;
}

static uint64_t row_bytes(const hri_resizer *r) {
    return align((uint64_t)r->in_width * r->channels + 64);
}

static uint8_t *ring_row(const hri_resizer *r, uint32_t row) {
    return r->ring + (row % r->ring_rows) * row_bytes(r);
}

uint8_t *hri_resizer_row(hri_resizer *r) {
    return ring_row(r, r->in_row);
}

/* Written out for the usual counts: the loop over them is then gone. */
static inline void add_rows_of(hri_resizer *r, const hri_ring *ring, const uint16_t *weights,
                               uint32_t count) {
    const uint64_t n = (uint64_t)r->in_width * r->channels;
    for (uint64_t i = 0; i < n; i += HRI_LANES) {
        hri_lanes_rows(r->sums + i, ring, i, weights, count);
    }
}

static void add_rows(hri_resizer *r, const hri_resize_window *w) {
    const uint16_t *weights = r->weights + w->weights;
    const hri_ring ring = {.first = ring_row(r, w->first),
                           .start = r->ring,
                           .end = r->ring + r->ring_rows * row_bytes(r),
                           .row_bytes = row_bytes(r)};
    switch (w->count) {
    case 2:
        add_rows_of(r, &ring, weights, 2);
        break;
    case 3:
        add_rows_of(r, &ring, weights, 3);
        break;
    default:
        add_rows_of(r, &ring, weights, w->count);
        break;
    }
}

/* Of columns with any number of weights. */
static void put_many(const hri_resizer *r, uint8_t *to) {
    for (uint32_t i = 0; i < r->out_width; i++) {
        const hri_resize_window *w = &r->columns[i];
        hri_lanes_pixel(to + 3 * (uint64_t)(r->flip ? r->out_width - 1 - i : i),
                        r->sums + 3 * (uint64_t)w->first, r->weights + w->weights, w->count);
    }
}

/* Of columns with at most four: a pixel is written as four bytes, the last of which are the next one's. */
static void put_fours(const hri_resizer *r, uint8_t *to) {
    const uint16_t *sums = r->sums, *weights = r->weights;
    const hri_resize_window *w = r->flip ? r->columns + r->out_width - 1 : r->columns;
    const int64_t step = r->flip ? -1 : 1;
    uint32_t bytes;
    for (uint32_t i = 1; i < r->out_width; i++, w += step, to += 3) {
        bytes = hri_lanes_four(sums + 3 * (uint64_t)w->first, weights + w->weights);
        memcpy(to, &bytes, 4);
    }
    bytes = hri_lanes_four(sums + 3 * (uint64_t)w->first, weights + w->weights);
    memcpy(to, &bytes, 3);
}

static void put_plain(const hri_resizer *r, uint8_t *to) {
    for (uint32_t i = 0; i < r->out_width; i++) {
        const hri_resize_window *w = &r->columns[i];
        const uint16_t *weights = r->weights + w->weights;
        uint8_t *pixel = to + (r->flip ? r->out_width - 1 - i : i) * r->channels;
        for (uint32_t c = 0; c < r->channels; c++) {
            uint32_t sum = 1u << (ONE_BITS + 7);
            for (uint32_t k = 0; k < w->count; k++) {
                sum += (uint32_t)weights[k] * r->sums[(w->first + k) * (size_t)r->channels + c];
            }
            pixel[c] = (uint8_t)(sum >> (ONE_BITS + 8));
        }
    }
}

static void put_out_row(const hri_resizer *r, uint8_t *to) {
    if (r->channels != 3) {
        put_plain(r, to);
    } else if (r->column_taps <= FOUR) {
        put_fours(r, to);
    } else {
        put_many(r, to);
    }
}

void hri_resizer_done_row(hri_resizer *r) {
    r->in_row++;
    while (r->out_row < r->out_height) {
        const hri_resize_window *w = &r->rows[r->out_row];
        if (w->first + w->count > r->in_row) {
            return;
        }
        add_rows(r, w);
        put_out_row(r, r->out + (uint64_t)r->out_row * r->out_width * r->channels);
        r->out_row++;
    }
}

bool hri_resizer_is_finished(const hri_resizer *r) {
    return r->out_row == r->out_height;
}
