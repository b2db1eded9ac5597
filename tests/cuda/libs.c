/* cuBLASLt and cuDNN on a real GPU, against kernels of our own, on the shapes of ResNet-50 and GPT-2; and what they reach
 * at the sizes of the benchmarks.  Everything here is skipped without a GPU.
 *
 *   test_cuda libs/            all of it;  libs/times alone (libs_times.c) prints achieved TFLOP/s
 *   HEADROOM_LIBS_OUT=FILE     the engines and algorithms that were chosen are copied there
 *
 * One shape that fails does not end a case: each failure is printed with the library's words, and the case fails at the
 * end, because time on a GPU is scarce. */
#include "libs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device/cuda/gpu_libs.h"
#include "ref.h"

void check_open(check *c, hri_gpu_options options) {
    memset(c, 0, sizeof *c);
    if (!desk_real()) {
        test_skip("needs a real GPU");
    }
    desk_open(&c->d, options);
}

void check_close(check *c) {
    const char *out = getenv("HEADROOM_LIBS_OUT");
    if (out && *out) {
        char command[512];
        snprintf(command, sizeof command, "cat %s/choices >> %s", c->d.folder, out);
        CHECK(system(command) != -1);
    }
    desk_close(&c->d);
    test_count_check();
    if (c->failures) {
        test_fail(__FILE__, __LINE__, "%d of %d failed, see above", c->failures, c->runs);
    }
}

int told(check *c, hr_status status, const char *what) {
    const char *detail = hri_gpu_detail(c->d.gpu);
    c->runs++;
    if (status != HR_OK) {
        c->failures++;
        printf("    FAILED %s: %s: %s\n", what, hr_status_name(status), detail);
    } else if (detail[0]) {
        printf("    by our own kernels: %s: %s\n", what, detail);
    }
    hri_gpu_fail(c->d.gpu, HR_OK, "%s", "");
    fflush(stdout);
    return status != HR_OK;
}

static void compare(check *c, const char *what, const double *a, const double *b, int64_t count,
                    double allowed) {
    const double error = desk_error(a, b, count);
    if (!(error <= allowed)) {
        c->failures++;
        printf("    FAILED %s: off by %.3g, allowed %.3g\n", what, error, allowed);
        fflush(stdout);
    }
}

/* How far two ways to sum in this type may lie apart. */
static double allowed_for(hr_type type, int exact) {
    return type == HR_TYPE_BF16 ? 8e-3 : type == HR_TYPE_F16 ? 1e-3 : exact ? 2e-5 : 2e-3;
}

static const hri_gpu_options library = {0}, exact = {.exact_f32 = 1},
                             own = {.no_cublaslt = 1, .no_cudnn = 1, .exact_f32 = 1};

/* ---- products ---- */

static const product_case product_cases[] = {
    {"qkv", BF, BF, 1, 512, 2304, 768, 0, 1, 1},
    {"proj", BF, BF, 1, 512, 768, 768, 0, 1, 1},
    {"fc", BF, BF, 1, 512, 3072, 768, 0, 0, 1},
    {"fc dx", BF, BF, 1, 512, 768, 3072, 0, 1, 0},
    {"fc dw", BF, BF, 1, 768, 3072, 512, 1, 0, 0},
    {"scores", BF, F3, 1, 512, 2048, 768, 0, 1, 0},
    {"scores of a last block", BF, F3, 1, 512, 1105, 768, 0, 1, 0},
    {"1x1 dw, long sum", BF, BF, 1, 64, 256, 100352, 1, 0, 0},
    {"batched", F1, F1, 24, 256, 64, 256, 0, 0, 0},
    {"f32", F3, F3, 1, 512, 768, 768, 0, 1, 1},
    {"f32 both turned", F3, F3, 1, 100, 200, 300, 1, 1, 0},
    {"odd sizes", BF, BF, 1, 77, 33, 51, 0, 1, 1},
    {"f16 to f32", F1, F3, 2, 128, 96, 80, 0, 0, 0},
};

