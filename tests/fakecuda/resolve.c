/* cuGetProcAddress of the fake driver: names, versions and the flag for per-thread streams, from the one table. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct symbol {
    const char *name;
    void *address;
    const char *since; /* "12.0", or words about something else */
} symbol;

static const symbol symbols[] = {
#define HRI_CU_FN(NEED, NAME, FEATURE, PARAMETERS, ARGUMENTS) {#NAME, (void *)NAME, FEATURE},
#include "fake_api.def"
#undef HRI_CU_FN
};

static int since(const symbol *s) {
    char *end;
    const long major = strtol(s->since, &end, 10);
    return *end == '.' ? (int)(major * 1000 + strtol(end + 1, NULL, 10) * 10) : 0;
}

static void *address_of(const char *name, const char *form, const char *twin, int version) {
    char whole[128];
    snprintf(whole, sizeof whole, "%s%s%s", name, form, twin);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        if (strcmp(symbols[i].name, whole) == 0) {
            return since(&symbols[i]) <= version ? symbols[i].address : NULL;
        }
    }
    return NULL;
}

/* As the driver resolves: the newest form that the caller's version and the driver's have, and its twin for per-thread
 * streams. */
static void *resolve(const char *name, int version, unsigned long long flags) {
    static const char *const forms[] = {"_v4", "_v3", "_v2", ""};
    version = version < fake_version() ? version : fake_version();
    if (version < 11020 && (strstr(name, "Async") || strstr(name, "Pool"))) {
        return NULL;
    }
    if (strcmp(name, "cuGraphInstantiate") == 0 && version >= 12000) {
        return (void *)cuGraphInstantiateWithFlags; /* what the name means since then */
    }
    const int oldest = strcmp(name, "cuStreamBeginCapture") == 0 && version < 10010;
    void *address = NULL;
    for (size_t i = oldest ? 3 : 0; i < 4 && !address; i++) {
        address = flags & 2 ? address_of(name, forms[i], "_ptsz", version) : NULL;
        address = address || !(flags & 2) ? address : address_of(name, forms[i], "_ptds", version);
        address = address ? address : address_of(name, forms[i], "", version);
    }
    return address;
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

/* The same for programs that were built for per-thread streams: no flag means those. */
CUresult fake_cuGetProcAddress_ptsz(const char *name, void **out, int version,
                                    unsigned long long flags) {
    return fake_cuGetProcAddress(name, out, version, flags ? flags : 2);
}

CUresult fake_cuGetProcAddress_v2_ptsz(const char *name, void **out, int version,
                                       unsigned long long flags, int *found) {
    return fake_cuGetProcAddress_v2(name, out, version, flags ? flags : 2, found);
}
