/* Where the time of a step goes, for bench/gpu --profile: what a GPU launches together is one line, with what the plan says of it. */
#ifndef HRI_BENCH_GPU_PROFILE_H
#define HRI_BENCH_GPU_PROFILE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <headroom/headroom.h>

#include "fit/planned.h"

typedef struct line {
    char name[64];
    double ns, flops, bytes, said_ns;
    uint32_t calls, turns; /* turns: what goes together is one */
} line;

/* What the plan says of the runs of each node, all of them together. */
typedef struct said {
    const hr_graph *g;
    double *ns;
    uint32_t *runs;
} said;

typedef struct profile {
    const hr_graph *g;
    const said *said; /* NULL: nothing is said */
    line lines[256];
    line now; /* what goes together, until all of it was seen */
    uint32_t count, left, turns;
    double ns, said_ns;
    double gap_ns; /* of a turn: what calls take longer one by one than in a graph */
} profile;

static void *must(void *memory) {
    if (!memory) {
        fprintf(stderr, "gpu: a table: %s\n", hr_status_text(HR_E_NOMEM_HOST));
        exit(3);
    }
    return memory;
}

/* Times as the plan has them, with what its steps do together. */
static void ask_plan(const hri_fit_plans *plans, const hr_graph *g, said *out) {
    *out = (said){.g = g,
                  .ns = must(calloc((size_t)g->node_count + 1, sizeof *out->ns)),
                  .runs = must(calloc((size_t)g->node_count + 1, sizeof *out->runs))};
    for (uint32_t i = 0; i < plans->c->count; i++) {
        const hri_problem *p = &plans->c->pieces[i].x.problem;
        const hri_plan *plan = plans->plans[i];
        if (plans->c->pieces[i].g != g) {
            continue;
        }
        double *times = must(calloc(2 * (size_t)plan->step_count + 2, sizeof *times));
        double *end = times + plan->step_count + 1;
        (void)!(hri_plan_times(p, plan, times, end) < 0);
        for (uint32_t s = 0; s < plan->step_count; s++) {
            if (hri_step_runs(&plan->steps[s])) {
                const uint32_t node = p->ops[plan->steps[s].op].id;
                out->ns[node] += end[s] - times[s];
                out->runs[node]++;
            }
        }
        free(times);
    }
}

/* What went together is one line, by the names of its ops. */
static void add_line(profile *p) {
    uint32_t i = 0;
    while (i < p->count && strcmp(p->lines[i].name, p->now.name) != 0) {
        i++;
    }
    if (i == sizeof p->lines / sizeof p->lines[0]) {
        return;
    }
    if (i == p->count) {
        p->lines[p->count++] = (line){.calls = 0};
        memcpy(p->lines[i].name, p->now.name, sizeof p->now.name);
    }
    p->lines[i].ns += p->now.ns;
    p->lines[i].flops += p->now.flops;
    p->lines[i].bytes += p->now.bytes;
    p->lines[i].said_ns += p->now.said_ns;
    p->lines[i].calls += p->now.calls;
    p->lines[i].turns++;
    p->turns++;
    p->ns += p->now.ns;
    p->said_ns += p->now.said_ns;
}

static void add_name(line *l, const char *name) {
    const size_t used = strlen(l->name);
    if (!strstr(l->name, name)) {
        snprintf(l->name + used, sizeof l->name - used, "%s%s", used ? " + " : "", name);
    }
}

static void add_call(void *user, uint32_t node, uint64_t bytes, double ns, uint32_t together) {
    profile *p = user;
    char name[48];
    hri_cost cost = {.bytes = (double)bytes};
    if (together) {
        p->now = (line){.calls = 0};
        p->left = together;
    }
    if (node == HRI_NO_NODE) {
        snprintf(name, sizeof name, "copy to or from the host");
    } else {
        const hri_sig *sig = &p->g->nodes[node].sig;
        cost = hri_op_cost(sig);
        p->now.said_ns +=
            p->said && p->said->runs[node] ? p->said->ns[node] / p->said->runs[node] : 0;
        snprintf(name, sizeof name, "%s %s", sig->op->name,
                 sig->out_count ? hr_type_name(sig->out[0].type) : "");
    }
    add_name(&p->now, name);
    p->now.ns += ns;
    p->now.flops += cost.flops;
    p->now.bytes += cost.bytes;
    p->now.calls++;
    if (--p->left == 0) {
        add_line(p);
    }
}

static int by_time(const void *a, const void *b) {
    const double d = ((const line *)b)->ns - ((const line *)a)->ns;
    return d > 0 ? 1 : d < 0 ? -1 : 0;
}

static void show_lines(profile *p) {
    qsort(p->lines, p->count, sizeof p->lines[0], by_time);
    printf("  %-52s %6s %6s %9s %9s %8s %7s %9s %9s\n", "op", "calls", "turns", "ms", "planned",
           "off", "share", "GB/s", "TFLOP/s");
    for (uint32_t i = 0; i < p->count; i++) {
        const line *l = &p->lines[i];
        const double ns = l->ns - p->gap_ns * l->turns;
        printf("  %-52s %6u %6u %9.3f %9.3f %+8.3f %6.1f%% %9.0f %9.1f\n", l->name, l->calls,
               l->turns, ns / 1e6, l->said_ns / 1e6, (l->said_ns - ns) / 1e6,
               100 * ns / (p->ns - p->gap_ns * p->turns), l->bytes / ns, l->flops / ns / 1e3);
    }
    const double ns = p->ns - p->gap_ns * p->turns;
    printf("  %-52s %6s %6u %9.3f %9.3f %+8.3f\n", "all", "", p->turns, ns / 1e6, p->said_ns / 1e6,
           (p->said_ns - ns) / 1e6);
}

static void show_profile(hri_planned *planned, const said *planned_ns, double step_ms) {
    static profile p;
    p.g = hri_planned_graph(planned);
    p.said = planned_ns;
    const hr_status status = hri_exec_profile(hri_planned_exec(planned), 0, add_call, &p);
    if (status != HR_OK) {
        fprintf(stderr, "gpu: the profile: %s\n", hr_status_text(status));
        return;
    }
    p.gap_ns = p.turns && p.ns > step_ms * 1e6 ? (p.ns - step_ms * 1e6) / p.turns : 0;
    printf("  call by call: %.3f ms; as one graph: %.3f ms: below, %.2f us less for each turn\n",
           p.ns / 1e6, step_ms, p.gap_ns / 1e3);
    show_lines(&p);
}

#endif
