/* Widening, and the choice of a kernel; see strided_cuda.h. */
#include "ops/common/strided_cuda.h"

#include <string.h>

HRI_CU(copy);

enum { THREADS = 256, EACH = 4, TILE = 32 };

/* As in copy.cu. */
typedef struct box {
    int32_t rank, unused;
    int64_t dim[HR_RANK_MAX];
    int64_t from[HR_RANK_MAX], to[HR_RANK_MAX];
} box;

static box box_of(const hri_strided *s) {
    box b = {.rank = s->rank};
    memcpy(b.dim, s->dim, sizeof b.dim);
    memcpy(b.from, s->from, sizeof b.from);
    memcpy(b.to, s->to, sizeof b.to);
    return b;
}

static int64_t count_of(const hri_strided *s) {
    int64_t count = 1;
    for (int d = 0; d < s->rank; d++) {
        count *= s->dim[d];
    }
    return count;
}

static hri_defines defines_of(size_t bytes, int64_t count) {
    static const char *const elements[] = {"hr_u8", "hr_u16", "hr_u32", "hr_u64", "hr_u128"};
    return hri_launch_defines("-DHR_E=%s -DHR_INDEX=%s", elements[__builtin_ctz((unsigned)bytes)],
                              count < INT32_MAX ? "hr_u32" : "hr_u64");
}

/* Two elements become one where both sides are dense and everything is even. */
static int widen(hri_strided *s, hr_addr in, hr_addr out) {
    const int last = s->rank - 1;
    int odd = s->bytes >= 16 || s->from[last] != 1 || s->to[last] != 1 || s->dim[last] % 2 ||
              (in | out) % (2 * s->bytes);
    for (int d = 0; d < last; d++) {
        odd |= s->from[d] % 2 != 0 || s->to[d] % 2 != 0;
    }
    if (odd) {
        return 0;
    }
    s->dim[last] /= 2;
    s->bytes *= 2;
    for (int d = 0; d < last; d++) {
        s->from[d] /= 2;
        s->to[d] /= 2;
    }
    return 1;
}

/* Each element of x goes to at least 16 dense bytes of the result. */
static int spreads(const hri_strided *s, hr_addr out) {
    const int last = s->rank - 1;
    const int64_t each = (int64_t)(16 / s->bytes);
    int odd =
        s->from[last] != 0 || s->to[last] != 1 || s->dim[last] % each || !hri_launch_wide(out);
    for (int d = 0; d < last; d++) {
        odd |= s->to[d] % each != 0;
    }
    return !odd;
}

static hr_status launch_spread(hri_gpu *gpu, hri_strided *s, hr_addr in, hr_addr out) {
    const int64_t each = (int64_t)(16 / s->bytes);
    s->dim[s->rank - 1] /= each;
    for (int d = 0; d < s->rank - 1; d++) {
        s->to[d] /= each;
    }
    int64_t count = count_of(s);
    box b = box_of(s);
    return hri_gpu_launch(
        gpu, &hri_cu_copy, defines_of(s->bytes, count).text, "spread",
        &(hri_gpu_grid){.x = hri_launch_blocks(count, THREADS), .threads = THREADS},
        HRI_GPU_ARGS(&in, &out, &count, &b)); /* little-endian: a u32 reads the low half */
}

/* The dimension along which x is dense, when tiles are worth it; -1: none. */
static int dense_of(const hri_strided *s) {
    const int last = s->rank - 1;
    int dense = -1;
    for (int d = 0; d < last; d++) {
        dense = s->from[d] == 1 && s->dim[d] >= 4 ? d : dense;
    }
    return s->to[last] == 1 && s->from[last] != 1 && s->dim[last] >= 4 ? dense : -1;
}

static hr_status launch_turn(hri_gpu *gpu, const hri_strided *s, int dense, hr_addr in,
                             hr_addr out) {
    int32_t of = dense;
    uint32_t along = hri_launch_blocks(s->dim[dense], TILE);
    uint32_t across = hri_launch_blocks(s->dim[s->rank - 1], TILE);
    const int64_t outer = count_of(s) / s->dim[dense] / s->dim[s->rank - 1];
    box b = box_of(s);
    return hri_gpu_launch(
        gpu, &hri_cu_copy, defines_of(s->bytes, 1).text, "turn",
        &(hri_gpu_grid){.x = (uint32_t)outer * along * across, .threads = THREADS},
        HRI_GPU_ARGS(&in, &out, &of, &along, &across, &b));
}

hr_status hri_strided_launch(hri_gpu *gpu, const hri_strided *given, hr_addr in, hr_addr out) {
    hri_strided s = *given;
    if (count_of(&s) == 0) {
        return HR_OK;
    }
    hri_strided_simplify(&s);
    if (s.rank == 1 && s.from[0] == 1 && s.to[0] == 1) {
        return hri_gpu_copy(gpu, out, in, (uint64_t)s.dim[0] * s.bytes);
    }
    if (spreads(&s, out)) {
        return launch_spread(gpu, &s, in, out);
    }
    const int dense = dense_of(&s);
    if (dense >= 0) {
        return launch_turn(gpu, &s, dense, in, out);
    }
    while (widen(&s, in, out)) {
    }
    int64_t count = count_of(&s);
    box b = box_of(&s);
    return hri_gpu_launch(
        gpu, &hri_cu_copy, defines_of(s.bytes, count).text, "copy",
        &(hri_gpu_grid){.x = hri_launch_blocks(count, THREADS * EACH), .threads = THREADS},
        HRI_GPU_ARGS(&in, &out, &count, &b));
}

/* ---- borders ---- */

static int widen_border(box *b, size_t *bytes, hri_border *p, hr_addr in, hr_addr out) {
    const int last = b->rank - 1;
    if (*bytes >= 16 || p->step[last] != 1 || b->dim[last] % 2 || p->before[last] % 2 ||
        p->inside[last] % 2 || (in | out) % (2 * *bytes)) {
        return 0;
    }
    b->dim[last] /= 2;
    p->before[last] /= 2;
    p->inside[last] /= 2;
    memcpy(p->element + *bytes, p->element, *bytes);
    *bytes *= 2;
    return 1;
}

hr_status hri_border_launch(hri_gpu *gpu, const hr_shape *out_shape, size_t bytes,
                            const hri_border *border, hr_addr in, hr_addr out) {
    hri_border p = *border;
    box b = {.rank = out_shape->rank};
    int64_t count = 1, stride = 1;
    memcpy(b.dim, out_shape->dim, sizeof b.dim);
    while (widen_border(&b, &bytes, &p, in, out)) {
    }
    for (int d = b.rank - 1; d >= 0; d--) {
        count *= b.dim[d];
        b.from[d] = stride;
        stride *= p.inside[d];
    }
    return hri_gpu_launch(
        gpu, &hri_cu_copy, defines_of(bytes, count).text, "pad",
        &(hri_gpu_grid){.x = hri_launch_blocks(count, THREADS * EACH), .threads = THREADS},
        HRI_GPU_ARGS(&in, &out, &count, &b, &p));
}
