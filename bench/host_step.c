/* bench/host_step [MODEL [BATCH [STEPS [THREADS]]]]: one training step on the host beside the machine's matrix product.
 *
 * Prints the time of a step (forward, backward, update), its FLOP rate, the rate of a large square product in the same
 * run by our own kernel and by OpenBLAS where it can be loaded, the share of the best of them that the step reaches,
 * the ops that took most time, and the resident memory.  FLOPs are those of matrix products and convolutions alone, so
 * everything else counts as time lost.
 *
 * HOST_STEP_NODES=1 in the environment lists nodes instead of ops, HOST_STEP_NODES=shapes ops by the shapes of their inputs and of their
 * result; times are the least of all steps.  With HOST_STEP_ONLY in the environment one line: "step WALL ms PROCESSOR ms GFLOP".  tools/host-speed reads it.
 *
 * Two clocks: the wall, and processor time.  On a machine that others use, the second is the one to compare; both are
 * best of several.  The first step, which touches new memory, is not counted. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <headroom/headroom.h>

#include "base/clock.h"
#include "graph/graph.h"
#include "run/interpret.h"
#include "step/synthetic.h"

enum { SQUARE = 1536, SQUARE_ROUNDS = 5, TOP = 15, MOST = 60, NAME = 72 };

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double wall_seconds(void) {
    return 1e-9 * (double)hri_clock_ns();
}

static void need(hr_status status, const char *what) {
    if (status != HR_OK) {
        fprintf(stderr, "host_step: %s: %s\n", what, hr_status_text(status));
        exit(3);
    }
}

/* ---- the product to compare with ---- */

typedef struct rate {
    double wall, cpu; /* GFLOP/s; cpu: per second of processor time, times the threads */
} rate;

typedef void sgemm_fn(int, int, int, int, int, int, float, const float *, int, const float *, int,
                      float, float *, int);

typedef struct product {
    sgemm_fn *sgemm; /* NULL: ours */
    hri_interp *it;
    float *a, *b, *c;
} product;

static void multiply(const product *p) {
    if (p->sgemm) {
        p->sgemm(101, 111, 111, SQUARE, SQUARE, SQUARE, 1.0f, p->a, SQUARE, p->b, SQUARE, 0.0f,
                 p->c, SQUARE);
    } else {
        need(hri_interp_run(p->it, 0, NULL), "product");
    }
}

static rate measure(const product *p, uint32_t threads) {
    const double work = 2e-9 * SQUARE * SQUARE * SQUARE;
    rate best = {0};
    multiply(p);
    for (int i = 0; i < SQUARE_ROUNDS; i++) {
        const double wall = wall_seconds(), cpu = cpu_seconds();
        multiply(p);
        const double w = work / (wall_seconds() - wall);
        const double c = work / (cpu_seconds() - cpu) * threads;
        best.wall = w > best.wall ? w : best.wall;
        best.cpu = c > best.cpu ? c : best.cpu;
    }
    return best;
}

static rate measure_ours(hri_threads *pool) {
    hr_graph *g;
    hri_interp *it;
    need(hr_graph_create(&g), "graph");
    const hr_shape shape = hr_shape_2(SQUARE, SQUARE);
    const hr_value a = hr_graph_param(g, "a", HR_TYPE_F32, shape, hr_init_normal(1));
    const hr_value b = hr_graph_param(g, "b", HR_TYPE_F32, shape, hr_init_normal(1));
    hr_graph_result(g, hr_matmul(g, a, b, 0, 0), "c");
    need(hr_graph_freeze(g), "graph");
    need(hri_interp_create(g, pool, 1, &it), "interpreter");
    const product p = {.it = it};
    const rate r = measure(&p, hri_threads_count(pool));
    hri_interp_destroy(it);
    hr_graph_destroy(g);
    return r;
}

static rate measure_openblas(uint32_t threads) {
    rate r = {0};
    void *lib = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        return r;
    }
    product p = {0};
    void (*set_threads)(int) = NULL;
    *(void **)&p.sgemm = dlsym(lib, "cblas_sgemm");
    *(void **)&set_threads = dlsym(lib, "openblas_set_num_threads");
    const size_t count = (size_t)SQUARE * SQUARE;
    p.a = malloc(count * sizeof(float));
    p.b = malloc(count * sizeof(float));
    p.c = malloc(count * sizeof(float));
    if (p.sgemm && set_threads && p.a && p.b && p.c) {
        for (size_t i = 0; i < count; i++) {
            p.a[i] = p.b[i] = (float)(i % 7) - 3.0f;
        }
        set_threads((int)threads);
        r = measure(&p, threads);
    }
    free(p.a);
    free(p.b);
    free(p.c);
    return r; /* the library stays loaded: its threads cannot be stopped */
}

/* ---- where the time goes ---- */

typedef struct line {
    char name[NAME];
    double cpu, wall, flops;
    int count;
} line;

typedef struct profile {
    const hr_graph *g;
    double wall, cpu;             /* when the node began */
    double *node_wall, *node_cpu; /* least of all steps */
} profile;

