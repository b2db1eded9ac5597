/* The Nth outside call fails under a whole command: an exit code and a sentence, no crash, nothing left behind. */
#include "golden.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "base/fault.h"
#include "cli/common/program.h"

enum { SWEEP_MAX = 5000 };

#ifdef HEADROOM_FAULTS
static int run(const char *const *words, int out_fd) {
    char *argv[16] = {(char *)"headroom"};
    int argc = 1;
    for (; words[argc - 1]; argc++) {
        argv[argc] = (char *)words[argc - 1];
    }
    const int words_fd = dup(STDERR_FILENO); /* the sentences are not the point here */
    dup2(out_fd, STDERR_FILENO);
    const int code = hri_program_run(argc, argv, out_fd);
    dup2(words_fd, STDERR_FILENO);
    close(words_fd);
    return code;
}

/* Every N until a run passes untouched. */
static void sweep(const char *const *words, int for_ever) {
    const int null = open("/dev/null", O_WRONLY);
    CHECK(null >= 0);
    const int64_t before = hri_fault_live_allocs();
    uint64_t n = 1;
    for (; n < SWEEP_MAX; n++) {
        hri_fault_set(HRI_FAULT_ANY, n, for_ever);
        const int code = run(words, null);
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), before);
        if (!delivered) {
            CHECK_EQ(code, 0);
            break;
        }
        CHECK(code == 0 || code == 1 || code == 3);
    }
    CHECK(n > 3 && n < SWEEP_MAX);
    CHECK_EQ(run(words, null), 0); /* and after all of them it still works */
    close(null);
}
#endif

#define SWEEP(NAME, FOR_EVER, ...)                                                                 \
    TEST_TIMEOUT(faults, NAME, 120) {                                                              \
        static const char *const words[] = {__VA_ARGS__, NULL};                                    \
        sweep_or_skip(words, FOR_EVER);                                                            \
    }

static void sweep_or_skip(const char *const *words, int for_ever) {
#ifdef HEADROOM_FAULTS
    sweep(words, for_ever);
#else
    (void)words;
    (void)for_ever;
    test_skip("built without fault points");
#endif
}

SWEEP(devices_once, 0, "devices", "--no-cuda")
SWEEP(devices_for_ever, 1, "devices", "--no-cuda", "--json")
SWEEP(doctor_once, 0, "doctor", "--no-cuda", "--cache-dir", "/tmp/hr-golden")
SWEEP(doctor_for_ever, 1, "doctor", "--no-cuda", "--json", "--cache-dir", "/tmp/hr-golden")
SWEEP(version_once, 0, "version", "--json")
SWEEP(plan_once, 0, "plan", "mlp:size=2,width=4", "--batch=2", "--no-measure", "--device=null:8MiB",
      "--no-choices")
SWEEP(plan_for_ever, 1, "plan", "mlp:size=2,width=4", "--batch=2", "--no-measure",
      "--device=null:8MiB", "--json", "--no-choices")
SWEEP(plan_tried_once, 0, "plan", "mlp:size=2,width=4", "--batch=2", "--no-measure", "--try=1",
      "--no-cuda")
