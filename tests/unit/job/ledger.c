/* Jobs of one program under one ledger: each leases what its plan promises, the runtime counts once, whoever comes too late
 * is told who holds the memory and may come again, and what others can do without is asked for. */
#include <headroom/headroom.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pictures.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)

typedef struct rig {
    hr_ctx *ctx;
    hr_budget *ledger;
    char warned[512];
} rig;

static hr_status on_event(void *user, const hr_job_event *e) {
    rig *r = user;
    if (e->kind == HR_EVENT_WARNING) {
        snprintf(r->warned, sizeof r->warned, "%s", e->text);
    }
    return HR_OK;
}

static void rig_open(rig *r) {
    const hr_ctx_options co = {.size = sizeof co, .no_cuda = 1};
    hr_error why = {0};
    *r = (rig){0};
    CHECK_OK(hr_ctx_create(&co, &r->ctx));
    CHECK_OK(hr_budget_create(r->ctx, NULL, &r->ledger, &why));
}

static hr_pool_info pool_of(rig *r, const char *name) {
    hr_pool_info info = {.size = sizeof info};
    for (size_t i = 0; hr_budget_get_pool(r->ledger, i, &info) == HR_OK; i++) {
        if (!strcmp(info.name, name)) {
            return info;
        }
        info.size = sizeof info;
    }
    return (hr_pool_info){0};
}

static uint64_t lease_of(rig *r, const char *pool, const char *name) {
    hr_lease_info info = {.size = sizeof info};
    for (size_t i = 0; hr_budget_get_lease(r->ledger, pool, i, &info) == HR_OK; i++) {
        if (!strcmp(info.name, name)) {
            return info.granted_bytes;
        }
        info.size = sizeof info;
    }
    return 0;
}

static void rig_close(rig *r) {
    CHECK_EQ(pool_of(r, "host").granted_bytes, 0);
    CHECK_OK(hr_budget_check(r->ledger));
    CHECK_OK(hr_budget_destroy(r->ledger));
    hr_ctx_destroy(r->ctx);
}

static hr_job_options job(rig *r, const char *name) {
    return (hr_job_options){.size = sizeof(hr_job_options),
                            .name = name,
                            .model = "mlp:size=8,width=256,layers=4,classes=3",
                            .data = "synthetic:count=64",
                            .batch = 16,
                            .steps = 4,
                            .micro_batches = 1,
                            .threads = 1,
                            .effort = 1000,
                            .no_measure = 1,
                            .cache = "",
                            .ledger = r->ledger,
                            .on_event = on_event,
                            .user = r};
}

