/* Convolutions: a product where it is one, cuDNN where it is there, our own kernels otherwise.
 *
 * A window of one pixel without stride or padding is a matrix product of the images as they lie (gpu_matmul.c): no
 * weights have to be turned.  Where cuDNN gives the same bits, which is nearly everywhere, the faster of the two is kept;
 * else the product.  For cuDNN the weights are turned in work space, which therefore holds
 *
 *   weights (O, KH, KW, C / groups)   the engine's own
 *
 * and before that, where pictures have few channels, what is folded (gpu_fold.h).  The gradient of such weights is a kernel of ours
 * (gpu_stem.h).  Where their windows lie side by side, patches of them are sorted for a product (gpu_patches.h).
 *
 * Engines are found, chosen and kept as the algorithms of products are (gpu_matmul.c).  Engines that need far more than
 * the library's first guess are left out, because the plan has to hold the largest need until one is chosen. */
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "device/cuda/gpu_dnn.h"
#include "device/cuda/gpu_fold.h"
#include "device/cuda/gpu_patches.h"
#include "device/cuda/gpu_product.h"
#include "device/cuda/gpu_stem.h"

HRI_CU(turn);

enum { CHEAP = 32 << 20 };
enum { UID_X = 1, UID_W, UID_Y };

uint64_t hri_gpu_conv_limit(const hri_gpu_conv *x) {
    const int64_t images = x->n * (x->h * x->w * x->c + x->p * x->q * x->o);
    const uint64_t half = (uint64_t)images * hr_type_bytes(x->type) / 2;
    return half > HRI_GPU_LIMIT_CONV ? half : HRI_GPU_LIMIT_CONV;
}

/* ---- as a product ---- */

static int is_product(const hri_gpu_conv *x) {
    return x->kh == 1 && x->kw == 1 && x->stride_h == 1 && x->stride_w == 1 && x->groups == 1 &&
           x->h == x->p && x->w == x->q && !x->pad_top && !x->pad_left;
}

static hri_gpu_matmul as_product(const hri_gpu_conv *x) {
    const int64_t pixels = x->n * x->h * x->w;
    hri_gpu_matmul y = {.a_type = x->type, .b_type = x->type, .y_type = x->type, .batch = 1};
    switch ((hri_gpu_conv_kind)x->kind) {
    case HRI_GPU_CONV_FORWARD: /* y (pixels, O) = x w */
        y.m = pixels, y.n = x->o, y.k = x->c;
        y.lda = x->c, y.ldb = x->o, y.ldy = x->o;
        break;
    case HRI_GPU_CONV_INPUT: /* dx (pixels, C) = dy w^T */
        y.m = pixels, y.n = x->c, y.k = x->o, y.tb = 1;
        y.lda = x->o, y.ldb = x->o, y.ldy = x->c;
        break;
    case HRI_GPU_CONV_WEIGHT: /* dw (C, O) = x^T dy */
        y.m = x->c, y.n = x->o, y.k = pixels, y.ta = 1, y.y_type = x->w_type;
        y.lda = x->c, y.ldb = x->o, y.ldy = x->o;
        break;
    }
    return y;
}

/* ---- by cuDNN ---- */

static cudnnBackendDescriptor_t image(hri_dnn_graph *g, int64_t uid, hr_type type, int64_t n,
                                      int64_t h, int64_t w, int64_t c) {
    const int64_t dim[4] = {n, c, h, w}, stride[4] = {h * w * c, 1, w * c, c};
    return hri_dnn_tensor(g, uid, hri_dnn_type(type), 4, dim, stride, 0);
}

