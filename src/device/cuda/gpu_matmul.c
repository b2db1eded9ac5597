/* Matrix products: cuBLASLt where it is, our own kernels otherwise.
 *
 * A product is met first when its work space is asked for: it is described to the library, and its algorithms under the
 * limit are listed; the largest need of those is the answer, or that of the one that was chosen already.  In the first
 * trial one is chosen and alone kept (gpu_tune.h).  Without a trial the library's own guess is taken.
 *
 * A product that adds to its result has the algorithm of the same one without the addition. */
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "device/cuda/cublaslt.h"
#include "device/cuda/gpu_product.h"
#include "device/cuda/gpu_tune.h"

typedef struct blas {
    hri_lt lt;
    hri_strmap products; /* key -> product * */
} blas;

typedef struct product {
    hri_lt_product desc;
    hri_lt_algorithm algorithms[HRI_GPU_CANDIDATES];
    uint32_t count; /* 0: the library refuses it; 1 once one was chosen */
    int tuned;
} product;

static void close_blas(void *part) {
    blas *b = part;
    uint64_t at_product;
    for (size_t at = 0; hri_strmap_next(&b->products, &at, NULL, &at_product);) {
        product *p = (product *)(uintptr_t)at_product;
        hri_lt_product_deinit(&b->lt, &p->desc);
        hri_free(p);
    }
    hri_strmap_deinit(&b->products);
    hri_lt_unload(&b->lt);
    hri_free(b);
}

/* NULL: there is no cuBLASLt, or no memory for its records. */
static blas *blas_of(hri_gpu *gpu) {
    blas *b = gpu->libs->part[HRI_GPU_PART_BLAS];
    int pushed;
    if (!b && !gpu->options.no_cublaslt && !gpu->capturing &&
        hri_cuda_enter(gpu->dev, &pushed) == HR_OK) {
        b = hri_calloc(1, sizeof *b);
        if (b) {
            hri_lt_load(&b->lt);
            hri_lt_start(&b->lt); /* in the context that is current */
            if (!b->lt.usable) {
                hri_gpu_fail(gpu, HR_E_UNSUPPORTED, "cuBLASLt is not available: %s", b->lt.why_not);
            }
            gpu->libs->part[HRI_GPU_PART_BLAS] = b;
            gpu->libs->close[HRI_GPU_PART_BLAS] = close_blas;
        }
        hri_cuda_leave(gpu->dev, pushed);
    }
    return b && b->lt.usable ? b : NULL;
}

void hri_gpu_blas_version(hri_gpu *gpu, char *buf, size_t size) {
    const blas *b = gpu->libs->part[HRI_GPU_PART_BLAS];
    if (b && b->lt.usable) {
        snprintf(buf, size, "%zu", b->lt.version);
    } else {
        snprintf(buf, size, "none");
    }
}

static void key_of(hri_gpu *gpu, const blas *b, const hri_gpu_matmul *x, char *out) {
    snprintf(out, HRI_GPU_KEY,
             "matmul %zu %s %d %d%d%d%d %d%d%d %lld %lld %lld %lld %lld %lld %lld %lld %lld %lld",
             b->lt.version, gpu->dev->description, gpu->options.exact_f32, x->a_type, x->b_type,
             x->y_type, x->epilogue == HRI_GPU_BIAS ? (int)x->bias_type : 0, x->ta, x->tb,
             x->epilogue, (long long)x->batch, (long long)x->m, (long long)x->n, (long long)x->k,
             (long long)x->lda, (long long)x->ldb, (long long)x->ldy, (long long)x->a_step,
             (long long)x->b_step, (long long)x->y_step);
}

static void tag_of(const hri_lt_algorithm *a, char *out) {
    for (int i = 0; i < 8; i++) {
        snprintf(out + i * 16, 17, "%016llx", (unsigned long long)a->algo.data[i]);
    }
}

/* Puts the algorithm that was chosen before in front, alone. */
static void recall(hri_gpu *gpu, const char *key, product *p) {
    const char *wanted = hri_gpu_choice_get(gpu, key);
    for (uint32_t i = 0; wanted && i < p->count; i++) {
        char tag[129];
        tag_of(&p->algorithms[i], tag);
        if (strcmp(tag, wanted) == 0) {
            p->algorithms[0] = p->algorithms[i];
            p->count = 1;
            p->tuned = 1;
            return;
        }
    }
}