/* Lines of the table: ops, nodes by name, or ops by the shapes of their inputs. */
typedef enum rows { ROWS_OPS, ROWS_NODES, ROWS_SHAPES } rows;

static rows rows_asked(void) {
    const char *text = getenv("HOST_STEP_NODES");
    return !text ? ROWS_OPS : !strcmp(text, "shapes") ? ROWS_SHAPES : ROWS_NODES;
}

static void forget(profile *p) {
    for (uint32_t n = 0; n < p->g->node_count; n++) {
        p->node_wall[n] = p->node_cpu[n] = 1e30;
    }
}

static void name_of(const hri_node_record *node, rows by, char *out, size_t bytes) {
    const hri_sig *s = &node->sig;
    int at = snprintf(out, bytes, "%s", by == ROWS_NODES ? node->name : s->op->name);
    for (uint32_t i = 0; by == ROWS_SHAPES && i < s->in_count + 1; i++) {
        const hr_shape *shape = i < s->in_count ? &s->in[i].shape : &s->out[0].shape;
        for (int k = 0; k < (int)shape->rank && at > 0 && (size_t)at < bytes; k++) {
            const char *before = k ? "x" : i < s->in_count ? " " : " > ";
            at +=
                snprintf(out + at, bytes - (size_t)at, "%s%lld", before, (long long)shape->dim[k]);
        }
    }
}

static void watch(void *user, uint32_t node, int done) {
    profile *p = user;
    const double wall = wall_seconds(), cpu = cpu_seconds();
    if (done) {
        const double w = wall - p->wall, c = cpu - p->cpu;
        p->node_wall[node] = w < p->node_wall[node] ? w : p->node_wall[node];
        p->node_cpu[node] = c < p->node_cpu[node] ? c : p->node_cpu[node];
    }
    p->wall = wall;
    p->cpu = cpu;
}

static int is_product(const hr_op *op) {
    return !strcmp(op->name, "matmul") || !strncmp(op->name, "conv2d", 6) ||
           !strncmp(op->name, "linear_cross_entropy", 20);
}

static double product_flops(const hr_graph *g) {
    double flops = 0.0;
    for (uint32_t n = 0; n < g->node_count; n++) {
        if (g->nodes[n].live && is_product(g->nodes[n].sig.op)) {
            flops += hri_op_cost(&g->nodes[n].sig).flops;
        }
    }
    return flops;
}

static int by_time(const void *a, const void *b) {
    const double d = ((const line *)b)->cpu - ((const line *)a)->cpu;
    return d > 0 ? 1 : d < 0 ? -1 : 0;
}

static void print_table(const profile *p, double all, rows by) {
    static line lines[4096];
    size_t count = 0;
    for (uint32_t n = 0; n < p->g->node_count; n++) {
        const hri_node_record *node = &p->g->nodes[n];
        char name[NAME];
        size_t i = 0;
        if (!node->live || count == sizeof lines / sizeof lines[0]) {
            continue;
        }
        name_of(node, by, name, sizeof name);
        while (i < count && strcmp(lines[i].name, name) != 0) {
            i++;
        }
        if (i == count) {
            lines[count++] = (line){{0}, 0, 0, 0, 0};
            memcpy(lines[i].name, name, sizeof name);
        }
        lines[i].cpu += p->node_cpu[n];
        lines[i].wall += p->node_wall[n];
        lines[i].flops += is_product(node->sig.op) ? hri_op_cost(&node->sig).flops : 0.0;
        lines[i].count++;
    }
    qsort(lines, count, sizeof lines[0], by_time);
    printf("%-72s %5s %9s %9s %6s %9s\n", "op", "calls", "cpu ms", "wall ms", "share", "GFLOP/s");
    for (size_t i = 0; i < count && i < (by == ROWS_OPS ? TOP : MOST); i++) {
        printf("%-72s %5d %9.2f %9.2f %5.1f%% ", lines[i].name, lines[i].count, 1e3 * lines[i].cpu,
               1e3 * lines[i].wall, 100.0 * lines[i].cpu / all);
        if (lines[i].flops > 0) {
            printf("%9.1f\n", 1e-9 * lines[i].flops / lines[i].cpu);
        } else {
            printf("%9s\n", "");
        }
    }
}

/* ---- the step ---- */

static void feed(const hr_graph *g, hri_interp *it, uint32_t classes) {
    static const struct {
        const char *name;
        float value;
    } small[] = {{"train.rate", 0.01f}, {"train.update", 1.0f}, {"train.scale", 1024.0f}};
    uint32_t k = 0;
    for (hr_value v = 1; v <= hr_graph_value_count(g); v++) {
        if (hr_graph_kind(g, v) == HR_VALUE_INPUT &&
            strncmp(hr_graph_name(g, v), "train.", 6) != 0) {
            const hr_meta meta = hr_graph_meta(g, v);
            hri_synthetic_fill(&meta, 1, 0, k++, 0, classes, hri_interp_data(it, v));
        }
    }
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
        const hr_value v = hr_graph_find(g, small[i].name);
        if (v != HR_NONE) {
            *(float *)hri_interp_data(it, v) = small[i].value;
        }
    }
}

