/* What is said between `headroom run`, the programs below it and the broker: one packet, one fixed struct.
 *
 * The socket is SOCK_SEQPACKET, so a packet arrives whole or not at all; both ends are on one machine and of one user,
 * so numbers are the machine's own.  A packet that hri_wire_check refuses ends the connection: nothing in it is used.
 * Every question gets one answer with the same verb and id, except HRI_VERB_CANCEL, which only hastens the answer to the
 * question before it.  HRI_VERB_ASK is the only packet that comes unasked.
 *
 * The verbs are those of the budget (headroom/budget.h): request, resize, hold and release a lease, ask and decline.  A
 * lease is one process's share of one device.  Releasing it is closing the connection: a killed process does so too.
 *
 * This header and wire.c use libc alone: the library that is loaded into other people's programs speaks them too. */
#ifndef HRI_BROKER_WIRE_H
#define HRI_BROKER_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define HRI_WIRE_MAGIC 0x484d5277u

enum { HRI_WIRE_VERSION = 2, HRI_WIRE_NAME = 64, HRI_WIRE_PATH = 100 };

typedef enum hri_verb {
    HRI_VERB_JOB =
        1, /* run: a job named `name`, with spilled_bytes of host memory to spill to; job > 0: the one from before the
              broker's restart.  Answer: job */
    HRI_VERB_WISH,    /* run: limit_bytes of the device `uuid`, before it enters */
    HRI_VERB_ENTER,   /* run: admit the job, all devices at once; waits wait_ms */
    HRI_VERB_PROCESS, /* program: a process of `job` */
    HRI_VERB_DEVICE, /* program: it uses `uuid`; granted_bytes, held_bytes: what it had before a restart */
    HRI_VERB_LEASE, /* program: it holds held_bytes; least_bytes to wanted_bytes more.  0 and 0: what is idle goes back */
    HRI_VERB_CANCEL, /* no answer of its own */
    HRI_VERB_LIST,   /* row: number.  Answer: that row, or HRI_SAID_END */
    HRI_VERB_LIMIT,  /* job, uuid (zeroes: every device of it), limit_bytes */
    HRI_VERB_ASK,    /* broker: shrink to granted_bytes, if you can */
    HRI_VERB_SPILL, /* program: spilled_bytes of host memory, in all, in place of `uuid`'s.  Never waits */
    HRI_VERB_CAUSES, /* program: what of `uuid`'s remainder is known by its cause.  To be shown */
    HRI_VERB_END_    /* behind the last */
} hri_verb;

/* Why the driver holds memory for a process that the process did not ask for. */
typedef enum hri_cause_kind {
    HRI_CAUSE_CONTEXT = 0,
    HRI_CAUSE_MODULES, /* code and what it needs */
    HRI_CAUSE_GRAPHS,  /* executable graphs, without the memory that they allocate */
    HRI_CAUSES
} hri_cause_kind;

typedef enum hri_said {
    HRI_SAID_OK = 0,
    HRI_SAID_LIMIT,     /* above the job's own budget: waiting cannot help */
    HRI_SAID_AGAIN,     /* others hold the memory, and the wait is over */
    HRI_SAID_DEADLOCK,  /* everybody who holds memory waits for memory */
    HRI_SAID_NOT_FOUND, /* no such job or device */
    HRI_SAID_FULL,      /* the broker's tables are */
    HRI_SAID_WRONG,     /* a question out of order */
    HRI_SAID_END,       /* of a list */
    HRI_SAID_END_
} hri_said;

enum {
    HRI_WIRE_OVERCOMMIT = 1, /* the job reserves nothing at the door; its processes wait inside */
    HRI_WIRE_CAPTURING = 2,  /* do not let this request wait */
    HRI_WIRE_ROW_DEVICE = 4, /* rows of a list: what they are about */
    HRI_WIRE_ROW_JOB = 8,
    HRI_WIRE_ROW_PROCESS = 16,
    HRI_WIRE_WAITING = 32,
    HRI_WIRE_DRAINING = 64, /* the process is dead, its memory not yet back */
    HRI_WIRE_AWAY = 128,    /* it has not come back since the broker's restart */
    HRI_WIRE_NO_PIDS = 256, /* NVML does not tell processes apart: contexts are not known */
    HRI_WIRE_OWN =
        512, /* a job of Headroom itself: it has a plan, and only it changes its budget */
    HRI_WIRE_FLAGS = 1023
};

typedef struct hri_wire {
    uint32_t magic;
    uint16_t version, verb;
    uint32_t id;
    uint32_t said;
    uint32_t flags;
    int32_t pid;
    uint32_t row;
    uint32_t zero;
    uint64_t job;
    unsigned char uuid[16];
    uint64_t wanted_bytes, least_bytes, held_bytes, granted_bytes;
    uint64_t limit_bytes; /* of the job on this device */
    uint64_t free_bytes;  /* that this process could still be granted; of a device: for new jobs */
    uint64_t
        remainder_bytes; /* what the driver takes for the process beyond held_bytes: context, modules */
    uint64_t cause_bytes[HRI_CAUSES]; /* of the remainder; what is left of it has no known cause */
    uint64_t slack_bytes;             /* kept out of leases for what the driver loads later */
    uint64_t wait_ms; /* how long to wait; in rows: for how long it has waited, or has been in */
    uint64_t total_bytes;     /* of the device */
    uint64_t outside_bytes;   /* held on it by processes that are nobody's job */
    uint64_t spilled_bytes;   /* host memory that stands in for the device's; of a job: at most */
    char name[HRI_WIRE_NAME]; /* ends with a NUL */
} hri_wire;

/* 1 when `bytes` bytes are a packet of ours: length, magic, version, verb, said, flags, and a name that ends. */
int hri_wire_check(const void *packet, size_t bytes);
/* A packet with its head filled in. */
hri_wire hri_wire_make(hri_verb verb);
/* Copies the text, cut at a whole UTF-8 character. */
void hri_wire_name(hri_wire *wire, const char *text);

/* The user's folder for sockets and pages: HEADROOM_RUNTIME_DIR, XDG_RUNTIME_DIR/headroom or /tmp/headroom-UID.  0, or
 * -1 when it does not fit. */
int hri_wire_folder(char *out, size_t size);

#endif
