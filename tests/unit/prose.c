/* Sentences. */
#include "test.h"

#include <string.h>

#include "base/prose.h"

TEST(prose, hands_the_status_on_and_cuts_what_is_too_long) {
    hri_prose why = {""};
    CHECK_STATUS(hri_prose_set(&why, HR_E_RANGE, "%s: %d is below 1", "batch", 0), HR_E_RANGE);
    CHECK_STR(why.text, "batch: 0 is below 1");
    CHECK_STATUS(hri_prose_set(&why, HR_E_IO, "%1000d", 1), HR_E_IO);
    CHECK_EQ(strlen(why.text), sizeof why.text - 1);
    CHECK_STATUS(hri_prose_set(&why, HR_E_IO, "/a%01000d/ä: the reason", 1), HR_E_IO);
    CHECK(!strncmp(why.text, "/a000", 5) && strstr(why.text, "...") &&
          strstr(why.text, "1/ä: the reason"));
    CHECK_STATUS(hri_prose_set(NULL, HR_E_BUSY, "unheard"), HR_E_BUSY);
}

TEST(prose, holds_no_control_characters) {
    hri_prose why = {""};
    CHECK_STATUS(hri_prose_set(&why, HR_E_IO, "a\x1b[31m\nb\x7fü"), HR_E_IO);
    CHECK_STR(why.text, "a\\x1b[31m\\x0ab\\x7fü");
}
