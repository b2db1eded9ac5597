/* The page that outlives the process; see broker/page.h. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "interpose/govern.h"
#include "interpose/stack.h"

static __thread uint32_t thread
    __attribute__((tls_model("initial-exec"))); /* its number; 0: not asked yet */

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void hri_page_open(void) {
    char path[HRI_WIRE_PATH + 64];
    snprintf(path, sizeof path, "%s/page-%llu-%d", hri_self.folder,
             (unsigned long long)hri_self.job, (int)getpid());
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return; /* a program without a page runs all the same */
    }
    void *memory = MAP_FAILED;
    if (posix_fallocate(fd, 0, sizeof(hri_page)) == 0) { /* no SIGBUS later on a full disk */
        memory = mmap(NULL, sizeof(hri_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (memory == MAP_FAILED) {
        return;
    }
    hri_page *page = memory;
    page->pid = getpid();
    page->job = hri_self.job;
    page->bytes = sizeof *page;
    page->started_at = now_ns();
    snprintf(page->name, sizeof page->name, "%s", program_invocation_short_name);
    _Static_assert((int)HRI_HOOKS_COUNTED <= (int)HRI_PAGE_CALLS, "every hook has its line");
    for (int i = 0; i < HRI_HOOKS_COUNTED; i++) {
        snprintf(page->calls[i], sizeof page->calls[i], "%s", hri_hook_name((hri_hook)i));
    }
    __atomic_store_n(&page->magic, HRI_PAGE_MAGIC, __ATOMIC_RELEASE);
    hri_self.page = page;
}

void hri_page_close_in_child(void) {
    thread = 0;
    if (hri_self.page) {
        munmap(hri_self.page, sizeof *hri_self.page);
        hri_self.page = NULL;
    }
}

/* The numbers of a device, and the doors.  Under lock. */
static void refresh(hri_page *page, int device) {
    const hri_run_device *d = &hri_self.device[device];
    memcpy(page->device[device].uuid, d->uuid, sizeof d->uuid);
    page->device[device].held_bytes = hri_held_bytes(d);
    page->device[device].peak_bytes = d->peak_bytes;
    page->device[device].granted_bytes = d->granted_bytes;
    page->device[device].limit_bytes = d->limit_bytes;
    page->device[device].remainder_bytes = d->remainder_bytes;
    page->device[device].spilled_bytes = d->spilled_bytes;
    memcpy(page->device[device].cause_bytes, d->cause_bytes, sizeof d->cause_bytes);
    page->devices = page->devices > (uint32_t)device ? page->devices : (uint32_t)device + 1;
    page->doors[0] = hri_door_counts.by_binding;
    page->doors[1] = hri_door_counts.by_dlsym;
    page->doors[2] = hri_door_counts.by_resolver;
    page->unknown_count = hri_door_counts.unknown;
    for (int i = 0; i < HRI_PAGE_UNKNOWN; i++) {
        const char *name = hri_door_unknown[i];
        if (name && !page->unknown[i][0]) {
            snprintf(page->unknown[i], sizeof page->unknown[i], "%s", name);
        }
    }
}

static hri_page_event event_of(int device, hri_page_kind kind, uint64_t bytes, hri_hook call) {
    thread = thread ? thread : (uint32_t)syscall(SYS_gettid);
    return (hri_page_event){.at_ns = now_ns(),
                            .bytes = bytes,
                            .held_bytes = hri_held_bytes(&hri_self.device[device]),
                            .thread = thread,
                            .call = (uint16_t)call,
                            .device = (uint8_t)device,
                            .kind = (uint8_t)kind};
}

static void add(hri_page *page, const hri_page_event *event) {
    page->events[page->event_count % HRI_PAGE_EVENTS] = *event;
    __atomic_store_n(&page->event_count, page->event_count + 1, __ATOMIC_RELEASE);
    page->calls_count[event->call]++;
}

void hri_page_refresh(int device) {
    if (hri_self.page) {
        refresh(hri_self.page, device);
    }
}

void hri_page_event_add(int device, hri_page_kind kind, uint64_t bytes, hri_hook call) {
    hri_page *page = hri_self.page;
    if (!page) {
        return;
    }
    pthread_mutex_lock(&hri_self.lock);
    const hri_page_event event = event_of(device, kind, bytes, call);
    add(page, &event);
    refresh(page, device);
    pthread_mutex_unlock(&hri_self.lock);
}

/* What is held, by size. */
static void sort_sizes(hri_page_refusal *r, int device) {
    memset(r->sizes_count, 0, sizeof r->sizes_count);
    memset(r->sizes_bytes, 0, sizeof r->sizes_bytes);
    for (size_t i = 0; i < hri_self.table.room; i++) {
        const hri_held_entry *e = &hri_self.table.entries[i];
        if (e->kind == HRI_KIND_NONE || e->kind == HRI_KIND_BLOCK || e->device != device) {
            continue;
        }
        const uint64_t bytes =
            e->kind == HRI_KIND_MEMORY ? e->a : e->bytes; /* spilled: none here */
        int class = 0;
        while (class < HRI_PAGE_SIZES - 1 && bytes >= 4096ull << class) {
            class ++;
        }
        if (bytes) {
            r->sizes_count[class]++;
            r->sizes_bytes[class] += bytes;
        }
    }
}

static void name_frames(hri_page_refusal *r) {
    _Static_assert(sizeof r->frames[0] == HRI_STACK_NAME, "a frame is a line");
    memset(r->frames, 0, sizeof r->frames);
    (void)hri_stack_native(r->frames, HRI_PAGE_FRAMES, 0);
}

void hri_page_refuse(int device, hri_page_kind kind, uint64_t bytes, hri_hook call,
                     uint64_t waited_ms) {
    hri_page *page = hri_self.page;
    if (!page) {
        return;
    }
    pthread_mutex_lock(&hri_self.lock);
    const hri_run_device *d = &hri_self.device[device];
    hri_page_refusal *r = &page->refusal;
    const hri_page_event event = event_of(device, kind, bytes, call);
    r->event = event;
    r->granted_bytes = d->granted_bytes;
    r->limit_bytes = d->limit_bytes;
    r->free_bytes = d->free_bytes;
    r->waited_ms = waited_ms;
    sort_sizes(r, device);
    name_frames(r);
    add(page, &event);
    refresh(page, device);
    __atomic_store_n(&page->refusal_count, page->refusal_count + 1, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&hri_self.lock);
}
