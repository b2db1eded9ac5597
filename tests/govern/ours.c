/* Trainings of our own as clients of the broker: beside one another, and beside programs under headroom run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "govern.h"
#include "test.h"

/* Words of the shell for all cases.
 *   train OPTIONS   a small training; to be called in a shell of its own, which it replaces
 *   holder SIZE     a program that holds 500 MiB of a budget of SIZE until `b` is there
 *   queue           until somebody waits, and a moment more */
static const char words[] =
    "train() { exec env HEADROOM_CACHE_DIR=" FAKECUDA_ROOT "/test-kernels $HEADROOM train "
    "mlp:size=4,channels=3,width=8,layers=1,classes=3 --data synthetic:13 --batch 4 --device "
    "cuda:0 --json \"$@\"; }; "
    "holder() { rm -f a b; $HEADROOM run --budget $1 -- $CALLER dlsym alloc:500M touch:a wait:b & "
    "while [ ! -e a ]; do sleep 0.01; done; }; "
    "queue() { until $HEADROOM top --once | grep waiting; do sleep 0.05; done; sleep 0.4; }; ";

static void shell(govern_world *w, const char *command) {
    govern_shell(w, "%s%s", words, command);
}

/* The text between quotes behind "history": */
static void history(const govern_world *w, char out[64]) {
    const char *at = strstr(w->out, "\"history\": \"");
    if (!at) {
        test_fail(__FILE__, __LINE__, "no history in: %s%s", w->out, w->words);
    }
    at += strlen("\"history\": \"");
    snprintf(out, 64, "%.*s", (int)strcspn(at, "\""), at);
}

TEST(ours, a_training_waits_for_a_program_and_has_the_history_of_one_alone) {
    govern_world w;
    char alone[64], behind[64];
    govern_start(&w, "FAKECUDA_CAPACITY=1GiB");
    shell(&w, "(train --epochs 2 --no-save --budget 600MiB)");
    CHECK_EQ(w.code, 0);
    history(&w, alone);
    shell(&w, "holder 700MiB; ((train --epochs 2 --no-save --budget 600MiB --wait 30s) >t 2>&1; "
              "echo code $?; touch c) & queue; [ -e c ] && echo early; touch b; wait; cat t");
    CHECK_EQ(govern_count(&w, "early"), 0);
    govern_expect(&w, "code 0\n");
    govern_expect(&w, "waiting for 600 MiB on cuda:0: 324 MiB free, held by govern_caller (job ");
    govern_expect(&w, "mlp:size=4"); /* in headroom top, by its model */
    history(&w, behind);
    CHECK_STR(behind, alone);
    govern_end(&w);
}

/* The first trains until it is told to stop; the second comes meanwhile. */
static void two(const char *end, const char *code) {
    govern_world w;
    char alone[64], behind[64], command[1024];
    govern_start(&w, "FAKECUDA_CAPACITY=160MiB FAKECUDA_DRAIN_MS=200");
    shell(&w, "(train --epochs 2 --no-save --budget 140MiB)");
    history(&w, alone);
    snprintf(command, sizeof command,
             "(train --steps 1000000 --log log --log-every 100 --out first --budget 140MiB >f "
             "2>&1) & first=$!; while [ ! -s log ]; do sleep 0.02; done; "
             "(train --epochs 2 --no-save --budget 140MiB --wait 30s >t 2>&1) & second=$!; "
             "queue; $HEADROOM top --once --json; $HEADROOM limit 2 150MiB; echo limit $?; "
             "kill -%s $first; wait $first; echo first $?; wait $second; echo second $?; cat t",
             end);
    shell(&w, command);
    govern_expect(&w, code);
    govern_expect(&w, "second 0\n");
    govern_expect(&w, "waiting for 140 MiB on cuda:0: ");
    govern_expect(&w, "\"own\": true");
    govern_expect(&w, "limit 2\n"); /* its plan is made */
    history(&w, behind);
    CHECK_STR(behind, alone);
    govern_end(&w);
}

TEST(ours, two_trainings_that_do_not_fit_together_come_one_after_the_other) {
    two("INT", "first 1\n");
}

TEST(ours, the_second_goes_on_when_the_first_was_killed_and_its_memory_is_back) {
    two("9", "first 137\n");
}

TEST(ours, a_wait_ends_in_time_and_by_a_signal) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=1GiB");
    shell(&w, "holder 700MiB; s=$(date +%s%N); "
              "(train --epochs 2 --no-save --budget 600MiB --wait 0.5s); echo late $?; "
              "echo ms $(( ($(date +%s%N) - s) / 1000000 )); $HEADROOM why; "
              "(train --epochs 2 --no-save --budget 600MiB --wait 1h) & second=$!; queue; "
              "kill -TERM $second; wait $second; echo ended $?; sleep 0.2; "
              "echo left $($HEADROOM top --once | grep -c waiting); touch b; wait");
    govern_expect(&w, "late 1\n");
    CHECK_LE(500, govern_number(&w, "ms "));
    CHECK_LE(govern_number(&w, "ms "), 5000);
    govern_expect(&w, "600 MiB was refused at ");
    govern_expect(&w, "--budget 600MiB --wait 0.5s --wait 10m\n"); /* the next command */
    govern_expect(&w, "ended 143\n");
    govern_expect(&w, "left 0\n"); /* its place in the queue has gone */
    govern_end(&w);
}

