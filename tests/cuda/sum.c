/* A gradient of batch norm that makes the sum that it reads itself: the bits of the two calls one by one, wherever things lie. */
#include "kernel_rig.h"

#include <stdlib.h>
#include <string.h>

#include "graph/op.h"
#include "ref.h"

enum {
    SIZE = 160 << 10,
    A = 0,
    B = SIZE,
    X = 2 * SIZE,
    Y = 3 * SIZE,
    SMALL = 4 * SIZE,
    FAR = 5 * SIZE,
    ALL = 6 * SIZE,
    LINE = 4 << 10
};

/* add(a, b) -> s, then batch_norm_add_relu_grad(s, x, gamma, mean, inv, y) -> dx, dgamma, dbeta, dz; with a mask in place of y
 * batch_norm_mask_grad. */
typedef struct pair {
    hr_meta add_in[2], sum, in[6], out[4];
    hri_attr none, eps;
    hri_sig add, grad;
    hr_addr add_at[2], sum_at, in_at[6], out_at[4];
    hri_gpu_call calls[2];
} pair;

/* Where what differs lies, from the block's start. */
typedef struct places {
    uint64_t sum, dx, dz, work, dgamma, dbeta;
} places;

static void make(pair *p, bench *b, const char *text, const places *at) {
    hr_meta meta[HRI_IN_MAX];
    memset(p, 0, sizeof *p);
    CHECK_EQ(ref_parse(text, meta), 6);
    memcpy(p->in, meta, sizeof p->in);
    p->add_in[0] = p->add_in[1] = meta[0];
    p->add = (hri_sig){.op = hri_op_find("add"),
                       .attr = &p->none,
                       .in_count = 2,
                       .out_count = 1,
                       .in = p->add_in,
                       .out = &p->sum};
    p->grad = (hri_sig){.op = hri_op_find(meta[5].type == HR_TYPE_U8 ? "batch_norm_mask_grad"
                                                                     : "batch_norm_add_relu_grad"),
                        .attr = &p->eps,
                        .in_count = 6,
                        .out_count = 4,
                        .in = p->in,
                        .out = p->out};
    CHECK_OK(hri_attr_parse(p->add.op, NULL, &p->none, NULL));
    CHECK_OK(hri_attr_parse(p->grad.op, NULL, &p->eps, NULL));
    CHECK_OK(p->add.op->infer(
        &(hri_infer){.attr = &p->none, .in_count = 2, .in = p->add_in, .out = &p->sum}));
    CHECK_OK(p->grad.op->infer(
        &(hri_infer){.attr = &p->eps, .in_count = 6, .in = p->in, .out = p->out}));
    const hr_addr base = b->block.addr;
    memcpy(p->add_at, (hr_addr[]){base + A, base + B}, sizeof p->add_at);
    p->sum_at = base + at->sum;
    memcpy(p->in_at,
           (hr_addr[]){p->sum_at, base + X, base + SMALL, base + SMALL + LINE,
                       base + SMALL + 2 * LINE, base + Y},
           sizeof p->in_at);
    memcpy(p->out_at,
           (hr_addr[]){base + at->dx, base + at->dgamma, base + at->dbeta, base + at->dz},
           sizeof p->out_at);
    p->calls[0] = (hri_gpu_call){.gpu = b->gpu,
                                 .kernel = hri_kernel_for(&hri_kernels_cuda, &p->add),
                                 .sig = &p->add,
                                 .in = p->add_at,
                                 .out = &p->sum_at};
    p->calls[1] = (hri_gpu_call){.gpu = b->gpu,
                                 .kernel = hri_kernel_for(&hri_kernels_cuda, &p->grad),
                                 .sig = &p->grad,
                                 .in = p->in_at,
                                 .out = p->out_at,
                                 .workspace = base + at->work};
    p->calls[1].workspace_bytes =
        hri_kernel_launch_workspace(p->calls[1].kernel, &p->grad, b->gpu, 0);
    CHECK_LE(p->calls[1].workspace_bytes, SIZE);
    CHECK_LE(hr_meta_bytes(&p->sum), SIZE);
}

