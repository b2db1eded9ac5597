/* Norms that make the sum that they read, and gradients of norms that add what they write to another: the bits of the two calls
 * one by one, wherever things lie. */
#include "kernel_rig.h"

#include <stdlib.h>
#include <string.h>

#include "graph/op.h"
#include "ref.h"

enum {
    SIZE = 128 << 10,
    A = 0,
    B = SIZE,
    C = 2 * SIZE,
    D = 3 * SIZE,
    SMALL = 4 * SIZE,
    WORK = 5 * SIZE,
    ALL = 7 * SIZE,
    LINE = 8 << 10
};

/* One call and the sum before or behind it, at places from the block's start. */
typedef struct pair {
    hr_meta in[HRI_IN_MAX], out[HRI_OUT_MAX], add_in[2], sum;
    hri_attr attr, none;
    hri_sig norm, add;
    hr_addr in_at[HRI_IN_MAX], out_at[HRI_OUT_MAX], add_at[2], sum_at;
    hri_gpu_call calls[2]; /* in their order */
} pair;

/* Where what differs lies: operands of the sum, its result, the norm's first two inputs and first output, its statistics
 * and its work space. */
typedef struct places {
    uint64_t a, b, sum, in[2], out, small, work;
} places;

static void make_call(bench *b, const hri_sig *sig, const hr_addr *in, const hr_addr *out,
                      hr_addr work, hri_gpu_call *call) {
    *call = (hri_gpu_call){.gpu = b->gpu,
                           .kernel = hri_kernel_for(&hri_kernels_cuda, sig),
                           .sig = sig,
                           .in = in,
                           .out = out,
                           .workspace = work};
    call->workspace_bytes = hri_kernel_launch_workspace(call->kernel, sig, b->gpu, 0);
    CHECK_LE(call->workspace_bytes, 2 * SIZE);
}

static pair *make(bench *b, const char *op, const char *text, int behind, const places *at) {
    pair *p = calloc(1, sizeof *p);
    CHECK(p);
    const hr_addr base = b->block.addr;
    const uint32_t count = ref_parse(text, p->in);
    p->norm = (hri_sig){.op = hri_op_find(op), .attr = &p->attr, .in_count = count, .in = p->in};
    p->norm.out_count = p->norm.op->out_count;
    p->norm.out = p->out;
    p->add = (hri_sig){.op = hri_op_find("add"),
                       .attr = &p->none,
                       .in_count = 2,
                       .out_count = 1,
                       .in = p->add_in,
                       .out = &p->sum};
    p->add_in[0] = p->add_in[1] = p->sum = p->in[0];
    CHECK_OK(hri_attr_parse(p->norm.op, NULL, &p->attr, NULL));
    CHECK_OK(hri_attr_parse(p->add.op, NULL, &p->none, NULL));
    CHECK_OK(p->norm.op->infer(
        &(hri_infer){.attr = &p->attr, .in_count = count, .in = p->in, .out = p->out}));
    for (uint32_t i = 0; i < count; i++) {
        p->in_at[i] = base + (i == 0 ? at->in[0] : i == 1 && behind ? at->in[1] : SMALL + i * LINE);
    }
    for (uint32_t i = 0; i < p->norm.out_count; i++) {
        p->out_at[i] = base + (i ? at->small + i * LINE : at->out);
    }
    p->add_at[0] = base + at->a;
    p->add_at[1] = base + at->b;
    p->sum_at = base + at->sum;
    make_call(b, &p->norm, p->in_at, p->out_at, base + at->work, &p->calls[!behind]);
    make_call(b, &p->add, p->add_at, &p->sum_at, 0, &p->calls[behind]);
    CHECK_LE(hr_meta_bytes(&p->sum), SIZE);
    return p;
}

static void check_same(const bench *b, const unsigned char *one, const unsigned char *many,
                       hr_addr at, const hr_meta *meta, const char *what) {
    const uint64_t from = at - b->block.addr;
    test_count_check();
    if (memcmp(one + from, many + from, hr_meta_bytes(meta)) != 0) {
        test_fail(__FILE__, __LINE__, "%s has other bits", what);
    }
}

