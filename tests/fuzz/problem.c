/* Problems of the planner from outside: whatever the bytes, reading ends with a status and a sentence; what was read is
 * written and read back the same, and can be planned: a plan passes the checker, or there is none. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

static void read_back(const hri_problem *p) {
    char *text = NULL;
    hri_problem again;
    must(hri_problem_print(p, &text) == HR_OK);
    must(hri_problem_parse(text, strlen(text), &again, NULL) == HR_OK);
    must(again.hash == p->hash);
    hri_problem_deinit(&again);
    hri_free(text);
}

static void plan(const hri_problem *p) {
    uint32_t op;
    const uint64_t floor = hri_problem_floor(p, &op);
    for (uint64_t budget = 0; budget <= 2; budget++) {
        hri_plan *made = NULL;
        int impossible = 0;
        const hri_plan_options o = {.budget_bytes = budget ? floor * budget + 1 : 0,
                                    .effort = 2000};
        const hr_status status = hri_plan_make(p, &o, &made, &impossible, NULL);
        must(status == HR_OK || status == HR_E_NO_PLAN || status == HR_E_RANGE);
        must(!impossible);
        must((status == HR_OK) == (made != NULL));
        hri_plan_destroy(made);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hri_problem p;
    hri_prose why = {{0}};
    const hr_status status = hri_problem_parse((const char *)data, size, &p, &why);
    if (status != HR_OK) {
        must(status == HR_E_FORMAT || status == HR_E_RANGE || status == HR_E_INVALID);
        must(why.text[0] != 0);
        return 0;
    }
    read_back(&p);
    if (p.op_count < 200) {
        plan(&p);
    }
    hri_problem_deinit(&p);
    return 0;
}
