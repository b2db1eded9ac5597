/* Pruning: the schedule against its formula, masks against a sort, weights that stay 0 under every optimizer. */
#include <headroom/headroom.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "ops/common/sparsity.h"
#include "passes/common/pass.h"
#include "passes/common/prune.h"
#include "run/interpret.h"
#include "step/objective.h"
#include "test.h"

TEST(prune, the_schedule_is_the_formula_and_ends_at_its_end) {
    static const hri_sparsity all[] = {{0, 0.8, 0, 300, 100},
                                       {0.5, 0.8, 10, 77, 9}, /* 9 does not divide 67 */
                                       {0.3, 0.3, 5, 50, 7},
                                       {0, 0.9, 20, 20, 10},
                                       {0.1, 0.95, 3, 1000, 1}};
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        const hri_sparsity *s = &all[k];
        int changes = 0, last = -1;
        for (int t = 0; t < 1100; t++) {
            const double far = (double)(t - s->begin) / (double)(s->end - s->begin);
            const double p = s->end == s->begin ? t >= s->end : fmin(fmax(far, 0), 1);
            const double want = s->final + (s->initial - s->final) * pow(1 - p, 3);
            CHECK_LE(fabs(hri_sparsity_at(s, (uint64_t)t) - want), 1e-12);
            const int now = hri_sparsity_changes(s, (uint64_t)t);
            CHECK_EQ(now, t >= s->begin && t <= s->end &&
                              ((t - s->begin) % s->every == 0 || t == s->end));
            changes += now;
            last = now ? t : last;
        }
        CHECK(changes > 0 && last == s->end);
        CHECK(hri_sparsity_at(s, (uint64_t)s->end) == s->final);
    }
    CHECK(hri_sparsity_cut(10, 0.8) == 8 && hri_sparsity_cut(1, 0.999) == 0);
    CHECK(hri_sparsity_cut(7, 0) == 0 && hri_sparsity_cut(0, 0.5) == 0);
}

typedef struct place {
    float size;
    int64_t at;
} place;

static int by_size(const void *x, const void *y) {
    const place *a = x, *b = y;
    return a->size < b->size ? -1 : a->size > b->size ? 1 : a->at < b->at ? -1 : a->at > b->at;
}

/* Normal numbers, some of them equal, some 0 and some -0. */
static void fill(float *w, int64_t n, uint32_t round) {
    hri_random r = hri_random_at(test_seed(), round, 1, 0);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t kind = hri_random_u32(&r) % 8;
        const float x = hri_random_normal(&r);
        w[i] = kind == 0 ? 0.0f : kind == 1 ? -0.0f : kind < 4 ? rintf(x * 2) / 2 : x;
    }
}

TEST(prune, masks_are_those_of_a_stable_sort_for_any_threads) {
    static const int64_t sizes[] = {1, 2, 7, 8, 9, 1000, 16384, 16385, 50021};
    static const double shares[] = {0, 0.3, 0.5, 0.8, 0.999};
    enum { MOST = 50021 };
    static float w[MOST];
    static place order[MOST];
    static unsigned char mask[MOST / 8 + 1], want[MOST / 8 + 1];
    hri_threads *pools[3] = {NULL};
    CHECK_OK(hri_threads_create(2, &pools[1]));
    CHECK_OK(hri_threads_create(7, &pools[2]));
    void *space = malloc((size_t)hri_mask_workspace(MOST, 7));
    CHECK(space != NULL);
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        const int64_t n = sizes[k];
        fill(w, n, (uint32_t)k);
        for (int64_t i = 0; i < n; i++) {
            order[i] = (place){fabsf(w[i]), i};
        }
        qsort(order, (size_t)n, sizeof order[0], by_size);
        for (size_t q = 0; q < sizeof shares / sizeof shares[0]; q++) {
            const int64_t cut = hri_sparsity_cut(n, shares[q]);
            CHECK_EQ(n - cut, (int64_t)fmax(1, floor((double)n * (1 - shares[q]) + 0.5)));
            memset(want, 0xff, sizeof want);
            for (int64_t i = 0; i < cut; i++) {
                want[order[i].at / 8] &= (unsigned char)~(1u << order[i].at % 8);
            }
            for (int pool = 0; pool < 3; pool++) {
                memset(mask, 0x55, sizeof mask);
                hri_mask_select(w, n, cut, pools[pool], space, mask);
                CHECK(!memcmp(mask, want, (size_t)hri_mask_bytes(n)));
            }
        }
    }
    free(space);
    hri_threads_destroy(pools[1]);
    hri_threads_destroy(pools[2]);
}

