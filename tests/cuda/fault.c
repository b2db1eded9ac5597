/* The sweep: in a scripted life of a device, the Nth outside call of each kind fails, once and for ever, for every N.
 * Each time: a status that fits, nothing left behind, and the same life works afterwards.  First by our own fault
 * points, then by the fake driver itself, function by function. */
#include "rig.h"

#include <stdio.h>
#include <string.h>

enum { PAGES = 3 };

typedef struct life {
    hri_lib *lib;
    hri_dev *dev;
    hr_addr at;
    uint64_t pages[PAGES];
    int mapped;
    void *pinned;
    hri_dev_queue *queue;
    hri_dev_event *event;
} life;

/* Runs until something fails. */
static hr_status live(life *l) {
    char host[8] = "";
    hr_status s = cuda.probe(NULL, NULL, &l->lib);
    if (s == HR_OK && l->lib->device_count == 0) {
        return HR_E_NOT_FOUND;
    }
    s = s == HR_OK ? cuda.open(l->lib, 0, &l->dev) : s;
    const hri_page_source *source = l->dev ? &l->dev->source : NULL;
    s = s == HR_OK ? source->ops->reserve(source->self, PAGES * source->page_bytes, &l->at) : s;
    for (int i = 0; i < PAGES && s == HR_OK; i++) {
        s = source->ops->create(source->self, &l->pages[i]);
    }
    if (s == HR_OK) {
        s = source->ops->map(source->self, l->at, l->pages, PAGES);
        l->mapped = s == HR_OK;
    }
    s = s == HR_OK ? cuda.pinned_create(l->dev, 4096, &l->pinned) : s;
    s = s == HR_OK ? cuda.queue_open(l->dev, &l->queue) : s;
    s = s == HR_OK ? cuda.event_open(l->dev, &l->event) : s;
    s = s == HR_OK ? cuda.fill(l->queue, l->at, 'a', 8) : s;
    s = s == HR_OK ? cuda.event_mark(l->event, l->queue) : s;
    s = s == HR_OK ? cuda.event_wait(l->event, l->queue) : s;
    s = s == HR_OK ? cuda.copy(l->queue, host_addr(l->pinned), l->at, 8) : s;
    s = s == HR_OK ? cuda.queue_sync(l->queue) : s;
    if (s == HR_OK) {
        memcpy(host, l->pinned, 7);
        CHECK_STR(host, "aaaaaaa");
        s = source->ops->unmap(source->self, l->at, PAGES);
        l->mapped = s != HR_OK;
    }
    return s;
}

/* Gives back what there is, with the faults off. */
static void end_life(life *l) {
    if (l->queue) {
        cuda.queue_close(l->queue);
    }
    if (l->event) {
        cuda.event_close(l->event);
    }
    if (l->dev) {
        const hri_page_source *source = &l->dev->source;
        cuda.pinned_destroy(l->dev, l->pinned);
        if (l->mapped) {
            CHECK_OK(source->ops->unmap(source->self, l->at, PAGES));
        }
        for (int i = 0; i < PAGES; i++) {
            if (l->pages[i]) {
                source->ops->destroy(source->self, l->pages[i]);
            }
        }
        if (l->at) {
            source->ops->unreserve(source->self, l->at, PAGES * source->page_bytes);
        }
        cuda.close(l->dev);
    }
    if (l->lib) {
        cuda.unprobe(l->lib);
    }
}

static void check_nothing_left(int64_t allocs) {
    CHECK_EQ(hri_fault_live_allocs(), allocs);
    if (is_fake()) {
        char text[256] = "";
        fake()->report(text, sizeof text);
        CHECK_STR(text, "");
        CHECK_EQ(fake()->used_bytes(0), 0);
    }
}

static void live_well(int64_t allocs) {
    life good = {0};
    CHECK_OK(live(&good));
    end_life(&good);
    check_nothing_left(allocs);
}

