/* Kernels from source text: compiled by NVRTC for the device that is there, kept on disk, loaded once, launched.
 *
 * A module is one text with one set of defines.  Texts of the library are told apart by their address, texts made at run
 * time by a hash, so a launch after the first costs two look-ups.  No option changes arithmetic: what a kernel computes
 * is written in its text (no --use_fast_math), and texts made at run time are compiled without contraction into
 * multiply-adds, so that a step has the same bits alone and in a chain; those that ask for it, with quick quotients.
 *
 * A cubin from the cache that the driver refuses is compiled anew: it may come from another machine.  Memory of modules
 * is the driver's own and part of `runtime`; it goes when the hri_gpu closes.
 *
 * An error of the compiler is a bug of ours and HR_E_INTERNAL; its first lines are the detail. */
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "device/cuda/gpu_state.h"

enum { MOST_OPTIONS = 32, SHARED_WITHOUT_ASKING = 48 << 10 };

typedef struct options {
    char text[1024]; /* the defines, cut at spaces */
    const char *at[MOST_OPTIONS];
    int count;
} options;

/* ---- compiling ---- */

static hr_status make_options(hri_gpu *gpu, const char *defines, char architecture[40],
                              options *out) {
    static const char *const always[] = {"--std=c++17", "-default-device"};
    memset(out, 0, sizeof *out);
    snprintf(architecture, 40, "--gpu-architecture=%s", gpu->architecture);
    out->at[out->count++] = architecture;
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++) {
        out->at[out->count++] = always[i];
    }
    if (!defines) {
        return HR_OK;
    }
    if (strlen(defines) >= sizeof out->text) {
        return hri_gpu_fail(gpu, HR_E_INTERNAL, "kernel defines are too long");
    }
    memcpy(out->text, defines, strlen(defines) + 1);
    char *rest = NULL;
    for (char *word = strtok_r(out->text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (out->count == MOST_OPTIONS) {
            return hri_gpu_fail(gpu, HR_E_INTERNAL, "too many kernel defines");
        }
        out->at[out->count++] = word;
    }
    return HR_OK;
}

/* The first errors of the log, on one line. */
static hr_status compiler_failed(hri_gpu *gpu, nvrtcProgram program, const char *name,
                                 nvrtcResult result) {
    size_t bytes = 0;
    char *log = NULL;
    if (gpu->nvrtc->nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS && bytes > 1) {
        log = hri_calloc(bytes + 1, 1);
    }
    if (log && gpu->nvrtc->nvrtcGetProgramLog(program, log) != NVRTC_SUCCESS) {
        log[0] = '\0';
    }
    const char *error = log ? strstr(log, "error") : NULL;
    while (error && error > log && error[-1] != '\n') {
        error--;
    }
    const hr_status status = result == NVRTC_ERROR_OUT_OF_MEMORY ? HR_E_NOMEM_HOST : HR_E_INTERNAL;
    hri_gpu_fail(gpu, status, "compiling %s: %s: %.1800s", name,
                 gpu->nvrtc->nvrtcGetErrorString(result),
                 error ? error
                 : log ? log
                       : "");
    hri_free(log);
    return status;
}

static hr_status take_cubin(hri_gpu *gpu, nvrtcProgram program, const char *name, char **out,
                            size_t *out_bytes) {
    size_t bytes = 0;
    nvrtcResult result = gpu->nvrtc->nvrtcGetCUBINSize(program, &bytes);
    char *cubin = result == NVRTC_SUCCESS ? hri_malloc(bytes + 1) : NULL;
    if (result == NVRTC_SUCCESS && !cubin) {
        return hri_gpu_fail(gpu, HR_E_NOMEM_HOST, "out of host memory for the code of %s", name);
    }
    if (result == NVRTC_SUCCESS) {
        result = gpu->nvrtc->nvrtcGetCUBIN(program, cubin);
    }
    if (result != NVRTC_SUCCESS) {
        hri_free(cubin);
        return compiler_failed(gpu, program, name, result);
    }
    *out = cubin;
    *out_bytes = bytes;
    return HR_OK;
}

