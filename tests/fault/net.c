/* The Nth allocation, socket, send, receive, map or thread of one rank fails, once or from there on: it ends with a status and leaves
 * nothing, the other rank ends by itself and knows why, and the next run works. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "net/net.h"
#include "net_rounds.h"
#include "test.h"

enum { MS = 1000000, MOST_FAULTS = 24, ALL_FAULTS = 400 }; /* receiving is tried again and again */

/* *knows: it ended well, or it can say why. */
static hr_status run_rank(const char *wire, uint32_t rank, const char *run, bool *knows) {
    hri_net_options o = {.wire = wire,
                         .who = {.rank = rank, .size = 2},
                         .meet_ns = 250 * MS,
                         .deadline_ns = 400 * MS};
    hri_net *net = NULL;
    hri_prose why = {0};
    snprintf(o.who.run, sizeof o.who.run, "%s", run);
    hr_status status = hri_net_open(&o, &net, &why);
    *knows = status == HR_OK || why.text[0];
    if (status != HR_OK) {
        return status;
    }
    hri_net_end end = {.text = ""};
    status = net_rounds(net, 3);
    *knows = status == HR_OK || (hri_net_cause(net, &end) && end.text[0]);
    hri_net_close(net);
    return status;
}

/* Of this rank every call up to the last one, with HEADROOM_TEST_ALL; else the first ones and some more. */
static void sweep_rank(const char *wire, hri_fault_kind kind, int for_ever, uint32_t rank) {
    int faults = 0, last = 0;
    const bool all = getenv("HEADROOM_TEST_ALL") != NULL;
    for (uint64_t nth = 1; nth <= (all ? ALL_FAULTS : MOST_FAULTS);
         nth += all || nth < 12 ? 1 : 4) {
        char run[64];
        snprintf(run, sizeof run, "fault-%d-%d-%llu", (int)getpid(), (int)kind,
                 (unsigned long long)nth);
        const int64_t live = hri_fault_live_allocs();
        const pid_t other = fork();
        CHECK(other >= 0);
        if (other == 0) {
            bool knows = false;
            const hr_status other_status = run_rank(wire, 1 - rank, run, &knows);
            _exit(!knows ? 2 : other_status == HR_OK ? 0 : 1);
        }
        const uint64_t begun = hri_clock_ns();
        hri_fault_set(kind, nth, for_ever);
        bool knows = false;
        int code = -1;
        const hr_status status = run_rank(wire, rank, run, &knows);
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(kind, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), live);
        CHECK(status != HR_E_INTERNAL); /* other bytes than were sent */
        CHECK_EQ(waitpid(other, &code, 0), other);
        CHECK(WIFEXITED(code) && WEXITSTATUS(code) < 2);
        CHECK_LE(hri_clock_ns() - begun, (uint64_t)5000 * MS);
        faults += delivered > 0;
        if (!delivered) {
            CHECK_OK(status);
            CHECK_EQ(WEXITSTATUS(code), 0);
            last = 1;
            break;
        }
    }
    CHECK(!all || last); /* all of them: a run without any was the last one */
    CHECK(faults > 0);
    printf("    %s, rank %u, %s %s: %d calls failed\n", wire, rank, hri_fault_name(kind),
           for_ever ? "for ever" : "once", faults);
}

static void sweep(const char *wire, hri_fault_kind kind, int for_ever) {
    sweep_rank(wire, kind, for_ever, 0);
    if (getenv("HEADROOM_TEST_ALL")) {
        sweep_rank(wire, kind, for_ever, 1);
        sweep_rank(wire, kind, !for_ever, 0);
        sweep_rank(wire, kind, !for_ever, 1);
    }
}

TEST_TIMEOUT(net_fault, every_call_of_a_rank_over_shared_memory, 900) {
    const hri_fault_kind kinds[] = {HRI_FAULT_ALLOC,   HRI_FAULT_MEET, HRI_FAULT_SEND,
                                    HRI_FAULT_RECEIVE, HRI_FAULT_MAP,  HRI_FAULT_THREAD,
                                    HRI_FAULT_OPEN,    HRI_FAULT_READ};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        sweep("shm", kinds[i], 0);
    }
}

TEST_TIMEOUT(net_fault, every_send_and_receive_over_tcp_once_and_for_ever, 900) {
    sweep("tcp", HRI_FAULT_SEND, 0);
    sweep("tcp", HRI_FAULT_RECEIVE, 0);
    sweep("tcp", HRI_FAULT_MEET, 0);
    sweep("tcp", HRI_FAULT_SEND, 1);
}
