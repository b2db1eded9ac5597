/* libcublasLt.so.13 over the fake driver: five algorithms for f32 products that differ in the order of their sums.
 *
 * What it is for: the choice between algorithms, which a machine without a GPU has otherwise nothing to try on.  Products
 * are a kernel of its own, compiled and launched like any other, so that everything stays asynchronous.  The algorithms:
 *
 *   0 ascending   1 ascending, the same bits   2 descending   3 two halves, added   4 descending, as 2
 *
 * Environment (read at each product):
 *   FAKELT_SLOW   algorithms that take longer, as "02"
 *   FAKELT_FAIL   algorithms that refuse to run
 *   FAKELT_MOODY  algorithms that give other bits each time */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device/cuda/cublaslt_min.h"
#include "device/cuda/cuda_min.h"

#define FAKE_API __attribute__((visibility("default")))

#define HRI_LT_FN(RETURNS, NAME, PARAMETERS) FAKE_API RETURNS NAME PARAMETERS;
#include "device/cuda/cublaslt_api.def"
#undef HRI_LT_FN

enum { ALGORITHMS = 5, SLOWNESS = 40 };

struct hri_lt_layout {
    cudaDataType type;
    int64_t rows, cols, ld, step;
    int32_t batch;
};
struct hri_lt_desc {
    int32_t turn_a, turn_b, epilogue;
    const void *bias;
};
struct hri_lt_preference {
    uint64_t bytes;
};
/* As in the text below. */
typedef struct job {
    const float *a, *b, *c, *bias;
    float *d;
    int64_t m, n, k, lda, ldb, ldd, a_step, b_step, d_step;
    float beta;
    int32_t turn_a, turn_b, algorithm, noise;
} job;

static const char text[] =
    "struct job {\n"
    "    const float *a, *b, *c, *bias;\n"
    "    float *d;\n"
    "    long long m, n, k, lda, ldb, ldd, a_step, b_step, d_step;\n"
    "    float beta;\n"
    "    int turn_a, turn_b, algorithm, noise;\n"
    "};\n"
    "extern \"C\" __global__ void lt_product(job j) {\n"
    "    const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x, z = blockIdx.y;\n"
    "    if (at >= j.m * j.n) return;\n"
    "    const long long i = at % j.m, o = at / j.m;\n"
    "    const float *a = j.a + z * j.a_step, *b = j.b + z * j.b_step;\n"
    "    float sum[2] = {0.0f, 0.0f};\n"
    "    for (long long s = 0; s < j.k; s++) {\n"
    "        const long long k = j.algorithm == 2 || j.algorithm == 4 ? j.k - 1 - s : s;\n"
    "        const float x = j.turn_a ? a[k + i * j.lda] : a[i + k * j.lda];\n"
    "        const float y = j.turn_b ? b[o + k * j.ldb] : b[k + o * j.ldb];\n"
    "        sum[j.algorithm == 3 && k >= j.k / 2] += x * y;\n"
    "    }\n"
    "    float *d = j.d + z * j.d_step + i + o * j.ldd;\n"
    "    const float all = sum[0] + sum[1] + (j.bias ? j.bias[i] : 0.0f) + (float)j.noise * "
    "1e-3f;\n"
    "    *d = j.beta != 0.0f ? all + j.beta * *d : all;\n"
    "}\n";

/* ---- the kernel ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUfunction kernel;
static CUmodule module;
static CUresult (*unload)(CUmodule);
static CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, CUstream, void **, void **);

static void *symbol(const char *library, const char *name) {
    void *handle = dlopen(library, RTLD_NOW); /* open already: by who uses us */
    return handle ? dlsym(handle, name) : NULL;
}

/* dlsym gives an object's address where a function's is wanted. */
#define FIND(LIBRARY, F) (*(void **)&(F) = symbol(LIBRARY, #F))

static CUfunction make_kernel(void) {
    int (*nvrtcCreateProgram)(void **, const char *, const char *, int, const char *const *,
                              const char *const *);
    int (*nvrtcCompileProgram)(void *, int, const char *const *);
    int (*nvrtcGetCUBINSize)(void *, size_t *), (*nvrtcGetCUBIN)(void *, char *),
        (*nvrtcDestroyProgram)(void **);
    CUresult (*cuModuleLoadData)(CUmodule *, const void *);
    CUresult (*cuModuleGetFunction)(CUfunction *, CUmodule, const char *);
    CUresult (*cuModuleUnload)(CUmodule);
    CUresult (*cuLaunchKernel)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned,
                               unsigned, unsigned, CUstream, void **, void **);
    static const char driver[] = "libcuda.so.1", compiler[] = "libnvrtc.so.13";
    static const char *const options[] = {"--gpu-architecture=sm_90a", "--std=c++17",
                                          "-default-device", "--fmad=false"};
    void *program = NULL;
    CUfunction found = NULL;
    size_t bytes = 0;
    if (!FIND(compiler, nvrtcCreateProgram) || !FIND(compiler, nvrtcCompileProgram) ||
        !FIND(compiler, nvrtcGetCUBINSize) || !FIND(compiler, nvrtcGetCUBIN) ||
        !FIND(compiler, nvrtcDestroyProgram) || !FIND(driver, cuModuleLoadData) ||
        !FIND(driver, cuModuleGetFunction) || !FIND(driver, cuLaunchKernel) ||
        !FIND(driver, cuModuleUnload) ||
        nvrtcCreateProgram(&program, text, "lt.cu", 0, NULL, NULL) ||
        nvrtcCompileProgram(program, 4, options) || nvrtcGetCUBINSize(program, &bytes)) {
        return NULL;
    }
    char *cubin = malloc(bytes + 1);
    if (!cubin || nvrtcGetCUBIN(program, cubin) ||
        cuModuleLoadData(&module, cubin) != CUDA_SUCCESS ||
        cuModuleGetFunction(&found, module, "lt_product") != CUDA_SUCCESS) {
        found = NULL;
    }
    free(cubin);
    nvrtcDestroyProgram(&program);
    launch = cuLaunchKernel;
    unload = cuModuleUnload;
    return found;
}

