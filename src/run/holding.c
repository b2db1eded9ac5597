/* Leases of one job, all or none; see holding.h. */
#include "run/holding.h"

#include <stdio.h>

#include "device/device.h"

enum { DEVICE = 0, PINNED, HOST };

hr_status hri_holding_enter(hri_holding *h, hr_budget *budget, hr_device *device,
                            uint64_t process_bytes, hr_error *why) {
    hr_budget *own = budget;
    hr_status status = budget ? HR_OK : hri_ctx_ledger(device->ctx, &own);
    if (status == HR_OK) {
        status = hri_budget_enter(own, device->name, process_bytes, why);
    }
    if (status == HR_OK) {
        *h = (hri_holding){
            .budget = own, .shared = budget != NULL, .device = device, .pool = device->name};
    }
    return status;
}

uint64_t hri_holding_free(const hri_holding *h) {
    uint64_t bytes = HR_UNKNOWN;
    if (h->shared && hri_budget_free(h->budget, h->pool, &bytes) != HR_OK) {
        return 0;
    }
    return bytes;
}

uint64_t hri_holding_there(const hri_holding *h) {
    hr_device_info info = {.size = sizeof info};
    const uint64_t bytes = hri_holding_free(h);
    if (bytes != HR_UNKNOWN) {
        return bytes;
    }
    return h->device && hr_device_get_info(h->device, &info) == HR_OK ? info.free_bytes : 0;
}

uint64_t hri_holding_runtime(const hri_holding *h) {
    return h->budget ? hri_budget_runtime(h->budget, h->pool) : 0;
}

uint64_t hri_holding_limit(const hri_holding *h) {
    return h->shared ? hri_budget_limit(h->budget, h->pool) : HR_UNKNOWN;
}

static hr_status request(hri_holding *h, int which, const char *pool, uint64_t bytes,
                         uint64_t least, const hri_holding_ask *ask, hr_error *why) {
    char name[sizeof((hr_lease_info *)0)->name];
    const hr_lease_options o = {.size = sizeof o,
                                .pool = pool,
                                .name = name,
                                .wanted_bytes = bytes,
                                .wait_ms = ask->wait_ms,
                                .on_wait = ask->on_wait,
                                .user = ask->user};
    if (!bytes) {
        return HR_OK;
    }
    snprintf(name, sizeof name, "%s", ask->name && *ask->name ? ask->name : "job");
    hr_status status = hr_lease_request(h->budget, &o, &h->leases[which], why);
    if (status == HR_OK) {
        hri_lease_set_solid(h->leases[which]);
        hr_lease_decline(h->leases[which], least ? least : bytes);
        status = hr_lease_hold(h->leases[which], bytes);
    }
    return status;
}

hr_status hri_holding_take(hri_holding *h, const hri_holding_ask *ask, hr_error *why) {
    hr_status status = request(h, DEVICE, h->pool, ask->device_bytes, ask->device_least, ask, why);
    if (status == HR_OK) {
        status = request(h, PINNED, "pinned", ask->pinned_bytes, 0, ask, why);
    }
    if (status == HR_OK) {
        status = request(h, HOST, "host", ask->host_bytes, 0, ask, why);
    }
    if (status != HR_OK) {
        hri_holding_give_leases(h);
    }
    return status;
}

uint64_t hri_holding_asked(const hri_holding *h) {
    return h->leases[DEVICE] ? hr_lease_asked(h->leases[DEVICE]) : HR_UNKNOWN;
}

hr_status hri_holding_resize(hri_holding *h, uint64_t device_bytes) {
    hr_lease *l = h->leases[DEVICE];
    if (!l) {
        return HR_OK;
    }
    if (device_bytes > hr_lease_granted(l)) {
        const hr_status status = hr_lease_resize(l, device_bytes);
        return status == HR_OK ? hr_lease_hold(l, device_bytes) : status;
    }
    const hr_status status = hr_lease_hold(l, device_bytes);
    return status == HR_OK ? hr_lease_resize(l, device_bytes) : status;
}

void hri_holding_decline(hri_holding *h, uint64_t least_bytes) {
    if (h->leases[DEVICE]) {
        hr_lease_decline(h->leases[DEVICE], least_bytes);
    }
}

uint64_t hri_holding_device_bytes(const hri_holding *h) {
    return h->leases[DEVICE] ? hr_lease_granted(h->leases[DEVICE]) : 0;
}

void hri_holding_give_leases(hri_holding *h) {
    for (int i = 0; i < HRI_HOLDING_LEASES; i++) {
        hr_lease_release(h->leases[i]);
        h->leases[i] = NULL;
    }
}

void hri_holding_give(hri_holding *h) {
    hri_holding_give_leases(h);
    if (h->budget) {
        hri_budget_leave(h->budget, h->pool);
    }
    *h = (hri_holding){0};
}
