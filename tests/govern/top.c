/* headroom top on a terminal: what it draws and what its keys do. */
#include <string.h>

#include "govern.h"
#include "test.h"

/* One job that holds 300 MiB, with `top` and a person's keys beside it. */
static void look(govern_world *w, const char *environment, const char *steps) {
    govern_shell(
        w,
        "rm -f a b; $HEADROOM run --budget 1GiB -- $CALLER dlsym alloc:300M touch:a wait:b "
        "& while [ ! -e a ]; do sleep 0.01; done; "
        "%s ${CALLER%%/*}/govern_terminal %s -- $HEADROOM top; touch b; wait %%1; echo job $?",
        environment, steps);
    if (strstr(w->out, "no terminal")) {
        test_skip("no pseudo-terminal can be made here");
    }
}

TEST(top, shows_devices_jobs_and_keys) {
    govern_world w;
    govern_start(&w, "TERM=xterm LANG=C.UTF-8");
    look(&w, "",
         "wait:cuda:0 'wait:Fake GPU' wait:govern_caller wait:running 'wait:q: quit' key:q");
    CHECK_EQ(govern_count(&w, "missing"), 0);
    govern_expect(&w, "exit 0\n");
    govern_expect(&w, "job 0\n");
    govern_end(&w);
}

TEST(top, sorts_by_key_and_survives_a_new_size) {
    govern_world w;
    govern_start(&w, "TERM=xterm LANG=C");
    look(&w, "",
         "wait:govern_caller key:s 'wait:held' key:s 'wait:budget' size:30x3 size:80x8 key:s "
         "'wait:name' "
         "size:120x40 key:q");
    CHECK_EQ(govern_count(&w, "missing"), 0);
    govern_expect(&w, "exit 0\n");
    govern_end(&w);
}

TEST(top, limits_a_job_by_key) {
    govern_world w;
    govern_start(&w, "TERM=xterm LANG=C.UTF-8");
    look(&w, "",
         "wait:govern_caller key:DOWN key:l 'wait:new budget of job 1' key:2GiB key:ENTER "
         "'wait:budget is now 2 GiB' key:l key:lots key:ENTER 'wait:is not a size' key:l key:ESC "
         "key:q");
    CHECK_EQ(govern_count(&w, "missing"), 0);
    govern_expect(&w, "exit 0\n");
    govern_end(&w);
}

TEST(top, ends_a_job_only_after_a_yes) {
    govern_world w;
    govern_start(&w, "TERM=xterm LANG=C.UTF-8");
    look(
        &w, "",
        "wait:govern_caller key:k 'wait:select a job' key:DOWN key:k 'wait:end job 1' key:n key:q");
    CHECK_EQ(govern_count(&w, "missing"), 0);
    govern_expect(&w, "job 0\n");
    look(&w, "", "wait:govern_caller key:DOWN key:K 'wait:kill' key:y 'wait:signal 9 sent' key:q");
    CHECK_EQ(govern_count(&w, "missing"), 0);
    govern_expect(&w, "job 137\n");
    govern_end(&w);
}

TEST(top, a_terminal_that_cannot_be_drawn_on_gets_text) {
    govern_world w;
    govern_start(&w, "GOVERN=1");
    look(&w, "TERM=dumb", "wait:govern_caller 'wait:q and Enter' key:q key:ENTER");
    CHECK_EQ(govern_count(&w, "missing"), 0);
    govern_expect(&w, "exit 0\n");
    look(&w, "TERM=no-such-terminal", "wait:govern_caller 'wait:q and Enter' key:q key:ENTER");
    CHECK_EQ(govern_count(&w, "missing"), 0);
    govern_end(&w);
}

TEST(top, a_killed_broker_is_found_again) {
    govern_world w;
    govern_start(&w, "TERM=xterm LANG=C.UTF-8");
    look(&w, "",
         "wait:govern_caller 'shell:kill -9 $(cat r/lock)' key:DOWN shell:'sleep 1.5' key:l "
         "key:2GiB key:ENTER 'wait:budget is now 2 GiB' key:q");
    CHECK_EQ(govern_count(&w, "missing"), 0);
    govern_expect(&w, "exit 0\n");
    govern_expect(&w, "job 0\n");
    govern_end(&w);
}
