/* Replicas by commands: losses, weights and checkpoints are those of one replica, to the bit; memory is as planned. */
#include <stdio.h>
#include <string.h>

#include "program.h"
#include "test.h"

#define HISTORY 40

/* Trains and takes the digests of all losses, and of parameters and states. */
static void history_of(const char *job, int replicas, char out[HISTORY]) {
    program_outcome o = program_run(
        &(program_options){.seconds = 40},
        "train %s --data synthetic --replicas %d --seed 1 --no-measure --json", job, replicas);
    program_expect(&o, 0, NULL);
    const size_t used = (size_t)snprintf(out, HISTORY, "%s ", program_text(&o, "history"));
    snprintf(out + used, HISTORY - used, "%s", program_text(&o, "weights"));
    CHECK(program_number(&o, "measured_arena_bytes") == program_number(&o, "planned_arena_bytes"));
    program_end(&o);
}

static void expect_one_history(const char *job, const int *replicas) {
    char one[HISTORY], many[HISTORY];
    history_of(job, 1, one);
    for (; *replicas; replicas++) {
        history_of(job, *replicas, many);
        if (strcmp(one, many) != 0) {
            test_fail(__FILE__, __LINE__, "%s: %d replicas have other losses than one", job,
                      *replicas);
        }
    }
}

TEST(replicas, losses_do_not_depend_on_their_number) {
    static const char mlp[] = "mlp --batch 48 --micro-batches 8 --steps 4 --no-save";
    expect_one_history(mlp, (const int[]){2, 3, 4, 8, 0});
    expect_one_history("mlp --batch 50 --micro-batches 7 --steps 3 --optimizer adam --clip 0.1 "
                       "--no-save",
                       (const int[]){3, 0});
    expect_one_history("mlp --batch 24 --micro-batches 4 --steps 3 --precision bf16 --no-save",
                       (const int[]){4, 0});
    expect_one_history("mlp --batch 24 --micro-batches 4 --steps 3 --precision f16 --no-save",
                       (const int[]){2, 0});
    expect_one_history("gpt2-nano:dropout=0.1 --batch 10 --micro-batches 4 --steps 3 --optimizer "
                       "adamw --no-save",
                       (const int[]){2, 4, 0});
}

/* Weights, running statistics and optimizer state of a batch norm model, which losses of two steps do not show; and a
 * control: parts that are cut otherwise are another function. */
TEST(replicas, checkpoints_have_the_same_tensors) {
    static const char job[] = "resnet18:size=32,width=8,classes=10 --batch 8 --ghost-norm "
                              "--steps 2 --micro-batches";
    static const struct {
        const char *rest;
        int replicas;
    } runs[] = {{"4 --out a1", 1}, {"4 --out b3", 3}, {"4 --out c4", 4}, {"2 --out d2", 2}};
    for (int i = 0; i < 4; i++) {
        char line[200], history[HISTORY];
        snprintf(line, sizeof line, "%s %s", job, runs[i].rest);
        history_of(line, runs[i].replicas, history);
    }
    /* What is behind the header, whose length is in the first eight bytes. */
    program_outcome o = program_run(
        &(program_options){.as_shell = 1},
        "for r in a1 b3 c4 d2; do n=$(od -An -tu8 -N8 $r/last.safetensors | tr -d ' '); "
        "tail -c +$((n + 9)) $r/last.safetensors | cksum; done | uniq -c | awk '{print $1}'");
    CHECK_EQ(o.code, 0);
    CHECK_STR(o.out, "3\n1\n");
    program_end(&o);
}

TEST(replicas, a_run_goes_on_with_any_number_of_them) {
    char whole[HISTORY];
    history_of("mlp --batch 24 --micro-batches 6 --steps 8 --val-split 0.2 --no-save", 1, whole);
    static const int after[] = {1, 3, 6};
    for (int i = 0; i < 3; i++) {
        char job[200], half[HISTORY];
        snprintf(job, sizeof job,
                 "mlp --batch 24 --micro-batches 6 --steps %d --val-split 0.2 --out run%d", 4, i);
        history_of(job, 4, half);
        snprintf(job, sizeof job,
                 "mlp --batch 24 --micro-batches 6 --steps %d --val-split 0.2 --resume --out run%d",
                 8, i);
        history_of(job, after[i], half);
        CHECK(strcmp(half, whole) == 0);
    }
}

/* Trains and takes the digests of losses and of parameters and states. */
static void digests_of(const char *job, const char *rest, char out[2][HISTORY]) {
    program_outcome o =
        program_run(&(program_options){.seconds = 40},
                    "train %s --data synthetic --seed 1 --no-measure --json %s", job, rest);
    program_expect(&o, 0, NULL);
    snprintf(out[0], HISTORY, "%s", program_text(&o, "history"));
    snprintf(out[1], HISTORY, "%s", program_text(&o, "weights"));
    CHECK(program_number(&o, "measured_arena_bytes") == program_number(&o, "planned_arena_bytes"));
    program_end(&o);
}

/* Slices in threads, over shared memory and TCP; a checkpoint of one kind goes on as another. */
TEST(replicas, slices_change_nothing_but_memory) {
    static const char job[] = "mlp:width=96 --batch 22 --micro-batches 5 --optimizer adamw --clip "
                              "0.1 --moments 8bit --val-split 0.1 --steps";
    static const char *const half[] = {"--replicas 4 --shard weights --out a",
                                       "--replicas 3 --shard states --net shm --out b"};
    static const char *const rest[] = {"--replicas 2 --shard weights --net tcp --out a",
                                       "--replicas 1 --out b"};
    char line[300], one[2][HISTORY], many[2][HISTORY];
    snprintf(line, sizeof line, "%s 4", job);
    digests_of(line, "--no-save", one);
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "%s 2", job);
        digests_of(line, half[i], many);
        snprintf(line, sizeof line, "%s 4 --resume", job);
        digests_of(line, rest[i], many);
        CHECK_STR(many[0], one[0]);
        CHECK_STR(many[1], one[1]);
    }
}

