/* Every way in which programs find the driver; see caller.h. */
#include "caller.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifdef CALLER_LINKED
/* A program that is linked with libcuda, as Triton's launchers are. */
#define DECLARE(NAME, SYMBOL, PARAMETERS) extern CUresult linked_##NAME PARAMETERS __asm__(SYMBOL);
CALLER_FUNCTIONS(DECLARE)
#undef DECLARE
#endif

typedef CUresult resolve1_fn(const char *, void **, int, unsigned long long);
typedef CUresult resolve2_fn(const char *, void **, int, unsigned long long, int *);

/* As libcudart does: the resolver by dlsym, itself looked up once more through itself, then names without suffixes. */
static void *resolve(void *library, const char *way, const char *name, int per_thread) {
    void *address = NULL;
    const unsigned long long flags = per_thread ? 2 : 1;
    if (strcmp(way, "proc1") == 0) {
        resolve1_fn *first = (resolve1_fn *)dlsym(library, "cuGetProcAddress");
        void *self = NULL;
        if (!first || first("cuGetProcAddress", &self, 11040, 0) != CUDA_SUCCESS) {
            return NULL;
        }
        return ((resolve1_fn *)self)(name, &address, 11040, flags) == CUDA_SUCCESS ? address : NULL;
    }
    resolve2_fn *first = (resolve2_fn *)dlsym(library, "cuGetProcAddress_v2");
    void *self = NULL;
    int found = -1;
    if (!first || first("cuGetProcAddress", &self, 12020, 0, &found) != CUDA_SUCCESS ||
        found != 0) {
        return NULL;
    }
    return ((resolve2_fn *)self)(name, &address, 12020, flags, &found) == CUDA_SUCCESS ? address
                                                                                       : NULL;
}

static void *find(void *library, const char *way, const char *name, const char *symbol) {
    if (strcmp(way, "dlsym") == 0 || strcmp(way, "deepbind") == 0) {
        return dlsym(library, symbol);
    }
    return resolve(library, way, name, strcmp(way, "ptds") == 0);
}

int caller_find(const char *way, caller_driver *out) {
    const int mode = strcmp(way, "deepbind") ? RTLD_NOW : RTLD_NOW | RTLD_DEEPBIND;
    out->library = dlopen("libcuda.so.1", mode);
    if (!out->library) {
        fprintf(stderr, "no driver: %s\n", dlerror());
        return -1;
    }
    if (strcmp(way, "linked") == 0) {
#ifdef CALLER_LINKED
#define TAKE(NAME, SYMBOL, PARAMETERS) out->NAME = linked_##NAME;
        CALLER_FUNCTIONS(TAKE)
#undef TAKE
        return 0;
#else
        return -1;
#endif
    }
    int missing = 0;
#define LOOK(NAME, SYMBOL, PARAMETERS)                                                             \
    out->NAME = (CUresult(*) PARAMETERS)find(out->library, way, #NAME, SYMBOL);                    \
    missing += out->NAME == NULL && strcmp(#NAME, "cuGraphAddNode"); /* since 12.2 */
    CALLER_FUNCTIONS(LOOK)
#undef LOOK
    if (missing) {
        fprintf(stderr, "%d functions not found by %s\n", missing, way);
    }
    return missing ? -1 : 0;
}
