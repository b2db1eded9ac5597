/* How much memory making a plan takes: for those who have little of it. */
#include "plan/pack.h"
#include "plan/plan_make.h"
#include "plan/search_int.h"

/* More than plans have that anybody would run. */
uint64_t hri_plan_short_entries(const hri_problem *p) {
    uint64_t waits = 0;
    for (uint32_t n = 0; n < p->op_count; n++) {
        waits += p->ops[n].net;
    }
    return ((uint64_t)p->op_count + waits) * 2 + 512;
}

uint64_t hri_plan_make_bytes(const hri_problem *p, uint64_t *plan_bytes) {
    const uint64_t ops = p->op_count, values = p->value_count, entries = hri_plan_short_entries(p);
    uint64_t operands = 0, outs = 0, works = 0, given = 0, gaps = values;
    for (uint32_t n = 0; n < p->op_count; n++) {
        operands += (uint64_t)(p->ops[n].in_count + p->ops[n].out_count) * (p->ops[n].net ? 2 : 1);
        outs += p->ops[n].out_count;
        works += p->ops[n].variants[0].workspace_bytes > 0 || p->ops[n].variant_count > 1;
    }
    for (uint32_t v = 0; v < p->value_count; v++) {
        given += p->values[v].role != HRI_ROLE_MADE;
        gaps += p->values[v].use_count;
    }
    /* What is computed again has operands as the others have. */
    const uint64_t all = ops ? ops : 1;
    const uint64_t touches = operands * entries / all, made = outs * entries / all;
    const uint64_t instances = given + made, packed = made + works * entries / all + 16;
    const int copies = p->memory_count > 0 || hri_problem_has_net(p);
    const uint64_t plan = entries * sizeof(hri_plan_step) + touches * sizeof(uint32_t) +
                          2 * entries * sizeof(uint32_t) +
                          (packed + given) * sizeof(hri_plan_buffer) + ops * 5 + gaps;
    const uint64_t schedule = entries * (sizeof(hri_entry) + 8 + (copies ? 40 : 0)) +
                              touches * sizeof(hri_touch) + instances * (sizeof(hri_instance) + 8) +
                              gaps * 9 + values * 24 + ops * 17;
    const uint64_t search =
        entries * 20 + instances * 4 + gaps * (2 + sizeof(hri_move)) + values * 4 + ops * 10;
    const uint64_t keeps =
        (HRI_PLAN_KEPT + 2) * (ops * 5 + gaps); /* an order and a memo with them */
    const uint64_t place = 2 * plan + 4 * (instances + entries) + 12 * values +
                           packed * (sizeof(hri_pack_buffer) + 8) + hri_pack_bytes(packed);
    if (plan_bytes) {
        *plan_bytes = plan;
    }
    return schedule + schedule / 2 + keeps + (search > place ? search : place);
}
