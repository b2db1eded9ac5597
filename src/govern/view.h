/* What `headroom top` shows: the broker's list, sorted, each line with what it held over the last minute.
 *
 *   hri_watch_view v = {0};
 *   hri_view_look(&v, &link, &why);      once a second; lines that stay keep their past
 *   v.lines[0..v.count)                  devices first, then jobs in the chosen order, each with its processes behind it
 *   hri_view_deinit(&v);
 *
 * No terminal here.  Threads: one at a time. */
#ifndef HRI_GOVERN_VIEW_H
#define HRI_GOVERN_VIEW_H

#include "base/json.h"
#include "base/text.h"
#include "govern/link.h"

enum { HRI_VIEW_PAST = 32 };

typedef enum hri_view_order {
    HRI_VIEW_BY_JOB = 0,
    HRI_VIEW_BY_HELD,   /* most first */
    HRI_VIEW_BY_BUDGET, /* most first */
    HRI_VIEW_BY_NAME,
    HRI_VIEW_BY_WAIT, /* who waits, longest first; then who has been in longest */
    HRI_VIEW_ORDERS
} hri_view_order;

typedef struct hri_view_line {
    hri_wire row;
    uint64_t taken_bytes;         /* what it holds now; of a device: what everybody does */
    uint64_t past[HRI_VIEW_PAST]; /* the last looks, newest last */
    int past_count;
} hri_view_line;

typedef struct hri_watch_view {
    hri_view_line *lines;
    size_t count, room;
    hri_view_order order;
} hri_watch_view;

/* HR_E_IO: the broker has gone; the lines are as they were. */
HR_MUST_CHECK hr_status hri_view_look(hri_watch_view *v, hri_link *link, hri_prose *why);
/* The same from rows that somebody has: for hri_view_look and tests. */
HR_MUST_CHECK hr_status hri_view_put(hri_watch_view *v, const hri_wire *rows, size_t count);
void hri_view_sort(hri_watch_view *v);
void hri_view_deinit(hri_watch_view *v);

/* "job", "held", "budget", "name", "wait". */
const char *hri_view_order_name(hri_view_order order);
/* "waiting", "running", ... */
const char *hri_view_state(const hri_wire *row);
/* The past as bars of `width` characters, against `most`; ASCII without utf8.  `out` has room for 3 * width + 1. */
void hri_view_spark(const hri_view_line *line, uint64_t most, int width, int utf8, char *out);

/* What of the memory that the driver took by itself is known by its cause, and what is not ("other"); sizes in bytes.  Measured: what
 * NVML shows beyond the process's own allocations grew when it made a context, loaded code or instantiated a graph. */
uint64_t hri_view_other(uint64_t remainder_bytes, const uint64_t cause_bytes[HRI_CAUSES]);
/* "context 480 MiB, modules 52 MiB": those that are not 0; "" for none. */
void hri_view_causes(uint64_t remainder_bytes, const uint64_t cause_bytes[HRI_CAUSES],
                     hri_text *out);
void hri_view_causes_json(uint64_t remainder_bytes, const uint64_t cause_bytes[HRI_CAUSES],
                          hri_json *json);

#endif
