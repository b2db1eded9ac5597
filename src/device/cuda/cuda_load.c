/* Opens the driver's libraries and fills the tables.
 *
 * Both tables are lists of (name, offset of the pointer), generated from the .def files, walked by one loop over
 * dlsym.  dlsym by the exported name gives exactly the version of a function that we declare, so cuGetProcAddress,
 * which would choose by driver version, is not needed.
 *
 * RTLD_NODELETE: the driver starts threads and exit handlers of its own, so its code must never be unmapped; with the
 * flag our dlclose only gives the count back. */
#include "device/cuda/cuda_load.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/fault.h"

enum { MUST = 1, MAY = 0 };

static const hri_cuda_entry driver_entries[] = {
#define HRI_CU_FN(NEED, NAME, FEATURE, PARAMETERS, ARGUMENTS)                                      \
    {#NAME, FEATURE, offsetof(hri_cuda_driver, NAME), NEED},
#include "device/cuda/cuda_api.def"
#undef HRI_CU_FN
};

static const hri_cuda_entry nvml_entries[] = {
#define HRI_NVML_FN(RETURNS, NAME, PARAMETERS) {#NAME, "", offsetof(hri_cuda_nvml, NAME), MUST},
#include "device/cuda/nvml_api.def"
#undef HRI_NVML_FN
};

static const hri_cuda_entry nvrtc_entries[] = {
#define HRI_NVRTC_FN(RETURNS, NAME, PARAMETERS) {#NAME, "", offsetof(hri_cuda_nvrtc, NAME), MUST},
#include "device/cuda/nvrtc_api.def"
#undef HRI_NVRTC_FN
};

#define COUNT(ARRAY) (sizeof(ARRAY) / sizeof((ARRAY)[0]))

static void *open_first(const char *const *names, char why_not[HRI_CUDA_TEXT]) {
    int first = 1;
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        if (library) {
            return library;
        }
        const char *text = dlerror();
        if (first) {
            snprintf(why_not, HRI_CUDA_TEXT, "%s", text ? text : *names);
        }
        first = 0;
    }
    return NULL;
}

/* The copy that this process has already, PyTorch's for example, before any other of that name; then the folders of
 * HEADROOM_CUDA_PATH, joined by ':'. */
static void *open_in_folders(const char *const *names) {
    const char *folders = getenv("HEADROOM_CUDA_PATH");
    void *library = NULL;
    for (size_t i = 0; names[i] && !library; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_NOLOAD);
    }
    while (folders && *folders && !library) {
        const size_t length = strcspn(folders, ":");
        for (size_t i = 0; names[i] && length && !library; i++) {
            char path[4096];
            const int used = snprintf(path, sizeof path, "%.*s/%s", (int)length, folders, names[i]);
            if (used > 0 && (size_t)used < sizeof path) { /* the system knows no longer ones */
                library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
            }
        }
        folders += length + (folders[length] == ':');
    }
    return library;
}

static void *open_library(const char *name, char *why_not) {
    return open_first((const char *const[]){name, NULL}, why_not);
}

void *hri_cuda_library_open(const char *const *names, char why_not[HRI_CUDA_TEXT]) {
    if (HRI_FAULT(OPEN)) {
        snprintf(why_not, HRI_CUDA_TEXT, "%s", names[0]);
        return NULL;
    }
    void *library = open_in_folders(names);
    return library ? library : open_first(names, why_not);
}

int hri_cuda_library_find(void *library, void *table, const hri_cuda_entry *entries, size_t count,
                          char why_not[HRI_CUDA_TEXT]) {
    int all = 1;
    for (size_t i = 0; i < count; i++) {
        void *symbol = dlsym(library, entries[i].name);
        memcpy((char *)table + entries[i].offset, &symbol, sizeof symbol);
        if (!symbol && entries[i].must && all) {
            snprintf(why_not, HRI_CUDA_TEXT, "the library lacks the function %s", entries[i].name);
            all = 0;
        }
    }
    return all;
}

void hri_cuda_driver_load(hri_cuda_driver *out) {
    memset(out, 0, sizeof *out);
    out->library = open_library("libcuda.so.1", out->why_not);
    if (out->library) {
        out->usable = hri_cuda_library_find(out->library, out, driver_entries,
                                            COUNT(driver_entries), out->why_not);
    }
}

void hri_cuda_driver_unload(hri_cuda_driver *driver) {
    if (driver->library) {
        dlclose(driver->library);
    }
    memset(driver, 0, sizeof *driver);
}

void hri_cuda_driver_each_missing(const hri_cuda_driver *driver,
                                  void (*fn)(void *user, const char *name, const char *feature),
                                  void *user) {
    for (size_t i = 0; i < COUNT(driver_entries); i++) {
        void *symbol;
        memcpy(&symbol, (const char *)driver + driver_entries[i].offset, sizeof symbol);
        if (!symbol && !driver_entries[i].must) {
            fn(user, driver_entries[i].name, driver_entries[i].feature);
        }
    }
}

void hri_cuda_nvml_load(hri_cuda_nvml *out) {
    memset(out, 0, sizeof *out);
    out->library = open_library("libnvidia-ml.so.1", out->why_not);
    if (!out->library) {
        return;
    }
    out->found = 1;
    if (!hri_cuda_library_find(out->library, out, nvml_entries, COUNT(nvml_entries),
                               out->why_not)) {
        return;
    }
    const nvmlReturn_t result = out->nvmlInit_v2();
    if (result != NVML_SUCCESS) {
        snprintf(out->why_not, sizeof out->why_not, "nvmlInit: %s", out->nvmlErrorString(result));
        return;
    }
    out->usable = 1;
}

void hri_cuda_nvml_unload(hri_cuda_nvml *nvml) {
    if (nvml->usable) {
        nvml->nvmlShutdown(); /* counted by NVML; a failure here concerns nobody */
    }
    if (nvml->library) {
        dlclose(nvml->library);
    }
    memset(nvml, 0, sizeof *nvml);
}

void hri_cuda_nvrtc_load(hri_cuda_nvrtc *out) {
    static const char *const names[] = {
        "libnvrtc.so.13", "libnvrtc.so.12",
        "/usr/local/cuda/lib64/libnvrtc.so.13", /* not in the loader's path */
        "/usr/local/cuda/lib64/libnvrtc.so.12", NULL};
    memset(out, 0, sizeof *out);
    out->library = hri_cuda_library_open(names, out->why_not);
    if (!out->library) {
        return;
    }
    out->found = 1;
    if (!hri_cuda_library_find(out->library, out, nvrtc_entries, COUNT(nvrtc_entries),
                               out->why_not)) {
        return;
    }
    const nvrtcResult result = out->nvrtcVersion(&out->major, &out->minor);
    if (result != NVRTC_SUCCESS) {
        snprintf(out->why_not, sizeof out->why_not, "nvrtcVersion: %s",
                 out->nvrtcGetErrorString(result));
        return;
    }
    out->usable = 1;
}

void hri_cuda_nvrtc_unload(hri_cuda_nvrtc *nvrtc) {
    if (nvrtc->library) {
        dlclose(nvrtc->library);
    }
    memset(nvrtc, 0, sizeof *nvrtc);
}
