/* The stack's limit: raised where the user may, and else a sentence. */
#include "base/stack.h"

#include <string.h>
#include <sys/resource.h>

#include "test.h"

static rlim_t soft(void) {
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
    return limit.rlim_cur;
}

TEST(stack, a_low_limit_is_raised_and_a_hard_one_is_a_sentence) {
    struct rlimit limit;
    hri_prose why = {""};
    CHECK_EQ(getrlimit(RLIMIT_STACK, &limit), 0);
    if (limit.rlim_max < HRI_STACK_WANTED) {
        test_skip("the hard limit is low");
    }
    limit.rlim_cur = HRI_STACK_LEAST / 2;
    CHECK_EQ(setrlimit(RLIMIT_STACK, &limit), 0);
    CHECK_OK(hri_stack_raise(&why));
    CHECK_EQ(soft(), HRI_STACK_WANTED);
    /* one that this user may not raise: enough of it is used as it is, too little is refused */
    limit = (struct rlimit){.rlim_cur = HRI_STACK_LEAST, .rlim_max = 2 * HRI_STACK_LEAST};
    CHECK_EQ(setrlimit(RLIMIT_STACK, &limit), 0);
    CHECK_OK(hri_stack_raise(&why));
    CHECK(soft() >= 2 * HRI_STACK_LEAST);
    limit = (struct rlimit){.rlim_cur = HRI_STACK_LEAST / 2, .rlim_max = HRI_STACK_LEAST / 2};
    CHECK_EQ(setrlimit(RLIMIT_STACK, &limit), 0);
    const hr_status status = hri_stack_raise(&why);
    if (status == HR_OK) { /* root of the machine */
        CHECK_EQ(soft(), HRI_STACK_WANTED);
        return;
    }
    CHECK_STATUS(status, HR_E_LIMIT);
    CHECK(strstr(why.text, "the stack is limited to 256 KiB") && strstr(why.text, "ulimit -s"));
}
