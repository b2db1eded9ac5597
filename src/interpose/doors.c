/* Lookups and their answers; see doors.h. */
#include "interpose/doors.h"
#include "interpose/spill.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#define LOAD(X)     __atomic_load_n(&(X), __ATOMIC_ACQUIRE)
#define STORE(X, V) __atomic_store_n(&(X), (V), __ATOMIC_RELEASE)
#define COUNT(X)    __atomic_fetch_add(&(X), 1, __ATOMIC_RELAXED)

__attribute__((visibility("hidden"))) void *(*hri_dlsym_real)(void *, const char *);
hri_doors hri_door_counts;
const char *hri_door_unknown[9];

static const char *const names[HRI_HOOKS] = {
#define HRI_HOOK(NAME, PARAMETERS)            #NAME,
#define HRI_NVML_HOOK(NAME, PARAMETERS)       #NAME,
#define HRI_SPILL_HOOK(NAME, PARAMETERS)      #NAME,
#define HRI_GATE(NAME, PARAMETERS, ARGUMENTS) #NAME,
#include "interpose/hooks.def"
#include "interpose/gates.def"
#undef HRI_HOOK
#undef HRI_NVML_HOOK
#undef HRI_SPILL_HOOK
#undef HRI_GATE
};

static void *const hooks[HRI_HOOKS] = {
#define HRI_HOOK(NAME, PARAMETERS)            (void *)NAME,
#define HRI_NVML_HOOK(NAME, PARAMETERS)       (void *)NAME,
#define HRI_SPILL_HOOK(NAME, PARAMETERS)      (void *)NAME,
#define HRI_GATE(NAME, PARAMETERS, ARGUMENTS) (void *)NAME,
#include "interpose/hooks.def"
#include "interpose/gates.def"
#undef HRI_HOOK
#undef HRI_NVML_HOOK
#undef HRI_SPILL_HOOK
#undef HRI_GATE
};

/* 1: only for programs with --spill. */
static const unsigned char for_spill[HRI_HOOKS] = {
#define HRI_HOOK(NAME, PARAMETERS)            0,
#define HRI_NVML_HOOK(NAME, PARAMETERS)       0,
#define HRI_SPILL_HOOK(NAME, PARAMETERS)      1,
#define HRI_GATE(NAME, PARAMETERS, ARGUMENTS) 1,
#include "interpose/hooks.def"
#include "interpose/gates.def"
#undef HRI_HOOK
#undef HRI_NVML_HOOK
#undef HRI_SPILL_HOOK
#undef HRI_GATE
};

/* Names that take device memory and have no hook: to be counted when somebody gets one. */
static const char *const unhooked[] = {"cuMemAllocPitch",        "cuArrayCreate",
                                       "cuArray3DCreate",        "cuMulticastCreate",
                                       "cuMemPoolImportPointer", "cuIpcOpenMemHandle"};

/* With --spill, names that give the GPU work on plain memory must be gates (gates.def): one that is not is counted, too. */
static const char *const works[] = {"cuLaunch",          "cuMemcpy",
                                    "cuMemset",          "cuStreamWriteValue",
                                    "cuStreamWaitValue", "cuStreamBatchMemOp"};
/* These do not: callbacks of the host, arrays. */
static const char *const harmless[] = {"cuLaunchHostFunc", "cuMemcpyAtoA", "cuMemcpyAtoH",
                                       "cuMemcpyHtoA"};

static void
    *real[HRI_HOOKS]; /* the driver's address of each; written once, the same by everybody */

const char *hri_hook_name(hri_hook hook) {
    return names[hook];
}

static int is_nvml(const char *name) {
    return name[0] == 'n';
}

/* cu[A-Z]... or nvml[A-Z]... : never "curl_easy_init". */
static int ours(const char *name) {
    return (name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z') ||
           (strncmp(name, "nvml", 4) == 0 && name[4] >= 'A' && name[4] <= 'Z');
}

static int find_name(const char *name) {
    for (int i = 0; i < HRI_HOOKS; i++) {
        if (strcmp(names[i], name) == 0) {
            return i;
        }
    }
    return -1;
}

/* Without --spill the functions that only it needs are the driver's own. */
static int wanted(int hook) {
    return !for_spill[hook] || hri_spill_on();
}

static void find_dlsym(void) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    for (unsigned i = 0; i < 3 && !LOAD(hri_dlsym_real); i++) {
        void *found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        if (found) {
            STORE(hri_dlsym_real, (void *(*)(void *, const char *))found);
        }
    }
}

