/* What choosing algorithms without a clock costs: every choice of a training step, all its candidates timed.
 *
 *   bench/gpu_choices                              the steps below
 *   bench/gpu_choices MODEL BATCH OPTIONS ...      "resnet50 256 precision=bf16"
 *   --device cuda:0   --candidates 12   --cache FOLDER (default: none is kept)   --exact   --all (cheap lines too)
 *
 * A line: how often a step uses the choice, the time of the best candidate and of the one that was chosen, and the
 * candidates in the library's order, each with the letter of the group that gives the same bits and its microseconds.
 * At the end of a step: the sums over one step under several rules.
 *
 *   fastest          what the clock would choose among the usual eight: the measure of the others
 *   first            the library's own guess
 *   group of first   the fastest that gives the same bits as the first, among 8 or all
 *   largest group    the fastest of the largest group (among 8), ties to the earlier one
 *   vote             the group with the largest sum of 1 / (1 + rank) (among 8) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <headroom/headroom.h>

#include "base/clock.h"
#include "graph/graph.h"
#include "run/trial.h"

#define SGD   "optimizer=sgd,momentum=0.9,rate=0.01"
#define ADAMW "optimizer=adamw,rate=3e-4"

enum { CHOICES = 1024, FEW = 8 };

typedef struct entry {
    char key[320];
    hri_gpu_candidate c[HRI_GPU_CONTEST_MOST];
    uint32_t count, chosen, uses;
} entry;

typedef struct book {
    entry e[CHOICES];
    uint32_t count;
} book;

static void stop(const char *what, hr_status status, const char *why) {
    fprintf(stderr, "gpu_choices: %s: %s\n", what, why && *why ? why : hr_status_text(status));
    exit(3);
}

static void need(const char *what, hr_status status, const char *why) {
    if (status != HR_OK) {
        stop(what, status, why);
    }
}

static void note(void *user, const char *key, const hri_gpu_candidate *candidates, uint32_t count,
                 uint32_t chosen) {
    book *b = user;
    uint32_t i = 0;
    while (i < b->count && strcmp(b->e[i].key, key) != 0) {
        i++;
    }
    if (i == CHOICES || (!count && i == b->count)) {
        return; /* no choice was needed: one candidate that was never tried */
    }
    entry *e = &b->e[i];
    if (i == b->count) {
        b->count++;
        *e = (entry){.chosen = chosen};
        snprintf(e->key, sizeof e->key, "%s", key);
    }
    if (count) {
        memcpy(e->c, candidates, count * sizeof *candidates);
        e->count = count;
        e->chosen = chosen;
    } else {
        e->uses++;
    }
}

/* ---- rules ---- */

static double fastest_in(const entry *e, uint32_t among, int group) {
    double best = -1;
    for (uint32_t i = 0; i < e->count && i < among; i++) {
        const double ms = e->c[i].ms;
        if (ms >= 0 && (group < 0 || e->c[i].group == group) && (best < 0 || ms < best)) {
            best = ms;
        }
    }
    return best;
}

static int first_of(const entry *e) {
    for (uint32_t i = 0; i < e->count; i++) {
        if (e->c[i].group >= 0) {
            return (int)i;
        }
    }
    return 0;
}

/* By size or by votes. */
static int group_by(const entry *e, int votes) {
    double best = 0;
    int found = 0;
    for (uint32_t g = 0; g < e->count && g < FEW; g++) {
        double sum = 0;
        for (uint32_t i = 0; i < e->count && i < FEW; i++) {
            sum += e->c[i].group == (int)g ? (votes ? 1.0 / (1.0 + i) : 1.0) : 0.0;
        }
        if (sum > best + 1e-9) {
            best = sum;
            found = (int)g;
        }
    }
    return found;
}

enum { FASTEST, FIRST, GROUP_FEW, GROUP_ALL, LARGEST, VOTE, CHOSEN, RULES };
static const char *const rule_names[RULES] = {
    "fastest of 8",        "first",      "group of first, of 8", "group of first, of all",
    "largest group, of 8", "vote, of 8", "as chosen by the rule"};

static void apply(const entry *e, double out[RULES]) {
    const int first = first_of(e);
    out[FASTEST] = fastest_in(e, FEW, -1);
    out[FIRST] = e->c[first].ms;
    out[GROUP_FEW] = fastest_in(e, FEW, first);
    out[GROUP_ALL] = fastest_in(e, HRI_GPU_CONTEST_MOST, first);
    out[LARGEST] = fastest_in(e, FEW, group_by(e, 0));
    out[VOTE] = fastest_in(e, FEW, group_by(e, 1));
    out[CHOSEN] = e->c[e->chosen].ms;
}

/* ---- a step ---- */

static int is_way(const entry *e) {
    return !strncmp(e->key, "way ", 4);
}

