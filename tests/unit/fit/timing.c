/* Measured times: kept between runs, never required. */
#include <headroom/headroom.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "graph/graph.h"
#include "test.h"
#include "fit/timing.h"

static hr_graph *make_graph(int width) {
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_2(width, 64));
    const hr_value w = hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_2(64, 64), hr_init_normal(1));
    hr_graph_result(g, hr_relu(g, hr_matmul(g, x, w, 0, 0)), "y");
    CHECK_OK(hr_graph_freeze(g));
    return g;
}

static uint64_t time_all(const hr_graph *g, const char *folder, uint64_t most_bytes, double *sum) {
    const hri_timing_options o = {.folder = folder,
                                  .device = "host",
                                  .flops_per_ns = 10,
                                  .bytes_per_ns = 10,
                                  .most_bytes = most_bytes};
    hri_timing *t;
    uint64_t known, measured;
    CHECK_OK(hri_timing_open(&o, &t));
    *sum = 0;
    for (uint32_t n = 0; n < g->node_count; n++) {
        *sum += hri_timing_time(t, &g->nodes[n].sig, 0);
    }
    hri_timing_counts(t, &known, &measured);
    CHECK(known >= measured);
    hri_timing_close(t);
    return measured;
}

static void remove_folder(const char *folder) {
    char command[300];
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    CHECK(system(command) == 0);
}

TEST(timing, a_second_run_measures_nothing_and_says_the_same) {
    char folder[] = "/tmp/headroom-timing-XXXXXX";
    double first, second;
    CHECK(mkdtemp(folder));
    hr_graph *g = make_graph(8);
    CHECK_EQ(time_all(g, folder, 0, &first), 2);
    CHECK(first > 0);
    CHECK_EQ(time_all(g, folder, 0, &second), 0);
    CHECK(first == second);
    hr_graph *other = make_graph(9); /* another shape is another kernel */
    CHECK_EQ(time_all(other, folder, 0, &second), 2);
    hr_graph_destroy(g);
    hr_graph_destroy(other);
    remove_folder(folder);
}

static hri_timing *open_in(const char *folder) {
    const hri_timing_options o = {
        .folder = folder, .device = "host", .flops_per_ns = 10, .bytes_per_ns = 10};
    hri_timing *t;
    CHECK_OK(hri_timing_open(&o, &t));
    return t;
}

static double time_last(hri_timing *t, const hr_graph *g) {
    return hri_timing_time(t, &g->nodes[g->node_count - 1].sig, 0);
}

TEST(timing, two_at_once_keep_what_both_measured) {
    char folder[] = "/tmp/headroom-timing-XXXXXX";
    CHECK(mkdtemp(folder));
    hr_graph *small = make_graph(8), *large = make_graph(9);
    hri_timing *first = open_in(folder), *second = open_in(folder);
    const double both = time_last(first, small), one = time_last(first, large);
    CHECK(both > 0 && one > 0 && time_last(second, small) > 0);
    hri_timing_close(first);
    hri_timing_close(second);
    hri_timing *third = open_in(folder);
    uint64_t known, measured;
    CHECK(time_last(third, small) == both && time_last(third, large) == one);
    hri_timing_counts(third, &known, &measured);
    CHECK_EQ(measured, 0);
    CHECK_EQ(known, 2);
    hri_timing_close(third);
    hr_graph_destroy(small);
    hr_graph_destroy(large);
    remove_folder(folder);
}

TEST(timing, what_is_shared_is_known_to_those_who_go_on_beside_it) {
    char folder[] = "/tmp/headroom-timing-XXXXXX";
    CHECK(mkdtemp(folder));
    hr_graph *small = make_graph(8), *large = make_graph(9);
    hri_timing *first = open_in(folder), *second = open_in(folder);
    uint64_t known, measured;
    const double time = time_last(first, small);
    CHECK(time > 0 && time_last(second, large) > 0);
    hri_timing_share(first);
    hri_timing_share(second);
    CHECK(time_last(second, small) == time);
    hri_timing_counts(second, &known, &measured);
    CHECK_EQ(known, 2);
    CHECK_EQ(measured, 1);
    hri_timing_share(first); /* has nothing new to write, and reads */
    hri_timing_counts(first, &known, &measured);
    CHECK_EQ(known, 2);
    CHECK_EQ(measured, 1);
    hri_timing_close(first);
    hri_timing_close(second);
    hr_graph_destroy(small);
    hr_graph_destroy(large);
    remove_folder(folder);
}

TEST(timing, a_spoiled_cache_is_measured_again) {
    char folder[] = "/tmp/headroom-timing-XXXXXX", command[300];
    double sum;
    CHECK(mkdtemp(folder));
    hr_graph *g = make_graph(8);
    CHECK_EQ(time_all(g, folder, 0, &sum), 2);
    snprintf(command, sizeof command,
             "for f in '%s'/*; do echo '{\"times_ns\": [3, \"x\"' > \"$f\"; done", folder);
    CHECK(system(command) == 0);
    CHECK_EQ(time_all(g, folder, 0, &sum), 2);
    hr_graph_destroy(g);
    remove_folder(folder);
}

TEST(timing, a_folder_that_cannot_be_is_no_failure) {
    double sum;
    hr_graph *g = make_graph(8);
    CHECK_EQ(time_all(g, "/proc/nowhere", 0, &sum), 2);
    CHECK_EQ(time_all(g, "", 0, &sum), 2);
    hr_graph_destroy(g);
}

TEST(timing, what_is_too_large_to_try_is_not_measured) {
    double sum;
    hr_graph *g = make_graph(8);
    CHECK_EQ(time_all(g, "", 1024, &sum), 0);
    hr_graph_destroy(g);
}
