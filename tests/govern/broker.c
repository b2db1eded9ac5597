/* Several programs on one card: waiting, dying, and a broker that dies.  The fake driver is the judge: it counts what each
 * process and all together ever had, and how often somebody who was granted memory found none.
 *
 * HEADROOM_GOVERN_SEEDS: how many rounds of random work to do; 2 unless it is set. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "govern.h"
#include "test.h"

/* After the last program has gone, a look at the card: nobody was ever refused by it, and nothing is taken. */
static void nobody_was_hurt(govern_world *w) {
    govern_shell(w, "$CALLER dlsym refused used");
    govern_expect(w, "refused 0 0\n");
    govern_expect(w, "used 0 67108864\n"); /* the looker's own context */
}

/* Keeps the card's counters while nobody is there: the state lives as long as a process does. */
static const char keeper[] =
    "$CALLER dlsym touch:kept wait:done & while [ ! -e kept ]; do sleep 0.01; done; ";

TEST(door, a_full_card_is_refused_with_its_numbers) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=2GiB");
    govern_shell(
        &w, "$HEADROOM run --budget 1.5GiB -- $CALLER dlsym touch:a wait:b & "
            "while [ ! -e a ]; do sleep 0.01; done; "
            "$HEADROOM run --budget 1GiB -- $CALLER dlsym alloc:1M; echo code $?; touch b; wait");
    govern_expect(&w, "code 1\n");
    CHECK(strstr(w.words, "cuda:0: 1 GiB needed, 512 MiB of 2 GiB left") != NULL);
    govern_end(&w);
}

TEST(door, waits_until_the_other_has_ended) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=2GiB");
    govern_shell(
        &w,
        "%s $HEADROOM run --budget 1.5GiB -- $CALLER dlsym alloc:1.2G touch:a wait:b hold:200 & "
        "while [ ! -e a ]; do sleep 0.01; done; "
        "$HEADROOM run --budget 1GiB --wait 20s -- $CALLER dlsym alloc:800M touch:c refused & "
        "sleep 0.3; [ -e c ] && echo early; touch b; wait %%2 %%3; touch done; wait",
        keeper);
    CHECK_EQ(govern_count(&w, "early"), 0);
    govern_expect(&w, "alloc:1.2G 0");
    govern_expect(&w, "alloc:800M 0");
    govern_expect(&w, "refused 0 0\n");
    govern_end(&w);
}

TEST(door, no_wait_lasts_past_its_deadline) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=2GiB");
    govern_shell(&w, "$HEADROOM run --budget 1.5GiB -- $CALLER dlsym touch:a wait:b & "
                     "while [ ! -e a ]; do sleep 0.01; done; s=$(date +%%s%%N); "
                     "$HEADROOM run --budget 1GiB --wait 0.5s -- $CALLER dlsym; echo code $?; "
                     "echo ms $(( ($(date +%%s%%N) - s) / 1000000 )); touch b; wait");
    govern_expect(&w, "code 1\n");
    CHECK_LE(500, govern_number(&w, "ms "));
    CHECK_LE(govern_number(&w, "ms "), 3000);
    govern_end(&w);
}

TEST(death, memory_of_the_killed_is_counted_until_it_is_back) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=2GiB FAKECUDA_DRAIN_MS=700");
    govern_shell(&w,
                 "%s $HEADROOM run --budget 1.5GiB -- sh -c 'echo $$ >pid; exec $CALLER dlsym "
                 "alloc:1.2G touch:a "
                 "wait:never' & while [ ! -e a ]; do sleep 0.01; done; kill -9 $(cat pid); "
                 "$HEADROOM run --budget 1GiB --wait 20s -- $CALLER dlsym alloc:800M refused; "
                 "touch done; wait",
                 keeper);
    govern_expect(&w, "alloc:800M 0");
    govern_expect(&w, "refused 0 0\n");
    govern_end(&w);
}

TEST(broker, killed_in_the_middle_nobody_notices) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=2GiB");
    govern_shell(
        &w,
        "%s for i in 1 2; do $HEADROOM run --budget 800MiB -- $CALLER dlsym alloc:200M touch:a$i "
        "wait:b "
        "alloc:400M free alloc:600M info & done; "
        "while [ ! -e a1 ] || [ ! -e a2 ]; do sleep 0.01; done; kill -9 $(cat r/lock); "
        /* a third one must not get what the two have */
        "$HEADROOM run --budget 800MiB -- $CALLER dlsym alloc:1M; echo third $?; touch b; "
        "wait %%2 %%3; touch done; wait",
        keeper);
    CHECK_EQ(govern_count(&w, "alloc:400M 0"), 2);
    CHECK_EQ(govern_count(&w, "alloc:600M 2"), 2);
    govern_expect(&w, "third 1\n");
    nobody_was_hurt(&w);
    govern_end(&w);
}

