/* Fault points: the places where the outside world can refuse, made to refuse on demand by tests.
 *
 *   if (HRI_FAULT(CREATE)) return HR_E_NOMEM_DEVICE;
 *
 * Built with HEADROOM_FAULTS, each point counts its passes and fails the Nth, once or from there on.  Built without,
 * HRI_FAULT is the constant 0 and nothing of it is left in the program.
 *
 * The counters are the one piece of process-wide state in Headroom: a fault is an event of the outside world, and so
 * must reach objects that do not exist yet.  Set them before the threads under test start. */
#ifndef HRI_BASE_FAULT_H
#define HRI_BASE_FAULT_H

#include <stdint.h>

/* X(NAME, "name") */
#define HRI_FAULT_MAP(X)                                                                           \
    X(ALLOC, "alloc")     /* host memory of our own records */                                     \
    X(RESERVE, "reserve") /* addresses of a device */                                              \
    X(CREATE, "create")   /* a physical page */                                                    \
    X(MAP, "map")         /* a page at an address */                                               \
    X(PINNED, "pinned")   /* pinned host memory */                                                 \
    X(QUEUE, "queue")     /* opening a queue or an event, marking, waiting */                      \
    X(COPY, "copy")       /* a copy or a fill */                                                   \
    X(LAUNCH, "launch")   /* a kernel */                                                           \
    X(OPEN, "open")       /* opening a device or a file */                                         \
    X(READ, "read")       /* reading a file */                                                     \
    X(WRITE, "write")     /* writing a file */                                                     \
    X(THREAD, "thread")   /* starting a thread */                                                  \
    X(MEET, "meet")       /* listening, connecting, accepting between ranks */                     \
    X(SEND, "send")       /* bytes to another rank */                                              \
    X(RECEIVE, "receive") /* bytes from another rank */

typedef enum hri_fault_kind {
#define HRI_FAULT_ENUM(NAME, TEXT) HRI_FAULT_##NAME,
    HRI_FAULT_MAP(HRI_FAULT_ENUM)
#undef HRI_FAULT_ENUM
        HRI_FAULT_COUNT,
    HRI_FAULT_ANY = HRI_FAULT_COUNT /* for hri_fault_set: the Nth point of any kind */
} hri_fault_kind;

#ifdef HEADROOM_FAULTS
#define HRI_FAULT(KIND) hri_fault_hit(HRI_FAULT_##KIND)

int hri_fault_hit(hri_fault_kind kind);

/* The nth pass (from 1) of `kind` from now on fails; with for_ever every later one too.  n == 0 switches off. */
void hri_fault_set(hri_fault_kind kind, uint64_t nth, int for_ever);
/* How many faults were delivered since hri_fault_set. */
uint64_t hri_fault_delivered(void);
/* Allocations of alloc.h that are live in this process. */
int64_t hri_fault_live_allocs(void);
/* "create", or NULL. */
const char *hri_fault_name(hri_fault_kind kind);
#else
#define HRI_FAULT(KIND) 0
#endif

#endif
