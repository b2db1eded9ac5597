/* Fuzz target: packets of anybody to the broker.  Whatever comes, the ledger stays in order: nobody is granted more than a
 * budget, and no device is promised twice. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "broker/page.h"
#include "broker/serve.h"
#include "govern/ram.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CALLERS = 4, DEVICES = 2 };

static int devices(void *user, hri_observed *out) {
    (void)user;
    for (int i = 0; i < DEVICES; i++) {
        out[i] = (hri_observed){
            .uuid = {(unsigned char)(i + 1)}, .total_bytes = 1ull << 32, .used_bytes = 1 << 20};
    }
    return DEVICES;
}

static int processes(void *user, const unsigned char uuid[16], hri_observed_process *out) {
    (void)user;
    (void)uuid;
    out[0] = (hri_observed_process){.pid = 1, .bytes = 1 << 20};
    return 1;
}

/* One packet from a few bytes: who, verb, job, device, and two sizes as powers of two. */
static hri_wire packet(const uint8_t *at) {
    hri_wire w = hri_wire_make((hri_verb)(1 + at[1] % (HRI_VERB_END_ - 1)));
    w.job = at[2] % 4;
    w.uuid[0] = (unsigned char)(at[3] % 4);
    w.limit_bytes = w.wanted_bytes = (1ull << (at[4] % 64)) + at[5];
    w.least_bytes = 1ull << (at[5] % 64);
    w.held_bytes = at[6] & 128 ? 0 : 1ull << (at[6] % 64);
    w.granted_bytes = at[7] & 128 ? 0 : 1ull << (at[7] % 64);
    w.spilled_bytes = at[4] & 64 ? w.limit_bytes : 0;
    w.wait_ms = at[0] & 64 ? 10 : 0;
    w.flags = at[0] & 32 ? HRI_WIRE_OVERCOMMIT : at[0] & 16 ? HRI_WIRE_OWN : 0;
    w.row = at[7];
    return w;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static hri_grants grants; /* large */
    const hri_observer observer = {.devices = devices, .processes = processes};
    static hri_refusal refusal;
    hri_broker b = {.grants = &grants, .observer = &observer};
    hri_caller callers[CALLERS];
    hri_caller *list[CALLERS];
    if (size >= sizeof(hri_wire)) {
        (void)hri_wire_check(data, sizeof(hri_wire));
    }
    if (size == sizeof(hri_page)) {
        hri_page *page = malloc(sizeof *page);
        if (page) {
            memcpy(page, data, size);
            (void)hri_page_check(page, size);
            free(page);
        }
    }
    (void)hri_ram_record_check(data, size);
    if (size == sizeof refusal) {
        memcpy(&refusal, data, size);
        (void)hri_refusal_check(&refusal, size);
    }
    hri_grants_init(&grants);
    memset(callers, 0, sizeof callers);
    for (int i = 0; i < CALLERS; i++) {
        callers[i].pid = 1000000000 + i; /* nobody's */
        callers[i].started = 1;
        list[i] = &callers[i];
    }
    uint64_t now = 1;
    for (; size >= 8; data += 8, size -= 8, now += 5) {
        hri_caller *caller = &callers[data[0] % CALLERS];
        hri_wire w = packet(data);
        if (!hri_wire_check(&w, sizeof w)) {
            abort();
        }
        if (hri_serve_question(&b, caller, &w, now) < 0 || (data[0] & 128)) {
            const int64_t pid = caller->pid;
            hri_serve_end(&b, caller);
            caller->pid = pid ? pid : 1000000000;
            caller->started = 1;
        }
        if (hri_serve_refusal(&b, caller, &w, now, &refusal) &&
            !hri_refusal_check(&refusal, sizeof refusal)) {
            abort();
        }
        (void)hri_serve_turn(&b, list, CALLERS, &w, now);
        (void)hri_serve_look(&b, now);
        if (!hri_grants_check(&grants)) {
            abort();
        }
    }
    hri_grants *copy = malloc(sizeof *copy);
    if (copy) {
        *copy = grants;
        if (!hri_grants_restore(copy)) {
            abort(); /* a restart loses nothing */
        }
        free(copy);
    }
    return 0;
}
