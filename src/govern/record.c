/* See record.h. */
#include "govern/record.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "broker/process.h"
#include "broker/wire.h"

/* A page from the folder; hri_free() it.  NULL: it is none. */
static hri_page *load(const char *folder, const char *name) {
    char path[HRI_WIRE_PATH + 300];
    char *data = NULL;
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (hri_file_read(path, sizeof(hri_page), &data, &bytes, NULL) != HR_OK) {
        return NULL;
    }
    if (!hri_page_check((const hri_page *)(void *)data, bytes)) {
        hri_free(data);
        return NULL;
    }
    return (hri_page *)(void *)data;
}

uint64_t hri_record_moment(const hri_page *p) {
    return p->refusal_count ? p->refusal.event.at_ns : p->started_at;
}

hri_page *hri_record_find(const char *folder, uint64_t job) {
    DIR *dir = opendir(folder);
    hri_page *best = NULL;
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        hri_page *page = strncmp(entry->d_name, "page-", 5) ? NULL : load(folder, entry->d_name);
        if (page && (!job || page->job == job) &&
            (!best || (page->refusal_count != 0) > (best->refusal_count != 0) ||
             ((page->refusal_count != 0) == (best->refusal_count != 0) &&
              hri_record_moment(page) > hri_record_moment(best)))) {
            hri_free(best);
            best = page;
        } else {
            hri_free(page);
        }
    }
    if (dir) {
        closedir(dir);
    }
    return best;
}

const char *hri_record_reason(const hri_page *p) {
    switch (p->refusal.event.kind) {
    case HRI_PAGE_REFUSE_LIMIT:
        return "it would have exceeded the job's budget";
    case HRI_PAGE_REFUSE_FULL:
        return "the GPU was full: other programs held the memory";
    case HRI_PAGE_REFUSE_AWAY:
        return "the broker was not running, and the memory it had granted was used up";
    case HRI_PAGE_REFUSE_DEADLOCK:
        return "every program that held memory was waiting for memory";
    case HRI_PAGE_REFUSE_DRIVER:
        return "the budget allowed it, but the driver refused";
    default:
        return "unknown";
    }
}

uint64_t hri_record_enough(const hri_page *p) {
    const hri_page_refusal *r = &p->refusal;
    const uint64_t held = r->event.held_bytes, part = (held + r->event.bytes) / 30;
    const uint64_t need = held + r->event.bytes + (part > (64 << 20) ? part : 64 << 20);
    return (need + (256 << 20) - 1) / (256 << 20) * (256 << 20);
}

int hri_record_alive(const hri_page *p) {
    return hri_process_started(p->pid) != 0;
}

void hri_record_forget(const char *folder, uint64_t job) {
    enum { KEPT = 32 };
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        unsigned long long of = 0;
        if (sscanf(entry->d_name, "page-%llu-", &of) == 1 && of + KEPT <= job) {
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    if (dir) {
        closedir(dir);
    }
}
