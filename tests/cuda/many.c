/* Calls that go to a GPU together (graph/op_many.c): the bits of one launch each, fewer launches, and never together when
 * one touches what another writes. */
#include "rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <headroom/headroom.h>

#include "graph/op.h"

enum { ROOM = 8 << 20, TENSORS = 150, INPUTS = 7 };

typedef struct bench {
    hr_ctx *ctx;
    hr_device *device;
    hr_logical *logical;
    hr_queue *queue;
    hr_block block;
    hri_gpu *gpu;
    float *memory; /* what lies in the block */
    uint64_t used;
} bench;

static void bench_open(bench *b) {
    hri_prose why = {0};
    rig_isolate();
    memset(b, 0, sizeof *b);
    CHECK_OK(hr_ctx_create(NULL, &b->ctx));
    if (hr_device_find(b->ctx, "cuda:0", &b->device) != HR_OK) {
        test_skip("no device cuda:0");
    }
    CHECK_OK(hr_logical_create(
        b->device,
        &(hr_logical_options){.size = sizeof(hr_logical_options), .limit_bytes = 64 << 20},
        &b->logical));
    CHECK_OK(hr_block_alloc(b->logical, ROOM, HR_CATEGORY_WEIGHTS, 0, &b->block));
    CHECK_OK(hr_queue_create(b->device, &b->queue));
    const hr_status status =
        hri_gpu_open(b->device, &(hri_gpu_options){.cache = ""}, &b->gpu, &why);
    if (status == HR_E_UNSUPPORTED) {
        test_skip("%s", why.text);
    }
    CHECK_OK(status);
    hri_gpu_use(b->gpu, b->queue);
    b->memory = malloc(ROOM);
    CHECK(b->memory != NULL);
    uint64_t state = test_seed();
    for (size_t i = 0; i < ROOM / sizeof(float); i++) {
        b->memory[i] = 0.5f + (float)(test_random(&state) >> 40) * 0x1p-24f;
    }
}

static void bench_close(bench *b) {
    free(b->memory);
    hri_gpu_close(b->gpu);
    hr_queue_destroy(b->queue);
    hr_ctx_destroy(b->ctx);
}

static hr_addr take(bench *b, uint64_t bytes) {
    const hr_addr at = b->block.addr + b->used;
    b->used += (bytes + 255) / 256 * 256;
    CHECK_LE(b->used, ROOM);
    return at;
}

static void fill(bench *b) {
    CHECK_OK(hr_copy(b->queue, b->block.addr, host_addr(b->memory), ROOM));
    CHECK_OK(hr_queue_sync(b->queue));
}

static void *read_all(bench *b) {
    void *all = malloc(ROOM);
    CHECK(all != NULL);
    CHECK_OK(hr_copy(b->queue, host_addr(all), b->block.addr, ROOM));
    CHECK_OK(hr_queue_sync(b->queue));
    return all;
}

/* A step's updates: tensors of many sizes, every third without decay, every fifth with a 2-byte gradient. */
typedef struct updates {
    hri_attr attr[2];
    hr_meta in[TENSORS][INPUTS], out[TENSORS][3];
    hr_addr in_at[TENSORS][INPUTS], out_at[TENSORS][3];
    hri_sig sig[TENSORS];
    hri_gpu_call calls[TENSORS];
} updates;

static updates *make_updates(bench *b) {
    updates *u = calloc(1, sizeof *u);
    const hr_op *op = hri_op_find("adamw");
    hri_prose why = {0};
    CHECK(u && op);
    CHECK_OK(hri_attr_parse(op, "decay=0.1", &u->attr[0], &why));
    CHECK_OK(hri_attr_parse(op, "decay=0", &u->attr[1], &why));
    const hr_addr scalars[] = {take(b, 4), take(b, 4), take(b, 4)};
    for (uint32_t i = 0; i < TENSORS; i++) {
        const hr_meta f32 = {HR_TYPE_F32, hr_shape_1(i * i * i % 5003)};
        const hr_meta scalar = {.type = HR_TYPE_F32};
        const hr_meta grad = {i % 5 ? HR_TYPE_F32 : HR_TYPE_BF16, f32.shape};
        const hr_meta in[INPUTS] = {f32, grad, scalar, scalar, f32, f32, scalar};
        memcpy(u->in[i], in, sizeof in);
        for (uint32_t k = 0; k < INPUTS; k++) {
            const int is_scalar = k == 2 || k == 3 || k == 6;
            u->in_at[i][k] =
                is_scalar ? scalars[k == 6 ? 2 : k - 2] : take(b, hr_meta_bytes(&in[k]));
        }
        for (uint32_t k = 0; k < 3; k++) {
            u->out[i][k] = f32;
            u->out_at[i][k] = u->in_at[i][k ? k + 3 : 0];
        }
        u->sig[i] = (hri_sig){op, &u->attr[i % 3 == 0], INPUTS, 3, u->in[i], u->out[i]};
        u->calls[i] = (hri_gpu_call){.gpu = b->gpu,
                                     .kernel = hri_kernel_for(&hri_kernels_cuda, &u->sig[i]),
                                     .sig = &u->sig[i],
                                     .in = u->in_at[i],
                                     .out = u->out_at[i]};
        CHECK(u->calls[i].kernel && u->calls[i].kernel->launch_many);
    }
    return u;
}

