/* Further GPUs of a job, beside the first: `device` as a list "cuda:0,cuda:1"; see plan_job.h.
 *
 * All are of one kind and have one plan: the first one is measured and planned for, the others are opened beside it, and
 * what each really takes is checked against the budget when its memory is taken.  Where two of them see one another they
 * exchange gradients directly, otherwise by way of the host. */
#include <stdio.h>
#include <string.h>

#include <headroom/bytes.h>
#include "base/alloc.h"
#include "device/device.h"
#include "job/plan_job.h"

/* "cuda:1" of "cuda:0,cuda:1"; false: there are no more, or it is too long to be one. */
static bool next_name(const char **at, char name[HR_NAME_SIZE]) {
    const size_t length = strcspn(*at, ",");
    if (!length || length >= HR_NAME_SIZE) {
        return false;
    }
    memcpy(name, *at, length);
    name[length] = '\0';
    *at += length + ((*at)[length] == ',');
    return true;
}

uint32_t hri_device_list_count(const char *list) {
    uint32_t count = 1;
    for (; *list; list++) {
        count += *list == ',';
    }
    return count;
}

hr_status hri_plan_job_first_device(hri_plan_job *j, const char *list, char name[HR_NAME_SIZE]) {
    const char *at = list;
    const uint32_t count = hri_device_list_count(list);
    if (!next_name(&at, name)) {
        return hri_why_option(&j->why, HR_E_INVALID, "device", ": \"%s\" is not a device", list);
    }
    if (count == 1) {
        return HR_OK;
    }
    if (j->who.size > 1) { /* each rank has one, by its number on this machine */
        const bool ours = strcmp(j->who.launcher, "headroom") == 0; /* all on one machine */
        const uint32_t number = (ours ? j->who.rank : j->who.local_rank) % count;
        for (uint32_t i = 0; i < number; i++) {
            if (!next_name(&at, name)) {
                return hri_why_option(&j->why, HR_E_INVALID, "device",
                                      ": \"%s\" is not a list of devices", list);
            }
        }
        return HR_OK;
    }
    if (j->job.keep_gradients) {
        return hri_why_option(&j->why, HR_E_UNSUPPORTED, "keep_gradients",
                              " does not work with several devices");
    }
    j->job.replicas = j->job.replicas > 1 ? j->job.replicas : count;
    if (j->job.replicas < count) {
        return hri_why_option(&j->why, HR_E_INVALID, "replicas", "=%u, but there are %u devices",
                              j->job.replicas, count);
    }
    return HR_OK;
}

static bool is_listed(const hri_plan_job *j, const hri_plan_other *x) {
    bool listed = x->device == j->device;
    for (const hri_plan_other *before = j->others; before < x; before++) {
        listed = listed || before->device == x->device;
    }
    return listed;
}

/* Of the same kind as the first: with another one the same kernels would give other bits. */
static hr_status look_at(hri_plan_job *j, const char *name, hr_device *device) {
    hr_device_info first = {.size = sizeof first}, info = {.size = sizeof info};
    hr_status status = hri_device_open(device);
    status = status == HR_OK ? hr_device_get_info(device, &info) : status;
    status = status == HR_OK ? hr_device_get_info(j->device, &first) : status;
    if (status != HR_OK) {
        return hri_why_option(&j->why, status, "device", ": %s: %s", name, hr_status_text(status));
    }
    if (!(hri_device_can(device) & HRI_CAN_QUEUE) || strcmp(first.description, info.description)) {
        return hri_why_option(&j->why, HR_E_UNSUPPORTED, "device",
                              ": %s (%s) and %s (%s) differ; several devices must be GPUs of "
                              "one model",
                              j->device_name, first.description, name, info.description);
    }
    j->device_bytes = info.total_bytes < j->device_bytes ? info.total_bytes : j->device_bytes;
    j->device_free = info.free_bytes < j->device_free ? info.free_bytes : j->device_free;
    return HR_OK;
}

