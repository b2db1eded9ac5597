/* A thread that listens and measures while the program does nothing.
 *
 * Code that a program loads at its first launches costs memory without any call that is hooked: what it came to is measured a
 * moment later (causes.h), so that the ledger has it before somebody else is given the same bytes.
 *
 * With --overcommit, neighbours ask for idle memory.  A program that calls the driver hears it at its next call; one that
 * sleeps would let them wait.
 *
 * So a process that loads code, or whose job over-commits, has one thread more.
 * It sleeps in poll, takes no signal, holds no lock while it sleeps, and calls only cuMemPoolTrimTo, which needs no context.
 * A forked child does not have it.  Nothing is moved or spilled here: that needs a program that stands still. */
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

#include "interpose/causes.h"

enum { ALONE_MS = 1000, SOON_MS = 250, BUSY_NS = 20000000, STACK_BYTES = 256 << 10 };

/* True when there is something left to put down. */
static bool measure(void) {
    bool more = false;
    for (int i = 0; i < HRI_RUN_DEVICES; i++) {
        if (__atomic_load_n(&hri_self.device[i].known, __ATOMIC_ACQUIRE)) {
            hri_causes_look(i);
            more = more || __atomic_load_n(&hri_self.device[i].causes, __ATOMIC_ACQUIRE);
        }
    }
    return more;
}

static void *listen(void *unused) {
    (void)unused;
    hri_inside_for_ever();
    bool soon = true; /* a cause may come a moment after the thread */
    for (;;) {
        const int fd = __atomic_load_n(&hri_self.socket, __ATOMIC_ACQUIRE);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const int ready = poll(&p, 1, soon ? SOON_MS : ALONE_MS);
        soon = measure();
        if (ready <= 0 || fd < 0) {
            continue;
        }
        for (int i = 0; i < HRI_RUN_DEVICES; i++) {
            if (__atomic_load_n(&hri_self.device[i].known, __ATOMIC_ACQUIRE)) {
                hri_answer(i);
            }
        }
        /* Somebody else may be reading: what comes may be his. */
        const struct timespec moment = {.tv_nsec = BUSY_NS};
        nanosleep(&moment, NULL);
    }
    return NULL;
}

void hri_watcher_start(bool measures) {
    static int started_in; /* the process; atomic */
    int before = __atomic_load_n(&started_in, __ATOMIC_ACQUIRE);
    if ((!measures && !(hri_self.flags & HRI_WIRE_OVERCOMMIT)) || before == hri_self.pid ||
        !__atomic_compare_exchange_n(&started_in, &before, hri_self.pid, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        return;
    }
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, was;
    sigfillset(&all);
    if (pthread_attr_init(&attributes) != 0) {
        return;
    }
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_BLOCK, &all, &was);
    (void)pthread_create(&thread, &attributes, listen, NULL); /* without it: at the next call */
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    pthread_attr_destroy(&attributes);
}
