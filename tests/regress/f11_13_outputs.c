/* A budget beyond the machine, places that cannot be written and disks without room are met before anything is planned or
 * run. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pictures.h"
#include "program.h"
#include "test.h"

TEST(f11_13, a_plan_beyond_the_container_is_refused_before_it_runs) {
    PROGRAM_NEED_CGROUP();
    /* plans for a machine that is larger; this one has 24 MiB */
    program_outcome o = program_run(&(program_options){.cgroup_bytes = 24 << 20},
                                    "train mlp:width=1500 --data synthetic:64 --batch 8 --steps 1 "
                                    "--no-measure --budget 1GiB --no-save");
    program_expect(&o, 1, "has 24 MiB available; use --budget");
    program_end(&o);
}

TEST(f11_13, without_a_budget_a_container_is_planned_for) {
    PROGRAM_NEED_CGROUP();
    const uint64_t container = (program_runtime_bytes() + (12 << 20)) >> 20 << 20;
    program_outcome o = program_run(
        &(program_options){.cgroup_bytes = container},
        "train mlp --data synthetic:64 --batch 8 --steps 1 --no-measure --no-save --json");
    program_expect(&o, 0, NULL);
    CHECK_LE(program_number(&o, "budget_bytes"), (double)container);
    CHECK(program_number(&o, "budget_bytes") > (double)(container - (4 << 20)));
    program_end(&o);
}

TEST(f11_13, a_budget_beyond_the_machine_is_said_by_plan) {
    program_outcome o =
        program_run(NULL, "plan mlp --batch 8 --no-measure --no-choices --budget 900TiB");
    program_expect(&o, 0, "exceeds what host has");
    program_end(&o);
}

TEST(f11_13, every_output_is_looked_at_before_planning) {
    static const char *const train[] = {"--log", "--svg", "--tensorboard"};
    static const char *const plan[] = {"--svg", "--map", "--dot", "--save", "--save-problem"};
    const char *folder = test_folder();
    test_write(folder, "file", "x", 1);
    for (size_t i = 0; i < sizeof train / sizeof train[0]; i++) {
        program_outcome o = program_run(
            &(program_options){.folder = folder},
            "train gpt2 --data synthetic --batch 1 --budget 1MiB %s file/below", train[i]);
        program_expect(&o, 2, "file/below");
        program_expect(&o, 2, train[i]);
        program_end(&o);
    }
    for (size_t i = 0; i < sizeof plan / sizeof plan[0]; i++) {
        program_outcome o =
            program_run(&(program_options){.folder = folder},
                        "plan gpt2 --batch 1 --budget 1MiB %s missing/below", plan[i]);
        program_expect(&o, 2, "missing/below cannot be written");
        program_end(&o);
    }
    program_outcome o = program_run(&(program_options){.folder = folder},
                                    "plan gpt2 --batch 1 --budget 1MiB --map %s", folder);
    program_expect(&o, 2, "it is a directory");
    program_end(&o);
}

/* A disk of 4 MiB of our own; without the right to make one the case is skipped. */
TEST(f11_13, a_disk_without_room_for_the_checkpoint_is_met_before_planning) {
    const char *folder = test_folder();
    char command[700];
    snprintf(
        command, sizeof command,
        "mkdir disk && unshare -m true 2>/dev/null && exec unshare -m sh -c 'mount -t tmpfs -o "
        "size=4m none disk && cd disk && exec $HEADROOM train mlp --data synthetic:64 --batch 8 "
        "--no-measure --steps 1 --out run' || exit 77");
    program_outcome o =
        program_run(&(program_options){.folder = folder, .as_shell = 1}, "%s", command);
    if (o.code == 77 || strstr(o.words, "mount:")) {
        test_skip("no disk of our own can be made here");
    }
    program_expect(&o, 2, "a checkpoint needs 5.11 MiB");
    program_end(&o);
}
