/* Optimizer state in bf16 and 8 bit on a GPU: what the host makes of it, up to one step of the stored type. */
#include "rig.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <headroom/headroom.h>

#include "graph/half.h"
#include "graph/op.h"
#include "ops/common/codes.h"

enum { MOST = 4099, INPUTS = 6, STEPS = 3 };

typedef struct bench {
    hr_ctx *ctx;
    hr_device *device;
    hr_logical *logical;
    hr_queue *queue;
    hr_block block;
    hri_gpu *gpu;
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
        &(hr_logical_options){.size = sizeof(hr_logical_options), .limit_bytes = 16 << 20},
        &b->logical));
    CHECK_OK(hr_block_alloc(b->logical, 1 << 20, HR_CATEGORY_WEIGHTS, 0, &b->block));
    CHECK_OK(hr_queue_create(b->device, &b->queue));
    const hr_status status =
        hri_gpu_open(b->device, &(hri_gpu_options){.cache = ""}, &b->gpu, &why);
    if (status == HR_E_UNSUPPORTED) {
        test_skip("%s", why.text);
    }
    CHECK_OK(status);
    hri_gpu_use(b->gpu, b->queue);
}

static void bench_close(bench *b) {
    hri_gpu_close(b->gpu);
    hr_queue_destroy(b->queue);
    hr_ctx_destroy(b->ctx);
}

/* w, g, rate, update, m, v: where each lies in a piece of memory that both sides have. */
typedef struct update {
    const hr_op *op;
    hri_attr attr;
    hr_meta in[INPUTS], out[3];
    uint64_t at[INPUTS], bytes, control;
    uint32_t in_count, states;
    hri_sig sig;
} update;

static void update_init(update *u, const char *name, hr_type type, int64_t n) {
    const int adam = !strcmp(name, "adamw");
    const hr_meta f32 = {HR_TYPE_F32, hr_shape_1(n)}, scalar = {.type = HR_TYPE_F32};
    const hr_meta state = {type, hr_shape_1(type == HR_TYPE_U8 ? hri_codes_bytes(n) : n)};
    memset(u, 0, sizeof *u);
    u->op = hri_op_find(name);
    u->states = adam ? 2 : 1;
    CHECK(u->op != NULL);
    CHECK_OK(hri_attr_parse(u->op, "decay=0.1,stream=12345", &u->attr, NULL));
    u->in[u->in_count++] = f32;
    u->in[u->in_count++] = f32;
    for (int i = 0; i < (adam ? 2 : 1); i++) {
        u->in[u->in_count++] = scalar;
    }
    for (uint32_t i = 0; i < u->states; i++) {
        u->in[u->in_count++] = state;
    }
    for (uint32_t i = 0; i < u->in_count; i++) {
        u->at[i] = u->bytes;
        u->bytes += (hr_meta_bytes(&u->in[i]) + 255) / 256 * 256;
    }
    u->control = u->bytes;
    u->bytes += 256;
    for (uint32_t k = 0; k <= u->states; k++) {
        u->out[k] = k ? state : f32;
    }
    u->sig = (hri_sig){u->op, &u->attr, u->in_count, 1 + u->states, u->in, u->out};
}

static uint32_t input_of(const update *u, uint32_t out) {
    return out ? u->in_count - u->states + out - 1 : 0;
}

static void on_host(const update *u, char *memory, uint32_t step) {
    const void *in[INPUTS];
    void *out[3];
    for (uint32_t i = 0; i < u->in_count; i++) {
        in[i] = memory + u->at[i];
    }
    for (uint32_t k = 0; k <= u->states; k++) {
        out[k] = memory + u->at[input_of(u, k)];
    }
    CHECK_OK(
        hri_op_run(&(hri_call){.sig = &u->sig, .in = in, .out = out, .step = step, .seed = 9}));
}

