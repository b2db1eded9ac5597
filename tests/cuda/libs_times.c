/* What the libraries reach at the sizes of the benchmarks, printed; see libs.c. */
#include "libs.h"

#include <stdio.h>

static const hri_gpu_options library = {0};

/* The whole of the device's data in one pattern of random numbers, so that big operands cost no time on the host. */
static tensor big(check *c, hr_type type, int64_t count) {
    enum { PART = 1 << 20 };
    desk *d = &c->d;
    tensor t = desk_tensor(d, type, count), part = desk_random(d, type, PART, 21, 1.0);
    const uint64_t bytes = hr_type_bytes(type), all = (uint64_t)count * bytes;
    for (uint64_t at = 0; at < all; at += PART * bytes) {
        const uint64_t left = all - at;
        CHECK_OK(hri_gpu_copy(d->gpu, t.block.addr + at, part.block.addr,
                              left < PART * bytes ? left : PART * bytes));
    }
    desk_sync(d);
    desk_free(d, &part);
    return t;
}

typedef struct work {
    const hri_gpu_matmul *product;
    const hri_gpu_conv *conv;
    const hri_gpu_attention *attention;
    hri_gpu_attention_at at;
    hr_addr a, b, bias, y, workspace;
    uint64_t bytes;
} work;

static hr_status do_work(check *c, const work *w) {
    return w->product ? hri_gpu_matmul_run(c->d.gpu, w->product, w->a, w->b, w->bias, w->y,
                                           w->workspace, w->bytes)
           : w->conv ? hri_gpu_conv_run(c->d.gpu, w->conv, w->a, w->b, w->y, w->workspace, w->bytes)
                     : hri_gpu_attention_run(c->d.gpu, w->attention, &w->at, w->workspace);
}

/* Milliseconds of one run, the least of five rounds; negative when it failed. */
static double time_work(check *c, const work *w, const char *name) {
    hr_event *from, *to;
    double best = -1.0;
    CHECK_OK(hr_event_create(c->d.device, &from));
    CHECK_OK(hr_event_create(c->d.device, &to));
    int failed = told(c, do_work(c, w), name); /* chooses, too */
    for (int round = 0; round < 5 && !failed; round++) {
        uint64_t ns = 0;
        enum { LAUNCHES = 4 };
        CHECK_OK(hr_event_mark(from, c->d.queue));
        for (int i = 0; i < LAUNCHES && !failed; i++) {
            failed = do_work(c, w) != HR_OK;
        }
        CHECK_OK(hr_event_mark(to, c->d.queue));
        desk_sync(&c->d);
        CHECK_OK(hr_event_elapsed(from, to, &ns));
        const double ms = (double)ns * 1e-6 / LAUNCHES;
        best = best < 0.0 || ms < best ? ms : best;
    }
    hr_event_destroy(from), hr_event_destroy(to);
    return failed ? -1.0 : best;
}

TEST_TIMEOUT(libs, times_of_convolutions, 500) {
    check c;
    double total[3] = {0}, flops_all = 0.0;
    check_open(&c, library);
    for (int i = 0; i < CONV_COUNT; i++) {
        const conv_case *v = &conv_cases[i];
        char line[3][48];
        for (int kind = 0; kind < 3 && v->count; kind++) {
            const hri_gpu_conv x = conv_of(v, 256, kind);
            char name[160];
            int64_t sizes[3];
            conv_sizes(&x, sizes);
            conv_name(v, 256, kind, name, sizeof name);
            tensor a = big(&c, v->type, sizes[0]), b = big(&c, v->type, sizes[1]);
            tensor y = desk_tensor(&c.d, v->type, sizes[2]);
            const uint64_t bytes = hri_gpu_conv_workspace(c.d.gpu, &x, HRI_GPU_LIMIT_CONV);
            tensor s = desk_tensor(&c.d, HR_TYPE_U8, (int64_t)bytes);
            const work w = {.conv = &x,
                            .a = a.block.addr,
                            .b = b.block.addr,
                            .y = y.block.addr,
                            .workspace = s.block.addr,
                            .bytes = bytes};
            const double ms = time_work(&c, &w, name);
            const double flops =
                2.0 * 256.0 * (double)(x.p * x.q * x.o * x.kh * x.kw * (x.c / x.groups));
            const int wanted = kind != 1 || v->c != 3; /* nobody needs the gradient of images */
            total[kind] += wanted ? ms * v->count : 0.0;
            flops_all += wanted ? flops * v->count : 0.0;
            snprintf(line[kind], sizeof line[kind], "%7.3f ms %4.0f TF %4llu MiB", ms,
                     flops / ms * 1e-9, (unsigned long long)(bytes >> 20));
            desk_free(&c.d, &a), desk_free(&c.d, &b), desk_free(&c.d, &y), desk_free(&c.d, &s);
        }
        if (v->count) {
            printf("  %d x %3lld %4lld -> %4lld %lldx%lld/%lld | %s | %s | %s\n", v->count,
                   (long long)v->h, (long long)v->c, (long long)v->o, (long long)v->k,
                   (long long)v->k, (long long)v->stride, line[0], line[1], line[2]);
            fflush(stdout);
        }
    }
    const double all = total[0] + total[1] + total[2];
    printf("  ResNet-50, batch 256, bf16: forward %.2f + input %.2f + weight %.2f = %.2f ms, %.0f "
           "TFLOP/s\n",
           total[0], total[1], total[2], all, flops_all / all * 1e-9);
    check_close(&c);
}