/* Both ways; `folds`: whether one launch is expected to do; `dead`: the norm's first output is overwritten. */
static void compare(bench *b, const char *op, const char *text, int behind, const places *at,
                    int folds) {
    static unsigned char before[ALL], one[ALL], many[ALL];
    uint64_t state = test_seed();
    pair *p = make(b, op, text, behind, at);
    for (size_t i = 0; i < ALL / 4; i++) { /* numbers of size 0.5 to 1 in f32, in pairs in bf16 */
        const uint32_t bits = 0x3f003f00u | (uint32_t)(test_random(&state) & 0x807f807fu);
        memcpy(before + 4 * i, &bits, 4);
    }
    bench_put(b, before, ALL);
    CHECK_OK(hri_op_launch(&p->calls[0]));
    CHECK_OK(hri_op_launch(&p->calls[1]));
    bench_get(b, one, ALL);
    bench_put(b, before, ALL);
    const hri_gpu_call *norm = &p->calls[!behind];
    const hr_addr other = p->add_at[p->add_at[0] == p->out_at[0]];
    hr_status status;
    if (behind) {
        CHECK(hri_sum_takes(&p->calls[0], &p->calls[1]));
        status = norm->kernel->launch_added(norm, other, p->sum_at, NULL);
    } else {
        CHECK(hri_sum_feeds(&p->calls[0], &p->calls[1]));
        status = norm->kernel->launch_sum(norm, p->add_at[0], p->add_at[1]);
    }
    CHECK_STATUS(status, folds ? HR_OK : HR_E_UNSUPPORTED);
    bench_put(b, before, ALL);
    CHECK_OK(hri_op_launch_many(p->calls, 2));
    bench_get(b, many, ALL);
    check_same(b, one, many, p->sum_at, &p->sum, "the sum");
    for (uint32_t i = 0; i < p->norm.out_count; i++) {
        check_same(b, one, many, p->out_at[i], &p->out[i], op);
    }
    free(p);
}

static const char *const packs = "bf16[70,768] f32[768] bf16[768]";
static const char *const blocks = "f32[9,3000] f32[3000] f32[3000]";

TEST_TIMEOUT(sum, is_made_by_the_norm_that_reads_it, 300) {
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    for (int i = 0; i < 2; i++) {
        const char *text = i ? blocks : packs;
        /* The sum elsewhere, over a, over b; y elsewhere, over b, over the sum. */
        compare(&b, "layer_norm", text, 0, &(places){A, B, C, {C}, D, WORK, WORK}, 1);
        compare(&b, "layer_norm", text, 0, &(places){A, B, A, {A}, B, WORK, WORK}, 1);
        compare(&b, "layer_norm", text, 0, &(places){A, B, B, {B}, B, WORK, WORK}, 1);
        compare(&b, "layer_norm", text, 0, &(places){A, A, C, {C}, A, WORK, WORK}, 1);
        /* Statistics over an operand that is dead; y beside one. */
        compare(&b, "layer_norm", text, 0, &(places){A, B, C, {C}, D, B, WORK}, 0);
        compare(&b, "layer_norm", text, 0, &(places){A, B, C, {C}, B + 1536, WORK, WORK}, 0);
    }
    compare(&b, "rms_norm", "f32[70,128] f32[128]", 0, &(places){A, B, A, {A}, B, WORK, WORK}, 1);
    compare(&b, "layer_norm", "f16[3,9001] f32[9001] f32[9001]", 0,
            &(places){A, B, C, {C}, D, WORK, WORK}, 0); /* wider than registers */
    bench_close(&b);
}

static const char *const packs_grad = "bf16[70,768] bf16[70,768] f32[768] f32[70] f32[70]";
static const char *const blocks_grad = "f32[9,3000] f32[9,3000] f32[3000] f32[9] f32[9]";

TEST_TIMEOUT(sum, is_made_behind_the_gradient_of_a_norm, 300) {
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    const uint64_t small = SMALL + 6 * LINE;
    for (int i = 0; i < 2; i++) {
        const char *op = "layer_norm_grad", *text = i ? blocks_grad : packs_grad;
        /* dx over dy, the sum over dx, over the other, over x, elsewhere. */
        compare(&b, op, text, 1, &(places){A, C, A, {A, B}, A, small, WORK}, 1);
        compare(&b, op, text, 1, &(places){C, A, C, {A, B}, A, small, WORK}, 1);
        compare(&b, op, text, 1, &(places){A, C, B, {A, B}, A, small, WORK}, 1);
        compare(&b, op, text, 1, &(places){D, C, A, {A, B}, D, small, WORK}, 1);
        compare(&b, op, text, 1, &(places){C, D, D, {A, B}, D, small, WORK}, 1);
        /* The sum over the work space; beside x; over a mean. */
        compare(&b, op, text, 1, &(places){A, C, WORK, {A, B}, A, small, WORK}, 0);
        compare(&b, op, text, 1, &(places){A, C, B + 1536, {A, B}, A, small, WORK}, 0);
        compare(&b, op, text, 1, &(places){A, C, SMALL + 3 * LINE, {A, B}, A, D, WORK}, 0);
    }
    compare(&b, "rms_norm_grad", "f32[70,128] f32[70,128] f32[128] f32[70]", 1,
            &(places){A, C, A, {A, B}, A, small, WORK}, 1);
    bench_close(&b);
}
