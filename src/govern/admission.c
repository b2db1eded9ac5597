/* See admission.h. */
#include "govern/admission.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <headroom/bytes.h>

#include "base/alloc.h"
#include "broker/door.h"
#include "device/device.h"
#include "govern/holders.h"
#include "govern/story.h"

struct hri_admission {
    hri_link link;  /* owns the job */
    hri_client own; /* the process that uses it */
    hri_door_job job;
    char device[HR_NAME_SIZE];
};

/* Where the one who waits is told of it. */
typedef struct wait_state {
    const hri_admission_options *o;
    hri_admission *a;
    hri_text what;
    uint64_t said_ms;
} wait_state;

/* Names of holders are read anew so often; looks at a full card, 20 ms apart: what the last program left may be on its way back. */
enum { LOOK_MS = 1000, SETTLE = 25 };

/* Who asks for all that is free comes while another plans with the whole card, which soon has what its plan needs alone: so long,
 * looking so often, for this part of the card at least. */
enum { ROOM_MS = 20000, ROOM_LOOK_MS = 50, ROOM_PART = 8 };

static void describe(hri_admission *a, hri_text *out, const char *verb, uint64_t bytes) {
    hri_holders_say(verb, bytes, a->device, a->job.uuids[0], out);
}

static hr_status on_wait(void *user, uint64_t waited_ms) {
    wait_state *w = user;
    if (!w->o->on_wait) {
        return HR_OK;
    }
    if (!w->said_ms || waited_ms - w->said_ms >= LOOK_MS) {
        describe(w->a, &w->what, "waiting for", w->a->job.limits[0]);
        w->said_ms = waited_ms ? waited_ms : 1;
    }
    return w->o->on_wait(w->o->user, hri_text_get(&w->what), waited_ms);
}

/* Waits for a card that others are about to give back; what is free then is in *h. */
static hr_status wait_for_room(hri_admission *a, const hri_admission_options *o, hri_holders *h) {
    const uint64_t most = o->wait_ms ? o->wait_ms : ROOM_MS;
    const uint64_t wanted = h->total_bytes / ROOM_PART;
    hr_status status = HR_OK;
    a->job.limits[0] = wanted;
    wait_state w = {.o = o, .a = a};
    for (uint64_t waited = 0; status == HR_OK && waited < most && h->found &&
                              h->free_bytes < wanted && h->outside_bytes + wanted <= h->total_bytes;
         waited += ROOM_LOOK_MS) {
        const struct timespec moment = {.tv_nsec = ROOM_LOOK_MS * 1000000};
        status = on_wait(&w, waited);
        nanosleep(&moment, NULL);
        if (status == HR_OK) {
            status = hri_holders_read(&a->link, a->job.uuids[0], h, NULL);
        }
    }
    hri_text_deinit(&w.what);
    return status;
}

/* Enters with all that is wanted, or with what is free of it. */
static hr_status enter(hri_admission *a, const hri_admission_options *o, bool all, hri_prose *why) {
    hri_holders h;
    uint64_t wanted = 0;
    hr_status status = hri_link_open(&a->link, why);
    status = status == HR_E_NOT_FOUND ? HR_E_IO : status; /* it started, and does not answer */
    if (status == HR_OK) {
        status = hri_holders_read(&a->link, a->job.uuids[0], &h, NULL);
    }
    if (status == HR_OK && !h.found) {
        status = HR_E_NOT_FOUND;
    }
    if (status != HR_OK) {
        return status;
    }
    const bool given = o->budget && hr_bytes_parse(o->budget, h.total_bytes, &wanted) == HR_OK;
    status = given ? HR_OK : wait_for_room(a, o, &h);
    if (status != HR_OK) {
        return status;
    }
    wanted = given && wanted < h.total_bytes ? wanted : h.total_bytes;
    all = all && given;
    wanted = all || wanted <= h.free_bytes ? wanted : h.free_bytes;
    a->job.limits[0] = wanted ? wanted : 1; /* the device itself says that nothing is left */
    a->job.id = 0;
    wait_state w = {.o = o, .a = a};
    status = hri_door_enter(&a->link.client, &a->job, all ? o->wait_ms : 0, on_wait, &w);
    if (a->job.id) {
        hri_story_begin_self(a->link.folder, a->job.id);
    }
    if (status == HR_OK) {
        hri_story_forget(a->link.folder, a->job.id);
    }
    if (status == HR_E_AGAIN && o->wait_ms) {
        describe(a, &w.what, "gave up waiting for", a->job.limits[0]);
        (void)hri_prose_set(why, status, "%s", hri_text_get(&w.what));
    }
    hri_text_deinit(&w.what);
    return status;
}

