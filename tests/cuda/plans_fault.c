/* Setting up a training while the outside refuses: the Nth call of each kind fails, once and for ever.  Each time a
 * status that fits, nothing left on the device, and the same training works afterwards. */
#include "rig.h"
#include "training.h"

#include <stdio.h>
#include <string.h>

#ifdef HEADROOM_FAULTS

static hr_status plan_it(training *t, const char *model, const char *options) {
    hri_prose why = {{0}};
    hr_status s = training_try(t, model, options, 4, &why);
    s = s == HR_OK ? hri_fit_open(&t->job, &t->fit, &why) : s;
    return s == HR_OK ? hri_fit_search(&t->fit, 0, 1, &t->plans, &why) : s;
}

static hr_status take_it(training *t) {
    hri_prose why = {{0}};
    const hri_planned_options o = {
        .device = t->device, .plans = &t->plans, .job = &t->job, .seed = 1, .limit = 10};
    const hr_status s = hri_planned_open(&o, &t->planned, &why);
    return s == HR_OK ? hri_planned_take(t->planned, &why) : s;
}

/* The whole life, until something fails. */
static hr_status live(training *t, float *loss) {
    hri_prose why = {{0}};
    hr_status s = plan_it(t, "mlp:size=8,width=16", "optimizer=sgd");
    s = s == HR_OK ? take_it(t) : s;
    for (int i = 0; i < 2 && s == HR_OK; i++) {
        hri_numbers n;
        s = hri_planned_step(t->planned, &n, &why);
        *loss = n.loss;
    }
    return s;
}

static void end_life(training *t, int64_t allocs) {
    training_close(t);
    CHECK_EQ(hri_fault_live_allocs(), allocs);
    if (is_fake()) {
        CHECK_EQ(fake()->used_bytes(0), 0);
    }
}

static void sweep(hri_fault_kind kind, int for_ever, float want) {
    const int64_t allocs = hri_fault_live_allocs();
    uint64_t tried = 0;
    /* A real context takes a third of a second to make, so there the steps are larger. */
    for (uint64_t n = 1;; n += is_fake() ? n / 3 + 1 : 2 * n) {
        training t = {0};
        float loss = 0;
        hri_fault_set(kind, n, for_ever);
        const hr_status status = live(&t, &loss);
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        end_life(&t, allocs);
        if (status == HR_OK) { /* what could be done without changes nothing */
            CHECK(loss == want);
        }
        if (!delivered) {
            CHECK_OK(status);
            break;
        }
        tried++;
    }
    CHECK(tried > 0);
    training good = {0};
    float loss = 0;
    CHECK_OK(live(&good, &loss));
    CHECK(loss == want);
    end_life(&good, allocs);
    rig r; /* what the outside sees now is a context and nothing more */
    rig_open(&r, 0);
    rig_check_idle(&r);
    rig_close(&r);
}

static void sweep_kind(hri_fault_kind kind) {
    training t = {0};
    float want = 0;
    training_open(&t, "mlp:size=8,width=16", "optimizer=sgd", 4); /* skips without a GPU */
    training_close(&t);
    CHECK_OK(live(&t, &want));
    training_close(&t);
    sweep(kind, 0, want);
    if (is_fake()) {
        sweep(kind, 1, want);
    }
}

TEST_TIMEOUT(plans_fault, host_memory, 600) {
    sweep_kind(HRI_FAULT_ALLOC);
}
/* Allocations of a run whose images wait rounded; all of them, one by one, take more than a minute. */
TEST_TIMEOUT(plans_fault, host_memory_of_images_that_wait_rounded, 600) {
    static const char model[] = "lenet:size=32", options[] = "optimizer=sgd,precision=bf16";
    training first = {0};
    training_open(&first, model, options, 4); /* skips without a GPU */
    training_close(&first);
    const int64_t allocs = hri_fault_live_allocs();
    uint64_t delivered = 1, tried = 0;
    for (uint64_t n = 1; delivered; n += is_fake() ? n / 2 + 1 : n + 1) {
        training t = {0};
        CHECK_OK(plan_it(&t, model, options));
        CHECK(t.plans.c->lane.waiting < t.plans.c->lane.large);
        t.plans.stage = 1;
        hri_fault_set(HRI_FAULT_ALLOC, n, 0);
        const hr_status status = take_it(&t);
        delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        CHECK(delivered || status == HR_OK);
        tried += status == HR_E_NOMEM_HOST;
        end_life(&t, allocs);
    }
    CHECK(tried > 0);
}
TEST_TIMEOUT(plans_fault, pages, 600) {
    sweep_kind(HRI_FAULT_CREATE);
    sweep_kind(HRI_FAULT_MAP);
    sweep_kind(HRI_FAULT_RESERVE);
}
TEST_TIMEOUT(plans_fault, pinned_memory, 600) {
    sweep_kind(HRI_FAULT_PINNED);
}
TEST_TIMEOUT(plans_fault, queues_and_events, 600) {
    sweep_kind(HRI_FAULT_QUEUE);
}
TEST_TIMEOUT(plans_fault, copies, 600) {
    sweep_kind(HRI_FAULT_COPY);
}
TEST_TIMEOUT(plans_fault, launches, 600) {
    sweep_kind(HRI_FAULT_LAUNCH);
}

#endif
