/* The page of a governed process: a mapped file that the process alone writes and that stays after a SIGKILL.
 *
 * `headroom top` and `headroom why` read it: what is held and by which calls, the last events, the last refusal with its
 * stack.  There is no lock: a reader takes a copy and looks at refusal_count before and after.  Everything in it is for
 * showing; nobody decides by it, and a reader trusts no text or index in it (hri_page_check).
 *
 * Libc alone, as wire.h. */
#ifndef HRI_BROKER_PAGE_H
#define HRI_BROKER_PAGE_H

#include <stddef.h>
#include <stdint.h>
#include "broker/wire.h"

#define HRI_PAGE_MAGIC 0x31656761506d7248u

enum {
    HRI_PAGE_DEVICES = 16,
    HRI_PAGE_EVENTS = 1024, /* a power of two */
    HRI_PAGE_CALLS = 128,
    HRI_PAGE_FRAMES = 16,
    HRI_PAGE_SIZES = 24, /* classes of sizes: under 4 KiB, then each twice the one before */
    HRI_PAGE_UNKNOWN = 8
};

typedef enum hri_page_kind {
    HRI_PAGE_TAKE = 1,
    HRI_PAGE_GIVE,
    HRI_PAGE_REFUSE_LIMIT, /* over the own budget */
    HRI_PAGE_REFUSE_FULL,  /* others hold it */
    HRI_PAGE_REFUSE_AWAY,  /* the broker is away and the lease is used up */
    HRI_PAGE_REFUSE_DEADLOCK,
    HRI_PAGE_REFUSE_DRIVER, /* granted, and the driver refused all the same */
    HRI_PAGE_SPILL,
    HRI_PAGE_RETURN,
    HRI_PAGE_KIND_END_
} hri_page_kind;

typedef struct hri_page_event {
    uint64_t at_ns; /* CLOCK_REALTIME */
    uint64_t bytes;
    uint64_t held_bytes; /* after it */
    uint32_t thread;
    uint16_t call; /* index of calls[] */
    uint8_t device, kind;
} hri_page_event;

typedef struct hri_page_refusal {
    hri_page_event event;
    uint64_t granted_bytes, limit_bytes, free_bytes, waited_ms;
    uint64_t sizes_count[HRI_PAGE_SIZES], sizes_bytes[HRI_PAGE_SIZES]; /* what was held then */
    char frames[HRI_PAGE_FRAMES][96];                                  /* "name+0x1f in file" */
} hri_page_refusal;

typedef struct hri_page {
    uint64_t magic, bytes; /* bytes: sizeof */
    int32_t pid;
    uint32_t devices;
    uint64_t job, started_at;
    char name[64];
    struct {
        unsigned char uuid[16];
        uint64_t held_bytes, peak_bytes, granted_bytes, limit_bytes, remainder_bytes;
        uint64_t spilled_bytes;
        uint64_t cause_bytes[HRI_CAUSES]; /* of the remainder */
    } device[HRI_PAGE_DEVICES];
    char calls[HRI_PAGE_CALLS][40];
    uint64_t calls_count[HRI_PAGE_CALLS];
    uint64_t doors[4];      /* lookups answered: ELF binding, dlsym, cuGetProcAddress, NVML */
    uint64_t unknown_count; /* lookups of allocating names that have no hook */
    char unknown[HRI_PAGE_UNKNOWN][40];
    uint64_t event_count; /* event i lies at i % HRI_PAGE_EVENTS */
    hri_page_event events[HRI_PAGE_EVENTS];
    uint64_t refusal_count;
    hri_page_refusal refusal; /* the last one */
} hri_page;

/* 1 when the bytes are a page whose texts end and whose indices are in range. */
int hri_page_check(const hri_page *page, size_t bytes);

#endif