TEST(ours, without_a_wait_it_takes_what_is_free_or_says_who_holds_the_rest) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=1GiB");
    shell(&w, "holder 900MiB; (train --epochs 1 --no-save --budget 600MiB >f); echo fits $?; "
              "touch b; wait; holder 960MiB; (train --epochs 1 --no-save --budget 600MiB); "
              "echo full $?; touch b; wait");
    govern_expect(&w, "fits 0\n"); /* its plan needs 88 MiB, 124 are free */
    govern_expect(&w, "full 1\n");
    CHECK(strstr(w.words, "held by govern_caller (job ") != NULL);
    govern_end(&w);
}

/* The first plans with the whole card, and has what its plan needs after that. */
TEST(ours, without_a_budget_two_that_start_together_both_train) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=1GiB");
    shell(&w, "(train --steps 1000000 --log log --log-every 100 --no-save >f 2>&1) & first=$!; "
              "i=0; until $HEADROOM top --once 2>/dev/null | grep -q mlp || [ $i = 400 ]; do "
              "sleep 0.02; i=$((i + 1)); done; (train --epochs 1 --no-save >t 2>&1); "
              "echo second $?; kill -INT $first; wait $first; echo first $?; cat t");
    govern_expect(&w, "second 0\n");
    govern_expect(&w, "first 1\n");
    CHECK_EQ(govern_count(&w, "budget of 1 B"), 0);
    govern_end(&w);
}

TEST(ours, evaluation_and_prediction_wait_too) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=1GiB HEADROOM_CACHE_DIR=" FAKECUDA_ROOT "/test-kernels");
    shell(&w, "(train --epochs 1 --out run --budget 600MiB) >/dev/null; holder 700MiB; "
              "($HEADROOM eval run --data synthetic:13 --device cuda:0 --budget 600MiB --wait 30s "
              ">e 2>&1; echo eval $?) & ($HEADROOM predict run synthetic:13 --device cuda:0 "
              "--budget 600MiB --wait 30s >p 2>&1; echo predict $?) & queue; touch b; wait; "
              "cat e p");
    govern_expect(&w, "eval 0\n");
    govern_expect(&w, "predict 0\n");
    CHECK_EQ(govern_count(&w, "waiting for 600 MiB on cuda:0"), 2);
    govern_end(&w);
}

TEST(ours, under_headroom_run_and_without_a_broker_it_asks_nobody) {
    govern_world w;
    char alone[64], inside[64];
    govern_start(&w, "FAKECUDA_CAPACITY=1GiB HEADROOM_CACHE_DIR=" FAKECUDA_ROOT "/test-kernels");
    shell(&w, "(HEADROOM_BROKER=off train --epochs 2 --no-save --budget 600MiB)");
    history(&w, alone);
    CHECK(strstr(w.words, "broker") == NULL);
    shell(&w, "$HEADROOM run --budget 700MiB -- $HEADROOM train "
              "mlp:size=4,channels=3,width=8,layers=1,classes=3 --data synthetic:13 --batch 4 "
              "--device cuda:0 --json --epochs 2 --no-save --budget 600MiB");
    CHECK_EQ(w.code, 0);
    history(&w, inside);
    CHECK_STR(inside, alone);
    govern_end(&w);
}

TEST(ours, a_killed_broker_changes_nothing_for_a_training_and_for_who_waits) {
    govern_world w;
    char behind[64];
    govern_start(&w, "FAKECUDA_CAPACITY=160MiB");
    shell(&w, "(train --steps 1000000 --log log --log-every 100 --out first --budget 140MiB >f "
              "2>&1) & first=$!; while [ ! -s log ]; do sleep 0.02; done; "
              "kill -9 $(cat r/lock); $HEADROOM top --once; "
              "(train --epochs 2 --no-save --budget 140MiB --wait 30s >t 2>&1) & second=$!; queue; "
              "kill -INT $first; wait $first; echo first $?; wait $second; echo second $?; cat t");
    govern_expect(&w, "first 1\n");
    govern_expect(&w, "second 0\n");
    govern_expect(&w, "waiting for 140 MiB on cuda:0: ");
    govern_expect(&w, " MiB free, held by mlp:");
    history(&w, behind);
    govern_end(&w);
}

TEST(ours, a_broker_that_cannot_run_is_a_line_and_no_long_wait) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=1GiB");
    shell(&w, "s=$(date +%s%N); echo x >file; (HEADROOM_RUNTIME_DIR=$PWD/file/r train --epochs 1 "
              "--no-save --budget 600MiB); echo train $?; "
              "HEADROOM_RUNTIME_DIR=$PWD/file/r $HEADROOM run --budget 1GiB -- true; echo run $?; "
              "echo ms $(( ($(date +%s%N) - s) / 1000000 ))");
    govern_expect(&w, "train 0\n");
    govern_expect(&w, "run 3\n");
    CHECK_LE(govern_number(&w, "ms "), 6000);
    CHECK(strstr(w.words, "meanwhile other programs may use the memory of cuda:0") != NULL);
    CHECK(strstr(w.words, "says why") != NULL);
    govern_end(&w);
}
