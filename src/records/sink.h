/* A file of records that only grows: what a training says about itself while it runs.
 *
 *   hri_sink_open(path, keep_bytes, log, log_user, &sink, &why);      may fail: the user named a place that is none
 *   hri_sink_put(&sink, record, bytes) ... hri_sink_flush(&sink) ...  never fail
 *   hri_sink_close(&sink);
 *
 * The one idea: a training of a week does not end because a log cannot be written.  After opening, a refused write is
 * a warning, given once; the record is lost and counted, the file is cut back to its last whole record, and the next
 * one is tried again, since a full disk may have room later.  So a reader sees whole records only, at any time, but
 * for the last when the machine itself dies.
 *
 * Records wait in a buffer of fixed size, so that logging takes no memory while training runs.
 * Threads: one at a time. */
#ifndef HRI_RECORDS_SINK_H
#define HRI_RECORDS_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <headroom/context.h>
#include "base/prose.h"

enum { HRI_SINK_BUFFER = 16 << 10 };

typedef struct hri_sink {
    int fd; /* -1: none; every call does nothing then */
    char *path;
    char *buffer; /* HRI_SINK_BUFFER bytes */
    size_t used;
    uint64_t waiting;    /* records in it */
    uint64_t good_bytes; /* of the file: whole records */
    uint64_t lost;       /* records that could not be written */
    uint64_t flushed_ns; /* when, on hri_clock_ns() */
    bool warned;
    bool stuck;     /* a pipe that nobody empties */
    hr_log_fn *log; /* NULL: silent */
    void *log_user;
} hri_sink;

/* Opens or makes the file and keeps its first keep_bytes (0: it begins anew; UINT64_MAX: all of it). */
HR_MUST_CHECK hr_status hri_sink_open(const char *path, uint64_t keep_bytes, hr_log_fn *log,
                                      void *log_user, hri_sink *out, hri_prose *why);
/* One whole record.  It is written when the buffer is full or with the next flush. */
void hri_sink_put(hri_sink *s, const void *record, size_t bytes);
/* Counts a record that could not even be made, for the same warning. */
void hri_sink_lose(hri_sink *s, const char *reason);
void hri_sink_flush(hri_sink *s);
/* Flushes and closes.  Allowed twice, and on one that is {.fd = -1}. */
void hri_sink_close(hri_sink *s);

#endif
