/* Where a request is served: the device, the host, or not at all; see spill.h. */
#include "interpose/spill.h"
#include "interpose/pools.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALLEST = 2 << 20 };

bool hri_spill_on(void) {
    /* 1: not looked yet, 2: no, 3: yes.  Asked by lookups too, before anything is set up. */
    static int known = 1;
    int now = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (now == 1) {
        const char *job = getenv("HEADROOM_RUN_JOB"), *spill = getenv("HEADROOM_RUN_SPILL");
        now = job && *job && spill && *spill && strcmp(spill, "0") != 0 ? 3 : 2;
        __atomic_store_n(&known, now, __ATOMIC_RELAXED);
    }
    return now == 3;
}

bool hri_spill_may(uint64_t bytes) {
    return hri_spill_on() && bytes >= SMALLEST &&
           !__atomic_load_n(&hri_self.captures, __ATOMIC_ACQUIRE);
}

bool hri_spill_prefers_host(int device, uint64_t bytes) {
    if (bytes < HRI_SPILL_LARGE || !hri_spill_may(bytes)) {
        return false;
    }
    const hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.lock);
    const uint64_t held = hri_held_bytes(d);
    const uint64_t room = (d->granted_bytes > held ? d->granted_bytes - held : 0) + d->free_bytes;
    const uint64_t kept = d->limit_bytes / 32;
    pthread_mutex_unlock(&hri_self.lock);
    return room < bytes + kept;
}

/* ---- the host ---- */

/* A line of /proc/meminfo in bytes; 0: not known.  No stdio: the program may have none left. */
static uint64_t meminfo(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

/* Would the machine keep enough for itself?  A sixteenth of its memory, or HEADROOM_RUN_SPILL_FLOOR bytes. */
static bool host_has(uint64_t bytes) {
    char text[2048];
    const int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    if (got <= 0) {
        return false;
    }
    text[got] = '\0';
    const char *given = getenv("HEADROOM_RUN_SPILL_FLOOR");
    const uint64_t least = given ? strtoull(given, NULL, 10) : meminfo(text, "MemTotal:") / 16;
    const uint64_t left = meminfo(text, "MemAvailable:");
    return left > least && bytes <= left - least;
}

/* Tells the broker what this process has on the host; false: refused, or nobody there.  Under talk. */
static bool tell(int device, uint64_t bytes) {
    hri_run_device *d = &hri_self.device[device];
    hri_wire w = hri_wire_make(HRI_VERB_SPILL);
    memcpy(w.uuid, d->uuid, sizeof w.uuid);
    w.spilled_bytes = bytes;
    return hri_talk(&w, 0, device, 0) == 0;
}

bool hri_spill_take_host(int device, uint64_t bytes, hri_hook call) {
    hri_run_device *d = &hri_self.device[device];
    if (bytes > hri_self.spill_limit_bytes || !host_has(bytes)) {
        return false;
    }
    pthread_mutex_lock(&hri_self.talk);
    const bool ours = tell(device, d->spilled_bytes + bytes);
    if (ours) {
        pthread_mutex_lock(&hri_self.lock);
        d->spilled_bytes += bytes;
        pthread_mutex_unlock(&hri_self.lock);
    }
    pthread_mutex_unlock(&hri_self.talk);
    if (ours) {
        hri_page_event_add(device, HRI_PAGE_SPILL, bytes, call);
    }
    return ours;
}

void hri_spill_give_host(int device, uint64_t bytes) {
    hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.talk);
    pthread_mutex_lock(&hri_self.lock);
    d->spilled_bytes -= bytes < d->spilled_bytes ? bytes : d->spilled_bytes;
    pthread_mutex_unlock(&hri_self.lock);
    (void)tell(device, d->spilled_bytes); /* a broker that is away learns it when it is back */
    pthread_mutex_unlock(&hri_self.talk);
}

/* ---- the choice ---- */

CUresult hri_spill_take(int device, uint64_t bytes, hri_hook call, bool *out_host) {
    *out_host = false;
    if (!hri_spill_may(bytes)) {
        return hri_take(device, bytes, call);
    }
    const bool host_first = hri_spill_prefers_host(device, bytes);
    hri_answer(device);
    if (!host_first && hri_try_take(device, bytes, call) == CUDA_SUCCESS) {
        return CUDA_SUCCESS;
    }
    hri_pools_settle(device, true, true); /* what nobody uses goes before anything is spilled */
    if (!hri_spill_prefers_host(device, bytes) &&
        hri_try_take(device, bytes, call) == CUDA_SUCCESS) {
        return CUDA_SUCCESS;
    }
    if (hri_spill_take_host(device, bytes, call)) {
        *out_host = true;
        return CUDA_SUCCESS;
    }
    return hri_take(device, bytes, call);
}
