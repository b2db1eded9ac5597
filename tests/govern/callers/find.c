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

/* A way by a resolver: its symbol, the version that it is asked for, and the flags. */
typedef struct by_resolver {
    const char *way, *symbol;
    int version;
    unsigned long long
        flags; /* 1: legacy streams, 2: per-thread streams, 0: as the program was built */
} by_resolver;

static const by_resolver resolvers[] = {{"proc1", "cuGetProcAddress", 11040, 1},
                                        {"proc1ptsz", "cuGetProcAddress_ptsz", 11040, 0},
                                        {"proc", "cuGetProcAddress_v2", 12020, 1},
                                        {"proc13", "cuGetProcAddress_v2", 13000, 1},
                                        {"procptsz", "cuGetProcAddress_v2_ptsz", 12020, 0},
                                        {"ptds", "cuGetProcAddress_v2", 12020, 2}};

/* As libcudart does: the resolver by dlsym, itself looked up once more through itself, then names without suffixes. */
static void *resolve(void *library, const by_resolver *by, const char *name) {
    void *first = dlsym(library, by->symbol), *self = NULL, *address = NULL;
    int found = -1;
    if (!first) {
        return NULL;
    }
    if (by->version < 12000) {
        return ((resolve1_fn *)first)("cuGetProcAddress", &self, by->version, 0) == CUDA_SUCCESS &&
                       ((resolve1_fn *)self)(name, &address, by->version, by->flags) == CUDA_SUCCESS
                   ? address
                   : NULL;
    }
    if (((resolve2_fn *)first)("cuGetProcAddress", &self, by->version, 0, &found) != CUDA_SUCCESS ||
        found != 0) {
        return NULL;
    }
    return ((resolve2_fn *)self)(name, &address, by->version, by->flags, &found) == CUDA_SUCCESS
               ? address
               : NULL;
}

static void *find(void *library, const char *way, const char *name, const char *symbol) {
    for (size_t i = 0; i < sizeof resolvers / sizeof *resolvers; i++) {
        if (strcmp(way, resolvers[i].way) == 0) {
            return resolve(library, &resolvers[i], name);
        }
    }
    return dlsym(strcmp(way, "default") ? library : RTLD_DEFAULT, symbol);
}

int caller_find(const char *way, caller_driver *out) {
    const int mode = RTLD_NOW | (strcmp(way, "deepbind") ? 0 : RTLD_DEEPBIND) |
                     (strcmp(way, "default") ? 0 : RTLD_GLOBAL);
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