void hri_gpu_conv_graph(hri_dnn_graph *g, const hri_gpu_conv *x) {
    const hri_dnn_window window = {
        .stride = {x->stride_h, x->stride_w},
        .before = {x->pad_top, x->pad_left},
        .after = {x->pad_bottom, x->pad_right},
        .dilation = {x->dilation_h, x->dilation_w},
    };
    cudnnBackendDescriptor_t xs = image(g, UID_X, x->type, x->n, x->h, x->w, x->c);
    cudnnBackendDescriptor_t ws = image(g, UID_W, x->type, x->o, x->kh, x->kw, x->c / x->groups);
    cudnnBackendDescriptor_t ys = image(g, UID_Y, x->type, x->n, x->p, x->q, x->o);
    hri_dnn_convolution(g, x->kind, &window, xs, ws, ys);
}

static void key_of(hri_gpu *gpu, const hri_gpu_conv *x, char *out) {
    snprintf(out, HRI_GPU_KEY,
             "conv %zu %s %d %d %d %lldx%lldx%lldx%lld %lldx%lldx%lld %lldx%lld %lld,%lld "
             "%lld,%lld,%lld,%lld %lld,%lld %lld",
             hri_gpu_dnn(gpu)->version, gpu->dev->description, gpu->options.exact_f32, x->kind,
             x->type, (long long)x->n, (long long)x->h, (long long)x->w, (long long)x->c,
             (long long)x->p, (long long)x->q, (long long)x->o, (long long)x->kh, (long long)x->kw,
             (long long)x->stride_h, (long long)x->stride_w, (long long)x->pad_top,
             (long long)x->pad_left, (long long)x->pad_bottom, (long long)x->pad_right,
             (long long)x->dilation_h, (long long)x->dilation_w, (long long)x->groups);
}

/* Engine 17 of weight gradients has no note that says so, but is off by ten times what sums in f32 are (seen with cuDNN 9.14, 3 x 3, by
 * test_conformance cuda/conv2d_weight on an H200; engines 0, 1 and 67 are not). */
enum { INEXACT_ENGINE = 17 };

static hr_status build(hri_gpu *gpu, const void *problem, const char *tag, hri_gpu_dnn_record *r) {
    const hri_gpu_conv *x = problem;
    const int exact = x->type == HR_TYPE_F32 && gpu->options.exact_f32;
    const hri_dnn_wish wish = {
        .limit_bytes = hri_gpu_conv_limit(x),
        .deterministic = 1,
        .exact = exact,
        .tag = tag,
        .without = exact && x->kind == HRI_GPU_CONV_WEIGHT ? INEXACT_ENGINE + 1 : 0,
    };
    hri_gpu_conv_graph(&r->graph, x);
    const hr_status status =
        hri_dnn_plans(&r->graph, &wish, r->plans, hri_gpu_candidates(gpu), &r->count);
    if (status != HR_OK) {
        return status;
    }
    const uint64_t first = r->plans[0].workspace_bytes, cap = first > CHEAP ? first : CHEAP;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        if (r->plans[i].workspace_bytes <= cap) {
            r->plans[kept++] = r->plans[i];
        }
    }
    r->count = kept;
    return HR_OK;
}

/* NULL: our own kernels do it. */
static hri_gpu_dnn_record *record_of(hri_gpu *gpu, const hri_gpu_conv *x, char *key) {
    if (!hri_gpu_dnn(gpu) || x->n * x->p * x->q * x->o * x->c == 0) {
        return NULL;
    }
    key_of(gpu, x, key);
    return hri_gpu_dnn_find(gpu, key, x, build);
}

static uint64_t weights_bytes(const hri_gpu_conv *x) {
    return hri_gpu_aligned((uint64_t)(x->o * x->kh * x->kw * (x->c / x->groups)) *
                           hr_type_bytes(x->type));
}

static uint64_t dnn_workspace(const hri_gpu_conv *x, const hri_gpu_dnn_record *r, uint64_t limit) {
    const uint64_t weights = weights_bytes(x);
    return weights + hri_gpu_dnn_need(r, limit > weights ? limit - weights : 0);
}

/* ---- which way ---- */

/* PRODUCT for what is one, DNN where cuDNN takes it, OWN else; EITHER is a product that cuDNN takes too, not tried yet; FOLD by cuDNN
 * over what is folded, OURS by our kernel. */
