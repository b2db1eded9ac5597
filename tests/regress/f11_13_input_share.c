/* 11.13, the data's part: an input pipeline that does not fit was blamed on a matmul. */
#include <stdio.h>
#include <string.h>

#include "pictures.h"
#include "program.h"
#include "test.h"

TEST(f11_13, an_input_that_does_not_fit_is_named_with_its_stage_and_the_way_out) {
    PROGRAM_NEED_MEMORY();
    char text[2048] = "a,label\n";
    for (int i = 0; i < 60; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "0.%d,%d\n", i + 10, i % 3);
    }
    test_write(test_folder(), "t.csv", text, strlen(text));
    const char *run = "train mlp:size=1,width=4,classes=3 --data 'csv:t.csv | rename(a,to=x)%s' "
                      "--batch 4 --steps 2 --no-save --budget 64MiB";
    program_outcome o = program_run(NULL, run, "");
    program_expect(&o, 1, "the input pipeline needs");
    CHECK(strstr(o.words, "shuffle uses 62") && strstr(o.words, "shuffle(N)"));
    CHECK(!strstr(o.words, "matmul"));
    program_end(&o);
    o = program_run(NULL, run, " | shuffle(20)");
    program_expect(&o, 0, NULL);
    program_end(&o);
}
