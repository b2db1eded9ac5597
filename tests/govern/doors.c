/* The interposer in small: every way to the driver, every way to take memory, and what the program sees. */
#include <stdio.h>
#include <string.h>

#include "govern.h"
#include "test.h"

/* ---- doors ---- */

static void same_by(const char *way) {
    govern_world w;
    govern_start(&w, "FAKECUDA_CAPACITY=4GiB");
    govern_run(&w, "--budget 1GiB", way,
               "total info alloc:500M alloc:500M vmm:300M async:300M peak");
    govern_expect(&w, "total 0 1073741824");
    govern_expect(&w, "alloc:500M 0");
    govern_expect(&w, "alloc:500M 2"); /* the second: over the budget */
    govern_expect(&w, "vmm:300M 0");
    govern_expect(&w, "async:300M 2");
    CHECK_LE(govern_number(&w, "peak 0 "), 1 << 30);
    CHECK_LE(800 << 20, govern_number(&w, "peak 0 "));
    govern_end(&w);
}

TEST(doors, dlsym) {
    same_by("dlsym");
}
TEST(doors, linked) {
    same_by("linked");
}
TEST(doors, deepbind) {
    same_by("deepbind");
}
TEST(doors, resolver_of_12) {
    same_by("proc");
}
TEST(doors, resolver_of_11) {
    same_by("proc1");
}
TEST(doors, resolver_of_13) {
    same_by("proc13");
}
TEST(doors, resolvers_for_per_thread_streams) {
    same_by("proc1ptsz");
    same_by("procptsz");
}
TEST(doors, the_default_handle) {
    same_by("default");
}
/* Programs of 13 on a driver of 12.2: they get what it has. */
TEST(doors, a_driver_that_is_older_than_the_program) {
    govern_world w;
    govern_start(&w, "FAKECUDA_VERSION=12.2");
    govern_run(&w, "--budget 512MiB", "proc13",
               "total alloc:300M alloc:300M async:40M graph:20M node:20M xla:40M peak");
    govern_expect(&w, "total 0 536870912\n");
    govern_expect(&w, "alloc:300M 0\nalloc:300M 2\n");
    govern_expect(&w, "node:20M 0\n");
    govern_expect(&w, "xla:40M 0\n");
    CHECK_LE(govern_number(&w, "peak 0 "), 512 << 20);
    govern_end(&w);
}
TEST(doors, per_thread_streams_keep_their_functions) {
    govern_world w;
    same_by("ptds");
    govern_start(&w, "");
    govern_run(&w, "--budget 1GiB", "ptds", "async:40M ptsz");
    govern_expect(&w, "ptsz 0 1");
    govern_end(&w);
}
TEST(doors, an_old_driver_without_the_second_resolver) {
    govern_world w;
    govern_start(&w, "FAKECUDA_VERSION=11.4");
    w.driver = "fakecuda-11";
    govern_run(&w, "--budget 1GiB", "proc1", "total alloc:500M alloc:600M numa:2M");
    govern_expect(&w, "total 0 1073741824");
    govern_expect(&w, "alloc:600M 2");
    govern_end(&w);
}

TEST(doors, python_by_ctypes) {
    govern_world w;
    govern_start(&w, "");
    govern_shell(
        &w, "command -v python3 >/dev/null || { echo none; exit 0; }; "
            "cat >p.py <<'EOF'\n"
            "import ctypes\n"
            "cu = ctypes.CDLL('libcuda.so.1')\n"
            "c, p = ctypes.c_void_p(), ctypes.c_uint64()\n"
            "cu.cuInit(0); cu.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0); cu.cuCtxSetCurrent(c)\n"
            "for size in (500, 700):\n"
            "    print('python', size, cu.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(size << "
            "20)))\n"
            "EOF\n"
            "$HEADROOM run --budget 1GiB -- python3 p.py");
    if (govern_count(&w, "none")) {
        govern_end(&w);
        test_skip("no python3");
    }
    govern_expect(&w, "python 500 0\n");
    govern_expect(&w, "python 700 2\n");
    govern_end(&w);
}

/* ---- every way to take memory ---- */

