/* What steps take beside what their ops take, kept by one training for the next. */
#include "rig.h"
#include "training.h"

#include <math.h>
#include <stdio.h>

#include "pictures.h"
#include "graph/graph.h"

static const double predicted = 1e6;

static void open_one(training *t) {
    training_open(t, "mlp:size=8,width=16,layers=2", "optimizer=sgd", 8);
    need_fake();
    training_plan(t, 1);
}

static hri_timing *timings(const training *t, const char *folder) {
    hri_timing *timing;
    const hri_timing_options o = {.engine = t->engine,
                                  .folder = folder,
                                  .device = "paced",
                                  .flops_per_ns = 1,
                                  .bytes_per_ns = 1};
    CHECK_OK(hri_timing_open(&o, &timing));
    return timing;
}

/* As the last training of this graph had it. */
static double pace_of(const training *t, const char *folder, const hr_graph *g) {
    hri_timing *timing = timings(t, folder);
    const double pace = hri_timing_take_pace(timing, g);
    hri_timing_close(timing);
    return pace;
}

static void keep(const training *t, const char *folder, const hr_graph *g, double pace) {
    hri_timing *timing = timings(t, folder);
    hri_pace p;
    hri_timing_pace_of(timing, g, predicted, &p);
    hri_timing_close(timing);
    hri_pace_keep(&p, (uint64_t)(pace * predicted));
}

TEST(pace, is_kept_as_it_was_first_measured) {
    training t;
    const char *folder = test_folder();
    open_one(&t);
    const hr_graph *g = t.plans.c->pieces[0].g;
    CHECK(pace_of(&t, folder, g) == 1);
    keep(&t, folder, g, 1.5); /* somebody else used the GPU */
    keep(&t, folder, g, 0.5);
    keep(&t, folder, g, 0); /* too few steps */
    CHECK(pace_of(&t, folder, g) == 1);
    keep(&t, folder, g, 1.03125);
    CHECK(pace_of(&t, folder, g) == 1.03125);
    keep(&t, folder, g, 1.0625);
    CHECK(pace_of(&t, folder, g) == 1.03125);
    training_close(&t);
}

TEST(pace, is_of_one_graph) {
    training t;
    const char *folder = test_folder();
    open_one(&t);
    keep(&t, folder, t.plans.c->pieces[0].g, 1.03125);
    training_close(&t);
    training_open(&t, "mlp:size=8,width=16,layers=3", "optimizer=sgd", 8);
    training_plan(&t, 1);
    CHECK(pace_of(&t, folder, t.plans.c->pieces[0].g) == 1);
    training_close(&t);
}

TEST(pace, makes_all_times_longer) {
    training t;
    const char *folder = test_folder();
    open_one(&t);
    const hr_graph *g = t.plans.c->pieces[0].g;
    hri_timing *timing = timings(&t, folder);
    uint32_t n = 0;
    while (!g->nodes[n].live || g->nodes[n].sig.op->view) {
        n++;
    }
    const double time = hri_timing_time(timing, &g->nodes[n].sig, 0);
    CHECK(time > 0);
    hri_timing_close(timing);
    keep(&t, folder, g, 1.125);
    timing = timings(&t, folder);
    CHECK(hri_timing_take_pace(timing, g) == 1.125);
    CHECK(fabs(hri_timing_time(timing, &g->nodes[n].sig, 0) / time - 1.125) < 1e-9);
    hri_pace p; /* what is kept is over times as they are in the file */
    hri_timing_pace_of(timing, g, 1.125 * predicted, &p);
    CHECK(fabs(p.predicted_ns / predicted - 1) < 1e-9);
    hri_timing_close(timing);
    training_close(&t);
}

TEST(pace, a_step_takes_the_median_once_there_are_enough) {
    training t;
    hri_prose why = {{0}};
    hri_numbers n;
    open_one(&t);
    training_take(&t);
    for (int s = 0; s < 9; s++) {
        CHECK_EQ(hri_planned_step_ns(t.planned), 0);
        CHECK_OK(hri_planned_step(t.planned, &n, &why));
    }
    CHECK(n.busy_ns == 0 || hri_planned_step_ns(t.planned) > 0);
    training_close(&t);
}

TEST(pace, without_timings_nothing_is_kept) {
    training t;
    hri_pace p;
    open_one(&t);
    hri_timing_pace_of(t.timing, t.plans.c->pieces[0].g, predicted, &p); /* measures nothing */
    CHECK(p.predicted_ns == 0);
    hri_pace_keep(&p, (uint64_t)predicted);
    CHECK(hri_timing_take_pace(t.timing, t.plans.c->pieces[0].g) == 1);
    training_close(&t);
}