static double number_of(const char *command, const char *key) {
    program_outcome o = program_run(&(program_options){.seconds = 40},
                                    "%s --no-measure --json "
                                    "--no-choices",
                                    command);
    program_expect(&o, 0, NULL);
    const double number = program_number(&o, key);
    program_end(&o);
    return number;
}

/* Devices that are not there: what is sharded takes less of each, and `auto` shards when it must. */
TEST(replicas, slices_are_planned_for_machines_that_are_not_there) {
#define GPT2                                                                                       \
    "plan gpt2-nano --batch 8 --optimizer adam --replicas 8 --device null:1GiB --device-spec "     \
    "page=4KiB --net ib"
    const double none = number_of(GPT2, "persistent_bytes"),
                 states = number_of(GPT2 " --shard states", "persistent_bytes"),
                 weights = number_of(GPT2 " --shard weights", "persistent_bytes");
    CHECK(none > states && states > weights);
    CHECK(number_of(GPT2 " --shard states", "net_exchanges") >= 2);
    CHECK(number_of(GPT2 " --shard states --net 1e-3/1e9", "net_ns") >
          number_of(GPT2 " --shard states", "net_ns"));
    program_outcome o = program_run(&(program_options){.seconds = 40},
                                    GPT2 " --shard auto --no-measure --json --no-choices");
    program_expect(&o, 0, NULL);
    CHECK(strstr(o.out, "\"shard\"") == NULL); /* all of it fits */
    program_end(&o);
    /* Below the minimum of whole states. */
    const double least = number_of(GPT2, "floor_bytes") - 4096;
    o = program_run(&(program_options){.seconds = 40},
                    GPT2 " --shard auto --no-measure --json --no-choices --budget %.0f", least);
    program_expect(&o, 0, NULL);
    CHECK_STR(program_text(&o, "shard"), "states");
    program_end(&o);
    CHECK(number_of("plan gpt2 --batch 4096 --micro-batches 4096 --replicas 4096 --shard weights "
                    "--device null:40GiB --net ib",
                    "replicas") == 4096);
#undef GPT2
}

TEST(replicas, the_smallest_budget_holds) {
    PROGRAM_NEED_MEMORY();
    static const char job[] = "mlp --batch 48 --replicas 4 --no-measure --json --data synthetic";
    program_outcome o =
        program_run(&(program_options){.seconds = 40}, "plan %s --budget 1MiB", job);
    program_expect(&o, 1, NULL);
    /* Runtime is measured anew by every process: a little more or less. */
    const double least = program_number(&o, "smallest_bytes") + 2097152;
    program_end(&o);
    o = program_run(&(program_options){.seconds = 40}, "train %s --steps 2 --no-save --budget %.0f",
                    job, least);
    program_expect(&o, 0, NULL);
    CHECK((double)o.resident_bytes <= least);
    CHECK(program_number(&o, "replicas") == 4);
    program_end(&o);
    o = program_run(&(program_options){.seconds = 40}, "train %s --steps 2 --no-save --budget %.0f",
                    job, least - 8388608);
    program_expect(&o, 1, NULL);
    program_end(&o);
}

static void refused(const char *command, const char *sentence) {
    program_outcome o = program_run(&(program_options){.seconds = 20}, "%s --no-measure", command);
    program_expect(&o, 2, sentence);
    program_end(&o);
}

TEST(replicas, what_cannot_be_shared_is_refused) {
    refused("plan mlp --batch 3 --replicas 4", "4 replicas need at least as many micro-batches");
    refused("plan mlp --batch 8 --replicas 4 --micro-batches 2", "gives 2 of 4 samples");
    refused("plan resnet18:size=32 --batch 8 --replicas 4", "--ghost-norm allows it");
    refused("plan mlp --replicas 0", "replicas");
    refused("plan mlp --batch 8 --replicas 4 --shard everything", "--shard");
    refused("plan mlp --batch 8 --replicas 4 --net carrier-pigeon", "--net");
    refused("train mlp --data synthetic --batch 8 --replicas 2 --no-save --steps 1 "
            "--also 'mlp --data synthetic --batch 8 --no-save'",
            "--replicas cannot be combined");
}

/* Every replica has the same plan, so that their number costs nothing. */
TEST(replicas, thousands_are_planned_at_once) {
    PROGRAM_NEED_SPEED();
    program_outcome o =
        program_run(&(program_options){.seconds = 20},
                    "plan gpt2-xl --batch 4096 --micro-batches 4096 --replicas 4096 --device "
                    "null:80GiB --optimizer adam --no-measure --no-choices --json");
    program_expect(&o, 0, NULL);
    CHECK(program_number(&o, "replicas") == 4096);
    CHECK(program_number(&o, "micro_batches") == 4096);
    /* the gradients, of which the tied embedding has two, to their owners, and the sums to all */
    const double once = 4.0 * 1557611200;
    CHECK(program_number(&o, "net_bytes") > 2 * once * 4095 / 4096);
    CHECK(program_number(&o, "net_bytes") < 2.3 * once);
    CHECK(o.resident_bytes < (uint64_t)256 << 20);
    program_end(&o);
}
