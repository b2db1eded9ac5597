/* Finding the driver: every way in which it can be absent, broken or partial gives a machine without (some of) it, and
 * words.  Each case starts fakecuda_show with another library path, as a path holds from the start of a process. */
#include "rig.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Runs fakecuda_show with `environment` ("A=1 B=2") and gives its output. */
static const char *show(const char *environment, const char *argument) {
    static char output[8192];
    char command[2048];
    rig_isolate();
    if (access(FAKECUDA_SHOW, X_OK) != 0) {
        test_skip("%s is not there", FAKECUDA_SHOW);
    }
    snprintf(command, sizeof command, "env -u LD_LIBRARY_PATH %s %s %s", environment, FAKECUDA_SHOW,
             argument);
    FILE *pipe = popen(command, "r");
    CHECK(pipe != NULL);
    const size_t got = fread(output, 1, sizeof output - 1, pipe);
    output[got] = '\0';
    CHECK_EQ(pclose(pipe), 0);
    return output;
}

static void check_has(const char *output, const char *part) {
    test_count_check();
    if (!strstr(output, part)) {
        test_fail(__FILE__, __LINE__, "\"%s\" is not in:\n%s", part, output);
    }
}

static void check_has_not(const char *output, const char *part) {
    test_count_check();
    if (strstr(output, part)) {
        test_fail(__FILE__, __LINE__, "\"%s\" is in:\n%s", part, output);
    }
}

#define WHOLE "LD_LIBRARY_PATH=" FAKECUDA_ROOT "/fakecuda "

TEST(loader, no_library_is_a_machine_without_devices) {
    const char *output = show("", "");
    if (!strstr(output, "count 0")) {
        test_skip("this machine has a real driver");
    }
    check_has(output, "cuda driver | missing | ");
    check_has(output, "libcuda.so.1: cannot open shared object file");
}

