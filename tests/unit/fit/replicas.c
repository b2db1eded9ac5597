/* Ranks that train one step together over a wire: the losses and parameters of one, and an end for all when one fails. */
#include <headroom/headroom.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "fit/planned.h"
#include "step/synthetic.h"
#include "test.h"

enum { STEPS = 3, MOST = 4 };

typedef struct result {
    float losses[STEPS];
    uint64_t print;     /* of every parameter and state */
    uint64_t own_bytes; /* persistent, of each */
    hr_status status;
    hri_prose why;
} result;

typedef struct rank {
    const char *model, *training;
    int64_t batch, parts;
    uint32_t replicas;
    uint32_t arenas; /* > 1: all replicas are here, on threads */
    hri_shard_mode shard;
    hri_net *net;
    hri_threads *threads;
    uint64_t seed;
    int fails;    /* feeding fails in step 1 */
    int backward; /* the same parts, from the last to the first */
    result r;
} rank;

static hr_status feed(void *user, const hri_planned_run *run, hri_prose *why) {
    const rank *x = user;
    if (run->step == 1 && x->fails) {
        return hri_prose_set(why, HR_E_IO, "a bad sample");
    }
    uint32_t number = 0;
    const uint32_t batch = (uint32_t)x->batch, part = (uint32_t)(x->batch / x->parts);
    const uint32_t first = x->backward ? batch - part - run->first_sample : run->first_sample;
    for (hr_value v = 1; run->exec && v < run->g->value_count; v++) {
        const hri_value *is = &run->g->values[v];
        if (is->kind != HR_VALUE_INPUT || !strncmp(is->name, "train.", 6)) {
            continue;
        }
        char bytes[64 << 10];
        const uint64_t size = hr_meta_bytes(&is->meta);
        CHECK(size <= sizeof bytes);
        hri_synthetic_fill(&is->meta, 7, (uint32_t)run->step, number++, first, 10, bytes);
        CHECK_OK(hri_exec_put(run->exec, v, 0, bytes, size));
    }
    return HR_OK;
}

static uint64_t print_of(hri_planned *p) {
    const hr_graph *g = hri_planned_graph(p);
    uint64_t print = 0;
    for (hr_value v = 1; v < g->value_count; v++) {
        const hr_value_kind kind = g->values[v].kind;
        char bytes[64 << 10];
        const uint64_t size = hr_meta_bytes(&g->values[v].meta);
        if ((kind == HR_VALUE_PARAM || kind == HR_VALUE_STATE) && size <= sizeof bytes &&
            !strstr(g->values[v].name, ".part") && !strstr(g->values[v].name, ".sum")) {
            const uint64_t half = size / 8 * 4; /* in two pieces, which slices do not know of */
            CHECK_OK(hri_planned_get(p, v, 0, bytes, half));
            CHECK_OK(hri_planned_get(p, v, half, bytes + half, size - half));
            print ^= hri_hash_bytes(bytes, size, 1) * hri_hash_string(g->values[v].name);
        }
    }
    return print;
}

static hr_status train(rank *x, hr_device *host, hri_fit *f, hri_fit_plans *plans,
                       const hri_fit_job *job, hri_planned **p) {
    hri_prose *why = &x->r.why;
    hr_status status = hri_fit_open(job, f, why);
    if (status == HR_OK) {
        status = hri_fit_search(f, 0, 1, plans, why);
    }
    const hri_planned_options o = {.device = host,
                                   .plans = plans,
                                   .job = job,
                                   .net = x->net,
                                   .threads = x->threads,
                                   .seed = x->seed,
                                   .feed = feed,
                                   .feed_user = x};
    const uint64_t own_bytes = plans->own_bytes;
    status = status == HR_OK ? hri_planned_open(&o, p, why) : status;
    status = status == HR_OK ? hri_planned_take(*p, why) : status;
    status = status == HR_OK ? hri_planned_agree(*p, 5, why) : status;
    for (int s = 0; s < STEPS && status == HR_OK; s++) {
        hri_numbers n = {0};
        status = hri_planned_step(*p, &n, why);
        x->r.losses[s] = n.loss;
    }
    if (status == HR_OK && (!x->shard || !x->net || hri_net_rank(x->net) == 0)) {
        x->r.print =
            print_of(*p); /* of slices rank 0 alone asks: the others answer when they close */
    }
    hri_measured m;
    if (status == HR_OK) {
        hri_planned_measure(*p, &m);
        CHECK(m.arena_bytes == m.planned_bytes);
        x->r.own_bytes = own_bytes;
    }
    return status;
}

