/* One budget for a whole program: a run on a device and an input pipeline hold leases of the same ledger. */
#include <headroom/headroom.h>

#include <string.h>

#include "test.h"

#define MIB (UINT64_C(1) << 20)

enum { ROWS = 256, WIDTH = 64 };

static hr_ctx *open_context(void) {
    const hr_ctx_options o = {.size = sizeof o, .visible_devices = "", .no_cuda = 1};
    hr_ctx *ctx;
    CHECK_OK(hr_ctx_create(&o, &ctx));
    return ctx;
}

static hr_graph *make_graph(void) {
    hr_graph *g;
    CHECK_OK(hr_graph_create(&g));
    const hr_value x = hr_graph_input(g, "x", HR_TYPE_F32, hr_shape_2(ROWS, WIDTH));
    const hr_value w =
        hr_graph_param(g, "w", HR_TYPE_F32, hr_shape_2(WIDTH, WIDTH), hr_init_normal(0.1));
    hr_graph_result(g, hr_relu(g, hr_matmul(g, x, w, 0, 0)), "y");
    CHECK_OK(hr_graph_freeze(g));
    return g;
}

static hr_status open_run(hr_ctx *ctx, hr_budget *budget, const hr_graph *g, hr_run **out,
                          hr_error *why) {
    hr_device *host;
    CHECK_OK(hr_device_find(ctx, "host", &host));
    const hr_run_options o = {.size = sizeof o,
                              .device = host,
                              .graphs = &g,
                              .graph_count = 1,
                              .threads = 1,
                              .budget = budget};
    return hr_run_open(&o, out, why);
}

static hr_lease_info lease_of(hr_budget *budget, const char *pool, size_t index) {
    hr_lease_info info = {.size = sizeof info};
    CHECK_OK(hr_budget_get_lease(budget, pool, index, &info));
    return info;
}

/* Elements of so many bytes, numbered. */
static hr_pipeline *open_pipeline(hr_budget *budget, uint64_t bytes, const char *text) {
    const hr_pipeline_options o = {
        .size = sizeof o, .budget_bytes = bytes, .workers = 1, .budget = budget};
    hr_pipeline *p;
    CHECK_OK(hr_pipeline_create(&o, &p));
    CHECK_OK(hr_pipeline_add(p, text));
    CHECK_OK(hr_pipeline_build(p));
    return p;
}

TEST(one_budget, a_run_and_a_pipeline_hold_leases_of_one_ledger) {
    hr_ctx *ctx = open_context();
    hr_graph *g = make_graph();
    hr_budget *budget;
    hr_run *run;
    hr_run_report report = {.size = sizeof report};
    hr_error why = {.code = HR_OK};
    CHECK_OK(hr_budget_create(ctx, "host=400MiB,input=32MiB", &budget, &why));
    hr_pipeline *p = open_pipeline(budget, 8 * MIB, "range(100)|batch(4)");
    CHECK_OK(open_run(ctx, budget, g, &run, &why));
    CHECK_OK(hr_run_get_report(run, &report));
    const hr_lease_info input = lease_of(budget, "input", 0), runtime = lease_of(budget, "host", 1),
                        run_lease = lease_of(budget, "host", 2);
    CHECK_EQ(input.granted_bytes, 8 * MIB);
    CHECK(!strcmp(runtime.name, "runtime") && !strcmp(run_lease.name, "run"));
    CHECK_EQ(runtime.granted_bytes + run_lease.granted_bytes, report.peak_bytes);
    CHECK_EQ(runtime.held_bytes + run_lease.held_bytes, report.peak_bytes);
    CHECK_EQ(report.budget_bytes, 392 * MIB); /* what the pipeline left of it */
    CHECK_OK(hr_budget_check(budget));
    CHECK_STATUS(hr_budget_destroy(budget), HR_E_BUSY);
    hr_run_close(run);
    hr_pipeline_destroy(p);
    CHECK_OK(hr_budget_check(budget));
    CHECK_OK(hr_budget_destroy(budget));
    hr_graph_destroy(g);
    hr_ctx_destroy(ctx);
}