TEST(paths, small_allocations_share_blocks) {
    govern_world w;
    govern_start(&w, "");
    /* 64 MiB of context; four times 500 KiB lie in one block, the fifth in the next. */
    govern_run(&w, "--budget 256MiB", "dlsym",
               "alloc:500K alloc:500K alloc:500K alloc:500K alloc:500K used free free free free "
               "free used");
    govern_expect(&w, "used 0 71303168\n"); /* 68 MiB */
    govern_expect(&w, "used 0 67108864\n"); /* 64 MiB */
    govern_end(&w);
}

TEST(paths, pitch_arrays_and_managed) {
    govern_world w;
    govern_start(&w, "");
    govern_run(&w, "--budget 512MiB", "dlsym",
               "pitch:100M array:100M managed:900M array:300M unarray unarray array:200M peak");
    govern_expect(&w, "pitch:100M 0");
    govern_expect(&w, "managed:900M 0");
    govern_expect(&w, "array:300M 2");
    govern_expect(&w, "array:200M 0");
    CHECK_LE(govern_number(&w, "peak 0 "), 512 << 20);
    govern_end(&w);
}

TEST(paths, pools_cost_what_they_reserve) {
    govern_world w;
    govern_start(&w, "FAKECUDA_POOL_CHUNK=64MiB");
    /* One byte reserves 64 MiB; what is freed stays reserved until the pool is trimmed. */
    govern_run(&w, "--budget 512MiB", "dlsym",
               "keep async:1 used async:200M unasync used alloc:300M trim alloc:300M peak");
    govern_expect(&w, "used 0 134217728\n"); /* 64 + 64 MiB */
    govern_expect(&w, "alloc:300M 0");       /* the idle pool is trimmed rather than refused */
    CHECK_LE(govern_number(&w, "peak 0 "), 512 << 20);
    govern_end(&w);
}

TEST(paths, memory_of_graphs) {
    govern_world w;
    govern_start(&w, "");
    govern_run(&w, "--budget 512MiB", "dlsym",
               "graph:300M graph:250M alloc:200M graphtrim alloc:200M peak");
    govern_expect(&w, "graph:300M 0");
    govern_expect(&w, "alloc:200M 2");
    govern_expect(&w, "alloc:200M 0");
    CHECK_LE(govern_number(&w, "peak 0 "), 512 << 20);
    govern_end(&w);
}

TEST(paths, memory_of_graphs_that_are_built_by_hand) {
    govern_world w;
    govern_start(&w, "");
    govern_run(&w, "--budget 512MiB", "dlsym", "node:300M alloc:200M peak node:300M peak");
    govern_expect(&w, "node:300M 0");
    govern_expect(&w, "alloc:200M 2");
    govern_expect(&w, "node:300M 2"); /* two of them may be alive at once */
    CHECK_LE(govern_number(&w, "peak 0 "), 512 << 20);
    govern_end(&w);
}

TEST(paths, virtual_memory_dies_with_its_last_reference) {
    govern_world w;
    govern_start(&w, "");
    govern_run(&w, "--budget 512MiB", "dlsym",
               "xla:300M vmm:300M nccl xla:300M unvmm xla:300M peak");
    govern_expect(&w, "vmm:300M 2");
    govern_expect(&w, "nccl 0");
    govern_expect(&w, "unvmm 0");
    CHECK_EQ(govern_count(&w, "xla:300M 0"), 3);
    CHECK_LE(govern_number(&w, "peak 0 "), 512 << 20);
    govern_end(&w);
}

/* A second one is refused before it is there, and what was in one is free when it has gone. */
TEST(paths, contexts_beside_the_primary_one) {
    govern_world w;
    govern_start(&w, "");
    govern_run(&w, "--budget 256MiB", "dlsym", "context:100M uncontext used alloc:150M peak");
    govern_expect(&w, "context:100M 0");
    govern_expect(&w, "used 0 67108864\n");
    govern_expect(&w, "alloc:150M 0");
    CHECK_LE(govern_number(&w, "peak 0 "), 256 << 20);
    govern_run(&w, "--budget 120MiB", "dlsym", "context:0 release context:0 retain peak");
    govern_expect(&w, "context:0 2\n");
    govern_expect(&w, "context:0 0\n");
    govern_expect(&w, "retain 2\n");
    CHECK_LE(govern_number(&w, "peak 0 "), 120 << 20);
    govern_end(&w);
}

