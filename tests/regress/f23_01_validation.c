/* Validation that does not fit is refused before the first step, and among the ways out is a validation batch that fits. */
#include <stdio.h>
#include <string.h>

#include "pictures.h"
#include "program.h"
#include "sets.h"
#include "test.h"

#define TRAIN                                                                                      \
    "train lenet --data images:set --val-data images:set --batch 4 --val-batch 4096 --budget "     \
    "24MiB --steps 1 --no-save --no-measure --threads 1 "

TEST_TIMEOUT(f23, validation_that_does_not_fit_is_refused_with_a_batch_that_does, 120) {
    PROGRAM_NEED_MEMORY();
    const char *folder = test_folder(), *command = NULL;
    set_of_pictures(folder, "set", 8);
    program_outcome o =
        program_run(&(program_options){.folder = folder, .seconds = 55}, TRAIN "--json");
    program_expect(&o, 1, NULL);
    const json_t *ways = json_object_get(o.json, "ways_out");
    for (size_t i = 0; i < json_array_size(ways); i++) {
        const json_t *way = json_array_get(ways, i);
        if (strstr(json_string_value(json_object_get(way, "flags")), "--val-batch")) {
            command = json_string_value(json_object_get(way, "command"));
        }
    }
    if (!command) {
        test_fail(__FILE__, __LINE__, "no way out has --val-batch: %.1500s", o.out);
    }
    program_outcome typed =
        program_run(&(program_options){.folder = folder, .as_shell = 1, .seconds = 55},
                    "$HEADROOM %s", command + strlen("headroom "));
    program_expect(&typed, 0, NULL);
    program_end(&typed);
    program_end(&o);
}