static hr_status compile(hri_gpu *gpu, const hri_gpu_source *source, const options *o, char **out,
                         size_t *out_bytes) {
    nvrtcProgram program = NULL;
    char file[128];
    snprintf(file, sizeof file, "%.100s.cu", source->name);
    nvrtcResult result = HRI_FAULT(LAUNCH) ? NVRTC_ERROR_OUT_OF_MEMORY
                                           : gpu->nvrtc->nvrtcCreateProgram(&program, source->text,
                                                                            file, 0, NULL, NULL);
    if (result != NVRTC_SUCCESS) {
        return hri_gpu_fail(gpu, HR_E_NOMEM_HOST, "compiling %s: %s", source->name,
                            gpu->nvrtc->nvrtcGetErrorString(result));
    }
    gpu->compiled++;
    result = HRI_FAULT(LAUNCH) ? NVRTC_ERROR_INTERNAL_ERROR
                               : gpu->nvrtc->nvrtcCompileProgram(program, o->count, o->at);
    const hr_status status = result == NVRTC_SUCCESS
                                 ? take_cubin(gpu, program, source->name, out, out_bytes)
                                 : compiler_failed(gpu, program, source->name, result);
    (void)gpu->nvrtc->nvrtcDestroyProgram(&program);
    return status;
}

static hri_gpu_key key_of(const hri_gpu *gpu, const hri_gpu_source *source, const options *o) {
    const int version[2] = {gpu->nvrtc->major, gpu->nvrtc->minor};
    hri_gpu_key key;
    hri_sha256 s;
    hri_sha256_init(&s);
    hri_sha256_add(&s, version, sizeof version);
    for (int i = 0; i < o->count; i++) {
        hri_sha256_add_string(&s, o->at[i]);
    }
    hri_sha256_add_string(&s, source->text);
    hri_sha256_get(&s, key.digest);
    return key;
}

/* ---- modules ---- */

static hr_status load_image(hri_gpu *gpu, const char *name, const char *cubin, CUmodule *out) {
    const CUresult result =
        HRI_FAULT(LAUNCH) ? CUDA_ERROR_OUT_OF_MEMORY : gpu->cu->cuModuleLoadData(out, cubin);
    const hr_status status = hri_gpu_check(gpu, "cuModuleLoadData", result);
    if (status != HR_OK) {
        char words[HRI_CUDA_TEXT];
        hri_cuda_words(gpu->cu, "cuModuleLoadData", result, words, sizeof words);
        hri_gpu_fail(gpu, status, "%s: %s", name, words);
    }
    return status;
}

static hr_status load(hri_gpu *gpu, const hri_gpu_source *source, const char *defines,
                      CUmodule *out) {
    options o;
    char architecture[40];
    char *cubin = NULL;
    size_t bytes = 0;
    hr_status status = make_options(gpu, defines, architecture, &o);
    if (status != HR_OK) {
        return status;
    }
    const hri_gpu_key key = key_of(gpu, source, &o);
    status = hri_gpu_cache_get(gpu, source->name, &key, &cubin, &bytes);
    if (status == HR_OK) {
        status = load_image(gpu, source->name, cubin, out);
        hri_free(cubin);
        cubin = NULL;
        if (status == HR_OK || status == HR_E_NOMEM_DEVICE || status == HR_E_LOST) {
            return status;
        }
    } else if (status == HR_E_NOMEM_HOST) {
        return hri_gpu_fail(gpu, status, "out of host memory for the code of %s", source->name);
    }
    status = compile(gpu, source, &o, &cubin, &bytes);
    if (status == HR_OK) {
        hri_gpu_cache_put(gpu, source->name, &key, cubin, bytes);
        status = load_image(gpu, source->name, cubin, out);
    }
    hri_free(cubin);
    return status;
}

