/* The innermost loops of conv_few.c for vectors of FEW_LANES floats.  It is included once for each width, with FEW(NAME), FEW_LANES,
 * FEW_TARGET and FEW_SUMS (how many sums fit into the registers) defined, so it has no guard.
 *
 * Sums of several pixels, or of several weights, stay in registers; each adds up in order, one multiply-add a step, so that neither
 * the number of sums in a block nor the width of the vectors changes a bit. */

typedef float FEW(vec) __attribute__((vector_size(4 * FEW_LANES), aligned(4), may_alias));

#define FEW_INLINE FEW_TARGET __attribute__((always_inline)) static inline

/* `P` pixels from `first` on, `V` vectors each. */
FEW_INLINE void FEW(pixels)(const hri_few_pixels *f, int64_t first, const int P, const int V) {
    FEW(vec) sum[16][4];
    const int64_t step = f->step, width = V * FEW_LANES;
#pragma GCC unroll 16
    for (int p = 0; p < P; p++) {
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) {
            sum[p][v] = (FEW(vec)){0};
        }
    }
    for (int64_t r = 0; r < f->taps; r++) {
        const float *x = f->x[r] + first * step, *w = f->w[r];
        for (int64_t k = 0; k < f->run; k++, w += width) {
            FEW(vec) with[4];
#pragma GCC unroll 4
            for (int v = 0; v < V; v++) {
                with[v] = *(const FEW(vec) *)(w + v * FEW_LANES);
            }
#pragma GCC unroll 16
            for (int p = 0; p < P; p++) {
                const float one = x[p * step + k];
#pragma GCC unroll 4
                for (int v = 0; v < V; v++) {
                    sum[p][v] += with[v] * one;
                }
            }
        }
    }
#pragma GCC unroll 16
    for (int p = 0; p < P; p++) {
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) {
            /* In order: what a pixel writes beyond its channels the next one writes over. */
            *(FEW(vec) *)(f->to + (first + p) * f->channels + v * FEW_LANES) =
                sum[p][v] + *(const FEW(vec) *)(f->bias + v * FEW_LANES);
        }
    }
}

/* Weights `first` .. `first + P - 1` of a run: what a line of pixels adds to them. */
FEW_INLINE void FEW(weights)(const hri_few_weights *f, int64_t first, const int P, const int V) {
    FEW(vec) sum[16][4];
    const int64_t width = V * FEW_LANES;
    const float *x = f->x + first, *dy = f->dy;
#pragma GCC unroll 16
    for (int p = 0; p < P; p++) {
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) {
            sum[p][v] = (FEW(vec)){0};
        }
    }
    for (int64_t i = 0; i < f->pixels; i++, x += f->step, dy += f->dy_step) {
        FEW(vec) with[4];
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) {
            with[v] = *(const FEW(vec) *)(dy + v * FEW_LANES);
        }
#pragma GCC unroll 16
        for (int p = 0; p < P; p++) {
            const float one = x[p];
#pragma GCC unroll 4
            for (int v = 0; v < V; v++) {
                sum[p][v] += with[v] * one;
            }
        }
    }
#pragma GCC unroll 16
    for (int p = 0; p < P; p++) {
#pragma GCC unroll 4
        for (int v = 0; v < V; v++) {
            *(FEW(vec) *)(f->to + (first + p) * width + v * FEW_LANES) += sum[p][v];
        }
    }
}

/* All of a row or of a run in blocks of about the same size; V is a constant where this is inlined. */
#define FEW_CASE(WHAT, P)                                                                          \
    case P:                                                                                        \
        if (P * V <= FEW_SUMS) {                                                                   \
            FEW(WHAT)(f, at, P, V);                                                                \
        }                                                                                          \
        break;
#define FEW_ALL(WHAT)                                                                              \
    FEW_INLINE void FEW(all_##WHAT)(const void *arg, int64_t count, const int V) {                 \
        const hri_few_##WHAT *f = arg;                                                             \
        const int64_t most = FEW_SUMS / V < 12 ? FEW_SUMS / V : 12;                                \
        const int64_t blocks = (count + most - 1) / most;                                          \
        for (int64_t at = 0, b = 0; b < blocks; b++) {                                             \
            const int64_t size = (count - at + blocks - b - 1) / (blocks - b);                     \
            switch (size) {                                                                        \
                FEW_CASE(WHAT, 1)                                                                  \
                FEW_CASE(WHAT, 2)                                                                  \
                FEW_CASE(WHAT, 3)                                                                  \
                FEW_CASE(WHAT, 4)                                                                  \
                FEW_CASE(WHAT, 5)                                                                  \
                FEW_CASE(WHAT, 6)                                                                  \
                FEW_CASE(WHAT, 7)                                                                  \
                FEW_CASE(WHAT, 8)                                                                  \
                FEW_CASE(WHAT, 9)                                                                  \
                FEW_CASE(WHAT, 10)                                                                 \
                FEW_CASE(WHAT, 11)                                                                 \
                FEW_CASE(WHAT, 12)                                                                 \
            }                                                                                      \
            at += size;                                                                            \
        }                                                                                          \
    }                                                                                              \
    FEW_TARGET static void FEW(run_##WHAT)(const void *f, int64_t count, int64_t vectors) {        \
        if (vectors == 1) {                                                                        \
            FEW(all_##WHAT)(f, count, 1);                                                          \
        } else if (vectors == 2) {                                                                 \
            FEW(all_##WHAT)(f, count, 2);                                                          \
        } else if (vectors == 3) {                                                                 \
            FEW(all_##WHAT)(f, count, 3);                                                          \
        } else {                                                                                   \
            FEW(all_##WHAT)(f, count, 4);                                                          \
        }                                                                                          \
    }

FEW_ALL(pixels)
FEW_ALL(weights)

#undef FEW_ALL
#undef FEW_CASE
#undef FEW_INLINE
#undef FEW_TARGET
#undef FEW_LANES
#undef FEW_SUMS
#undef FEW