/* ---- the library ---- */

size_t cublasLtGetVersion(void) {
    return 130000;
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "refused by the fake";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    static char one;
    *handle = (cublasLtHandle_t)(void *)&one;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    (void)handle;
    if (module) {
        unload(module);
    }
    module = NULL;
    kernel = NULL;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
    *layout = calloc(1, sizeof **layout);
    **layout = (struct hri_lt_layout){type, (int64_t)rows, (int64_t)cols, ld, 0, 1};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    free(layout);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void *value, size_t bytes) {
    memcpy(name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? (void *)&layout->batch
                                                      : (void *)&layout->step,
           value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
    (void)compute;
    (void)scale;
    *desc = calloc(1, sizeof **desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void *value, size_t bytes) {
    void *to = name == CUBLASLT_MATMUL_DESC_TRANSA         ? (void *)&desc->turn_a
               : name == CUBLASLT_MATMUL_DESC_TRANSB       ? (void *)&desc->turn_b
               : name == CUBLASLT_MATMUL_DESC_EPILOGUE     ? (void *)&desc->epilogue
               : name == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? (void *)&desc->bias
                                                           : NULL;
    if (to) {
        memcpy(to, value, bytes);
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference) {
    *preference = calloc(1, sizeof **preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void *value, size_t bytes) {
    if (name == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
        memcpy(&preference->bytes, value, bytes);
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *count) {
    (void)handle;
    (void)desc;
    (void)c;
    *count = 0;
    if (a->type != CUDA_R_32F || b->type != CUDA_R_32F || d->type != CUDA_R_32F) {
        return CUBLAS_STATUS_NOT_SUPPORTED; /* the program has kernels of its own */
    }
    for (int i = 0; i < ALGORITHMS && i < wanted; i++) {
        const size_t bytes = i == 3 ? 256 : 0;
        if (bytes <= preference->bytes) {
            results[*count] = (cublasLtMatmulHeuristicResult_t){.algo.data = {(uint64_t)i + 1},
                                                                .workspaceSize = bytes};
            ++*count;
        }
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* Is the algorithm named in the variable? */
static int named(const char *variable, int algorithm) {
    const char *list = getenv(variable);
    return list && strchr(list, '0' + algorithm) != NULL;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                              cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                              cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream) {
    static int runs;
    const int algorithm = (int)algo->data[0] - 1;
    (void)handle;
    (void)alpha;
    (void)c_layout;
    if (algorithm < 0 || algorithm >= ALGORITHMS || named("FAKELT_FAIL", algorithm) ||
        (algorithm == 3 && (!workspace || workspace_bytes < 256))) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    pthread_mutex_lock(&lock);
    kernel = kernel ? kernel : make_kernel();
    job j = {.a = a,
             .b = b,
             .c = c,
             .bias = desc->epilogue == CUBLASLT_EPILOGUE_BIAS ? desc->bias : NULL,
             .d = d,
             .m = d_layout->rows,
             .n = d_layout->cols,
             .k = desc->turn_a ? a_layout->rows : a_layout->cols,
             .lda = a_layout->ld,
             .ldb = b_layout->ld,
             .ldd = d_layout->ld,
             .a_step = a_layout->step,
             .b_step = b_layout->step,
             .d_step = d_layout->step,
             .beta = *(const float *)beta,
             .turn_a = desc->turn_a,
             .turn_b = desc->turn_b,
             .algorithm = algorithm,
             .noise = named("FAKELT_MOODY", algorithm) ? ++runs : 0};
    const unsigned blocks = (unsigned)((j.m * j.n + 63) / 64);
    const int times = named("FAKELT_SLOW", algorithm) && j.beta == 0.0f ? SLOWNESS : 1;
    CUresult result = kernel ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
    for (int i = 0; i < times && result == CUDA_SUCCESS; i++) {
        result = launch(kernel, blocks, (unsigned)d_layout->batch, 1, 64, 1, 1, 0, stream,
                        (void *[]){&j}, NULL);
    }
    pthread_mutex_unlock(&lock);
    return result == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
