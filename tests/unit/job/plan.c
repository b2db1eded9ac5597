/* Planning through the public headers: the verdict, every byte, ways out, printing, files, a trial. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "pictures.h"
#include "test.h"

static hr_ctx *open_ctx(void) {
    hr_ctx *ctx;
    const hr_ctx_options o = {.size = sizeof o, .visible_devices = "", .no_cuda = 1};
    CHECK_OK(hr_ctx_create(&o, &ctx));
    return ctx;
}

/* Of a device that is not there: the same plan on every machine. */
static hr_job_options ask(const char *model, int64_t batch, const char *budget) {
    return (hr_job_options){.size = sizeof(hr_job_options),
                            .model = model,
                            .batch = batch,
                            .budget = budget,
                            .device = "null:1GiB",
                            .device_spec = "page=4KiB",
                            .effort = 200000,
                            .no_measure = 1};
}

static hr_plan_summary summary_of(const hr_plan *p) {
    hr_plan_summary s = {.size = sizeof s};
    CHECK_OK(hr_plan_get_summary(p, &s));
    CHECK_EQ(s.size, sizeof s);
    return s;
}

static hr_plan *plan(hr_ctx *ctx, const char *model, int64_t batch, const char *budget) {
    hr_plan *p = NULL;
    hr_error why = {0};
    const hr_job_options o = ask(model, batch, budget);
    CHECK_OK(hr_job_plan(ctx, &o, &p, &why));
    return p;
}

TEST(job_plan, parts_add_up_and_every_buffer_lies_in_its_memory) {
    hr_ctx *ctx = open_ctx();
    hr_plan *p = plan(ctx, "resnet18:size=32,width=8", 8, "12MiB");
    const hr_plan_summary s = summary_of(p);
    CHECK(s.fits);
    CHECK_EQ(s.peak_bytes, s.runtime_bytes + s.pipeline_bytes + s.persistent_bytes + s.arena_bytes);
    CHECK_EQ(s.persistent_bytes,
             s.parameter_bytes + s.state_bytes + s.constant_bytes + s.other_jobs_bytes);
    CHECK_LE(s.peak_bytes, s.budget_bytes);
    CHECK_LE(s.minimum_bytes, s.peak_bytes);
    CHECK(s.graph_count >= 1 && s.memory_count >= 1 && s.way_count == 0 && s.largest_batch == -1);
    hr_plan_memory arena = {.size = sizeof arena}, none = {.size = sizeof none};
    CHECK_OK(hr_plan_get_memory(p, 0, &arena));
    CHECK_EQ(arena.bytes, s.persistent_bytes + s.arena_bytes);
    CHECK_STATUS(hr_plan_get_memory(p, 1, &none), HR_E_EOF);
    for (size_t g = 0; g < s.graph_count; g++) {
        hr_plan_graph graph = {.size = sizeof graph};
        hr_plan_buffer b = {.size = sizeof b};
        uint32_t count = 0;
        CHECK_OK(hr_plan_get_graph(p, g, &graph));
        CHECK(graph.graph && graph.samples > 0);
        for (; hr_plan_get_buffer(p, g, count, &b) == HR_OK; count++) {
            CHECK_LE(b.offset + b.bytes, arena.bytes);
            CHECK_LE(b.first, b.last);
            CHECK(b.last < graph.action_count || b.last == UINT32_MAX - 1);
        }
        CHECK_EQ(count, graph.buffer_count);
    }
    CHECK_OK(hr_plan_check(p, NULL));
    hr_plan_destroy(p);
    hr_ctx_destroy(ctx);
}

