/* Gradients that do the forward call before them again: the bits of the calls one by one, in one launch where places allow it. */
#include "kernel_rig.h"

#include <string.h>

#include "graph/op.h"
#include "ref.h"
#include "run/execute_gpu.h"
#include "training.h"

enum {
    SIZE = 160 << 10,
    DY = 0,
    X = SIZE,
    Y = 2 * SIZE,
    DX = 3 * SIZE,
    SMALL = 4 * SIZE,
    WORK = 5 * SIZE,
    ALL = 6 * SIZE,
    LINE = 4 << 10,
    WIDE = 20 << 10
};

/* Where things that may lie elsewhere lie, from the block's start. */
typedef struct places {
    uint64_t y, dx, work;
} places;

static const places elsewhere = {Y, DX, WORK};

/* One call: what it reads and makes. */
typedef struct one {
    hr_meta in[HRI_IN_MAX], out[HRI_OUT_MAX];
    hri_attr attr;
    hri_sig sig;
    hr_addr in_at[HRI_IN_MAX], out_at[HRI_OUT_MAX];
} one;

static hri_gpu_call call_of(bench *b, one *o, const char *op, const char *attr, const char *text,
                            uint64_t work) {
    const uint32_t count = ref_parse(text, o->in);
    const hr_op *found = hri_op_find(op);
    CHECK(found);
    o->sig = (hri_sig){.op = found,
                       .attr = &o->attr,
                       .in_count = count,
                       .out_count = found->out_count,
                       .in = o->in,
                       .out = o->out};
    CHECK_OK(hri_attr_parse(found, attr, &o->attr, NULL));
    CHECK_OK(found->infer(
        &(hri_infer){.attr = &o->attr, .in_count = count, .in = o->in, .out = o->out}));
    CHECK_LE(hr_meta_bytes(&o->in[0]), SIZE);
    hri_gpu_call c = {.gpu = b->gpu,
                      .kernel = hri_kernel_for(&hri_kernels_cuda, &o->sig),
                      .sig = &o->sig,
                      .in = o->in_at,
                      .out = o->out_at,
                      .workspace = b->block.addr + work};
    c.workspace_bytes = hri_kernel_launch_workspace(c.kernel, &o->sig, b->gpu, 0);
    CHECK_LE(c.workspace_bytes, SIZE);
    return c;
}

static void put_at(bench *b, hr_addr *to, const uint64_t *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        to[i] = b->block.addr + from[i];
    }
}

/* All bytes after the calls one by one, and after them together; `launches`: how many that takes. */
static void compare(bench *b, const hri_gpu_call *calls, uint32_t count, int64_t launches) {
    static unsigned char before[ALL], apart[ALL], together[ALL];
    uint64_t state = test_seed();
    for (size_t i = 0; i < ALL / 4; i++) { /* numbers of size 0.5 to 1 in f32, in pairs in bf16 */
        const uint32_t bits = 0x3f003f00u | (uint32_t)(test_random(&state) & 0x807f807fu);
        memcpy(before + 4 * i, &bits, 4);
    }
    bench_put(b, before, ALL);
    for (uint32_t i = 0; i < count; i++) {
        CHECK_OK(hri_op_launch(&calls[i]));
    }
    bench_get(b, apart, ALL);
    bench_put(b, before, ALL);
    const int64_t so_far = is_fake() ? fake()->calls("cuLaunchKernel") : 0;
    CHECK_OK(hri_op_launch_many(calls, count));
    if (is_fake()) {
        CHECK_EQ(fake()->calls("cuLaunchKernel") - so_far, launches);
    }
    bench_get(b, together, ALL);
    CHECK(memcmp(apart, together, ALL) == 0);
}

/* batch_norm_apply(x, gamma, beta, mean, inv; relu) and its gradient. */
static void norm(bench *b, const char *type, const char *attr, const places *at, int folds) {
    static one f, g;
    char text[160];
    const char *small = strncmp(type, "f16", 3) ? "f32" : "f16";
    const char *width = strchr(type, ',') + 1;
    snprintf(text, sizeof text, "%s %s[%s %s[%s f32[%s f32[%s", type, small, width, small, width,
             width, width);
    memset(&f, 0, sizeof f);
    memset(&g, 0, sizeof g);
    put_at(b, f.in_at, (uint64_t[]){X, SMALL, SMALL + LINE, SMALL + 2 * LINE, SMALL + 3 * LINE}, 5);
    put_at(b, f.out_at, &at->y, 1);
    const hri_gpu_call first = call_of(b, &f, "batch_norm_apply", attr, text, WORK);
    snprintf(text, sizeof text, "%s %s %s[%s f32[%s f32[%s %s[%s", type, type, small, width, width,
             width, small, width);
    put_at(b, g.in_at, (uint64_t[]){DY, X, SMALL, SMALL + 2 * LINE, SMALL + 3 * LINE, SMALL + LINE},
           6);
    put_at(b, g.out_at, (uint64_t[]){at->dx, SMALL + 4 * LINE, SMALL + 5 * LINE}, 3);
    const hri_gpu_call calls[] = {first,
                                  call_of(b, &g, "batch_norm_relu_grad", NULL, text, at->work)};
    CHECK(hri_op_beside(&f.sig, calls[0].kernel, &g.sig, calls[1].kernel));
    compare(b, calls, 2, folds ? 3 : 4);
}

