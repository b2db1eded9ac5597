/* Memory that does not fit lies on the host, is the program's own all the same, and comes back. */
#include <stdio.h>
#include <string.h>

#include "govern.h"
#include "test.h"

/* 64 MiB of context, 8 MiB for late kernels: 440 of 512 MiB are to be had. */
#define BUDGET "--budget 512MiB --spill 512MiB"

static void starts(govern_world *w, const char *way, const char *steps) {
    govern_start(w, "FAKECUDA_CAPACITY=1GiB HEADROOM_RUN_SPILL_FLOOR=1");
    govern_run(w, BUDGET, way, steps);
}

TEST(spill, what_does_not_fit_lies_on_the_host_and_keeps_its_contents) {
    govern_world w;
    starts(&w, "dlsym",
           "alloc:300M host alloc:200M type range ipc write host used verify peak free host");
    govern_expect(&w, "host 0 0\n");
    govern_expect(&w, "alloc:200M 0");
    govern_expect(&w, "host 0 209715200\n");
    govern_expect(&w, "type 0 220\n");
    govern_expect(&w, "range 0 209715200\n");
    govern_expect(&w, "ipc 801");
    govern_expect(&w, "verify 0");
    CHECK_EQ(govern_count(&w, "host 0 0\n"), 2);
    CHECK_LE(govern_number(&w, "peak 0 "), 512 << 20);
    govern_end(&w);
}

TEST(spill, large_requests_go_first_and_small_ones_find_room) {
    govern_world w;
    /* 420 of 440 MiB: the rest is kept for requests under 16 MiB. */
    starts(&w, "proc", "alloc:400M alloc:30M host alloc:3M alloc:3M host");
    govern_expect(&w, "host 0 31457280\n");
    CHECK_EQ(govern_count(&w, "alloc:3M 0"), 2);
    CHECK_EQ(govern_count(&w, "host 0 31457280\n"), 2);
    govern_end(&w);
}

TEST(spill, it_comes_back_at_the_same_address_when_there_is_room) {
    govern_world w;
    starts(&w, "dlsym",
           "alloc:300M alloc:200M write host verify hold:600 sync host "
           "alloc:4M free verify used");
    govern_expect(&w, "host 0 209715200\n"); /* no room yet */
    CHECK_EQ(govern_count(&w, "host 0 209715200\n"), 2);
    /* The first goes, and the second takes its place: both directions of the newest and the oldest. */
    govern_run(&w, BUDGET, "proc",
               "vmm:300M alloc:200M write host unvmm hold:600 sync host verify type range peak "
               "free used");
    govern_expect(&w, "host 0 209715200\n");
    govern_expect(&w, "host 0 0\n");
    govern_expect(&w, "verify 0");
    govern_expect(&w, "type 0 220\n");
    govern_expect(&w, "range 0 209715200\n");
    govern_expect(&w, "used 0 67108864\n"); /* the context alone: nothing was lost on the way */
    CHECK_LE(govern_number(&w, "peak 0 "), 512 << 20);
    govern_end(&w);
}

TEST(spill, handles_of_a_program_stay_what_they_are) {
    govern_world w;
    starts(&w, "dlsym",
           "alloc:300M xla:200M write host free hold:600 sync host verify nccl used host");
    govern_expect(&w, "host 0 209715200\n");
    govern_expect(&w, "verify 0");
    govern_expect(&w, "nccl 0"); /* retain, release, unmap, release: after it moved */
    govern_expect(&w, "used 0 67108864\n");
    CHECK_EQ(govern_count(&w, "host 0 0\n"), 2);
    /* Before it moved; and what another process may know stays where it is. */
    govern_run(&w, BUDGET, "dlsym",
               "alloc:300M xla:200M write nccl host xla:200M export free hold:600 sync host");
    govern_expect(&w, "nccl 0\nhost 0 0\n");
    govern_expect(&w, "export 0");
    govern_expect(&w, "sync 0\nhost 0 209715200\n");
    govern_end(&w);
}

TEST(spill, nothing_moves_while_a_stream_captures) {
    govern_world w;
    starts(&w, "dlsym",
           "alloc:300M alloc:200M write capture alloc:200M free hold:600 sync host endcapture "
           "hold:600 sync verify host");
    govern_expect(&w, "capture 0\nalloc:200M 2\n"); /* refused: nothing is spilled there either */
    govern_expect(&w, "endcapture 0");
    govern_expect(&w, "verify 0");
    govern_end(&w);
}

TEST(spill, it_moves_while_another_thread_keeps_the_gpu_busy) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=1GiB HEADROOM_RUN_SPILL_FLOOR=1 FAKECUDA_DELAY_US=300");
    govern_run(&w, BUDGET, "proc", "vmm:300M alloc:200M write unvmm hold:600 churn:20 host verify");
    govern_expect(&w, "churn:20 0");
    govern_expect(&w, "host 0 0\n");
    govern_expect(&w, "verify 0");
    govern_end(&w);
}