static double resident_mib(const char *which) {
    char text[256];
    double kib = 0.0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(text, sizeof text, f)) {
        if (!strncmp(text, which, strlen(which))) {
            kib = strtod(text + strlen(which), NULL);
        }
    }
    if (f) {
        fclose(f);
    }
    return kib / 1024.0;
}

static hr_graph *make_graph(const char *model, int64_t batch, const char *options,
                            uint32_t *classes) {
    hr_model *m;
    hr_graph *g;
    hr_train_options o = {.size = sizeof o};
    hr_error why = {0};
    hr_status status = hr_train_options_parse(options, &o, &why);
    if (status == HR_OK) {
        status = hr_model_open(model, &m, &why);
    }
    if (status == HR_OK) {
        *classes = (uint32_t)hr_model_classes(m);
        status = hr_step_build(&o, hr_model_build, m, HR_STEP_WHOLE, batch, &g, &why);
        hr_model_close(m);
    }
    if (status != HR_OK) {
        fprintf(stderr, "host_step: %s\n", why.message);
        exit(2);
    }
    return g;
}

int main(int argc, char **argv) {
    const char *model = argc > 1 ? argv[1] : "resnet18";
    const int64_t batch = argc > 2 ? atoll(argv[2]) : 16;
    const int steps = argc > 3 ? atoi(argv[3]) : 3;
    hri_threads *pool;
    uint32_t classes = 0;
    need(hri_threads_create(argc > 4 ? (uint32_t)atoi(argv[4]) : 0, &pool), "threads");
    const uint32_t threads = hri_threads_count(pool);
    hr_graph *g = make_graph(model, batch, getenv("HOST_STEP_OPTIONS"), &classes);
    profile p = {.g = g};
    p.node_wall = calloc(g->node_count, sizeof(double));
    p.node_cpu = calloc(g->node_count, sizeof(double));
    hri_interp *it;
    const hri_interp_options o = {
        .threads = pool, .seed = 1, .reuse = 1, .watch = watch, .watch_user = &p};
    if (!p.node_wall || !p.node_cpu || steps < 1) {
        return 2;
    }
    need(hri_interp_open(g, &o, &it), "interpreter");
    feed(g, it, classes);
    need(hri_interp_run(it, 0, NULL), "step 0");
    forget(&p);

    double best_wall = 1e30, best_cpu = 1e30, all = 0.0;
    for (int s = 1; s <= steps; s++) {
        const double wall = wall_seconds(), cpu = cpu_seconds();
        need(hri_interp_run(it, (uint32_t)s, NULL), "step");
        const double w = wall_seconds() - wall, c = cpu_seconds() - cpu;
        best_wall = w < best_wall ? w : best_wall;
        best_cpu = c < best_cpu ? c : best_cpu;
        all += c / steps;
    }
    const double memory = resident_mib("VmRSS:"), most = resident_mib("VmHWM:");
    const double work = 1e-9 * product_flops(g);
    if (getenv("HOST_STEP_ONLY")) {
        printf("step %.4f ms %.4f ms %.5f\n", 1e3 * best_wall, 1e3 * best_cpu, work);
        return 0;
    }
    const rate ours = measure_ours(pool), blas = measure_openblas(threads);
    const double top_wall = ours.wall > blas.wall ? ours.wall : blas.wall;
    const double top_cpu = ours.cpu > blas.cpu ? ours.cpu : blas.cpu;
    print_table(&p, all, rows_asked());
    printf("\n%s, batch %lld, %u threads, %d steps: %.1f GFLOP a step, loss %.6f\n", model,
           (long long)batch, threads, steps, work,
           (double)*(float *)hri_interp_data(it, hr_graph_find(g, "loss")));
    printf("%-34s %10s %12s\n", "", "wall", "processor");
    printf("%-34s %7.2f ms %9.2f ms\n", "step", 1e3 * best_wall, 1e3 * best_cpu / threads);
    printf("%-34s %10.1f %12.1f\n", "GFLOP/s of the step", work / best_wall,
           work / best_cpu * threads);
    printf("%-34s %10.1f %12.1f\n", "GFLOP/s of our product, 1536^3", ours.wall, ours.cpu);
    printf("%-34s %10.1f %12.1f\n", "GFLOP/s of OpenBLAS, 1536^3", blas.wall, blas.cpu);
    printf("%-34s %9.1f%% %11.1f%%\n", "step, of the better product",
           100.0 * work / best_wall / top_wall, 100.0 * work / best_cpu * threads / top_cpu);
    printf("%-34s %6.0f MiB   (most: %.0f MiB; buffers: %.0f MiB)\n", "resident", memory, most,
           (double)hri_interp_bytes(it) / 1048576.0);
    hri_interp_destroy(it);
    hr_graph_destroy(g);
    hri_threads_destroy(pool);
    free(p.node_wall);
    free(p.node_cpu);
    return 0;
}