static hr_plan *plan_of(rig *r, const hr_job_options *o) {
    hr_plan *p = NULL;
    hr_error why = {0};
    if (hr_job_plan(r->ctx, o, &p, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return p;
}

static hr_plan_summary summary_of(const hr_plan *p) {
    hr_plan_summary s = {.size = sizeof s};
    CHECK_OK(hr_plan_get_summary(p, &s));
    return s;
}

static hr_trainer *open_trainer(hr_plan *p) {
    hr_trainer *t = NULL;
    hr_error why = {0};
    if (hr_trainer_open(p, 0, &t, &why) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.message);
    }
    return t;
}

static void run_to_end(hr_trainer *t) {
    hr_error why = {0};
    while (hr_trainer_end(t) == HR_END_RUNNING) {
        CHECK_OK(hr_trainer_advance(t, &why));
        usleep(0);
    }
}

/* Numbers of the whole process: ThreadSanitizer's own memory grows with what is touched. */
#ifdef __SANITIZE_THREAD__
#define NEED_OWN_MEMORY() test_skip("the resident set holds the sanitizer's own memory")
#else
#define NEED_OWN_MEMORY() ((void)0)
#endif

TEST(job_ledger, two_trainings_hold_leases_and_the_runtime_counts_once) {
    NEED_OWN_MEMORY();
    rig r;
    rig_open(&r);
    hr_job_options a = job(&r, "a"), b = job(&r, "b");
    hr_plan *pa = plan_of(&r, &a);
    const uint64_t runtime = lease_of(&r, "host", "runtime");
    CHECK(runtime > 0 && !lease_of(&r, "host", "a")); /* planning leases nothing else */
    hr_trainer *ta = open_trainer(pa);
    const uint64_t own = lease_of(&r, "host", "a"), input = pool_of(&r, "input").granted_bytes;
    CHECK_EQ(runtime + own + input, summary_of(pa).peak_bytes);
    CHECK(input > 0);
    hr_plan *pb = plan_of(&r, &b);
    hr_trainer *tb = open_trainer(pb);
    CHECK(lease_of(&r, "host", "b") > 0);
    /* what the first holds is no runtime of the second; some pages of code may have come in between */
    CHECK_LE(lease_of(&r, "host", "runtime"), runtime + own / 2 + 2 * MIB);
    CHECK_OK(hr_budget_check(r.ledger));
    run_to_end(ta);
    run_to_end(tb);
    hr_train_result ra = {.size = sizeof ra}, rb = {.size = sizeof rb};
    CHECK_OK(hr_job_get_result(pa, 0, &ra));
    CHECK_OK(hr_job_get_result(pb, 0, &rb));
    CHECK(ra.history == rb.history && !ra.over_budget && !rb.over_budget);
    hr_trainer_close(ta);
    hr_trainer_close(tb);
    hr_plan_destroy(pa);
    CHECK(lease_of(&r, "host", "runtime") > 0); /* the other one is still there */
    hr_plan_destroy(pb);
    rig_close(&r);
}

TEST(job_ledger, who_comes_too_late_is_told_who_holds_it_and_may_come_again) {
    rig r;
    rig_open(&r);
    hr_job_options a = job(&r, "early bird"), b = job(&r, "late one");
    a.budget = b.budget = NULL;
    hr_plan *pa = plan_of(&r, &a), *pb = plan_of(&r, &b), *pc;
    hr_trainer *ta = open_trainer(pa), *tb = NULL;
    hr_error why = {0};
    /* planned side by side, and there is room for one */
    CHECK_OK(hr_budget_set_limit(r.ledger, "host", pool_of(&r, "host").granted_bytes + MIB / 4));
    CHECK_STATUS(hr_trainer_open(pb, 0, &tb, &why), HR_E_AGAIN);
    CHECK(!tb && strstr(why.message, "early bird") && why.cause == HR_CAUSE_NO_FIT);
    /* planned now, it is refused before it is opened */
    b.name = "third";
    pc = plan_of(&r, &b);
    CHECK(!summary_of(pc).fits && strstr(r.warned, "early bird"));
    CHECK_STATUS(hr_trainer_open(pc, 0, &tb, &why), HR_E_NO_PLAN);
    hr_plan_destroy(pc);
    hr_trainer_close(ta);
    hr_plan_destroy(pa);
    tb = open_trainer(pb); /* the plan is as good as it was */
    run_to_end(tb);
    hr_trainer_close(tb);
    hr_plan_destroy(pb);
    rig_close(&r);
}

static void *close_soon(void *plan) {
    usleep(150000);
    hr_plan_destroy(plan);
    return NULL;
}

TEST(job_ledger, a_job_waits_for_memory_as_long_as_it_said) {
    NEED_OWN_MEMORY();
#ifdef __SANITIZE_ADDRESS__
    test_skip("planning has no room in a budget that the sanitizer's own memory is in");
#endif
    rig r;
    rig_open(&r);
    pthread_t thread;
    hr_error why = {0};
    hr_job_options a = job(&r, "a"), b = job(&r, "b");
    hr_plan *pa = plan_of(&r, &a);
    b.wait_ms = 20;
    hr_plan *pb = plan_of(&r, &b);
    hr_trainer *ta = open_trainer(pa), *tb = NULL;
    CHECK_OK(hr_budget_set_limit(r.ledger, "host", pool_of(&r, "host").granted_bytes + MIB / 4));
    CHECK_STATUS(hr_trainer_open(pb, 0, &tb, &why), HR_E_AGAIN);
    hr_plan_destroy(pb);
    b.wait_ms = 20000;
    char size[32];
    snprintf(size, sizeof size, "%llu", (unsigned long long)pool_of(&r, "host").limit_bytes);
    b.budget = size; /* what it wants when the other one has gone */
    pb = plan_of(&r, &b);
    CHECK(summary_of(pb).fits);
    hr_trainer_close(ta);
    CHECK_EQ(pthread_create(&thread, NULL, close_soon, pa), 0);
    tb = open_trainer(pb);
    pthread_join(thread, NULL);
    hr_trainer_close(tb);
    hr_plan_destroy(pb);
    rig_close(&r);
}

typedef struct cache {
    int calls;
    uint64_t left;
} cache;

static void drop_some(void *user, hr_lease *lease, uint64_t bytes) {
    cache *c = user;
    c->calls++;
    CHECK_OK(hr_lease_hold(lease, bytes));
    CHECK_OK(hr_lease_resize(lease, bytes));
    c->left = bytes;
}

TEST(job_ledger, a_cache_drops_what_a_job_needs) {
    rig r;
    rig_open(&r);
    cache c = {0};
    hr_lease *lease = NULL;
    hr_error why = {0};
    hr_job_options a = job(&r, "a");
    hr_plan *p = plan_of(&r, &a);
    const uint64_t own = summary_of(p).peak_bytes - lease_of(&r, "host", "runtime");
    CHECK_OK(
        hr_budget_set_limit(r.ledger, "host", lease_of(&r, "host", "runtime") + own + MIB / 2));
    const hr_lease_options lo = {.size = sizeof lo,
                                 .name = "cache",
                                 .wanted_bytes = own,
                                 .least_bytes = MIB / 4,
                                 .on_shrink = drop_some,
                                 .shrink_user = &c};
    CHECK_OK(hr_lease_request(r.ledger, &lo, &lease, &why));
    CHECK_OK(hr_lease_hold(lease, own));
    hr_lease_decline(lease, MIB / 4); /* its minimum */
    hr_trainer *t = open_trainer(p);
    CHECK(c.calls > 0 && c.left >= MIB / 4 && c.left < own);
    CHECK_EQ(hr_lease_granted(lease), c.left);
    run_to_end(t);
    hr_trainer_close(t);
    hr_plan_destroy(p);
    hr_lease_release(lease);
    rig_close(&r);
}

TEST(job_ledger, evaluation_and_trials_lease_too) {
    rig r;
    rig_open(&r);
    char folder[600];
    hr_error why = {0};
    hr_job_options a = job(&r, "a");
    snprintf(folder, sizeof folder, "%s/run", test_folder());
    a.folder = folder;
    hr_plan *p = plan_of(&r, &a);
    CHECK_OK(hr_job_train(p, &why));
    hr_plan_destroy(p);
    CHECK_EQ(pool_of(&r, "host").granted_bytes, 0);
    hr_infer_options io = {.size = sizeof io,
                           .checkpoint = folder,
                           .data = "synthetic:count=20",
                           .batch = 4,
                           .threads = 1,
                           .ledger = r.ledger};
    hr_predictor *e = NULL;
    hr_infer_result result = {.size = sizeof result};
    CHECK_OK(hr_predictor_open(r.ctx, &io, &e, &why));
    CHECK(lease_of(&r, "host", "mlp") > 0 && pool_of(&r, "input").granted_bytes > 0);
    CHECK_OK(hr_predictor_evaluate(e, &result, &why));
    hr_predictor_close(e);
    CHECK_EQ(pool_of(&r, "host").granted_bytes, 0);
    hr_job_options only = job(&r, "trial");
    only.data = NULL;
    p = plan_of(&r, &only);
    hr_try_result tried = {.size = sizeof tried};
    CHECK_OK(hr_job_try(p, 2, NULL, &tried, &why));
    CHECK(pool_of(&r, "host").peak_bytes > 0);
    hr_plan_destroy(p);
    rig_close(&r);
}
