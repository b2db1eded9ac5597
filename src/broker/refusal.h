/* What the broker writes down when it refuses: who asked for what, and who held what at that moment.
 *
 * One file for each job, refused-JOB in the user's folder, the last refusal in it.  The page of a process (page.h) has the
 * other half: the call, the thread, the stack.  For showing only; a reader trusts no text or count in it. */
#ifndef HRI_BROKER_REFUSAL_H
#define HRI_BROKER_REFUSAL_H

#include "broker/wire.h"

#define HRI_REFUSAL_MAGIC 0x316c617375666572u

enum { HRI_REFUSAL_ROWS = 48 };

typedef struct hri_refusal {
    uint64_t magic, bytes; /* bytes: sizeof */
    uint64_t at_ns;        /* CLOCK_REALTIME */
    uint64_t job;
    uint32_t verb, said; /* hri_verb: at the door, or inside; hri_said */
    int32_t pid;
    uint32_t count; /* of rows */
    unsigned char uuid[16];
    uint64_t wanted_bytes, held_bytes, limit_bytes, waited_ms;
    char name[HRI_WIRE_NAME];
    hri_wire device;                 /* its row */
    hri_wire rows[HRI_REFUSAL_ROWS]; /* jobs, then processes on it */
} hri_refusal;

/* 1 when the bytes are one. */
int hri_refusal_check(const hri_refusal *r, size_t bytes);

#endif