TEST(broker, killed_while_a_program_waits_at_the_door) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=2GiB");
    govern_shell(&w,
                 "%s $HEADROOM run --budget 1.5GiB -- $CALLER dlsym alloc:1.2G touch:a wait:b & "
                 "while [ ! -e a ]; do sleep 0.01; done; "
                 "($HEADROOM run --budget 1GiB --wait 20s -- $CALLER dlsym alloc:800M touch:c; "
                 "echo second $?) & until $HEADROOM top --once | grep -q waiting; do sleep 0.02; "
                 "done; kill -9 $(cat r/lock); "
                 "until $HEADROOM top --once | grep -q waiting; do sleep 0.02; done; "
                 "[ -e c ] && echo early; touch b; wait %%2 %%3; touch done; wait",
                 keeper);
    CHECK_EQ(govern_count(&w, "early"), 0);
    govern_expect(&w, "alloc:800M 0");
    govern_expect(&w, "second 0\n");
    nobody_was_hurt(&w);
    govern_end(&w);
}

TEST_TIMEOUT(broker, a_hundred_programs_at_once, 120) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=4GiB FAKECUDA_CONTEXT=4MiB");
    govern_shell(&w, "for i in $(seq 100); do $HEADROOM run --budget 32MiB --wait 30s -- $CALLER "
                     "dlsym alloc:10M alloc:40M "
                     ">out$i 2>&1 & done; wait; cat out*");
    CHECK_EQ(govern_count(&w, "alloc:10M 0"), 100);
    CHECK_EQ(govern_count(&w, "alloc:40M 2"), 100);
    govern_end(&w);
}

TEST(job, its_processes_share_one_budget) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=4GiB");
    govern_shell(&w,
                 "%s $HEADROOM run --budget 1GiB -- sh -c 'for i in 1 2 3; do CALLER_SEED=$i "
                 "$CALLER dlsym random:200 & "
                 "done; wait'; $CALLER dlsym devicepeak; touch done; wait",
                 keeper);
    /* One that comes when the others have everything gets no context, and is told so. */
    CHECK_EQ(govern_count(&w, "random:200 0") + govern_count(&w, "start 2"), 3);
    CHECK_LE(1, govern_count(&w, "random:200 0"));
    CHECK_LE(govern_number(&w, "devicepeak 0 "),
             (1 << 30) + 2 * (64 << 20)); /* and the two lookers' contexts */
    govern_end(&w);
}

TEST_TIMEOUT(job, eight_at_random_on_a_card_that_is_full_to_the_last_byte, 600) {
    const char *given = getenv("HEADROOM_GOVERN_SEEDS");
    const int seeds = given ? atoi(given) : 2;
    for (int seed = 1; seed <= seeds; seed++) {
        govern_world w;
        govern_start(&w, "FAKECUDA_CAPACITY=3264MiB");
        govern_shell(&w,
                     "%s for i in 1 2 3 4 5 6 7 8; do CALLER_SEED=%d$i $HEADROOM run --budget "
                     "400MiB -- "
                     "$CALLER dlsym random:150 & done; wait %%2 %%3 %%4 %%5 %%6 %%7 %%8 %%9; "
                     "$HEADROOM run --budget 400MiB -- $CALLER dlsym peak refused; "
                     "touch done; wait",
                     keeper, seed);
        CHECK_EQ(govern_count(&w, "random:150 0"), 8);
        CHECK_LE(govern_number(&w, "peak 0 "), 400 << 20);
        govern_expect(&w, "refused 0 0\n");
        govern_end(&w);
    }
}

/* What a dead process of the job has not given back yet is waited for, for a moment. */
TEST(job, one_after_the_other_finds_all_of_the_budget) {
    govern_world w;
    govern_start(&w, "FAKECUDA_DRAIN_MS=100");
    govern_shell(&w, "$HEADROOM run --budget 256MiB -- sh -c 'FAKECUDA_KILL=cuMemAlloc_v2:1after "
                     "$CALLER dlsym alloc:150M; $CALLER dlsym alloc:150M peak'");
    govern_expect(&w, "alloc:150M 0");
    CHECK_LE(govern_number(&w, "peak 0 "), 256 << 20);
    govern_end(&w);
}

