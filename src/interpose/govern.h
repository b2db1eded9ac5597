/* What a governed process knows of itself: its leases, and what it has taken of them.
 *
 * One rule keeps the budget: bytes are taken from the lease *before* the driver is called and given back after the driver
 * has given them back.  So what the driver holds for this process is never more than the lease, and the sum of leases is
 * the broker's business.  Most calls find room in the lease; only growth talks to the broker, in steps of tens of MiB.
 *
 * Pools are not looked at at each call: a part of the lease is set ahead of what they are charged with (pools.h).
 *
 * What is held on a device is tracked + remainder: tracked bytes are known call by call; the remainder is what NVML shows
 * beyond them (context, modules, library workspaces), measured by the broker at every exchange.
 *
 * The process is governed when HEADROOM_RUN_JOB is set, from its first successful cuInit on.  Otherwise, in a forked
 * child and inside the driver's own calls, every hook is only a jump.
 *
 * Threads: any.  Four mutexes: `lock` over the numbers, never held while waiting or calling the broker; `talk` over the
 * socket; `pools` over calls that may make a pool grow, never held while waiting for others; `spill` over memory that is
 * spilled (spill.h).  They are taken in the order spill, pools, talk, lock. */
#ifndef HRI_INTERPOSE_GOVERN_H
#define HRI_INTERPOSE_GOVERN_H

#include <pthread.h>
#include <stdbool.h>
#include "broker/page.h"
#include "broker/wire.h"
#include "interpose/doors.h"
#include "interpose/table.h"

enum { HRI_RUN_DEVICES = HRI_PAGE_DEVICES, HRI_RUN_POOLS = 16 };
enum { HRI_BLOCK = 2 << 20 }; /* the driver's unit of physical memory */

typedef struct hri_run_device {
    int known;   /* its UUID is here and the broker knows that we use it */
    int context; /* a context was seen, and paid for */
    unsigned char uuid[16];
    uint64_t granted_bytes, tracked_bytes, remainder_bytes, peak_bytes;
    uint64_t limit_bytes, free_bytes, slack_bytes, total_bytes;
    /* The remainder by cause (causes.h).  Under lock, but for causes and the times, which are atomic. */
    uint64_t cause_bytes[HRI_CAUSES], other_bytes;
    unsigned causes; /* bits: what was done lately */
    int sure;        /* the last measurement counted */
    uint64_t caused_ms, measured_ms;
    uint64_t unsure_bytes;  /* of the remainder, what the broker does not know of.  Under lock */
    uint64_t context_bytes; /* what a context cost at most.  Under lock */
    uint64_t graph_bytes;   /* what the graph pool is charged with */
    uint64_t graph_asked;   /* the sum of all allocations in graphs, its upper bound */
    uint64_t pool_chunk;    /* the largest step in which a pool has grown */
    /* What pools may grow by before anybody looks (pools.h). */
    uint64_t ahead_bytes;                        /* of the lease, set aside.  Under lock */
    uint64_t pool_begun, pool_ended, pool_until; /* risk of calls; atomic */
    uint64_t pool_looked;                        /* pool_ended at the last look.  Under lock */
    uint64_t refused_ms; /* when the broker refused more; 0: it has not.  Under pools */
    int exact_calls;     /* a call goes on that pays for itself.  Under lock */
    int current_known;   /* the current pool is one of pool[]; atomic */
    CUmemoryPool pool[HRI_RUN_POOLS]; /* NULL: none.  Written under lock, read by anybody */
    uint64_t spilled_bytes;           /* host memory in place of this device's */
    uint64_t host_pool_bytes;         /* of them, what the pool at the host has */
    CUmemoryPool
        host_pool; /* for stream-ordered memory that is spilled; NULL: none yet.  Under pools */
} hri_run_device;

typedef struct hri_run {
    pthread_mutex_t lock, talk, pools, spill;
    int pid; /* the process that this was set up in; 0: none yet */
    const volatile int *
        here; /* 1 in that process and 0 in a child, however it was forked; NULL: ask for the pid */
    int on;   /* governed */
    int socket;
    uint64_t socket_inode;
    uint64_t job, wait_ms, spill_limit_bytes;
    uint32_t flags; /* HRI_WIRE_OVERCOMMIT */
    uint64_t
        inside; /* threads that are in a hook, and above bit 32 how often one entered; atomic */
    uint64_t moment; /* of the last question to the broker; see hri_moment.  Under talk */
    int pool_flight; /* a pool call goes on without bytes taken for it: charges of pools stay.  Under lock */
    int captures;   /* streams that capture now */
    int contexts;   /* beside the primary ones */
    int one_device; /* the driver has one only: it is the current one.  Atomic */
    uint32_t next_id;
    uint64_t tried_ns; /* last attempt to find the broker */
    hri_run_device device[HRI_RUN_DEVICES];
    hri_held_table table;
    hri_page *page;
    char folder[HRI_WIRE_PATH];
} hri_run;