typedef enum way { OWN, PRODUCT, DNN, EITHER, FOLD, OURS } way;

/* `key` gets the key of the convolution where there is a record; `folded` is set with FOLD and OURS. */
static way way_of(hri_gpu *gpu, const hri_gpu_conv *x, char *key, hri_gpu_dnn_record **out,
                  hri_gpu_conv *folded) {
    const int folds = hri_gpu_folds(x, folded);
    if (folds && hri_gpu_folded_is_ours(gpu, folded)) {
        *out = NULL;
        return OURS;
    }
    hri_gpu_dnn_record *r = folds ? record_of(gpu, folded, key) : NULL;
    if (r) {
        *out = r;
        return FOLD;
    }
    r = record_of(gpu, x, key);
    *out = r;
    if (!r || !is_product(x)) {
        return r ? DNN : is_product(x) ? PRODUCT : OWN;
    }
    const int chosen = hri_gpu_chosen(gpu, key);
    return chosen < 0 ? EITHER : chosen ? DNN : PRODUCT;
}

uint64_t hri_gpu_conv_workspace(hri_gpu *gpu, const hri_gpu_conv *x, uint64_t limit) {
    char key[HRI_GPU_KEY];
    hri_gpu_dnn_record *r;
    hri_gpu_conv folded;
    if (hri_gpu_is_patches(x)) {
        return hri_gpu_patches_bytes(gpu, x, limit);
    }
    if (hri_gpu_is_stem(gpu, x)) {
        return hri_gpu_stem_bytes(x);
    }
    const way w = way_of(gpu, x, key, &r, &folded);
    if (w == OURS) {
        return hri_gpu_fold_bytes(&folded);
    }
    if (w == FOLD) {
        const uint64_t fold = hri_gpu_fold_bytes(&folded);
        return fold + dnn_workspace(&folded, r, limit > fold ? limit - fold : 0);
    }
    const int library = (w == DNN || w == EITHER) && weights_bytes(x) < limit;
    const uint64_t dnn = library ? dnn_workspace(x, r, limit) : 0;
    if (w == PRODUCT || w == EITHER) {
        const hri_gpu_matmul y = as_product(x);
        const uint64_t most = limit < HRI_GPU_LIMIT_MATMUL ? limit : HRI_GPU_LIMIT_MATMUL;
        const uint64_t product = hri_gpu_matmul_workspace(gpu, &y, most);
        return product > dnn ? product : dnn;
    }
    return library ? dnn : hri_gpu_own_conv_workspace(gpu, x, limit);
}

static hr_status turn(hri_gpu *gpu, hr_type type, hr_type to_type, hr_addr from, hr_addr to,
                      int64_t rows, int64_t columns) {
    static const char *const names[] = {"float", "hr_bf16", "hr_f16"};
    char defines[48];
    const char *a = names[type == HR_TYPE_F16 ? 2 : type == HR_TYPE_BF16];
    const char *b = names[to_type == HR_TYPE_F16 ? 2 : to_type == HR_TYPE_BF16];
    const hri_gpu_grid grid = {.x = (uint32_t)((columns + 31) / 32),
                               .y = (uint32_t)((rows + 31) / 32),
                               .threads = 256,
                               .shared_bytes = 32 * 33 * sizeof(float)};
    snprintf(defines, sizeof defines, "-DHR_T=%s -DHR_Y=%s", a, b);
    return hri_gpu_launch(gpu, &hri_cu_turn, defines, "turn", &grid,
                          HRI_GPU_ARGS(&from, &to, &rows, &columns));
}

/* What is read when it is chosen: the two operands in the order of the kind, `second` as our weights lie or, with
 * `turned`, as the library's. */
