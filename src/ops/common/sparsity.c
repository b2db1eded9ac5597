/* See sparsity.h. */
#include "ops/common/sparsity.h"

#include <math.h>
#include <string.h>

/* ---- when ---- */

int hri_sparsity_changes(const hri_sparsity *s, uint64_t t) {
    const int64_t at = (int64_t)t;
    return at >= s->begin && at <= s->end && ((at - s->begin) % s->every == 0 || at == s->end);
}

double hri_sparsity_at(const hri_sparsity *s, uint64_t t) {
    const int64_t at = (int64_t)t;
    if (at >= s->end) {
        return s->final;
    }
    const double p = at <= s->begin ? 0.0 : (double)(at - s->begin) / (double)(s->end - s->begin);
    const double rest = 1.0 - p;
    return s->final + (s->initial - s->final) * rest * rest * rest;
}

int64_t hri_sparsity_cut(int64_t n, double share) {
    const int64_t kept = (int64_t)floor((double)n * (1.0 - share) + 0.5);
    return n <= 0 ? 0 : n - (kept < 1 ? 1 : kept > n ? n : kept);
}

/* ---- which ---- */

enum { CHUNK = 16384, BINS = 2048 };

static const struct { uint32_t shift, bits; } rounds[] = {{20, 11}, {10, 10}, {0, 10}};

typedef struct selection {
    const float *w;
    uint64_t n;
    uint32_t *bins;   /* BINS a worker */
    uint32_t *before; /* a chunk: magnitudes equal to `top` in it, then before it */
    unsigned char *mask;
    uint32_t top, shift, bits; /* bits above shift + bits of what is counted are those of `top` */
    uint64_t ties;             /* of those equal to `top`, how many are pruned */
} selection;

static uint32_t magnitude(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffffu;
}

static void count_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const selection *s = arg;
    uint32_t *bins = s->bins + (size_t)worker * BINS;
    const uint32_t above = s->shift + s->bits, most = (1u << s->bits) - 1;
    for (uint64_t i = begin; i < end; i++) {
        const uint32_t m = magnitude(s->w[i]);
        if (m >> above == s->top >> above) {
            bins[m >> s->shift & most]++;
        }
    }
}

/* The magnitude of rank `cut` among all, and how many equal to it are pruned. */
static void find_top(selection *s, uint64_t cut, hri_threads *threads) {
    const uint32_t workers = hri_threads_count(threads);
    for (size_t r = 0; r < sizeof rounds / sizeof rounds[0]; r++) {
        uint64_t below = 0;
        uint32_t bin = 0;
        s->shift = rounds[r].shift;
        s->bits = rounds[r].bits;
        memset(s->bins, 0, (size_t)workers * BINS * sizeof *s->bins);
        hri_threads_range(threads, s->n, CHUNK, count_range, s);
        for (;; bin++) {
            uint64_t here = 0;
            for (uint32_t k = 0; k < workers; k++) {
                here += s->bins[(size_t)k * BINS + bin];
            }
            if (below + here > cut) {
                break;
            }
            below += here;
        }
        s->top |= bin << s->shift;
        cut -= below;
    }
    s->ties = cut;
}

static void tie_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const selection *s = arg;
    uint32_t ties = 0;
    (void)worker;
    for (uint64_t i = begin; i < end; i++) {
        ties += magnitude(s->w[i]) == s->top;
    }
    s->before[begin / CHUNK] = ties;
}

static void mask_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const selection *s = arg;
    uint64_t tie = s->before[begin / CHUNK];
    (void)worker;
    for (uint64_t i = begin; i < end; i += 8) {
        unsigned bits = 0xff;
        for (uint64_t k = 0; k < 8 && i + k < end; k++) {
            const uint32_t m = magnitude(s->w[i + k]);
            const int equal = m == s->top, cut = m < s->top || (equal && tie < s->ties);
            bits &= ~((unsigned)cut << k);
            tie += (uint64_t)equal;
        }
        s->mask[i / 8] = (unsigned char)bits;
    }
}

static uint64_t chunks_of(int64_t n) {
    return hri_chunk_count((uint64_t)n, CHUNK);
}

uint64_t hri_mask_workspace(int64_t n, uint32_t threads) {
    return ((uint64_t)(threads ? threads : 1) * BINS + chunks_of(n)) * sizeof(uint32_t);
}

void hri_mask_select(const float *w, int64_t n, int64_t cut, hri_threads *threads, void *workspace,
                     unsigned char *mask) {
    if (cut <= 0) {
        memset(mask, 0xff, (size_t)hri_mask_bytes(n));
        return;
    }
    const uint32_t workers = hri_threads_count(threads);
    selection s = {.w = w, .n = (uint64_t)n, .bins = workspace, .mask = mask};
    s.before = s.bins + (size_t)workers * BINS;
    find_top(&s, (uint64_t)cut, threads);
    hri_threads_range(threads, s.n, CHUNK, tie_range, &s);
    uint64_t sum = 0;
    for (uint64_t c = 0; c < chunks_of(n); c++) {
        const uint32_t here = s.before[c];
        s.before[c] = (uint32_t)(sum < s.ties ? sum : s.ties); /* more make no difference */
        sum += here;
    }
    hri_threads_range(threads, s.n, CHUNK, mask_range, &s);
}

void hri_mask_select_2_of_4(const float *w, int64_t n, int64_t inner, unsigned char *mask) {
    memset(mask, 0xff, (size_t)hri_mask_bytes(n));
    for (int64_t row = 0; row < n; row += 4 * inner) {
        for (int64_t col = row; col < row + inner; col++) {
            uint32_t m[4];
            for (int k = 0; k < 4; k++) {
                m[k] = magnitude(w[col + k * inner]);
            }
            for (int k = 0; k < 4; k++) {
                int larger = 0;
                for (int q = 0; q < 4; q++) {
                    larger += m[q] > m[k] || (m[q] == m[k] && q < k);
                }
                const int64_t i = col + k * inner;
                mask[i / 8] &= (unsigned char)(larger < 2 ? 0xff : ~(1u << (i % 8)));
            }
        }
    }
}
