/* Ranks: one process a replica, over shared memory and TCP, started by the command or by a launcher's variables. */
#include <stdio.h>
#include <string.h>

#include "program.h"
#include "test.h"

#define JOB "train mlp --data synthetic --batch 24 --micro-batches 6 --seed 1 --no-measure"

/* The one history of this job, whoever computes it. */
static void history_of_one(int steps, char out[24], char weights[24]) {
    program_outcome o =
        program_run(&(program_options){.seconds = 30}, JOB " --steps %d --no-save --json", steps);
    program_expect(&o, 0, NULL);
    snprintf(out, 24, "%s", program_text(&o, "history"));
    if (weights) {
        snprintf(weights, 24, "%s", program_text(&o, "weights"));
    }
    program_end(&o);
}

TEST(ranks, processes_have_the_losses_of_one) {
    char one[24], weights[24];
    history_of_one(4, one, weights);
    static const char *const how[] = {"--replicas 2 --net shm", "--replicas 3 --net tcp"};
    for (int i = 0; i < 2; i++) {
        program_outcome o = program_run(&(program_options){.seconds = 30},
                                        JOB " --steps 4 --no-save --json %s", how[i]);
        program_expect(&o, 0, NULL);
        CHECK_STR(program_text(&o, "history"), one);
        CHECK_STR(program_text(&o, "weights"), weights);
        CHECK(program_number(&o, "measured_arena_bytes") ==
              program_number(&o, "planned_arena_bytes"));
        CHECK(program_number(&o, "measured_peak_bytes") <=
              program_number(&o, "planned_peak_bytes"));
        program_end(&o);
    }
}

/* As torchrun sets them; only rank 0 speaks. */
TEST(ranks, a_launchers_variables_are_enough) {
    char one[24];
    history_of_one(4, one, NULL);
    program_outcome o = program_run(
        &(program_options){.seconds = 30, .as_shell = 1},
        "export WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=%d "
        "TORCHELASTIC_RUN_ID=test; for r in 2 1; do RANK=$r LOCAL_RANK=$r $HEADROOM " JOB
        " --steps 4 --out run --json > rank$r 2>&1 & done; "
        "RANK=0 LOCAL_RANK=0 $HEADROOM " JOB " --steps 4 --out run --json; code=$?; wait; "
        "cat rank1 rank2 | wc -c >&2; ls run >&2; exit $code",
        20000 + (int)test_seed() % 10000);
    program_expect(&o, 0, "last.safetensors");
    CHECK_STR(program_text(&o, "history"), one);
    CHECK(strncmp(o.words + strspn(o.words, " "), "0\n", 2) == 0 || strstr(o.words, "\n0\n"));
    program_end(&o);
}

/* A rank is killed: the others end with code 3, name it and the way to go on, and the run goes on with threads. */
TEST(ranks, a_killed_rank_is_named_and_the_run_goes_on) {
    char whole[24];
    program_outcome o = program_run(
        &(program_options){.seconds = 40, .as_shell = 1},
        "export HEADROOM_SIZE=2 HEADROOM_RUN=kill-$$; "
        "HEADROOM_RANK=1 $HEADROOM " JOB " --net shm --steps 100000 --out run & one=$!; "
        "(while [ ! -e run/last.safetensors ]; do sleep 0.05; done; kill -9 $one) & "
        "HEADROOM_RANK=0 $HEADROOM " JOB " --net shm --steps 100000 --save-every 3 --out run");
    program_expect(&o, 3, "rank 1");
    program_expect(&o, 3, "--resume");
    program_end(&o);
    o = program_run(
        &(program_options){.as_shell = 1},
        "grep -a -o 'training[^0-9]*[0-9]*' run/last.safetensors | head -1 | tr -dc 0-9");
    int step = 0;
    CHECK(sscanf(o.out, "%d", &step) == 1 && step >= 3);
    program_end(&o);
    history_of_one(step + 2, whole, NULL);
    o = program_run(&(program_options){.seconds = 30},
                    JOB " --steps %d --out run --resume --replicas 3 --json", step + 2);
    program_expect(&o, 0, NULL);
    CHECK_STR(program_text(&o, "history"), whole);
    program_end(&o);
}

TEST(ranks, ranks_that_were_given_other_options_are_refused) {
    program_outcome o =
        program_run(&(program_options){.seconds = 30, .as_shell = 1},
                    "export HEADROOM_SIZE=2 HEADROOM_RUN=differ-$$; "
                    "HEADROOM_RANK=1 $HEADROOM " JOB " --net shm --steps 3 --no-save --rate 0.5 & "
                    "HEADROOM_RANK=0 $HEADROOM " JOB
                    " --net shm --steps 3 --no-save; code=$?; wait; exit $code");
    program_expect(&o, 2, "ranks 0 and 1 do not train the same: the training options");
    program_end(&o);
}
