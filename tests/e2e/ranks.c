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

/* A rank that plans otherwise, here for a larger budget, runs rank 0's plan; where that does not fit it says so. */
TEST_TIMEOUT(ranks, the_plan_of_rank_0_is_everybodys, 200) {
    PROGRAM_NEED_MEMORY();
    static const char job[] =
        "train mlp:width=512 --data synthetic --batch 8 --micro-batches 2 --seed 1 "
        "--no-measure --steps 2 --no-save --json --shard weights --net shm --budget";
    static const char ranks[] = "export HEADROOM_SIZE=2 HEADROOM_RUN=plan-$$; (HEADROOM_RANK=1 "
                                "$HEADROOM %s %llu; echo \"rank 1: $?\" >&2) & "
                                "HEADROOM_RANK=0 $HEADROOM %s %llu; code=$?; wait; exit $code";
    program_outcome o = program_run(&(program_options){.seconds = 90}, "%s 1MiB --replicas 2", job);
    program_expect(&o, 1, NULL);
    const unsigned long long least =
        (unsigned long long)program_number(&o, "smallest_bytes") + (1 << 20);
    program_end(&o);
    char whole[24];
    o = program_run(&(program_options){.seconds = 90}, "%s 1GiB --replicas 2", job);
    program_expect(&o, 0, NULL);
    snprintf(whole, sizeof whole, "%s", program_text(&o, "weights"));
    program_end(&o);
    o = program_run(&(program_options){.seconds = 90, .as_shell = 1}, ranks, job, 1ull << 30, job,
                    least);
    program_expect(&o, 0, "rank 1: 0");
    CHECK_STR(program_text(&o, "weights"), whole);
    program_end(&o);
    o = program_run(&(program_options){.seconds = 90, .as_shell = 1}, ranks, job, least, job,
                    1ull << 30);
    program_expect(&o, 3, "rank 1 (");
    program_expect(&o, 3, "rank 0's plan needs");
    program_end(&o);
}

/* Two ranks by the variables of a launcher: all that they say, and rank 0's exit code.  Rank 1 ends within seconds, too. */
static program_outcome two_ranks(const char *variables, const char *first, const char *second) {
    return program_run(&(program_options){.seconds = 40, .as_shell = 1},
                       "set_rank() { r=$1; %s; }; (set_rank 1; timeout 20 $HEADROOM %s; "
                       "echo \"rank 1: $?\" >&2) & set_rank 0; $HEADROOM %s; code=$?; wait; exit "
                       "$code",
                       variables, second, first);
}

TEST(ranks, TF_CONFIG_and_srun_start_them) {
    char one[24], tf[300];
    history_of_one(4, one, NULL);
    snprintf(tf, sizeof tf,
             "export TF_CONFIG='{\"cluster\":{\"worker\":[\"127.0.0.1:%d\",\"127.0.0.1:1\"]},"
             "\"task\":{\"type\":\"worker\",\"index\":'$r'}}'",
             30000 + (int)test_seed() % 10000);
    const char *const variables[] = {
        tf, "export SLURM_PROCID=$r SLURM_NTASKS=2 SLURM_LOCALID=$r SLURM_STEP_ID=0 "
            "SLURM_JOB_ID=$$ SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=n1"};
    for (int i = 0; i < 2; i++) {
        program_outcome o = two_ranks(variables[i], JOB " --steps 4 --no-save --json",
                                      JOB " --steps 4 --no-save --json");
        program_expect(&o, 0, "rank 1: 0");
        CHECK_STR(program_text(&o, "history"), one);
        CHECK(program_number(&o, "replicas") == 2);
        program_end(&o);
    }
}

/* Who fails before they meet is heard: nobody waits for it. */
TEST(ranks, a_rank_that_fails_before_they_meet_is_heard) {
    static const char variables[] = "export HEADROOM_RANK=$r HEADROOM_SIZE=2 HEADROOM_RUN=early-$$";
    program_outcome o = program_run(&(program_options){.seconds = 30}, JOB " --steps 1 --out old");
    program_expect(&o, 0, NULL);
    program_end(&o);
    o = two_ranks(variables, JOB " --steps 1 --out old", JOB " --steps 1 --out old");
    program_expect(&o, 2, "rank 1: 3");
    program_end(&o);
    o = two_ranks(variables, JOB " --steps 1 --no-save",
                  "train mlp --data npy:none,none --batch 24 --steps 1 --no-save");
    program_expect(&o, 3, "rank 1 (");
    program_expect(&o, 3, "none");
    program_expect(&o, 3, "rank 1: 2");
    program_end(&o);
}

/* Only rank 0 speaks; when it is killed, rank 1 does. */
TEST(ranks, the_end_of_rank_0_is_told_by_rank_1) {
    program_outcome o = program_run(
        &(program_options){.seconds = 40, .as_shell = 1},
        "export HEADROOM_SIZE=3 HEADROOM_RUN=first-$$; for r in 0 1 2; do HEADROOM_RANK=$r "
        "$HEADROOM " JOB " --net tcp --steps 100000 --save-every 3 --out run > out$r 2>&1 & "
        "eval p$r=$!; done; while [ ! -e run/last.safetensors ]; do sleep 0.05; done; "
        "kill -9 $p0; wait $p1; code=$?; wait $p2 || code=$code$?; cat out1; wc -c < out2; "
        "exit $code");
    CHECK_EQ(o.code, 33);
    CHECK(strstr(o.out, "rank 0 (") && strstr(o.out, "--out run --resume"));
    CHECK(strstr(o.out, "\n0\n"));
    program_end(&o);
}