/* Without a wait what is left is taken; somebody may be faster between looking and asking. */
static hr_status enter_somehow(hri_admission *a, const hri_admission_options *o, hri_prose *why) {
    hr_status status = enter(a, o, true, why);
    for (int i = 0; i < 5 && status == HR_E_AGAIN && !(o->wait_ms && o->budget); i++) {
        hri_link_close(&a->link);
        status = enter(a, o, false, why);
    }
    return status;
}

static hr_status open_it(const hri_admission_options *o, hri_admission *a, hri_prose *why) {
    hr_status status = enter_somehow(a, o, why);
    if (status == HR_OK) {
        status = hri_client_open(a->link.folder, &a->own, why);
    }
    return status == HR_OK ? hri_door_join(&a->own, &a->job) : status;
}

hr_status hri_admission_open(const hri_admission_options *o, hri_admission **out, hri_prose *why) {
    const char *governed = getenv("HEADROOM_RUN_JOB");
    unsigned char uuid[16];
    hri_prose prose = {0};
    *out = NULL;
    if ((governed && *governed) || !hri_device_uuid(o->device, uuid)) {
        return HR_OK;
    }
    hri_admission *a = hri_calloc(1, sizeof *a);
    if (!a) {
        return HR_E_NOMEM_HOST;
    }
    a->link.client.fd = a->own.fd = -1;
    a->job = (hri_door_job){.count = 1, .flags = HRI_WIRE_OWN};
    memcpy(a->job.uuids[0], uuid, sizeof uuid);
    snprintf(a->device, sizeof a->device, "%s", o->device->name);
    hri_wire named;
    hri_wire_name(&named, o->name);
    memcpy(a->job.name, named.name, sizeof a->job.name);
    hr_status status = open_it(o, a, &prose);
    if (status == HR_OK) {
        *out = a;
        return HR_OK;
    }
    hri_admission_close(a);
    if (status == HR_E_AGAIN && o->wait_ms && o->budget) {
        return hri_prose_set(why, status, "%s", prose.text);
    }
    if (status == HR_E_CANCELLED || status == HR_E_NOMEM_HOST) {
        return status;
    }
    if (status != HR_E_UNSUPPORTED && status != HR_E_NOT_FOUND) {
        (void)hri_prose_set(
            why, status,
            "the broker does not respond (%s): meanwhile other programs may use the memory of "
            "%s",
            *prose.text ? prose.text : hr_status_text(status), o->device->name);
    }
    return HR_OK;
}

uint64_t hri_admission_bytes(const hri_admission *a) {
    return a ? a->job.limits[0] : UINT64_MAX;
}

/* The broker was started anew: it finds the job in its ledger, and is told that it is ours. */
static hr_status come_back(hri_admission *a) {
    hri_prose why = {0};
    hri_link_close(&a->link);
    hri_client_close(&a->own);
    hr_status status = hri_link_open(&a->link, &why);
    if (status == HR_OK) {
        status = hri_door_enter(&a->link.client, &a->job, 0, NULL, NULL);
    }
    if (status == HR_OK) {
        status = hri_client_open(a->link.folder, &a->own, &why);
    }
    return status == HR_OK ? hri_door_join(&a->own, &a->job) : status;
}

hr_status hri_admission_resize(hri_admission *a, uint64_t bytes, hri_prose *why) {
    if (!a || bytes == a->job.limits[0]) {
        return HR_OK;
    }
    hr_status status = hri_door_resize(&a->link.client, &a->own, &a->job, 0, bytes);
    for (int i = 0; i < SETTLE && status == HR_E_AGAIN; i++) {
        const struct timespec moment = {.tv_nsec = 20000000};
        nanosleep(&moment, NULL);
        status = hri_door_resize(&a->link.client, &a->own, &a->job, 0, bytes);
    }
    if (status == HR_E_IO && come_back(a) == HR_OK) {
        status = hri_door_resize(&a->link.client, &a->own, &a->job, 0, bytes);
    }
    if (status != HR_E_AGAIN && status != HR_E_LIMIT) {
        return HR_OK; /* what is reserved stays, or nobody counts */
    }
    hri_text text = {0};
    describe(a, &text, "not available:", bytes);
    (void)hri_prose_set(why, HR_E_AGAIN, "%s", hri_text_get(&text));
    hri_text_deinit(&text);
    return HR_E_AGAIN;
}

void hri_admission_close(hri_admission *a) {
    if (a) {
        hri_client_close(&a->own);
        hri_link_close(&a->link);
        hri_free(a);
    }
}