/* The record of a product; NULL when our own kernels do it. */
static product *product_of(hri_gpu *gpu, blas *b, const hri_gpu_matmul *x, const char *key) {
    uint64_t found;
    if (hri_strmap_get(&b->products, key, &found)) {
        product *p = (product *)(uintptr_t)found;
        return p->count ? p : NULL;
    }
    product *p = hri_calloc(1, sizeof *p);
    if (!p || hri_strmap_put(&b->products, key, (uint64_t)(uintptr_t)p) != HR_OK) {
        hri_free(p);
        return NULL;
    }
    if (x->a_type != x->b_type ||
        hri_lt_product_init(&b->lt, x, gpu->options.exact_f32, &p->desc) != HR_OK ||
        hri_lt_algorithms(&b->lt, &p->desc, HRI_GPU_LIMIT_MATMUL, p->algorithms,
                          hri_gpu_candidates(gpu), &p->count) != HR_OK) {
        p->count = 0;
        hri_gpu_fail(gpu, HR_E_UNSUPPORTED, "cuBLASLt: %s", p->desc.text);
        return NULL;
    }
    recall(gpu, key, p);
    return p;
}

/* What the algorithms within the limit need at most. */
static uint64_t need_of(const product *p, uint64_t limit) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const uint64_t bytes = p->algorithms[i].workspace_bytes;
        most = bytes <= limit && bytes > most ? bytes : most;
    }
    return most;
}

uint64_t hri_gpu_matmul_workspace(hri_gpu *gpu, const hri_gpu_matmul *x, uint64_t limit) {
    blas *b = blas_of(gpu);
    char key[HRI_GPU_KEY];
    int pushed;
    product *p = NULL;
    if (b && hri_cuda_enter(gpu->dev, &pushed) == HR_OK) {
        key_of(gpu, b, x, key);
        p = product_of(gpu, b, x, key);
        hri_cuda_leave(gpu->dev, pushed);
    }
    return p ? need_of(p, limit) : hri_gpu_own_matmul_workspace(gpu, x, limit);
}

typedef struct attempt {
    hri_gpu *gpu;
    blas *b;
    product *p;
    const hri_gpu_matmul *x;
    hr_addr at[4], workspace; /* a, b, bias, y */
    uint64_t workspace_bytes;
    int add;
} attempt;

static const void *address(hr_addr at) {
    return (const void *)(uintptr_t)at;
}

static hr_status try_one(void *user, uint32_t index) {
    const attempt *t = user;
    const hri_lt_algorithm *a = &t->p->algorithms[index];
    if (a->workspace_bytes > t->workspace_bytes) {
        return HR_E_UNSUPPORTED;
    }
    return hri_lt_run(&t->b->lt, &t->p->desc, a, t->add, address(t->at[0]), address(t->at[1]),
                      t->x->epilogue == HRI_GPU_BIAS ? address(t->at[2]) : NULL,
                      (void *)(uintptr_t)t->at[3], (void *)(uintptr_t)t->workspace,
                      a->workspace_bytes, t->gpu->stream);
}

/* From the first element to the last, `batch` matrices of so many rows and columns. */
static int64_t reach(int64_t batch, int64_t step, int64_t rows, int64_t columns, int64_t ld) {
    return (batch - 1) * step + (rows - 1) * ld + columns;
}

