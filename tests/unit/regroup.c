/* Casts of a step side by side: every call still reads what it read before, and the launches are fewer. */
#include "run/regroup.h"

#include <stdlib.h>
#include <string.h>
#include <headroom/headroom.h>

#include "graph/op.h"
#include "plan/from_graph.h"
#include "step/shard.h"
#include "test.h"

static hr_graph *training(const char *model_name, const char *options) {
    hr_train_options o = {.size = sizeof o};
    hr_model *model;
    hr_graph *g = NULL;
    hr_error why = {0};
    CHECK_OK(hr_model_open(model_name, &model, NULL));
    CHECK_OK(hr_train_options_parse(options, &o, NULL));
    CHECK_OK(hri_step_build(&o, hr_model_build, model, HR_STEP_WHOLE, 2, NULL, &g, &why));
    hr_model_close(model);
    return g;
}

/* Who wrote last into a range before call `t`: the first pointer of that call, and one; 0: nobody.  Adds up over all that did. */
static uint64_t writers(const hri_bound *b, uint32_t t, const char *at, uint64_t bytes) {
    uint64_t last = 0;
    for (uint32_t i = t; i-- > 0 && !last;) {
        const hri_bound_call *c = &b->calls[i];
        const hri_sig *s = &b->g->nodes[c->node].sig;
        for (uint32_t k = 0; k < s->out_count; k++) {
            const char *out = b->pointers[c->first + s->in_count + k];
            if (out && at && at < out + hr_meta_bytes(&s->out[k]) && out < at + bytes) {
                last = (uint64_t)c->first + 1;
            }
        }
    }
    return last;
}

/* By first pointer of a call: what it read, as one number. */
static uint64_t *reads_of(const hri_bound *b) {
    uint64_t *reads = calloc((size_t)b->pointer_count + 1, sizeof *reads);
    CHECK(reads != NULL);
    for (uint32_t t = 0; t < b->call_count; t++) {
        const hri_bound_call *c = &b->calls[t];
        const hri_sig *s = &b->g->nodes[c->node].sig;
        uint64_t all = 1;
        for (uint32_t i = 0; i < s->in_count; i++) {
            all =
                all * 1000003 + writers(b, t, b->pointers[c->first + i], hr_meta_bytes(&s->in[i]));
        }
        reads[c->first] = all;
    }
    return reads;
}

/* Runs of casts of the same types. */
static uint32_t cast_runs(const hri_bound *b) {
    uint32_t runs = 0;
    const hri_sig *before = NULL;
    for (uint32_t t = 0; t < b->call_count; t++) {
        const hri_sig *s = &b->g->nodes[b->calls[t].node].sig;
        const int cast = !strcmp(s->op->name, "cast");
        runs += cast && !(before && before->in[0].type == s->in[0].type);
        before = cast ? s : NULL;
    }
    return runs;
}

static void check_regrouped(const hr_graph *g, const hri_problem *p, uint64_t budget, int fewer) {
    const hri_plan_options o = {.budget_bytes = budget, .no_offload = 1, .effort = 4000};
    void *nowhere = (void *)(uintptr_t)(1 << 20); /* nobody follows addresses here */
    hri_plan *plan = NULL;
    hri_bound b;
    hri_prose why = {""};
    CHECK_OK(hri_plan_make(p, &o, &plan, NULL, &why));
    const hri_bind_options bind = {.g = g, .problem = p, .plan = plan, .arena = nowhere};
    CHECK_OK(hri_bind(&bind, &b, &why));
    const uint32_t runs = cast_runs(&b);
    uint64_t *before = reads_of(&b);
    hri_bound_regroup(&b, &hri_kernels_cuda);
    uint64_t *after = reads_of(&b);
    CHECK(memcmp(before, after, (size_t)b.pointer_count * sizeof *before) == 0);
    CHECK_LE(cast_runs(&b) + (fewer ? runs / 4 : 0), runs);
    free(before);
    free(after);
    hri_bound_deinit(&b);
    hri_plan_destroy(plan);
}

TEST(regroup, casts_of_weights_are_side_by_side_and_nothing_reads_anything_else) {
    hr_graph *g =
        training("gpt2-nano:layers=4,context=64,width=128", "optimizer=adamw,precision=bf16");
    hri_graph_problem x;
    hri_plan *free_one = NULL;
    CHECK_OK(hri_problem_from_graph(g, NULL, &x, NULL));
    CHECK_OK(hri_plan_make(&x.problem, NULL, &free_one, NULL, NULL));
    const uint64_t least = free_one->floor_bytes, most = free_one->arena_bytes;
    check_regrouped(g, &x.problem, 0, 1);
    check_regrouped(g, &x.problem, least + (most - least) / 2, 0);
    hri_plan_destroy(free_one);
    hri_graph_problem_deinit(&x);
    hr_graph_destroy(g);
}