TEST(spill, pools_grow_on_the_host) {
    govern_world w;
    starts(&w, "proc",
           "alloc:400M async:100M async:1M host unasync unasync host peak free hold:600 sync host "
           "async:100M host");
    govern_expect(&w, "async:100M 0");
    govern_expect(&w, "async:1M 0");
    CHECK_LE(100 << 20, govern_number(&w, "host 0 "));
    govern_expect(&w, "sync 0\nhost 0 0\n"); /* trimmed when the device has room */
    govern_expect(&w, "async:100M 0\nhost 0 0\n");
    CHECK_LE(govern_number(&w, "peak 0 "), 512 << 20);
    govern_end(&w);
}

TEST(spill, the_host_has_its_limits_too) {
    govern_world w;
    starts(&w, "dlsym", "alloc:400M alloc:300M alloc:300M host free alloc:500M hostpeak");
    CHECK_EQ(govern_count(&w, "alloc:300M 0"), 1);
    CHECK_EQ(govern_count(&w, "alloc:300M 2"), 1);
    govern_expect(&w, "alloc:500M 0");
    CHECK_LE(govern_number(&w, "hostpeak 0 "), 512 << 20);
    govern_end(&w);
    /* The machine keeps what it needs, whatever was allowed. */
    govern_start(&w, "FAKECUDA_CAPACITY=1GiB HEADROOM_RUN_SPILL_FLOOR=1000000000000000");
    govern_run(&w, BUDGET, "dlsym", "alloc:400M alloc:300M host");
    govern_expect(&w, "alloc:300M 2");
    govern_expect(&w, "host 0 0\n");
    govern_end(&w);
}

TEST(spill, processes_of_a_job_share_one_limit) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=2GiB HEADROOM_RUN_SPILL_FLOOR=1");
    govern_shell(&w,
                 "$HEADROOM run " BUDGET " -- sh -c '$CALLER dlsym alloc:100M alloc:400M touch:a "
                 "wait:b & $CALLER dlsym wait:a alloc:100M alloc:200M host touch:b; wait'");
    govern_expect(&w, "alloc:400M 0");
    govern_expect(&w, "alloc:200M 2");
    govern_expect(&w, "host 0 419430400\n");
    govern_end(&w);
}

TEST(spill, a_driver_without_such_memory_gives_pinned_memory_or_none) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=1GiB HEADROOM_RUN_SPILL_FLOOR=1 FAKECUDA_HOST_NUMA=refuse");
    govern_run(&w, BUDGET, "dlsym", "alloc:300M alloc:200M write verify type vmm:200M free verify");
    govern_expect(&w, "alloc:200M 0");
    CHECK_EQ(govern_count(&w, "verify 0"), 2);
    govern_expect(&w, "type 0 220\n");
    govern_expect(&w, "vmm:200M 2");
    govern_end(&w);
    govern_start(&w, "FAKECUDA_VERSION=11.4 HEADROOM_RUN_SPILL_FLOOR=1");
    govern_run(&w, BUDGET, "dlsym", "alloc:300M alloc:200M write verify");
    govern_expect(&w, "verify 0");
    govern_end(&w);
}

TEST(spill, a_larger_budget_brings_it_back) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=2GiB HEADROOM_RUN_SPILL_FLOOR=1");
    govern_shell(&w, "$HEADROOM run " BUDGET " -- $CALLER proc alloc:300M alloc:200M write touch:a "
                     "wait:b hold:600 sync host verify & while [ ! -e a ]; do sleep 0.02; done; "
                     "$HEADROOM limit 1 1GiB; touch b; wait");
    govern_expect(&w, "host 0 0\n");
    govern_expect(&w, "verify 0");
    govern_end(&w);
}

TEST(spill, a_neighbour_that_ends_makes_room) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=1GiB HEADROOM_RUN_SPILL_FLOOR=1");
    govern_shell(&w,
                 "$HEADROOM run --budget 500MiB --overcommit -- $CALLER dlsym alloc:400M touch:n "
                 "wait:e & while [ ! -e n ]; do sleep 0.02; done; "
                 "$HEADROOM run --budget 900MiB --overcommit --spill 512MiB -- $CALLER dlsym "
                 "alloc:300M alloc:300M write host touch:e hold:1500 sync host verify; wait");
    govern_expect(&w, "host 0 314572800\n");
    govern_expect(&w, "host 0 0\n");
    govern_expect(&w, "verify 0");
    govern_end(&w);
}

TEST(spill, failures_on_the_way_back_leave_it_where_it_was) {
    static const char *const failing = "cuMemMap:2 cuMemMap:3 cuMemMap:4 cuMemUnmap:3 "
                                       "cuMemSetAccess:2 cuMemSetAccess:3 cuMemSetAccess:4 "
                                       "cuMemAddressReserve:2 cuMemcpyDtoD:1 cuMemCreate:2";
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=256MiB HEADROOM_RUN_SPILL_FLOOR=1");
    /* An array makes room when it goes; with what fails the memory stays on the host, and may come at the next look. */
    govern_shell(&w,
                 "for f in %s; do FAKECUDA_FAIL=$f $HEADROOM run --budget 128MiB --spill 64MiB -- "
                 "$CALLER dlsym array:40M alloc:30M write unarray hold:20 sync host verify; done",
                 failing);
    CHECK_EQ(govern_count(&w, "write 0"), 10);
    CHECK_EQ(govern_count(&w, "verify 0"), 10);
    CHECK_EQ(govern_count(&w, "host 0 31457280"), 10);
    govern_end(&w);
}

