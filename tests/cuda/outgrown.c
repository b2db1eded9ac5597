/* Searches during which the driver takes more than was measured before them, as it does when kernels of another cut are loaded. */
#include "rig.h"
#include "training.h"

#include <dlfcn.h>
#include <stdio.h>

static const uint64_t GROWTH = UINT64_C(16) << 20;

typedef struct growth {
    uint32_t searches; /* since it was armed */
    int armed;
    uint64_t at; /* what was taken; 0: nothing */
} growth;

static void *driver(const char *name) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *found = library ? dlsym(library, name) : NULL;
    CHECK(found);
    return found;
}

/* Memory that is nobody's: the next search is behind it. */
static void grow(growth *g) {
    int (*retain)(void **, int), (*use)(void *), (*take)(uint64_t *, size_t);
    void *context;
    *(void **)&retain = driver("cuDevicePrimaryCtxRetain");
    *(void **)&use = driver("cuCtxSetCurrent");
    *(void **)&take = driver("cuMemAlloc_v2");
    CHECK_EQ(retain(&context, 0), 0);
    CHECK_EQ(use(context), 0);
    CHECK_EQ(take(&g->at, GROWTH), 0);
}

static void close_large(training *t, const growth *g) {
    int (*give)(uint64_t), (*release)(int);
    *(void **)&give = driver("cuMemFree_v2");
    *(void **)&release = driver("cuDevicePrimaryCtxRelease_v2");
    if (g->at) {
        CHECK_EQ(give(g->at), 0);
        CHECK_EQ(release(0), 0);
    }
    hri_fit_plans_deinit(&t->plans);
    training_close(t);
}

static hr_status tick(void *user) {
    growth *g = user;
    if (g->armed && g->searches++ == 0) {
        grow(g);
    }
    return HR_OK;
}

static void open_large(training *t, growth *g) {
    hri_prose why = {{0}};
    need_fake();
    training_open(t, "mlp:size=8,width=64,layers=4", "optimizer=sgd", 32768);
    t->job.parts = 0; /* as many as is fastest */
    t->job.page_bytes = 256;
    t->job.time_ns = NULL; /* nothing needs to run */
    t->job.together_ns = NULL;
    t->job.many_ns = NULL;
    t->job.tick = tick;
    t->job.tick_user = g;
    CHECK_OK(hri_fit_open(&t->job, &t->fit, &why));
}

static void check_inside(const hri_fit_plans *plans, uint64_t budget) {
    CHECK_LE(plans->c->runtime_bytes + plans->arena_bytes, budget);
    CHECK_LE(plans->peak_bytes, budget);
}

TEST_TIMEOUT(outgrown, another_cut_is_looked_for_when_the_same_no_longer_fits, 300) {
    training t;
    growth g = {0};
    hri_prose why = {{0}};
    open_large(&t, &g);
    const uint64_t floor = t.fit.facts[0].floor_bytes;
    uint64_t budget = floor;
    for (t.plans.parts = 0; t.plans.parts != 1 && budget < floor + 4 * GROWTH;
         budget += GROWTH / 4) {
        hri_fit_plans_deinit(&t.plans);
        const hr_status status = hri_fit_search(&t.fit, budget, 1, &t.plans, &why);
        CHECK(status == HR_OK || status == HR_E_NO_PLAN);
    }
    budget -= GROWTH / 4;
    CHECK_EQ(t.plans.parts, 1); /* whole, within less than it takes with what comes now */
    check_inside(&t.plans, budget);
    hri_fit_plans_deinit(&t.plans);
    g.armed = 1;
    CHECK_OK(hri_fit_search(&t.fit, budget, 1, &t.plans, &why));
    CHECK(g.searches > 1);
    CHECK(t.plans.parts > 1);
    check_inside(&t.plans, budget);
    close_large(&t, &g);
}

TEST_TIMEOUT(outgrown, where_there_is_room_the_cut_stays, 300) {
    training t;
    growth g = {.armed = 0};
    hri_prose why = {{0}};
    open_large(&t, &g);
    const uint64_t budget = t.fit.unplanned_bytes + 2 * GROWTH;
    g.armed = 1;
    CHECK_OK(hri_fit_search(&t.fit, budget, 1, &t.plans, &why));
    CHECK_EQ(t.plans.parts, 1);
    check_inside(&t.plans, budget);
    close_large(&t, &g);
}