hri_gpu_matmul product_of(const product_case *p) {
    return (hri_gpu_matmul){
        .a_type = p->type,
        .b_type = p->type,
        .y_type = p->y_type,
        .bias_type = p->y_type,
        .ta = (uint8_t)p->ta,
        .tb = (uint8_t)p->tb,
        .epilogue = p->bias ? HRI_GPU_BIAS : HRI_GPU_PLAIN,
        .batch = p->batch,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .lda = p->ta ? p->m : p->k,
        .ldb = p->tb ? p->k : p->n,
        .ldy = p->n,
        .a_step = p->m * p->k,
        .b_step = p->k * p->n,
        .y_step = p->m * p->n,
    };
}

/* The result of one product with the options in use; NULL when it failed. */
static double *run_product(check *c, const product_case *p, int times) {
    desk *d = &c->d;
    const hri_gpu_matmul x = product_of(p);
    tensor a = desk_random(d, p->type, p->batch * p->m * p->k, 1, 1.0);
    tensor b = desk_random(d, p->type, p->batch * p->k * p->n, 2, 1.0);
    tensor bias = desk_random(d, p->y_type, p->n, 3, 1.0);
    tensor y = desk_tensor(d, p->y_type, p->batch * p->m * p->n);
    const uint64_t bytes = hri_gpu_matmul_workspace(d->gpu, &x, HRI_GPU_LIMIT_MATMUL);
    tensor w = desk_tensor(d, HR_TYPE_U8, (int64_t)bytes);
    int failed = 0;
    for (int i = 0; i < times && !failed; i++) {
        desk_fill(d, &y, 0xff);
        failed = told(c,
                      hri_gpu_matmul_run(d->gpu, &x, a.block.addr, b.block.addr,
                                         p->bias ? bias.block.addr : 0, y.block.addr, w.block.addr,
                                         bytes),
                      p->name);
    }
    double *is = failed ? NULL : desk_read(d, &y);
    desk_free(d, &a), desk_free(d, &b), desk_free(d, &bias), desk_free(d, &y), desk_free(d, &w);
    return is;
}

TEST_TIMEOUT(libs, products_match_our_own, 300) {
    check c;
    enum { COUNT = sizeof product_cases / sizeof product_cases[0] };
    double *want[COUNT];
    check_open(&c, own);
    for (int i = 0; i < COUNT; i++) {
        want[i] = run_product(&c, &product_cases[i], 1);
    }
    for (int way = 0; way < 2; way++) {
        desk_again(&c.d, way ? exact : library);
        for (int i = 0; i < COUNT; i++) {
            const product_case *p = &product_cases[i];
            const int64_t count = p->batch * p->m * p->n;
            double *first = run_product(&c, p, 1), *second = run_product(&c, p, 2);
            if (first && second && want[i]) {
                compare(&c, p->name, first, want[i], count,
                        allowed_for(p->type == F3     ? F3
                                    : p->y_type == F3 ? F1
                                                      : p->y_type,
                                    way));
                if (memcmp(first, second, (size_t)count * sizeof *first) != 0) {
                    c.failures++;
                    printf("    FAILED %s: other bits the second time\n", p->name);
                }
            }
            free(first), free(second);
        }
    }
    for (int i = 0; i < COUNT; i++) {
        free(want[i]);
    }
    check_close(&c);
}

/* ---- convolutions ---- */