TEST(job_plan, actions_have_times_that_rise_and_a_peak_that_is_the_largest) {
    hr_ctx *ctx = open_ctx();
    hr_plan *p = plan(ctx, "resnet18:size=32,width=8", 8, "12MiB");
    hr_plan_graph g = {.size = sizeof g};
    hr_plan_action a = {.size = sizeof a};
    CHECK_OK(hr_plan_get_graph(p, 0, &g));
    double last = 0;
    uint64_t most = 0, at_peak = 0, again = 0;
    for (uint32_t i = 0; i < g.action_count; i++) {
        CHECK_OK(hr_plan_get_action(p, 0, i, &a));
        CHECK(a.kind != HR_PLAN_RUN || (a.begin_ns >= last && a.end_ns >= a.begin_ns));
        CHECK(a.name[0] && a.op_kind[0] && (a.operand_count || a.kind == HR_PLAN_WAIT));
        last = a.kind == HR_PLAN_RUN ? a.end_ns : last;
        most = a.live_bytes > most ? a.live_bytes : most;
        at_peak = i == g.peak_action ? a.live_bytes : at_peak;
        again += a.recomputed != 0;
    }
    CHECK_STATUS(hr_plan_get_action(p, 0, g.action_count, &a), HR_E_EOF);
    CHECK_EQ(at_peak, most);
    CHECK(fabs(last - g.time_ns) <= g.time_ns * 1e-9 + 1);
    const hr_plan_summary s = summary_of(p);
    uint64_t more = 0;
    hr_plan_value v = {.size = sizeof v};
    for (size_t i = 0; hr_plan_get_value(p, 0, i, &v) == HR_OK; i++) {
        more += v.made > 1;
    }
    CHECK((s.recomputed_ops > 0) == (more > 0) || s.micro_batches > 1);
    CHECK((again > 0) == (more > 0));
    hr_plan_destroy(p);
    hr_ctx_destroy(ctx);
}

TEST(job_plan, a_refusal_has_the_minimum_and_ways_that_fit_when_they_are_taken) {
    hr_ctx *ctx = open_ctx();
    hr_plan *p = plan(ctx, "mlp:size=8,width=32", 64, "40KiB");
    const hr_plan_summary s = summary_of(p);
    hr_plan_graph g = {.size = sizeof g};
    hr_error why = {0};
    CHECK(!s.fits && s.proven && s.minimum_bytes > s.budget_bytes && s.minimum_op[0]);
    CHECK(s.way_count >= 1 && s.smallest_bytes >= s.minimum_bytes);
    CHECK_STATUS(hr_plan_get_graph(p, 0, &g), HR_E_NOT_FOUND);
    CHECK_STATUS(hr_plan_save(p, "nowhere", &why), HR_E_NOT_FOUND);
    CHECK_STATUS(hr_job_try(p, 1, NULL, NULL, &why), HR_E_NO_PLAN);
    CHECK_EQ(why.cause, HR_CAUSE_NO_FIT);
    for (size_t i = 0; i < s.way_count; i++) {
        hr_plan_way w = {.size = sizeof w};
        const char *key = NULL, *value = NULL;
        hr_plan *other = NULL;
        CHECK_OK(hr_plan_get_way(p, i, &w));
        CHECK(w.change_count >= 1 && w.effect[0]);
        CHECK_OK(hr_plan_get_way_change(p, i, w.change_count - 1, &key, &value));
        CHECK(key[0] && value[0]);
        CHECK_STATUS(hr_plan_get_way_change(p, i, w.change_count, &key, &value), HR_E_EOF);
        CHECK_OK(hr_job_plan_way(p, i, &other, &why));
        CHECK(summary_of(other).fits);
        CHECK_LE(summary_of(other).peak_bytes, w.budget_bytes);
        hr_plan_destroy(other);
    }
    CHECK_STATUS(hr_job_plan_way(p, s.way_count, &p, &why), HR_E_NOT_FOUND);
    hr_plan_destroy(p);
    hr_ctx_destroy(ctx);
}

TEST(job_plan, exploring_adds_answers_and_keeps_the_plan) {
    hr_ctx *ctx = open_ctx();
    hr_plan *p = plan(ctx, "mlp:size=8,width=32", 64, "1MiB");
    const hr_plan_summary before = summary_of(p);
    CHECK_OK(hr_job_explore(p, HR_EXPLORE_BATCH | HR_EXPLORE_CHOICES | HR_EXPLORE_CURVE, NULL));
    const hr_plan_summary s = summary_of(p);
    CHECK(s.largest_batch > 64 && s.choice_count >= 2 && s.curve_count >= 2);
    CHECK(s.fingerprint == before.fingerprint && s.graph_count == before.graph_count);
    hr_plan_choice last = {.size = sizeof last}, c = {.size = sizeof c};
    CHECK_OK(hr_plan_get_curve(p, 0, &last));
    for (size_t i = 1; hr_plan_get_curve(p, i, &c) == HR_OK; i++) {
        CHECK(c.budget_bytes >= last.budget_bytes && c.time_ratio <= last.time_ratio + 1e-9);
        last = c;
    }
    CHECK_OK(hr_plan_check(p, NULL));
    hr_plan_destroy(p);
    hr_ctx_destroy(ctx);
}

