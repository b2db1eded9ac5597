/* Runs of stored values as f32, for kernels that are written once and fast in every type.
 *
 * f32 is used where it lies; bf16 and f16 pass through a small room on the stack.  So a kernel asks for a run, works
 * on floats, and hands the run back:
 *
 *   float room[2][HRI_BLOCK];
 *   const float *x = hri_block_in(type, data, at, n, room[0]);
 *   float *y = hri_block_out(type, to, at, room[1]);
 *   ...                                                   y may lie over x: element k is read before it is written
 *   hri_block_put(type, to, at, n, y);
 *
 * Sums over a run use fixed lanes, so their bits depend on the length alone. */
#ifndef HRI_OPS_COMMON_BLOCKS_H
#define HRI_OPS_COMMON_BLOCKS_H

#include "graph/half.h"
#include "graph/op.h"

enum { HRI_BLOCK = 256, HRI_LANES = 16 };

#define HRI_IVDEP _Pragma("GCC ivdep")

static inline const float *hri_block_in(hr_type type, const void *data, int64_t at, int64_t n,
                                        float *room) {
    if (type == HR_TYPE_F32) {
        return (const float *)data + at;
    }
    if (type == HR_TYPE_BF16) {
        const hri_bf16 *from = (const hri_bf16 *)data + at;
        for (int64_t k = 0; k < n; k++) {
            room[k] = hri_from_bf16(from[k]);
        }
    } else {
        const hri_f16 *from = (const hri_f16 *)data + at;
        for (int64_t k = 0; k < n; k++) {
            room[k] = hri_from_f16(from[k]);
        }
    }
    return room;
}

static inline float *hri_block_out(hr_type type, void *data, int64_t at, float *room) {
    return type == HR_TYPE_F32 ? (float *)data + at : room;
}

static inline void hri_block_put(hr_type type, void *data, int64_t at, int64_t n,
                                 const float *from) {
    if (type == HR_TYPE_BF16) {
        hri_bf16 *to = (hri_bf16 *)data + at;
        for (int64_t k = 0; k < n; k++) {
            to[k] = hri_to_bf16(from[k]);
        }
    } else if (type == HR_TYPE_F16) {
        hri_f16 *to = (hri_f16 *)data + at;
        for (int64_t k = 0; k < n; k++) {
            to[k] = hri_to_f16(from[k]);
        }
    }
}

/* One element. */
static inline float hri_real_at(hr_type type, const void *data, int64_t i) {
    return type == HR_TYPE_F32    ? ((const float *)data)[i]
           : type == HR_TYPE_BF16 ? hri_from_bf16(((const hri_bf16 *)data)[i])
                                  : hri_from_f16(((const hri_f16 *)data)[i]);
}

static inline void hri_real_put(hr_type type, void *data, int64_t i, float x) {
    if (type == HR_TYPE_F32) {
        ((float *)data)[i] = x;
    } else {
        hri_block_put(type, data, i, 1, &x);
    }
}

/* As many floats as the processor adds at once, loaded from anywhere. */
#if defined(__AVX512F__)
enum { HRI_VEC = 16 };
#elif defined(__AVX__)
enum { HRI_VEC = 8 };
#else
enum { HRI_VEC = 4 };
#endif
typedef float hri_vec __attribute__((vector_size(HRI_VEC * 4)));
typedef int32_t hri_vec_bits __attribute__((vector_size(HRI_VEC * 4)));

static inline hri_vec hri_vec_load(const float *p) {
    hri_vec v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline hri_vec hri_vec_pick(hri_vec_bits mask, hri_vec yes, hri_vec no) {
    return (hri_vec)(((hri_vec_bits)yes & mask) | ((hri_vec_bits)no & ~mask));
}

/* The sum of the lanes, by halves.  In vectors by hand: in a loop every half would go through memory. */
static inline float hri_lanes_sum(const float *lanes) {
    typedef float v4 __attribute__((vector_size(16)));
    v4 x[HRI_LANES / 4];
    memcpy(x, lanes, sizeof x);
    const v4 quarter = (x[0] + x[2]) + (x[1] + x[3]);
    return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

/* Element i is added to lane i % HRI_LANES.  In vectors by hand: compilers unroll lanes before they see them. */
static inline void hri_lanes_add(float *lanes, const float *x, int64_t n) {
    hri_vec sum[HRI_LANES / HRI_VEC];
    int64_t i = 0;
    memcpy(sum, lanes, sizeof sum);
    for (; i + HRI_LANES <= n; i += HRI_LANES) {
        for (int v = 0; v < HRI_LANES / HRI_VEC; v++) {
            sum[v] += hri_vec_load(x + i + HRI_VEC * v);
        }
    }
    memcpy(lanes, sum, sizeof sum);
    for (; i < n; i++) {
        lanes[i % HRI_LANES] += x[i];
    }
}

/* Adds EXPRESSION of element k, for k of 0 .. N-1, to LANES; N is HRI_BLOCK at most. */
#define HRI_LANES_ADD(LANES, N, EXPRESSION)                                                        \
    do {                                                                                           \
        float lanes_each[HRI_BLOCK];                                                               \
        for (int64_t k = 0; k < (N); k++) {                                                        \
            lanes_each[k] = (EXPRESSION);                                                          \
        }                                                                                          \
        hri_lanes_add((LANES), lanes_each, (N));                                                   \
    } while (0)

/* The largest of n numbers and `most`; NaN is passed over. */
static inline float hri_block_max(const float *x, int64_t n, float most) {
    enum { N = 16 / HRI_VEC };
    hri_vec top[N] = {{0}};
    int64_t i = 0;
    for (int v = 0; v < N; v++) {
        top[v] += most;
    }
    for (; i + 16 <= n; i += 16) {
        for (int v = 0; v < N; v++) {
            const hri_vec y = hri_vec_load(x + i + HRI_VEC * v);
            top[v] = hri_vec_pick(y > top[v], y, top[v]);
        }
    }
    for (int v = 0; v < 16; v++) {
        most = top[v / HRI_VEC][v % HRI_VEC] > most ? top[v / HRI_VEC][v % HRI_VEC] : most;
    }
    for (; i < n; i++) {
        most = x[i] > most ? x[i] : most;
    }
    return most;
}

static inline int64_t hri_min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t hri_max64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* A per-channel vector: any real type, (C). */
static inline int hri_is_vector(const hr_meta *m, int64_t n) {
    return hr_type_is_real(m->type) && m->shape.rank == 1 && m->shape.dim[0] == n;
}

#endif
