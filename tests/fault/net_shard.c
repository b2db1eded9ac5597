/* Ranks that hold slices: the Nth send, receive or map of one of them fails, once or from there on.  It ends with a status and a sentence
 * and leaves nothing, the other rank ends by itself with the reason, and the next run has the losses of an unbroken one. */
#include <headroom/headroom.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "test.h"

enum { MOST_S = 10, MOST_CALLS = 2000, EVERY = 64 };

static void be_rank(int rank, const char *run) {
    CHECK(setenv("HEADROOM_RANK", rank ? "1" : "0", 1) == 0);
    CHECK(setenv("HEADROOM_SIZE", "2", 1) == 0 && setenv("HEADROOM_RUN", run, 1) == 0);
}

/* *knows: it ended well, or it can say why. */
static hr_status train(const char *shard, uint64_t deadline_ms, uint64_t *history, bool *knows) {
    const hr_ctx_options co = {.size = sizeof co, .visible_devices = "", .no_cuda = 1};
    const hr_job_options o = {.size = sizeof o,
                              .model = "mlp:size=4,width=8,layers=2,classes=3",
                              .data = "synthetic:count=32",
                              .training = "rate=0.1",
                              .batch = 8,
                              .micro_batches = 4,
                              .steps = 2,
                              .threads = 1,
                              .effort = 1000,
                              .no_measure = 1,
                              .cache = "",
                              .net = "shm",
                              .net_deadline_ms = deadline_ms,
                              .shard = shard};
    hr_ctx *ctx = NULL;
    hr_plan *plan = NULL;
    hr_error why = {0};
    hr_status status = hr_ctx_create(&co, &ctx);
    status = status == HR_OK ? hr_job_plan(ctx, &o, &plan, &why) : status;
    status = status == HR_OK ? hr_job_train(plan, &why) : status;
    if (status == HR_OK) {
        hr_train_result r = {.size = sizeof r};
        status = hr_job_get_result(plan, 0, &r);
        *history = r.history;
    }
    *knows = status == HR_OK || why.message[0] || !ctx;
    hr_plan_destroy(plan);
    hr_ctx_destroy(ctx);
    return status;
}

/* One run of two ranks, this one of them, with the Nth call failing; 0: none. */
static hr_status both(const char *shard, int rank, hri_fault_kind kind, uint64_t nth, int for_ever,
                      uint64_t *history, uint64_t *delivered) {
    static int runs;
    const uint64_t deadline_ms = nth ? 500 : 10000; /* a busy machine is no fault */
    char run[64];
    snprintf(run, sizeof run, "shard-%d-%d", (int)getpid(), ++runs);
    const pid_t other = fork();
    CHECK(other >= 0);
    if (other == 0) {
        uint64_t ignored = 0;
        bool knows = false;
        be_rank(1 - rank, run);
        const hr_status status = train(shard, deadline_ms, &ignored, &knows);
        _exit(!knows ? 2 : status == HR_OK ? 0 : 1);
    }
    be_rank(rank, run);
    const uint64_t begun = hri_clock_ns();
    bool knows = false;
    int code = -1;
    hri_fault_set(kind, nth, for_ever);
    const hr_status status = train(shard, deadline_ms, history, &knows);
    *delivered = hri_fault_delivered();
    hri_fault_set(kind, 0, 0);
    CHECK_EQ(waitpid(other, &code, 0), other);
    CHECK(knows && WIFEXITED(code) && WEXITSTATUS(code) < 2);
    CHECK_LE(hri_clock_ns() - begun, (uint64_t)MOST_S * 1000000000u);
    return status;
}

static void sweep(const char *shard, int rank, hri_fault_kind kind, int for_ever) {
    uint64_t whole = 0, again = 0, delivered;
    CHECK_OK(both(shard, rank, kind, 0, 0, &whole, &delivered));
    const int64_t live = hri_fault_live_allocs();
    const bool all = getenv("HEADROOM_TEST_ALL") != NULL;
    int faults = 0, last = 0;
    /* Receiving is tried again and again while nothing has come: behind the first ones, some. */
    for (uint64_t nth = 1; nth < MOST_CALLS && !last; nth += !all          ? 1 + nth
                                                             : nth < EVERY ? 1
                                                                           : 1 + nth / 8) {
        uint64_t history = 0;
        const hr_status status = both(shard, rank, kind, nth, for_ever, &history, &delivered);
        CHECK_EQ(hri_fault_live_allocs(), live);
        CHECK(status != HR_OK || history == whole);
        last = delivered == 0;
        faults += !last;
    }
    CHECK(faults > 0);
    CHECK_OK(both(shard, rank, kind, 0, 0, &again, &delivered));
    CHECK(again == whole);
    printf("    --shard %s, rank %d, %s %s: %d calls failed\n", shard, rank, hri_fault_name(kind),
           for_ever ? "for ever" : "once", faults);
}

/* HEADROOM_TEST_ALL: the first 64 calls and some behind them, of both ranks, in every mode, once and from there on; a test for each
 * kind, since that takes minutes. */
static void sweep_all(hri_fault_kind kind, int rank) {
    static const char *const shards[] = {"weights", "states", "none"};
    sweep("weights", rank, kind, 0);
    for (int i = 0; i < 3 && getenv("HEADROOM_TEST_ALL"); i++) {
        sweep(shards[i], 1 - rank, kind, 0);
        sweep(shards[i], rank, kind, 1);
    }
}

TEST_TIMEOUT(net_fault, every_send_of_ranks_with_slices, 1800) {
    sweep_all(HRI_FAULT_SEND, 0);
}

TEST_TIMEOUT(net_fault, every_receive_of_ranks_with_slices, 1800) {
    sweep_all(HRI_FAULT_RECEIVE, 1);
}

TEST_TIMEOUT(net_fault, every_map_of_ranks_with_slices, 1800) {
    sweep_all(HRI_FAULT_MAP, 0);
}