static hr_status collect(void *user, const char *text, size_t bytes) {
    char *to = user;
    const size_t used = strlen(to);
    if (used + bytes < 1 << 20) {
        memcpy(to + used, text, bytes);
        to[used + bytes] = 0;
    }
    return HR_OK;
}

static hr_status refuse(void *user, const char *text, size_t bytes) {
    (void)text;
    (void)bytes;
    ++*(int *)user;
    return HR_E_CANCELLED;
}

TEST(job_plan, prints_text_json_pictures_and_its_problem) {
    static const struct {
        int32_t format;
        const char *has;
    } forms[] = {{HR_PLAN_TEXT, "peak"},       {HR_PLAN_JSON, "\"floor_bytes\""},
                 {HR_PLAN_CURVE_SVG, "<svg"},  {HR_PLAN_MAP_SVG, "<svg"},
                 {HR_PLAN_PROBLEM, "\"ops\""}, {HR_PLAN_DOT, "digraph"}};
    char *text = calloc(1, 1 << 20);
    hr_ctx *ctx = open_ctx();
    hr_plan *p = plan(ctx, "mlp:size=8,width=32", 64, "1MiB");
    CHECK_STATUS(hr_plan_print(p, HR_PLAN_CURVE_SVG, 0, collect, text), HR_E_NOT_FOUND);
    CHECK_OK(hr_job_explore(p, HR_EXPLORE_CURVE, NULL));
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        int calls = 0;
        text[0] = 0;
        CHECK_OK(hr_plan_print(p, forms[i].format, 40, collect, text));
        CHECK(strstr(text, forms[i].has));
        CHECK(!strchr(text, '\033'));
        CHECK_STATUS(hr_plan_print(p, forms[i].format, 0, refuse, &calls), HR_E_CANCELLED);
        CHECK_EQ(calls, 1);
    }
    CHECK_STATUS(hr_plan_print(p, 99, 0, collect, text), HR_E_INVALID);
    hr_plan_destroy(p);
    hr_ctx_destroy(ctx);
    free(text);
}

TEST(job_plan, a_saved_plan_is_used_and_one_of_another_job_is_not) {
    char path[600];
    hr_ctx *ctx = open_ctx();
    hr_error why = {0};
    hr_plan *p = plan(ctx, "mlp:size=8,width=32", 64, "1MiB"), *again = NULL;
    snprintf(path, sizeof path, "%s/plan.json", test_folder());
    CHECK_OK(hr_plan_save(p, path, &why));
    hr_job_options o = ask("mlp:size=8,width=32", 64, "1MiB");
    o.plan_file = path;
    CHECK_OK(hr_job_plan(ctx, &o, &again, &why));
    CHECK_EQ(summary_of(again).fingerprint, summary_of(p).fingerprint);
    hr_plan_destroy(again);
    o.batch = 32;
    CHECK_STATUS(hr_job_plan(ctx, &o, &again, &why), HR_E_INVALID);
    CHECK_EQ(why.cause, HR_CAUSE_USAGE);
    CHECK(!strncmp(why.message, "plan_file", (size_t)why.option_bytes));
    hr_plan_destroy(p);
    hr_ctx_destroy(ctx);
}

TEST(job_plan, mistakes_have_a_sentence_a_cause_and_the_option) {
    static const struct {
        const char *model, *budget, *device, *option;
        hr_status status;
    } cases[] = {{"nosuch", "1MiB", "host", "", HR_E_NOT_FOUND},
                 {"mlp", "lots", "null:1GiB", "budget", HR_E_INVALID},
                 {"mlp", "1MiB", "null:much", "device", HR_E_INVALID},
                 {"mlp", "1MiB", "cuda:7", "", HR_E_NOT_FOUND},
                 {NULL, "1MiB", "host", "model", HR_E_INVALID}};
    hr_ctx *ctx = open_ctx();
    hr_plan *p = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        hr_job_options o = ask(cases[i].model, 4, cases[i].budget);
        hr_error why = {0};
        o.device = cases[i].device;
        CHECK_STATUS(hr_job_plan(ctx, &o, &p, &why), cases[i].status);
        CHECK(p == NULL && why.message[0]);
        CHECK_EQ(why.cause, HR_CAUSE_USAGE);
        CHECK_EQ((size_t)why.option_bytes, strlen(cases[i].option));
        CHECK(!strncmp(why.message, cases[i].option, strlen(cases[i].option)));
        CHECK_STATUS(hr_job_plan(ctx, &o, &p, NULL), cases[i].status);
    }
    hr_job_options o = ask("mlp", 4, "1MiB");
    o.size = 0;
    CHECK_STATUS(hr_job_plan(ctx, &o, &p, NULL), HR_E_INVALID);
    hr_ctx_destroy(ctx);
}

