/* What the driver takes by itself, by cause. */
#include <stdio.h>
#include <string.h>

#include "govern.h"
#include "test.h"

/* The program does its steps; then, while it holds still, the row of its process is printed. */
static void rows(govern_world *w, const char *environment, const char *steps) {
    govern_start(w, environment);
    govern_shell(w,
                 "$HEADROOM run --budget 1GiB -- $CALLER dlsym %s touch:a wait:b & "
                 "while [ ! -e a ]; do sleep 0.01; done; sleep 1.3; $HEADROOM top --json | "
                 "sed -n '/\"process\"/,$p'; $HEADROOM why 1; touch b; wait",
                 steps);
}

TEST(causes, context_modules_and_graphs_are_told_apart) {
    govern_world w;
    rows(&w, "FAKECUDA_GRAPH_BYTES=8MiB", "alloc:100M module:20M module:6M graph:10M");
    govern_expect(&w, "\"held_bytes\": 115343360"); /* 110 MiB, call by call */
    govern_expect(&w, "\"modules_bytes\": 27262976");
    govern_expect(&w, "\"graphs_bytes\": 8388608");
    govern_expect(&w, "\"other_bytes\": 0");
    govern_expect(&w, "measured: context 64 MiB, modules 26 MiB, graphs 8 MiB\n");
    govern_end(&w);
}

/* Modules that were unloaded are modules no more; a graph instantiated meanwhile stays. */
TEST(causes, what_goes_back_is_taken_from_its_cause) {
    govern_world w;
    rows(&w, "FAKECUDA_GRAPH_BYTES=8MiB", "module:20M module:6M graph:1M unmodule");
    govern_expect(&w, "\"modules_bytes\": 20971520");
    govern_expect(&w, "\"graphs_bytes\": 8388608");
    govern_expect(&w, "\"other_bytes\": 0");
    govern_end(&w);
}

/* The driver takes 20 MiB for nothing that the program did. */
TEST(causes, what_nothing_explains_is_shown_as_other) {
    govern_world w;
    rows(&w, "", "array:50M fill:20M alloc:1M hold:300 info");
    govern_expect(&w, "\"modules_bytes\": 0");
    govern_expect(&w, "\"other_bytes\": 20971520");
    govern_expect(&w, "other 20 MiB");
    govern_end(&w);
}

/* Other threads take and give all the time: nothing of theirs is put down to modules. */
TEST(causes, differences_count_only_while_nobody_else_allocates) {
    govern_world w;
    rows(&w, "", "module:20M threads:4 module:6M threads:4 hold:300 info");
    govern_expect(&w, "\"modules_bytes\": 27262976");
    govern_end(&w);
}
