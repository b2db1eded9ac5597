/* Finding NCCL at run time; see nccl_min.h. */
#include "net/nccl_min.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda_load.h"

static bool find(void *library, const char *name, void *out) {
    void *symbol = dlsym(library, name);
    memcpy(out, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool fill(hri_nccl *n) {
    void *const l = n->library;
    (void)find(l, "ncclGetLastError", &n->last_error);
    return find(l, "ncclGetVersion", &n->get_version) &&
           n->get_version(&n->version) == HRI_NCCL_OK && n->version >= HRI_NCCL_LEAST &&
           find(l, "ncclGetUniqueId", &n->get_id) && find(l, "ncclCommInitRankConfig", &n->init) &&
           find(l, "ncclCommGetAsyncError", &n->async_error) &&
           find(l, "ncclCommAbort", &n->abort) && find(l, "ncclCommFinalize", &n->finalize) &&
           find(l, "ncclCommDestroy", &n->destroy) && find(l, "ncclGroupStart", &n->group_start) &&
           find(l, "ncclGroupEnd", &n->group_end) && find(l, "ncclSend", &n->send) &&
           find(l, "ncclRecv", &n->recv) && find(l, "ncclGetErrorString", &n->error_text);
}

uint32_t hri_nccl_channels(void) {
    const char *text = getenv(HRI_NCCL_CHANNELS);
    const long number = text ? strtol(text, NULL, 10) : 0;
    return number < 1 ? 4 : number > 64 ? 64 : (uint32_t)number;
}

void hri_nccl_version_text(int version, char *buf, size_t size) {
    if (version >= 10000) {
        snprintf(buf, size, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    } else { /* as 2.8 and before counted */
        snprintf(buf, size, "%d.%d.%d", version / 1000, version / 100 % 10, version % 100);
    }
}

static const char *of_this_process(void *user, const char *name) {
    (void)user;
    return getenv(name);
}

static void *open_of_wheel(void) {
    hri_text places = {0};
    void *library = NULL;
    hri_nccl_places(of_this_process, NULL, "/", &places);
    for (const char *at = hri_text_get(&places); *at && !library;) {
        const size_t length = strcspn(at, "\n");
        hri_text path = {0};
        hri_text_bytes(&path, at, length);
        library = dlopen(hri_text_get(&path), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        hri_text_deinit(&path);
        at += length + 1;
    }
    hri_text_deinit(&places);
    return library;
}

static const char *path_of(const hri_nccl *n) {
    Dl_info is;
    void *symbol;
    memcpy(&symbol, &n->get_version, sizeof symbol);
    return dladdr(symbol, &is) && is.dli_fname ? is.dli_fname : "";
}

hr_status hri_nccl_load(hri_nccl *out, hri_prose *why) {
    hri_nccl n = {0};
    char version[32];
    char why_not[HRI_CUDA_TEXT] = "";
    n.library = hri_cuda_library_open((const char *const[]){"libnccl.so.2", NULL}, why_not);
    n.library = n.library ? n.library : open_of_wheel();
    if (!n.library) {
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             "libnccl.so.2 was not found; HEADROOM_CUDA_PATH may name its folder");
    }
    if (!fill(&n)) {
        hri_nccl_version_text(n.version, version, sizeof version);
        dlclose(n.library);
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             "libnccl.so.2 is version %s: 2.14 or newer is needed", version);
    }
    n.path = path_of(&n);
    *out = n;
    return HR_OK;
}

void hri_nccl_unload(hri_nccl *nccl) {
    if (nccl->library) {
        dlclose(nccl->library);
    }
    *nccl = (hri_nccl){0};
}
