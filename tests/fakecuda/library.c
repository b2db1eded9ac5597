/* Code from files, and libraries of code: loaded without a context, and into one when something of it is needed there.
 *
 * As the driver's lazy loading has it, cuLibraryLoadData costs nothing; the first module, function or variable of a library
 * that is asked for in a context loads it there. */
#include "work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct loaded {
    const struct CUctx_st *context;
    CUmodule module;
    struct loaded *next;
} loaded;

struct CUlib_st {
    void *image;
    loaded *modules;
    struct CUkern_st *kernels;
    struct CUlib_st *next;
};

struct CUkern_st {
    char *name;
    CUlibrary library;
    struct CUkern_st *next;
};

static CUlibrary libraries; /* under fake_lock, as all here */

/* ---- modules ---- */

/* The whole file, which the caller frees; NULL: it cannot be read. */
static void *read_file(const char *name) {
    FILE *file = name ? fopen(name, "rb") : NULL;
    char *image = NULL;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        const long bytes = ftell(file);
        image = bytes > 0 ? calloc(1, (size_t)bytes + 64) : NULL;
        rewind(file);
        if (image && fread(image, 1, (size_t)bytes, file) != (size_t)bytes) {
            free(image);
            image = NULL;
        }
    }
    if (file) {
        fclose(file);
    }
    return image;
}

CUresult fake_cuModuleLoad(CUmodule *out, const char *file) {
    void *image = read_file(file);
    const CUresult result = image ? fake_cuModuleLoadData(out, image) : CUDA_ERROR_INVALID_VALUE;
    free(image);
    return result;
}

CUresult fake_cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int count,
                                 void *options, void **values) {
    return count && (!options || !values) ? CUDA_ERROR_INVALID_VALUE
                                          : fake_cuModuleLoadData(out, image);
}

CUresult fake_cuModuleLoadFatBinary(CUmodule *out, const void *image) {
    return fake_cuModuleLoadData(out, image);
}

/* ---- libraries ---- */

CUresult fake_cuLibraryLoadData(CUlibrary *out, const void *code, void *jit, void **jit_values,
                                unsigned int jit_count, void *options, void **values,
                                unsigned int count) {
    if (!out || !code || (jit_count && (!jit || !jit_values)) || (count && (!options || !values))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const uint64_t bytes = fake_image_bytes(code);
    CUlibrary made = bytes ? calloc(1, sizeof *made) : NULL;
    void *image = made ? malloc(bytes) : NULL;
    if (!image) {
        free(made);
        return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_IMAGE;
    }
    made->image = memcpy(image, code, bytes);
    pthread_mutex_lock(&fake_lock);
    made->next = libraries;
    libraries = made;
    pthread_mutex_unlock(&fake_lock);
    *out = made;
    return CUDA_SUCCESS;
}

CUresult fake_cuLibraryLoadFromFile(CUlibrary *out, const char *file, void *jit, void **jit_values,
                                    unsigned int jit_count, void *options, void **values,
                                    unsigned int count) {
    void *image = read_file(file);
    const CUresult result = image ? fake_cuLibraryLoadData(out, image, jit, jit_values, jit_count,
                                                           options, values, count)
                                  : CUDA_ERROR_INVALID_VALUE;
    free(image);
    return result;
}

static CUlibrary *find_library(CUlibrary library) {
    CUlibrary *at = &libraries;
    while (*at && *at != library) {
        at = &(*at)->next;
    }
    return at;
}

CUresult fake_cuLibraryUnload(CUlibrary library) {
    pthread_mutex_lock(&fake_lock);
    CUlibrary *at = find_library(library);
    const int known = *at != NULL;
    if (known) {
        *at = library->next;
        while (library->modules) {
            loaded *l = library->modules;
            library->modules = l->next;
            (void)fake_module_unload(l->module);
            free(l);
        }
        while (library->kernels) {
            CUkernel k = library->kernels;
            library->kernels = k->next;
            free(k->name);
            free(k);
        }
        free(library->image);
        free(library);
    }
    pthread_mutex_unlock(&fake_lock);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult fake_cuLibraryGetModule(CUmodule *out, CUlibrary library) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && (!out || !*find_library(library))) {
        result = out ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    }
    loaded *l = result == CUDA_SUCCESS ? library->modules : NULL;
    while (l && l->context != context) {
        l = l->next;
    }
    if (result == CUDA_SUCCESS && !l) {
        l = calloc(1, sizeof *l);
        result =
            l ? fake_module_load(context, library->image, &l->module) : CUDA_ERROR_OUT_OF_MEMORY;
        if (result == CUDA_SUCCESS) {
            l->context = context;
            l->next = library->modules;
            library->modules = l;
        } else {
            free(l);
        }
    }
    if (result == CUDA_SUCCESS) {
        *out = l->module;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuLibraryGetGlobal(CUdeviceptr *at, size_t *bytes, CUlibrary library,
                                 const char *name) {
    CUmodule module;
    const CUresult result = fake_cuLibraryGetModule(&module, library);
    return result == CUDA_SUCCESS ? fake_cuModuleGetGlobal_v2(at, bytes, module, name) : result;
}

/* Nothing is loaded yet: a kernel is a name. */
CUresult fake_cuLibraryGetKernel(CUkernel *out, CUlibrary library, const char *name) {
    if (!out || !name) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    char section[300];
    snprintf(section, sizeof section, ".text.%s", name);
    pthread_mutex_lock(&fake_lock);
    CUresult result = *find_library(library) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (result == CUDA_SUCCESS &&
        !memmem(library->image, fake_image_bytes(library->image), section, strlen(section) + 1)) {
        result = CUDA_ERROR_NOT_FOUND;
    }
    if (result == CUDA_SUCCESS) {
        CUkernel k = calloc(1, sizeof *k);
        if (k) {
            *k = (struct CUkern_st){
                .name = strdup(name), .library = library, .next = library->kernels};
            library->kernels = k;
            *out = k;
        } else {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuKernelGetFunction(CUfunction *out, CUkernel kernel) {
    CUmodule module;
    if (!out || !kernel) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const CUresult result = fake_cuLibraryGetModule(&module, kernel->library);
    return result == CUDA_SUCCESS ? fake_cuModuleGetFunction(out, module, kernel->name) : result;
}
