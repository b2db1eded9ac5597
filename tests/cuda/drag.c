/* What copies cost the kernels beside them: shares that are shares, nothing left behind, and a device that fails. */
#include "rig.h"
#include "run/drag.h"
#include "run/node_bytes.h"
#include "training.h"

static void open_one(training *t) {
    training_open(t, "mlp:size=8,width=16", "optimizer=sgd", 4); /* skips without a GPU */
}

TEST(drag, shares_are_of_the_copies_time) {
    training t = {0};
    hri_drag d = {0};
    open_one(&t);
    CHECK_OK(hri_drag_measure(t.engine, 4096, &d));
    CHECK(d.out >= 0 && d.out <= 1 && d.in >= 0 && d.in <= 1);
    CHECK(d.alone_ns > 0 && d.out_ns > 0 && d.in_ns > 0);
    CHECK(d.copy_ns[0] > 0 && d.copy_ns[1] > 0);
    CHECK(d.launches >= 8 && d.launches <= 400);
    training_close(&t);
}

TEST(drag, a_plan_is_made_with_a_margin_and_never_with_copies_for_nothing) {
    const hri_drag dear = {.out = 0.2, .in = 0.4}, all = {.out = 1, .in = 1}, free = {.out = 0};
    CHECK(hri_drag_share(&dear) > 0.3 && hri_drag_share(&dear) < 0.5);
    CHECK(hri_drag_share(&all) == 1);
    CHECK(hri_drag_share(&free) > 0);
}

TEST(drag, what_is_no_gpu_gets_the_share_that_is_known) {
    training t = {0};
    hri_drag d;
    need_fake();
    open_one(&t);
    const hr_status status = hri_drag_measure(t.engine, 0, &d);
    CHECK(status == HR_OK || status == HR_E_UNSUPPORTED);
    const double share = hri_timing_copy_drag(t.timing);
    CHECK(share > 0 && share <= 1);
    CHECK(share == hri_timing_copy_drag(t.timing) || status == HR_OK);
    training_close(&t);
}

TEST(drag, a_speed_is_kept_as_it_was_first_measured) {
    training t = {0};
    hri_timing *timing;
    need_fake();
    open_one(&t);
    const hri_timing_options o = {
        .engine = t.engine, .device = "kept", .flops_per_ns = 1, .bytes_per_ns = 1};
    CHECK_OK(hri_timing_open(&o, &timing));
    CHECK(hri_timing_keep(timing, HRI_TIMING_COPY_OUT, 0) == 0); /* not known, and not kept */
    CHECK(hri_timing_keep(timing, HRI_TIMING_COPY_OUT, 54.5) == 54.5);
    CHECK(hri_timing_keep(timing, HRI_TIMING_COPY_IN, 50) == 50);
    CHECK(hri_timing_keep(timing, HRI_TIMING_COPY_OUT, 54.75) == 54.5);
    CHECK(hri_timing_keep(t.timing, HRI_TIMING_COPY_OUT, 54.75) == 54.75); /* measures nothing */
    hri_timing_close(timing);
    training_close(&t);
}

TEST(drag, a_graph_is_reserved_for_by_what_its_nodes_take) {
    training t = {0};
    uint64_t bytes = UINT64_MAX;
    open_one(&t);
    const uint64_t generous = hri_engine_graph_reserve(t.engine, 1, 600);
    CHECK_OK(hri_node_bytes_measure(t.engine, &bytes));
    CHECK(bytes < 1 << 20);
    hri_engine_set_node_bytes(t.engine, 0);
    const uint64_t least = hri_engine_graph_reserve(t.engine, 1, 600);
    CHECK(least < generous);
    CHECK_EQ(hri_engine_graph_reserve(t.engine, 1, 0), HRI_ENGINE_GRAPH_LEAST);
    CHECK(hri_engine_graph_reserve(t.engine, 3, 600) > least);
    hri_engine_set_node_bytes(t.engine, 64 << 10);
    CHECK(hri_engine_graph_reserve(t.engine, 1, 600) > 600u * (64 << 10));
    training_close(&t);
}

#ifdef HEADROOM_FAULTS
static void sweep(hri_fault_kind kind) {
    training t = {0};
    open_one(&t);
    hri_drag d = {0};
    CHECK_OK(hri_drag_measure(t.engine, 4096, &d)); /* compiled and loaded by now */
    const int64_t allocs = hri_fault_live_allocs();
    uint64_t delivered = 1;
    for (uint64_t n = 1; delivered; n += n + 1) {
        hri_fault_set(kind, n, 0);
        const hr_status status = hri_drag_measure(t.engine, 4096, &d);
        delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        CHECK(status != HR_OK || d.launches > 0);
        CHECK_EQ(hri_fault_live_allocs(), allocs);
    }
    CHECK_OK(hri_drag_measure(t.engine, 4096, &d));
    delivered = 1;
    for (uint64_t n = 1; delivered; n *= 6) {
        uint64_t bytes = 0;
        hri_fault_set(kind, n, 0);
        const hr_status status = hri_node_bytes_measure(t.engine, &bytes);
        delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        CHECK(delivered || status == HR_OK);
        CHECK_EQ(hri_fault_live_allocs(), allocs);
    }
    training_close(&t);
}

TEST(drag, failures_leave_nothing_behind) {
    sweep(HRI_FAULT_ALLOC);
    sweep(HRI_FAULT_LAUNCH);
}
#endif
