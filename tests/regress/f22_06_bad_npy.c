/* An npy of a wrong type, version or shape is bad input for every command that reads it: exit code 2. */
#include <stdio.h>

#include "pictures.h"
#include "program.h"
#include "sets.h"
#include "test.h"

TEST(f22_06, a_bad_npy_is_bad_input_everywhere) {
    static const char *const headers[] = {
        "{'descr': '<c8', 'fortran_order': False, 'shape': (4, 784)}\n",
        "{'descr': '|O', 'fortran_order': False, 'shape': (4, 784)}\n",
        "{'descr': '>f4', 'fortran_order': False, 'shape': (4, 784)}\n",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (4, 784)}\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()}\n",
        "{'descr': '<f4'}\n",
        "no header at all\n",
    };
    static const char *const commands[] = {"eval run --data npy:x.npy", "predict run npy:x.npy",
                                           "data npy:x.npy",
                                           "train lenet --data npy:x.npy --no-save"};
    const char *folder = test_folder();
    set_of_run(folder);
    for (size_t h = 0; h <= sizeof headers / sizeof headers[0]; h++) {
        const int version = h == sizeof headers / sizeof headers[0];
        set_of_npy(folder, "x.npy", version ? 7 : 1, headers[version ? 0 : h], 64);
        for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
            program_outcome o =
                program_run(&(program_options){.folder = folder}, "%s", commands[i]);
            program_expect(&o, 2, "x.npy");
            program_end(&o);
        }
    }
}