static void close_module(hri_gpu *gpu, hri_gpu_module *module) {
    if (module->module) {
        hri_cuda_must(gpu->dev, "cuModuleUnload", gpu->cu->cuModuleUnload(module->module));
    }
    for (size_t i = 0; i < module->functions.count; i++) {
        hri_free(module->functions.items[i].name);
    }
    hri_gpu_functions_deinit(&module->functions);
    hri_free(module);
}

void hri_gpu_modules_close(hri_gpu *gpu) {
    uint64_t value;
    for (size_t at = 0; hri_strmap_next(&gpu->modules, &at, NULL, &value);) {
        close_module(gpu, (hri_gpu_module *)(uintptr_t)value);
    }
    hri_strmap_deinit(&gpu->modules);
}

static hr_status find_module(hri_gpu *gpu, const hri_gpu_source *source, const char *defines,
                             const char *key, hri_gpu_module **out) {
    uint64_t value;
    if (hri_strmap_get(&gpu->modules, key, &value)) {
        *out = (hri_gpu_module *)(uintptr_t)value;
        return HR_OK;
    }
    hri_gpu_module *module = hri_calloc(1, sizeof *module);
    if (!module) {
        return hri_gpu_fail(gpu, HR_E_NOMEM_HOST, "out of host memory for a kernel module");
    }
    hr_status status = load(gpu, source, defines, &module->module);
    if (status == HR_OK) {
        status = hri_strmap_put(&gpu->modules, key, (uint64_t)(uintptr_t)module);
    }
    if (status != HR_OK) {
        close_module(gpu, module);
        return status;
    }
    *out = module;
    return HR_OK;
}

/* 0 where the driver is too old to say. */
static uint32_t fixed_shared(const hri_cuda_driver *cu, CUfunction function) {
    int bytes = 0;
    return cu->cuFuncGetAttribute &&
                   cu->cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function) ==
                       CUDA_SUCCESS &&
                   bytes > 0
               ? (uint32_t)bytes
               : 0;
}

static hr_status find_function(hri_gpu *gpu, hri_gpu_module *module, const char *name,
                               hri_gpu_function **out) {
    for (size_t i = 0; i < module->functions.count; i++) {
        if (strcmp(module->functions.items[i].name, name) == 0) {
            *out = &module->functions.items[i];
            return HR_OK;
        }
    }
    hri_gpu_function f = {.name = hri_strdup(name)};
    if (!f.name) {
        return hri_gpu_fail(gpu, HR_E_NOMEM_HOST, "out of host memory for a kernel module");
    }
    const CUresult result = HRI_FAULT(LAUNCH)
                                ? CUDA_ERROR_NOT_FOUND
                                : gpu->cu->cuModuleGetFunction(&f.function, module->module, name);
    hr_status status = hri_gpu_check(gpu, "cuModuleGetFunction", result);
    if (status != HR_OK) {
        hri_gpu_fail(gpu, status, "no kernel %s", name);
    } else if (!hri_cuda_stack_for(gpu->dev, f.function, !gpu->together || gpu->trial_at)) {
        status = hri_gpu_fail(gpu, HR_E_UNSUPPORTED, "%s needs a larger stack", name);
    } else {
        f.fixed_bytes = fixed_shared(gpu->cu, f.function);
        status = hri_gpu_functions_push(&module->functions, f);
    }
    if (status != HR_OK) {
        hri_free(f.name);
        return status;
    }
    *out = &module->functions.items[module->functions.count - 1];
    return HR_OK;
}

/* ---- launches ---- */

