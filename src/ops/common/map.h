/* Element-wise ops from one scalar expression.
 *
 *   HRI_MAP1(relu, hri_no_attr, a > 0 ? a : 0)         y = f(a)
 *   HRI_MAP2(add, hri_no_attr, a + b)                  y = f(a, b), broadcast
 *   HRI_MAP2_SAME(relu_grad, hri_no_attr, b > 0 ? a : 0)   the same of two of one shape (a third of the code, and of its compiling)
 *   HRI_MAP3(where, hri_no_attr, a != 0 ? b : c)       y = f(a, b, c), broadcast
 *
 * The expression is written over a, b, c of type T and p, the attributes.  T is float in kernels (bf16 and f16 are
 * converted at the edges) and double in the oracle; <tgmath.h> picks the functions, and constants are written (T)0.5.
 * The macro makes NAME_host for `.host` and NAME_scalar for `.scalar`; HRI_MAP1_SCALAR and HRI_MAP1_HOST make one of
 * the two, for ops that want a loop of its own for each value of an attribute (gelu.c).  Inputs may be overwritten in
 * place.  The text of the expression, for other back ends, is taken before <tgmath.h>'s macros change it. */
#ifndef HRI_OPS_COMMON_MAP_H
#define HRI_OPS_COMMON_MAP_H

#include <tgmath.h>

#include "graph/half.h"
#include "ops/common/walk.h"
#include "graph/op.h"

typedef struct hri_no_attr {
    char unused;
} hri_no_attr;

enum { HRI_MAP_CHUNK = 16384 }; /* elements a task */

#define HRI_SAME(X) (X)

/* Both functions of an expression: float and double. */
#define HRI_MAP_SCALARS(NAME, PARAMS_F, PARAMS_D, ...)                                             \
    __attribute__((always_inline)) static inline float NAME##_f32 PARAMS_F {                       \
        typedef float T __attribute__((unused));                                                   \
        (void)p;                                                                                   \
        return (T)(__VA_ARGS__);                                                                   \
    }                                                                                              \
    static inline double NAME##_f64 PARAMS_D {                                                     \
        typedef double T __attribute__((unused));                                                  \
        (void)p;                                                                                   \
        return (T)(__VA_ARGS__);                                                                   \
    }

/* BODY(NAME, stored type, load, store) for the stored type of a real value. */
#define HRI_MAP_BY_TYPE(TYPE, BODY, NAME)                                                          \
    switch (TYPE) {                                                                                \
    case HR_TYPE_F32:                                                                              \
        BODY(NAME, float, HRI_SAME, HRI_SAME)                                                      \
        break;                                                                                     \
    case HR_TYPE_BF16:                                                                             \
        BODY(NAME, hri_bf16, hri_from_bf16, hri_to_bf16)                                           \
        break;                                                                                     \
    case HR_TYPE_F16:                                                                              \
        BODY(NAME, hri_f16, hri_from_f16, hri_to_f16)                                              \
        break;                                                                                     \
    default:                                                                                       \
        break;                                                                                     \
    }