TEST(one_budget, what_is_not_granted_is_not_taken) {
    hr_ctx *ctx = open_context();
    hr_graph *g = make_graph();
    hr_budget *budget;
    hr_lease *other;
    hr_run *run = NULL;
    hr_pipeline *p = NULL;
    hr_error why = {.code = HR_OK};
    CHECK_OK(hr_budget_create(ctx, "host=400MiB,input=32MiB", &budget, &why));
    const hr_lease_options all = {
        .size = sizeof all, .name = "somebody else", .wanted_bytes = 400 * MIB};
    CHECK_OK(hr_lease_request(budget, &all, &other, &why));
    CHECK_STATUS(open_run(ctx, budget, g, &run, &why), HR_E_AGAIN);
    CHECK(!run && strstr(why.message, "host"));
    const hr_pipeline_options o = {
        .size = sizeof o, .budget_bytes = MIB, .workers = 1, .budget = budget};
    CHECK_STATUS(hr_pipeline_create(&o, &p), HR_E_AGAIN);
    hr_lease_release(other);
    const hr_pipeline_options large = {
        .size = sizeof large, .budget_bytes = 64 * MIB, .workers = 1, .budget = budget};
    CHECK_STATUS(hr_pipeline_create(&large, &p), HR_E_LIMIT);
    CHECK(!p);
    CHECK_OK(open_run(ctx, budget, g, &run, &why));
    hr_run_close(run);
    CHECK_OK(hr_budget_destroy(budget));
    hr_graph_destroy(g);
    hr_ctx_destroy(ctx);
}

TEST(one_budget, a_pipeline_shrinks_when_it_is_asked_and_goes_on) {
    hr_ctx *ctx = open_context();
    hr_budget *budget;
    hr_error why = {.code = HR_OK};
    uint64_t elements = 0;
    CHECK_OK(hr_budget_create(ctx, "host=400MiB,input=32MiB", &budget, &why));
    hr_pipeline *p = open_pipeline(budget, 32 * MIB, "range(1000)|batch(4)|prefetch");
    for (hr_status status = HR_OK; status == HR_OK;) {
        hr_element *e;
        status = hr_pipeline_next(p, &e);
        if (status == HR_OK) {
            hr_element_unref(e);
            elements++;
        } else {
            CHECK_STATUS(status, HR_E_EOF);
        }
        if (elements == 10) { /* what others need */
            CHECK_STATUS(hr_budget_set_limit(budget, "input", 4 * MIB), HR_E_AGAIN);
        } else if (elements == 100) {
            const hr_lease_info now = lease_of(budget, "input", 0);
            CHECK_LE(now.granted_bytes, 32 * MIB - 1);
            CHECK_EQ(now.held_bytes, now.granted_bytes);
        }
        CHECK_OK(hr_budget_check(budget));
    }
    CHECK_EQ(elements, 250);
    hr_pipeline_destroy(p);
    CHECK_OK(hr_budget_destroy(budget));
    hr_ctx_destroy(ctx);
}

TEST(one_budget, a_pipeline_states_its_minimum_when_less_would_stop_it) {
    hr_ctx *ctx = open_context();
    hr_budget *budget;
    hr_error why = {.code = HR_OK};
    hr_element *e;
    CHECK_OK(hr_budget_create(ctx, "host=400MiB", &budget, &why));
    hr_pipeline *p = open_pipeline(budget, 16 * MIB, "range(1000)|batch(4)");
    CHECK_OK(hr_budget_ask(budget, "input", "input pipeline", 1));
    CHECK_OK(hr_pipeline_next(p, &e));
    hr_element_unref(e);
    CHECK_OK(hr_pipeline_next(p, &e));
    hr_element_unref(e);
    const hr_lease_info now = lease_of(budget, "input", 0);
    CHECK(now.asked_bytes == HR_UNKNOWN && now.granted_bytes > 1);
    CHECK_LE(now.granted_bytes, MIB);
    CHECK_EQ(now.least_bytes, now.granted_bytes);
    hr_pipeline_destroy(p);
    CHECK_OK(hr_budget_destroy(budget));
    hr_ctx_destroy(ctx);
}
