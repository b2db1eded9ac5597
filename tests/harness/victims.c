/* Cases that go wrong in every way the harness promises to see.  Run by harness/run, which checks what it says. */
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "test.h"

TEST(victim, passes) {
    CHECK(1);
}

TEST(victim, fails) {
    CHECK_EQ(1 + 1, 3);
}

TEST(victim, crashes) {
    CHECK(1);
    abort();
}

TEST_TIMEOUT(victim, hangs, 1) {
    CHECK(1);
    for (;;) {
        pause();
    }
}

TEST(victim, checks_nothing) {}

TEST(victim, leaks) {
    static void *volatile lost;
    lost = hri_malloc(16);
    CHECK(lost != NULL);
    lost = NULL;
}

TEST(victim, exits) {
    CHECK(1);
    _exit(3);
}

TEST(victim, is_skipped) {
    test_skip("no such hardware");
}