#define HRI_MAP1_RANGE(NAME, S, LOAD, STORE)                                                       \
    {                                                                                              \
        const S *x = c->in[0];                                                                     \
        S *y = c->out[0];                                                                          \
        _Pragma("GCC ivdep") for (uint64_t i = begin; i < end; i++) {                              \
            y[i] = STORE(NAME##_f32(LOAD(x[i]), p));                                               \
        }                                                                                          \
    }

#define HRI_MAP2_RANGE(NAME, S, LOAD, STORE)                                                       \
    {                                                                                              \
        const S *x = c->in[0], *z = c->in[1];                                                      \
        S *y = c->out[0];                                                                          \
        _Pragma("GCC ivdep") for (uint64_t i = begin; i < end; i++) {                              \
            y[i] = STORE(NAME##_f32(LOAD(x[i]), LOAD(z[i]), p));                                   \
        }                                                                                          \
    }

/* One row of a binary map: each input moves by one or stands still. */
#define HRI_MAP2_ROW(NAME, S, LOAD, STORE)                                                         \
    {                                                                                              \
        const S *x = (const S *)c->in[0] + at[0], *z = (const S *)c->in[1] + at[1];                \
        S *y = (S *)c->out[0] + i;                                                                 \
        if (step0 && step1) {                                                                      \
            _Pragma("GCC ivdep") for (int64_t k = 0; k < n; k++) {                                 \
                y[k] = STORE(NAME##_f32(LOAD(x[k]), LOAD(z[k]), p));                               \
            }                                                                                      \
        } else if (step0) {                                                                        \
            const float b = LOAD(z[0]);                                                            \
            _Pragma("GCC ivdep") for (int64_t k = 0; k < n; k++) {                                 \
                y[k] = STORE(NAME##_f32(LOAD(x[k]), b, p));                                        \
            }                                                                                      \
        } else if (step1) {                                                                        \
            const float a = LOAD(x[0]);                                                            \
            _Pragma("GCC ivdep") for (int64_t k = 0; k < n; k++) {                                 \
                y[k] = STORE(NAME##_f32(a, LOAD(z[k]), p));                                        \
            }                                                                                      \
        } else {                                                                                   \
            const S same = STORE(NAME##_f32(LOAD(x[0]), LOAD(z[0]), p));                           \
            for (int64_t k = 0; k < n; k++) {                                                      \
                y[k] = same;                                                                       \
            }                                                                                      \
        }                                                                                          \
    }

#define HRI_MAP1_SCALAR_AS(NAME, ATTR, TEXT, ...)                                                  \
    HRI_MAP_SCALARS(NAME, (float a, const ATTR *p), (double a, const ATTR *p), __VA_ARGS__)        \
    static double NAME##_scalar_f(const double *x, const void *attr) {                             \
        return NAME##_f64(x[0], attr);                                                             \
    }                                                                                              \
    static const hri_scalar NAME##_scalar = {1, NAME##_scalar_f, TEXT};

#define HRI_MAP1_SCALAR(NAME, ATTR, ...) HRI_MAP1_SCALAR_AS(NAME, ATTR, #__VA_ARGS__, __VA_ARGS__)

#define HRI_MAP_RANGE_HOST(NAME, ATTR, RANGE)                                                      \
    static void NAME##_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {           \
        const hri_call *c = arg;                                                                   \
        const ATTR *p = c->sig->attr;                                                              \
        (void)worker;                                                                              \
        HRI_MAP_BY_TYPE(c->sig->out[0].type, RANGE, NAME)                                          \
    }                                                                                              \
    static hr_status NAME##_host(const hri_call *c) {                                              \
        hri_call call = *c;                                                                        \
        hri_threads_range(c->threads, (uint64_t)hr_shape_count(&c->sig->out[0].shape),             \
                          HRI_MAP_CHUNK, NAME##_range, &call);                                     \
        return HR_OK;                                                                              \
    }

#define HRI_MAP1_HOST(NAME, ATTR)      HRI_MAP_RANGE_HOST(NAME, ATTR, HRI_MAP1_RANGE)
#define HRI_MAP2_SAME_HOST(NAME, ATTR) HRI_MAP_RANGE_HOST(NAME, ATTR, HRI_MAP2_RANGE)

#define HRI_MAP1(NAME, ATTR, ...)                                                                  \
    HRI_MAP1_SCALAR_AS(NAME, ATTR, #__VA_ARGS__, __VA_ARGS__)                                      \
    HRI_MAP1_HOST(NAME, ATTR)

/* Inputs of a binary map and of its walk travel together to the tasks. */
typedef struct hri_map_call {
    const hri_call *call;
    hri_walk walk;
} hri_map_call;

#define HRI_MAP2_SCALAR_AS(NAME, ATTR, TEXT, ...)                                                  \
    HRI_MAP_SCALARS(NAME, (float a, float b, const ATTR *p), (double a, double b, const ATTR *p),  \
                    __VA_ARGS__)                                                                   \
    static double NAME##_scalar_f(const double *x, const void *attr) {                             \
        return NAME##_f64(x[0], x[1], attr);                                                       \
    }                                                                                              \
    static const hri_scalar NAME##_scalar = {2, NAME##_scalar_f, TEXT};

#define HRI_MAP2_SCALAR(NAME, ATTR, ...) HRI_MAP2_SCALAR_AS(NAME, ATTR, #__VA_ARGS__, __VA_ARGS__)

#define HRI_MAP2_HOST(NAME, ATTR)                                                                  \
    static void NAME##_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {           \
        const hri_map_call *m = arg;                                                               \
        const hri_call *c = m->call;                                                               \
        const ATTR *p = c->sig->attr;                                                              \
        const int last = m->walk.rank - 1;                                                         \
        const int64_t step0 = m->walk.stride[0][last], step1 = m->walk.stride[1][last];            \
        (void)worker;                                                                              \
        for (int64_t i = (int64_t)begin; i < (int64_t)end;) {                                      \
            int64_t at[HRI_WALK_IN];                                                               \
            const int64_t left = hri_walk_at(&m->walk, i, at);                                     \
            const int64_t n = left < (int64_t)end - i ? left : (int64_t)end - i;                   \
            HRI_MAP_BY_TYPE(c->sig->out[0].type, HRI_MAP2_ROW, NAME)                               \
            i += n;                                                                                \
        }                                                                                          \
    }                                                                                              \
    static hr_status NAME##_host(const hri_call *c) {                                              \
        hri_map_call m = {.call = c};                                                              \
        hri_walk_init(&m.walk, &c->sig->out[0].shape, c->sig->in, 2);                              \
        hri_threads_range(c->threads, (uint64_t)m.walk.count, HRI_MAP_CHUNK, NAME##_range, &m);    \
        return HR_OK;                                                                              \
    }

#define HRI_MAP2(NAME, ATTR, ...)                                                                  \
    HRI_MAP2_SCALAR_AS(NAME, ATTR, #__VA_ARGS__, __VA_ARGS__)                                      \
    HRI_MAP2_HOST(NAME, ATTR)

#define HRI_MAP2_SAME(NAME, ATTR, ...)                                                             \
    HRI_MAP2_SCALAR_AS(NAME, ATTR, #__VA_ARGS__, __VA_ARGS__)                                      \
    HRI_MAP2_SAME_HOST(NAME, ATTR)

/* One row of a map of three: whole where all move, else each by its own step. */
#define HRI_MAP3_ROW(NAME, S, LOAD, STORE)                                                         \
    {                                                                                              \
        const S *x = (const S *)c->in[0] + at[0], *z = (const S *)c->in[1] + at[1];                \
        const S *u = (const S *)c->in[2] + at[2];                                                  \
        S *y = (S *)c->out[0] + i;                                                                 \
        if (step[0] && step[1] && step[2]) {                                                       \
            _Pragma("GCC ivdep") for (int64_t k = 0; k < n; k++) {                                 \
                y[k] = STORE(NAME##_f32(LOAD(x[k]), LOAD(z[k]), LOAD(u[k]), p));                   \
            }                                                                                      \
        } else {                                                                                   \
            _Pragma("GCC ivdep") for (int64_t k = 0; k < n; k++) {                                 \
                y[k] = STORE(NAME##_f32(LOAD(x[k * step[0]]), LOAD(z[k * step[1]]),                \
                                        LOAD(u[k * step[2]]), p));                                 \
            }                                                                                      \
        }                                                                                          \
    }

#define HRI_MAP3_AS(NAME, ATTR, TEXT, ...)                                                         \
    HRI_MAP_SCALARS(NAME, (float a, float b, float c, const ATTR *p),                              \
                    (double a, double b, double c, const ATTR *p), __VA_ARGS__)                    \
    static double NAME##_scalar_f(const double *x, const void *attr) {                             \
        return NAME##_f64(x[0], x[1], x[2], attr);                                                 \
    }                                                                                              \
    static const hri_scalar NAME##_scalar = {3, NAME##_scalar_f, TEXT};                            \
    static void NAME##_range(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {           \
        const hri_map_call *m = arg;                                                               \
        const hri_call *c = m->call;                                                               \
        const ATTR *p = c->sig->attr;                                                              \
        const int last = m->walk.rank - 1;                                                         \
        const int64_t step[3] = {m->walk.stride[0][last], m->walk.stride[1][last],                 \
                                 m->walk.stride[2][last]};                                         \
        (void)worker;                                                                              \
        for (int64_t i = (int64_t)begin; i < (int64_t)end;) {                                      \
            int64_t at[HRI_WALK_IN];                                                               \
            const int64_t left = hri_walk_at(&m->walk, i, at);                                     \
            const int64_t n = left < (int64_t)end - i ? left : (int64_t)end - i;                   \
            HRI_MAP_BY_TYPE(c->sig->out[0].type, HRI_MAP3_ROW, NAME)                               \
            i += n;                                                                                \
        }                                                                                          \
    }                                                                                              \
    static hr_status NAME##_host(const hri_call *c) {                                              \
        hri_map_call m = {.call = c};                                                              \
        hri_walk_init(&m.walk, &c->sig->out[0].shape, c->sig->in, 3);                              \
        hri_threads_range(c->threads, (uint64_t)m.walk.count, HRI_MAP_CHUNK, NAME##_range, &m);    \
        return HR_OK;                                                                              \
    }

#define HRI_MAP3(NAME, ATTR, ...) HRI_MAP3_AS(NAME, ATTR, #__VA_ARGS__, __VA_ARGS__)

#endif