TEST_TIMEOUT(beside, a_gradient_of_batch_norm_writes_what_was_dropped, 300) {
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    static const char *const types[] = {"bf16[1000,64]", "f32[300,128]", "bf16[611,17]",
                                        "f16[70,24]"};
    for (int i = 0; i < 4; i++) {
        norm(&b, types[i], "relu", &elsewhere, 1);
        norm(&b, types[i], "relu", &(places){Y, X, WORK}, 1);
        norm(&b, types[i], "relu", &(places){Y, DY, WORK}, 1);
        /* What cannot be: without relu; y where the gradient keeps its sums. */
        norm(&b, types[i], NULL, &elsewhere, 0);
        norm(&b, types[i], "relu", &(places){Y, DX, Y}, 0);
    }
    bench_close(&b);
}

/* gelu(x), gelu_grad(dy, x), and the sum of that over rows. */
static void bend(bench *b, const char *ops[2], const char *attr, const char *type, const char *to,
                 const places *at, int64_t launches) {
    static one f, g, s;
    char text[80];
    memset(&f, 0, sizeof f);
    memset(&g, 0, sizeof g);
    memset(&s, 0, sizeof s);
    put_at(b, f.in_at, (uint64_t[]){X}, 1);
    put_at(b, f.out_at, &at->y, 1);
    put_at(b, g.in_at, (uint64_t[]){DY, X}, 2);
    put_at(b, g.out_at, &at->dx, 1);
    put_at(b, s.in_at, &at->dx, 1);
    put_at(b, s.out_at, (uint64_t[]){SMALL}, 1);
    snprintf(text, sizeof text, "%s %s", type, type);
    const hri_gpu_call calls[] = {call_of(b, &f, ops[0], attr, type, WORK),
                                  call_of(b, &g, ops[1], attr, text, WORK),
                                  call_of(b, &s, "sum_to", to, type, at->work)};
    CHECK(hri_op_beside(&f.sig, calls[0].kernel, &g.sig, calls[1].kernel));
    compare(b, calls, 2, 1);
    compare(b, calls, 3, launches);
}

TEST_TIMEOUT(beside, a_gradient_of_gelu_writes_what_was_dropped, 300) {
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    const char *gelu[] = {"gelu", "gelu_grad"}, *silu[] = {"silu", "silu_grad"};
    bend(&b, gelu, "approximate=tanh", "bf16[100,768]", "to=768", &elsewhere, 2);
    bend(&b, gelu, "approximate=erf", "bf16[100,768]", "to=768", &(places){Y, X, WORK}, 2);
    bend(&b, gelu, "approximate=tanh", "bf16[100,768]", "to=768", &(places){Y, DY, WORK}, 2);
    bend(&b, silu, NULL, "f32[3,77,40]", "to=40", &elsewhere, 2);
    /* Rows, and sums of parts over what was dropped: the sum alone. */
    bend(&b, gelu, "approximate=tanh", "bf16[100,768]", "to=100x1", &elsewhere, 2);
    bend(&b, gelu, "approximate=tanh", "bf16[100,768]", "to=768", &(places){Y, DX, Y}, 3);
    bench_close(&b);
}

/* layer_norm(x, gamma, beta), its gradient, which reads the statistics at `mean`, and that added to dy. */
static void rows(bench *b, const char *x, const char *width, const places *at, uint64_t mean,
                 uint64_t gamma, uint64_t sum, const int64_t launches[2]) {
    static one f, g, s;
    char text[160];
    const char *small = strncmp(x, "f16", 3) ? "f32" : "f16";
    const uint64_t inv = mean + WIDE;
    memset(&f, 0, sizeof f);
    memset(&g, 0, sizeof g);
    memset(&s, 0, sizeof s);
    snprintf(text, sizeof text, "%s %s[%s] %s[%s]", x, small, width, small, width);
    put_at(b, f.in_at, (uint64_t[]){X, SMALL, SMALL + WIDE}, 3);
    put_at(b, f.out_at, (uint64_t[]){at->y, SMALL + 2 * WIDE, SMALL + 3 * WIDE}, 3);
    hri_gpu_call calls[3] = {call_of(b, &f, "layer_norm", "eps=0.001", text, WORK)};
    const long long count = (long long)hr_shape_count(&f.out[1].shape);
    snprintf(text, sizeof text, "%s %s %s[%s] f32[%lld] f32[%lld]", x, x, small, width, count,
             count);
    put_at(b, g.in_at, (uint64_t[]){DY, X, gamma, mean, inv}, 5);
    put_at(b, g.out_at, (uint64_t[]){at->dx, SMALL + 4 * WIDE, SMALL + 5 * WIDE}, 3);
    calls[1] = call_of(b, &g, "layer_norm_grad", NULL, text, at->work);
    snprintf(text, sizeof text, "%s %s", x, x);
    put_at(b, s.in_at, (uint64_t[]){DY, at->dx}, 2);
    put_at(b, s.out_at, &sum, 1);
    calls[2] = call_of(b, &s, "add", NULL, text, WORK);
    CHECK(hri_op_beside(&f.sig, calls[0].kernel, &g.sig, calls[1].kernel));
    compare(b, calls, 2, launches[0]);
    compare(b, calls, 3, launches[1]);
}