static void made_up(const hri_gpu_conv *x, hr_addr first, hr_addr second, int turned,
                    hri_gpu_operand out[2]) {
    const int64_t cg = x->c / x->groups, og = x->o / x->groups, window = x->kh * x->kw;
    const int64_t image = x->h * x->w * x->c, result = x->p * x->q * x->o;
    out[0] = (hri_gpu_operand){.at = first, .type = x->type, .top = 3, .stride = 1};
    out[1] = (hri_gpu_operand){.at = second, .type = x->type, .top = 3, .stride = 1, .negate = 1};
    if (x->kind == HRI_GPU_CONV_WEIGHT) { /* summed over images */
        out[0].count = out[0].period = x->n * image, out[0].stride = image;
        out[1].count = out[1].period = x->n * result, out[1].stride = result;
        out[0].extent = out[1].extent = x->n;
        return;
    }
    const int forward = x->kind == HRI_GPU_CONV_FORWARD;
    const int64_t inner = forward ? cg : og;
    out[0].count = x->n * (forward ? image : result);
    out[1].count = x->o * window * cg;
    out[0].period = out[0].extent = out[1].extent = inner;
    out[1].stride = forward ? (turned ? 1 : x->o) : turned ? window * cg : 1;
    out[1].period = inner * out[1].stride;
}

static uint64_t result_bytes(const hri_gpu_conv *x) {
    const int64_t cg = x->c / x->groups;
    const int64_t count = x->kind == HRI_GPU_CONV_FORWARD ? x->n * x->p * x->q * x->o
                          : x->kind == HRI_GPU_CONV_INPUT ? x->n * x->h * x->w * x->c
                                                          : x->o * x->kh * x->kw * cg;
    return (uint64_t)count;
}

static hr_status run_dnn(hri_gpu *gpu, const hri_gpu_conv *x, hri_gpu_dnn_record *r,
                         const char *key, hr_addr first, hr_addr second, hr_addr result,
                         hr_addr workspace, uint64_t workspace_bytes) {
    const int64_t rows = x->kh * x->kw * (x->c / x->groups);
    const uint64_t weights = weights_bytes(x);
    hr_addr at[3] = {first, workspace, result}; /* x, w, y */
    hr_status status = HR_OK;
    if (workspace_bytes < weights || ((first | second | result) & 15)) {
        return HR_E_UNSUPPORTED;
    }
    if (x->kind == HRI_GPU_CONV_INPUT) { /* dy, w -> dx */
        at[0] = result, at[2] = first;
    } else if (x->kind == HRI_GPU_CONV_WEIGHT) { /* x, dy -> dw */
        at[2] = second;
    }
    if (x->kind != HRI_GPU_CONV_WEIGHT) {
        status = turn(gpu, x->type, x->type, second, workspace, rows, x->o);
    }
    const hri_dnn_bound bound[] = {{UID_X, (const void *)(uintptr_t)at[0]},
                                   {UID_W, (const void *)(uintptr_t)at[1]},
                                   {UID_Y, (const void *)(uintptr_t)at[2]}};
    const int weight = x->kind == HRI_GPU_CONV_WEIGHT;
    hri_gpu_operand operands[2];
    made_up(x, first, weight ? second : workspace, 1, operands);
    const hri_gpu_result made = {weight ? workspace : result,
                                 result_bytes(x) * hr_type_bytes(x->type)};
    const hri_gpu_contest contest = {
        .operands = operands, .operand_count = 2, .results = &made, .result_count = 1};
    if (status == HR_OK) {
        status = hri_gpu_dnn_run(gpu, r, key, &contest, bound, 3, workspace + weights,
                                 workspace_bytes - weights);
    }
    if (status == HR_OK && x->kind == HRI_GPU_CONV_WEIGHT) {
        status = turn(gpu, x->type, x->w_type, workspace, result, x->o, rows);
    }
    return status;
}