/* As long as a trial is on: operands are made up, and the result is spoiled. */
static hr_status choose(attempt *t, const char *key) {
    const hri_gpu_matmul *x = t->x;
    product *p = t->p;
    const int64_t whole = INT64_MAX;
    const hri_gpu_operand operands[] = {
        {.at = t->at[0],
         .type = x->a_type,
         .top = 3,
         .count = x->ta ? reach(x->batch, x->a_step, x->k, x->m, x->lda)
                        : reach(x->batch, x->a_step, x->m, x->k, x->lda),
         .stride = x->ta ? x->lda : 1,
         .period = !x->ta      ? x->lda
                   : x->a_step ? x->a_step
                               : whole,
         .extent = x->k},
        {.at = t->at[1],
         .type = x->b_type,
         .top = 3,
         .negate = 1,
         .count = x->tb ? reach(x->batch, x->b_step, x->n, x->k, x->ldb)
                        : reach(x->batch, x->b_step, x->k, x->n, x->ldb),
         .stride = x->tb ? 1 : x->ldb,
         .period = x->tb       ? x->ldb
                   : x->b_step ? x->b_step
                               : whole,
         .extent = x->k},
        {.at = t->at[2],
         .type = x->bias_type,
         .top = -8,
         .count = x->n,
         .stride = 1,
         .period = 1,
         .extent = 1},
    };
    const hri_gpu_result result = {t->at[3],
                                   (uint64_t)reach(x->batch, x->y_step, x->m, x->n, x->ldy) *
                                       hr_type_bytes(x->y_type)};
    const hri_gpu_contest contest = {.count = p->count,
                                     .run = try_one,
                                     .user = t,
                                     .operands = operands,
                                     .operand_count = x->epilogue == HRI_GPU_BIAS ? 3 : 2,
                                     .results = &result,
                                     .result_count = 1};
    char tags[HRI_GPU_CANDIDATES][129];
    const char *names[HRI_GPU_CANDIDATES];
    for (uint32_t i = 0; i < p->count; i++) {
        tag_of(&p->algorithms[i], tags[i]);
        names[i] = tags[i];
    }
    uint32_t best = 0;
    hri_hash128 digest;
    const hr_status status = hri_gpu_pick(t->gpu, key, &contest, names, &best, &digest);
    if (status == HR_OK) {
        hri_gpu_choice_put(t->gpu, key, names[best], digest);
        p->algorithms[0] = p->algorithms[best]; /* from now on its need is the answer */
        p->count = 1;
    }
    return status;
}

static hr_status run_library(attempt *t, const char *key) {
    product *p = t->p;
    if (!p->tuned && t->gpu->trial_at && !t->gpu->capturing) {
        t->add = 0;
        const hr_status chosen = choose(t, key);
        if (chosen != HR_OK && chosen != HR_E_UNSUPPORTED) {
            return chosen;
        }
        p->tuned = 1;
    }
    t->add = t->x->add;
    hri_gpu_choice_used(t->gpu, key);
    hr_status status = HR_E_UNSUPPORTED;
    for (uint32_t i = 0; i < p->count && status == HR_E_UNSUPPORTED; i++) {
        status = try_one(t, i);
    }
    return status == HR_E_DEVICE
               ? hri_gpu_fail(t->gpu, status, "cuBLASLt: %s (%s)", p->desc.text, key)
               : status;
}

hr_status hri_gpu_matmul_run(hri_gpu *gpu, const hri_gpu_matmul *x, hr_addr a, hr_addr b,
                             hr_addr bias, hr_addr y, hr_addr workspace, uint64_t workspace_bytes) {
    attempt t = {.gpu = gpu,
                 .b = blas_of(gpu),
                 .x = x,
                 .at = {a, b, bias, y},
                 .workspace = workspace,
                 .workspace_bytes = workspace_bytes};
    char key[HRI_GPU_KEY];
    int pushed;
    hr_status status = hri_gpu_ready(gpu);
    if (status != HR_OK) {
        return status;
    }
    if (x->batch * x->m * x->n == 0) {
        return HR_OK;
    }
    if (t.b && ((a | b | bias | y) & 15) == 0) {
        status = hri_cuda_enter(gpu->dev, &pushed);
        if (status != HR_OK) {
            return status;
        }
        key_of(gpu, t.b, x, key);
        t.p = product_of(gpu, t.b, x, key);
        status = t.p ? run_library(&t, key) : HR_E_UNSUPPORTED;
        hri_cuda_leave(gpu->dev, pushed);
        if (status != HR_E_UNSUPPORTED) {
            return status;
        }
    }
    return hri_gpu_own_matmul(gpu, x, a, b, bias, y, workspace, workspace_bytes);
}
