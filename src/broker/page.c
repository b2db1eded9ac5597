/* Reading pages; see page.h. */
#include "broker/page.h"

#include <string.h>

static int ends(const char *text, size_t size) {
    return memchr(text, '\0', size) != NULL;
}

int hri_page_check(const hri_page *p, size_t bytes) {
    if (bytes != sizeof *p || p->magic != HRI_PAGE_MAGIC || p->bytes != sizeof *p ||
        p->devices > HRI_PAGE_DEVICES || !ends(p->name, sizeof p->name)) {
        return 0;
    }
    for (int i = 0; i < HRI_PAGE_CALLS; i++) {
        if (!ends(p->calls[i], sizeof p->calls[i])) {
            return 0;
        }
    }
    for (int i = 0; i < HRI_PAGE_UNKNOWN; i++) {
        if (!ends(p->unknown[i], sizeof p->unknown[i])) {
            return 0;
        }
    }
    for (int i = 0; i < HRI_PAGE_FRAMES; i++) {
        if (!ends(p->refusal.frames[i], sizeof p->refusal.frames[i])) {
            return 0;
        }
    }
    for (int i = 0; i <= HRI_PAGE_EVENTS; i++) {
        const hri_page_event *e = i < HRI_PAGE_EVENTS ? &p->events[i] : &p->refusal.event;
        if (e->call >= HRI_PAGE_CALLS || e->device >= HRI_PAGE_DEVICES ||
            e->kind >= HRI_PAGE_KIND_END_) {
            return 0;
        }
    }
    return 1;
}