TEST(prune, a_nan_stays_and_two_of_four_lie_along_the_sum) {
    const float w[8] = {0.1f, NAN, -3, 2, 1, 1, 1, 1};
    unsigned char mask, space[16384];
    hri_mask_select(w, 8, 7, NULL, space, &mask);
    CHECK_EQ(mask, 1 << 1);
    hri_mask_select_2_of_4(w + 4, 4, 1, &mask); /* equal ones: the first two */
    CHECK_EQ(mask & 15, 3);
    const float turned[8] = {1, 8, 2, 7, 3, 6, 4, 5}; /* (4, 2): columns are 1 2 3 4 and 8 7 6 5 */
    hri_mask_select_2_of_4(turned, 8, 2, &mask);
    CHECK_EQ(mask, 1 << 1 | 1 << 3 | 1 << 4 | 1 << 6);
}

static void refused(const char *text, const char *words) {
    hri_passes p;
    hri_prose why = {""};
    const hr_status status = hri_passes_parse(text, &p, &why);
    CHECK(status == HR_E_INVALID || status == HR_E_RANGE);
    CHECK(!strncmp(why.text, "prune: ", 7) && strstr(why.text, words));
}

TEST(prune, what_makes_no_sense_is_refused) {
    refused("prune:sparsity=1", "sparsity");
    refused("prune:sparsity=0.8:0.5", "sparsity");
    refused("prune:sparsity=half", "sparsity");
    refused("prune:sparsity=0.5x", "sparsity");
    refused("prune:begin=10,end=9", "before begin");
    refused("prune:every=0", "every");
    refused("prune:layers=a b", "layers");
}

/* ---- steps ---- */

typedef struct rig {
    hr_model *model;
    hri_passes passes;
    hri_objective objective;
    hr_graph *g[2]; /* the last part, or all; the parts before */
    hri_interp *it[2];
    int parts;
} rig;

static void rig_open(rig *r, const char *model, const char *options, const char *passes,
                     int parts) {
    hr_train_options o = {.size = sizeof o};
    hr_error why = {.code = HR_OK};
    *r = (rig){.parts = parts};
    CHECK_OK(hr_train_options_parse(options, &o, NULL));
    CHECK_OK(hr_model_open(model, &r->model, NULL));
    CHECK_OK(hri_passes_parse(passes, &r->passes, NULL));
    r->objective = (hri_objective){.build = hr_model_build, .user = r->model, .passes = &r->passes};
    for (int i = 0; i < (parts > 1 ? 2 : 1); i++) {
        const hr_step_kind kind = parts == 1 ? HR_STEP_WHOLE : i ? HR_STEP_PART : HR_STEP_LAST;
        if (hr_step_build(&o, hri_objective_build, &r->objective, kind, 4, &r->g[i], &why) !=
            HR_OK) {
            test_fail(__FILE__, __LINE__, "%s", why.message);
        }
        const hri_interp_options io = {.seed = 7, .base = i ? r->it[0] : NULL};
        CHECK_OK(hri_interp_open(r->g[i], &io, &r->it[i]));
    }
}

static void rig_close(rig *r) {
    for (int i = 1; i >= 0; i--) {
        hri_interp_destroy(r->it[i]);
        hr_graph_destroy(r->g[i]);
    }
    hri_passes_deinit(&r->passes);
    hr_model_close(r->model);
}

