/* See cublaslt.h. */
#include "device/cuda/cublaslt.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include "base/fault.h"

static const hri_cuda_entry entries[] = {
#define HRI_LT_FN(RETURNS, NAME, PARAMETERS) {#NAME, "", offsetof(hri_lt, NAME), 1},
#include "device/cuda/cublaslt_api.def"
#undef HRI_LT_FN
};

void hri_lt_load(hri_lt *out) {
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", NULL};
    memset(out, 0, sizeof *out);
    out->library = hri_cuda_library_open(names, out->why_not);
    if (!out->library || !hri_cuda_library_find(out->library, out, entries,
                                                sizeof entries / sizeof entries[0], out->why_not)) {
        return;
    }
    out->version = out->cublasLtGetVersion();
    out->found = 1;
}

void hri_lt_start(hri_lt *lt) {
    if (lt->found) {
        const cublasStatus_t status = lt->cublasLtCreate(&lt->handle);
        lt->usable = status == CUBLAS_STATUS_SUCCESS;
        if (!lt->usable) {
            snprintf(lt->why_not, sizeof lt->why_not, "cublasLtCreate: %s",
                     lt->cublasLtGetStatusString(status));
        }
    }
}

void hri_lt_unload(hri_lt *lt) {
    if (lt->usable) {
        lt->cublasLtDestroy(lt->handle);
    }
    if (lt->library) {
        dlclose(lt->library);
    }
    memset(lt, 0, sizeof *lt);
}

static cudaDataType_t data_type(hr_type type) {
    return type == HR_TYPE_F16 ? CUDA_R_16F : type == HR_TYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* Keeps the first refusal in words. */
static int good(const hri_lt *lt, hri_lt_product *p, const char *what, cublasStatus_t status) {
    if (status == CUBLAS_STATUS_SUCCESS) {
        return 1;
    }
    snprintf(p->text, sizeof p->text, "%s: %s", what, lt->cublasLtGetStatusString(status));
    return 0;
}

static int layout(const hri_lt *lt, hri_lt_product *p, const char *what, hr_type type, int64_t rows,
                  int64_t cols, int64_t ld, int64_t batch, int64_t step,
                  cublasLtMatrixLayout_t *out) {
    const int32_t count = (int32_t)batch;
    if (!good(lt, p, what,
              lt->cublasLtMatrixLayoutCreate(out, data_type(type), (uint64_t)rows, (uint64_t)cols,
                                             ld))) {
        return 0;
    }
    return batch == 1 ||
           (good(lt, p, what,
                 lt->cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                      &count, sizeof count)) &&
            good(lt, p, what,
                 lt->cublasLtMatrixLayoutSetAttribute(
                     *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof step)));
}

static int set(const hri_lt *lt, hri_lt_product *p, const char *what,
               cublasLtMatmulDescAttributes_t name, const void *value, size_t bytes) {
    return good(lt, p, what, lt->cublasLtMatmulDescSetAttribute(p->desc, name, value, bytes));
}

static int describe(const hri_lt *lt, const hri_gpu_matmul *x, int exact, hri_lt_product *p) {
    const int f32 = x->a_type == HR_TYPE_F32;
    const cublasComputeType_t compute =
        f32 && !exact ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    /* The library's first operand is our b, seen by columns: (N, K), or (K, N) to be turned. */
    const int32_t first = x->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t second = x->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    if (!good(lt, p, "cublasLtMatmulDescCreate",
              lt->cublasLtMatmulDescCreate(&p->desc, compute, CUDA_R_32F)) ||
        !set(lt, p, "TRANSA", CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first) ||
        !set(lt, p, "TRANSB", CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second)) {
        return 0;
    }
    if (x->epilogue == HRI_GPU_BIAS) {
        const int32_t epilogue = CUBLASLT_EPILOGUE_BIAS, type = (int32_t)data_type(x->bias_type);
        const void *aligned = (const void *)(uintptr_t)16; /* algorithms go by its alignment */
        if (!set(lt, p, "EPILOGUE", CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue) ||
            !set(lt, p, "BIAS_DATA_TYPE", CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type,
                 sizeof type) ||
            !set(lt, p, "BIAS_POINTER", CUBLASLT_MATMUL_DESC_BIAS_POINTER, &aligned,
                 sizeof aligned)) {
            return 0;
        }
    }
    return layout(lt, p, "layout of b", x->b_type, x->tb ? x->k : x->n, x->tb ? x->n : x->k, x->ldb,
                  x->batch, x->b_step, &p->b) &&
           layout(lt, p, "layout of a", x->a_type, x->ta ? x->m : x->k, x->ta ? x->k : x->m, x->lda,
                  x->batch, x->a_step, &p->a) &&
           layout(lt, p, "layout of y", x->y_type, x->n, x->m, x->ldy, x->batch, x->y_step, &p->y);
}