TEST(job, threads_of_one_program_share_its_lease) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=4GiB");
    govern_run(&w, "--budget 512MiB", "dlsym", "threads:8 peak");
    govern_expect(&w, "threads:8 0\n");
    CHECK_LE(govern_number(&w, "peak 0 "), 512 << 20);
    govern_end(&w);
}

TEST_TIMEOUT(job, eight_at_random_while_programs_and_brokers_are_killed, 600) {
    const char *given = getenv("HEADROOM_GOVERN_SEEDS");
    const int seeds = given ? atoi(given) : 2;
    for (int seed = 1; seed <= seeds; seed++) {
        govern_world w;
        govern_start(&w, "FAKECUDA_CAPACITY=3264MiB FAKECUDA_DRAIN_MS=100");
        govern_shell(
            &w,
            "%s for i in 1 2 3 4 5 6 7 8; do CALLER_SEED=%d$i $HEADROOM run --budget 400MiB --wait "
            "30s -- sh -c "
            "\"echo \\$\\$ >pid$i; exec $CALLER dlsym random:300\" & jobs=\"$jobs $!\"; done; "
            "for i in 1 2 3 4; do sleep 0.1; kill -9 $(cat pid$(( (i * 3 + %d) %% 8 + 1 ))) "
            "2>/dev/null; "
            "[ $i = 2 ] && kill -9 $(cat r/lock); done; "
            "for i in 1 2 3; do CALLER_SEED=9%d$i $HEADROOM run --budget 400MiB --wait 30s -- "
            "$CALLER dlsym random:80 & "
            "jobs=\"$jobs $!\"; done; wait $jobs; "
            "$HEADROOM run --budget 400MiB --wait 30s -- $CALLER dlsym peak refused; touch done; "
            "wait",
            keeper, seed, seed, seed);
        CHECK_EQ(govern_count(&w, "random:80 0"), 3);
        CHECK_LE(4, govern_count(&w, "random:300 0")); /* at most four were killed */
        CHECK_LE(govern_number(&w, "peak 0 "), 400 << 20);
        govern_expect(&w, "refused 0 0\n");
        govern_end(&w);
    }
}

TEST(overcommit, waits_inside_until_the_other_frees) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=4GiB");
    govern_shell(&w,
                 "%s $HEADROOM run --budget 3GiB --overcommit --wait 20s -- $CALLER dlsym "
                 "alloc:2.5G touch:a wait:b hold:100 "
                 "free hold:500 & while [ ! -e a ]; do sleep 0.01; done; "
                 "$HEADROOM run --budget 3GiB --overcommit --wait 20s -- $CALLER dlsym touch:b "
                 "alloc:2.5G refused; "
                 "touch done; wait",
                 keeper);
    CHECK_EQ(govern_count(&w, "alloc:2.5G 0"), 2);
    govern_expect(&w, "refused 0 0\n");
    govern_end(&w);
}

/* Its pool is empty and it sleeps: nobody calls the driver there. */
TEST(overcommit, one_that_sleeps_gives_idle_memory_back) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=4GiB");
    govern_shell(&w,
                 "$HEADROOM run --budget 3GiB --overcommit -- $CALLER dlsym keep async:2G unasync "
                 "touch:a wait:b & while [ ! -e a ]; do sleep 0.01; done; "
                 "$HEADROOM run --budget 3GiB --overcommit --wait 10s -- $CALLER dlsym alloc:2.5G "
                 "refused touch:b; wait");
    govern_expect(&w, "alloc:2.5G 0");
    govern_expect(&w, "refused 0 0\n");
    govern_end(&w);
}

TEST(overcommit, two_that_wait_for_one_another_are_told) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=4GiB");
    govern_shell(&w,
                 "%s for i in 1 2; do $HEADROOM run --budget 3GiB --overcommit --wait 30s -- "
                 "$CALLER dlsym alloc:1.5G "
                 "touch:a$i wait:a1 wait:a2 alloc:1.2G & done; wait %%2 %%3; touch done; wait",
                 keeper);
    CHECK_EQ(govern_count(&w, "alloc:1.2G 2"),
             1); /* one is refused at once; it ends, and the other goes on */
    CHECK_EQ(govern_count(&w, "alloc:1.2G 0"), 1);
    govern_end(&w);
}

