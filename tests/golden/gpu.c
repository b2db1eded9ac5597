/* The commands on a GPU: the fake driver of tests/fakecuda, whole, failing, lame, and none at all. */
#include "golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A state file of this case alone, so that no other process is on the device. */
static const char *state_variable(void) {
    static char text[64];
    char path[] = "/tmp/headroom-golden-XXXXXX";
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    unlink(path);
    snprintf(text, sizeof text, "FAKECUDA_STATE=%s", path);
    return text;
}

static golden_result run_with(const char *args, const char *library_path, const char *more) {
    const char *state = state_variable();
    const golden_result r = GOLDEN_RUN(args, .env = {library_path, state, "FAKECUDA_CAPACITY=24GiB",
                                                     "HEADROOM_CACHE_DIR=/tmp/hr-golden", more});
    unlink(strchr(state, '=') + 1);
    return r;
}

#define WHOLE "LD_LIBRARY_PATH=" HEADROOM_BUILD "/fakecuda"
#define LAME  "LD_LIBRARY_PATH=" HEADROOM_BUILD "/fakecuda-lame"

TEST(gpu, devices_does_not_open_it) {
    const golden_result r = run_with("devices cuda:0", WHOLE, "FAKECUDA_FAIL=cuMemCreate:1+");
    CHECK_STR(r.err, "");
    CHECK_EQ(r.code, 0);
    golden_compare("devices_gpu", r.out);
    CHECK(strstr(run_with("devices cuda:0 --json", WHOLE, NULL).out, "\"runtime_bytes\": null"));
}

TEST(gpu, devices_measures_its_runtime_when_asked) {
    const golden_result r = run_with("devices cuda:0 --measure", WHOLE, NULL);
    CHECK_STR(r.err, "");
    CHECK_EQ(r.code, 0);
    golden_compare("devices_gpu_measured", r.out);
}

TEST(gpu, doctor_tries_it) {
    const golden_result r = run_with("doctor cuda:0", WHOLE, NULL);
    CHECK_EQ(r.code, 0);
    CHECK(strstr(r.out, "cuda:0           copies through pinned memory"));
    CHECK(strstr(r.out, "6 checks = 6 ok + 0 failed + 0 skipped"));
}

TEST(gpu, doctor_finds_a_device_that_gives_no_memory) {
    const golden_result r = run_with("doctor cuda:0", WHOLE, "FAKECUDA_FAIL=cuMemCreate:1+");
    CHECK_EQ(r.code, 1);
    CHECK(strstr(r.out, "some checks failed"));
    CHECK(strstr(r.out, "  FAILED  cuda:0 "));
    CHECK(strstr(r.out, "next: headroom doctor --log-level debug"));
}

TEST(gpu, doctor_names_a_driver_that_is_too_old_as_broken) {
    const golden_result r = run_with("doctor host", LAME, NULL);
    CHECK_EQ(r.code, 0);
    const char *line = strstr(r.out, "\n  broken ");
    CHECK(line); /* the column is as wide as the words in it: a library may be missing */
    CHECK(!strncmp(line + 9 + strspn(line + 9, " "), "cuda driver", 11));
}

TEST(gpu, devices_shows_one_that_cannot_be_opened) {
    const golden_result r =
        run_with("devices cuda:0 host --json --measure", WHOLE, "FAKECUDA_FAIL=cuMemCreate:1+");
    CHECK_EQ(r.code, 1);
    CHECK(strstr(r.out, "\"usable\": false"));
    CHECK(strstr(r.out, "\"usable\": true"));
    const golden_result words =
        run_with("devices cuda:0 --measure", WHOLE, "FAKECUDA_FAIL=cuMemCreate:1+");
    CHECK_EQ(words.code, 1);
    golden_compare("devices_gpu_full", words.out);
}

TEST(gpu, cuda_visible_devices_hides_it) {
    const golden_result r = run_with("devices cuda:0", WHOLE, "CUDA_VISIBLE_DEVICES=");
    CHECK_EQ(r.code, 2);
}

TEST(gpu, no_cuda_does_not_look_for_it) {
    const golden_result r = run_with("devices --no-cuda", WHOLE, NULL);
    CHECK_EQ(r.code, 0);
    CHECK(strstr(r.out, "1 device, 0 GPUs"));
    CHECK(strstr(run_with("devices", WHOLE, "HEADROOM_CUDA=off").out, "1 device, 0 GPUs"));
}