TEST(loader, a_file_that_is_no_library_is_told) {
    char folder[] = "/tmp/headroom-lame-XXXXXX", path[64], environment[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    fputs("not a library\n", file);
    fclose(file);
    snprintf(environment, sizeof environment, "LD_LIBRARY_PATH=%s", folder);
    const char *output = show(environment, "");
    unlink(path);
    rmdir(folder);
    check_has(output, "count 0");
    check_has(output, "cuda driver | missing | ");
    check_has(output, "libcuda.so.1: ");
}

TEST(loader, a_missing_function_that_may_be_missing_switches_off_one_feature) {
    const char *output = show("LD_LIBRARY_PATH=" FAKECUDA_ROOT "/fakecuda-old", "");
    check_has(output, "count 1");
    check_has(output, "cuda driver | ok | 13.0 | libcuda.so.1, 1 device\n");
    check_has(output, "the driver lacks cuMemHostAlloc; pinned memory disabled");
    check_has(output, "the driver lacks cuEventElapsedTime; times of events disabled");
    check_has(output, "pinned: HR_E_UNSUPPORTED (cuMemHostAlloc: CUDA error 801)");
    check_has(output, "elapsed: HR_E_UNSUPPORTED");
}

TEST(loader, a_missing_function_that_must_be_there_is_no_driver) {
    const char *output = show("LD_LIBRARY_PATH=" FAKECUDA_ROOT "/fakecuda-lame", "");
    check_has(output, "count 0");
    check_has(output, "cuda driver | broken | ");
    check_has(output, "the library lacks the function cuMemCreate: no CUDA devices");
}

TEST(loader, a_whole_driver_misses_nothing) {
    const char *output = show(WHOLE, "");
    check_has(output, "count 1");
    check_has(output, "pinned: HR_OK");
    check_has(output, "elapsed: HR_E_AGAIN");
    check_has_not(output, "the driver lacks");
    check_has_not(output, "broken");
    check_has(output, "nvrtc | ok | 13.0 | compiles the kernels\n");
}

TEST(loader, without_nvrtc_the_report_says_what_is_lost) {
    const char *output = show("LD_LIBRARY_PATH=" FAKECUDA_ROOT "/fakecuda-old", "");
    if (strstr(output, "nvrtc | ok")) {
        test_skip("this machine has an NVRTC of its own");
    }
    check_has(output, "nvrtc | missing |  | libnvrtc.so.13: cannot open shared object file");
    check_has(output, "no kernels: the GPU cannot be used for training");
}

TEST(loader, a_failing_cuInit_is_told_with_its_text) {
    const char *output = show(WHOLE "FAKECUDA_FAIL=cuInit:1=803", "");
    check_has(output, "count 0");
    check_has(output, "cuda driver | broken | 13.0 | cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (");
    output = show(WHOLE "FAKECUDA_FAIL=cuDeviceGetCount:1=999", "");
    check_has(output, "cuda driver | broken | 13.0 | cuDeviceGetCount: CUDA_ERROR_UNKNOWN (");
}

TEST(loader, a_driver_without_devices_is_not_broken) {
    const char *output = show(WHOLE "CUDA_VISIBLE_DEVICES=", "");
    check_has(output, "count 0");
    check_has(output, "cuda driver | missing | 13.0 | cuInit: CUDA_ERROR_NO_DEVICE (");
    output = show(WHOLE "FAKECUDA_DEVICES=0", "");
    check_has(output, "count 0");
}

TEST(loader, visible_devices_are_the_drivers_affair) {
    const char *output = show(WHOLE "FAKECUDA_DEVICES=3 FAKECUDA_CAPACITY=1GiB,2GiB,512MiB "
                                    "CUDA_VISIBLE_DEVICES=2,0",
                              "");
    check_has(output, "count 2");
    check_has(output, "cuda:0 \"Fake GPU 2\" 9.0 total 536870912 ");
    check_has(output, "cuda:1 \"Fake GPU 0\" 9.0 total 1073741824 ");
    /* NVML numbers devices otherwise: matched by number, these two would be mixed up. */
    check_has(output, "runtime 69206016 process 69206016\n");
}

TEST(loader, no_cuda_does_not_even_look) {
    const char *output = show(WHOLE, "off");
    check_has(output, "count 0");
    check_has(output, "cuda driver | missing |  | disabled by the caller");

    const hr_ctx_options options = {.size = sizeof options, .no_cuda = 1};
    hri_lib *lib;
    CHECK_OK(cuda.probe(&options, NULL, &lib));
    CHECK_EQ(lib->device_count, 0);
    CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == NULL);
    cuda.unprobe(lib);
}

TEST(loader, the_measure_of_the_runtime_is_told) {
    const char *output = show(WHOLE "FAKECUDA_CONTEXT=100MiB FAKECUDA_LAZY=10MiB", "");
    check_has(output, "runtime 115343360 process 115343360\n");
    check_has(output,
              "cuda:0 | ok |  | runtime and process memory as NVML reports them for this process");
    output = show(WHOLE "FAKECUDA_NVML_PIDS=translate", "");
    check_has(output, "runtime 69206016 process 69206016\n");
    check_has(output, "it lists this process under another PID");
    output = show(WHOLE "FAKECUDA_NVML_PIDS=hide", "");
    check_has(output, "runtime 69206016 process 0\n");
    check_has(output, "NVML does not list this process");
    output = show(WHOLE "FAKECUDA_FAIL=nvmlInit:1", "");
    check_has(output, "runtime 69206016 process 0\n");
    check_has(output, "nvml | broken |  | nvmlInit: Driver Not Loaded");
    check_has(output, "cuda:0 | ok |  | without NVML: ");
}

TEST(loader, a_device_too_full_for_a_context_is_a_status) {
    const char *output = show(WHOLE "FAKECUDA_CAPACITY=32MiB", "");
    check_has(output, "log 0: cuda:0 cannot be opened: cuDevicePrimaryCtxRetain: "
                      "CUDA_ERROR_OUT_OF_MEMORY (out of memory)\nopen 0: HR_E_NOMEM_DEVICE\n");
}
