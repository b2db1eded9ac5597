/* Sums that make what they add up: the bits of the element-wise call and the sum one by one, wherever things lie. */
#include "kernel_rig.h"

#include <string.h>

#include "graph/op.h"
#include "ref.h"

enum {
    SIZE = 256 << 10,
    A = 0,
    B = SIZE,
    C = 2 * SIZE,
    SUMS = 3 * SIZE,
    WORK = SUMS + (32 << 10),
    ALL = 4 * SIZE
};

/* Where operands, what is made of them, the sums and their parts lie, from the block's start. */
typedef struct places {
    uint64_t a, b, made, sums, work;
} places;

typedef struct two {
    hr_meta in[HRI_IN_MAX], made[HRI_OUT_MAX], sums[HRI_OUT_MAX];
    hri_attr attr, to;
    hri_sig maker, sum;
    hr_addr in_at[2], made_at, sums_at;
    hri_gpu_call calls[2];
} two;

static hri_sig signature(const char *op, hri_attr *attr, const char *text, hr_meta *in,
                         uint32_t count, hr_meta *out) {
    const hri_sig s = {.op = hri_op_find(op),
                       .attr = attr,
                       .in_count = count,
                       .out_count = 1,
                       .in = in,
                       .out = out};
    CHECK_OK(hri_attr_parse(s.op, text, attr, NULL));
    CHECK_OK(s.op->infer(&(hri_infer){.attr = attr, .in_count = count, .in = in, .out = out}));
    return s;
}

static hri_gpu_call call_of(bench *b, const hri_sig *sig, const hr_addr *in, const hr_addr *out,
                            hr_addr work) {
    hri_gpu_call c = {.gpu = b->gpu,
                      .kernel = hri_kernel_for(&hri_kernels_cuda, sig),
                      .sig = sig,
                      .in = in,
                      .out = out,
                      .workspace = work};
    c.workspace_bytes = hri_kernel_launch_workspace(c.kernel, sig, b->gpu, 0);
    CHECK_LE(c.workspace_bytes, ALL - WORK);
    return c;
}

static void make(bench *b, const char *op, const char *attr, const char *text, const char *to,
                 const places *at, two *t) {
    const hr_addr base = b->block.addr;
    const uint32_t count = ref_parse(text, t->in);
    t->maker = signature(op, &t->attr, attr, t->in, count, t->made);
    t->sum = signature("sum_to", &t->to, to, t->made, 1, t->sums);
    CHECK_LE(hr_meta_bytes(&t->made[0]), SIZE);
    t->in_at[0] = base + at->a;
    t->in_at[1] = base + at->b;
    t->made_at = base + at->made;
    t->sums_at = base + at->sums;
    t->calls[0] = call_of(b, &t->maker, t->in_at, &t->made_at, 0);
    t->calls[1] = call_of(b, &t->sum, &t->made_at, &t->sums_at, base + at->work);
}

/* Both ways; `folds`: whether one launch is expected to make and add up. */
static void compare(bench *b, const char *op, const char *attr, const char *text, const char *to,
                    const places *at, int folds) {
    static unsigned char before[ALL], one[ALL], many[ALL];
    static two t;
    uint64_t state = test_seed();
    memset(&t, 0, sizeof t);
    make(b, op, attr, text, to, at, &t);
    for (size_t i = 0; i < ALL / 4; i++) { /* numbers of size 0.5 to 1 in f32, in pairs in bf16 */
        const uint32_t bits = 0x3f003f00u | (uint32_t)(test_random(&state) & 0x807f807fu);
        memcpy(before + 4 * i, &bits, 4);
    }
    bench_put(b, before, ALL);
    CHECK_OK(hri_op_launch(&t.calls[0]));
    CHECK_OK(hri_op_launch(&t.calls[1]));
    bench_get(b, one, ALL);
    bench_put(b, before, ALL);
    CHECK(hri_made_feeds(&t.calls[0], &t.calls[1]));
    CHECK_STATUS(t.calls[1].kernel->launch_made(&t.calls[1], &t.calls[0], NULL),
                 folds ? HR_OK : HR_E_UNSUPPORTED);
    bench_put(b, before, ALL);
    CHECK_OK(hri_op_launch_many(t.calls, 2));
    bench_get(b, many, ALL);
    CHECK(memcmp(one, many, ALL) == 0);
}

TEST_TIMEOUT(sum, makes_what_it_adds_up, 300) {
    static const char *const wide = "bf16[150,768] bf16[150,768]", *const tanh = "approximate=tanh";
    static const places elsewhere = {A, B, C, SUMS, WORK};
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    compare(&b, "gelu_grad", tanh, wide, "to=768", &elsewhere, 1);
    compare(&b, "gelu_grad", "approximate=erf", wide, "to=768", &(places){A, B, A, SUMS, WORK}, 1);
    compare(&b, "gelu_grad", tanh, wide, "to=768", &(places){A, B, B, SUMS, WORK}, 1);
    compare(&b, "silu_grad", NULL, "f32[3,77,40] f32[3,77,40]", "to=40", &elsewhere, 1);
    compare(&b, "mul", NULL, "f16[9,264] f16[9,264]", "to=264", &elsewhere, 1);
    /* Sums and parts of them over an operand that is dead; what is made beside one. */
    compare(&b, "gelu_grad", tanh, wide, "to=768", &(places){A, B, A, B, WORK}, 0);
    compare(&b, "gelu_grad", tanh, wide, "to=768", &(places){A, B, A, SUMS, B}, 0);
    /* Rows instead of columns, one number for all, packs that do not fit. */
    compare(&b, "gelu_grad", tanh, wide, "to=150x1", &elsewhere, 0);
    compare(&b, "mul", NULL, "f32[70,64] f32[]", "to=64", &elsewhere, 0);
    compare(&b, "gelu_grad", tanh, "bf16[70,64] bf16[70,64]", "to=64",
            &(places){A, B + 2, C, SUMS, WORK}, 0);
    bench_close(&b);
}
