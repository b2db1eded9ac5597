/* Sleeping while a device runs: never past the end of a run like the ones before it, and not for what is short or not known. */
#include "run/doze.h"

#include "test.h"

enum { MS = 1000000 };

TEST(doze, a_long_run_is_slept_through_but_for_its_end) {
    const uint64_t took[2] = {32 * MS, 32 * MS}, begin = 1000 * (uint64_t)MS;
    /* An eighth and half a millisecond before the end. */
    CHECK_EQ(hri_doze_ns(begin, took, begin), 32 * MS - 4 * MS - MS / 2);
    CHECK_EQ(hri_doze_ns(begin, took, begin + 10 * MS), 22 * MS - 4 * MS - MS / 2);
}

TEST(doze, the_shorter_of_two_runs_counts) {
    const uint64_t first[2] = {16 * MS, 160 * MS}, then[2] = {160 * MS, 16 * MS};
    CHECK_EQ(hri_doze_ns(0, first, 0), 16 * MS - 2 * MS - MS / 2);
    CHECK_EQ(hri_doze_ns(0, then, 0), 16 * MS - 2 * MS - MS / 2);
}

TEST(doze, what_is_short_or_late_or_not_known_is_waited_for) {
    const uint64_t none[2] = {0, 0}, one[2] = {32 * MS, 0}, brief[2] = {MS, MS};
    const uint64_t took[2] = {32 * MS, 32 * MS};
    CHECK_EQ(hri_doze_ns(5, none, 5), 0);
    CHECK_EQ(hri_doze_ns(5, one, 5), 0);
    CHECK_EQ(hri_doze_ns(5, brief, 5), 0);
    CHECK_EQ(hri_doze_ns(0, took, 26 * MS), 0);
    CHECK_EQ(hri_doze_ns(0, took, 400 * (uint64_t)MS), 0);
}