/* What a kernel declares counts, too; only the rest can be asked for. */
static hr_status allow_shared(hri_gpu *gpu, hri_gpu_function *f, uint32_t bytes) {
    const uint32_t all = f->fixed_bytes + bytes;
    if (all <= SHARED_WITHOUT_ASKING || bytes <= f->shared_bytes) {
        return HR_OK;
    }
    if (all > (uint32_t)gpu->shared_max) {
        return hri_gpu_fail(gpu, HR_E_UNSUPPORTED,
                            "%s needs %u bytes of shared memory; the "
                            "device has %d",
                            f->name, all, gpu->shared_max);
    }
    const CUresult result =
        HRI_FAULT(LAUNCH)
            ? CUDA_ERROR_UNKNOWN
            : gpu->cu->cuFuncSetAttribute(
                  f->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)bytes);
    const hr_status status = hri_gpu_check(gpu, "cuFuncSetAttribute", result);
    if (status == HR_OK) {
        f->shared_bytes = bytes;
    }
    return status;
}

static hr_status launch_entered(hri_gpu *gpu, const hri_gpu_source *source, const char *defines,
                                const char *key, const char *kernel, const hri_gpu_grid *grid,
                                void *const *args) {
    hri_gpu_module *module = NULL;
    hri_gpu_function *f = NULL;
    hr_status status = find_module(gpu, source, defines, key, &module);
    if (status == HR_OK) {
        status = find_function(gpu, module, kernel, &f);
    }
    if (status == HR_OK) {
        status = allow_shared(gpu, f, grid->shared_bytes);
    }
    if (status != HR_OK) {
        return status;
    }
    const CUresult result =
        HRI_FAULT(LAUNCH)
            ? CUDA_ERROR_UNKNOWN
            : gpu->cu->cuLaunchKernel(f->function, grid->x, grid->y ? grid->y : 1,
                                      grid->z ? grid->z : 1, grid->threads, 1, 1,
                                      grid->shared_bytes, gpu->stream, (void **)args, NULL);
    status = hri_gpu_check(gpu, "cuLaunchKernel", result);
    gpu->together = 0; /* what began cannot be launched apart any more */
    if (status != HR_OK) {
        char words[HRI_CUDA_TEXT];
        hri_cuda_words(gpu->cu, "cuLaunchKernel", result, words, sizeof words);
        hri_gpu_fail(gpu, status, "%s of %s: %s", kernel, source->name, words);
    }
    return status;
}

static hr_status launch(hri_gpu *gpu, const hri_gpu_source *source, const char *defines,
                        const char *key, const char *kernel, const hri_gpu_grid *grid,
                        void *const *args) {
    if (grid->x == 0 || grid->threads == 0) {
        return HR_OK;
    }
    hr_status status = hri_gpu_ready(gpu);
    int pushed;
    if (status == HR_OK) {
        status = hri_cuda_enter(gpu->dev, &pushed);
    }
    if (status == HR_OK) {
        status = launch_entered(gpu, source, defines, key, kernel, grid, args);
        hri_cuda_leave(gpu->dev, pushed);
    }
    return status;
}

hr_status hri_gpu_launch(hri_gpu *gpu, const hri_gpu_source *source, const char *defines,
                         const char *kernel, const hri_gpu_grid *grid, void *const *args) {
    char key[1100];
    snprintf(key, sizeof key, "%p|%s", (const void *)source->text, defines ? defines : "");
    return launch(gpu, source, defines, key, kernel, grid, args);
}

hr_status hri_gpu_launch_text(hri_gpu *gpu, const char *name, const char *text, int quick,
                              const char *kernel, const hri_gpu_grid *grid, void *const *args) {
    char key[64];
    const hri_hash128 hash = hri_hash_bytes128(text, strlen(text), 0);
    snprintf(key, sizeof key, "#%016llx%016llx%d", (unsigned long long)hash.hi,
             (unsigned long long)hash.lo, quick);
    const hri_gpu_source source = {name, text};
    /* Steps of a chain must not run into one another: a product rounded before a sum stays so. */
    return launch(gpu, &source, quick ? "--fmad=false --prec-div=false" : "--fmad=false", key,
                  kernel, grid, args);
}