/* A program has options, not flags: sentences name them as job.h does, and the command spells them as it is typed. */
#ifdef HEADROOM_FAULTS
TEST(job_plan, threads_that_cannot_be_started_are_told_as_such) {
    hr_ctx *ctx = open_ctx();
    hr_plan *p = NULL;
    hr_error why = {0};
    const hr_job_options o = {.size = sizeof o,
                              .model = "mlp",
                              .batch = 4,
                              .budget = "1GiB",
                              .threads = 3,
                              .no_measure = 1};
    hri_fault_set(HRI_FAULT_THREAD, 2, 0);
    CHECK_STATUS(hr_job_plan(ctx, &o, &p, &why), HR_E_NOMEM_HOST);
    hri_fault_set(HRI_FAULT_THREAD, 0, 0);
    CHECK(!p && strstr(why.message, "3 threads cannot be started") &&
          strstr(why.message, "pids.max"));
    hr_ctx_destroy(ctx);
}
#endif

TEST(job_plan, sentences_name_options_not_flags) {
    hr_ctx *ctx = open_ctx();
    hr_plan *p = NULL;
    hr_error why = {0};
    hr_job_options o = ask("resnet18:size=32", 4, "1GiB");
    o.micro_batches = 2;
    CHECK_STATUS(hr_job_plan(ctx, &o, &p, &why), HR_E_INVALID);
    CHECK(strstr(why.message, "; `split_norm` allows it") && !strstr(why.message, "--"));
    o = ask("mlp", 4, "1GiB");
    o.device = NULL;
    o.data = "synthetic:count=8";
    o.val_data = o.data;
    o.val_split = 0.5;
    CHECK_STATUS(hr_job_plan(ctx, &o, &p, &why), HR_E_INVALID);
    CHECK_STR(why.message, "`val_data` and `val_split` cannot be combined");
    hr_ctx_destroy(ctx);
}

typedef struct heard {
    int warnings, ticks, cancel_at;
    char last[256];
} heard;

static hr_status listen(void *user, const hr_job_event *e) {
    heard *h = user;
    h->warnings += e->kind == HR_EVENT_WARNING;
    if (e->kind == HR_EVENT_WARNING) {
        snprintf(h->last, sizeof h->last, "%s", e->text);
        CHECK_STR(e->option, "budget");
    }
    h->ticks += e->kind == HR_EVENT_TICK;
    return h->cancel_at && h->ticks == h->cancel_at ? HR_E_CANCELLED : HR_OK;
}

TEST(job_plan, warnings_reach_the_callback_and_it_can_cancel) {
    hr_ctx *ctx = open_ctx();
    hr_plan *p = NULL;
    heard h = {0};
    hr_error why = {0};
    hr_job_options o = ask("mlp:size=8,width=32", 64, "2GiB");
    o.on_event = listen;
    o.user = &h;
    CHECK_OK(hr_job_plan(ctx, &o, &p, &why));
    CHECK(h.warnings == 1 && h.ticks >= 2 && strstr(h.last, "exceeds"));
    hr_plan_destroy(p);
    p = NULL;
    h = (heard){.cancel_at = 2};
    CHECK_STATUS(hr_job_plan(ctx, &o, &p, &why), HR_E_CANCELLED);
    CHECK(p == NULL && why.cause == HR_CAUSE_CANCELLED);
    h = (heard){.cancel_at = 4}; /* in the middle of planning */
    CHECK_STATUS(hr_job_plan(ctx, &o, &p, &why), HR_E_CANCELLED);
    CHECK(p == NULL && why.cause == HR_CAUSE_CANCELLED);
    hr_ctx_destroy(ctx);
}