TEST(many, updates_have_the_bits_of_one_launch_each) {
    bench b;
    bench_open(&b);
    updates *u = make_updates(&b);
    fill(&b);
    for (uint32_t i = 0; i < TENSORS; i++) {
        CHECK_OK(hri_op_launch(&u->calls[i]));
    }
    void *apart = read_all(&b);
    fill(&b);
    CHECK_OK(hri_op_launch_many(u->calls, TENSORS));
    void *together = read_all(&b);
    CHECK(memcmp(apart, b.memory, ROOM) != 0);
    CHECK(memcmp(apart, together, ROOM) == 0);
    free(apart);
    free(together);
    free(u);
    bench_close(&b);
}

/* Launches of two casts of 3,000 numbers, from and into the named quarters of the block. */
static int64_t launches_of(bench *b, int from0, int into0, int from1, int into1) {
    const hr_op *op = hri_op_find("cast");
    const hr_meta f32 = {HR_TYPE_F32, hr_shape_1(3000)};
    const hr_addr at[] = {b->block.addr, b->block.addr + 16384, b->block.addr + 32768,
                          b->block.addr + 49152};
    hri_attr to;
    hri_prose why = {0};
    CHECK(op);
    CHECK_OK(hri_attr_parse(op, "to=f32", &to, &why));
    const hri_sig sig = {op, &to, 1, 1, &f32, &f32};
    const hri_kernel *kernel = hri_kernel_for(&hri_kernels_cuda, &sig);
    CHECK(kernel && kernel->launch_many);
    const hri_gpu_call calls[] = {
        {.gpu = b->gpu, .kernel = kernel, .sig = &sig, .in = &at[from0], .out = &at[into0]},
        {.gpu = b->gpu, .kernel = kernel, .sig = &sig, .in = &at[from1], .out = &at[into1]},
    };
    const int64_t before = fake()->calls("cuLaunchKernel");
    CHECK_OK(hri_op_launch_many(calls, 2));
    CHECK_OK(hr_queue_sync(b->queue));
    return fake()->calls("cuLaunchKernel") - before;
}

TEST(many, calls_that_touch_each_other_stay_apart) {
    bench b;
    need_fake();
    bench_open(&b);
    fill(&b);
    CHECK_EQ(launches_of(&b, 0, 1, 2, 3), 1);
    CHECK_EQ(launches_of(&b, 0, 1, 0, 2), 1); /* reading the same is no matter */
    CHECK_EQ(launches_of(&b, 0, 1, 1, 2), 2); /* reads what the first writes */
    CHECK_EQ(launches_of(&b, 0, 1, 2, 0), 2); /* writes what the first reads */
    CHECK_EQ(launches_of(&b, 0, 1, 2, 1), 2); /* writes what the first writes */
    bench_close(&b);
}

/* What replicas give one another: more than one launch takes, of any length, wherever they lie. */
TEST(many, ranges_of_any_size_are_copied) {
    static const uint64_t sizes[] = {1, 0, 16, 17, 255, 4096, 32767, 32768, 32769, 70001};
    enum { RANGES = 200, HALF = ROOM / 2 };
    bench b;
    hri_gpu_range ranges[RANGES];
    bench_open(&b);
    fill(&b);
    char *expected = malloc(ROOM);
    CHECK(expected != NULL);
    memcpy(expected, b.memory, ROOM);
    for (uint64_t i = 0, at = 0; i < RANGES; i++) {
        const uint64_t size = sizes[i % 10], to = HALF + at, from = at + (i % 3 == 2 ? 8 : 0);
        ranges[i] = (hri_gpu_range){b.block.addr + to, b.block.addr + from, size};
        memcpy(expected + to, (const char *)b.memory + from, size);
        at += (size + 31) / 16 * 16;
        CHECK_LE(at, HALF);
    }
    CHECK_OK(hri_gpu_copy_ranges(b.gpu, ranges, RANGES));
    void *all = read_all(&b);
    CHECK(memcmp(all, expected, ROOM) == 0);
    free(all);
    free(expected);
    bench_close(&b);
}

TEST(many, a_step_of_updates_is_few_launches) {
    bench b;
    need_fake();
    bench_open(&b);
    updates *u = make_updates(&b);
    fill(&b);
    const int64_t before = fake()->calls("cuLaunchKernel");
    CHECK_OK(hri_op_launch_many(u->calls, TENSORS));
    const int64_t launches = fake()->calls("cuLaunchKernel") - before;
    CHECK(launches >= TENSORS / 64);
    CHECK_LE(launches, TENSORS / 64 + 2); /* two kinds of gradients */
    free(u);
    bench_close(&b);
}