static hr_status open_one(hri_plan_job *j, const char *name, const hri_gpu_options *o,
                          hri_plan_other *out) {
    hri_prose why = {""};
    hr_status status = hr_device_find(j->ctx, name, &out->device);
    if (status != HR_OK) {
        return hri_why_option(&j->why, status, "device", ": there is no %s", name);
    }
    if (is_listed(j, out)) {
        return hri_why_option(&j->why, HR_E_INVALID, "device",
                              ": %s is listed twice; `replicas` makes slices of one GPU", name);
    }
    status = hri_plan_job_admit(j, out->device, &out->admission);
    if (status == HR_OK) {
        status = look_at(j, name, out->device);
    }
    if (status != HR_OK) {
        return status;
    }
    status = hri_engine_open(out->device, o, &out->engine, &why);
    if (status == HR_OK) {
        status = hri_gpu_load_ranges(hri_engine_gpu(out->engine));
    }
    return status == HR_OK ? HR_OK
                           : hri_why_prose(&j->why, hri_cause_of(status), status, name, &why);
}

/* Each may read the others; where it may not, copies go by way of the host, and the user is told. */
static void connect_all(hri_plan_job *j) {
    uint32_t apart = 0;
    for (uint32_t i = 0; i <= j->other_count; i++) {
        hr_device *a = i ? j->others[i - 1].device : j->device;
        for (uint32_t k = 0; k <= j->other_count; k++) {
            apart += hri_device_let_read(a, k ? j->others[k - 1].device : j->device) != HR_OK;
        }
    }
    if (apart) {
        hri_listener_warn(&j->listener, NULL,
                          "not all of %s can read one another's memory: gradients between those "
                          "go through host memory",
                          j->o.device);
    }
}

hr_status hri_plan_job_open_others(hri_plan_job *j, const hri_gpu_options *o) {
    char name[HR_NAME_SIZE];
    const char *at = j->o.device;
    const uint32_t count = at && j->who.size < 2 ? hri_device_list_count(at) : 1;
    hr_status status = HR_OK;
    if (count == 1) {
        return HR_OK;
    }
    j->others = hri_calloc(count, sizeof *j->others);
    j->engines = hri_calloc(count, sizeof(hri_engine *));
    if (!j->others || !j->engines) {
        return hri_why_set(&j->why, HR_CAUSE_MACHINE, HR_E_NOMEM_HOST, "out of memory for %s", at);
    }
    j->engines[0] = j->engine;
    (void)!next_name(&at, name);
    for (uint32_t i = 1; i < count && status == HR_OK; i++) {
        if (!next_name(&at, name)) {
            return hri_why_option(&j->why, HR_E_INVALID, "device",
                                  ": \"%s\" is not a list of devices", j->o.device);
        }
        status = open_one(j, name, o, &j->others[j->other_count++]);
        j->engines[i] = j->others[i - 1].engine;
    }
    if (status == HR_OK) {
        connect_all(j);
    }
    return status;
}

hr_status hri_plan_job_reserve_others(hri_plan_job *j, uint64_t bytes, hri_prose *why) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < j->other_count && status == HR_OK; i++) {
        status = hri_admission_resize(j->others[i].admission, bytes, why);
    }
    return status;
}

hr_status hri_plan_job_lease_others(hri_plan_job *j, const hri_holding_ask *ask, hr_error *why) {
    hri_holding_ask own = *ask;
    hr_status status = HR_OK;
    own.pinned_bytes = own.host_bytes = 0; /* the first one's is for all */
    for (uint32_t i = 0; i < j->other_count && status == HR_OK; i++) {
        hri_plan_other *x = &j->others[i];
        status = hri_holding_enter(&x->holding, j->o.ledger, x->device,
                                   hri_engine_process(x->engine), why);
        status = status == HR_OK ? hri_holding_take(&x->holding, &own, why) : status;
    }
    return status;
}

void hri_plan_job_close_others(hri_plan_job *j) {
    for (uint32_t i = 0; i < j->other_count; i++) {
        hri_holding_give(&j->others[i].holding);
        hri_engine_close(j->others[i].engine);
        hri_admission_close(j->others[i].admission);
    }
    hri_free(j->others);
    hri_free(j->engines);
    j->others = NULL;
    j->engines = NULL;
    j->other_count = 0;
}

bool hri_plan_job_device(const hri_plan_job *j, const hri_plan_row *row, uint32_t at,
                         const char **name, uint32_t *replicas, uint64_t *peak_bytes) {
    const uint32_t devices = 1 + j->other_count;
    if (!j->other_count || at >= devices) {
        return false;
    }
    const uint32_t most = (j->job.replicas + devices - 1) / devices;
    *name = at ? j->others[at - 1].device->name : j->device_name;
    *replicas = (j->job.replicas - at + devices - 1) / devices;
    *peak_bytes = row->peak_bytes - (most - *replicas) * row->replica_bytes;
    return true;
}
