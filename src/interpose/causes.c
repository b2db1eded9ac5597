/* See causes.h. */
#include "interpose/causes.h"

#include <string.h>

/* A cause is one for LASTS_MS: code that was looked up is loaded at its first launch. */
enum { LOOK_MS = 200, LASTS_MS = 1000 };

static uint64_t known(const hri_run_device *d) {
    uint64_t sum = d->other_bytes;
    for (int i = 0; i < HRI_CAUSES; i++) {
        sum += d->cause_bytes[i];
    }
    return sum;
}

void hri_cause(int device, hri_cause_kind kind) {
    hri_run_device *d = &hri_self.device[device];
    const unsigned bit = 1u << kind;
    const unsigned before = __atomic_load_n(&d->causes, __ATOMIC_ACQUIRE);
    if (before & ~bit) {
        /* What was done before is measured before something else is done; else both may be the cause, and neither is. */
        if (hri_refresh(device)) {
            __atomic_store_n(&d->causes, 0, __ATOMIC_RELEASE);
        }
    } else {
        hri_causes_look(device);
    }
    hri_cause_now(d, kind);
    hri_watcher_start(true);
}

void hri_cause_now(hri_run_device *d, hri_cause_kind kind) {
    __atomic_fetch_or(&d->causes, 1u << kind, __ATOMIC_ACQ_REL);
    __atomic_store_n(&d->caused_ms, hri_coarse_ms(), __ATOMIC_RELAXED);
}

void hri_causes_look(int device) {
    hri_run_device *d = &hri_self.device[device];
    if (__atomic_load_n(&d->causes, __ATOMIC_ACQUIRE) &&
        hri_coarse_ms() - __atomic_load_n(&d->measured_ms, __ATOMIC_RELAXED) >= LOOK_MS) {
        (void)hri_refresh(device);
    }
}

static void take_from(uint64_t *bytes, uint64_t *less) {
    const uint64_t part = *less < *bytes ? *less : *bytes;
    *bytes -= part;
    *less -= part;
}

int hri_causes_learn(hri_run_device *d, const hri_wire *answer) {
    const uint64_t now = hri_coarse_ms();
    __atomic_store_n(&d->measured_ms, now, __ATOMIC_RELAXED);
    const bool alone = hri_self.moment != UINT64_MAX && hri_moment() == hri_self.moment &&
                       answer->held_bytes == d->tracked_bytes;
    d->sure = alone;
    if (!alone || (answer->flags & HRI_WIRE_NO_PIDS)) {
        return 0;
    }
    const unsigned causes = __atomic_load_n(&d->causes, __ATOMIC_ACQUIRE);
    if (now - __atomic_load_n(&d->caused_ms, __ATOMIC_RELAXED) >= LASTS_MS) {
        __atomic_store_n(&d->causes, 0, __ATOMIC_RELEASE);
    }
    __atomic_fetch_and(&d->causes, ~(1u << HRI_CAUSE_CONTEXT),
                       __ATOMIC_ACQ_REL); /* at once or never */
    const bool one = causes && !(causes & (causes - 1));
    const uint64_t sum = known(d);
    if (d->remainder_bytes == sum) {
        return 0;
    }
    if (d->remainder_bytes < sum) {
        uint64_t less = sum - d->remainder_bytes;
        if (one) {
            take_from(&d->cause_bytes[__builtin_ctz(causes)], &less); /* as code that is unloaded */
        }
        take_from(&d->other_bytes, &less);
        for (int i = HRI_CAUSES - 1; i >= 0; i--) {
            take_from(&d->cause_bytes[i], &less);
        }
        return 1;
    }
    uint64_t *cause = !d->cause_bytes[HRI_CAUSE_CONTEXT] ? &d->cause_bytes[HRI_CAUSE_CONTEXT]
                      : one                              ? &d->cause_bytes[__builtin_ctz(causes)]
                                                         : &d->other_bytes;
    *cause += d->remainder_bytes - sum;
    return 1;
}

void hri_causes_forget(hri_run_device *d) {
    memset(d->cause_bytes, 0, sizeof d->cause_bytes);
    d->other_bytes = 0;
    __atomic_store_n(&d->causes, 0, __ATOMIC_RELEASE);
}
