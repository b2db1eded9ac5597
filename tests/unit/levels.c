/* The levels of processor that ops are compiled for: every op has a kernel at each, and one that a program brings along is its own. */
#include "base/level.h"
#include "graph/op.h"

#include <string.h>

#include "test.h"

TEST(levels, every_op_has_the_same_shape_of_kernel_at_each) {
    CHECK(hri_op_levels() >= 1);
    for (uint32_t level = 0; level < hri_op_levels(); level++) {
        for (size_t i = 0; hr_ops[i]; i++) {
            const hri_kernel *kernel = hri_op_host(hr_ops[i], level);
            CHECK_EQ(!kernel->run, !hr_ops[i]->host.run);
            CHECK_EQ(!kernel->workspace, !hr_ops[i]->host.workspace);
            CHECK(level == 0 ? kernel == &hr_ops[i]->host : kernel != &hr_ops[i]->host);
        }
    }
}

TEST(levels, one_that_is_too_high_is_the_best) {
    const hr_op *op = hri_op_find("add");
    CHECK(hri_op_host(op, UINT32_MAX) == hri_op_host(op, hri_op_levels() - 1));
}

TEST(levels, an_op_that_is_not_in_the_list_has_its_own_kernel) {
    const hr_op op = *hri_op_find("add");
    CHECK(hri_op_host(&op, UINT32_MAX) == &op.host);
}

TEST(levels, code_of_other_levels_is_known) {
    const uint64_t unused = hri_level_unused_bytes();
    if (hri_op_levels() > 1) { /* at least one more is in the program */
        CHECK(unused > 512 << 10);
        CHECK(unused < 64 << 20);
    }
    CHECK_EQ(unused % 4096, 0);
}