const conv_case conv_cases[CONV_COUNT] = {
    {1, BF, 224, 3, 64, 7, 2, 1},     {1, BF, 56, 64, 64, 1, 1, 1},
    {3, BF, 56, 64, 64, 3, 1, 1},     {4, BF, 56, 64, 256, 1, 1, 1},
    {2, BF, 56, 256, 64, 1, 1, 1},    {1, BF, 56, 256, 128, 1, 1, 1},
    {1, BF, 56, 128, 128, 3, 2, 1},   {4, BF, 28, 128, 512, 1, 1, 1},
    {1, BF, 56, 256, 512, 1, 2, 1},   {3, BF, 28, 512, 128, 1, 1, 1},
    {3, BF, 28, 128, 128, 3, 1, 1},   {1, BF, 28, 512, 256, 1, 1, 1},
    {1, BF, 28, 256, 256, 3, 2, 1},   {6, BF, 14, 256, 1024, 1, 1, 1},
    {1, BF, 28, 512, 1024, 1, 2, 1},  {5, BF, 14, 1024, 256, 1, 1, 1},
    {5, BF, 14, 256, 256, 3, 1, 1},   {1, BF, 14, 1024, 512, 1, 1, 1},
    {1, BF, 14, 512, 512, 3, 2, 1},   {3, BF, 7, 512, 2048, 1, 1, 1},
    {1, BF, 14, 1024, 2048, 1, 2, 1}, {2, BF, 7, 2048, 512, 1, 1, 1},
    {2, BF, 7, 512, 512, 3, 1, 1},    {0, F3, 28, 128, 128, 3, 1, 1},
    {0, F1, 28, 128, 128, 3, 2, 1},   {0, BF, 28, 96, 96, 3, 1, 96},
    {0, BF, 14, 64, 128, 3, 1, 4},    {0, F3, 32, 3, 64, 3, 1, 1},
    {0, F3, 56, 64, 64, 1, 2, 1},
};

hri_gpu_conv conv_of(const conv_case *v, int64_t n, int kind) {
    const int64_t pad = v->k / 2, p = (v->h + 2 * pad - v->k) / v->stride + 1;
    return (hri_gpu_conv){
        .kind = (uint8_t)kind,
        .type = v->type,
        .w_type = v->type,
        .n = n,
        .h = v->h,
        .w = v->h,
        .c = v->c,
        .o = v->o,
        .p = p,
        .q = p,
        .kh = v->k,
        .kw = v->k,
        .stride_h = v->stride,
        .stride_w = v->stride,
        .pad_top = pad,
        .pad_left = pad,
        .pad_bottom = pad,
        .pad_right = pad,
        .dilation_h = 1,
        .dilation_w = 1,
        .groups = v->groups,
    };
}

static const char *const kind_names[] = {"forward", "input", "weight"};

const char *conv_name(const conv_case *v, int64_t n, int kind, char *buf, size_t size) {
    snprintf(buf, size, "%s %s %lldx%lldx%lld %lldx%lld/%lld to %lld, %lld groups",
             kind_names[kind], hr_type_name(v->type), (long long)n, (long long)v->h,
             (long long)v->c, (long long)v->k, (long long)v->k, (long long)v->stride,
             (long long)v->o, (long long)v->groups);
    return buf;
}

void conv_sizes(const hri_gpu_conv *x, int64_t out[3]) {
    const int64_t xs = x->n * x->h * x->w * x->c, ys = x->n * x->p * x->q * x->o;
    const int64_t ws = x->kh * x->kw * (x->c / x->groups) * x->o;
    out[0] = x->kind == HRI_GPU_CONV_INPUT ? ys : xs;
    out[1] = x->kind == HRI_GPU_CONV_WEIGHT ? ys : ws;
    out[2] = x->kind == HRI_GPU_CONV_FORWARD ? ys : x->kind == HRI_GPU_CONV_INPUT ? xs : ws;
}

static double *run_conv(check *c, const conv_case *v, int64_t n, int kind) {
    desk *d = &c->d;
    const hri_gpu_conv x = conv_of(v, n, kind);
    char name[160];
    int64_t sizes[3];
    conv_sizes(&x, sizes);
    tensor a = desk_random(d, v->type, sizes[0], 5, 1.0),
           b = desk_random(d, v->type, sizes[1], 6, 1.0);
    tensor y = desk_tensor(d, v->type, sizes[2]);
    const uint64_t bytes = hri_gpu_conv_workspace(d->gpu, &x, HRI_GPU_LIMIT_CONV);
    tensor w = desk_tensor(d, HR_TYPE_U8, (int64_t)bytes);
    desk_fill(d, &y, 0xff);
    const int failed = told(
        c,
        hri_gpu_conv_run(d->gpu, &x, a.block.addr, b.block.addr, y.block.addr, w.block.addr, bytes),
        conv_name(v, n, kind, name, sizeof name));
    double *is = failed ? NULL : desk_read(d, &y);
    desk_free(d, &a), desk_free(d, &b), desk_free(d, &y), desk_free(d, &w);
    return is;
}

