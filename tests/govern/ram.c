/* A limit for host memory: a cgroup where one can be made, watching where not; and what is said afterwards. */
#include <string.h>

#include "govern.h"
#include "test.h"

/* Takes RAM and keeps it for a while. */
#define EATER                                                                                      \
    "cat >eat.py <<'EOF'\n"                                                                        \
    "import sys, time\n"                                                                           \
    "kept = b'x' * (int(sys.argv[1]) << 20)\n"                                                     \
    "time.sleep(float(sys.argv[2])); print('ate', len(kept) >> 20)\n"                              \
    "EOF\n"                                                                                        \
    "command -v python3 >/dev/null || { echo none; exit 0; }; "

static void needs_python(govern_world *w) {
    if (govern_count(w, "none")) {
        govern_end(w);
        test_skip("no python3");
    }
}

TEST(ram, watched_programs_are_killed_above_it_and_why_knows) {
    govern_world w;
    govern_start(&w, "HEADROOM_CGROUP_ROOT=/nowhere");
    govern_shell(&w, EATER
                 "$HEADROOM run --budget 1GiB --ram 200MiB -- python3 eat.py 400 20; echo code $?; "
                 "$HEADROOM why; $HEADROOM why --json 1; true");
    needs_python(&w);
    govern_expect(&w, "code 137");
    CHECK_EQ(govern_count(&w, "ate"), 0);
    govern_expect(&w, "job 1 exceeded its 200 MiB of RAM: 1 process was killed by headroom run");
    CHECK(strstr(w.words, "watched, not enforced") != NULL);
    govern_end(&w);
}

TEST(ram, the_whole_tree_counts_and_shared_pages_once) {
    govern_world w;
    govern_start(&w, "HEADROOM_CGROUP_ROOT=/nowhere");
    /* Two below one shell, each inside the limit, both together above it: one of them goes. */
    govern_shell(&w, EATER
                 "$HEADROOM run --budget 1GiB --ram 300MiB -- sh -c 'python3 eat.py 200 1.5 & "
                 "python3 eat.py 200 1.5; wait'; $HEADROOM why");
    needs_python(&w);
    CHECK_LE(govern_count(&w, "ate 200"), 1);
    govern_expect(&w, "exceeded its 300 MiB of RAM");
    /* A child that was forked has its parent's pages, and costs nothing. */
    govern_shell(&w, "cat >fork.py <<'EOF'\n"
                     "import os, time\n"
                     "kept = b'x' * (200 << 20)\n"
                     "for i in range(3):\n"
                     "    if os.fork() == 0: time.sleep(0.7); os._exit(0)\n"
                     "for i in range(3): os.wait()\n"
                     "print('forked', len(kept) >> 20)\n"
                     "EOF\n"
                     "$HEADROOM run --budget 1GiB --ram 400MiB -- python3 fork.py");
    govern_expect(&w, "forked 200");
    govern_end(&w);
}

/* The files of a group are plain ones here: what is written is what the kernel would have been told. */
TEST(ram, a_cgroup_is_made_filled_and_taken_away) {
    govern_world w;
    govern_start(&w, "GOVERN=1");
    govern_shell(
        &w,
        "grep -q '^0::/' /proc/self/cgroup || { echo none; exit 0; }; "
        "own=$(sed -n 's/^0:://p' /proc/self/cgroup); mkdir -p cg$own; "
        "echo 'cpu memory' >cg/cgroup.controllers; "
        "for d in cg cg$own; do echo memory >$d/cgroup.subtree_control; done; "
        "HEADROOM_CGROUP_ROOT=$PWD/cg $HEADROOM run --budget 1GiB --ram 300MiB -- sh -c 'cd cg; "
        "for g in $(find . -name \"headroom-*\"); do echo limit $(cat $g/memory.max) swap "
        "$(cat $g/memory.swap.max) procs $(cat $g/cgroup.procs); printf \"low 0\\noom_kill 2\\n\" "
        ">$g/memory.events; echo 314572800 >$g/memory.peak; done'; $HEADROOM why");
    if (govern_count(&w, "none")) {
        govern_end(&w);
        test_skip("no cgroup of the second version");
    }
    govern_expect(&w, "limit 314572800 swap 0 procs ");
    govern_expect(&w, "job 1 exceeded its 300 MiB of RAM: 2 processes were killed by the kernel");
    CHECK(strstr(w.words, "watched") == NULL);
    govern_end(&w);
}

TEST(ram, a_program_within_it_is_left_alone) {
    govern_world w;
    govern_start(&w, "");
    govern_run(&w, "--budget 1GiB --ram 2GiB", "dlsym", "alloc:500M hold:300 free");
    govern_expect(&w, "free 0");
    CHECK_EQ(w.code, 0);
    govern_end(&w);
}

/* Twice forked, in a session of its own: it is still the program's. */
TEST(ram, a_process_that_detaches_counts) {
    govern_world w;
    govern_start(&w, "HEADROOM_CGROUP_ROOT=/nowhere");
    govern_shell(&w,
                 EATER "cat >away.py <<'EOF'\n"
                       "import os, time\n"
                       "r, w = os.pipe()\n"
                       "if os.fork() == 0:\n"
                       "    os.setsid()\n"
                       "    if os.fork() == 0:\n"
                       "        os.write(w, b'%%d' %% os.getpid())\n"
                       "        os.execvp('python3', ['python3', 'eat.py', '400', '40'])\n"
                       "    os._exit(0)\n"
                       "os.wait()\n"
                       "pid = int(os.read(r, 99))\n"
                       "while os.path.exists('/proc/%%d' %% pid): time.sleep(0.05)\n"
                       "print('gone')\n"
                       "EOF\n"
                       "$HEADROOM run --ram 200MiB --budget 1GiB -- python3 away.py; echo code $?; "
                       "$HEADROOM why");
    needs_python(&w);
    govern_expect(&w, "gone\ncode 0"); /* and buried */
    govern_expect(&w, "exceeded its 200 MiB of RAM: 1 process was killed");
    CHECK_EQ(govern_count(&w, "ate"), 0);
    govern_end(&w);
}

TEST(ram, without_a_gpu_it_is_all_that_is_limited_and_any_program_will_do) {
    govern_world w;
    govern_start(&w, "HEADROOM_CGROUP_ROOT=/nowhere FAKECUDA_DEVICES=0");
    govern_shell(&w,
                 EATER "$HEADROOM run --ram 2GiB -- sh -c 'echo in $LD_PRELOAD.; exit 7'; "
                       "echo code $?; $HEADROOM run --ram 200MiB -- python3 eat.py 400 20; "
                       "echo code $?; $HEADROOM why; $HEADROOM run --ram 1GiB --explain -- true");
    needs_python(&w);
    govern_expect(&w, "in .\ncode 7\n");
    govern_expect(&w, "code 137");
    govern_expect(&w, "job 2 exceeded its 200 MiB of RAM: 1 process was killed by headroom run");
    govern_expect(&w, "job 2 used no GPU");
    CHECK(strstr(w.words, "no NVIDIA GPU was found: only --ram applies") != NULL);
    /* a budget cannot be kept without one */
    govern_shell(&w, "$HEADROOM run --ram 1GiB --budget 1GiB -- true");
    CHECK_EQ(w.code, 2);
    CHECK(strstr(w.words, "no NVIDIA GPU was found") != NULL);
    govern_shell(&w, "$HEADROOM run --ram 1GiB -- no-such-program");
    CHECK_EQ(w.code, 2);
    govern_end(&w);
}
