/* Plans a model at shares of its unplanned peak: what fits, what it costs in time, how long planning takes.
 *
 *   bench/plan MODEL BATCH [SHARE ...]       shares in percent; "floor" looks for the smallest budget that fits
 *   bench/plan resnet50 32 100 66 50 40 33 25 floor
 *
 * Costs are analytic (from_graph.h), the optimizer is SGD with momentum.  One line a share:
 *   share, arena and live bytes, time over the unconstrained time, over the bound, ops run again, seconds of planning */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <headroom/model.h>
#include <headroom/train.h>

#include "base/clock.h"
#include "graph/graph.h"
#include "plan/from_graph.h"
#include "plan/plan.h"

static hr_graph *training_graph(const char *text, int64_t batch) {
    hr_error why = {0};
    hr_model *model;
    hr_graph *g = NULL;
    hr_train_options o = {.size = sizeof o};
    if (hr_model_open(text, &model, &why) != HR_OK ||
        hr_train_options_parse("optimizer=sgd,momentum=0.9", &o, &why) != HR_OK ||
        hr_step_build(&o, hr_model_build, model, HR_STEP_WHOLE, batch, &g, &why) != HR_OK) {
        fprintf(stderr, "%s: %s\n", text, why.message);
        exit(2);
    }
    hr_model_close(model);
    return g;
}

static void show(const char *label, const hri_plan *plan, double seconds) {
    printf("%-6s arena %8.1f MiB  live %8.1f  time %.4f  over bound %.4f  again %5u  away %7.1f  "
           "%.2f s\n",
           label, (double)plan->arena_bytes / 1048576.0, (double)plan->live_bytes / 1048576.0,
           plan->time_ns / plan->base_time_ns, plan->time_ns / plan->bound_time_ns,
           plan->again_count, (double)plan->copied_bytes / 1048576.0, seconds);
    fflush(stdout);
}

static hri_plan *make(const hri_problem *p, uint64_t budget, double *seconds, hri_prose *why) {
    hri_plan *plan = NULL;
    const uint64_t start = hri_clock_ns();
    const hri_plan_options o = {.budget_bytes = budget};
    if (hri_plan_make(p, &o, &plan, NULL, why) != HR_OK) {
        plan = NULL;
    }
    *seconds = (double)(hri_clock_ns() - start) * 1e-9;
    return plan;
}

int main(int argc, char **argv) {
    hri_graph_problem x;
    hri_prose why = {{0}};
    double seconds = 0;
    if (argc < 3) {
        fprintf(stderr, "plan MODEL BATCH [SHARE ...]\n");
        return 2;
    }
    hr_graph *g = training_graph(argv[1], atoll(argv[2]));
    /* PLAN_ACCELERATOR=1: 15 Tflop/s and 900 GB/s, launches of 4 microseconds; with PLAN_COPIES=1, 12 GB/s to the host. */
    const hri_machine accelerator = {.flops_per_ns = 15000,
                                     .bytes_per_ns = 900,
                                     .launch_ns = 4000,
                                     .out_bytes_per_ns = getenv("PLAN_COPIES") ? 12 : 0,
                                     .in_bytes_per_ns = 12,
                                     .copy_latency_ns = 10000};
    if (hri_problem_from_graph(g, getenv("PLAN_ACCELERATOR") ? &accelerator : NULL, &x, &why) !=
        HR_OK) {
        fprintf(stderr, "%s\n", why.text);
        return 2;
    }
    const char *save = getenv("SAVE_PROBLEM");
    char *text = NULL;
    if (save && hri_problem_print(&x.problem, &text) == HR_OK) {
        FILE *f = fopen(save, "w");
        if (f) {
            fputs(text, f);
            fclose(f);
        }
        free(text);
    }
    hri_plan *plan = make(&x.problem, 0, &seconds, &why);
    if (!plan) {
        fprintf(stderr, "%s\n", why.text);
        return 1;
    }
    const uint64_t whole = plan->unplanned_bytes, floor = plan->floor_bytes;
    printf("%s batch %s: %u ops, %u values, unplanned %.1f MiB, persistent %.1f, floor %.1f (%s)\n",
           argv[1], argv[2], x.problem.op_count, x.problem.value_count, (double)whole / 1048576.0,
           (double)plan->persistent_bytes / 1048576.0, (double)floor / 1048576.0,
           plan->floor_op < x.problem.op_count ? x.problem.ops[plan->floor_op].name : "inputs");
    show("free", plan, seconds);
    hri_plan_destroy(plan);
    for (int i = 3; i < argc; i++) {
        const int least = !strcmp(argv[i], "floor");
        uint64_t low = floor, high = whole;
        uint64_t budget = least ? floor : (uint64_t)(atof(argv[i]) * 0.01 * (double)whole);
        for (int round = 0; round < (least ? 6 : 1); round++) {
            char label[32];
            snprintf(label, sizeof label, "%.1f%%", 100.0 * (double)budget / (double)whole);
            plan = make(&x.problem, budget, &seconds, &why);
            if (plan) {
                show(label, plan, seconds);
                high = budget;
            } else {
                printf("%-6s (%.3f floors) %s  %.2f s\n", label, (double)budget / (double)floor,
                       why.text, seconds);
                low = budget;
            }
            hri_plan_destroy(plan);
            budget = low + (high - low) / (round < 2 ? 8 : 2);
        }
        if (least) {
            printf("smallest budget found: %.3f floors\n", (double)high / (double)floor);
        }
    }
    hri_graph_problem_deinit(&x);
    hr_graph_destroy(g);
    return 0;
}