TEST_TIMEOUT(libs, convolutions_match_our_own, 400) {
    check c;
    double *want[CONV_COUNT][3];
    check_open(&c, own);
    for (int i = 0; i < CONV_COUNT; i++) {
        for (int kind = 0; kind < 3; kind++) {
            want[i][kind] = run_conv(&c, &conv_cases[i], 4, kind);
        }
    }
    desk_again(&c.d, library);
    for (int i = 0; i < CONV_COUNT; i++) {
        for (int kind = 0; kind < 3; kind++) {
            const conv_case *v = &conv_cases[i];
            const hri_gpu_conv x = conv_of(v, 4, kind);
            char name[160];
            int64_t sizes[3];
            conv_sizes(&x, sizes);
            double *is = run_conv(&c, v, 4, kind);
            if (is && want[i][kind]) {
                compare(&c, conv_name(v, 4, kind, name, sizeof name), is, want[i][kind], sizes[2],
                        allowed_for(v->type, 0));
            }
            free(is), free(want[i][kind]);
        }
    }
    check_close(&c);
}

/* ---- attention ---- */

hri_gpu_attention attention_of(int64_t b, int64_t heads, int64_t t, int64_t d, hr_type type,
                               int causal, int backward) {
    const int64_t row = 3 * heads * d, one = heads * d;
    return (hri_gpu_attention){
        .type = type,
        .b = b,
        .heads = heads,
        .t = t,
        .s = t,
        .d = d,
        .q_stride = {t * row, d, row},
        .k_stride = {t * row, d, row},
        .v_stride = {t * row, d, row},
        .o_stride = {t * one, d, one},
        .dq_stride = {t * row, d, row},
        .dk_stride = {t * row, d, row},
        .dv_stride = {t * row, d, row},
        .do_stride = {t * one, d, one},
        .scale = (float)(1.0 / sqrt((double)d)),
        .causal = (uint8_t)causal,
        .backward = (uint8_t)backward,
    };
}

/* One sample and head of attention and its gradient in double; qkv and dqkv at `row` numbers from place to place. */
static void attend(const hri_gpu_attention *x, const double *q, const double *k, const double *v,
                   const double *dout, int64_t row, double *o, double *dq, double *dk, double *dv) {
    const int64_t one = x->heads * x->d;
    double *p = malloc((size_t)x->t * sizeof *p), *dp = malloc((size_t)x->t * sizeof *dp);
    for (int64_t i = 0; i < x->t; i++) {
        const int64_t end = x->causal ? i + 1 : x->s;
        double most = -INFINITY, sum = 0.0, dot = 0.0;
        for (int64_t j = 0; j < end; j++) {
            p[j] = 0.0;
            for (int64_t e = 0; e < x->d; e++) {
                p[j] += q[i * row + e] * k[j * row + e];
            }
            p[j] *= (double)x->scale;
            most = fmax(most, p[j]);
        }
        for (int64_t j = 0; j < end; j++) {
            p[j] = exp(p[j] - most);
            sum += p[j];
        }
        for (int64_t j = 0; j < end; j++) {
            p[j] /= sum;
            dp[j] = 0.0;
            for (int64_t e = 0; e < x->d; e++) {
                o[i * one + e] += p[j] * v[j * row + e];
                dp[j] += dout[i * one + e] * v[j * row + e];
                dv[j * row + e] += p[j] * dout[i * one + e];
            }
            dot += p[j] * dp[j];
        }
        for (int64_t j = 0; j < end; j++) {
            const double ds = p[j] * (dp[j] - dot) * (double)x->scale;
            for (int64_t e = 0; e < x->d; e++) {
                dq[i * row + e] += ds * k[j * row + e];
                dk[j * row + e] += ds * q[i * row + e];
            }
        }
    }
    free(p), free(dp);
}