TEST(job_plan, a_shared_budget_leaves_what_others_were_not_granted) {
    hr_ctx *ctx = open_ctx();
    hr_plan *p = NULL;
    hr_budget *ledger;
    hr_lease *lease;
    hr_error why = {0};
    CHECK_OK(hr_budget_create(ctx, "host=64MiB", &ledger, &why));
    const hr_lease_options lo = {
        .size = sizeof lo, .name = "other", .wanted_bytes = 24 << 20, .wait_ms = 0};
    CHECK_OK(hr_lease_request(ledger, &lo, &lease, &why));
    hr_job_options o = ask("mlp:size=8,width=32", 16, NULL);
    o.device = "host";
    o.device_spec = NULL;
    o.threads = 1;
    o.ledger = ledger;
    CHECK_OK(hr_job_plan(ctx, &o, &p, &why));
    CHECK_EQ(summary_of(p).budget_bytes, 40 << 20);
    hr_plan_destroy(p);
    o.budget = "32MiB";
    CHECK_OK(hr_job_plan(ctx, &o, &p, &why));
    CHECK_EQ(summary_of(p).budget_bytes, 32 << 20);
    hr_plan_destroy(p);
    hr_lease_release(lease);
    CHECK_OK(hr_budget_destroy(ledger));
    hr_ctx_destroy(ctx);
}

TEST(job_plan, a_trial_stays_inside_and_uses_the_plan_up) {
    hr_ctx *ctx = open_ctx();
    hr_plan *p = NULL;
    hr_error why = {0};
    float losses[3] = {0};
    hr_try_result r = {.size = sizeof r};
    hr_plan_graph g = {.size = sizeof g};
    hr_job_options o = ask("mlp:size=8,width=32,classes=10", 16, "512MiB");
    o.device = "host";
    o.device_spec = NULL;
    o.threads = 1;
    CHECK_OK(hr_job_plan(ctx, &o, &p, &why));
    CHECK_OK(hr_plan_get_graph(p, 0, &g));
    CHECK_OK(hr_job_try(p, 3, losses, &r, &why));
    CHECK_EQ(r.steps, 3);
    CHECK_EQ(r.planned_arena_bytes, r.measured_arena_bytes);
    CHECK(losses[0] > 0 && isfinite(losses[2]));
    CHECK_STATUS(hr_plan_get_graph(p, 0, &g), HR_E_NOT_FOUND);
    CHECK(summary_of(p).fits);
    CHECK_STATUS(hr_job_try(p, 3, losses, &r, &why), HR_E_BUSY);
    CHECK_STATUS(hr_job_explore(p, HR_EXPLORE_CHOICES, &why), HR_E_BUSY);
    hr_plan_destroy(p);
    hr_ctx_destroy(ctx);
}

TEST(job_plan, a_problem_of_another_system_is_planned_and_refused_alike) {
    static const char text[] =
        "{\"version\": 1, \"name\": \"small\", \"align\": 64, \"values\": ["
        "{\"name\": \"x\", \"bytes\": 640, \"role\": \"input\"},"
        "{\"name\": \"y\", \"bytes\": 1280, \"role\": \"made\", \"result\": true}],"
        "\"ops\": [{\"name\": \"f\", \"kind\": \"f\", \"phase\": \"forward\", \"inputs\": [0],"
        "\"outputs\": [{\"value\": 1}], \"variants\": [{\"time_ns\": 10}]}]}";
    hr_plan *p = NULL;
    hr_error why = {0};
    hr_problem_options o = {.size = sizeof o, .text = text, .text_bytes = 12};
    CHECK(hr_plan_problem(&o, &p, &why) != HR_OK);
    CHECK(p == NULL && why.message[0]);
    hr_ctx *ctx = open_ctx();
    hr_plan *of_model = plan(ctx, "mlp:size=8,width=32", 64, "1MiB");
    char *problem = calloc(1, 1 << 20);
    CHECK_OK(hr_plan_print(of_model, HR_PLAN_PROBLEM, 0, collect, problem));
    o = (hr_problem_options){.size = sizeof o,
                             .text = problem,
                             .text_bytes = strlen(problem),
                             .budget = "1MiB",
                             .effort = 100000};
    CHECK_OK(hr_plan_problem(&o, &p, &why));
    CHECK(summary_of(p).fits && summary_of(p).graph_count == 1);
    CHECK_OK(hr_plan_check(p, &why));
    hr_plan_destroy(p);
    o.budget = "1KiB";
    CHECK_OK(hr_plan_problem(&o, &p, &why));
    CHECK(!summary_of(p).fits && summary_of(p).way_count == 1);
    hr_plan_destroy(p);
    hr_plan_destroy(of_model);
    hr_ctx_destroy(ctx);
    free(problem);
}
