/* Casts of a step side by side, and copies out of the way of what goes together: every call still reads what it read before, no
 * copy is disturbed, and the launches are fewer. */
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

static int is_copy(const hri_bound_call *c) {
    return c->kind == HRI_STEP_OUT || c->kind == HRI_STEP_IN;
}

static int meets(const char *a, uint64_t a_bytes, const char *b, uint64_t b_bytes) {
    return a && b && a < b + b_bytes && b < a + a_bytes;
}

static int writes(const hri_bound *b, const hri_bound_call *c, const char *at, uint64_t bytes) {
    const hri_sig *s = &b->g->nodes[c->node].sig;
    if (c->kind != HRI_STEP_RUN) {
        return is_copy(c) && meets(at, bytes, b->pointers[c->first], c->bytes);
    }
    int hit = meets(at, bytes, b->pointers[c->first + s->in_count + s->out_count], c->bytes);
    for (uint32_t k = 0; k < s->out_count; k++) {
        hit |= meets(at, bytes, b->pointers[c->first + s->in_count + k], hr_meta_bytes(&s->out[k]));
    }
    return hit;
}

static int reads_from(const hri_bound *b, const hri_bound_call *c, const char *at, uint64_t bytes) {
    const hri_sig *s = &b->g->nodes[c->node].sig;
    int hit = is_copy(c) && meets(at, bytes, b->pointers[c->first + 1], c->bytes);
    for (uint32_t i = 0; i < s->in_count && c->kind == HRI_STEP_RUN; i++) {
        hit |= meets(at, bytes, b->pointers[c->first + i], hr_meta_bytes(&s->in[i]));
    }
    return hit;
}

/* Every copy is waited for, and nothing that is put meanwhile touches where it goes or writes what it reads.  Returns how many
 * there are. */
static uint32_t check_copies(const hri_bound *b) {
    for (uint32_t t = 0; t < b->call_count; t++) {
        const hri_bound_call *c = &b->calls[t];
        const char *to = is_copy(c) ? b->pointers[c->first] : NULL;
        const char *from = is_copy(c) ? b->pointers[c->first + 1] : NULL;
        uint32_t i = t + 1;
        for (; to && i < b->call_count; i++) {
            const hri_bound_call *x = &b->calls[i];
            if (x->kind == HRI_STEP_WAIT && x->copy == c->copy) {
                break;
            }
            CHECK(!writes(b, x, to, c->bytes) && !writes(b, x, from, c->bytes) &&
                  !reads_from(b, x, to, c->bytes));
        }
        CHECK(!to || i < b->call_count);
    }
    return b->copy_count;
}

