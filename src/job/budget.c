/* How much memory a job may take, and what there is; see plan_job.h. */
#include <string.h>

#include <headroom/bytes.h>
#include "base/text.h"
#include "job/plan_job.h"
#include "memory/left.h"
#include "memory/resident.h"

#define MIB (UINT64_C(1) << 20)

/* Copies on the host go to a file, or there are none. */
hr_status hri_plan_job_check_spill(hri_plan_job *j) {
    if (!j->o.spill && !(j->threads && j->job.machine.out_bytes_per_ns > 0)) {
        return HR_OK;
    }
    if (!j->threads) {
        return hri_why_option(&j->why, HR_E_INVALID, "spill",
                              ": works on the host only; a GPU offloads to host memory (offload)");
    }
    if (!j->o.spill) {
        return hri_why_option(&j->why, HR_E_INVALID, "device_spec",
                              ": copy= on the host needs spill, a directory for the file");
    }
    return HR_OK;
}

uint64_t hri_plan_job_there(const hri_plan_job *j) {
    hri_memory_left left;
    uint64_t now;
    if (!j->threads) {
        return j->device_free ? j->device_free : UINT64_MAX;
    }
    hri_memory_left_read("", &left);
    hri_resident_read(&now, NULL);
    if (!left.free_bytes) {
        return UINT64_MAX;
    }
    uint64_t there = left.free_bytes + now; /* code may be resident here and charged elsewhere */
    there -= left.free_bytes == left.space_free ? left.stack_bytes : 0;
    return left.total_bytes && there > left.total_bytes ? left.total_bytes : there;
}

/* What a shared budget has free of a memory that is not there; UINT64_MAX: there is none, or it does not mention it. */
static uint64_t left_in_ledger(const hri_plan_job *j, const char *memory) {
    hr_pool_info pool = {.size = sizeof pool};
    for (size_t i = 0; j->o.ledger && hr_budget_get_pool(j->o.ledger, i, &pool) == HR_OK; i++) {
        if (!strcmp(pool.name, memory)) {
            return pool.free_bytes;
        }
        pool.size = sizeof pool;
    }
    return UINT64_MAX;
}

/* What the ledger leaves this job, with what is there already; UINT64_MAX: no bound.  A budget that others hold and that
 * may be waited for is planned for as if they had gone.  *others: of what is there, the part of other jobs. */
static hr_status shared_bytes(hri_plan_job *j, uint64_t *out, uint64_t *others) {
    *out = UINT64_MAX;
    *others = 0;
    if (!j->device || (!j->threads && !j->engine)) {
        *out = left_in_ledger(j, j->device_name);
        return HR_OK;
    }
    hr_error error = {0};
    const uint64_t process = j->engine ? hri_engine_process(j->engine) : j->base_bytes;
    const hr_status status =
        hri_holding_enter(&j->holding, j->o.ledger, j->device, process, &error);
    if (status == HR_E_LIMIT || status == HR_E_AGAIN) { /* a budget like any other: too small */
        *out = error.free_bytes;
        return HR_OK;
    }
    if (status != HR_OK) {
        return hri_why_error(&j->why, hri_cause_of(status), status, "ledger", &error);
    }
    const uint64_t left = hri_holding_free(&j->holding);
    if (left != HR_UNKNOWN) {
        const uint64_t runtime = hri_holding_runtime(&j->holding);
        const uint64_t most = hri_holding_limit(&j->holding) - runtime;
        *out = j->base_bytes + (j->o.wait_ms && j->o.budget && most > left ? most : left);
        *others = j->base_bytes > runtime ? j->base_bytes - runtime : 0;
    }
    return HR_OK;
}

static hr_status read_budget(hri_plan_job *j) {
    uint64_t shared = UINT64_MAX, others = 0;
    const hr_status entered = shared_bytes(j, &shared, &others);
    if (entered != HR_OK) {
        return entered;
    }
    if (!j->o.budget) { /* what the device has */
        j->budget_bytes = j->device_free;
        if (j->threads) { /* some of it stays free: others live here, too, and the kernel's own memory grows */
            const uint64_t there = hri_plan_job_there(j), most = 64 * MIB;
            const uint64_t keep = there / 32 < most ? there / 32 : most;
            j->budget_bytes = there == UINT64_MAX ? j->device_free : there - keep;
        }
        const uint64_t reserved = hri_admission_bytes(j->admission);
        j->budget_bytes = reserved < j->budget_bytes ? reserved : j->budget_bytes;
        if (shared < j->budget_bytes) {
            j->budget_bytes = shared ? shared : 1; /* 0 would mean none */
        }
        return HR_OK;
    }
    const hr_status status = hr_bytes_parse(j->o.budget, j->device_bytes, &j->budget_bytes);
    if (status != HR_OK || j->budget_bytes == 0) {
        return hri_why_option(&j->why, HR_E_INVALID, "budget",
                              ": \"%s\" is not an amount of memory", j->o.budget);
    }
    j->budget_bytes += others; /* theirs is in the runtime that is planned with */
    if (shared < j->budget_bytes) {
        j->budget_bytes = shared ? shared : 1;
    }
    /* a container's limit is in whole pages */
    if (j->device_bytes && j->budget_bytes / 4096 > j->device_bytes / 4096) {
        char text[32];
        hri_listener_warn(&j->listener, "budget", " exceeds what %s has (%s); planning anyway",
                          j->device_name, hr_bytes_print(j->device_bytes, text, sizeof text));
    }
    return HR_OK;
}

