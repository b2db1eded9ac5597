/* Ranks that hold slices, each with a GPU of its own and the others behind a wire, as in processes of their own: here each is a
 * thread, so that faults reach all of them.  The bits of one; and whatever fails on one of them ends all, leaves nothing, and
 * the same ranks work afterwards.  The same faults for ranks whose work one thread begins (run/group.c). */
#include "rig.h"
#include "training.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/net.h"

enum { RANKS = 3, STEPS = 2 };

typedef struct setting {
    const char *options;
    hri_shard_mode shard;
    uint32_t ranks;
    int together; /* one thread begins the work of all */
    int slices;   /* of one GPU */
} setting;

typedef struct outcome {
    float losses[STEPS];
    uint64_t print;
} outcome;

typedef struct member {
    training *t;
    hri_fit_job job;
    hri_net *net;
    hr_status status;
    hri_prose why;
    outcome out;
    pthread_t thread;
} member;

/* ---- one life ---- */

static hr_status steps(hri_planned *p, outcome *out, hri_prose *why) {
    hr_status status = HR_OK;
    for (int i = 0; i < STEPS && status == HR_OK; i++) {
        hri_numbers n;
        status = hri_planned_step(p, &n, why);
        out->losses[i] = n.loss;
    }
    return status;
}

static hri_planned_options options_of(const training *t, const hri_fit_job *job) {
    return (hri_planned_options){.device = hri_engine_device(job->engine),
                                 .plans = &t->plans,
                                 .job = job,
                                 .seed = TRAINING_SEED,
                                 .limit = (uint32_t)hr_model_classes(t->model)};
}

static void *live(void *user) {
    member *m = user;
    hri_planned *p = NULL;
    hri_planned_options o = options_of(m->t, &m->job);
    o.net = m->net;
    hr_status status = hri_planned_open(&o, &p, &m->why);
    status = status == HR_OK ? hri_planned_take(p, &m->why) : status;
    status = status == HR_OK ? hri_planned_agree(p, 0, &m->why) : status;
    status = status == HR_OK ? steps(p, &m->out, &m->why) : status;
    if (status == HR_OK && hri_net_rank(m->net) == 0) {
        status = training_print(p, &m->out.print); /* the others answer until the end */
    }
    if (status != HR_OK) {
        hri_net_stop(m->net, status, "%s", m->why.text);
    }
    hri_planned_close(p);
    hri_net_close(m->net);
    m->status = status;
    return NULL;
}

/* The status of the first that failed by itself. */
static hr_status live_apart(training *t, const setting *x, outcome *out) {
    member members[RANKS] = {0};
    hri_net *nets[RANKS];
    const hri_net_options o = {.wire = "threads"};
    hri_prose why = {""};
    hr_status status = hri_net_open_threads(&o, x->ranks, nets, &why);
    if (status != HR_OK) {
        return status;
    }
    for (uint32_t i = 0; i < x->ranks; i++) {
        member *m = &members[i];
        m->t = t;
        m->net = nets[i];
        m->job = t->job;
        m->job.engine = t->engines[i];
        CHECK_EQ(pthread_create(&m->thread, NULL, live, m), 0);
    }
    for (uint32_t i = 0; i < x->ranks; i++) {
        CHECK_EQ(pthread_join(members[i].thread, NULL), 0);
        status = status == HR_OK || status == HR_E_PEER ? members[i].status : status;
    }
    *out = members[0].out;
    return status;
}

static hr_status live_together(training *t, const setting *x, outcome *out) {
    hri_planned *p = NULL;
    hri_prose why = {""};
    hri_planned_options o = options_of(t, &t->job);
    o.engines = x->slices ? NULL : t->engines;
    o.engine_count = x->slices ? 0 : x->ranks;
    hr_status status = hri_planned_open(&o, &p, &why);
    status = status == HR_OK ? hri_planned_take(p, &why) : status;
    status = status == HR_OK ? steps(p, out, &why) : status;
    status = status == HR_OK ? training_print(p, &out->print) : status;
    hri_planned_close(p);
    return status;
}

static void plan(training *t, const setting *x) {
    training_open(t, "net: input(64,classes=4) | dense(48) | batch_norm | relu | dense(classes)",
                  x->options, 7);
    if (x->ranks > 1 && !x->slices) {
        training_add_devices(t, x->ranks, 1);
    }
    t->job.parts = 4;
    t->job.replicas = x->ranks;
    t->job.arenas = x->slices ? x->ranks : 1;
    t->job.shard = x->ranks > 1 ? x->shard : HRI_SHARD_NONE;
    t->job.allow_coupled = 1;
    training_plan(t, 1.0);
}

