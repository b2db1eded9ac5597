/* hr_pipeline_run: a pipeline run for its own sake, by epochs, elements or time. */
#include <headroom/data.h>

#include "test.h"

static hr_pipeline *open_pipeline(const char *text) {
    hr_pipeline *p = NULL;
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 1 << 20, .workers = 1};
    CHECK_OK(hr_pipeline_open(&o, text, NULL, &p));
    return p;
}

static hr_status count(void *user, hr_element *e) {
    CHECK(hr_element_field_count(e) > 0);
    return ++*(int *)user == 5 ? HR_E_CANCELLED : HR_OK;
}

TEST(pipeline_run, an_epoch_is_counted_in_elements_samples_and_bytes) {
    hr_pipeline *p = open_pipeline("synthetic:count=10,shape=4x4x3 | batch(4)");
    hr_pipeline_run_options o = {.size = sizeof o};
    hr_pipeline_run_result r = {.size = sizeof r};
    CHECK_OK(hr_pipeline_run(p, &o, NULL, NULL, &r));
    CHECK_EQ(r.elements, 3);
    CHECK_EQ(r.samples, 10);
    CHECK_EQ(r.epochs, 1);
    CHECK_EQ(r.bytes, 10 * (4 * 4 * 3 + 4));
    CHECK_OK(hr_pipeline_rewind(p));
    o.epochs = 2;
    CHECK_OK(hr_pipeline_run(p, &o, NULL, NULL, &r));
    CHECK_EQ(r.samples, 20);
    CHECK_EQ(r.epochs, 2);
    hr_pipeline_destroy(p);
}

TEST(pipeline_run, it_stops_after_so_many_elements_or_that_time) {
    hr_pipeline *p = open_pipeline("synthetic:count=10,shape=4x4x3");
    hr_pipeline_run_options o = {.size = sizeof o, .elements = 3};
    hr_pipeline_run_result r = {.size = sizeof r};
    CHECK_OK(hr_pipeline_run(p, &o, NULL, NULL, &r));
    CHECK_EQ(r.elements, 3);
    CHECK_EQ(r.epochs, 0);
    o = (hr_pipeline_run_options){.size = sizeof o, .milliseconds = 50};
    CHECK_OK(hr_pipeline_run(p, &o, NULL, NULL, &r));
    CHECK(r.epochs > 1 && r.seconds >= 0.05);
    hr_pipeline_destroy(p);
}

TEST(pipeline_run, whoever_looks_may_end_it) {
    hr_pipeline *p = open_pipeline("synthetic:count=10,shape=4x4x3");
    const hr_pipeline_run_options o = {.size = sizeof o};
    hr_pipeline_run_result r = {.size = sizeof r};
    int seen = 0;
    CHECK_STATUS(hr_pipeline_run(p, &o, count, &seen, &r), HR_E_CANCELLED);
    CHECK_EQ(r.elements, 5);
    const hr_pipeline_run_options unset = {0};
    CHECK_STATUS(hr_pipeline_run(p, &unset, NULL, NULL, &r), HR_E_INVALID);
    hr_pipeline_destroy(p);
}

TEST(pipeline_run, nothing_to_read_is_not_waited_for) {
    hr_pipeline *p = open_pipeline("synthetic:count=10,shape=4x4x3 | skip(10)");
    const hr_pipeline_run_options o = {.size = sizeof o, .milliseconds = 60000};
    hr_pipeline_run_result r = {.size = sizeof r};
    CHECK_OK(hr_pipeline_run(p, &o, NULL, NULL, &r));
    CHECK_EQ(r.elements, 0);
    hr_pipeline_destroy(p);
}