/* Who wrote last into a range before call `t`: the first pointer of that call, and one; 0: nobody.  Adds up over all that did. */
static uint64_t writers(const hri_bound *b, uint32_t t, const char *at, uint64_t bytes) {
    uint64_t last = 0;
    for (uint32_t i = t; i-- > 0 && !last;) {
        if (writes(b, &b->calls[i], at, bytes)) {
            last = (uint64_t)b->calls[i].first + 1;
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
        for (uint32_t i = 0; i < s->in_count && c->kind == HRI_STEP_RUN; i++) {
            all =
                all * 1000003 + writers(b, t, b->pointers[c->first + i], hr_meta_bytes(&s->in[i]));
        }
        if (is_copy(c)) {
            all += writers(b, t, b->pointers[c->first + 1], c->bytes);
        }
        if (c->kind != HRI_STEP_WAIT) {
            reads[c->first] = all;
        }
    }
    return reads;
}

/* Runs of casts of the same types. */
static uint32_t cast_runs(const hri_bound *b) {
    uint32_t runs = 0;
    const hri_sig *before = NULL;
    for (uint32_t t = 0; t < b->call_count; t++) {
        const hri_sig *s = &b->g->nodes[b->calls[t].node].sig;
        const int cast = b->calls[t].kind == HRI_STEP_RUN && !strcmp(s->op->name, "cast");
        runs += cast && !(before && before->in[0].type == s->in[0].type);
        before = cast ? s : NULL;
    }
    return runs;
}

/* Sums of two alike right before the norm that reads them. */
static uint32_t pairs(const hri_bound *b) {
    uint32_t found = 0;
    for (uint32_t t = 1; t < b->call_count; t++) {
        const hri_bound_call *before = &b->calls[t - 1], *after = &b->calls[t];
        const hri_sig *x = &b->g->nodes[before->node].sig, *y = &b->g->nodes[after->node].sig;
        found += before->kind == HRI_STEP_RUN && after->kind == HRI_STEP_RUN &&
                 !strcmp(x->op->name, "add") && !strcmp(y->op->name, "layer_norm") &&
                 hr_shape_same(&x->in[0].shape, &x->in[1].shape) &&
                 b->pointers[before->first + 2] == b->pointers[after->first];
    }
    return found;
}

enum { LATER = 24 };

/* The same calls with a copy of nobody's memory started between any two of them, and waited for LATER calls later. */
static hri_bound with_copies(const hri_bound *b) {
    const uint32_t most = 3 * b->call_count;
    hri_bound x = *b;
    x.calls = calloc(most, sizeof *x.calls);
    x.pointers = calloc((size_t)b->pointer_count + 2 * b->call_count, sizeof *x.pointers);
    CHECK(x.calls && x.pointers);
    memcpy(x.pointers, b->pointers, b->pointer_count * sizeof *x.pointers);
    x.call_count = 0;
    for (uint32_t t = 0; t < b->call_count + LATER; t++) {
        if (t < b->call_count) {
            char *far = (char *)(uintptr_t)((UINT64_C(1) << 44) + ((uint64_t)t << 16));
            x.calls[x.call_count++] = b->calls[t];
            x.calls[x.call_count++] = (hri_bound_call){
                .kind = HRI_STEP_OUT, .first = x.pointer_count, .copy = t, .bytes = 4096};
            x.pointers[x.pointer_count++] = far;
            x.pointers[x.pointer_count++] = far + 8192;
        }
        if (t >= LATER) {
            x.calls[x.call_count++] = (hri_bound_call){.kind = HRI_STEP_WAIT, .copy = t - LATER};
        }
    }
    x.copy_count = b->call_count;
    return x;
}

/* Returns how many copies the plan has. */
static uint32_t check_regrouped(const hr_graph *g, const hri_problem *p, uint64_t budget,
                                int copies, int fewer) {
    const hri_plan_options o = {.budget_bytes = budget, .no_offload = !copies, .effort = 40000};
    void *nowhere = (void *)(uintptr_t)(1 << 20); /* nobody follows addresses here */
    hri_plan *plan = NULL;
    hri_bound b;
    hri_prose why = {""};
    CHECK_OK(hri_plan_make(p, &o, &plan, NULL, &why));
    const hri_bind_options bind = {.g = g,
                                   .problem = p,
                                   .plan = plan,
                                   .arena = nowhere,
                                   .others = {(void *)(uintptr_t)(UINT64_C(1) << 40)}};
    CHECK_OK(hri_bind(&bind, &b, &why));
    const uint32_t runs = cast_runs(&b), count = check_copies(&b);
    uint64_t *before = reads_of(&b);
    hri_bound_regroup(&b, &hri_kernels_cuda);
    uint64_t *after = reads_of(&b);
    CHECK_EQ(check_copies(&b), count);
    CHECK(memcmp(before, after, (size_t)b.pointer_count * sizeof *before) == 0);
    CHECK_LE(cast_runs(&b) + (fewer ? runs / 4 : 0), runs);
    free(before);
    free(after);
    hri_bound_deinit(&b);
    hri_plan_destroy(plan);
    return count;
}

TEST(regroup, casts_of_weights_are_side_by_side_and_nothing_reads_anything_else) {
    hr_graph *g =
        training("gpt2-nano:layers=4,context=64,width=128", "optimizer=adamw,precision=bf16");
    hri_graph_problem x;
    hri_plan *free_one = NULL;
    CHECK_OK(hri_problem_from_graph(g, NULL, &x, NULL));
    CHECK_OK(hri_plan_make(&x.problem, NULL, &free_one, NULL, NULL));
    const uint64_t least = free_one->floor_bytes, most = free_one->arena_bytes;
    CHECK_EQ(check_regrouped(g, &x.problem, 0, 0, 1), 0);
    CHECK_EQ(check_regrouped(g, &x.problem, least + (most - least) / 2, 0, 0), 0);
    hri_plan_destroy(free_one);
    hri_graph_problem_deinit(&x);
    hr_graph_destroy(g);
}

TEST(regroup, copies_of_a_plan_stay_right) {
    hr_graph *g =
        training("gpt2-nano:layers=4,context=256,width=128", "optimizer=adamw,precision=bf16");
    const hri_machine machine = {.flops_per_ns = 0.01,
                                 .bytes_per_ns = 100,
                                 .launch_ns = 100,
                                 .out_bytes_per_ns = 100,
                                 .in_bytes_per_ns = 100,
                                 .copy_latency_ns = 1};
    hri_graph_problem x;
    hri_plan *free_one = NULL;
    CHECK_OK(hri_problem_from_graph(g, &machine, &x, NULL));
    CHECK_OK(hri_plan_make(&x.problem, NULL, &free_one, NULL, NULL));
    const uint64_t least = free_one->floor_bytes, most = free_one->arena_bytes;
    uint32_t copies = 0;
    for (uint64_t part = 4; part < 8; part++) {
        copies += check_regrouped(g, &x.problem, least + (most - least) * part / 8, 1, 0);
    }
    CHECK(copies > 10);
    hri_plan_destroy(free_one);
    hri_graph_problem_deinit(&x);
    hr_graph_destroy(g);
}

TEST(regroup, copies_start_behind_what_goes_together_and_are_waited_for_before) {
    hr_graph *g = training("gpt2-nano:layers=4,context=64,width=128", "optimizer=adamw");
    void *nowhere = (void *)(uintptr_t)(1 << 20);
    hri_graph_problem p;
    hri_plan *plan = NULL;
    hri_bound b;
    CHECK_OK(hri_problem_from_graph(g, NULL, &p, NULL));
    CHECK_OK(hri_plan_make(&p.problem, NULL, &plan, NULL, NULL));
    const hri_bind_options bind = {.g = g, .problem = &p.problem, .plan = plan, .arena = nowhere};
    CHECK_OK(hri_bind(&bind, &b, NULL));
    hri_bound x = with_copies(&b);
    uint64_t *before = reads_of(&x);
    CHECK_EQ(pairs(&x), 0);
    hri_bound_regroup(&b, &hri_kernels_cuda);
    hri_bound_regroup(&x, &hri_kernels_cuda);
    uint64_t *after = reads_of(&x);
    CHECK(pairs(&b) >= 8);
    CHECK_EQ(pairs(&x), pairs(&b));
    CHECK_EQ(check_copies(&x), b.call_count);
    CHECK(memcmp(before, after, (size_t)x.pointer_count * sizeof *before) == 0);
    free(before);
    free(after);
    free(x.calls);
    free(x.pointers);
    hri_bound_deinit(&b);
    hri_plan_destroy(plan);
    hri_graph_problem_deinit(&p);
    hr_graph_destroy(g);
}
