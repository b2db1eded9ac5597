/* conv_norm_grad, which makes the sum that it reads itself: the bits of the two calls one by one, wherever things lie. */
#include "kernel_rig.h"

#include <stdlib.h>
#include <string.h>

#include "graph/op.h"
#include "ref.h"

enum {
    SIZE = 112 << 10,
    A = 0,
    B = SIZE,
    FAR = 2 * SIZE,
    SMALL = 4 * SIZE,
    LINE = 16 << 10,
    ALL = ROOM
};

/* add(a, b) -> s, then conv_norm_grad(s, a, w, gamma, inv, mask) -> da, dw, dgamma, dbeta, dz. */
typedef struct pair {
    hr_meta add_in[2], sum, in[6], out[5];
    hri_attr none;
    hri_sig add, grad;
    hr_addr add_at[2], sum_at, in_at[6], out_at[5];
    hri_gpu_call calls[2];
} pair;

/* Where what differs lies, from the block's start. */
typedef struct places {
    uint64_t sum, da, dz, work;
} places;

static void make(pair *p, bench *b, const char *text, const places *at) {
    const hr_addr base = b->block.addr;
    memset(p, 0, sizeof *p);
    CHECK_EQ(ref_parse(text, p->in), 6);
    p->add_in[0] = p->add_in[1] = p->sum = p->in[0];
    p->add = (hri_sig){.op = hri_op_find("add"),
                       .attr = &p->none,
                       .in_count = 2,
                       .out_count = 1,
                       .in = p->add_in,
                       .out = &p->sum};
    p->grad = (hri_sig){.op = hri_op_find("conv_norm_grad"),
                        .attr = &p->none,
                        .in_count = 6,
                        .out_count = 5,
                        .in = p->in,
                        .out = p->out};
    CHECK_OK(p->grad.op->infer(&(hri_infer){.in_count = 6, .in = p->in, .out = p->out}));
    memcpy(p->add_at, (hr_addr[]){base + A, base + B}, sizeof p->add_at);
    p->sum_at = p->in_at[0] = base + at->sum;
    for (uint64_t i = 1; i < 6; i++) {
        p->in_at[i] = base + SMALL + (i == 1 ? 0 : (i + 1) * LINE);
    }
    for (uint64_t i = 0; i < 5; i++) {
        p->out_at[i] = base + SMALL + (10 + i) * LINE;
    }
    p->out_at[0] = base + at->da;
    p->out_at[4] = base + at->dz;
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
    CHECK_LE(p->calls[1].workspace_bytes, 2 * SIZE);
    CHECK_LE(hr_meta_bytes(&p->sum), SIZE);
    CHECK_LE(hr_meta_bytes(&p->in[1]), 3 * LINE);
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
    CHECK_STATUS(p->calls[1].kernel->launch_sum(&p->calls[1], p->add_at[0], p->add_at[1]),
                 folds ? HR_OK : HR_E_UNSUPPORTED);
    bench_put(b, before, ALL);
    CHECK_OK(hri_op_launch_many(p->calls, 2));
    bench_get(b, many, ALL);
    for (int i = 0; i < 5; i++) {
        const uint64_t from = p->out_at[i] - b->block.addr;
        test_count_check();
        if (memcmp(one + from, many + from, hr_meta_bytes(&p->out[i])) != 0) {
            test_fail(__FILE__, __LINE__, "%s: result %d has other bits", text, i);
        }
    }
    free(p);
}

static const char *const texts[] = {
    "bf16[800,64] bf16[800,16] bf16[1,1,16,64] f32[64] f32[64] u8[800,8]",
    "f32[200,128] f32[200,32] f32[1,1,32,128] f32[128] f32[128] u8[200,16]",
    "bf16[611,17] bf16[611,8] bf16[1,1,8,17] f32[17] f32[17] u8[611,3]"};

TEST_TIMEOUT(sum, is_made_by_the_gradient_of_convolution_and_norm, 300) {
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    const uint64_t apart = SMALL + 16 * LINE;
    for (int i = 0; i < 3; i++) {
        /* As plans have it: the sum over a, dz over the sum; the work space far away, or over b, which is dead. */
        compare(&b, texts[i], &(places){A, apart, A, FAR}, 1);
        compare(&b, texts[i], &(places){A, apart, A, B}, i < 2);
        compare(&b, texts[i], &(places){B, apart, B, FAR}, 1);
        /* da over the dead one; the sum where neither is. */
        compare(&b, texts[i], &(places){A, B, A, FAR}, 1);
        compare(&b, texts[i], &(places){SMALL + 20 * LINE, apart, SMALL + 20 * LINE, FAR}, 1);
        /* dz elsewhere, so that somebody could still read the sum. */
        compare(&b, texts[i], &(places){A, apart, SMALL + 20 * LINE, FAR}, 0);
    }
    bench_close(&b);
}