static void show(const book *b, int everything) {
    double sums[RULES] = {0}, ways = 0, best_ways = 0;
    double way_first[2] = {0}, leaves = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        const entry *e = &b->e[i];
        double ms[RULES];
        apply(e, ms);
        if (!e->uses && !is_way(e)) {
            continue; /* the way that uses it was not taken */
        }
        if (is_way(e)) {
            ways += ms[CHOSEN];
            best_ways += fastest_in(e, HRI_GPU_CONTEST_MOST, -1);
            way_first[0] += e->c[0].ms;
            way_first[1] += e->c[1].ms;
        } else {
            leaves++;
            for (int r = 0; r < RULES; r++) {
                sums[r] += ms[r] * e->uses;
            }
        }
        const double loss = (ms[CHOSEN] - ms[FASTEST]) * (e->uses ? e->uses : 1);
        if (everything || loss > 2e-3 || is_way(e)) {
            printf("%3u x %8.1f us best %8.1f chosen, loses %6.1f | ", e->uses, ms[FASTEST] * 1e3,
                   ms[CHOSEN] * 1e3, loss * 1e3);
            for (uint32_t k = 0; k < e->count; k++) {
                printf("%s%c%.0f", k ? " " : "", e->c[k].group < 0 ? '-' : 'A' + e->c[k].group,
                       e->c[k].ms < 0 ? -1.0 : (double)e->c[k].ms * 1e3);
            }
            printf(" | %s\n", e->key);
        }
    }
    printf("  %-24s %10s %8s\n", "rule", "ms a step", "loses");
    for (int r = 0; r < RULES; r++) {
        printf("  %-24s %10.3f %7.2f%%\n", rule_names[r], sums[r],
               sums[FASTEST] > 0 ? 100 * (sums[r] - sums[FASTEST]) / sums[FASTEST] : 0);
    }
    printf(
        "  ways (each once): chosen %.3f ms, fastest %.3f, all by way 0 %.3f, all by way 1 %.3f\n",
        ways, best_ways, way_first[0], way_first[1]);
    printf("  %.0f choices\n", leaves);
}

static void try_all(hri_engine *engine, const hr_graph *g) {
    for (uint32_t n = 0; n < g->node_count; n++) {
        const hri_sig *sig = &g->nodes[n].sig;
        if (g->nodes[n].live && !sig->op->view &&
            hri_trial_time(engine, sig, 0, UINT64_C(1) << 40, 1) < 0) {
            fprintf(stderr, "gpu_choices: %s was not tried: %s\n", g->nodes[n].name,
                    hri_gpu_detail(hri_engine_gpu(engine)));
        }
    }
}

static void one(hr_device *device, const hri_gpu_options *options, const char *model,
                const char *batch, const char *text, int everything) {
    static book b;
    hri_engine *engine;
    hr_model *m;
    hr_train_options o = {.size = sizeof o};
    hr_graph *g;
    hr_error why = {0};
    hri_prose prose = {0};
    hri_gpu_options with = *options;
    b.count = 0;
    with.report = note;
    with.report_user = &b;
    need(model, hr_model_open(model, &m, &why), why.message);
    need(text, hr_train_options_parse(text, &o, &why), why.message);
    need(model, hr_step_build(&o, hr_model_build, m, HR_STEP_WHOLE, atoll(batch), &g, &why),
         why.message);
    need("the GPU", hri_engine_open(device, &with, &engine, &prose), prose.text);
    const uint64_t before = hri_engine_runtime(engine);
    const uint64_t begin = hri_clock_ns();
    try_all(engine, g);
    const double cold = (double)(hri_clock_ns() - begin) / 1e9;
    for (uint32_t i = 0; i < b.count; i++) {
        b.e[i].uses = 0;
    }
    const uint64_t again = hri_clock_ns();
    try_all(engine, g);
    printf("\n%s %s %s: %.1f s cold, %.1f s again, runtime %.0f MiB more\n", model, batch, text,
           cold, (double)(hri_clock_ns() - again) / 1e9,
           (double)(hri_engine_runtime(engine) - before) / 1048576.0);
    show(&b, everything);
    fflush(stdout);
    hri_engine_close(engine);
    hr_graph_destroy(g);
    hr_model_close(m);
}

int main(int argc, char **argv) {
    static const char *const usual[][3] = {
        {"resnet50", "256", SGD ",precision=bf16"},  {"gpt2", "16", ADAMW ",precision=bf16"},
        {"resnet50", "32", SGD ",precision=bf16"},   {"resnet50", "128", SGD},
        {"vit-base", "64", ADAMW ",precision=bf16"},
    };
    hri_gpu_options options = {.cache = "", .candidates = 12};
    const char *device_name = "cuda:0";
    hr_ctx *ctx;
    hr_device *device;
    int i = 1, everything = 0;
    for (; i < argc && !strncmp(argv[i], "--", 2); i++) {
        if (!strcmp(argv[i], "--all")) {
            everything = 1;
        } else if (!strcmp(argv[i], "--exact")) {
            options.exact_f32 = 1;
        } else if (i + 1 < argc && !strcmp(argv[i], "--device")) {
            device_name = argv[++i];
        } else if (i + 1 < argc && !strcmp(argv[i], "--cache")) {
            options.cache = argv[++i];
        } else if (i + 1 < argc && !strcmp(argv[i], "--candidates")) {
            options.candidates = (uint32_t)atoi(argv[++i]);
        } else {
            fprintf(stderr, "gpu_choices: what is %s?\n", argv[i]);
            return 2;
        }
    }
    need("a context", hr_ctx_create(NULL, &ctx), NULL);
    need(device_name, hr_device_find(ctx, device_name, &device), NULL);
    if (i + 2 >= argc) {
        for (size_t k = 0; k < sizeof usual / sizeof usual[0]; k++) {
            one(device, &options, usual[k][0], usual[k][1], usual[k][2], everything);
        }
    }
    for (; i + 2 < argc; i += 3) {
        one(device, &options, argv[i], argv[i + 1], argv[i + 2], everything);
    }
    hr_ctx_destroy(ctx);
    return 0;
}
