/* The cache of compiled kernels: used, damaged, unwritable, of another compiler; and a machine without a compiler. */
#include "kernel_rig.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/cuda/gpu_state.h"

#define ADD KERNEL "{ x[threadIdx.x] += (float)n; }"

/* The one file in the cache; fails when there is not exactly one. */
static void only_entry(const bench *b, char *out, size_t size) {
    char folder[96];
    int count = 0;
    snprintf(folder, sizeof folder, "%s/kernels", b->folder);
    DIR *dir = opendir(folder);
    CHECK(dir != NULL);
    for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        if (e->d_name[0] != '.') {
            snprintf(out, size, "%s/%s", folder, e->d_name);
            count++;
        }
    }
    closedir(dir);
    CHECK_EQ(count, 1);
}

/* Opens the GPU anew, adds 2 to 64 numbers, and says how often the compiler was asked. */
static uint64_t compilations(bench *b) {
    float x[64] = {1.0f};
    bench_gpu(b);
    bench_put(b, x, sizeof x);
    bench_launch(b, ADD, 1, 64, b->block.addr, 2);
    bench_get(b, x, sizeof x);
    CHECK(x[0] == 3.0f && x[63] == 2.0f);
    const uint64_t count = b->gpu->compiled;
    hri_gpu_close(b->gpu);
    b->gpu = NULL;
    return count;
}

TEST(kernel_cache, the_second_run_compiles_nothing) {
    bench b;
    char path[256];
    bench_open(&b);
    CHECK_EQ(compilations(&b), 1);
    only_entry(&b, path, sizeof path);
    CHECK_EQ(compilations(&b), 0);
    bench_close(&b);
}