TEST(paths, what_limits_uploads_and_old_calls_take) {
    govern_world w;
    govern_start(&w, "");
    govern_run(&w, "--budget 256MiB", "dlsym",
               "heap:300M heap:100M heap:8M low:300M low:50M upload:300M graphtrim alloc:90M peak");
    govern_expect(&w, "heap:300M 2\nheap:100M 0\nheap:8M 0\n");
    govern_expect(&w, "low:300M 2\nlow:50M 0\n");
    govern_expect(&w, "upload:300M 2\n");
    govern_expect(&w, "alloc:90M 0\n"); /* what was given back is there */
    CHECK_LE(govern_number(&w, "peak 0 "), 256 << 20);
    govern_end(&w);
}

TEST(paths, host_memory_is_not_the_devices) {
    govern_world w;
    govern_start(&w, "");
    govern_run(&w, "--budget 256MiB", "proc",
               "numa:900M alloc:100M"); /* NCCL asks so before there is a context */
    govern_expect(&w, "numa:900M 0");
    govern_expect(&w, "alloc:100M 0");
    govern_end(&w);
}

/* ---- frameworks ---- */

TEST(frameworks, a_cache_that_is_emptied_on_refusal) {
    govern_world w;
    govern_start(&w, "");
    govern_run(&w, "--budget 1GiB", "proc",
               "torch:300M torch:300M torch:300M torch:500M torch:900M peak");
    CHECK_EQ(govern_count(&w, "torch:300M 0"), 3);
    govern_expect(&w, "torch:500M 0");
    govern_expect(&w, "torch:900M 0");
    CHECK_LE(govern_number(&w, "peak 0 "), 1 << 30);
    govern_end(&w);
}

TEST(frameworks, regions_that_grow_until_refused) {
    govern_world w;
    govern_start(&w, "");
    govern_run(&w, "--budget 1GiB", "dlsym", "bfc:16M peak");
    govern_expect(&w, "bfc:16M 0");
    CHECK_LE(govern_number(&w, "peak 0 "), 1 << 30);
    CHECK_LE(700 << 20, govern_number(&w, "peak 0 "));
    govern_end(&w);
}

/* ---- the process itself ---- */

TEST(process, errno_and_children_are_left_alone) {
    govern_world w;
    govern_start(&w, "");
    govern_run(&w, "--budget 1GiB", "dlsym", "alloc:500M alloc:900M fork info free");
    govern_expect(&w, "fork 0 0");
    CHECK_EQ(govern_count(&w, "errno"), 0);
    govern_end(&w);
}

TEST(process, a_budget_below_the_context_is_refused_at_once) {
    govern_world w;
    govern_start(&w, "");
    govern_run(&w, "--budget 40MiB", "dlsym", "alloc:1M");
    govern_expect(&w, "start 2");
    govern_end(&w);
}

TEST(process, without_a_job_it_is_as_if_we_were_not_there) {
    govern_world w;
    govern_start(&w, "LD_PRELOAD=" FAKECUDA_ROOT "/libheadroom-run.so");
    govern_shell(&w, "$CALLER dlsym total alloc:3G");
    govern_expect(&w, "total 0 4294967296");
    govern_expect(&w, "alloc:3G 0");
    govern_end(&w);
}

TEST(process, the_library_needs_libc_and_starts_nothing) {
    govern_world w;
    govern_start(&w, "");
    govern_shell(&w, "readelf -dW " FAKECUDA_ROOT "/libheadroom-run.so");
    CHECK_EQ(govern_count(&w, "(NEEDED)"), 1);
    govern_expect(&w, "libc.so.6");
    CHECK_EQ(govern_count(&w, "INIT_ARRAY"), 0);
    CHECK_EQ(govern_count(&w, "FINI_ARRAY"), 0);
    govern_end(&w);
}
