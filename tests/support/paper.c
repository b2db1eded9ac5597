/* See paper.h. */
#include "paper.h"

#include <string.h>

#include "test.h"

static const hr_addr first_address = UINT64_C(1) << 40;

static uint64_t place_of(hr_addr at) {
    CHECK(at >= first_address && (at - first_address) % PAPER_PAGE == 0);
    return (at - first_address) / PAPER_PAGE;
}

static int refuses(paper *p) {
    p->calls++;
    return p->fail_in > 0 && --p->fail_in == 0;
}

static hr_status paper_reserve(void *self, uint64_t bytes, hr_addr *out) {
    paper *p = self;
    CHECK(bytes > 0 && bytes % PAPER_PAGE == 0);
    const uint64_t places = bytes / PAPER_PAGE;
    if (p->next_place + places > PAPER_PLACES) {
        return HR_E_NOMEM_DEVICE;
    }
    memset(p->is_reserved + p->next_place, 1, places);
    *out = first_address + p->next_place * PAPER_PAGE;
    p->next_place += places;
    p->reserved += places;
    return HR_OK;
}

static void paper_unreserve(void *self, hr_addr at, uint64_t bytes) {
    paper *p = self;
    for (uint64_t i = 0; i < bytes / PAPER_PAGE; i++) {
        CHECK(p->is_reserved[place_of(at) + i] && !p->page_at[place_of(at) + i]);
        p->is_reserved[place_of(at) + i] = 0;
    }
    p->reserved -= bytes / PAPER_PAGE;
}

static hr_status paper_create(void *self, uint64_t *out_page) {
    paper *p = self;
    if (refuses(p) || p->created == p->capacity) {
        return HR_E_NOMEM_DEVICE;
    }
    do {
        p->next_page = p->next_page % (PAPER_PAGES - 1) + 1;
    } while (p->exists[p->next_page]);
    p->exists[p->next_page] = 1;
    p->created++;
    *out_page = p->next_page;
    return HR_OK;
}

static void paper_destroy(void *self, uint64_t page) {
    paper *p = self;
    CHECK(page > 0 && page < PAPER_PAGES && p->exists[page] && p->mapped_times[page] == 0);
    p->exists[page] = 0;
    p->created--;
}

static hr_status paper_map(void *self, hr_addr at, const uint64_t *pages, size_t count) {
    paper *p = self;
    CHECK(count > 0);
    if (refuses(p)) {
        return HR_E_NOMEM_DEVICE;
    }
    for (size_t i = 0; i < count; i++) {
        CHECK(p->is_reserved[place_of(at) + i] && !p->page_at[place_of(at) + i]);
        CHECK(p->exists[pages[i]]);
        p->page_at[place_of(at) + i] = (uint32_t)pages[i];
        p->mapped_times[pages[i]]++;
    }
    p->mapped += count;
    return HR_OK;
}

static hr_status paper_unmap(void *self, hr_addr at, size_t count) {
    paper *p = self;
    CHECK(count > 0);
    if (refuses(p)) {
        return HR_E_DEVICE;
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t page = p->page_at[place_of(at) + i];
        CHECK(page > 0);
        p->mapped_times[page]--;
        p->page_at[place_of(at) + i] = 0;
    }
    p->mapped -= count;
    return HR_OK;
}

void paper_init(paper *p, uint64_t capacity) {
    memset(p, 0, sizeof *p);
    p->capacity = capacity;
}

hri_page_source paper_source(paper *p) {
    static const hri_source_ops ops = {
        .reserve = paper_reserve,
        .unreserve = paper_unreserve,
        .create = paper_create,
        .destroy = paper_destroy,
        .map = paper_map,
        .unmap = paper_unmap,
    };
    return (hri_page_source){&ops, p, PAPER_PAGE};
}