static void put(rig *r, int i, const char *name, float x) {
    const hr_value v = hr_graph_find(r->g[i], name);
    if (v != HR_NONE) {
        memcpy(hri_interp_data(r->it[i], v), &x, sizeof x);
    }
}

static void step(rig *r, uint32_t t) {
    for (int part = 0; part < r->parts; part++) {
        const int i = part + 1 < r->parts;
        hri_random random = hri_random_at(3, t, 5, (uint32_t)part);
        const hr_value image = hr_graph_find(r->g[i], "image"),
                       label = hr_graph_find(r->g[i], "label");
        float *x = hri_interp_data(r->it[i], image);
        int32_t *y = hri_interp_data(r->it[i], label);
        for (int64_t k = 0; k < hr_shape_count(&r->g[i]->values[image].meta.shape); k++) {
            x[k] = hri_random_normal(&random);
        }
        for (int64_t k = 0; k < hr_shape_count(&r->g[i]->values[label].meta.shape); k++) {
            y[k] = (int32_t)(hri_random_u32(&random) % 3);
        }
        put(r, i, "train.rate", 0.05f);
        put(r, i, "train.update", (float)(t + 1));
        put(r, i, "train.weight", 1.0f / (float)r->parts);
        put(r, i, "train.first", part == 0);
        CHECK_OK(hri_interp_run(r->it[i], t, NULL));
    }
}

/* Zeros of a parameter, which are those of its mask; -1: it has none. */
static int64_t zeros_of(rig *r, const char *name) {
    const hr_value w = hr_graph_find(r->g[0], name), mask = hri_prune_mask_of(r->g[0], w);
    const int64_t n = hr_shape_count(&r->g[0]->values[w].meta.shape);
    const float *x = hri_interp_data(r->it[0], w);
    int64_t zeros = 0;
    if (mask == HR_NONE) {
        return -1;
    }
    const unsigned char *bits = hri_interp_data(r->it[0], mask);
    for (int64_t i = 0; i < n; i++) {
        const int stays = hri_mask_has(bits, (uint64_t)i);
        CHECK(stays || (x[i] == 0.0f && !signbit(x[i])));
        zeros += !stays;
    }
    return zeros;
}

static const char net[] = "mlp:size=4,channels=3,width=96,layers=3,classes=3";

TEST(prune, pruned_weights_stay_0_with_every_optimizer_parts_clipping_and_moments) {
    static const char *const optimizers[] = {
        "sgd,momentum=0", "sgd",  "sgd,nesterov=on", "rmsprop", "rmsprop,momentum=0.9",
        "adam,decay=0.1", "adamw"};
    static const char *const more[] = {"", ",clip=0.1", ",moments=bf16", ",moments=8bit,clip=1"};
    for (size_t k = 0; k < sizeof optimizers / sizeof optimizers[0]; k++) {
        for (size_t q = 0; q < sizeof more / sizeof more[0]; q++) {
            char options[128];
            rig r;
            snprintf(options, sizeof options, "optimizer=%s%s", optimizers[k], more[q]);
            rig_open(&r, net, options, "prune:sparsity=0.5:0.9,begin=1,end=6,every=2",
                     (k + q) % 2 ? 4 : 1);
            step(&r, 0);
            CHECK_EQ(zeros_of(&r, "layers.1.weight"), 0);
            for (uint32_t t = 1; t < 10; t++) {
                step(&r, t);
                const hri_sparsity s = {0.5, 0.9, 1, 6, 2};
                const uint64_t at = t >= 6 ? 6 : t - (t - 1) % 2; /* the last change */
                CHECK_EQ(zeros_of(&r, "layers.1.weight"),
                         hri_sparsity_cut(96 * 96, hri_sparsity_at(&s, at)));
            }
            CHECK_EQ(zeros_of(&r, "layers.1.bias"), -1);
            rig_close(&r);
        }
    }
}