static void *run(void *user) {
    rank *x = user;
    hr_model *model;
    hr_ctx *ctx;
    hr_device *host;
    hri_fit f = {0};
    hri_fit_plans plans = {0};
    hri_planned *p = NULL;
    CHECK_OK(hr_model_open(x->model, &model, NULL));
    hri_fit_job job = {.build = hr_model_build,
                       .user = model,
                       .batch = x->batch,
                       .parts = x->parts,
                       .replicas = x->replicas,
                       .arenas = x->arenas,
                       .shard = x->shard,
                       .allow_coupled = 1,
                       .effort = 20000};
    job.options.size = sizeof job.options;
    CHECK_OK(hr_train_options_parse(x->training, &job.options, NULL));
    const hr_ctx_options o = {.size = sizeof o, .visible_devices = "", .no_cuda = 1};
    CHECK_OK(hr_ctx_create(&o, &ctx));
    CHECK_OK(hr_device_find(ctx, "host", &host));
    x->r.status = train(x, host, &f, &plans, &job, &p);
    hri_planned_close(p);
    hri_fit_plans_deinit(&plans);
    hri_fit_close(&f);
    hr_ctx_destroy(ctx);
    hr_model_close(model);
    hri_net_close(x->net);
    return NULL;
}

/* `like` on so many ranks; number `bad` of them (-1: none) fails, or has another seed. */
static void run_ranks(const rank *like, uint32_t count, rank *out) {
    pthread_t threads[MOST];
    hri_net *nets[MOST];
    hri_prose why = {""};
    const hri_net_options o = {.wire = "threads"};
    CHECK_OK(hri_net_open_threads(&o, count, nets, &why));
    for (uint32_t i = 0; i < count; i++) {
        const int fails = out[i].fails;
        const hri_shard_mode shard = out[i].shard;
        const uint64_t seed = out[i].seed;
        out[i] = *like;
        out[i].fails = fails;
        out[i].shard = shard ? shard : like->shard;
        out[i].seed += seed;
        out[i].replicas = count;
        out[i].net = nets[i];
        CHECK(pthread_create(&threads[i], NULL, run, &out[i]) == 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

static void check_same(const char *model, const char *training, int64_t batch, int64_t parts) {
    rank one = {.model = model, .training = training, .batch = batch, .parts = parts, .seed = 3};
    const rank like = one;
    run(&one);
    CHECK_OK(one.r.status);
    for (uint32_t count = 2; count <= 4; count++) {
        rank ranks[MOST] = {{0}};
        run_ranks(&like, count, ranks);
        for (uint32_t i = 0; i < count; i++) {
            if (ranks[i].r.status != HR_OK) {
                printf("%s\n", ranks[i].r.why.text);
            }
            CHECK_OK(ranks[i].r.status);
            CHECK(memcmp(ranks[i].r.losses, one.r.losses, sizeof one.r.losses) == 0);
            CHECK(ranks[i].r.print == one.r.print);
        }
    }
}

TEST(replicas, ranks_have_the_bits_of_one) {
    check_same("mlp:size=4,width=8,classes=10", "optimizer=sgd", 10, 4);
    check_same("mlp:size=4,width=8,classes=10,dropout=0.2", "optimizer=adamw,clip=0.01", 8, 5);
    check_same("resnet18:size=32,width=2,classes=10",
               "optimizer=rmsprop,precision=bf16,moments=bf16", 4, 4);
}

/* The control: what is compared sees in which order gradients are added.  The same parts, folded from the last to the first, are another
 * function, and the same one for every number of ranks. */
TEST(replicas, a_fold_in_another_order_has_other_bits) {
    rank forward = {.model = "mlp:size=4,width=8,classes=10",
                    .training = "optimizer=sgd",
                    .batch = 12,
                    .parts = 4,
                    .seed = 3};
    rank backward = forward, ranks[MOST] = {{0}};
    backward.backward = 1;
    const rank like = backward;
    run(&forward);
    run(&backward);
    CHECK_OK(forward.r.status);
    CHECK_OK(backward.r.status);
    CHECK(forward.r.print != backward.r.print);
    CHECK(forward.r.losses[0] - backward.r.losses[0] < 1e-5f &&
          backward.r.losses[0] - forward.r.losses[0] < 1e-5f);
    run_ranks(&like, 3, ranks);
    CHECK_OK(ranks[2].r.status);
    CHECK(ranks[2].r.print == backward.r.print);
}

/* Slices, over the wire of threads and inside one process: losses, parameters and states of one replica, in less memory. */
static void check_slices(const char *model, const char *training, int64_t batch, int64_t parts,
                         uint32_t count) {
    rank one = {.model = model, .training = training, .batch = batch, .parts = parts, .seed = 3};
    const rank like = one;
    uint64_t before = UINT64_MAX;
    run(&one);
    CHECK_OK(one.r.status);
    for (int shard = HRI_SHARD_NONE; shard <= HRI_SHARD_WEIGHTS; shard++) {
        rank ranks[MOST] = {{0}}, here = like;
        here.shard = (hri_shard_mode)shard;
        run_ranks(&here, count, ranks);
        for (uint32_t i = 0; i < count; i++) {
            if (ranks[i].r.status != HR_OK) {
                printf("%s\n", ranks[i].r.why.text);
            }
            CHECK_OK(ranks[i].r.status);
            CHECK(memcmp(ranks[i].r.losses, one.r.losses, sizeof one.r.losses) == 0);
        }
        CHECK(ranks[0].r.print == one.r.print);
        /* a slice beside the whole may take as much as states of few bytes save */
        CHECK(ranks[0].r.own_bytes < before || strstr(training, "moments"));
        before = ranks[0].r.own_bytes;
        here.replicas = here.arenas = count;
        CHECK_OK(hri_threads_create(count, &here.threads));
        run(&here);
        hri_threads_destroy(here.threads);
        CHECK_OK(here.r.status);
        CHECK(here.r.print == one.r.print);
        CHECK(memcmp(here.r.losses, one.r.losses, sizeof one.r.losses) == 0);
    }
}

TEST(replicas, slices_have_the_bits_of_the_whole) {
    static const char mlp[] = "mlp:size=8,width=96,classes=10,dropout=0.2";
    check_slices(mlp, "optimizer=sgd", 10, 4, 2);
    check_slices(mlp, "optimizer=sgd,clip=0.01,moments=bf16", 10, 4, 3);
    check_slices(mlp, "optimizer=adamw,clip=0.01", 8, 5, 4);
    check_slices(mlp, "optimizer=adam,precision=bf16,moments=8bit", 11, 5, 3);
}

/* Running statistics, tied parameters, parts that idle ranks pass over. */
TEST(replicas, slices_of_models_with_states_and_ties) {
    check_slices("resnet18:size=32,width=4,classes=10", "optimizer=rmsprop", 4, 4, 3);
    check_slices("gpt2:layers=1,width=32,heads=2,vocab=96,context=16", "optimizer=sgd", 5, 5, 3);
}

TEST(replicas, ranks_that_shard_differently_are_told) {
    rank ranks[MOST] = {{0}};
    const rank like = {.model = "mlp:size=8,width=96,classes=10",
                       .training = "optimizer=sgd",
                       .batch = 6,
                       .parts = 3,
                       .seed = 3};
    ranks[1].shard = HRI_SHARD_STATES;
    run_ranks(&like, 2, ranks);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(ranks[i].r.status, HR_E_INVALID);
        CHECK(strstr(ranks[i].r.why.text, "sharded") != NULL);
    }
}

TEST(replicas, a_rank_with_slices_that_fails_ends_all) {
    for (int shard = HRI_SHARD_STATES; shard <= HRI_SHARD_WEIGHTS; shard++) {
        rank ranks[MOST] = {{0}};
        const rank like = {.model = "mlp:size=8,width=96,classes=10",
                           .training = "optimizer=sgd",
                           .batch = 6,
                           .parts = 3,
                           .shard = (hri_shard_mode)shard,
                           .seed = 3};
        ranks[1].fails = 1;
        run_ranks(&like, 3, ranks);
        CHECK_STATUS(ranks[1].r.status, HR_E_IO);
        for (int i = 0; i < 3; i += 2) {
            CHECK_STATUS(ranks[i].r.status, HR_E_PEER);
            CHECK(strstr(ranks[i].r.why.text, "a bad sample") != NULL);
        }
    }
}

TEST(replicas, a_rank_that_fails_ends_all_with_its_reason) {
    rank ranks[MOST] = {{0}};
    const rank like = {.model = "mlp:size=4,width=8,classes=10",
                       .training = "optimizer=sgd",
                       .batch = 6,
                       .parts = 3,
                       .seed = 3};
    ranks[1].fails = 1;
    run_ranks(&like, 3, ranks);
    CHECK_STATUS(ranks[1].r.status, HR_E_IO);
    for (int i = 0; i < 3; i += 2) {
        CHECK_STATUS(ranks[i].r.status, HR_E_PEER);
        CHECK(strstr(ranks[i].r.why.text, "a bad sample") != NULL);
        CHECK(strstr(ranks[i].r.why.text, "rank 1") != NULL);
    }
}

TEST(replicas, ranks_that_differ_are_told_in_what) {
    rank ranks[MOST] = {{0}};
    const rank like = {.model = "mlp:size=4,width=8,classes=10",
                       .training = "optimizer=sgd",
                       .batch = 6,
                       .parts = 3,
                       .seed = 3};
    ranks[1].seed = 1;
    run_ranks(&like, 2, ranks);
    for (int i = 0; i < 2; i++) {
        CHECK_STATUS(ranks[i].r.status, HR_E_INVALID);
        CHECK(strstr(ranks[i].r.why.text, "the seed") != NULL);
    }
}