/* Counts a name, and keeps it, or the beginning that gave it away, once. */
static void keep_unknown(const char *name) {
    COUNT(hri_door_counts.unknown);
    for (int j = 0; j < 8; j++) {
        const char *none = NULL;
        if (LOAD(hri_door_unknown[j]) == name ||
            __atomic_compare_exchange_n(&hri_door_unknown[j], &none, name, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            return;
        }
    }
}

/* The beginning that a name shares with one of the list; NULL: none. */
static const char *begins(const char *name, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strncmp(name, list[i], strlen(list[i])) == 0) {
            return list[i];
        }
    }
    return NULL;
}

static void note_unknown(const char *name) {
    for (unsigned i = 0; i < sizeof unhooked / sizeof *unhooked; i++) {
        if (strcmp(unhooked[i], name) == 0) {
            keep_unknown(unhooked[i]);
            return;
        }
    }
    const char *work = begins(name, works, sizeof works / sizeof *works);
    if (work && hri_spill_on() && !begins(name, harmless, sizeof harmless / sizeof *harmless)) {
        keep_unknown(work);
    }
}

void *hri_dlsym_pick(void *handle, const char *name) {
    const int error = errno;
    find_dlsym();
    void *answer = NULL;
    if (name && handle != RTLD_NEXT && handle != RTLD_DEFAULT && ours(name)) {
        const int i = find_name(name);
        void *address = i >= 0 ? hri_dlsym_real(handle, name) : NULL;
        if (address && address != hooks[i]) {
            /* The first library that has the name is the driver; another one (a stub, a wrapper) keeps its own. */
            void *none = NULL;
            __atomic_compare_exchange_n(&real[i], &none, address, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE);
            answer = LOAD(real[i]) == address && wanted(i) ? hooks[i] : NULL;
        }
        if (answer) {
            COUNT(hri_door_counts.by_dlsym);
        } else if (i < 0) {
            note_unknown(name);
        }
    }
    errno = error;
    return answer;
}

/* The library that a driver function lies in, or the one of that name that is loaded already; never loads one. */
static void *library_of(int nvml) {
    static void *kept[2];
    void *library = LOAD(kept[nvml]);
    for (int i = 0; i < HRI_HOOKS && !library; i++) {
        Dl_info info;
        if (is_nvml(names[i]) == nvml && LOAD(real[i]) && dladdr(LOAD(real[i]), &info) &&
            info.dli_fname) {
            library = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        }
    }
    if (!library) {
        library = dlopen(nvml ? "libnvidia-ml.so.1" : "libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    }
    if (library) {
        STORE(kept[nvml], library);
    }
    return library;
}

hri_function hri_real(hri_hook hook) {
    void *address = LOAD(real[hook]);
    if (!address) {
        find_dlsym();
        void *library = library_of(is_nvml(names[hook]));
        address = library && hri_dlsym_real ? hri_dlsym_real(library, names[hook]) : NULL;
        if (address && address != hooks[hook]) {
            COUNT(hri_door_counts.by_binding);
            STORE(real[hook], address);
        }
    }
    return (hri_function)address;
}

hri_function hri_driver_function(const char *name) {
    find_dlsym();
    void *library = library_of(0);
    return (hri_function)(library && hri_dlsym_real ? hri_dlsym_real(library, name) : NULL);
}

hri_function hri_nvml_function(const char *name) {
    find_dlsym();
    void *library = library_of(1);
    return (hri_function)(library && hri_dlsym_real ? hri_dlsym_real(library, name) : NULL);
}

void *hri_door_route(const char *symbol, void *address) {
    static uint64_t table_done;
    if (!LOAD(table_done)) {
        for (int i = 0; i < HRI_HOOKS; i++) {
            if (!is_nvml(names[i])) {
                hri_real((hri_hook)i);
            }
        }
        STORE(table_done, 1);
    }
    for (int i = 0; i < HRI_HOOKS; i++) {
        if (address == hooks[i] || (address && LOAD(real[i]) == address)) {
            if (!wanted(i)) {
                return address;
            }
            COUNT(hri_door_counts.by_resolver);
            return hooks[i];
        }
    }
    if (find_name(symbol) >= 0) {
        /* A hooked name with an address that the driver does not export: shown as an escape. */
        COUNT(hri_door_counts.unknown);
    } else {
        note_unknown(symbol);
    }
    return address;
}
