/* The sums of reduce.h. */
#include "ops/common/reduce.h"

#include <string.h>

#include "ops/common/blocks.h"

enum { BLOCK_ROWS = 64, TILE = 64, PART_ROWS = 512, PARTS_MAX = 64 };

void hri_reduction_init(hri_reduction *r, const hr_shape *in, uint32_t axes) {
    *r = (hri_reduction){.results = 1};
    for (int d = 0; d < in->rank; d++) {
        const uint8_t sum = axes >> d & 1u;
        if (in->dim[d] == 1) {
            continue;
        }
        r->results *= sum ? 1 : in->dim[d];
        if (r->rank && r->sum[r->rank - 1] == sum) {
            r->dim[r->rank - 1] *= in->dim[d];
        } else {
            r->sum[r->rank] = sum;
            r->dim[r->rank++] = in->dim[d];
        }
    }
    const int first = r->rank && !r->sum[0]; /* 1: the first kept dimension is K1 */
    if (r->rank - first > 2) {
        return;
    }
    r->outer = first && r->rank > 1 ? r->dim[0] : 1;
    r->middle = r->rank > first ? r->dim[first] : 1;
    r->inner = r->rank > first + 1 ? r->dim[first + 1] : 1;
    if (first && r->rank == 1) { /* nothing is summed */
        r->outer = r->dim[0];
    }
    r->parts = 1;
    if (r->outer < PARTS_MAX && r->middle > PART_ROWS) {
        r->parts = (r->middle + PART_ROWS - 1) / PART_ROWS;
        r->parts = r->parts > PARTS_MAX ? PARTS_MAX : r->parts;
    }
    r->part_rows = (r->middle + r->parts - 1) / r->parts;
}

/* Sums of f32 in one part go straight to their place. */
static int direct(const hri_reduction *r, hr_type type) {
    return r->parts == 1 && type == HR_TYPE_F32;
}

uint64_t hri_reduction_workspace(const hri_reduction *r, hr_type type) {
    return r->outer && !direct(r, type) ? (uint64_t)(r->outer * r->parts * r->inner) * sizeof(float)
                                        : 0;
}

typedef struct task {
    const hri_reduction *r;
    hr_type type;
    const void *in;
    void *out;
    float scale;
    float *partial; /* (outer, parts, inner) */
} task;

/* acc[0..width) += the column sums of `rows` rows; at most BLOCK_ROWS of them. */
static void add_rows(const task *t, int64_t at, int64_t rows, int64_t width, float *acc) {
    const int64_t stride = t->r->inner;
    float sum[TILE] = {0};
    for (int64_t i = 0; i < rows; i++, at += stride) {
        if (t->type == HR_TYPE_F32) {
            const float *x = (const float *)t->in + at;
            for (int64_t k = 0; k < width; k++) {
                sum[k] += x[k];
            }
        } else {
            for (int64_t k = 0; k < width; k++) {
                sum[k] += hri_real_at(t->type, t->in, at + k);
            }
        }
    }
    for (int64_t k = 0; k < width; k++) {
        acc[k] += sum[k];
    }
}

/* The sum of n neighbours. */
static float add_run(const task *t, int64_t at, int64_t n) {
    float lanes[16] = {0}, total = 0.0f;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        if (t->type == HR_TYPE_F32) {
            const float *x = (const float *)t->in + at + i;
            for (int k = 0; k < 16; k++) {
                lanes[k] += x[k];
            }
        } else {
            for (int k = 0; k < 16; k++) {
                lanes[k] += hri_real_at(t->type, t->in, at + i + k);
            }
        }
    }
    for (; i < n; i++) {
        lanes[i % 16] += hri_real_at(t->type, t->in, at + i);
    }
    for (int half = 8; half > 0; half /= 2) {
        for (int k = 0; k < half; k++) {
            lanes[k] += lanes[k + half];
        }
    }
    total += lanes[0];
    return total;
}

/* One part of one outer index. */
static void sum_part(const task *t, int64_t number) {
    const hri_reduction *r = t->r;
    const int64_t outer = number / r->parts, part = number % r->parts;
    const int64_t begin = part * r->part_rows;
    const int64_t end = begin + r->part_rows < r->middle ? begin + r->part_rows : r->middle;
    float *acc = t->partial + number * r->inner;
    const int64_t base = outer * r->middle;
    if (r->inner == 0) { /* no results: there may be no memory either */
        return;
    }
    memset(acc, 0, (size_t)r->inner * sizeof *acc);
    if (r->inner == 1) {
        for (int64_t i = begin; i < end; i += 4096) {
            acc[0] += add_run(t, base + i, end - i < 4096 ? end - i : 4096);
        }
        return;
    }
    for (int64_t column = 0; column < r->inner; column += TILE) {
        const int64_t width = r->inner - column < TILE ? r->inner - column : TILE;
        for (int64_t i = begin; i < end; i += BLOCK_ROWS) {
            add_rows(t, (base + i) * r->inner + column, end - i < BLOCK_ROWS ? end - i : BLOCK_ROWS,
                     width, acc + column);
        }
    }
}

static void sum_parts(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    (void)worker;
    for (uint64_t i = begin; i < end; i++) {
        sum_part(arg, (int64_t)i);
    }
}

/* Range: results from the parts. */
static void add_parts(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    const hri_reduction *r = t->r;
    (void)worker;
    for (int64_t i = (int64_t)begin; i < (int64_t)end; i++) {
        const int64_t outer = i / r->inner, inner = i % r->inner;
        float sum = 0.0f;
        for (int64_t p = 0; p < r->parts; p++) {
            sum += t->partial[(outer * r->parts + p) * r->inner + inner];
        }
        hri_real_put(t->type, t->out, i, sum * t->scale);
    }
}

/* Range, general patterns: each result walks all that it sums. */
static void sum_general(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const task *t = arg;
    const hri_reduction *r = t->r;
    (void)worker;
    for (uint64_t i = begin; i < end; i++) {
        int64_t stride = 1, base = 0, count = 1, kept = (int64_t)i;
        for (int d = r->rank - 1; d >= 0; d--) {
            if (r->sum[d]) {
                count *= r->dim[d];
            } else {
                base += kept % r->dim[d] * stride;
                kept /= r->dim[d];
            }
            stride *= r->dim[d];
        }
        double sum = 0.0;
        for (int64_t k = 0; k < count; k++) {
            int64_t at = base, rest = k;
            stride = 1;
            for (int d = r->rank - 1; d >= 0; d--) {
                if (r->sum[d]) {
                    at += rest % r->dim[d] * stride;
                    rest /= r->dim[d];
                }
                stride *= r->dim[d];
            }
            sum += (double)hri_real_at(t->type, t->in, at);
        }
        hri_real_put(t->type, t->out, (int64_t)i, (float)sum * t->scale);
    }
}

void hri_reduction_sum(const hri_reduction *r, hri_threads *threads, hr_type type, const void *in,
                       void *out, float scale, void *workspace) {
    if (r->results == 0) { /* there may be no memory to point to */
        return;
    }
    task t = {r, type, in, out, scale, direct(r, type) ? out : workspace};
    if (!r->outer) {
        hri_threads_range(threads, (uint64_t)r->results, 16, sum_general, &t);
        return;
    }
    const int64_t chunk = 16384 / (r->part_rows * r->inner + 1) + 1;
    hri_threads_range(threads, (uint64_t)(r->outer * r->parts), (uint64_t)chunk, sum_parts, &t);
    if (!direct(r, type) || scale != 1.0f) {
        hri_threads_range(threads, (uint64_t)r->results, 4096, add_parts, &t);
    }
}
