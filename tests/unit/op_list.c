/* The table of ops as headroom/ops.h lists it. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <string.h>

#include "test.h"

TEST(op_list, has_every_op_in_order_with_its_attributes) {
    hr_op_info op = {.size = sizeof op};
    hr_op_attribute a = {.size = sizeof a};
    char last[64] = "";
    size_t conv = 0, count = 0;
    for (; hr_op_list(count, &op) == HR_OK; count++) {
        CHECK(strcmp(last, op.name) < 0);
        snprintf(last, sizeof last, "%s", op.name);
        CHECK(op.input_min <= op.input_max && op.output_count >= 1 && *op.formula);
        size_t k = 0;
        for (; hr_op_list_attribute(count, k, &a) == HR_OK; k++) {
            CHECK(*a.name && *a.help && a.value);
            CHECK((a.choices != NULL) == (a.kind == HR_ATTRIBUTE_NAME));
        }
        CHECK_EQ(k, op.attribute_count);
        conv = strcmp(op.name, "conv2d") ? conv : count;
    }
    CHECK(count > 50);
    CHECK_OK(hr_op_list(conv, &op));
    CHECK(op.has_gradient && !op.is_random && op.attribute_count > 1);
    CHECK_EQ(hr_op_list_attribute(count, 0, &a), HR_E_NOT_FOUND);
    CHECK_EQ(hr_op_list_attribute(conv, op.attribute_count, &a), HR_E_EOF);
    op.size = 0;
    CHECK_EQ(hr_op_list(0, &op), HR_E_INVALID);
}