TEST(spill, by_every_way_to_the_driver) {
    static const char *const ways[] = {"linked", "deepbind", "proc", "proc1", "ptds"};
    for (int i = 0; i < 5; i++) {
        govern_world w;
        govern_start(
            &w, i % 2 ? "FAKECUDA_CAPACITY=1GiB HEADROOM_RUN_SPILL_FLOOR=1 FAKECUDA_VERSION=12.2"
                      : "FAKECUDA_CAPACITY=1GiB HEADROOM_RUN_SPILL_FLOOR=1 FAKECUDA_VERSION=13.4");
        govern_run(
            &w, BUDGET, ways[i],
            "array:300M xla:150M alloc:50M async:50M write type unarray sync host verify peak");
        govern_expect(&w, "alloc:50M 0");
        govern_expect(&w, "async:50M 0");
        govern_expect(&w, "type 0 220\n");
        govern_expect(&w, "host 0 0\n");
        govern_expect(&w, "verify 0");
        CHECK_LE(govern_number(&w, "peak 0 "), 512 << 20);
        govern_end(&w);
    }
}

/* Before and behind every call that moves memory; the next program has all of the budget and all of the host. */
TEST(spill, killed_at_every_call) {
    static const char *const calls[] = {"cuMemCreate:2",    "cuMemMap:2",   "cuMemMap:4",
                                        "cuMemSetAccess:4", "cuMemUnmap:3", "cuMemRelease:1",
                                        "cuMemcpyDtoD:1"};
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=256MiB HEADROOM_RUN_SPILL_FLOOR=1");
    for (int i = 0; i < 14; i++) {
        govern_shell(
            &w,
            "FAKECUDA_KILL=%s%s $HEADROOM run --budget 128MiB --spill 64MiB -- $CALLER "
            "dlsym array:40M alloc:30M write unarray sync host; echo code $?; $HEADROOM run "
            "--budget 128MiB --spill 64MiB --wait 10s -- $CALLER dlsym array:40M alloc:60M "
            "write verify host refused",
            calls[i / 2], i % 2 ? "after" : "");
        govern_expect(&w, "code 137\n");
        govern_expect(&w, "alloc:60M 0");
        govern_expect(&w, "verify 0");
        govern_expect(&w, "host 0 62914560\n");
        govern_expect(&w, "refused 0 0\n");
    }
    govern_end(&w);
}

/* What is taken is written to and must be there when it goes, on the device, on the host, and after it moved. */
TEST_TIMEOUT(spill, eight_at_random, 600) {
    for (int seed = 1; seed <= 2; seed++) {
        govern_world w;
        govern_start(&w, "FAKECUDA_CAPACITY=1632MiB HEADROOM_RUN_SPILL_FLOOR=1");
        govern_shell(&w,
                     "for i in 1 2 3 4 5 6 7 8; do CALLER_SEED=%d$i $HEADROOM run --budget 200MiB "
                     "--spill 250MiB -- $CALLER dlsym random:120 & done; wait; "
                     "$HEADROOM run --budget 200MiB -- $CALLER dlsym peak hostpeak host refused",
                     seed);
        CHECK_EQ(govern_count(&w, "random:120 0"), 8);
        CHECK_LE(govern_number(&w, "peak 0 "), 200 << 20);
        CHECK_LE(govern_number(&w, "hostpeak 0 "), (int64_t)8 * 250 << 20);
        govern_expect(&w, "refused 0 0\n");
        govern_expect(&w, "host 0 0\n");
        CHECK_EQ(govern_count(&w, "changed by"), 0);
        govern_end(&w);
    }
}

/* errno is looked at after every step of every case; this is the rest, over every kind of call. */
TEST(process, umask_signals_and_descriptors_are_left_alone) {
    static const char *const options[] = {"--budget 512MiB", BUDGET, BUDGET " --overcommit"};
    for (int i = 0; i < 3; i++) {
        govern_world w;
        govern_start(&w, "FAKECUDA_CAPACITY=1GiB HEADROOM_RUN_SPILL_FLOOR=1");
        govern_run(
            &w, options[i], "proc",
            "alloc:300M alloc:200M free info total pitch:3M managed:9M free free free array:3M "
            "unarray async:60M "
            "unasync trim keep graph:2M graphtrim node:2M vmm:200M nccl xla:4M unvmm numa:4M sync "
            "capture endcapture threads:3 random:60 write verify");
        govern_expect(&w, "verify 0");
        CHECK_EQ(govern_count(&w, "changed by"), 0);
        CHECK_EQ(govern_count(&w, "errno"), 0);
        govern_end(&w);
    }
}
