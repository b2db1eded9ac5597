/* Exchanges beside computing, against exchanges that are waited for: overlap [MICROSECONDS_PER_MIB].
 *
 * Two ranks on threads train an MLP with states, then with parameters, in slices.  The wire between them is a model: a copy
 * that then sleeps for as long as the given wire would take (default 4000 us a MiB, 25 us a message: about 2 Gbit/s), so that
 * it takes no processor.  Both ways run by turns in this process; the parameters must be the same to the bit. */
#include <headroom/headroom.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "fit/planned.h"
#include "step/synthetic.h"

enum { RANKS = 2, STEPS = 12, BATCH = 64, PARTS = 4 };

typedef struct wire {
    double ns_per_byte, latency_ns;
} wire;

typedef struct rank {
    hri_shard_mode shard;
    int no_overlap;
    const wire *w;
    hri_net *net;
    double seconds, planned_ns, exposed_ns, net_ns;
    uint64_t print;
} rank;

static void must(hr_status status, const char *why) {
    if (status != HR_OK) {
        fprintf(stderr, "overlap: %s: %s\n", hr_status_text(status), why);
        exit(2);
    }
}

static hr_status slow_copy(void *user, uint32_t to_rank, void *to, uint32_t from_rank,
                           const void *from, uint64_t bytes) {
    const wire *w = user;
    memcpy(to, from, bytes);
    if (to_rank != from_rank && bytes) {
        const double ns = w->latency_ns + w->ns_per_byte * (double)bytes;
        const struct timespec t = {(time_t)(ns / 1e9), (long)ns % 1000000000};
        nanosleep(&t, NULL);
    }
    return HR_OK;
}

static hr_status feed(void *user, const hri_planned_run *run, hri_prose *why) {
    uint32_t number = 0;
    hr_status status = HR_OK;
    (void)user;
    (void)why;
    for (hr_value v = 1; run->exec && v < run->g->value_count && status == HR_OK; v++) {
        const hri_value *is = &run->g->values[v];
        if (is->kind == HR_VALUE_INPUT && strncmp(is->name, "train.", 6) != 0) {
            const uint64_t size = hr_meta_bytes(&is->meta);
            void *bytes = malloc(size);
            hri_synthetic_fill(&is->meta, 7, (uint32_t)run->step, number++, run->first_sample, 10,
                               bytes);
            status = hri_exec_put(run->exec, v, 0, bytes, size);
            free(bytes);
        }
    }
    return status;
}

static uint64_t print_of(hri_planned *p) {
    const hr_graph *g = hri_planned_graph(p);
    uint64_t print = 0;
    for (hr_value v = 1; v < g->value_count; v++) {
        if (g->values[v].kind == HR_VALUE_PARAM) {
            const uint64_t size = hr_meta_bytes(&g->values[v].meta);
            void *bytes = malloc(size);
            must(hri_planned_get(p, v, 0, bytes, size), "parameters");
            print ^= hri_hash_bytes(bytes, size, 1) * hri_hash_string(g->values[v].name);
            free(bytes);
        }
    }
    return print;
}

static void train(rank *x, const hri_fit_job *job, hr_device *host, hri_threads *threads) {
    hri_fit f = {0};
    hri_fit_plans plans = {0};
    hri_planned *p = NULL;
    hri_prose why = {""};
    must(hri_fit_open(job, &f, &why), why.text);
    must(hri_fit_search(&f, 0, 1, &plans, &why), why.text);
    x->planned_ns = plans.time_ns;
    x->net_ns = plans.net_ns;
    x->exposed_ns = plans.net_exposed_ns;
    const hri_planned_options o = {.device = host,
                                   .plans = &plans,
                                   .job = job,
                                   .net = x->net,
                                   .threads = threads,
                                   .seed = 1,
                                   .feed = feed,
                                   .feed_user = x};
    must(hri_planned_open(&o, &p, &why), why.text);
    must(hri_planned_take(p, &why), why.text);
    must(hri_planned_agree(p, 5, &why), why.text);
    uint64_t begin = 0;
    for (int s = 0; s < STEPS + 1; s++) {
        hri_numbers n = {0};
        begin = s == 1 ? hri_clock_ns() : begin;
        must(hri_planned_step(p, &n, &why), why.text);
    }
    x->seconds = (double)(hri_clock_ns() - begin) / 1e9 / STEPS;
    if (hri_net_rank(x->net) == 0) {
        x->print = print_of(p);
    }
    hri_planned_close(p);
    hri_fit_plans_deinit(&plans);
    hri_fit_close(&f);
}

