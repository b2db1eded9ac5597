/* TensorBoard event files: what a training tells, for the dashboard that people have open already.
 *
 * A file is a sequence of records, each the length (u64), a masked CRC-32C of the length, the bytes, and a masked
 * CRC-32C of the bytes, little-endian.  The bytes are one protobuf message `Event`; those few fields of it that are
 * used here are written by hand (events.c has their numbers).  The first says "brain.Event:2", the version.  The file
 * is FOLDER/events.out.tfevents.SECONDS.HOST.PID.N: so TensorBoard finds it and puts several of one run in order.
 *
 * A run that goes on from step n begins its file with a session start at n + 1: TensorBoard then forgets the points
 * that the killed run wrote from there on.
 *
 * Records wait in memory and reach the disk when hri_events_flush is called, when there are 16 KiB of them, or with
 * the first that comes two seconds after the last flush: a killed run loses two seconds.
 * Left out on purpose: histograms, images, graphs.  Threads: one at a time. */
#ifndef HRI_RECORDS_EVENTS_H
#define HRI_RECORDS_EVENTS_H

#include "records/sink.h"

typedef struct hri_events {
    hri_sink sink;
} hri_events;

/* Makes the folder when it is not there.  first_step > 0: the run goes on with this step. */
HR_MUST_CHECK hr_status hri_events_open(const char *folder, uint64_t first_step, hr_log_fn *log,
                                        void *log_user, hri_events *out, hri_prose *why);
/* One point of the curve `tag` ("train/loss"; what stands before the '/' is the group).  Not finite numbers too. */
void hri_events_scalar(hri_events *e, const char *tag, uint64_t step, double value);
/* Markdown on the text page. */
void hri_events_text(hri_events *e, const char *tag, uint64_t step, const char *text);
void hri_events_flush(hri_events *e);
/* Allowed twice, and on one whose sink is {.fd = -1}. */
void hri_events_close(hri_events *e);

#endif
