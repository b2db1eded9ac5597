/* Replicas as slices of one GPU: the bits of one slice that computes the parts one after the other, in arenas of their own
 * inside one budget, and nothing of the exchange by way of the host. */
#include "rig.h"
#include "training.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

typedef struct outcome {
    float losses[TRAINING_STEPS];
    uint64_t print; /* of every parameter and state that a checkpoint has */
} outcome;

static uint64_t print_of(hri_planned *p) {
    const hr_graph *g = hri_planned_graph(p);
    uint64_t print = 0;
    for (hr_value v = 1; v < g->value_count; v++) {
        const hr_value_kind kind = g->values[v].kind;
        const uint64_t size = hr_meta_bytes(&g->values[v].meta);
        if ((kind != HR_VALUE_PARAM && kind != HR_VALUE_STATE) ||
            (g->values[v].tags && g->values[v].tags->keep == HR_KEEP_NOT)) {
            continue;
        }
        char *bytes = malloc(size);
        CHECK(bytes != NULL);
        CHECK_OK(hri_planned_get(p, v, 0, bytes, size));
        print ^= hri_hash_bytes(bytes, size, 1) * hri_hash_string(g->values[v].name);
        free(bytes);
    }
    return print;
}

static void train(const char *model, const char *options, int64_t batch, int64_t parts,
                  uint32_t replicas, outcome *out) {
    training t;
    hri_measured m;
    training_open(&t, model, options, batch);
    t.job.parts = parts;
    t.job.replicas = t.job.arenas = replicas;
    t.job.allow_coupled = 1;
    training_plan(&t, 1.0);
    CHECK_EQ(t.plans.arenas, replicas);
    training_take(&t);
    const int64_t syncs = is_fake() ? fake()->calls("cuStreamSynchronize") : 0;
    training_steps(&t, out->losses);
    if (is_fake()) { /* of parts and steps, never of tensors */
        const int64_t most = TRAINING_STEPS * (parts * 20 + 20);
        CHECK_LE(fake()->calls("cuStreamSynchronize") - syncs, most);
    }
    out->print = print_of(t.planned);
    hri_planned_measure(t.planned, &m);
    CHECK_EQ(m.planned_bytes, replicas * t.plans.arena_bytes);
    CHECK_EQ(m.arena_bytes, m.planned_bytes);
    CHECK(m.process_bytes > m.arena_bytes);
    CHECK_LE(m.process_bytes, t.plans.peak_bytes);
    training_close(&t);
}

static void compare(const char *model, const char *options, int64_t batch, int64_t parts,
                    uint32_t replicas) {
    outcome one, is;
    train(model, options, batch, parts, 1, &one);
    train(model, options, batch, parts, replicas, &is);
    CHECK(memcmp(is.losses, one.losses, sizeof one.losses) == 0);
    CHECK(is.print == one.print);
}

TEST_TIMEOUT(slices, have_the_bits_of_one, 300) {
    compare("mlp:size=4,width=8,classes=10,dropout=0.2", "optimizer=sgd,momentum=0.9", 10, 4, 3);
}

TEST_TIMEOUT(slices, of_a_model_with_states_in_bf16, 300) {
    compare("net: input(16,classes=4) | dense(8) | batch_norm | relu | dense(classes)",
            "optimizer=adamw,clip=0.01,precision=bf16", 6, 3, 2);
}
