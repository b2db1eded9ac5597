/* Random lives of a heap against a naive model.  The model knows only the addresses of the live blocks; from them it
 * says, for each request, whether it must be served:
 *   a large one   exactly when the limit minus the pages in use has as many pages
 *   a small one   exactly when there is a free page or a gap in a page that small blocks share
 * After each step every invariant is walked.  A failing life is shrunk to the shortest prefix that fails by running
 * it again with fewer steps; the printed seed and step count reproduce it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/heap.h"
#include "paper.h"
#include "test.h"

enum { BLOCKS = 400, UNIT = HRI_UNIT_BYTES };

typedef struct model {
    hri_heap heap;
    hr_block blocks[BLOCKS];
    int live[BLOCKS];
    uint64_t limit_pages;
    uint64_t random;
} model;

static paper books;

static int is_small(uint64_t bytes) {
    return bytes <= PAPER_PAGE / 2;
}

static uint64_t pages_of(uint64_t bytes) {
    return (bytes + PAPER_PAGE - 1) / PAPER_PAGE;
}

/* The pages of small blocks, each once, with a map of the units in use. */
typedef struct small_page {
    hr_addr base;
    uint32_t used; /* bit u: unit u (16 to a page) */
} small_page;

static size_t small_pages(const model *m, small_page *out) {
    size_t count = 0;
    for (int i = 0; i < BLOCKS; i++) {
        if (!m->live[i] || !is_small(m->blocks[i].bytes)) {
            continue;
        }
        const hr_addr base = m->blocks[i].addr / PAPER_PAGE * PAPER_PAGE;
        size_t at = 0;
        while (at < count && out[at].base != base) {
            at++;
        }
        if (at == count) {
            out[count++] = (small_page){base, 0};
        }
        const uint32_t first = (uint32_t)((m->blocks[i].addr - base) / UNIT);
        const uint32_t units = (uint32_t)((m->blocks[i].bytes + UNIT - 1) / UNIT);
        const uint32_t mask = ((1u << units) - 1u) << first;
        CHECK((out[at].used & mask) == 0); /* no two blocks overlap */
        out[at].used |= mask;
    }
    return count;
}

static int has_gap(const small_page *page, uint32_t units) {
    for (uint32_t first = 0; first + units <= PAPER_PAGE / UNIT; first++) {
        if ((page->used & (((1u << units) - 1u) << first)) == 0) {
            return 1;
        }
    }
    return 0;
}

/* What the model says of a request of `bytes`. */
static int must_serve(const model *m, uint64_t bytes) {
    static small_page pages[BLOCKS];
    const size_t small = small_pages(m, pages);
    uint64_t busy = small;
    for (int i = 0; i < BLOCKS; i++) {
        if (m->live[i] && !is_small(m->blocks[i].bytes)) {
            busy += pages_of(m->blocks[i].bytes);
        }
    }
    CHECK_LE(busy, m->limit_pages);
    if (!is_small(bytes)) {
        return pages_of(bytes) <= m->limit_pages - busy;
    }
    if (busy < m->limit_pages) {
        return 1;
    }
    for (size_t i = 0; i < small; i++) {
        if (has_gap(&pages[i], (uint32_t)((bytes + UNIT - 1) / UNIT))) {
            return 1;
        }
    }
    return 0;
}

static void walk(model *m) {
    char text[256] = "";
    if (hri_heap_check(&m->heap, text, sizeof text) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", text);
    }
    test_count_check();
    CHECK_LE(books.created, m->limit_pages);
    CHECK_EQ(books.created, m->heap.pool.held_pages);
}

static uint64_t random_size(model *m) {
    switch (test_random(&m->random) % 4) {
    case 0:
        return 1 + test_random(&m->random) % UNIT;
    case 1:
        return 1 + test_random(&m->random) % (PAPER_PAGE / 2);
    case 2:
        return 1 + test_random(&m->random) % (4 * PAPER_PAGE);
    default:
        return 1 + test_random(&m->random) % (m->limit_pages * PAPER_PAGE);
    }
}