static void *run(void *user) {
    rank *x = user;
    hr_model *model;
    hr_ctx *ctx;
    hr_device *host;
    hri_threads *threads;
    must(hr_model_open("mlp:size=16,width=640,layers=4,classes=10", &model, NULL), "model");
    hri_fit_job job = {.build = hr_model_build,
                       .user = model,
                       .batch = BATCH,
                       .parts = PARTS,
                       .replicas = RANKS,
                       .shard = x->shard,
                       .no_overlap = (uint8_t)x->no_overlap,
                       .machine = {.flops_per_ns = 15,
                                   .bytes_per_ns = 10,
                                   .threads = 1,
                                   .align = 64,
                                   .net_bytes_per_ns = 1 / x->w->ns_per_byte,
                                   .net_latency_ns = x->w->latency_ns},
                       .effort = 20000};
    job.options.size = sizeof job.options;
    must(hr_train_options_parse("optimizer=adam", &job.options, NULL), "options");
    const hr_ctx_options o = {.size = sizeof o, .visible_devices = "", .no_cuda = 1};
    must(hr_ctx_create(&o, &ctx), "context");
    must(hr_device_find(ctx, "host", &host), "host");
    must(hri_threads_create(1, &threads), "threads");
    train(x, &job, host, threads);
    hri_threads_destroy(threads);
    hr_ctx_destroy(ctx);
    hr_model_close(model);
    hri_net_close(x->net);
    return NULL;
}

static rank once(hri_shard_mode shard, int no_overlap, wire *w) {
    pthread_t threads[RANKS];
    hri_net *nets[RANKS];
    rank ranks[RANKS];
    hri_prose why = {""};
    const hri_net_options o = {.wire = "threads", .copy = slow_copy, .copy_user = w};
    must(hri_net_open_threads(&o, RANKS, nets, &why), why.text);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (rank){.shard = shard, .no_overlap = no_overlap, .w = w, .net = nets[i]};
        if (pthread_create(&threads[i], NULL, run, &ranks[i]) != 0) {
            must(HR_E_NOMEM_HOST, "threads");
        }
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(threads[i], NULL);
    }
    return ranks[0];
}

int main(int argc, char **argv) {
    wire w = {(argc > 1 ? atof(argv[1]) : 4000) * 1e3 / (1 << 20), 25000};
    int bad = 0;
    for (hri_shard_mode shard = HRI_SHARD_STATES; shard <= HRI_SHARD_WEIGHTS; shard++) {
        double least[2] = {1e9, 1e9};
        rank r[2];
        for (int turn = 0; turn < 3; turn++) {
            for (int no = 0; no < 2; no++) {
                r[no] = once(shard, no, &w);
                least[no] = r[no].seconds < least[no] ? r[no].seconds : least[no];
            }
        }
        printf("--shard %s: a step takes %.1f ms waiting for exchanges, %.1f ms beside them: ratio "
               "%.2f (planned %.2f; %.1f of %.1f ms on the wire exposed); %s\n",
               hri_shard_names[shard], least[1] * 1e3, least[0] * 1e3, least[1] / least[0],
               r[1].planned_ns / r[0].planned_ns, r[0].exposed_ns / 1e6, r[0].net_ns / 1e6,
               r[0].print == r[1].print ? "same bits" : "OTHER BITS");
        bad |= r[0].print != r[1].print || least[0] >= least[1];
    }
    return bad;
}