/* The second budget: of the host beside a GPU. */
static hr_status read_host_budget(hri_plan_job *j) {
    hri_memory_left left;
    uint64_t now;
    hri_memory_left_read("", &left);
    hri_resident_read(&now, NULL);
    const uint64_t there = left.free_bytes ? left.free_bytes + now : 0;
    if (!j->o.host_budget) {
        j->host_budget_bytes = j->engine ? there : 0;
        return HR_OK;
    }
    if (j->threads) {
        return hri_why_option(&j->why, HR_E_INVALID, "host_budget",
                              " is for GPUs; on the host the budget covers everything");
    }
    const hr_status status =
        hr_bytes_parse(j->o.host_budget, left.total_bytes, &j->host_budget_bytes);
    if (status != HR_OK || j->host_budget_bytes == 0) {
        return hri_why_option(&j->why, HR_E_INVALID, "host_budget",
                              ": \"%s\" is not an amount of memory", j->o.host_budget);
    }
    if (j->engine && there && j->host_budget_bytes > there) {
        char text[32];
        hri_listener_warn(&j->listener, "host_budget",
                          " exceeds the available host memory (%s); using that instead",
                          hr_bytes_print(there, text, sizeof text));
        j->host_budget_bytes = there;
    }
    return HR_OK;
}

/* The ways into and out of the arenas of a GPU. */
static uint64_t pinned_bytes(const hri_plan_job *j) {
    const uint64_t lane = j->fit.case_count ? j->fit.cases[0]->lane.large : 0;
    const uint64_t arenas = j->job.arenas ? j->job.arenas : 1;
    return (1 + j->other_count) * arenas * (2 * lane + HRI_LANE_BOUNCE);
}

/* What the host budget leaves for values that wait: measured once kernels and libraries are there. */
hr_status hri_plan_job_bound_other(hri_plan_job *j) {
    if (!j->host_budget_bytes) {
        return HR_OK;
    }
    /* A device that is not there has no process either.  Of a GPU's libraries most is never touched, and what is can be
     * dropped by a container that has no room: what is resident counts, and some more of it. */
    uint64_t now = 0;
    hri_resident_read(&now, NULL);
    if (j->engine) {
        j->host_runtime_bytes = (now / MIB + 1 + 32) * MIB + j->host_extra_bytes + pinned_bytes(j);
    }
    if (j->host_runtime_bytes > j->host_budget_bytes) {
        char takes[32], budget[32];
        return hri_why_set(
            &j->why, HR_CAUSE_NO_FIT, HR_E_LIMIT,
            "the host budget of %s is less than the %s that this process uses before anything is "
            "offloaded",
            hr_bytes_print(j->host_budget_bytes, budget, sizeof budget),
            hr_bytes_print(j->host_runtime_bytes, takes, sizeof takes));
    }
    const uint64_t left = j->host_budget_bytes - j->host_runtime_bytes;
    j->job.other_budget_bytes = j->fit.job.other_budget_bytes = left;
    j->job.no_offload = j->fit.job.no_offload = j->job.no_offload || !left;
    return HR_OK;
}

hr_status hri_plan_job_read_budgets(hri_plan_job *j) {
    const hr_status status = read_budget(j);
    return status == HR_OK ? read_host_budget(j) : status;
}

/* ---- leases ---- */

static hr_status on_wait(void *user, uint64_t waited_ms) {
    const hri_plan_job *j = user;
    return hri_listener_tick(&j->listener, "waiting for memory", waited_ms, j->o.wait_ms, NULL);
}

hr_status hri_plan_job_lease(hri_plan_job *j, uint64_t own_bytes, const hri_plan_row *row,
                             hri_why *why) {
    hr_error error = {0};
    hri_holding_ask ask = {.name = j->o.name ? j->o.name : j->what,
                           .device_bytes = own_bytes,
                           .wait_ms = j->o.wait_ms,
                           .on_wait = on_wait,
                           .user = j};
    if (j->engine) {
        ask.pinned_bytes = pinned_bytes(j) + row->offloaded_bytes;
        ask.host_bytes = j->host_extra_bytes;
    }
    if (!j->holding.budget) {
        return HR_OK; /* nothing runs on a device that is not there */
    }
    hr_status status = hri_holding_take(&j->holding, &ask, &error);
    status = status == HR_OK ? hri_plan_job_lease_others(j, &ask, &error) : status;
    return status == HR_OK
               ? HR_OK
               : hri_why_error(why, status == HR_E_AGAIN ? HR_CAUSE_NO_FIT : hri_cause_of(status),
                               status, NULL, &error);
}

void hri_plan_job_name_holders(const hri_plan_job *j) {
    hr_lease_info info = {.size = sizeof info};
    hri_text text = {0};
    char size[32];
    size_t others = 0;
    for (size_t i = 0;
         j->o.ledger && hr_budget_get_lease(j->o.ledger, j->device_name, i, &info) == HR_OK; i++) {
        if (!info.waiting_ms && strcmp(info.name, "runtime") != 0) {
            hri_text_add(&text, "%s%s (%s)", others++ ? ", " : "", info.name,
                         hr_bytes_print(info.granted_bytes, size, sizeof size));
        }
        info.size = sizeof info;
    }
    if (others) {
        hri_listener_warn(&j->listener, NULL, "the shared budget of %s is also used by %s",
                          j->device_name, hri_text_get(&text));
    }
    hri_text_deinit(&text);
}
