/* A page source on paper: no memory, only strict books.  Every call is checked against the rules of memory/source.h
 * (what is mapped where, what exists, what was reserved); a broken rule fails the case on the spot. */
#ifndef HR_TEST_PAPER_H
#define HR_TEST_PAPER_H

#include "memory/source.h"

enum { PAPER_PAGE = 4096, PAPER_PLACES = 1 << 20, PAPER_PAGES = 1 << 16 };

typedef struct paper {
    uint64_t capacity;              /* pages it will give */
    uint64_t created, mapped;       /* now */
    uint64_t reserved;              /* places now */
    uint64_t next_place;            /* addresses are never reused, so a stale one shows */
    uint64_t calls;                 /* to create, map and unmap */
    uint64_t fail_in;               /* > 0: the call that many calls ahead is refused */
    uint32_t page_at[PAPER_PLACES]; /* 0 none, else page */
    uint8_t is_reserved[PAPER_PLACES];
    uint8_t exists[PAPER_PAGES];
    uint16_t mapped_times[PAPER_PAGES];
    uint32_t next_page;
} paper;

void paper_init(paper *p, uint64_t capacity);
hri_page_source paper_source(paper *p);

#endif
