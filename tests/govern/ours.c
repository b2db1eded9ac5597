/* Trainings of our own as clients of the broker: beside one another, and beside programs under headroom run. */
#include <stdio.h>
#include <string.h>

#include "govern.h"
#include "test.h"

#define KERNELS "HEADROOM_CACHE_DIR=" FAKECUDA_ROOT "/test-kernels "
#define MLP     "mlp:size=4,channels=3,width=8,layers=1,classes=3"
/* A training in a budget: its steps are few, its history is one number. */
#define TRAIN(OPTIONS)                                                                             \
    KERNELS "$HEADROOM train " MLP " --data synthetic:13 --batch 4 --device cuda:0 "               \
            "--json " OPTIONS

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
    govern_shell(&w, TRAIN("--epochs 2 --no-save --budget 600MiB"));
    CHECK_EQ(w.code, 0);
    history(&w, alone);
    govern_shell(
        &w, "$HEADROOM run --budget 700MiB -- $CALLER dlsym alloc:500M touch:a wait:b & "
            "while [ ! -e a ]; do sleep 0.01; done; "
            "(" TRAIN(
                "--epochs 2 --no-save --budget 600MiB --wait 30s") " >t.json 2>t.words; echo code "
                                                                   "$?; touch c) & "
                                                                   "until $HEADROOM top --once | "
                                                                   "grep waiting; do sleep 0.05; "
                                                                   "done; sleep 0.3; "
                                                                   "[ -e c ] && echo early; touch "
                                                                   "b; wait; cat t.json t.words");
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
    char alone[64], behind[64];
    govern_start(&w, "FAKECUDA_CAPACITY=160MiB FAKECUDA_DRAIN_MS=200");
    govern_shell(&w, TRAIN("--epochs 2 --no-save --budget 140MiB"));
    history(&w, alone);
    govern_shell(
        &w,
        "(exec env " TRAIN("--steps 1000000 --log log --log-every 100 --out first "
                           "--budget 140MiB") " >f.json 2>f.words) & first=$!; while [ ! "
                                              "-s log ]; do sleep 0.02; done; " TRAIN(
                                                  "--epochs 2 --no-save --budget 140MiB "
                                                  "--wait 30s") " >t.json 2>t.words & "
                                                                "second=$!; "
                                                                "until $HEADROOM top "
                                                                "--once | grep waiting; do "
                                                                "sleep 0.05; done; "
                                                                "$HEADROOM top --once "
                                                                "--json; "
                                                                "kill -%s $first; wait "
                                                                "$first; echo first $?; "
                                                                "wait $second; echo "
                                                                "second $?; "
                                                                "cat t.words t.json; cat "
                                                                "f.words",
        end);
    govern_expect(&w, code);
    govern_expect(&w, "second 0\n");
    govern_expect(&w, "waiting for 140 MiB on cuda:0: ");
    govern_expect(&w, "\"own\": true");
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