static const product_case gpt2_products[] = {
    {"qkv", BF, BF, 1, 16384, 2304, 768, 0, 0, 1},
    {"qkv dx", BF, BF, 1, 16384, 768, 2304, 0, 1, 0},
    {"qkv dw", BF, BF, 1, 768, 2304, 16384, 1, 0, 0},
    {"proj", BF, BF, 1, 16384, 768, 768, 0, 0, 1},
    {"proj dw", BF, BF, 1, 768, 768, 16384, 1, 0, 0},
    {"fc", BF, BF, 1, 16384, 3072, 768, 0, 0, 1},
    {"fc dx", BF, BF, 1, 16384, 768, 3072, 0, 1, 0},
    {"fc dw", BF, BF, 1, 768, 3072, 16384, 1, 0, 0},
    {"fc2", BF, BF, 1, 16384, 768, 3072, 0, 0, 1},
    {"fc2 dx", BF, BF, 1, 16384, 3072, 768, 0, 1, 0},
    {"fc2 dw", BF, BF, 1, 3072, 768, 16384, 1, 0, 0},
    {"scores", BF, F3, 1, 16384, 2048, 768, 0, 1, 0},
    {"dx of scores", BF, F3, 1, 16384, 768, 2048, 0, 0, 0},
    {"dw of scores", BF, BF, 1, 2048, 768, 16384, 1, 0, 0},
    {"f32 fc", F3, F3, 1, 16384, 3072, 768, 0, 0, 1},
};

TEST_TIMEOUT(libs, times_of_products_and_attention, 400) {
    check c;
    check_open(&c, library);
    for (size_t i = 0; i < sizeof gpt2_products / sizeof gpt2_products[0]; i++) {
        const product_case *p = &gpt2_products[i];
        const hri_gpu_matmul x = product_of(p);
        tensor a = big(&c, p->type, p->m * p->k), b = big(&c, p->type, p->k * p->n);
        tensor bias = big(&c, p->y_type, p->n), y = desk_tensor(&c.d, p->y_type, p->m * p->n);
        const uint64_t bytes = hri_gpu_matmul_workspace(c.d.gpu, &x, HRI_GPU_LIMIT_MATMUL);
        tensor s = desk_tensor(&c.d, HR_TYPE_U8, (int64_t)bytes);
        const work w = {.product = &x,
                        .a = a.block.addr,
                        .b = b.block.addr,
                        .bias = p->bias ? bias.block.addr : 0,
                        .y = y.block.addr,
                        .workspace = s.block.addr,
                        .bytes = bytes};
        const double ms = time_work(&c, &w, p->name);
        printf("  %-14s %5lld x %5lld x %5lld %8.3f ms %5.0f TFLOP/s %4llu MiB\n", p->name,
               (long long)p->m, (long long)p->n, (long long)p->k, ms,
               2e-9 * (double)p->m * (double)p->n * (double)p->k / ms,
               (unsigned long long)(bytes >> 20));
        fflush(stdout);
        desk_free(&c.d, &a), desk_free(&c.d, &b), desk_free(&c.d, &bias), desk_free(&c.d, &y);
        desk_free(&c.d, &s);
    }
    for (int backward = 0; backward < 2; backward++) {
        const int64_t t = 1024, all = 16 * t * 768;
        const hri_gpu_attention x = attention_of(16, 12, t, 64, BF, 1, backward);
        uint64_t bytes = 0;
        if (told(&c, hri_gpu_attention_workspace(c.d.gpu, &x, &bytes), "attention")) {
            continue;
        }
        tensor qkv = big(&c, BF, 3 * all), o = big(&c, BF, all), dout = big(&c, BF, all);
        tensor stats = big(&c, F3, 16 * 12 * t), dqkv = desk_tensor(&c.d, BF, 3 * all);
        tensor s = desk_tensor(&c.d, HR_TYPE_U8, (int64_t)bytes);
        const uint64_t step = 768 * 2;
        work w = {.attention = &x, .workspace = s.block.addr, .bytes = bytes};
        w.at = (hri_gpu_attention_at){.q = qkv.block.addr,
                                      .k = qkv.block.addr + step,
                                      .v = qkv.block.addr + 2 * step,
                                      .o = o.block.addr,
                                      .stats = stats.block.addr};
        if (backward) {
            w.at.dout = dout.block.addr;
            w.at.dq = dqkv.block.addr;
            w.at.dk = dqkv.block.addr + step;
            w.at.dv = dqkv.block.addr + 2 * step;
        }
        const double ms = time_work(&c, &w, "attention");
        /* Half of the squares, two products forward and five backward. */
        printf("  attention %s 16x12x1024x64 causal bf16 %8.3f ms %5.0f TFLOP/s %4llu MiB\n",
               backward ? "backward" : "forward ", ms,
               (backward ? 5.0 : 2.0) * 16.0 * 12.0 * 1024.0 * 1024.0 * 64.0 / ms * 1e-9,
               (unsigned long long)(bytes >> 20));
        desk_free(&c.d, &qkv), desk_free(&c.d, &o), desk_free(&c.d, &dout), desk_free(&c.d, &stats);
        desk_free(&c.d, &dqkv), desk_free(&c.d, &s);
    }
    check_close(&c);
}