static void check_attention(check *c, hr_type type, int64_t b, int64_t heads, int64_t t, int64_t d,
                            int causal) {
    desk *k = &c->d;
    const hri_gpu_attention forward = attention_of(b, heads, t, d, type, causal, 0);
    const hri_gpu_attention backward = attention_of(b, heads, t, d, type, causal, 1);
    const int64_t all = b * t * heads * d, row = 3 * heads * d;
    const uint64_t bytes = hr_type_bytes(type);
    uint64_t need[2] = {0, 0};
    char name[96];
    snprintf(name, sizeof name, "attention %s %lldx%lldx%lldx%lld%s", hr_type_name(type),
             (long long)b, (long long)heads, (long long)t, (long long)d, causal ? " causal" : "");
    if (told(c, hri_gpu_attention_workspace(k->gpu, &forward, &need[0]), name) |
        told(c, hri_gpu_attention_workspace(k->gpu, &backward, &need[1]), name)) {
        return;
    }
    tensor qkv = desk_random(k, type, 3 * all, 11, 1.0), dout = desk_random(k, type, all, 12, 1.0);
    tensor o = desk_tensor(k, type, all), stats = desk_tensor(k, F3, b * heads * t);
    tensor dqkv = desk_tensor(k, type, 3 * all);
    tensor w = desk_tensor(k, HR_TYPE_U8, (int64_t)(need[0] > need[1] ? need[0] : need[1]));
    desk_fill(k, &o, 0xff), desk_fill(k, &dqkv, 0xff);
    const uint64_t step = (uint64_t)(heads * d) * bytes;
    const hri_gpu_attention_at at = {
        .q = qkv.block.addr,
        .k = qkv.block.addr + step,
        .v = qkv.block.addr + 2 * step,
        .o = o.block.addr,
        .stats = stats.block.addr,
        .dout = dout.block.addr,
        .dq = dqkv.block.addr,
        .dk = dqkv.block.addr + step,
        .dv = dqkv.block.addr + 2 * step,
    };
    const hri_gpu_attention_at at_forward = {
        .q = at.q, .k = at.k, .v = at.v, .o = at.o, .stats = at.stats};
    if (!told(c, hri_gpu_attention_run(k->gpu, &forward, &at_forward, w.block.addr), name) &&
        !told(c, hri_gpu_attention_run(k->gpu, &backward, &at, w.block.addr), name)) {
        double *in = desk_read(k, &qkv), *dy = desk_read(k, &dout);
        double *is = desk_read(k, &o), *dis = desk_read(k, &dqkv);
        double *want = calloc((size_t)all, sizeof *want),
               *dwant = calloc((size_t)(3 * all), sizeof *dwant);
        for (int64_t i = 0; i < b * heads; i++) {
            const int64_t from = i / heads * t * row + i % heads * d;
            const int64_t one = i / heads * t * heads * d + i % heads * d, h = heads * d;
            attend(&forward, in + from, in + from + h, in + from + 2 * h, dy + one, row, want + one,
                   dwant + from, dwant + from + h, dwant + from + 2 * h);
        }
        compare(c, name, is, want, all, allowed_for(type, 0));
        snprintf(name + strlen(name), 16, ", gradient");
        compare(c, name, dis, dwant, 3 * all, 2 * allowed_for(type, 0));
        free(in), free(dy), free(is), free(dis), free(want), free(dwant);
    }
    desk_free(k, &qkv), desk_free(k, &dout), desk_free(k, &o), desk_free(k, &stats);
    desk_free(k, &dqkv), desk_free(k, &w);
}

TEST_TIMEOUT(libs, attention_matches_the_host, 300) {
    check c;
    check_open(&c, library);
    check_attention(&c, BF, 2, 12, 256, 64, 1);
    check_attention(&c, F1, 2, 4, 197, 64, 0);
    check_attention(&c, BF, 1, 3, 96, 128, 1);
    check_close(&c);
}
