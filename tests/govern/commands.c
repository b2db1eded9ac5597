/* headroom run, top, limit and why as people use them, and misuse. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "govern.h"
#include "test.h"

TEST(commands, the_exit_code_is_the_programs) {
    govern_world w;
    govern_start(&w, "");
    govern_shell(&w, "$HEADROOM run --budget 1GiB -- sh -c 'exit 7'; echo code $?; "
                     "$HEADROOM run --budget 1GiB -- sh -c 'kill -9 $$'; echo code $?");
    govern_expect(&w, "code 7\n");
    govern_expect(&w, "code 137\n");
    govern_end(&w);
}

TEST(commands, signals_reach_the_program) {
    govern_world w;
    govern_start(&w, "");
    govern_shell(
        &w, "$HEADROOM run --budget 1GiB -- sh -c 'trap \"echo caught; exit 5\" TERM; touch a; "
            "while :; do sleep 0.05; "
            "done' & while [ ! -e a ]; do sleep 0.01; done; kill -TERM $!; wait $!; echo code $?");
    govern_expect(&w, "caught\n");
    govern_expect(&w, "code 5\n");
    govern_end(&w);
}

/* None of them has a broker to begin with; in every second round the last one ends while the next are started. */
TEST(commands, many_that_start_at_once_share_one_broker) {
    govern_world w;
    govern_start(&w, "HEADROOM_BROKER_LINGER_MS=0");
    govern_shell(
        &w,
        "for round in $(seq %d); do n=$((2 + round %% 7)) list=; "
        "export HEADROOM_RUNTIME_DIR=$PWD/r$((round / 2)) FAKECUDA_STATE=$PWD/s$((round / 2)); "
        "for i in $(seq $n); do $HEADROOM run --budget 1GiB --wait 50s -- true & "
        "list=\"$list $!\"; done; "
        "for pid in $list; do wait $pid || echo round $round: code $?; done; done; echo done",
        getenv("HEADROOM_TEST_ALL") ? 100 : 7);
    if (strstr(w.out, "round")) {
        test_fail(__FILE__, __LINE__, "%s%s", w.out, w.words);
    }
    govern_expect(&w, "done\n");
    govern_end(&w);
}

/* The lock is somebody's who is about to answer: whether this one sees a GPU at that moment is not asked. */
TEST(commands, a_broker_that_starts_second_leaves_the_first_alone) {
    govern_world w;
    govern_start(&w, "");
    govern_shell(&w, "mkdir -m 700 r; flock r/lock sh -c 'touch held; sleep 0.4' & "
                     "while [ ! -e held ]; do sleep 0.01; done; "
                     "FAKECUDA_FAIL=nvmlInit $HEADROOM broker; echo code $?; "
                     "$HEADROOM run --budget 1GiB -- true; echo code $?; wait");
    govern_expect(&w, "code 1\ncode 0\n");
    govern_end(&w);
}

static void misuse(const char *command, const char *sentence) {
    govern_world w;
    govern_start(&w, "");
    govern_shell(&w, "%s", command);
    CHECK_EQ(w.code, 2);
    if (!strstr(w.words, sentence)) {
        test_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", sentence, w.words);
    }
    govern_end(&w);
}

TEST(commands, misuse_is_a_sentence_and_2) {
    misuse("$HEADROOM run --budget 1GiB", "PROGRAM");
    misuse("$HEADROOM run --budget 1GiB -- no-such-program", "no-such-program: no such program");
    misuse("touch s; $HEADROOM run --budget 1GiB -- ./s", "./s is not an executable file");
    misuse("$HEADROOM run --budget lots -- true", "is not a size");
    misuse("$HEADROOM run --budget 9TiB -- true", "more than the GPU has (4 GiB)");
    misuse("$HEADROOM run --budget cuda:3=1GiB -- true", "there is no cuda:3");
    misuse("$HEADROOM run --wait soon -- true", "is not a duration");
    misuse("FAKECUDA_DEVICES=0 $HEADROOM run -- true", "no NVIDIA GPU was found");
    misuse("LD_LIBRARY_PATH= $HEADROOM run -- true", "no NVIDIA GPU was found");
    misuse("FAKECUDA_DEVICES=0 $HEADROOM run -- true", "headroom run --ram SIZE -- true");
    misuse("HEADROOM_RUN_LIBRARY=/none $HEADROOM run -- true", "/none cannot be read");
    misuse("printf '\\177ELF\\002\\001\\001' >s; head -c 60 /dev/zero >>s; printf '\\076\\000' | "
           "dd of=s bs=1 seek=18 conv=notrunc 2>/dev/null; chmod +x s; $HEADROOM run -- ./s",
           "s is ");      /* static, or on arm64 for another processor */
    if (geteuid() == 0) { /* only then can there be a program of somebody else's */
        misuse("cp /bin/true s; chown 65534 s; chmod 4755 s; $HEADROOM run -- ./s",
               "runs as another user (setuid)");
    }
    misuse("HEADROOM_BROKER=off $HEADROOM run -- true", "HEADROOM_BROKER");
    misuse("$HEADROOM limit 1 2GiB", "no program is running");
    misuse("$HEADROOM why", "there is no record");
}