static void on_gpu(bench *b, const update *u, char *memory, uint32_t step) {
    hr_addr in[INPUTS], out[3];
    const hri_gpu_control control = {9, step, 0};
    for (uint32_t i = 0; i < u->in_count; i++) {
        in[i] = b->block.addr + u->at[i];
    }
    for (uint32_t k = 0; k <= u->states; k++) {
        out[k] = b->block.addr + u->at[input_of(u, k)];
    }
    memcpy(memory + u->control, &control, sizeof control);
    const hri_gpu_call call = {.gpu = b->gpu,
                               .kernel = hri_kernel_for(&hri_kernels_cuda, &u->sig),
                               .sig = &u->sig,
                               .in = in,
                               .out = out,
                               .control = b->block.addr + u->control};
    CHECK_OK(hr_copy(b->queue, b->block.addr, host_addr(memory), u->bytes));
    CHECK_OK(hri_op_launch(&call));
    CHECK_OK(hr_copy(b->queue, host_addr(memory), b->block.addr, u->bytes));
    CHECK_OK(hr_queue_sync(b->queue));
}

static void read_state(const update *u, const char *memory, uint32_t k, int64_t n, float *out) {
    const char *at = memory + u->at[input_of(u, k)];
    if (u->out[k].type == HR_TYPE_U8) {
        hri_codes codes;
        hri_codes_init(&codes, u->states == 2 && k == 2);
        hri_codes_decode(&codes, (const unsigned char *)at, (uint64_t)n, out);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = hri_from_bf16(((const hri_bf16 *)(const void *)at)[i]);
    }
}

/* A result that rounding brings near the border of two codes may fall to the other side, seldom.  The scale of a block of
 * codes may be an ulp off, where one side has fused multiplications and the other has not. */
static void compare(const update *u, const char *host, const char *gpu, int64_t n) {
    static float a[MOST], b[MOST];
    const float *w = (const float *)(const void *)host, *x = (const float *)(const void *)gpu;
    for (int64_t i = 0; i < n; i++) {
        CHECK_LE(fabs((double)(w[i] - x[i])), 1e-5);
    }
    for (uint32_t k = 1; k <= u->states; k++) {
        int64_t others = 0;
        read_state(u, host, k, n, a);
        read_state(u, gpu, k, n, b);
        for (int64_t i = 0; i < n; i++) {
            others += fabs((double)(a[i] - b[i])) > 1e-6 * fabs((double)a[i]);
            CHECK_LE(fabs((double)(a[i] - b[i])), 0.01 * fabs((double)a[i]) + 0.02);
        }
        CHECK_LE(others, n / 50 + 1);
    }
}

static void both_sides(bench *b, const char *name, hr_type type, int64_t n) {
    update u;
    update_init(&u, name, type, n);
    char *host = calloc(1, u.bytes), *gpu = calloc(1, u.bytes);
    uint64_t state = test_seed();
    CHECK(host && gpu);
    for (uint32_t step = 0; step < STEPS; step++) {
        for (int64_t i = 0; i < n; i++) {
            float *x = (float *)(void *)host;
            x[i] = step ? x[i] : 1.0f;
            ((float *)(void *)(host + u.at[1]))[i] =
                (float)(test_random(&state) >> 40) * 0x1p-23f - 1.0f;
        }
        *(float *)(void *)(host + u.at[2]) = 0.01f;
        if (u.states == 2) {
            *(float *)(void *)(host + u.at[3]) = (float)(step + 1);
        }
        memcpy(gpu, host, u.bytes);
        on_gpu(b, &u, gpu, step);
        on_host(&u, host, step);
        compare(&u, host, gpu, n);
        if (type == HR_TYPE_U8) { /* padding stays zeros */
            const unsigned char *last =
                (unsigned char *)gpu + u.at[input_of(&u, 1)] + hri_codes_bytes(n);
            for (int64_t i = 1; i <= (256 - n % 256) % 256; i++) {
                CHECK_EQ(last[-i], 0);
            }
        }
    }
    free(host);
    free(gpu);
}

TEST(moments, a_gpu_rounds_as_the_host_does) {
    static const int64_t sizes[] = {1, 255, 256, 257, 2049, MOST};
    bench b;
    bench_open(&b);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        both_sides(&b, "adamw", HR_TYPE_U8, sizes[i]);
        both_sides(&b, "adamw", HR_TYPE_BF16, sizes[i]);
    }
    both_sides(&b, "sgd_momentum", HR_TYPE_U8, 777);
    bench_close(&b);
}