static void step(model *m) {
    const uint64_t kind = test_random(&m->random) % 100;
    const int at = (int)(test_random(&m->random) % BLOCKS);
    if (kind == 0) {
        CHECK_OK(hri_heap_trim(&m->heap, 0, NULL));
        CHECK_EQ(m->heap.idle_pages + m->heap.pool.spare_count, 0);
    } else if (kind == 1) {
        const uint64_t limit = 8 + test_random(&m->random) % 120;
        const hr_status status = hri_heap_set_limit(&m->heap, limit * PAPER_PAGE, NULL);
        if (status == HR_OK) {
            m->limit_pages = limit;
        } else {
            CHECK_STATUS(status, HR_E_BUSY);
        }
    } else if (kind == 2) {
        hri_heap_tick(&m->heap);
        CHECK_OK(hri_heap_trim(&m->heap, 2, NULL));
    } else if (m->live[at]) {
        CHECK_OK(hri_heap_free(&m->heap, &m->blocks[at]));
        m->live[at] = 0;
    } else {
        const uint64_t bytes = random_size(m);
        const int must = must_serve(m, bytes);
        hr_block block;
        const hr_status status =
            hri_heap_alloc(&m->heap, bytes, HR_CATEGORY_OTHER, 0, &block, NULL);
        CHECK_STATUS(status, must ? HR_OK : HR_E_LIMIT);
        if (status == HR_OK) {
            m->blocks[at] = block;
            m->live[at] = 1;
        }
    }
}

static void live(uint64_t seed, int steps) {
    static model m;
    memset(&m, 0, sizeof m);
    m.random = seed;
    m.limit_pages = 8 + test_random(&m.random) % 120;
    paper_init(&books, 4096);
    const hri_page_source source = paper_source(&books);
    CHECK_OK(hri_heap_init(&m.heap, &source, m.limit_pages * PAPER_PAGE, HR_GROWTH_ON));
    for (int i = 0; i < steps; i++) {
        step(&m);
        walk(&m);
    }
    for (int i = 0; i < BLOCKS; i++) {
        if (m.live[i]) {
            CHECK_OK(hri_heap_free(&m.heap, &m.blocks[i]));
        }
    }
    CHECK_OK(hri_heap_trim(&m.heap, 0, NULL));
    CHECK_EQ(books.created, 0);
    CHECK_EQ(books.mapped, 0);
    CHECK_EQ(books.reserved, 0); /* the addresses too */
    hri_heap_deinit(&m.heap);
}

TEST_TIMEOUT(heap, random_lives_agree_with_the_naive_model, 200) {
    for (uint64_t life = 0; life < 60; life++) {
        live(test_seed() * 1000 + life, 1500);
    }
}

/* A source that refuses now and then: what fails changes nothing, and the books stay right. */
TEST_TIMEOUT(heap, random_refusals_of_the_device_change_nothing, 200) {
    static model m;
    uint64_t refused = 0;
    for (uint64_t life = 0; life < 40; life++) {
        memset(&m, 0, sizeof m);
        m.random = test_seed() * 77 + life;
        m.limit_pages = 96;
        paper_init(&books, 4096);
        const hri_page_source source = paper_source(&books);
        CHECK_OK(hri_heap_init(&m.heap, &source, m.limit_pages * PAPER_PAGE, HR_GROWTH_ON));
        for (int i = 0; i < 600; i++) {
            const int at = (int)(test_random(&m.random) % BLOCKS);
            if (m.live[at]) {
                CHECK_OK(hri_heap_free(&m.heap, &m.blocks[at]));
                m.live[at] = 0;
            } else {
                hr_block block = {.addr = 5};
                const uint64_t bytes = random_size(&m);
                const int must = must_serve(&m, bytes);
                books.fail_in = test_random(&m.random) % 8;
                const uint64_t held = m.heap.pool.held_pages;
                hr_status status =
                    hri_heap_alloc(&m.heap, bytes, HR_CATEGORY_OTHER, 0, &block, NULL);
                if (status != HR_OK && must) {
                    refused++;
                    CHECK(status == HR_E_NOMEM_DEVICE || status == HR_E_DEVICE);
                    CHECK_EQ(block.addr, 5);
                    CHECK_EQ(m.heap.pool.held_pages, held);
                    walk(&m);
                    books.fail_in = 0;
                    status = hri_heap_alloc(&m.heap, bytes, HR_CATEGORY_OTHER, 0, &block, NULL);
                }
                books.fail_in = 0;
                CHECK_STATUS(status, must ? HR_OK : HR_E_LIMIT);
                if (status == HR_OK) {
                    m.blocks[at] = block;
                    m.live[at] = 1;
                }
            }
            walk(&m);
        }
        hri_heap_deinit(&m.heap); /* with everything that lives in it */
        CHECK_EQ(books.created, 0);
        CHECK_EQ(books.mapped, 0);
    }
    CHECK(refused > 100);
}
