/* cuGetProcAddress of the fake driver: names, versions and the flag for per-thread streams, from the one table. */
#include "fake.h"

#include <string.h>

typedef struct symbol {
    const char *name;
    void *address;
} symbol;

static const symbol symbols[] = {
#define HRI_CU_FN(NEED, NAME, FEATURE, PARAMETERS, ARGUMENTS) {#NAME, (void *)NAME},
#include "device/cuda/cuda_api.def"
#include "foreign.def"
#undef HRI_CU_FN
};

static void *address_of(const char *name, const char *suffix) {
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        if (strncmp(symbols[i].name, name, length) == 0 &&
            strcmp(symbols[i].name + length, suffix) == 0) {
            return symbols[i].address;
        }
    }
    return NULL;
}

/* As the driver resolves: the newest form that the caller's version knows, and its twin for per-thread streams. */
static void *resolve(const char *name, int version, unsigned long long flags) {
    if (strcmp(name, "cuGetProcAddress") == 0) {
        return version >= 12000 ? (void *)cuGetProcAddress_v2 : (void *)cuGetProcAddress;
    }
    if ((strcmp(name, "cuGraphAddNode") == 0 && version < 12030) ||
        (strcmp(name, "cuStreamBeginCapture") == 0 && version < 10010)) {
        return address_of(name, ""); /* fewer arguments */
    }
    if (version < 11020 && (strstr(name, "Async") || strstr(name, "Pool"))) {
        return NULL;
    }
    void *address = flags & 2 ? address_of(name, "_ptsz") : NULL;
    address = address ? address : address_of(name, "_v2");
    return address ? address : address_of(name, "");
}

CUresult fake_cuGetProcAddress(const char *name, void **out, int version,
                               unsigned long long flags) {
    if (!name || !out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = resolve(name, version, flags);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult fake_cuGetProcAddress_v2(const char *name, void **out, int version,
                                  unsigned long long flags, int *found) {
    const CUresult result = fake_cuGetProcAddress(name, out, version, flags);
    if (found) {
        *found = result == CUDA_SUCCESS ? 0 : 1;
    }
    return result;
}
