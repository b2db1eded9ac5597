/* Training, evaluating or predicting on a device that is only planned for is a clear error, not a crash. */
#include "pictures.h"
#include "program.h"
#include "sets.h"
#include "test.h"

TEST(f11_10, nothing_runs_on_a_null_device) {
    static const char *const commands[] = {
        "train lenet --data images:set --device null:1GiB",
        "train mlp --data synthetic --device null:1GiB",
        "train mlp --data synthetic --device null:0 --null-device 1GiB",
        "train mlp --data synthetic --device null:1GiB --batch auto --budget 100MiB",
        "train mlp --data synthetic --device null:1GiB --also 'mlp --data synthetic'",
        "plan mlp --device null:1GiB --try 2",
        "plan mlp --device null:0 --null-device 1GiB --try 2",
        "eval run --data images:set --device null:0 --null-device 1GiB",
        "predict run set --device null:0 --null-device 1GiB",
        "eval run --data images:set --device null:1GiB",
        "predict run set --device null:1GiB",
    };
    const char *folder = test_folder();
    set_of_run(folder);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        program_outcome o = program_run(&(program_options){.folder = folder}, "%s", commands[i]);
        program_expect(&o, 2, "headroom: ");
        program_end(&o);
    }
    program_outcome o = program_run(NULL, "plan mlp --device null:1GiB");
    program_expect(&o, 0, NULL);
    program_end(&o);
}
