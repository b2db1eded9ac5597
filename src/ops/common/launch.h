/* What the `cuda` functions of ops share: names of types in kernel texts, counts of blocks, alignment.
 *
 * A kernel is chosen by macros: hri_launch_defines(&d, "-DHR_T=%s", ...) writes them (headers of the compiler
 * have a T of their own, hence HR_).  Sizes of grids depend on shapes
 * alone, never on the number of multiprocessors, so that sums have the same bits on every GPU. */
#ifndef HRI_OPS_COMMON_LAUNCH_H
#define HRI_OPS_COMMON_LAUNCH_H

#include <stdarg.h>
#include <stdio.h>

#include "base/number.h"
#include "graph/op.h"

/* The type in prelude.cuh. */
static inline const char *hri_launch_type(hr_type type) {
    static const char *const names[HR_TYPE_COUNT] = {
        [HR_TYPE_F32] = "float",  [HR_TYPE_BF16] = "hr_bf16", [HR_TYPE_F16] = "hr_f16",
        [HR_TYPE_I32] = "hr_i32", [HR_TYPE_I64] = "hr_i64",   [HR_TYPE_U8] = "hr_u8",
        [HR_TYPE_I8] = "hr_i8",
    };
    return names[type];
}

typedef struct hri_defines {
    char text[160];
} hri_defines;

__attribute__((format(printf, 1, 2))) static inline hri_defines
hri_launch_defines(const char *format, ...) {
    hri_defines d;
    va_list args;
    va_start(args, format);
    hri_vsnprintf(d.text, sizeof d.text, format, args);
    va_end(args);
    return d;
}

/* For one stored type and so many elements an access. */
static inline hri_defines hri_launch_t(hr_type type, int width) {
    return hri_launch_defines("-DHR_T=%s -DHR_V=%d", hri_launch_type(type), width);
}

static inline int64_t hri_launch_up(int64_t n, int64_t each) {
    return n / each + (n % each != 0);
}

/* Blocks for n things, `each` of them to a block. */
static inline uint32_t hri_launch_blocks(int64_t n, int64_t each) {
    return (uint32_t)hri_launch_up(n, each);
}

/* The most elements up to 16 bytes that divide n. */
static inline int hri_launch_width(hr_type type, int64_t n) {
    int width = (int)(16 / hr_type_bytes(type));
    while (n % width) {
        width /= 2;
    }
    return width;
}

/* The least power of two, as an exponent, from n or `most` on: how many threads lie side by side. */
static inline uint32_t hri_launch_across(int64_t n, int64_t most) {
    uint32_t across = 0;
    while ((1 << across) < most && (1 << across) < n) {
        across++;
    }
    return across;
}

/* Whether 16-byte accesses are possible there; tensors of a plan always allow them. */
static inline int hri_launch_wide(hr_addr at) {
    return (at & 15) == 0;
}

/* Whether two ranges of memory have no byte in common. */
static inline int hri_launch_apart(hr_addr a, uint64_t a_bytes, hr_addr b, uint64_t b_bytes) {
    return a + a_bytes <= b || b + b_bytes <= a;
}

static inline int64_t hri_launch_min(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static inline int64_t hri_launch_max(int64_t a, int64_t b) {
    return a > b ? a : b;
}

#endif
