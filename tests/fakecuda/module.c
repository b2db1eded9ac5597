/* Modules and launches of the fake driver.  An image is a shared object that the fake NVRTC made; a function is a symbol
 * NAME__run of it, with NAME__sizes for its arguments, which are copied at the launch as the real driver does.
 *
 * An image of another version of kernels.h or emulator.h is refused as invalid, so a cache of images is never stale. */
#include "emulate.h"
#include "pieces.h"
#include "work.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_ARGUMENTS = 128, SHARED_WITHOUT_ASKING = 48 << 10 };

struct CUfunc_st {
    char *name;
    CUmodule module;
    void (*run)(void **arguments);
    unsigned count, sizes[MOST_ARGUMENTS];
    int shared_max; /* of what a launch asks for, beside what the text declares */
    int loaded;     /* by cuFuncLoad */
    struct CUfunc_st *next;
};

struct CUmod_st {
    unsigned char *stub; /* a cubin of `bytes` instead of a library */
    void *library;
    int fd;
    struct CUctx_st *context;
    fake_emulator **now;
    uint64_t bytes; /* of the image */
    uint64_t taken; /* of the device */
    int references; /* the caller's, and one a launch in flight */
    CUfunction functions;
    struct global *globals;
    struct CUmod_st *next;
};

/* A variable of the device that somebody asked for. */
typedef struct global {
    char *name;
    uint64_t at;
    struct global *next;
} global;
enum { GLOBAL_BYTES = 256, FUNCTION_BYTES = FAKE_PAGE };

typedef struct fake_launch {
    int references;
    CUfunction function;
    fake_uint3 grid, block;
    unsigned shared_bytes;
    void *arguments[MOST_ARGUMENTS];
    _Alignas(64) unsigned char values[]; /* of the arguments, 64 bytes aligned each */
} fake_launch;

static CUmodule modules; /* under fake_lock, as all here */

/* ---- images ---- */

/* The length of an ELF file with its section table at the end, as linkers write it; 0 for what is none. */
static uint64_t image_bytes(const unsigned char *image) {
    uint64_t sections;
    uint16_t entry, count;
    if (memcmp(image, "\177ELF\2", 5) != 0) {
        return 0;
    }
    memcpy(&sections, image + 40, sizeof sections);
    memcpy(&entry, image + 58, sizeof entry);
    memcpy(&count, image + 60, sizeof count);
    return sections + (uint64_t)entry * count;
}

/* The file stays open as long as the module lives: the loader knows libraries by their path. */
static void *open_image(const void *image, uint64_t bytes, int *out_fd) {
    char path[64];
    const int fd = memfd_create("kernels", MFD_CLOEXEC);
    void *library = NULL;
    if (fd >= 0 && write(fd, image, bytes) == (ssize_t)bytes) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library) {
        const char *why = dlerror();
        fprintf(stderr, "fakecuda: an image cannot be loaded: %s\n", why ? why : "no memfd");
    }
    if (fd >= 0 && !library) {
        close(fd);
    }
    *out_fd = fd;
    return library;
}

