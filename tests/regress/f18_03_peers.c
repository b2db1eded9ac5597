/* Several GPUs of one process: plans knew one speed between them, that of threads on a host, whatever connects them. */

#include "program.h"
#include "test.h"

#define FAKE                                                                                       \
    "export LD_LIBRARY_PATH=" FAKECUDA_ROOT "/fakecuda FAKECUDA_STATE=$PWD/state "                 \
    "FAKECUDA_DEVICES=2 FAKECUDA_MODEL=Fake HEADROOM_BROKER=off HEADROOM_CACHE_DIR=$PWD/cache "    \
    "ASAN_OPTIONS=detect_leaks=0; test -e " FAKECUDA_ROOT "/fakecuda/libcuda.so.1 || exit 77; "
#define JOB                                                                                        \
    "$HEADROOM plan 'net: input(64,classes=4) | dense(48) | relu | dense(classes)' --batch 8 "     \
    "--micro-batches 2 --replicas 2 --devices cuda:0,cuda:1 --budget 1GiB --no-measure "           \
    "--no-choices --json"

/* Nanoseconds of all exchanges of a step, as planned. */
static double net_ns(const char *peers) {
    program_outcome o = program_run(&(program_options){.seconds = 60, .as_shell = 1},
                                    FAKE "FAKECUDA_PEERS=%s " JOB, peers);
    if (o.code == 77) {
        program_end(&o);
        test_skip("no fake driver");
    }
    program_expect(&o, 0, NULL);
    const double ns = program_number(&o, "net_ns");
    program_end(&o);
    return ns;
}

TEST_TIMEOUT(f18_03_peers, are_planned_by_what_connects_them, 120) {
    const double nvlink = net_ns("all"), pcie = net_ns("pcie"), host = net_ns("none");
    CHECK(nvlink > 0 && nvlink < pcie && pcie < host);
}