static int fits(hri_fault_kind kind, hr_status status) {
    switch (kind) {
    case HRI_FAULT_ALLOC:
        return status == HR_E_NOMEM_HOST;
    case HRI_FAULT_PINNED:
        return status == HR_E_NOMEM_HOST;
    case HRI_FAULT_RESERVE:
    case HRI_FAULT_CREATE:
        return status == HR_E_NOMEM_DEVICE;
    case HRI_FAULT_MAP:
    case HRI_FAULT_QUEUE:
        return status == HR_E_NOMEM_DEVICE || status == HR_E_DEVICE;
    default:
        return status == HR_E_DEVICE;
    }
}

/* Skips when there is no device.  A real one is kept open, as making a context takes it a third of a second. */
static void need_device(rig *r) {
    rig_open(r, 0);
    if (is_fake()) {
        rig_close(r);
    }
}

static void done_with_device(rig *r) {
    if (!is_fake()) {
        rig_check_idle(r);
        rig_close(r);
    }
}

static void sweep(hri_fault_kind kind, int for_ever) {
    const int64_t allocs = hri_fault_live_allocs();
    for (uint64_t n = 1;; n++) {
        CHECK(n < 200);
        life l = {0};
        hri_fault_set(kind, n, for_ever);
        const hr_status status = live(&l);
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        end_life(&l);
        check_nothing_left(allocs);
        if (!delivered) {
            CHECK_OK(status);
            CHECK(n > 1); /* the life does pass such a point */
            return;
        }
        /* A list of processes that finds no memory only costs a better measure of the runtime. */
        if (!(kind == HRI_FAULT_ALLOC && status == HR_OK) && !fits(kind, status)) {
            test_fail(__FILE__, __LINE__, "%s %llu%s gave %s", hri_fault_name(kind),
                      (unsigned long long)n, for_ever ? "+" : "", hr_status_name(status));
        }
    }
}

TEST_TIMEOUT(fault, every_point_fails_once_and_for_ever, 300) {
    static const hri_fault_kind kinds[] = {HRI_FAULT_ALLOC, HRI_FAULT_RESERVE, HRI_FAULT_CREATE,
                                           HRI_FAULT_MAP,   HRI_FAULT_PINNED,  HRI_FAULT_QUEUE,
                                           HRI_FAULT_COPY,  HRI_FAULT_OPEN};
    rig r;
    need_device(&r);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        sweep(kinds[i], 0);
        sweep(kinds[i], 1);
        live_well(hri_fault_live_allocs());
    }
    done_with_device(&r);
}

/* Functions whose refusal must come out as a failure of ours; the others give something back. */
static const char *const refusing[] = {
    "cuInit",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuMemMap",
    "cuDeviceGetAttribute",
    "cuMemAddressReserve",
    "cuDevicePrimaryCtxRetain",
    "cuMemCreate",
    "cuMemSetAccess",
    "cuMemHostAlloc",
    "cuMemGetAllocationGranularity",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuEventCreate",
    "cuEventRecord",
    "cuMemcpyAsync",
    "cuStreamWaitEvent",
    "cuMemsetD8Async",
    "cuCtxPushCurrent",
};

static void sweep_function(const char *name, const char *suffix) {
    const int64_t allocs = hri_fault_live_allocs();
    for (int n = 1;; n++) {
        CHECK(n < 200);
        char text[64];
        life l = {0};
        snprintf(text, sizeof text, "%s:%d%s", name, n, suffix);
        fake()->schedule(text);
        const hr_status status = live(&l);
        const int64_t calls = fake()->calls(name);
        fake()->schedule("");
        end_life(&l);
        check_nothing_left(allocs);
        if (calls < n) {
            CHECK_OK(status);
            CHECK(n > 1);
            return;
        }
        /* The sync inside close may be refused without harm: nobody needs its answer. */
        if (status == HR_OK && strcmp(name, "cuStreamSynchronize") != 0) {
            test_fail(__FILE__, __LINE__, "%s was not noticed", text);
        }
    }
}

TEST_TIMEOUT(fault, every_refusal_of_the_driver_is_a_status, 300) {
    rig r;
    need_fake();
    need_device(&r);
    for (size_t i = 0; i < sizeof refusing / sizeof refusing[0]; i++) {
        sweep_function(refusing[i], "");
        sweep_function(refusing[i], "+");
        live_well(hri_fault_live_allocs());
    }
}