static void train(const setting *x, outcome *out) {
    training t;
    plan(&t, x);
    if (x->ranks > 1 && !x->together) {
        CHECK_OK(live_apart(&t, x, out));
    } else {
        t.engines[0] = t.engine;
        CHECK_OK(live_together(&t, x, out));
    }
    training_close(&t);
}

static void same_bits(hri_shard_mode shard, const char *options) {
    setting x = {.options = options, .shard = shard, .ranks = 1};
    outcome one = {0}, many = {0};
    need_fake();
    knob("FAKECUDA_DEVICES", "3");
    train(&x, &one);
    x.ranks = RANKS;
    train(&x, &many);
    CHECK(memcmp(&one, &many, sizeof one) == 0);
}

TEST_TIMEOUT(apart, ranks_that_hold_slices_have_the_bits_of_one, 300) {
    same_bits(HRI_SHARD_WEIGHTS, "optimizer=adamw,clip=0.01");
    if (getenv("HEADROOM_TEST_ALL")) {
        same_bits(HRI_SHARD_STATES, "optimizer=sgd,momentum=0.9,precision=bf16");
        same_bits(HRI_SHARD_STATES, "optimizer=adam,moments=8bit");
    }
}

/* ---- faults ---- */

#ifdef HEADROOM_FAULTS

static hr_status life(training *t, const setting *x, outcome *out) {
    return x->together ? live_together(t, x, out) : live_apart(t, x, out);
}

static void sweep(training *t, const setting *x, hri_fault_kind kind, const outcome *want) {
    const int64_t allocs = hri_fault_live_allocs();
    uint32_t failed = 0;
    const int all = getenv("HEADROOM_TEST_ALL") != NULL;
    /* There are few threads. */
    for (uint64_t n = kind == HRI_FAULT_THREAD ? 1 : 3;; n += all ? n / 3 + 1 : 9 * n) {
        outcome is = {0};
        hri_fault_set(kind, n, 0);
        const hr_status status = life(t, x, &is);
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), allocs);
        CHECK(status != HR_OK || memcmp(&is, want, sizeof is) == 0);
        failed += status != HR_OK;
        if (!delivered) {
            CHECK_OK(status);
            break;
        }
    }
    CHECK(failed > 0);
    outcome again = {0};
    CHECK_OK(life(t, x, &again));
    CHECK(memcmp(&again, want, sizeof again) == 0);
    printf("    %s: %u lives ended early\n", hri_fault_name(kind), failed);
}

static const hri_fault_kind kinds[] = {HRI_FAULT_ALLOC, HRI_FAULT_QUEUE, HRI_FAULT_COPY,
                                       HRI_FAULT_THREAD};

/* Both ways have one plan. */
TEST_TIMEOUT(apart, what_fails_on_one_rank_ends_all, 1200) {
    const size_t count = getenv("HEADROOM_TEST_ALL") ? sizeof kinds / sizeof *kinds : 1;
    setting x = {.options = "optimizer=adamw", .shard = HRI_SHARD_WEIGHTS, .ranks = 2};
    training t;
    outcome want = {0};
    need_fake();
    knob("FAKECUDA_DEVICES", "2");
    plan(&t, &x);
    for (; x.together < 2; x.together++) {
        CHECK_OK(life(&t, &x, &want)); /* what is opened at the first use stays */
        for (size_t i = 0; i < count - (size_t)(count > 1 && x.together); i++) {
            sweep(&t, &x, kinds[i], &want); /* one thread begins no other */
        }
    }
    training_close(&t);
}

TEST_TIMEOUT(apart, what_fails_on_a_slice_ends_all, 600) {
    const size_t count = getenv("HEADROOM_TEST_ALL") ? 3 : 1; /* one thread begins no other */
    setting x = {.options = "optimizer=sgd,momentum=0.9",
                 .shard = HRI_SHARD_STATES,
                 .ranks = 2,
                 .together = 1,
                 .slices = 1};
    training t;
    outcome want = {0};
    need_fake();
    plan(&t, &x);
    CHECK_OK(life(&t, &x, &want));
    for (size_t i = 0; i < count; i++) {
        sweep(&t, &x, kinds[i], &want);
    }
    training_close(&t);
}

#endif
