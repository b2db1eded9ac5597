/* Where CUDA's libraries are looked for: the folders of HEADROOM_CUDA_PATH, without a GPU or a driver. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "device/cuda/cuda_load.h"
#include "pictures.h"
#include "test.h"

TEST(cuda_path, a_library_is_found_in_the_folders_that_are_named) {
    static const char *const names[] = {"libheadroom-nowhere.so.7", "libheadroom-here.so.9", NULL};
    char why_not[HRI_CUDA_TEXT] = "", path[600], folders[1400];
    Dl_info zlib;
    CHECK(dladdr((void *)(uintptr_t)zlibVersion, &zlib) != 0); /* any library will do */
    const char *tmp = test_folder();
    snprintf(path, sizeof path, "%s/libheadroom-here.so.9", tmp);
    char *real = realpath(zlib.dli_fname, NULL);
    CHECK(real && symlink(real, path) == 0);
    free(real);
    unsetenv("HEADROOM_CUDA_PATH");
    CHECK(!hri_cuda_library_open(names, why_not));
    CHECK(*why_not);
    snprintf(folders, sizeof folders, "/nowhere::%s", tmp);
    CHECK(setenv("HEADROOM_CUDA_PATH", folders, 1) == 0);
    void *library = hri_cuda_library_open(names, why_not);
    CHECK(library != NULL && dlsym(library, "zlibVersion") != NULL);
    dlclose(library);
    unlink(path);
    unsetenv("HEADROOM_CUDA_PATH");
}
