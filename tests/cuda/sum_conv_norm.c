/* conv_norm_grad, which makes the sum that it reads itself: the bits of the two calls one by one, wherever things lie. */
#include "kernel_rig.h"

#include <stdlib.h>
#include <string.h>

#include "graph/op.h"
#include "ref.h"

/* Memory in pieces: a and b of a sum, twice that much far away, then small things a line each. */
typedef struct layout {
    uint64_t size, line;
    hr_addr base;
} layout;

enum { LINES = 32 };

static uint64_t small_at(const layout *l, uint64_t line) {
    return 4 * l->size + line * l->line;
}
static uint64_t all_of(const layout *l) {
    return small_at(l, LINES);
}

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

static void make(pair *p, bench *b, const layout *l, const char *text, const places *at) {
    const hr_addr base = l->base;
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
    memcpy(p->add_at, (hr_addr[]){base, base + l->size}, sizeof p->add_at);
    p->sum_at = p->in_at[0] = base + at->sum;
    for (uint64_t i = 1; i < 6; i++) {
        p->in_at[i] = base + small_at(l, i == 1 ? 0 : i + 1);
    }
    for (uint64_t i = 0; i < 5; i++) {
        p->out_at[i] = base + small_at(l, 10 + i);
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
    CHECK_LE(p->calls[1].workspace_bytes, 2 * l->size);
    CHECK_LE(hr_meta_bytes(&p->sum), l->size);
    CHECK_LE(hr_meta_bytes(&p->in[1]), 3 * l->line);
}

static void fill(unsigned char *to, const hr_meta *meta, uint64_t *state) {
    for (int64_t k = 0; k < hr_shape_count(&meta->shape); k++) {
        const uint64_t bits = test_random(state);
        ref_store(meta->type, to, k,
                  meta->type == HR_TYPE_U8 ? (double)(bits >> 56)
                                           : (double)(bits >> 11) * 0x1p-52 - 1.0);
    }
}

static void put_all(bench *b, const layout *l, const unsigned char *from) {
    CHECK_OK(hr_copy(b->queue, l->base, (hr_addr)(uintptr_t)from, all_of(l)));
    CHECK_OK(hr_queue_sync(b->queue));
}
static void get_all(bench *b, const layout *l, unsigned char *to) {
    CHECK_OK(hr_copy(b->queue, (hr_addr)(uintptr_t)to, l->base, all_of(l)));
    CHECK_OK(hr_queue_sync(b->queue));
}

/* Both ways; `folds`: whether one launch is expected to do. */
static void compare(bench *b, const layout *l, const char *text, const places *at, int folds) {
    const size_t all = all_of(l);
    unsigned char *before = calloc(3, all), *one = before + all, *many = one + all;
    uint64_t state = test_seed();
    pair *p = calloc(1, sizeof *p);
    CHECK(p && before);
    make(p, b, l, text, at);
    fill(before, &p->sum, &state);
    fill(before + l->size, &p->sum, &state);
    for (int i = 1; i < 6; i++) {
        fill(before + (p->in_at[i] - l->base), &p->in[i], &state);
    }
    put_all(b, l, before);
    CHECK_OK(hri_op_launch(&p->calls[0]));
    CHECK_OK(hri_op_launch(&p->calls[1]));
    get_all(b, l, one);
    CHECK(hri_sum_feeds(&p->calls[0], &p->calls[1]));
    put_all(b, l, before);
    CHECK_STATUS(p->calls[1].kernel->launch_sum(&p->calls[1], p->add_at[0], p->add_at[1]),
                 folds ? HR_OK : HR_E_UNSUPPORTED);
    if (!folds) {
        CHECK_OK(hri_op_launch_many(p->calls, 2));
    }
    get_all(b, l, many);
    for (int i = 0; i < 5; i++) {
        const uint64_t from = p->out_at[i] - l->base;
        test_count_check();
        if (memcmp(one + from, many + from, hr_meta_bytes(&p->out[i])) != 0) {
            test_fail(__FILE__, __LINE__, "%s: result %d has other bits", text, i);
        }
    }
    free(before);
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
    const layout l = {112 << 10, 16 << 10, b.block.addr};
    const uint64_t apart = small_at(&l, 16), other = small_at(&l, 20), far = 2 * l.size;
    CHECK_LE(all_of(&l), ROOM);
    for (int i = 0; i < 3; i++) {
        /* As plans have it: the sum over a, dz over the sum; the work space far away, or over b, which is dead. */
        compare(&b, &l, texts[i], &(places){0, apart, 0, far}, 1);
        compare(&b, &l, texts[i], &(places){0, apart, 0, l.size}, i < 2);
        compare(&b, &l, texts[i], &(places){l.size, apart, l.size, far}, 1);
        /* da over the dead one; the sum where neither is. */
        compare(&b, &l, texts[i], &(places){0, l.size, 0, far}, 1);
        compare(&b, &l, texts[i], &(places){other, apart, other, far}, 1);
        /* dz elsewhere, so that somebody could still read the sum. */
        compare(&b, &l, texts[i], &(places){0, apart, other, far}, 0);
    }
    bench_close(&b);
}

/* Where all sums are made in one pass, their parts lie in tiles of what is dead. */
TEST_TIMEOUT(sum, is_made_by_the_pass_that_has_all_sums, 600) {
    static const char *const few =
        "bf16[70,256] bf16[70,64] bf16[1,1,64,256] f32[256] f32[256] u8[70,32]";
    static const char *const many[] = {
        "bf16[25350,256] bf16[25350,64] bf16[1,1,64,256] f32[256] f32[256] u8[25350,32]",
        "bf16[12680,512] bf16[12680,128] bf16[1,1,128,512] f32[512] f32[512] u8[12680,64]"};
    hr_logical *logical;
    hr_block block;
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    layout l = {13 << 20, 9 << 17, 0};
    CHECK_OK(hr_logical_create(
        b.device,
        &(hr_logical_options){.size = sizeof(hr_logical_options), .limit_bytes = 96 << 20},
        &logical));
    CHECK_OK(hr_block_alloc(logical, all_of(&l), HR_CATEGORY_WEIGHTS, 0, &block));
    l.base = block.addr;
    const uint64_t apart = small_at(&l, 16), far = 2 * l.size;
    compare(&b, &l, few, &(places){0, apart, 0, far}, 1);
    compare(&b, &l, few, &(places){0, apart, 0, l.size}, 0); /* too few rows for them */
    /* What is dead is room, and t and all behind it lie elsewhere.  The second takes minutes on the fake driver. */
    for (int i = 0; i < (is_fake() ? 1 : 2); i++) {
        compare(&b, &l, many[i], &(places){0, apart, 0, l.size + (3 << 20)}, 1);
    }
    CHECK_OK(hr_block_free(logical, &block));
    bench_close(&b);
}
