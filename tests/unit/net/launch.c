/* A rank ends with whoever started it. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/launch.h"
#include "test.h"

TEST(net_launch, a_rank_follows_its_launcher_and_nobody_else) {
    char own[32];
    unsetenv("HEADROOM_LAUNCHER");
    CHECK(hri_launch_follow()); /* nobody of us started it */
    setenv("HEADROOM_LAUNCHER", "1", 1);
    CHECK(!hri_launch_follow()); /* that has ended: another process is our parent */
    snprintf(own, sizeof own, "%d", (int)getppid());
    setenv("HEADROOM_LAUNCHER", own, 1);
    CHECK(hri_launch_follow());
    CHECK(!getenv("HEADROOM_LAUNCHER")); /* what it starts itself does not follow */
}