extern hri_run hri_self;

/* ---- entering ---- */

/* True when the hook has to act.  Then hri_leave() must follow; it returns `result` and restores errno.  Nested calls
 * (the driver calling itself) get false. */
bool hri_enter(void);
CUresult hri_leave(CUresult result);
/* After a successful cuInit: sets the process up, once. */
void hri_start(void);

/* UINT64_MAX while another thread is in a hook.  The same number twice: nobody was in one, in between either. */
uint64_t hri_moment(void);
/* This thread is ours: every hook is only a jump in it. */
void hri_inside_for_ever(void);
/* Starts the thread that listens and measures (watcher.c), where there is need of it, once.  measures: there is. */
void hri_watcher_start(bool measures);

/* The device of the current context, or -1; a context seen for the first time is paid for. */
int hri_current_device(void);
/* Makes the device known; 0, or -1 when it cannot be governed (more than 16, or it has no UUID). */
int hri_device_open(int device);

/* ---- taking and giving (govern.c) ---- */

/* 0: the bytes are ours, call the driver.  Else the CUresult for the program; the refusal is on the page. */
CUresult hri_take(int device, uint64_t bytes, hri_hook call);
/* From the lease as it is, for a moment: nothing is recorded.  hri_give_quietly follows. */
bool hri_take_quietly(int device, uint64_t bytes);
void hri_give_quietly(int device, uint64_t bytes);
/* As hri_take, but a refusal is not yet one: nothing is recorded, nothing waits. */
CUresult hri_try_take(int device, uint64_t bytes, hri_hook call);
/* Takes packets of the broker that came unasked, and does what they ask for: idle pools are trimmed. */
void hri_answer(int device);
/* Bytes that the driver did not take after all, or has given back. */
void hri_give(int device, uint64_t bytes, hri_hook call);
/* Bytes that were taken for what the driver does not name: from now on they are part of the remainder, until it is measured. */
void hri_became_remainder(int device, uint64_t bytes);
/* The driver refused what was granted. */
void hri_driver_refused(int device, uint64_t bytes, hri_hook call);
/* Asks the broker what the job may still take, and what the remainder is now.  True: nothing happened meanwhile that makes the
 * remainder unsure. */
bool hri_refresh(int device);
uint64_t hri_held_bytes(const hri_run_device *device);
/* Makes the lease larger, if need be, until it has so much beyond what is held; false: it has not.  Never waits. */
bool hri_lease_more(int device, uint64_t bytes);
/* To a few milliseconds, and without a system call. */
uint64_t hri_coarse_ms(void);

/* ---- the conversation (talk.c) ---- */

/* One question and its answer.  -1: the broker is away (the lease stays as it is).  Under talk. */
int hri_talk(hri_wire *wire, uint64_t wait_ms, int device, uint64_t need_bytes);
/* Finds the broker (again) and tells it what we have; 0 or -1.  Under talk. */
int hri_talk_open(void);
/* Takes packets that came unasked; returns the size to shrink to on `device`, or UINT64_MAX.  Never waits. */
uint64_t hri_talk_asked(int device);

/* ---- contexts (hook_context.c) ---- */

/* The context that memory which is taken now dies with; 0: the primary one, where there is no other. */
uint64_t hri_context_now(void);

/* ---- graphs (hook_graph.c) ---- */

/* 1 when the stream captures, which turns an allocation into a node of a graph. */
int hri_capturing(CUstream stream);
/* An allocation of so many bytes became a node: it costs when its graph is launched. */
void hri_graph_note(int device, uint64_t bytes);

/* ---- plain memory (hook_plain.c), for both ways to free it ---- */

/* Before the driver's call: takes the entry out; its kind is HRI_KIND_NONE when there was none. */
hri_held_entry hri_plain_forget(CUdeviceptr at);
/* After it: gives the bytes back, or the entry when the driver refused. */
void hri_plain_freed(const hri_held_entry *was, CUresult result, hri_hook call);

/* ---- the page (page.c) ---- */

void hri_page_open(void);
void hri_page_close_in_child(void);
/* The numbers of a device as they are now.  Under lock. */
void hri_page_refresh(int device);
void hri_page_event_add(int device, hri_page_kind kind, uint64_t bytes, hri_hook call);
void hri_page_refuse(int device, hri_page_kind kind, uint64_t bytes, hri_hook call,
                     uint64_t waited_ms);

#endif