TEST_TIMEOUT(beside, a_gradient_of_layer_norm_writes_what_was_dropped, 300) {
    static const char *const types[][2] = {{"bf16[40,768]", "768"},
                                           {"f32[5,7,770]", "770"},
                                           {"f16[70,33]", "33"},
                                           {"f32[5,3000]", "3000"},
                                           {"bf16[3,5000]", "5000"}};
    static const int64_t two[] = {2, 2}, alone[] = {2, 3}, added[] = {3, 3};
    const uint64_t mean = SMALL + 2 * WIDE, gamma = SMALL;
    bench b;
    bench_open(&b);
    bench_gpu(&b);
    for (int i = 0; i < 5; i++) {
        const char *x = types[i][0], *width = types[i][1];
        rows(&b, x, width, &elsewhere, mean, gamma, DX, two);
        rows(&b, x, width, &(places){Y, X, WORK}, mean, gamma, X, two);
        rows(&b, x, width, &(places){Y, DX, WORK}, mean, gamma, DY, two);
        /* What cannot be: the sum over y, which is then made again alone with the gradient; y where the gradient keeps its sums;
         * another gamma; and statistics of something else. */
        rows(&b, x, width, &elsewhere, mean, gamma, Y, alone);
        rows(&b, x, width, &(places){Y, DX, Y}, mean, gamma, DX, added);
        rows(&b, x, width, &elsewhere, mean, SMALL + WIDE, DX, added);
        rows(&b, x, width, &elsewhere, SMALL + 6 * WIDE, gamma, DX, added);
    }
    bench_close(&b);
}

/* How many gradients go to the device together with the call of `forward` before them. */
static uint32_t pairs_in(training *t, const char *forward, const char *grad) {
    uint32_t first_sample, pairs = 0;
    const hri_exec_gpu *x = hri_exec_of_gpu(hri_planned_exec(t->planned), &first_sample);
    CHECK(x);
    const hri_bound *b = hri_exec_gpu_bound(x);
    for (uint32_t i = 0, count; i < b->call_count; i += count) {
        count = hri_exec_gpu_neighbours(x, i);
        for (uint32_t k = i + 1; k < i + count; k++) {
            pairs += !strcmp(b->g->nodes[b->calls[k - 1].node].sig.op->name, forward) &&
                     !strcmp(b->g->nodes[b->calls[k].node].sig.op->name, grad);
        }
    }
    return pairs;
}

/* With all the memory that it takes, and with so little that gradients do their ops again. */
static void train(const char *model, const char *options, int64_t batch, const char *forward,
                  const char *grad) {
    float whole[TRAINING_STEPS], tight[TRAINING_STEPS];
    uint64_t prints[2];
    uint32_t pairs = 0;
    training t;
    training_open(&t, model, options, batch);
    t.job.page_bytes = 256;
    t.job.time_ns =
        NULL; /* the machine's: what is measured differs from run to run, and so would plans */
    training_plan(&t, 1.15);
    training_take(&t);
    training_steps(&t, whole);
    CHECK_OK(training_print(t.planned, &prints[0]));
    for (double share = 0.2; pairs == 0 && share < 0.9; share += 0.2) {
        training_drop(&t);
        training_plan(&t, share);
        training_take(&t);
        pairs = pairs_in(&t, forward, grad);
    }
    printf("    %s: %u of %llu ops that run again\n", model, pairs,
           (unsigned long long)t.plans.again_count);
    CHECK(pairs > 0);
    training_steps(&t, tight);
    CHECK_OK(training_print(t.planned, &prints[1]));
    CHECK(memcmp(whole, tight, sizeof whole) == 0);
    CHECK_EQ(prints[0], prints[1]);
    training_close(&t);
}

TEST_TIMEOUT(beside, steps_in_little_memory_have_the_same_bits, 300) {
    train("resnet18:size=16,width=8,classes=10,layers=1x1x1x1",
          "optimizer=sgd,rate=0.01,precision=bf16", 16, "batch_norm_apply", "batch_norm_relu_grad");
}

TEST_TIMEOUT(beside, of_a_transformer_in_little_memory_have_the_same_bits, 300) {
    static const char gpt2[] = "gpt2:context=16,vocab=96,layers=3,width=32,heads=2",
                      options[] = "optimizer=sgd,rate=0.01,precision=bf16";
    train(gpt2, options, 4, "gelu", "gelu_grad");
    train(gpt2, options, 4, "layer_norm", "layer_norm_grad");
}