static void fill(unsigned char *to, const hr_meta *meta, uint64_t *state) {
    for (int64_t k = 0; k < hr_shape_count(&meta->shape); k++) {
        const uint64_t bits = test_random(state);
        ref_store(meta->type, to, k,
                  meta->type == HR_TYPE_U8 ? (double)(bits >> 56)
                                           : (double)(bits >> 11) * 0x1p-52 - 1.0);
    }
}

/* Both ways; `folds`: whether one launch is expected to do. */
static void compare(bench *b, const char *text, const places *at, int folds) {
    static unsigned char before[ALL], one[ALL], many[ALL];
    uint64_t state = test_seed();
    pair *p = calloc(1, sizeof *p);
    CHECK(p);
    make(p, b, text, at);
    memset(before, 0, sizeof before);
    fill(before + A, &p->sum, &state);
    fill(before + B, &p->sum, &state);
    for (int i = 1; i < 6; i++) {
        fill(before + (p->in_at[i] - b->block.addr), &p->in[i], &state);
    }
    bench_put(b, before, ALL);
    CHECK_OK(hri_op_launch(&p->calls[0]));
    CHECK_OK(hri_op_launch(&p->calls[1]));
    bench_get(b, one, ALL);
    bench_put(b, before, ALL);
    CHECK(hri_sum_feeds(&p->calls[0], &p->calls[1]));
    const hr_status status =
        p->calls[1].kernel->launch_sum(&p->calls[1], p->add_at[0], p->add_at[1]);
    CHECK_STATUS(status, folds ? HR_OK : HR_E_UNSUPPORTED);
    bench_put(b, before, ALL);
    CHECK_OK(hri_op_launch_many(p->calls, 2));
    bench_get(b, many, ALL);
    for (int i = 0; i < 4; i++) {
        const uint64_t from = p->out_at[i] - b->block.addr;
        test_count_check();
        if (memcmp(one + from, many + from, hr_meta_bytes(&p->out[i])) != 0) {
            test_fail(__FILE__, __LINE__, "%s: result %d has other bits", text, i);
        }
    }
    free(p);
}

static const char *const wide = "bf16[1000,64] bf16[1000,64] f32[64] f32[64] f32[64] bf16[1000,64]";
static const char *const single =
    "f32[300,128] f32[300,128] f32[128] f32[128] f32[128] f32[300,128]";
static const char *const masked[] = {
    "bf16[1000,64] bf16[1000,64] f32[64] f32[64] f32[64] u8[1000,8]",
    "f32[300,128] f32[300,128] f32[128] f32[128] f32[128] u8[300,16]",
    "bf16[611,17] bf16[611,17] f32[17] f32[17] f32[17] u8[611,3]"};
static const char *const odd = "bf16[611,17] bf16[611,17] f32[17] f32[17] f32[17] bf16[611,17]";

TEST_TIMEOUT(sum, is_made_by_the_gradient_that_reads_it, 300) {
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    const uint64_t d = SMALL + 4 * LINE;
    for (int n = 0; n < 6; n++) {
        const int i = n % 3;
        const char *text = n > 2 ? masked[i] : i == 0 ? wide : i == 1 ? single : odd;
        /* As plans have it: the sum over a, dz over the sum, dx over x; the work space far away, or over b. */
        compare(&b, text, &(places){A, X, A, FAR, d, d + LINE}, 1);
        compare(&b, text, &(places){A, X, A, B, d, d + LINE}, i < 2);
        compare(&b, text, &(places){B, X, B, A, d, d + LINE}, i < 2);
        /* dx over the dead one; the sum where neither is. */
        compare(&b, text, &(places){A, B, A, FAR, d, d + LINE}, 1);
        compare(&b, text, &(places){FAR, X, FAR, SMALL + 8 * LINE, d, d + LINE}, 1);
        /* dz elsewhere, so that somebody could still read the sum; dz beside its place. */
        compare(&b, text, &(places){A, X, FAR, B, d, d + LINE}, 0);
    }
    /* Small gradients over the dead one: where the sums would be, at its start where they are not. */
    compare(&b, wide, &(places){A, X, A, B, B + (80 << 10), B + (100 << 10)}, 0);
    compare(&b, wide, &(places){A, X, A, B, B + (12 << 10), B + (16 << 10)}, 1);
    compare(&b, single, &(places){A, X, A, FAR, B, B + LINE}, 1);
    bench_close(&b);
}
