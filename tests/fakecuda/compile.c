/* compile LIBRARY TEXT IMAGE OPTION...: one CUDA text compiled by a real NVRTC.  Prints the log; exits with 0 or 1.
 *
 * For an architecture sm_N the image is a cubin, for compute_N it is PTX, which takes a fraction of the time.
 *
 * A program of its own, because the real library looks for the driver in its process and falls over the fake one. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "device/cuda/cuda_min.h"

typedef struct nvrtc {
#define HRI_NVRTC_FN(RETURNS, NAME, PARAMETERS) RETURNS(*NAME) PARAMETERS;
#include "device/cuda/nvrtc_api.def"
#undef HRI_NVRTC_FN
    nvrtcResult (*ptx_size)(nvrtcProgram, size_t *), (*ptx)(nvrtcProgram, char *);
} nvrtc;

static int open_library(const char *path, nvrtc *out) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int all = library != NULL;
#define HRI_NVRTC_FN(RETURNS, NAME, PARAMETERS)                                                    \
    *(void **)&out->NAME = library ? dlsym(library, #NAME) : NULL;                                 \
    all &= out->NAME != NULL;
#include "device/cuda/nvrtc_api.def"
#undef HRI_NVRTC_FN
    *(void **)&out->ptx_size = library ? dlsym(library, "nvrtcGetPTXSize") : NULL;
    *(void **)&out->ptx = library ? dlsym(library, "nvrtcGetPTX") : NULL;
    return all && out->ptx_size && out->ptx;
}

static char *read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    if (file && fseek(file, 0, SEEK_END) == 0) {
        const long bytes = ftell(file);
        rewind(file);
        text = bytes >= 0 ? calloc((size_t)bytes + 1, 1) : NULL;
        if (text && fread(text, 1, (size_t)bytes, file) != (size_t)bytes) {
            free(text);
            text = NULL;
        }
    }
    if (file) {
        fclose(file);
    }
    return text;
}

static int write_image(const nvrtc *lib, int ptx, nvrtcProgram program, const char *path) {
    size_t bytes = 0;
    nvrtcResult (*const size)(nvrtcProgram, size_t *) =
        ptx ? lib->ptx_size : lib->nvrtcGetCUBINSize;
    nvrtcResult (*const get)(nvrtcProgram, char *) = ptx ? lib->ptx : lib->nvrtcGetCUBIN;
    char *image = size(program, &bytes) == NVRTC_SUCCESS ? malloc(bytes) : NULL;
    FILE *file = image && get(program, image) == NVRTC_SUCCESS ? fopen(path, "wb") : NULL;
    int failed = !file || fwrite(image, 1, bytes, file) != bytes;
    failed |= file && fclose(file) != 0;
    free(image);
    return failed;
}

int main(int argc, char **argv) {
    if (getenv(
            "LD_LIBRARY_PATH")) { /* it leads to the fake driver; a path holds from the start of a process */
        unsetenv("LD_LIBRARY_PATH");
        execv("/proc/self/exe", argv);
        return 1;
    }
    nvrtc lib;
    nvrtcProgram program = NULL;
    size_t bytes = 0;
    char *text = argc > 3 ? read_text(argv[2]) : NULL;
    if (!text || !open_library(argv[1], &lib)) {
        fprintf(stderr, "error: compile LIBRARY TEXT IMAGE OPTION...\n");
        return 1;
    }
    nvrtcResult result = lib.nvrtcCreateProgram(&program, text, "text.cu", 0, NULL, NULL);
    if (result == NVRTC_SUCCESS) {
        result = lib.nvrtcCompileProgram(program, argc - 4, (const char *const *)argv + 4);
    }
    if (lib.nvrtcGetProgramLogSize(program, &bytes) == NVRTC_SUCCESS && bytes > 1) {
        char *log = calloc(bytes + 1, 1);
        if (log && lib.nvrtcGetProgramLog(program, log) == NVRTC_SUCCESS) {
            puts(log);
        }
        free(log);
    }
    int ptx = 0;
    for (int i = 4; i < argc; i++) {
        ptx |= strstr(argv[i], "-architecture=compute_") != NULL;
    }
    const int failed = result != NVRTC_SUCCESS || write_image(&lib, ptx, program, argv[3]);
    if (failed) {
        printf("error: %s\n", lib.nvrtcGetErrorString(result));
    }
    free(text);
    return failed;
}
