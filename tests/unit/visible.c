/* Text of others: what prints stays, what does not is shown. */
#include "base/visible.h"

#include <string.h>
#include "test.h"

static void shows(const char *text, const char *wanted) {
    char buf[128], again[128];
    CHECK_STR(hri_visible(text, buf, sizeof buf), wanted);
    CHECK_STR(hri_visible(buf, again, sizeof again), wanted); /* twice changes nothing */
}

TEST(visible, what_prints_stays) {
    shows("plain \xc3\xbc \xe4\xb8\xad \xf0\x9f\x8c\xb9 C:\\x",
          "plain \xc3\xbc \xe4\xb8\xad \xf0\x9f\x8c\xb9 C:\\x");
    shows("", "");
}

TEST(visible, controls_of_all_kinds_are_shown) {
    shows("a\033[0m\r\n\tb\x7f", "a\\x1b[0m\\x0d\\x0a\\x09"
                                 "b\\x7f");
    shows("\xc2\x9b"
          "31m",
          "\\xc2\\x9b31m"); /* the C1 form of ESC [ */
    shows("\x9b"
          "31m",
          "\\x9b31m"); /* and its bare byte */
    shows("\x08\x07\x0e", "\\x08\\x07\\x0e");
}

TEST(visible, marks_of_direction_and_tags_are_shown) {
    shows("a\xe2\x80\xae"
          "b",
          "a\\xe2\\x80\\xae"
          "b");                               /* right-to-left override */
    shows("\xe2\x81\xa6", "\\xe2\\x81\\xa6"); /* isolate */
    shows("\xe2\x80\xa8", "\\xe2\\x80\\xa8"); /* end of a line */
    shows("\xef\xbb\xbf", "\\xef\\xbb\\xbf");
    shows("\xf3\xa0\x81\x81", "\\xf3\\xa0\\x81\\x81");
}

TEST(visible, bytes_that_are_no_utf8_are_shown) {
    shows("\xc3(\xff\xe2\x94", "\\xc3(\\xff\\xe2\\x94");
    shows("\xc0\xaf", "\\xc0\\xaf");                   /* overlong */
    shows("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* a surrogate */
    shows("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* beyond the last */
}

TEST(visible, is_cut_between_characters) {
    char buf[5];
    CHECK_STR(hri_visible("abc\xc3\xbc", buf, sizeof buf), "abc");
    CHECK_STR(hri_visible("a\033", buf, sizeof buf), "a");
}

TEST(visible, lines_keep_their_ends) {
    char buf[32];
    CHECK_EQ(hri_visible_lines_need("a\nb"), 0);
    CHECK_EQ(hri_visible_lines_need("a\n\033"), 7);
    CHECK_STR(hri_visible_lines("a\n\033", buf, sizeof buf), "a\n\\x1b");
}

TEST(visible, a_text_is_valid_up_to_its_first_wrong_byte_and_cut_between_characters) {
    CHECK_EQ(hri_utf8_valid("a\xc3\xbc\xe4\xb8\xad\xf0\x9f\x8c\xb9", 10), 10);
    CHECK_EQ(hri_utf8_valid("a\xc3\xbc\xe4\xb8\xad", 5), 3); /* what lies behind does not count */
    CHECK_EQ(hri_utf8_valid("a\0b\xff", 4), 3);
    CHECK_EQ(hri_utf8_valid("\xed\xa0\x80z", 4), 0); /* a surrogate */
    CHECK_EQ(hri_utf8_valid("", 0), 0);
    CHECK_EQ(hri_utf8_cut("ab\xe4\xb8\xad", 5), 2);
    CHECK_EQ(hri_utf8_cut("ab\xe4\xb8\xad", 4), 2);
    CHECK_EQ(hri_utf8_cut("ab\xe4\xb8\xad", 3), 2);
    CHECK_EQ(hri_utf8_cut("ab\xe4\xb8\xad", 2), 2);
    CHECK_EQ(hri_utf8_cut("\x80\x80\x80\x80", 4), 4); /* no text at all */
    CHECK_EQ(hri_utf8_cut("", 0), 0);
}
