/* "Did you mean". */
#include "test.h"

#include <string.h>

#include "base/nearest.h"

static const char *const commands[] = {"devices", "doctor", "plan", "train", "version", "help"};

static const char *near(const char *word) {
    return hri_nearest(word, commands, sizeof commands / sizeof commands[0], sizeof commands[0]);
}

TEST(nearest, distance_counts_single_changes) {
    CHECK_EQ(hri_edit_distance("", ""), 0);
    CHECK_EQ(hri_edit_distance("", "abc"), 3);
    CHECK_EQ(hri_edit_distance("batch", "batch"), 0);
    CHECK_EQ(hri_edit_distance("btach", "batch"), 1);
    CHECK_EQ(hri_edit_distance("bach", "batch"), 1);
    CHECK_EQ(hri_edit_distance("Batch", "batches"), 2);
    CHECK_EQ(hri_edit_distance("kitten", "sitting"), 3);
    CHECK_EQ(hri_edit_distance("sitting", "kitten"), 3);
}

TEST(nearest, long_words_are_cut_not_overrun) {
    char a[200], b[200];
    memset(a, 'a', sizeof a - 1);
    memset(b, 'b', sizeof b - 1);
    a[sizeof a - 1] = b[sizeof b - 1] = '\0';
    CHECK_EQ(hri_edit_distance(a, b), 63);
}

TEST(nearest, slips_are_understood_and_strangers_are_not) {
    CHECK_STR(near("pln"), "plan");
    CHECK_STR(near("tarin"), "train");
    CHECK_STR(near("DEVICES"), "devices");
    CHECK_STR(near("dev"), "devices");
    CHECK_STR(near("vresion"), "version");
    CHECK(!near("quantize"));
    CHECK(!near("x"));
    CHECK(!near(""));
    CHECK(!hri_nearest("plan", commands, 0, sizeof commands[0]));
}