/* Changes byte `at` of the entry, from its end when negative; or cuts the file there. */
static void damage(const char *path, long at, int cut) {
    FILE *file = fopen(path, "r+");
    CHECK(file != NULL);
    CHECK_EQ(fseek(file, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    const long place = ftell(file);
    const int c = getc(file);
    CHECK(c != EOF);
    CHECK_EQ(fseek(file, place, SEEK_SET), 0);
    if (cut) {
        CHECK_EQ(ftruncate(fileno(file), place), 0);
    } else {
        putc(c ^ 1, file);
    }
    CHECK_EQ(fclose(file), 0);
}

TEST(kernel_cache, a_damaged_entry_is_made_anew) {
    static const struct {
        long at;
        int cut;
    } ways[] = {{0, 0},  {9, 0}, {17, 0}, {25, 0}, {40, 0},
                {-1, 0}, {3, 1}, {32, 1}, {-1, 1}, {-100, 1}};
    bench b;
    char path[256];
    bench_open(&b);
    CHECK_EQ(compilations(&b), 1);
    only_entry(&b, path, sizeof path);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        damage(path, ways[i].at, ways[i].cut);
        CHECK_EQ(compilations(&b), 1);
    }
    CHECK_EQ(compilations(&b), 0);
    bench_close(&b);
}

/* A cubin that is whole and yet not for this device, as from a home folder shared with another machine. */
TEST(kernel_cache, an_entry_that_the_driver_refuses_is_made_anew) {
    bench b;
    char path[256];
    bench_open(&b);
    CHECK_EQ(compilations(&b), 1);
    only_entry(&b, path, sizeof path);
    char *name = strrchr(path, '-');
    hri_gpu_key key;
    for (int i = 0; i < HRI_SHA256_BYTES; i++) {
        unsigned byte;
        CHECK_EQ(sscanf(name + 1 + 2 * i, "%2x", &byte), 1);
        key.digest[i] = (unsigned char)byte;
    }
    bench_gpu(&b);
    hri_gpu_cache_put(b.gpu, "test", &key, "this is no code for any device", 30);
    hri_gpu_close(b.gpu);
    b.gpu = NULL;
    CHECK_EQ(compilations(&b), 1);
    CHECK_EQ(compilations(&b), 0);
    bench_close(&b);
}

TEST(kernel_cache, a_folder_that_cannot_be_written_is_no_failure) {
    bench b;
    char path[128];
    bench_open(&b);
    snprintf(path, sizeof path, "%s/kernels", b.folder);
    FILE *file = fopen(path, "w"); /* a file where the folder should be */
    CHECK(file != NULL);
    fclose(file);
    CHECK_EQ(compilations(&b), 1);
    CHECK_EQ(compilations(&b), 1);
    bench_close(&b);
}

TEST(kernel_cache, what_others_may_write_is_not_run) {
    bench b;
    char path[256], kernels[256], copy[300];
    struct stat info;
    bench_open(&b);
    CHECK_EQ(compilations(&b), 1);
    only_entry(&b, path, sizeof path);
    snprintf(kernels, sizeof kernels, "%s/kernels", b.folder);
    CHECK(stat(path, &info) == 0 && (info.st_mode & 07777) == 0600);
    CHECK(stat(kernels, &info) == 0 && (info.st_mode & 07777) == 0700);
    CHECK_EQ(chmod(path, 0622), 0); /* the file */
    CHECK_EQ(compilations(&b), 1);
    CHECK_EQ(compilations(&b), 0);     /* it was replaced */
    CHECK_EQ(chmod(kernels, 0777), 0); /* the folder */
    CHECK_EQ(compilations(&b), 1);
    CHECK_EQ(compilations(&b), 1);
    CHECK_EQ(chmod(kernels, 0700), 0);
    CHECK_EQ(compilations(&b), 0);
    snprintf(copy, sizeof copy, "%s.copy", path); /* a link in its place */
    CHECK(rename(path, copy) == 0 && symlink(copy, path) == 0);
    CHECK_EQ(compilations(&b), 1);
    unlink(copy);
    bench_close(&b);
}

TEST(kernel_cache, an_entry_under_anothers_name_is_none) {
    bench b;
    float x[64] = {0};
    char path[256], away[300];
    bench_open(&b);
    CHECK_EQ(compilations(&b), 1);
    only_entry(&b, path, sizeof path);
    snprintf(away, sizeof away, "%s/away", b.folder);
    CHECK_EQ(rename(path, away), 0);
    bench_gpu(&b);
    bench_put(&b, x, sizeof x);
    bench_launch(&b, KERNEL "{ x[threadIdx.x] -= (float)n; }", 1, 64, b.block.addr, 2);
    hri_gpu_close(b.gpu);
    b.gpu = NULL;
    only_entry(&b, path, sizeof path); /* the subtraction */
    CHECK_EQ(rename(away, path), 0);   /* whole, and yet not what its name says */
    bench_gpu(&b);
    bench_launch(&b, KERNEL "{ x[threadIdx.x] -= (float)n; }", 1, 64, b.block.addr, 2);
    bench_get(&b, x, sizeof x);
    CHECK(x[0] == -4.0f && b.gpu->compiled == 1);
    bench_close(&b);
}

TEST(kernel_cache, other_options_are_another_entry) {
    bench b;
    float x[64] = {0};
    static const hri_gpu_source source = {"named",
                                          KERNEL "{ x[threadIdx.x] += (float)(n * FACTOR); }"};
    bench_open(&b);
    bench_gpu(&b);
    bench_put(&b, x, sizeof x);
    int32_t n = 1;
    const hri_gpu_grid grid = {.x = 1, .threads = 64};
    for (int pass = 0; pass < 2; pass++) {
        CHECK_OK(hri_gpu_launch(b.gpu, &source, "-DFACTOR=1", "k", &grid,
                                HRI_GPU_ARGS(&b.block.addr, &n)));
        CHECK_OK(hri_gpu_launch(b.gpu, &source, "-DFACTOR=10", "k", &grid,
                                HRI_GPU_ARGS(&b.block.addr, &n)));
    }
    bench_get(&b, x, sizeof x);
    CHECK(x[0] == 22.0f && x[63] == 22.0f);
    CHECK_EQ(b.gpu->compiled, 2);
    bench_close(&b);
}

TEST(kernel_cache, without_nvrtc_there_are_words) {
    bench b;
    hri_prose why = {0};
    bench_open(&b);
    hri_fault_set(HRI_FAULT_OPEN, 1, 0); /* opening the library */
    CHECK_STATUS(bench_try_gpu(&b, &why), HR_E_UNSUPPORTED);
    hri_fault_set(HRI_FAULT_ANY, 0, 0);
    CHECK(strstr(why.text, "kernels need NVRTC") != NULL);
    bench_close(&b);
}

TEST(kernel_cache, a_device_of_another_kind_runs_no_kernels) {
    bench b;
    hr_device *host;
    hri_prose why = {0};
    bench_open(&b);
    CHECK_OK(hr_device_find(b.ctx, "host", &host));
    CHECK_STATUS(hri_gpu_open(host, NULL, &b.gpu, &why), HR_E_UNSUPPORTED);
    CHECK_STR(why.text, "host cannot run kernels");
    bench_close(&b);
}
