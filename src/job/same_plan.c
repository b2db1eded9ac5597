/* One plan for all ranks; see train.h.
 *
 * Each rank plans for itself, from the same graph and, where nothing is measured, the same times.  Machines that differ (cores,
 * memory that is taken before any tensor, measured times) may still lead to other plans, and all ranks must exchange in one
 * order.  So prints of the plans are compared, and when one differs rank 0's plan is sent as the text of a plan file, which is
 * checked like any file. */
#include <string.h>

#include <headroom/bytes.h>
#include "base/alloc.h"
#include "base/hash.h"
#include "job/plan_file.h"
#include "job/train.h"

static uint64_t print_of(const hri_fit_plans *plans) {
    hri_hasher hash;
    hri_hasher_init(&hash, 1);
    hri_hasher_add_u64(&hash, plans->c->threads);
    for (uint32_t i = 0; i < plans->c->count; i++) {
        hri_plan_hash(plans->plans[i], &hash);
    }
    return hri_hasher_get(&hash).lo;
}

static uint64_t peak_with(const hri_train_job *j, const hri_fit_plans *plans) {
    return j->row.peak_bytes - j->plans->peak_bytes + plans->peak_bytes;
}

/* In place of its own; what input takes stays counted. */
static void replace(hri_train_job *j, const hri_fit_plans *plans) {
    hri_plan_row row = {.budget_bytes = j->row.budget_bytes};
    hri_plan_row_of(j->plan, plans, &row);
    row.peak_bytes = peak_with(j, plans);
    row.runtime_bytes = j->row.runtime_bytes - j->plans->runtime_bytes + plans->runtime_bytes;
    j->row = row;
    hri_fit_plans_deinit(j->plans);
    *j->plans = *plans;
    hri_plan_job_set_threads(j->plan, j->plans);
}

/* Takes the plan of this text.  HR_E_LIMIT: it is over the budget. */
static hr_status take(hri_train_job *j, const char *text, size_t bytes, hri_prose *why) {
    hri_fit_plans plans = {0};
    hri_prose said = {""};
    const hr_status status = hri_plan_file_parse(j->plan, text, bytes, &plans, &said);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "rank 0's plan cannot be used here: %s",
                             said.text[0] ? said.text : hr_status_text(status));
    }
    const uint64_t peak = peak_with(j, &plans), budget = j->plan->budget_bytes;
    if (budget && peak > budget) {
        char needs[32], has[32];
        hri_fit_plans_deinit(&plans);
        return hri_prose_set(
            why, HR_E_LIMIT, "rank 0's plan needs %s here, over this rank's budget of %s",
            hr_bytes_print(peak, needs, sizeof needs), hr_bytes_print(budget, has, sizeof has));
    }
    replace(j, &plans);
    return HR_OK;
}

hr_status hri_train_same_plan(hri_train_job *j, hri_prose *why) {
    const uint32_t size = j->net ? hri_net_size(j->net) : 1;
    if (size < 2) {
        return HR_OK;
    }
    const bool first = hri_net_rank(j->net) == 0;
    const uint64_t mine = print_of(j->plans);
    char *text = NULL;
    bool differs = false;
    uint64_t bytes = 0;
    uint64_t *all = hri_calloc(size, sizeof *all);
    hr_status status = all ? hri_net_share(j->net, &mine, sizeof mine, all) : HR_E_NOMEM_HOST;
    for (uint32_t i = 1; i < size && status == HR_OK; i++) {
        differs = differs || all[i] != all[0];
    }
    if (status == HR_OK && differs && first) {
        status = hri_plan_file_print(j->plan, j->plans, NULL, &text, why);
        bytes = text ? strlen(text) : 0;
    }
    const bool other = all && mine != all[0];
    status = status == HR_OK && differs ? hri_net_share(j->net, &bytes, sizeof bytes, all) : status;
    if (status == HR_OK && differs && !first) {
        bytes = all[0];
        text = bytes <= HRI_PROBLEM_FILE_BYTES ? hri_malloc((size_t)bytes + 1) : NULL;
        status = text ? HR_OK : HR_E_NOMEM_HOST;
    }
    status = status == HR_OK && differs ? hri_net_spread(j->net, text, bytes) : status;
    status = status == HR_OK && other ? take(j, text, (size_t)bytes, why) : status;
    hri_free(text);
    hri_free(all);
    hri_net_end end;
    return status == HR_E_PEER && hri_net_cause(j->net, &end)
               ? hri_prose_set(why, status, "%s", end.text)
               : status;
}