/* The same over what is folded first; `y` is that convolution.  r NULL: by our kernel. */
static hr_status run_folded(hri_gpu *gpu, const hri_gpu_conv *x, const hri_gpu_conv *y,
                            hri_gpu_dnn_record *r, const char *key, hr_addr image, hr_addr weights,
                            hr_addr result, hr_addr workspace, uint64_t workspace_bytes) {
    const uint64_t fold = hri_gpu_fold_bytes(y);
    hr_addr at[2];
    if (workspace_bytes < fold) {
        return HR_E_UNSUPPORTED;
    }
    const hr_status status = hri_gpu_fold(gpu, x, y, image, weights, workspace, at);
    if (status == HR_OK && !r) {
        return hri_gpu_folded_conv(gpu, y, at[0], at[1], result);
    }
    return status == HR_OK ? run_dnn(gpu, y, r, key, at[0], at[1], result, workspace + fold,
                                     workspace_bytes - fold)
                           : status;
}

typedef struct attempt {
    hri_gpu *gpu;
    const hri_gpu_conv *x;
    hri_gpu_dnn_record *r;
    const char *key;
    hr_addr first, second, result, workspace;
    uint64_t workspace_bytes;
} attempt;

static hr_status run_product(const attempt *t) {
    const hri_gpu_matmul y = as_product(t->x);
    return hri_gpu_matmul_run(t->gpu, &y, t->first, t->second, 0, t->result, t->workspace,
                              t->workspace_bytes);
}

static hr_status run_library(const attempt *t) {
    return run_dnn(t->gpu, t->x, t->r, t->key, t->first, t->second, t->result, t->workspace,
                   t->workspace_bytes);
}

static hr_status try_way(void *user, uint32_t index) {
    return index ? run_library(user) : run_product(user);
}

/* Both ways, each with the best of its own. */
static way decide(attempt *t) {
    const hri_gpu_conv *x = t->x;
    const hr_type type = x->kind == HRI_GPU_CONV_WEIGHT ? x->w_type : x->type;
    const hri_gpu_result result = {t->result, result_bytes(x) * hr_type_bytes(type)};
    hri_gpu_operand operands[2];
    made_up(x, t->first, t->second, 0, operands);
    const hri_gpu_contest contest = {.count = 2,
                                     .run = try_way,
                                     .user = t,
                                     .operands = operands,
                                     .operand_count = 2,
                                     .results = &result,
                                     .result_count = 1};
    uint32_t best = 0;
    if (t->gpu->trial_at && !t->gpu->capturing && run_library(t) == HR_OK &&
        run_product(t) == HR_OK && hri_gpu_choose(t->gpu, t->key, &contest, &best) != HR_OK) {
        best = 0;
    }
    return best ? DNN : PRODUCT;
}

hr_status hri_gpu_conv_run(hri_gpu *gpu, const hri_gpu_conv *x, hr_addr first, hr_addr second,
                           hr_addr result, hr_addr workspace, uint64_t workspace_bytes) {
    char key[HRI_GPU_KEY];
    attempt t = {.gpu = gpu,
                 .x = x,
                 .key = key,
                 .first = first,
                 .second = second,
                 .result = result,
                 .workspace = workspace,
                 .workspace_bytes = workspace_bytes};
    hri_gpu_conv folded;
    if (hri_gpu_is_patches(x)) {
        return hri_gpu_patches_run(gpu, x, first, second, result, workspace, workspace_bytes);
    }
    if (hri_gpu_is_stem(gpu, x)) {
        return workspace_bytes < hri_gpu_stem_bytes(x)
                   ? HR_E_UNSUPPORTED
                   : hri_gpu_stem_weight(gpu, x, first, second, result, workspace);
    }
    way w = way_of(gpu, x, key, &t.r, &folded);
    if (w == EITHER) {
        w = decide(&t);
    }
    hr_status status = HR_E_UNSUPPORTED;
    if (w == DNN) {
        status = run_library(&t);
    } else if (w == FOLD || w == OURS) {
        status = run_folded(gpu, x, &folded, t.r, key, first, second, result, workspace,
                            workspace_bytes);
    }
    if (status == HR_E_UNSUPPORTED && is_product(x)) {
        status = run_product(&t);
    }
    return status == HR_E_UNSUPPORTED
               ? hri_gpu_own_conv(gpu, x, first, second, result, workspace, workspace_bytes)
               : status;
}
