/* One file a fault that was once reported, named by issue and number: f11_01_streams.c holds the cases `f11_01/...`.  A
 * case fails on the code as it was when the fault was found; `test_regress --list` is the list of them.
 *
 * This file tests what they all stand on: the program is started, watched, timed and bounded. */
#include <string.h>

#include "program.h"
#include "test.h"

TEST(program, says_what_it_did) {
    program_outcome o = program_run(NULL, "version --json");
    program_expect(&o, 0, NULL);
    CHECK(program_number(&o, "version") >= 1 && o.resident_bytes > 0 && !o.killed_by);
    program_end(&o);
    o = program_run(NULL, "no-such-command");
    program_expect(&o, 2, "no-such-command");
    program_end(&o);
}

TEST(program, is_killed_when_its_time_is_over) {
    program_outcome o =
        program_run(&(program_options){.as_shell = 1, .seconds = 1}, "sleep 20; echo late");
    CHECK(o.timed_out && o.code == -1);
    program_end(&o);
}

TEST(program, is_killed_by_its_cgroup) {
    PROGRAM_NEED_CGROUP();
    const program_options o = {.as_shell = 1, .cgroup_bytes = 8 << 20};
    program_outcome big =
        program_run(&o, "exec head -c 100000000 /dev/zero | tail -c 90000000 | wc -c");
    CHECK(big.cgroup_bytes >= 7 << 20 && big.cgroup_bytes <= 8 << 20);
    CHECK(!strstr(big.out, "90000000"));
    program_end(&big);
}