TEST(commands, variables_are_set_only_where_the_user_set_none) {
    govern_world w;
    govern_start(&w, "TF_FORCE_GPU_ALLOW_GROWTH=false");
    govern_shell(&w, "$HEADROOM run --budget 1GiB --explain -- true; "
                     "$HEADROOM run --budget 1GiB -- sh -c 'echo tf $TF_FORCE_GPU_ALLOW_GROWTH jax "
                     "$XLA_PYTHON_CLIENT_PREALLOCATE'; "
                     "$HEADROOM run --budget 1GiB --plain -- sh -c 'echo plain "
                     "${XLA_PYTHON_CLIENT_PREALLOCATE:-unset}'");
    govern_expect(&w, "TF_FORCE_GPU_ALLOW_GROWTH is already set and kept");
    govern_expect(&w, "tf false jax false\n");
    govern_expect(&w, "plain unset\n");
    govern_end(&w);
}

TEST(commands, top_and_limit_while_it_runs) {
    govern_world w;
    govern_start(&w, "");
    govern_shell(
        &w, "$HEADROOM run --budget 1GiB -- $CALLER dlsym alloc:800M alloc:300M touch:a wait:b "
            "alloc:300M & "
            "while [ ! -e a ]; do sleep 0.01; done; $HEADROOM top --once; $HEADROOM top --json; "
            "$HEADROOM limit 1 5TiB; echo code $?; $HEADROOM limit 1 2GiB; touch b; wait");
    govern_expect(&w, "864 MiB"); /* what it holds, context included */
    govern_expect(&w, "\"budget_bytes\": 1073741824");
    govern_expect(&w, "code 2\n");
    govern_expect(&w, "job 1: budget is now 2 GiB\n");
    govern_expect(&w, "alloc:300M 2");
    govern_expect(&w, "alloc:300M 0");
    govern_end(&w);
}

TEST(commands, why_tells_of_the_killed) {
    govern_world w;
    govern_start(&w, "");
    govern_shell(
        &w,
        "$HEADROOM run --budget 1GiB -- sh -c '$CALLER proc alloc:500M alloc:700M touch:a wait:b & "
        "while [ ! -e a ]; do sleep 0.01; done; kill -9 $!; wait'; $HEADROOM why");
    govern_expect(&w, "(exited)");
    govern_expect(&w, "700 MiB was refused");
    govern_expect(&w, "exceeded the job's budget");
    govern_expect(&w, "requested by cuMemAlloc_v2");
    govern_expect(&w, "in govern_caller");
    govern_expect(&w, "at most 428 MiB would have fitted");
    govern_expect(&w, "job 1  sh  564 MiB of a budget of 1 GiB, running for 0 s\n");
    govern_expect(&w, "refused 700 MiB by cuMemAlloc_v2, holds 564 MiB\n");
    govern_expect(&w, "ended with exit code 0 at ");
    govern_expect(&w, "next: headroom run --budget 1536MiB -- sh -c '");
    govern_end(&w);
}

TEST(commands, why_tells_who_held_the_gpu_at_the_door) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=2GiB");
    govern_shell(&w,
                 "$HEADROOM run --budget 1.5GiB -- $CALLER dlsym alloc:1G touch:a wait:b & "
                 "while [ ! -e a ]; do sleep 0.01; done; "
                 "$HEADROOM run --budget 1GiB --wait 0.5s -- $CALLER 'dlsym' 'info'; echo code $?; "
                 "$HEADROOM why; $HEADROOM why --json; touch b; wait; $HEADROOM why 1");
    govern_expect(&w, "code 1\n");
    govern_expect(&w, "job 2, govern_caller: 1 GiB was refused at ");
    CHECK(strstr(w.words,
                 "waiting for 1 GiB on cuda:0: 512 MiB free, held by govern_caller (job 1, "
                 "1.50 GiB for 0 s)") != NULL);
    govern_expect(&w, ": other programs held the memory\n");
    govern_expect(&w, "who held GPU-fae7c0ad then: 512 MiB free of 2 GiB, programs outside 0 B\n");
    govern_expect(&w, "job 1  govern_caller  1.06 GiB of a budget of 1.50 GiB, running for ");
    govern_expect(&w, "next: headroom run --budget 1024MiB --wait 10m -- /");
    govern_expect(&w, "\"free_bytes\": 536870912");
    govern_expect(&w, "no allocation was refused\n"); /* of job 1 */
    govern_end(&w);
}

TEST(commands, why_tells_of_a_death_without_a_refusal) {
    govern_world w;
    govern_start(&w, "");
    govern_shell(&w,
                 "$HEADROOM run --budget 1GiB -- $CALLER dlsym alloc:100M free alloc:200M touch:a "
                 "wait:b & job=$!; while [ ! -e a ]; do sleep 0.01; done; "
                 "kill -9 $($HEADROOM top --json | grep '\"pid\"' | tail -1 | tr -dc 0-9); "
                 "wait $job; echo code $?; $HEADROOM why");
    govern_expect(&w, "code 137\n");
    govern_expect(&w, "no allocation was refused\n");
    govern_expect(&w, "-100 MiB by cuMemFree_v2, holds 64 MiB\n");
    govern_expect(&w, "+200 MiB by cuMemAlloc_v2, holds 264 MiB\n");
    govern_expect(&w, "killed by signal 9 (Killed) at ");
    govern_end(&w);
}
