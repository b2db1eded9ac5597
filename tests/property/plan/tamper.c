/* See tamper.h. */
#include "tamper.h"

#include <string.h>

#include "test.h"

int tamper_lose_wait(hri_plan *plan, uint64_t *random) {
    for (int tries = 0; tries < 200; tries++) {
        const uint32_t at = (uint32_t)(test_random(random) % plan->step_count);
        if (plan->steps[at].kind != HRI_STEP_WAIT || plan->step_count < 2) {
            continue;
        }
        plan->step_count--;
        memmove(plan->steps + at, plan->steps + at + 1,
                (plan->step_count - at) * sizeof *plan->steps);
        for (uint32_t s = 0; s < plan->step_count; s++) {
            hri_plan_step *x = &plan->steps[s];
            x->op -= x->kind == HRI_STEP_WAIT && x->op > at;
        }
        for (uint32_t b = 0; b < plan->buffer_count; b++) {
            plan->buffers[b].birth -= plan->buffers[b].birth > at;
            plan->buffers[b].death -= plan->buffers[b].death > at;
        }
        return 1;
    }
    return 0;
}