/* The norm that clips is that of what is left of the gradients. */
TEST(prune, gradients_are_masked_before_their_norm_is_taken) {
    rig r;
    size_t masked = 0, weights = 0;
    rig_open(&r, net, "optimizer=adamw,clip=1", "prune:sparsity=0.5,end=5", 1);
    const hr_graph *g = r.g[0];
    for (hr_value v = 1; v < g->value_count; v++) {
        weights += g->values[v].kind == HR_VALUE_PARAM && hri_prune_mask_of(g, v) != HR_NONE;
    }
    for (uint32_t i = 0; i < g->node_count; i++) {
        const hri_node_record *n = &g->nodes[i];
        for (uint32_t k = 0; !strcmp(n->sig.op->name, "square_sum") && k < n->sig.in_count; k++) {
            const uint32_t from = g->values[n->in[k]].node;
            const hri_node_record *view = &g->nodes[from];
            masked += !strcmp(view->sig.op->name, "reshape") &&
                      !strcmp(g->nodes[g->values[view->in[0]].node].sig.op->name, "relu_mask_grad");
        }
    }
    CHECK(weights >= 1 && masked == weights);
    rig_close(&r);
}

TEST(prune, the_first_convolution_and_the_last_layer_are_left_out_unless_they_are_named) {
    rig r;
    rig_open(&r, "resnet18:size=32,width=8,classes=3", "", "prune:sparsity=0.8,end=5", 1);
    CHECK_EQ(zeros_of(&r, "conv1.weight"), -1);
    CHECK_EQ(zeros_of(&r, "fc.weight"), -1);
    CHECK_EQ(zeros_of(&r, "layer1.0.conv1.weight"), 0);
    CHECK_EQ(zeros_of(&r, "layer1.0.bn1.weight"), -1);
    rig_close(&r);
    rig_open(&r, "resnet18:size=32,width=8,classes=3", "", "prune:sparsity=0.8,end=5,layers=fc", 1);
    CHECK_EQ(zeros_of(&r, "fc.weight"), 0);
    CHECK_EQ(zeros_of(&r, "layer1.0.conv1.weight"), -1);
    rig_close(&r);
}

TEST(prune, two_of_every_four_inputs_of_a_convolution_stay) {
    enum { IN = 8, OUT = 8, TAPS = 9 };
    rig r;
    rig_open(&r, "resnet18:size=32,width=8,classes=3", "rate=0.1", "prune:sparsity=2:4,end=0", 1);
    step(&r, 0);
    CHECK_EQ(zeros_of(&r, "layer1.0.conv1.weight"), IN * OUT * TAPS / 2);
    const float *w = hri_interp_data(r.it[0], hr_graph_find(r.g[0], "layer1.0.conv1.weight"));
    for (int tap = 0; tap < TAPS; tap++) {
        for (int group = 0; group < IN / 4; group++) {
            for (int out = 0; out < OUT; out++) {
                int zeros = 0;
                for (int k = 0; k < 4; k++) {
                    zeros += w[(tap * IN + group * 4 + k) * OUT + out] == 0.0f;
                }
                CHECK_EQ(zeros, 2);
            }
        }
    }
    rig_close(&r);
}

TEST(prune, what_no_layer_matches_or_lacks_its_end_is_refused) {
    hr_train_options o = {.size = sizeof o};
    CHECK_OK(hr_train_options_parse("", &o, NULL));
    static const char *const texts[] = {"prune:end=5,layers=nothing", "prune:sparsity=0.5"};
    static const char *const words[] = {"nothing", "end=STEP"};
    for (int i = 0; i < 2; i++) {
        rig r = {0};
        hr_error why = {.code = HR_OK};
        CHECK_OK(hr_model_open(net, &r.model, NULL));
        CHECK_OK(hri_passes_parse(texts[i], &r.passes, NULL));
        r.objective =
            (hri_objective){.build = hr_model_build, .user = r.model, .passes = &r.passes};
        CHECK_STATUS(
            hr_step_build(&o, hri_objective_build, &r.objective, HR_STEP_WHOLE, 2, &r.g[0], &why),
            HR_E_INVALID);
        CHECK(strstr(why.message, words[i]));
        rig_close(&r);
    }
}
