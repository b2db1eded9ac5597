/* headroom data: what it shows and how it says no.  Times and rates are left out. */
#include "golden.h"

#include <string.h>

TEST(data, shows_the_first_elements) {
    const golden_result r =
        GOLDEN_RUN("data range:10 take(7) batch(3) --show 2 --budget 1MiB --workers 1");
    CHECK_EQ(r.code, 0);
    CHECK(!golden_has_control(r.out));
    golden_compare("data_range", r.out);
}

TEST(data, lists_its_stages) {
    const golden_result r = GOLDEN_RUN("data --stages batch shuffle");
    CHECK_EQ(r.code, 0);
    golden_compare("data_stages", r.out);
}

TEST(data, says_no_with_the_stage_and_the_bytes) {
    const golden_result r =
        GOLDEN_RUN("data synthetic batch(64) prefetch --budget 8MiB --workers 1");
    CHECK_EQ(r.code, 1);
    CHECK_STR(r.out, "");
    golden_compare("data_refused", r.err);
}

TEST(data, says_what_it_cannot_read) {
    golden_result r = GOLDEN_RUN("data rnage:3");
    CHECK_EQ(r.code, 2);
    CHECK(strstr(r.err, "did you mean \"range\"?") != NULL);
    r = GOLDEN_RUN("data images:/nowhere");
    CHECK(r.code == 2 || r.code == 3);
    CHECK(strstr(r.err, "/nowhere: no such file or directory") != NULL);
    r = GOLDEN_RUN("data");
    CHECK_EQ(r.code, 2);
}

TEST(data, json_is_one_object) {
    const golden_result r = GOLDEN_RUN("data range:4 batch(2) --json --epochs 2 --workers 1");
    CHECK_EQ(r.code, 0);
    CHECK(r.out[0] == '{' && strstr(r.out, "\"version\": 1") != NULL);
    CHECK(strstr(r.out, "\"elements\": 4") != NULL);
    CHECK(strstr(r.out, "\"samples\": 8") != NULL);
    CHECK(strstr(r.out, "\"stages\"") != NULL);
}