hr_status hri_lt_product_init(const hri_lt *lt, const hri_gpu_matmul *x, int exact,
                              hri_lt_product *out) {
    memset(out, 0, sizeof *out);
    if (x->batch > INT32_MAX || !x->m || !x->n || !x->k) {
        snprintf(out->text, sizeof out->text, "an empty matmul");
        return HR_E_UNSUPPORTED;
    }
    return describe(lt, x, exact, out) ? HR_OK : HR_E_UNSUPPORTED;
}

void hri_lt_product_deinit(const hri_lt *lt, hri_lt_product *p) {
    cublasLtMatrixLayout_t *const layouts[] = {&p->a, &p->b, &p->y};
    for (size_t i = 0; i < 3; i++) {
        if (*layouts[i]) {
            lt->cublasLtMatrixLayoutDestroy(*layouts[i]);
            *layouts[i] = NULL;
        }
    }
    if (p->desc) {
        lt->cublasLtMatmulDescDestroy(p->desc);
        p->desc = NULL;
    }
}

hr_status hri_lt_algorithms(const hri_lt *lt, hri_lt_product *p, uint64_t limit,
                            hri_lt_algorithm *out, uint32_t most, uint32_t *out_count) {
    enum { ASKED = 16 };
    cublasLtMatmulHeuristicResult_t results[ASKED];
    cublasLtMatmulPreference_t wish = NULL;
    const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, alignment = 16;
    int count = 0;
    static const cublasLtMatmulPreferenceAttributes_t aligned[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    int ok =
        good(lt, p, "cublasLtMatmulPreferenceCreate", lt->cublasLtMatmulPreferenceCreate(&wish)) &&
        good(lt, p, "MAX_WORKSPACE_BYTES",
             lt->cublasLtMatmulPreferenceSetAttribute(
                 wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &limit, sizeof limit)) &&
        good(lt, p, "REDUCTION_SCHEME_MASK",
             lt->cublasLtMatmulPreferenceSetAttribute(
                 wish, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme));
    for (size_t i = 0; i < 4 && ok; i++) {
        ok = good(lt, p, "MIN_ALIGNMENT",
                  lt->cublasLtMatmulPreferenceSetAttribute(wish, aligned[i], &alignment,
                                                           sizeof alignment));
    }
    ok = ok && good(lt, p, "cublasLtMatmulAlgoGetHeuristic",
                    lt->cublasLtMatmulAlgoGetHeuristic(lt->handle, p->desc, p->b, p->a, p->y, p->y,
                                                       wish, ASKED, results, &count));
    if (wish) {
        lt->cublasLtMatmulPreferenceDestroy(wish);
    }
    uint32_t found = 0;
    for (int i = 0; i < count && ok && found < most; i++) {
        if (results[i].state == CUBLAS_STATUS_SUCCESS && results[i].workspaceSize <= limit) {
            out[found].algo = results[i].algo;
            out[found++].workspace_bytes = results[i].workspaceSize;
        }
    }
    if (!found) {
        return HR_E_UNSUPPORTED;
    }
    *out_count = found;
    return HR_OK;
}

hr_status hri_lt_run(const hri_lt *lt, hri_lt_product *p, const hri_lt_algorithm *algorithm,
                     int add, const void *a, const void *b, const void *bias, void *y,
                     void *workspace, uint64_t workspace_bytes, cudaStream_t stream) {
    const float one = 1.0f, zero = 0.0f;
    if (bias &&
        !set(lt, p, "BIAS_POINTER", CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias)) {
        return HR_E_DEVICE;
    }
    const cublasStatus_t status =
        HRI_FAULT(LAUNCH)
            ? CUBLAS_STATUS_EXECUTION_FAILED
            : lt->cublasLtMatmul(lt->handle, p->desc, &one, b, p->b, a, p->a, add ? &one : &zero, y,
                                 p->y, y, p->y, &algorithm->algo, workspace, workspace_bytes,
                                 stream);
    return good(lt, p, "cublasLtMatmul", status) ? HR_OK : HR_E_DEVICE;
}
