/* Counting and delivering faults; empty in builds without HEADROOM_FAULTS. */
#include "base/fault.h"

#ifdef HEADROOM_FAULTS
#include <stdatomic.h>
#include <stddef.h>

static _Atomic uint64_t passes;
static _Atomic uint64_t fail_at; /* 0: off */
static _Atomic uint64_t delivered;
static _Atomic int fail_kind = HRI_FAULT_ANY;
static _Atomic int fail_for_ever;

void hri_fault_set(hri_fault_kind kind, uint64_t nth, int for_ever) {
    atomic_store(&fail_at, 0);
    atomic_store(&fail_kind, (int)kind);
    atomic_store(&fail_for_ever, for_ever);
    atomic_store(&passes, 0);
    atomic_store(&delivered, 0);
    atomic_store(&fail_at, nth);
}

int hri_fault_hit(hri_fault_kind kind) {
    const uint64_t at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    if (at == 0) {
        return 0;
    }
    const int wanted = atomic_load(&fail_kind);
    if (wanted != HRI_FAULT_ANY && wanted != (int)kind) {
        return 0;
    }
    const uint64_t pass = atomic_fetch_add(&passes, 1) + 1;
    if (pass == at || (pass > at && atomic_load(&fail_for_ever))) {
        atomic_fetch_add(&delivered, 1);
        return 1;
    }
    return 0;
}

uint64_t hri_fault_delivered(void) {
    return atomic_load(&delivered);
}

const char *hri_fault_name(hri_fault_kind kind) {
    static const char *const names[] = {
#define HRI_FAULT_NAME(NAME, TEXT) TEXT,
        HRI_FAULT_MAP(HRI_FAULT_NAME)
#undef HRI_FAULT_NAME
    };
    return kind >= 0 && kind < HRI_FAULT_COUNT ? names[kind] : NULL;
}
#else
typedef int hri_fault_unused; /* ISO C wants a translation unit to hold something */
#endif