/* A cubin for real devices: nothing of it runs, but its kernels are known by name. */
static CUresult load_stub(struct CUctx_st *context, const unsigned char *image, CUmodule *out) {
    uint64_t bytes;
    memcpy(&bytes, image + 8, sizeof bytes);
    CUmodule m = calloc(1, sizeof *m);
    unsigned char *stub = malloc(bytes);
    if (!m || !stub || fake_state_take(context->device, bytes) != 0) {
        free(m);
        free(stub);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(stub, image + 16, bytes);
    *m = (struct CUmod_st){.stub = stub,
                           .fd = -1,
                           .context = context,
                           .bytes = bytes,
                           .taken = bytes,
                           .references = 1,
                           .next = modules};
    modules = m;
    fake_live.modules++;
    *out = m;
    return CUDA_SUCCESS;
}

/* `kind`: ".text" or ".global".  PTX, which is text, has the name of an entry before its parameters. */
static int has(const struct CUmod_st *m, const char *kind, const char *name) {
    char section[300];
    const int ptx = memmem(m->stub, m->bytes, ".version ", 9) != NULL;
    const int length = ptx ? snprintf(section, sizeof section, "%s%s", name,
                                      *kind == '.' && kind[1] == 't' ? "(" : "")
                           : snprintf(section, sizeof section, "%s.%s", kind, name) + 1;
    return memmem(m->stub, m->bytes, section, (size_t)length) != NULL;
}

CUresult fake_module_load(struct CUctx_st *context, const void *image, CUmodule *out) {
    if (memcmp(image, FAKE_STUB, 8) == 0) {
        return load_stub(context, image, out);
    }
    const uint64_t bytes = image_bytes(image);
    int fd = -1;
    void *library = bytes ? open_image(image, bytes, &fd) : NULL;
    if (!library) {
        return CUDA_ERROR_INVALID_IMAGE;
    }
    const unsigned long long *stamp = dlsym(library, "fake_stamp");
    fake_emulator **now = dlsym(library, "fake_now");
    CUmodule m = calloc(1, sizeof *m);
    CUresult result = !stamp || !now || *stamp != fake_kernels_stamp() ? CUDA_ERROR_INVALID_IMAGE
                      : !m || fake_state_take(context->device, bytes) != 0
                          ? CUDA_ERROR_OUT_OF_MEMORY
                          : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        free(m);
        dlclose(library);
        close(fd);
        return result;
    }
    *m = (struct CUmod_st){.library = library,
                           .fd = fd,
                           .context = context,
                           .now = now,
                           .bytes = bytes,
                           .taken = bytes,
                           .references = 1,
                           .next = modules};
    *now = fake_emulator_now();
    modules = m;
    fake_live.modules++;
    *out = m;
    return CUDA_SUCCESS;
}

CUresult fake_cuModuleLoadData(CUmodule *module, const void *image) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && (!module || !image)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        result = fake_module_load(context, image, module);
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

static void drop_module(CUmodule m) {
    if (--m->references > 0) {
        return;
    }
    while (m->functions) {
        CUfunction f = m->functions;
        m->functions = f->next;
        free(f->name);
        free(f);
    }
    if (m->library) {
        dlclose(m->library);
        close(m->fd);
    }
    while (m->globals) {
        global *g = m->globals;
        m->globals = g->next;
        munmap((void *)(uintptr_t)g->at, GLOBAL_BYTES);
        free(g->name);
        free(g);
    }
    free(m->stub);
    free(m);
}

static CUmodule *find_module(CUmodule module) {
    CUmodule *at = &modules;
    while (*at && *at != module) {
        at = &(*at)->next;
    }
    return at;
}

uint64_t fake_image_bytes(const void *image) {
    uint64_t bytes = 0;
    if (memcmp(image, FAKE_STUB, 8) == 0) {
        memcpy(&bytes, (const char *)image + 8, sizeof bytes);
        return bytes + 16;
    }
    return image_bytes(image);
}

int fake_module_unload(CUmodule module) {
    CUmodule *at = find_module(module);
    if (!*at) {
        return -1;
    }
    *at = module->next;
    fake_state_give(module->context->device, module->taken);
    fake_live.modules--;
    drop_module(module);
    return 0;
}

CUresult fake_cuModuleUnload(CUmodule module) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result != CUDA_ERROR_INVALID_CONTEXT && fake_module_unload(module) != 0) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

void fake_modules_end(const struct CUctx_st *context) {
    for (CUmodule m = modules; m; m = m->next) {
        if (m->context == context) {
            fake_state_give(context->device, m->taken);
            m->taken = 0;
        }
    }
}

