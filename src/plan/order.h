/* Base orders: which valid order of the ops to build on.
 *
 * A training graph is nearly a chain, so exotic orders pay little; what pays is to end lives early: update a weight as
 * soon as its gradient is complete (gradients then cost the largest one, not the sum), and of several ready ops run
 * the one that frees most.  Each order here is made by one rule; the planner tries them and keeps the best. */
#ifndef HRI_PLAN_ORDER_H
#define HRI_PLAN_ORDER_H

#include "plan/problem.h"

typedef enum hri_order_rule {
    HRI_ORDER_GIVEN = 0, /* as listed */
    HRI_ORDER_EARLY,     /* as listed, but updates as soon as they can run */
    HRI_ORDER_FREEING,   /* of the ops near the front of the list, the one that frees most */
    HRI_ORDER_LATE, /* as EARLY, and every op that only lengthens lives waits for its first reader */
    HRI_ORDER_BESIDE, /* as EARLY, but who reads what a gradient can write again waits for that gradient */
    HRI_ORDER_NET, /* as EARLY, but gradients travel as soon as they are made, and are read when they have arrived */
    HRI_ORDER_COUNT
} hri_order_rule;

/* Is the rule one for this problem?  The last two are for some only. */
int hri_order_serves(const hri_problem *p, hri_order_rule rule);
/* order is (op_count): position -> op. */
HR_MUST_CHECK hr_status hri_order_make(const hri_problem *p, hri_order_rule rule, uint32_t *order);
/* Tiny copies of what lies there anyway (biases in a smaller type) come first, so that they are one launch. */
HR_MUST_CHECK hr_status hri_order_lift(const hri_problem *p, uint32_t *order);

#endif
