/* The table of gates against the table of the driver: every function that gives the GPU work has one. */
#include <string.h>

#include "test.h"

typedef struct entry {
    const char *name, *parameters;
} entry;

static const entry driver[] = {
#define HRI_CU_FN(NEED, NAME, FEATURE, PARAMETERS, ARGUMENTS) {#NAME, #PARAMETERS},
#include "fake_api.def"
#undef HRI_CU_FN
};

static const char *const gates[] = {
#define HRI_GATE(NAME, PARAMETERS, ARGUMENTS) #NAME,
#include "interpose/gates.def"
#undef HRI_GATE
};

/* Hooks that pass the gate themselves, and calls with a stream that give the GPU nothing to do with plain memory. */
static const char *const others[] = {
    "cuGraphLaunch",       "cuGraphUpload",          "cuStreamBeginCapture", "cuStreamEndCapture",
    "cuMemAllocAsync",     "cuMemAllocFromPool",     "cuMemFreeAsync",       "cuStreamCreate",
    "cuStreamDestroy",     "cuStreamQuery",          "cuStreamSynchronize",  "cuStreamWaitEvent",
    "cuStreamIsCapturing", "cuStreamGetCaptureInfo", "cuEventRecord",        "cuLaunchHostFunc",
};

static int listed(const char *name, const char *const *list, size_t count, int whole) {
    for (size_t i = 0; i < count; i++) {
        if (whole ? !strcmp(name, list[i]) : !strncmp(name, list[i], strlen(list[i]))) {
            return 1;
        }
    }
    return 0;
}

TEST(gates, every_call_that_takes_a_stream_or_copies_or_fills_has_one) {
    int found = 0;
    for (size_t i = 0; i < sizeof driver / sizeof *driver; i++) {
        const char *name = driver[i].name;
        const int works = strstr(driver[i].parameters, "CUstream") ||
                          !strncmp(name, "cuMemcpy", 8) || !strncmp(name, "cuMemset", 8) ||
                          !strncmp(name, "cuLaunch", 8);
        if (!works || listed(name, others, sizeof others / sizeof *others, 0)) {
            continue;
        }
        found++;
        if (!listed(name, gates, sizeof gates / sizeof *gates, 1)) {
            test_fail(__FILE__, __LINE__, "%s has no gate (src/interpose/gates.def)", name);
        }
    }
    CHECK_LE(100, found);
}

TEST(gates, no_name_is_there_twice) {
    for (size_t i = 0; i < sizeof gates / sizeof *gates; i++) {
        CHECK(!listed(gates[i], gates, i, 1));
    }
}