CUresult fake_cuModuleGetGlobal_v2(CUdeviceptr *out, size_t *bytes, CUmodule module,
                                   const char *name) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && (!name || !*find_module(module))) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    global *g = result == CUDA_SUCCESS ? module->globals : NULL;
    while (g && strcmp(g->name, name)) {
        g = g->next;
    }
    if (result == CUDA_SUCCESS && !g) {
        g = module->stub && has(module, ".global", name) ? calloc(1, sizeof *g) : NULL;
        if (g) {
            *g = (global){.name = strdup(name),
                          .at = fake_fresh_address(GLOBAL_BYTES),
                          .next = module->globals};
            module->globals = g;
        }
    }
    if (result == CUDA_SUCCESS && g) {
        if (out) {
            *out = g->at;
        }
        if (bytes) {
            *bytes = GLOBAL_BYTES;
        }
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_NOT_FOUND;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && (!function || !name || !*find_module(module))) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        char symbol[300];
        CUfunction f = calloc(1, sizeof *f);
        unsigned (*sizes)(unsigned *) = NULL;
        if (f && module->library) {
            snprintf(symbol, sizeof symbol, "%s__sizes", name);
            *(void **)&sizes = dlsym(module->library, symbol);
            snprintf(symbol, sizeof symbol, "%s__run", name);
            *(void **)&f->run = dlsym(module->library, symbol);
        }
        if (f && (module->library ? f->run && sizes : has(module, ".text", name))) {
            f->name = strdup(name);
            f->module = module;
            f->count = sizes ? sizes(f->sizes) : 0;
            const uint64_t fixed = fake_state_shared_bytes();
            f->shared_max = fixed < SHARED_WITHOUT_ASKING ? SHARED_WITHOUT_ASKING - (int)fixed : 0;
            f->next = module->functions;
            module->functions = f;
            *function = f;
        } else {
            result = f ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_OUT_OF_MEMORY;
            free(f);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

static int known_function(CUfunction function) {
    for (CUmodule m = modules; m; m = m->next) {
        for (CUfunction f = m->functions; f; f = f->next) {
            if (f == function) {
                return 1;
            }
        }
    }
    return 0;
}

/* Since 12.4: a function's code is loaded now, not at its first launch. */
CUresult fake_cuFuncLoad(CUfunction function) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && !known_function(function)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (result == CUDA_SUCCESS && !function->loaded) {
        if (fake_state_take(context->device, FUNCTION_BYTES) != 0) {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        } else {
            function->module->taken += FUNCTION_BYTES;
            function->loaded = 1;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && !known_function(function)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (result == CUDA_SUCCESS &&
               (!value || (attribute != CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES &&
                           attribute != CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES))) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        *value = (int)(attribute == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES ? fake_state_shared_bytes()
                                                                        : fake_state_local_bytes());
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && !known_function(function)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (result == CUDA_SUCCESS &&
               (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
                (uint64_t)value + fake_state_shared_bytes() > FAKE_SHARED_MAX)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        function->shared_max = value;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* ---- launches ---- */

void fake_launch_hold(fake_launch *launch) {
    launch->references++;
}

void fake_launch_drop(fake_launch *launch) {
    if (--launch->references == 0) {
        drop_module(launch->function->module);
        free(launch);
    }
}

CUresult fake_launch_do(const fake_launch *launch) {
    if (!launch->function->run) {
        return CUDA_SUCCESS;
    }
    const fake_kernel kernel = {.name = launch->function->name,
                                .run = launch->function->run,
                                .arguments = (void **)(uintptr_t)launch->arguments,
                                .grid = launch->grid,
                                .block = launch->block,
                                .shared_bytes = launch->shared_bytes};
    return fake_emulate(&kernel);
}

static fake_launch *new_launch(CUfunction f, void **arguments) {
    size_t bytes = sizeof(fake_launch);
    for (unsigned i = 0; i < f->count; i++) {
        bytes += (f->sizes[i] + 63u) / 64u * 64u;
    }
    fake_launch *launch = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!launch) {
        return NULL;
    }
    memset(launch, 0, bytes);
    launch->references = 1;
    launch->function = f;
    f->module->references++;
    unsigned char *to = launch->values;
    for (unsigned i = 0; i < f->count; i++) {
        memcpy(to, arguments[i], f->sizes[i]);
        launch->arguments[i] = to;
        to += (f->sizes[i] + 63u) / 64u * 64u;
    }
    return launch;
}

static int sound(fake_uint3 grid, fake_uint3 block) {
    return grid.x && grid.y && grid.z && grid.x < 1u << 31 && grid.y < 65536 && grid.z < 65536 &&
           block.x && block.y && block.z && block.x <= 1024 && block.y <= 1024 && block.z <= 64 &&
           (uint64_t)block.x * block.y * block.z <= 1024;
}

CUresult fake_cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                             unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                             unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                             void **arguments, void **extra) {
    const fake_uint3 grid = {grid_x, grid_y, grid_z}, block = {block_x, block_y, block_z};
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && (!known_function(function) || !fake_known_stream(stream))) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (result == CUDA_SUCCESS &&
               (!sound(grid, block) || extra || (function->count && !arguments) ||
                shared_bytes > (unsigned)function->shared_max)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        fake_launch *launch = new_launch(function, arguments);
        result = launch ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (launch) {
            launch->grid = grid;
            launch->block = block;
            launch->shared_bytes = shared_bytes;
            result = fake_put(stream, &(work){.kind = LAUNCH, .launch = launch});
            fake_launch_drop(launch); /* the queue holds it now */
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}
