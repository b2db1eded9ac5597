/* The gradient of gather with the sum behind it: the bits of the two calls one by one, wherever things lie. */
#include "kernel_rig.h"

#include <string.h>

#include "graph/op.h"
#include "ref.h"

enum {
    SIZE = 128 << 10,
    DY = 0,
    IDS = SIZE,
    OUT = 2 * SIZE,
    OTHER = 3 * SIZE,
    TO = 4 * SIZE,
    WORK = 5 * SIZE,
    ALL = 8 * SIZE
};

/* Where things lie, from the block's start. */
typedef struct places {
    uint64_t dy, out, other, to;
} places;

typedef struct two {
    hr_meta in[HRI_IN_MAX], out[HRI_OUT_MAX], add_in[2], sum;
    hri_attr attr, none;
    hri_sig rows, add;
    hr_addr in_at[2], out_at, add_at[2], sum_at;
    hri_gpu_call calls[2];
} two;

static void make(bench *b, const char *text, const char *attr, const places *at, int swapped,
                 two *t) {
    const hr_addr base = b->block.addr;
    const uint32_t count = ref_parse(text, t->in);
    t->rows = (hri_sig){.op = hri_op_find("gather_grad"),
                        .attr = &t->attr,
                        .in_count = count,
                        .out_count = 1,
                        .in = t->in,
                        .out = t->out};
    CHECK_OK(hri_attr_parse(t->rows.op, attr, &t->attr, NULL));
    CHECK_OK(t->rows.op->infer(
        &(hri_infer){.attr = &t->attr, .in_count = count, .in = t->in, .out = t->out}));
    t->add = (hri_sig){.op = hri_op_find("add"),
                       .attr = &t->none,
                       .in_count = 2,
                       .out_count = 1,
                       .in = t->add_in,
                       .out = &t->sum};
    CHECK_OK(hri_attr_parse(t->add.op, NULL, &t->none, NULL));
    t->add_in[0] = t->add_in[1] = t->sum = t->out[0];
    CHECK_LE(hr_meta_bytes(&t->sum), SIZE);
    t->in_at[0] = base + at->dy;
    t->in_at[1] = base + IDS;
    t->out_at = base + at->out;
    t->add_at[swapped] = base + at->out;
    t->add_at[!swapped] = base + at->other;
    t->sum_at = base + at->to;
    t->calls[0] = (hri_gpu_call){.gpu = b->gpu,
                                 .kernel = hri_kernel_for(&hri_kernels_cuda, &t->rows),
                                 .sig = &t->rows,
                                 .in = t->in_at,
                                 .out = &t->out_at,
                                 .workspace = base + WORK};
    t->calls[0].workspace_bytes =
        hri_kernel_launch_workspace(t->calls[0].kernel, &t->rows, b->gpu, 0);
    CHECK_LE(t->calls[0].workspace_bytes, ALL - WORK);
    t->calls[1] = (hri_gpu_call){.gpu = b->gpu,
                                 .kernel = hri_kernel_for(&hri_kernels_cuda, &t->add),
                                 .sig = &t->add,
                                 .in = t->add_at,
                                 .out = &t->sum_at};
}

/* Both ways; `folds`: whether one launch is expected to add up and add. */
static void compare(bench *b, const char *text, const char *attr, const places *at, int folds) {
    static unsigned char before[ALL], one[ALL], many[ALL];
    static two t;
    uint64_t state = test_seed();
    memset(&t, 0, sizeof t);
    make(b, text, attr, at, folds, &t);
    for (size_t i = 0; i < ALL / 4; i++) { /* numbers of size 0.5 to 1 in f32, in pairs in bf16 */
        const uint32_t bits = 0x3f003f00u | (uint32_t)(test_random(&state) & 0x807f807fu);
        memcpy(before + 4 * i, &bits, 4);
    }
    for (int64_t i = 0; i < hr_shape_count(&t.in[1].shape); i++) { /* some often, some never */
        const int32_t id = (int32_t)(test_random(&state) % 7 * (test_random(&state) % 9));
        memcpy(before + IDS + 4 * i, &id, 4);
    }
    bench_put(b, before, ALL);
    CHECK_OK(hri_op_launch(&t.calls[0]));
    CHECK_OK(hri_op_launch(&t.calls[1]));
    bench_get(b, one, ALL);
    bench_put(b, before, ALL);
    CHECK(hri_sum_takes(&t.calls[0], &t.calls[1]));
    CHECK_STATUS(t.calls[0].kernel->launch_added(&t.calls[0], t.add_at[!folds], t.sum_at, NULL),
                 folds ? HR_OK : HR_E_UNSUPPORTED);
    bench_put(b, before, ALL);
    CHECK_OK(hri_op_launch_many(t.calls, 2));
    bench_get(b, many, ALL);
    const uint64_t bytes = hr_meta_bytes(&t.sum);
    CHECK(memcmp(one + at->to, many + at->to, bytes) == 0);
    CHECK(memcmp(one + at->out, many + at->out, bytes) == 0);
    CHECK(memcmp(before + at->to, many + at->to, bytes) != 0);
}

TEST_TIMEOUT(sum, is_made_behind_rows_that_are_added_up, 300) {
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    compare(&b, "f32[300,64] i32[300]", "rows=60", &(places){DY, OUT, OTHER, OUT}, 1);
    compare(&b, "bf16[300,72] i32[300]", "rows=60", &(places){DY, OUT, OTHER, OUT}, 1);
    compare(&b, "f32[90,7] i32[90]", "rows=60", &(places){DY, OUT, OTHER, OUT}, 1);
    compare(&b, "f32[3,40,4] i32[40]", "rows=60,axis=1", &(places){DY, OUT, OTHER, OUT}, 1);
    /* Both results are wanted; the sum of one's own. */
    compare(&b, "f32[300,64] i32[300]", "rows=60", &(places){DY, OUT, OTHER, TO}, 0);
    compare(&b, "f32[300,64] i32[300]", "rows=60", &(places){DY, OUT, OTHER, OTHER}, 0);
    bench_close(&b);
}
