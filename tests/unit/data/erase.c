/* Random erasing: one rectangle of one colour, as large as it was said, the same for any number of threads. */
#include <headroom/headroom.h>

#include <string.h>

#include "test.h"

enum { COUNT = 24, H = 20, W = 28, C = 3, SIZE = H * W * C };

static void read_all(const char *text, uint8_t (*out)[SIZE]) {
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 32 << 20};
    hr_pipeline *p;
    hr_element *e;
    hr_error why = {0};
    if (hr_pipeline_open(&o, text, &why, &p) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(hr_pipeline_next(p, &e));
        memcpy(out[i], hr_element_find(e, "image")->data, SIZE);
        hr_element_unref(e);
    }
    hr_pipeline_destroy(p);
}

#define SOURCE "synthetic:24,shape=20x28x3"

TEST(erase, what_changes_is_one_rectangle_of_the_value_and_of_the_area_that_was_said) {
    static uint8_t plain[COUNT][SIZE], with[COUNT][SIZE], again[COUNT][SIZE];
    read_all(SOURCE " | load", plain);
    read_all(SOURCE " | erase(chance=1,least=0.1,most=0.3,value=7,parallel=1)", with);
    read_all(SOURCE " | erase(chance=1,least=0.1,most=0.3,value=7,parallel=5)", again);
    CHECK(!memcmp(with, again, sizeof with));
    int different = 0;
    for (int i = 0; i < COUNT; i++) {
        int top = H, bottom = -1, left = W, right = -1;
        for (int at = 0; at < SIZE; at++) {
            if (plain[i][at] != with[i][at]) {
                const int y = at / C / W, x = at / C % W;
                CHECK_EQ(with[i][at], 7);
                top = y < top ? y : top;
                bottom = y > bottom ? y : bottom;
                left = x < left ? x : left;
                right = x > right ? x : right;
            }
        }
        const int area = (bottom - top + 1) * (right - left + 1);
        CHECK(area >= H * W / 14 && area <= H * W * 35 / 100); /* edges are rounded */
        for (int at = 0; at < SIZE; at++) {
            const int y = at / C / W, x = at / C % W;
            const int inside = y >= top && y <= bottom && x >= left && x <= right;
            CHECK(with[i][at] == (inside ? 7 : plain[i][at]));
        }
        different += i && top * W + left != 0;
    }
    CHECK(different > COUNT / 2);
}

TEST(erase, a_chance_of_0_keeps_all_and_a_range_that_is_none_is_refused) {
    static uint8_t plain[COUNT][SIZE], with[COUNT][SIZE];
    hr_error why = {0};
    hr_pipeline *p;
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 32 << 20};
    read_all(SOURCE " | load", plain);
    read_all(SOURCE " | erase(chance=0)", with);
    CHECK(!memcmp(plain, with, sizeof plain));
    CHECK_STATUS(hr_pipeline_open(&o, SOURCE " | erase(least=0.5,most=0.1)", &why, &p), HR_E_RANGE);
    CHECK(strstr(why.message, "least=0.5 is more than most=0.1"));
}
