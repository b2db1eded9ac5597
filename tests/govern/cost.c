/* What governing costs, counted and not timed: calls of the driver and mutexes for each call of the program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "govern.h"
#include "test.h"

static double number(const govern_world *w, const char *text) {
    govern_expect(w, text);
    return strtod(strstr(w->out, text) + strlen(text), NULL);
}

static void costs(const char *budget, const char *work, double driver, double locks) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=16GiB");
    govern_shell(&w, "$HEADROOM run --budget %s -- ${CALLER%%/*}/govern_cost %s", budget, work);
    CHECK_EQ(w.code, 0);
    if (number(&w, " driver ") > driver || number(&w, " locks ") > locks) {
        test_fail(__FILE__, __LINE__, "more than %.2f calls and %.2f mutexes: %s", driver, locks,
                  w.out);
    }
    govern_end(&w);
}

TEST(cost, a_pool_that_has_the_memory_is_asked_nothing_and_nothing_is_locked) {
    costs("8GiB", "pairs 5000", 1.05, 0.05);
    costs("1GiB", "pairs 5000", 1.05, 0.05);
}

TEST(cost, a_step_of_training_looks_at_its_pool_now_and_then) {
    costs("8GiB", "step 20", 1.1, 0.2);
}

TEST(cost, other_calls) {
    costs("1GiB", "plain 200", 1.05, 4.0);
    costs("1GiB", "sync 200", 1.0, 0.0);
}

/* A pool in pieces, near the budget: the driver's count never passes it. */
static void stays_inside(const char *environment, const char *budget, int64_t bytes) {
    govern_world w;
    char options[64];
    govern_start(&w, environment);
    snprintf(options, sizeof options, "--budget %s", budget);
    govern_run(&w, options, "dlsym", "keep pooled:3000 threads:4 pooled:500 peak");
    govern_expect(&w, "pooled:3000 0\n");
    govern_expect(&w, "threads:4 0\n");
    CHECK_LE(govern_number(&w, "peak 0 "), bytes);
    govern_end(&w);
}

TEST(cost, pools_in_pieces_stay_inside_the_budget) {
    stays_inside("FAKECUDA_CAPACITY=8GiB", "512MiB", 512ll << 20);
    stays_inside("FAKECUDA_CAPACITY=8GiB CALLER_SEED=7", "2GiB", 2048ll << 20);
    stays_inside("FAKECUDA_CAPACITY=8GiB FAKECUDA_POOL_CHUNK=2MiB", "1GiB", 1024ll << 20);
    stays_inside("FAKECUDA_CAPACITY=8GiB FAKECUDA_POOL_CHUNK=100MiB", "1GiB", 1024ll << 20);
}