/* ---- several GPUs are one grant ---- */

TEST(gang, all_gpus_at_once_or_none_while_it_waits) {
    govern_world w;
    govern_start(&w, "FAKECUDA_DEVICES=2 FAKECUDA_CAPACITY=2GiB,2GiB");
    /* The first has the second GPU.  The gang wants both and takes neither; a third program gets the first GPU only when the
     * gang, which asked before it, has had its turn. */
    govern_shell(
        &w, "$HEADROOM run --budget cuda:1=1.5GiB -- sh -c 'touch a; while [ ! -e b ]; do sleep "
            "0.01; done' & "
            "while [ ! -e a ]; do sleep 0.01; done; "
            "($HEADROOM run --budget 1GiB --wait 20s -- sh -c 'touch g; "
            "for i in 1 2 3; do $CALLER dlsym alloc:200M & done; wait; sleep 0.3; touch "
            "h'; echo gang $?) & "
            "until $HEADROOM top --once | grep -q waiting; do sleep 0.02; done; "
            "$HEADROOM top --json | grep -c '\"state\": \"waiting\"'; "
            "($HEADROOM run --budget cuda:0=1.5GiB --wait 20s -- sh -c '[ -e h ] && echo "
            "in order'; echo third $?) & "
            "sleep 0.4; [ -e g ] && echo early; touch b; wait");
    govern_expect(&w, "2\n"); /* two rows of one job wait */
    CHECK_EQ(govern_count(&w, "early"), 0);
    CHECK_EQ(govern_count(&w, "alloc:200M 0"), 3); /* the ranks share one budget */
    govern_expect(&w, "gang 0\n");
    govern_expect(&w, "in order\n");
    govern_expect(&w, "third 0\n");
    govern_end(&w);
}

/* ---- other budgets while it runs ---- */

TEST(limit, up_only_as_far_as_others_leave_and_down_at_once) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=2GiB");
    govern_shell(
        &w,
        "$HEADROOM run --budget 1GiB -- $CALLER dlsym alloc:500M touch:a wait:b alloc:300M free "
        "free alloc:300M & while [ ! -e a ]; do sleep 0.01; done; "
        "$HEADROOM run --budget 512MiB -- $CALLER dlsym touch:c wait:b & "
        "while [ ! -e c ]; do sleep 0.01; done; "
        "$HEADROOM limit 1 1.8GiB; echo up $?; $HEADROOM limit 1 1.5GiB; echo all $?; "
        "$HEADROOM limit 1 400MiB; echo down $?; $HEADROOM limit 9 1GiB; echo none $?; touch b; "
        "wait");
    govern_expect(&w, "up 1\n");
    govern_expect(&w, "all 0\n");
    govern_expect(&w, "down 0\n");
    govern_expect(&w, "none 2\n");
    govern_expect(&w, "it holds ");    /* more than the new budget, and keeps it */
    govern_expect(&w, "alloc:300M 2"); /* over 400 MiB */
    govern_expect(&w, "alloc:300M 0"); /* when it has given back */
    CHECK(strstr(w.words, "is not available: others hold the rest, 512 MiB is free") != NULL);
    govern_end(&w);
}

/* Whoever starts the broker has no child of it: neither while it runs nor when it has died. */
TEST(broker, is_nobodys_child) {
    govern_world w;
    govern_start(&w, "");
    govern_shell(
        &w, "$HEADROOM run --budget 1GiB -- sh -c 'touch a; while [ ! -e b ]; do sleep 0.01; done' "
            "& run=$!; while [ ! -e a ]; do sleep 0.01; done; kids() { "
            "for s in /proc/[0-9]*/stat; do sed -n \"s/^[0-9]* (\\(.*\\)) . $run .*/$1 \\1/p\" $s "
            "2>/dev/null; done; }; "
            "kids while; kill -9 $(cat r/lock); sleep 0.3; kids after; touch b; wait $run; "
            "echo code $?");
    govern_expect(&w, "while sh\n");
    govern_expect(&w, "after sh\n");
    CHECK_EQ(govern_count(&w, "while "), 1);
    CHECK_EQ(govern_count(&w, "after "), 1);
    govern_expect(&w, "code 0\n");
    govern_end(&w);
}
