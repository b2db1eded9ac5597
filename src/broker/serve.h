/* The broker without its sockets: questions in, answers out.
 *
 * A caller is one connection.  A question that has to wait leaves its caller waiting; hri_serve_turn answers those whose time
 * has come, first come, first served.  One thread; time is the caller's, in milliseconds. */
#ifndef HRI_BROKER_SERVE_H
#define HRI_BROKER_SERVE_H

#include "broker/grants.h"
#include "broker/observer.h"
#include "broker/refusal.h"

typedef struct hri_caller {
    int64_t pid;
    uint64_t started;
    uint64_t job;                /* id; of a run or of a process, else 0 */
    hri_grants_process *process; /* NULL: it is a run or an onlooker */
    int owner;                   /* it is the run of the job */
    int waiting;                 /* `question` is not answered yet */
    hri_wire question;
    uint64_t since_ms, until_ms, order;
} hri_caller;

typedef struct hri_broker {
    hri_grants *grants;
    const hri_observer *observer;
    uint64_t observed_ms; /* when the devices were looked at last */
    uint64_t next_order;
    hri_observed_process seen[HRI_OBSERVED_PROCESSES]; /* the last look at a device */
} hri_broker;

/* 1: *wire is the answer, to be sent; 0: there is none, or it waits; -1: the connection has to end. */
int hri_serve_question(hri_broker *b, hri_caller *caller, hri_wire *wire, uint64_t now_ms);
/* Row number wire->row: devices, then jobs by device, then processes by device; HRI_SAID_END behind the last. */
void hri_serve_list(const hri_grants *l, hri_wire *wire, uint64_t now_ms);
/* 1 when *answer, given to the caller's question, refuses it memory: *out is what should be written down, but for the time. */
int hri_serve_refusal(const hri_broker *b, const hri_caller *caller, const hri_wire *answer,
                      uint64_t now_ms, hri_refusal *out);
/* The connection ended. */
void hri_serve_end(hri_broker *b, hri_caller *caller);
/* Looks at devices and at the dead.  Returns how many things are under way (waiting, draining): while there are any,
 * it should be called often. */
int hri_serve_look(hri_broker *b, uint64_t now_ms);
/* While `asker` waits: 1 when `other` has idle memory of what it waits for, and *ask is what to send to it. */
int hri_serve_ask(hri_broker *b, const hri_caller *asker, const hri_caller *other, hri_wire *ask);
/* Answers the longest waiting caller of callers[0..count) that can be answered; its index, or -1. */
int hri_serve_turn(hri_broker *b, hri_caller *const *callers, int count, hri_wire *answer,
                   uint64_t now_ms);

#endif
