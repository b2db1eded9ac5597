/* How fast single ops are on a GPU, at the sizes of ResNet-50 (batch 256) and GPT-2 124M (16 x 1024 tokens), bf16.
 *
 *   bench/gpu_ops [--device cuda:0] [--check] [--repeat N] [TEXT...]     lines that contain any of the texts
 *   bench/gpu_ops --op softmax "bf16[64,1000]" "axis=0"                  any op, inputs and attributes
 *   bench/gpu_ops --product "nt bf16 f32 2048 50304 768 768 768 50304"   a product: operands as they lie (n) or turned (t), their
 *                                       type and the result's, M N K, elements from row to row of each, "add"
 *   bench/gpu_ops --no-cudnn --no-cublaslt conv attention matmul         our own kernels where a library has some
 *   bench/gpu_ops --exact ...           f32 products in f32, not in tf32
 *   bench/gpu_ops --trial ...           algorithms of libraries are chosen in a trial, and all candidates shown: group and microseconds
 *   bench/gpu_ops --hide N ...          one byte in N is 0 (9 where nothing is said; 0: none), which hides a key where bytes are a mask
 *   bench/gpu_ops --low X ...           numbers of a mask are 0, or X where a byte would be 0 (-inf, for example)
 *   bench/gpu_ops --pattern NAME ...    what a mask hides instead of one in N: "padding" (up to a third of the keys of a sample, at their end),
 *                                       "later" (keys behind the query), "window" (keys more than 128 from it), "blocks" (keys of other 256)
 *   bench/gpu_ops --wait ...            says "ready" when the first call is over, and times for every line that comes in: many of them may
 *                                       compile side by side and be timed in turns (tools/gpu-attention)
 *
 * A line: microseconds a call, bytes and floating-point operations a second as the op's own cost has them, and both over
 * the ceilings: a copy inside the device, measured first, and 790 TFLOP/s, what an H200 reaches in large bf16 products.
 * The calls are captured and replayed, as in training, so launches from the host cost nothing.  A last column with
 * --check: the largest difference from the host kernel, over the largest value; 2-byte results may differ by 4e-3
 * (f16) or 2e-2 (bf16).  "library" at the end: one did it and not a kernel of ours.  A size of one line is small enough for the cache of the device only where the real one is. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <headroom/headroom.h>

#include "base/cores.h"
#include "base/threads.h"
#include "device/gpu.h"
#include "graph/graph.h"
#include "graph/half.h"
#include "gpu_rows.h"

#define CEILING_FLOPS 790e12

typedef struct bench {
    hr_ctx *ctx;
    hr_device *device;
    hr_logical *logical;
    hr_queue *queue;
    hr_event *begin, *end;
    hri_gpu *gpu;
    hri_threads *threads; /* of the check */
    double copy;          /* bytes a second, read and written */
    int check, repeat, wait, trial, hide;
    const float *low;    /* of masks of numbers; NULL: they are like other numbers */
    const char *pattern; /* of what a mask hides; NULL: one in `hide` */
} bench;

static void need(hr_status status, const char *what, const char *why) {
    if (status != HR_OK) {
        fprintf(stderr, "gpu_ops: %s: %s%s%s\n", what, hr_status_text(status), why ? ": " : "",
                why ? why : "");
        exit(3);
    }
}

/* ---- one op as a graph ---- */

static uint32_t parse(const char *at, hr_meta *out) {
    uint32_t count = 0;
    while (*at) {
        char type[8] = "";
        size_t n = strcspn(at, "[");
        memcpy(type, at, n < 7 ? n : 7);
        out[count] = (hr_meta){0};
        need(hr_type_find(type, &out[count].type), "a type of the list", type);
        for (at += n + 1; *at != ']';) {
            char *end;
            out[count].shape.dim[out[count].shape.rank++] = strtoll(at, &end, 10);
            at = end + (*end == ',');
        }
        at += 1 + (at[1] == ' ');
        count++;
    }
    return count;
}

static hr_graph *graph_of(const row *r) {
    hr_graph *g;
    hr_meta in[HRI_IN_MAX];
    hr_value values[HRI_IN_MAX];
    const uint32_t count = parse(r->in, in);
    need(hr_graph_create(&g), "a graph", NULL);
    for (uint32_t i = 0; i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "in%u", i);
        values[i] = hr_graph_param(g, name, in[i].type, in[i].shape, hr_init_constant(0));
    }
    const hr_value y = hr_graph_node(g, r->op, values, count, r->attributes);
    const hr_op *op = hri_op_find(r->op);
    for (uint32_t k = 0; op && k < op->out_count; k++) {
        char name[16];
        snprintf(name, sizeof name, "out%u", k);
        hr_graph_result(g, hr_graph_output(g, y, k), name);
    }
    hr_error error;
    const hr_status status = hr_graph_freeze(g);
    hr_graph_error(g, &error);
    need(status, r->op, error.message);
    return g;
}

/* Numbers of size 0.5 to 1, of both signs in tensors and positive in vectors (variances); small whole numbers. */
static void fill(const hr_meta *m, void *data, int hide) {
    const uint64_t count = (uint64_t)hr_shape_count(&m->shape);
    const uint16_t half = m->type == HR_TYPE_F16 ? 0x3800 : 0x3f00;
    const int both = m->shape.rank > 1;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t mixed = (i + 1) * 0x9E3779B97F4A7C15u >> 40;
        const uint16_t bits =
            (uint16_t)((half + mixed % 127) | (both && mixed & 128 ? 0x8000u : 0u));
        if (m->type == HR_TYPE_F32) {
            ((uint32_t *)data)[i] = (uint32_t)bits << 16;
        } else if (hr_type_is_real(m->type)) {
            ((uint16_t *)data)[i] = bits;
        } else if (m->type == HR_TYPE_U8 || m->type == HR_TYPE_I8) {
            ((uint8_t *)data)[i] = hide ? (uint8_t)(mixed % (uint64_t)hide) : 1;
        } else if (m->type == HR_TYPE_I32) {
            ((int32_t *)data)[i] = (int32_t)(mixed % 32000);
        } else {
            ((int64_t *)data)[i] = (int64_t)(mixed % 32000);
        }
    }
}

/* Whether element i of a mask (samples, heads, rows, keys) hides a key. */
static int hides(const hr_meta *m, const char *pattern, int64_t i, int hide) {
    const int64_t *dim = m->shape.dim, keys = dim[3], key = i % keys, query = i / keys % dim[2];
    const int64_t sample = i / keys / dim[2] / dim[1];
    const uint64_t mixed = ((uint64_t)i + 1) * 0x9E3779B97F4A7C15u >> 40;
    return !pattern                      ? hide && mixed % (uint64_t)hide == 0
           : !strcmp(pattern, "padding") ? key >= keys - keys * (sample % 4) / 9
           : !strcmp(pattern, "later")   ? key > query
           : !strcmp(pattern, "window")  ? labs((long)(key - query)) > 128
                                         : key / 256 != query / 256;
}

/* A mask of numbers: 0, or `low` where a key is hidden; of bytes: 1 or 0. */
static void fill_mask(const hr_meta *m, void *data, const char *pattern, int hide, float low) {
    const uint16_t half = m->type == HR_TYPE_F16 ? hri_to_f16(low).bits : hri_to_bf16(low).bits;
    for (int64_t i = 0; i < hr_shape_count(&m->shape); i++) {
        const int hidden = hides(m, pattern, i, hide);
        if (m->type == HR_TYPE_U8) {
            ((uint8_t *)data)[i] = !hidden;
        } else if (m->type == HR_TYPE_F32) {
            ((float *)data)[i] = hidden ? low : 0.0f;
        } else {
            ((uint16_t *)data)[i] = hidden ? half : 0;
        }
    }
}

static void *room(uint64_t bytes) {
    void *p = aligned_alloc(64, (bytes / 64 + 1) * 64);
    if (!p) {
        fputs("gpu_ops: no memory\n", stderr);
        exit(3);
    }
    return p;
}

/* ---- memory of a call: everything in one block ---- */

typedef struct call {
    hri_gpu_call gpu;
    hr_block block;
    hr_addr in[HRI_IN_MAX], out[HRI_OUT_MAX];
    void *host[HRI_IN_MAX];
} call;

static uint64_t up(uint64_t bytes) {
    return (bytes + 255) / 256 * 256;
}

static void call_open(bench *b, const hri_sig *s, call *c) {
    const hri_kernel *kernel = hri_kernel_for(hri_gpu_kernels(b->gpu), s);
    const uint64_t workspace = hri_kernel_launch_workspace(kernel, s, b->gpu, 0);
    uint64_t bytes = up(workspace) + 256;
    memset(c, 0, sizeof *c);
    for (uint32_t i = 0; i < s->in_count; i++) {
        bytes += up(hr_meta_bytes(&s->in[i]));
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        bytes += up(hr_meta_bytes(&s->out[k]));
    }
    need(hr_block_alloc(b->logical, bytes, HR_CATEGORY_WEIGHTS, 0, &c->block), "device memory",
         NULL);
    hr_addr at = c->block.addr + 256;
    need(hr_fill(b->queue, c->block.addr, 0, bytes), "a fill", NULL);
    for (uint32_t i = 0; i < s->in_count; i++) {
        c->in[i] = at;
        at += up(hr_meta_bytes(&s->in[i]));
        c->host[i] = room(hr_meta_bytes(&s->in[i]));
        const int mask = strstr(s->op->name, "masked") && i + 1 == s->in_count;
        if (mask && (b->pattern || (b->low && hr_type_is_real(s->in[i].type)))) {
            fill_mask(&s->in[i], c->host[i], b->pattern, b->hide, b->low ? *b->low : -INFINITY);
        } else {
            fill(&s->in[i], c->host[i], b->hide);
        }
        need(hr_copy(b->queue, c->in[i], (hr_addr)(uintptr_t)c->host[i], hr_meta_bytes(&s->in[i])),
             "a copy", NULL);
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        const uint32_t over = s->op->updates[k];
        c->out[k] = over && over <= s->in_count ? c->in[over - 1] : at;
        at += up(hr_meta_bytes(&s->out[k]));
    }
    need(hr_queue_sync(b->queue), "the copies", NULL);
    c->gpu = (hri_gpu_call){.gpu = b->gpu,
                            .kernel = kernel,
                            .sig = s,
                            .in = c->in,
                            .out = c->out,
                            .workspace = workspace ? at : 0,
                            .workspace_bytes = workspace,
                            .control = c->block.addr};
}

static void call_close(bench *b, const hri_sig *s, call *c) {
    for (uint32_t i = 0; i < s->in_count; i++) {
        free(c->host[i]);
    }
    need(hr_block_free(b->logical, &c->block), "device memory", NULL);
}

/* ---- time ---- */

typedef hr_status launch_fn(bench *b, const void *what);

static hr_status launch_op(bench *b, const void *what) {
    (void)b;
    return hri_op_launch(&((const call *)what)->gpu);
}

static void show_candidates(void *user, const char *key, const hri_gpu_candidate *of,
                            uint32_t count, uint32_t chosen) {
    (void)user;
    if (count) {
        printf("  %s:", key);
    }
    for (uint32_t i = 0; i < count; i++) {
        printf(" %d%s%.0f", of[i].group, i == chosen ? "*" : ":", (double)of[i].ms * 1e3);
    }
    printf(count ? "\n" : "");
}

/* The first call: compiles, and chooses in a trial if one is wanted. */
static hr_status launch_first(bench *b, launch_fn *launch, const void *what) {
    hr_block block = {0};
    if (!b->trial) {
        return launch(b, what);
    }
    need(hr_block_alloc(b->logical, HRI_GPU_TRIAL_BYTES, HR_CATEGORY_WEIGHTS, 0, &block),
         "device memory", NULL);
    hri_gpu_trial(b->gpu, block.addr);
    hr_status status = launch(b, what);
    hri_gpu_trial(b->gpu, 0);
    status = status == HR_OK ? hr_queue_sync(b->queue) : status;
    need(hr_block_free(b->logical, &block), "device memory", NULL);
    return status;
}

static uint64_t replay_ns(bench *b, hri_gpu_graph *graph) {
    uint64_t ns = 0;
    need(hr_event_mark(b->begin, b->queue), "an event", NULL);
    need(hri_gpu_graph_launch(b->gpu, graph), "a replay", hri_gpu_detail(b->gpu));
    need(hr_event_mark(b->end, b->queue), "an event", NULL);
    need(hr_queue_sync(b->queue), "the replays", hri_gpu_detail(b->gpu));
    need(hr_event_elapsed(b->begin, b->end, &ns), "the time", NULL);
    return ns;
}

static int by_ns(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The median of some replays, after as many as take the clocks up. */
static double seconds_of(bench *b, launch_fn *launch, const void *what) {
    enum { REPLAYS = 7, WARM_MOST = 20 };
    const uint64_t warm_ns = 30000000;
    hri_gpu_graph *graph;
    uint64_t ns[REPLAYS], warm = 0;
    need(hri_gpu_capture_begin(b->gpu), "a capture", hri_gpu_detail(b->gpu));
    for (int i = 0; i < b->repeat; i++) {
        need(launch(b, what), "a launch", hri_gpu_detail(b->gpu));
    }
    need(hri_gpu_capture_end(b->gpu, &graph), "a capture", hri_gpu_detail(b->gpu));
    for (int i = 0; i < WARM_MOST && warm < warm_ns; i++) {
        warm += replay_ns(b, graph);
    }
    for (int i = 0; i < REPLAYS; i++) {
        ns[i] = replay_ns(b, graph);
    }
    hri_gpu_graph_destroy(b->gpu, graph);
    qsort(ns, REPLAYS, sizeof *ns, by_ns);
    return (double)ns[REPLAYS / 2] * 1e-9 / b->repeat;
}

/* Bytes read and written a second by a copy inside the device. */
static double copy_rate(bench *b) {
    enum { TIMES = 10 };
    const uint64_t bytes = 1u << 30;
    hr_block block;
    uint64_t ns = 0;
    if (hr_block_alloc(b->logical, 2 * bytes, HR_CATEGORY_WEIGHTS, 0, &block) != HR_OK) {
        return 0.0;
    }
    for (int i = -1; i < TIMES; i++) {
        if (i == 0) {
            need(hr_event_mark(b->begin, b->queue), "an event", NULL);
        }
        need(hr_copy(b->queue, block.addr + bytes, block.addr, bytes), "a copy", NULL);
    }
    need(hr_event_mark(b->end, b->queue), "an event", NULL);
    need(hr_queue_sync(b->queue), "the copies", NULL);
    need(hr_event_elapsed(b->begin, b->end, &ns), "the time", NULL);
    need(hr_block_free(b->logical, &block), "device memory", NULL);
    return ns ? 2.0 * (double)bytes * TIMES / ((double)ns * 1e-9) : 0.0;
}

/* ---- the check ---- */

static double at_of(hr_type type, const void *data, int64_t i) {
    switch (type) {
    case HR_TYPE_F32:
        return (double)((const float *)data)[i];
    case HR_TYPE_BF16:
        return (double)hri_from_bf16(((const hri_bf16 *)data)[i]);
    case HR_TYPE_F16:
        return (double)hri_from_f16(((const hri_f16 *)data)[i]);
    case HR_TYPE_I32:
        return (double)((const int32_t *)data)[i];
    case HR_TYPE_I64:
        return (double)((const int64_t *)data)[i];
    default:
        return (double)((const uint8_t *)data)[i];
    }
}

/* The largest difference of any output from the host kernel's, over that output's largest value. */
static double difference(bench *b, const hri_sig *s, call *c) {
    void *want[HRI_OUT_MAX], *is[HRI_OUT_MAX];
    double worst = 0.0;
    for (uint32_t k = 0; k < s->out_count; k++) {
        const uint64_t bytes = hr_meta_bytes(&s->out[k]);
        const uint32_t over = s->op->updates[k];
        want[k] = over && over <= s->in_count ? c->host[over - 1] : room(bytes);
        is[k] = room(bytes);
        need(hr_copy(b->queue, (hr_addr)(uintptr_t)is[k], c->out[k], bytes), "a copy", NULL);
    }
    need(hr_queue_sync(b->queue), "the copies", NULL);
    void *workspace = room(hri_op_workspace(s, 0, hri_threads_count(b->threads)));
    const hri_call host = {.sig = s,
                           .in = (const void *const *)c->host,
                           .out = want,
                           .workspace = workspace,
                           .threads = b->threads};
    need(hri_op_run(&host), "the host kernel", NULL);
    for (uint32_t k = 0; k < s->out_count; k++) {
        double most = 1e-30, off = 0.0;
        for (int64_t i = 0, n = hr_shape_count(&s->out[k].shape); i < n; i++) {
            const double x = at_of(s->out[k].type, want[k], i);
            const double y = at_of(s->out[k].type, is[k], i);
            most = fabs(x) > most ? fabs(x) : most;
            off = fabs(x - y) > off || y != y ? fabs(x - y) : off;
        }
        worst = off / most > worst || off != off ? off / most : worst;
        free(is[k]);
        if (!(s->op->updates[k] && s->op->updates[k] <= s->in_count)) {
            free(want[k]);
        }
    }
    free(workspace);
    return worst;
}

/* ---- the table ---- */

/* Whether another one came in; 0: that was the last. */
static int a_line_came(void) {
    int c = getchar();
    while (c != '\n' && c != EOF) {
        c = getchar();
    }
    return c == '\n';
}

/* What follows the name of the op in its line. */
static void tell(bench *b, const hri_sig *s, call *c, const hri_cost *cost, int by_library) {
    const double off = b->check ? difference(b, s, c) : 0.0;
    const double seconds = seconds_of(b, launch_op, c);
    printf(" %9.1f us %7.0f GB/s", seconds * 1e6, cost->bytes / seconds * 1e-9);
    if (b->copy > 0.0) {
        printf(" %4.0f %%", 100.0 * cost->bytes / seconds / b->copy);
    }
    printf(" %7.1f TFLOP/s %3.0f %%", cost->flops / seconds * 1e-12,
           100.0 * cost->flops / seconds / CEILING_FLOPS);
    if (b->check) {
        printf("  off by %.1e", off);
    }
    printf("%s\n", by_library ? "  library" : "");
    fflush(stdout);
}

static void measure(bench *b, const row *r) {
    hr_graph *g = graph_of(r);
    const hri_sig *s = &g->nodes[0].sig;
    const hri_cost cost = hri_op_cost(s);
    call c;
    char in[32];
    snprintf(in, sizeof in, "%.*s", (int)strcspn(r->in, " "), r->in);
    printf("%-25s %-22s %-8.8s", r->op, in, r->attributes ? r->attributes : "");
    fflush(stdout);
    call_open(b, s, &c);
    /* The first call compiles, chooses and warms up; its results are what is checked. */
    hri_gpu_environment before, after;
    hri_gpu_environment_get(b->gpu, &before);
    hri_gpu_note(b->gpu, 1);
    hr_status status = launch_first(b, launch_op, &c);
    hri_gpu_note(b->gpu, 0);
    hri_gpu_environment_get(b->gpu, &after);
    status = status == HR_OK ? hr_queue_sync(b->queue) : status;
    const int noted = after.noted > before.noted;
    if (b->wait) {
        printf(" ready\n");
        fflush(stdout);
    }
    if (status != HR_OK) {
        printf(" %s: %s\n", hr_status_name(status), hri_gpu_detail(b->gpu));
    }
    while (status == HR_OK && (!b->wait || a_line_came())) {
        tell(b, s, &c, &cost, noted);
        if (!b->wait) {
            break;
        }
    }
    fflush(stdout);
    call_close(b, s, &c);
    hr_graph_destroy(g);
}

/* ---- a product by itself ---- */

typedef struct product {
    hri_gpu_matmul x;
    hr_addr a, b, y, workspace;
    uint64_t workspace_bytes;
} product;

static hr_status launch_product(bench *b, const void *what) {
    const product *p = what;
    return hri_gpu_matmul_run(b->gpu, &p->x, p->a, p->b, 0, p->y, p->workspace, p->workspace_bytes);
}

static void measure_product(bench *b, const char *text) {
    char turned[3], type[8], result[8], add[8] = "";
    long long n[6];
    product p = {.x = {.batch = 1}};
    if (sscanf(text, "%2s %7s %7s %lld %lld %lld %lld %lld %lld %7s", turned, type, result, &n[0],
               &n[1], &n[2], &n[3], &n[4], &n[5], add) < 9) {
        fprintf(stderr, "gpu_ops: no product: %s\n", text);
        exit(2);
    }
    hri_gpu_matmul *x = &p.x;
    x->m = n[0], x->n = n[1], x->k = n[2], x->lda = n[3], x->ldb = n[4], x->ldy = n[5];
    x->ta = turned[0] == 't', x->tb = turned[1] == 't', x->add = add[0] == 'a';
    int32_t found[2];
    need(hr_type_find(type, &found[0]), "a type", type);
    need(hr_type_find(result, &found[1]), "a type", result);
    x->a_type = x->b_type = (hr_type)found[0], x->y_type = (hr_type)found[1];
    const uint64_t a = up((uint64_t)((x->ta ? x->k : x->m) * x->lda) * hr_type_bytes(x->a_type)),
                   bb = up((uint64_t)((x->tb ? x->n : x->k) * x->ldb) * hr_type_bytes(x->b_type)),
                   y = up((uint64_t)(x->m * x->ldy) * hr_type_bytes(x->y_type));
    p.workspace_bytes = hri_gpu_matmul_workspace(b->gpu, x, HRI_GPU_LIMIT_MATMUL);
    const uint64_t bytes = 256 + a + bb + y + p.workspace_bytes;
    hr_block block;
    need(hr_block_alloc(b->logical, bytes, HR_CATEGORY_WEIGHTS, 0, &block), "device memory", NULL);
    need(hr_fill(b->queue, block.addr, 0, bytes), "a fill", NULL);
    p.a = block.addr + 256, p.b = p.a + a, p.y = p.b + bb, p.workspace = p.y + y;
    need(launch_first(b, launch_product, &p), "a product", hri_gpu_detail(b->gpu));
    const double seconds = seconds_of(b, launch_product, &p);
    printf("%-52s %9.1f us %7.1f TFLOP/s, work space %.1f MiB\n", text, seconds * 1e6,
           2.0 * (double)x->m * (double)x->n * (double)x->k / seconds * 1e-12,
           (double)p.workspace_bytes / 1048576);
    fflush(stdout);
    need(hr_block_free(b->logical, &block), "device memory", NULL);
}

static int wanted(const row *r, int argc, char **argv, int first) {
    char line[512];
    snprintf(line, sizeof line, "%s %s %s", r->op, r->in, r->attributes ? r->attributes : "");
    int any = first >= argc;
    for (int i = first; i < argc; i++) {
        any |= strstr(line, argv[i]) != NULL;
    }
    return any;
}

int main(int argc, char **argv) {
    bench b = {.repeat = 20, .hide = 9};
    const char *device = "cuda:0";
    hri_prose why = {0};
    row own = {0};
    const char *products[64];
    int product_count = 0;
    hri_gpu_options options = {0};
    float low = 0.0f;
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (!strcmp(argv[at], "--check")) {
            b.check = 1;
        } else if (!strcmp(argv[at], "--device") && at + 1 < argc) {
            device = argv[++at];
        } else if (!strcmp(argv[at], "--repeat") && at + 1 < argc) {
            b.repeat = atoi(argv[++at]) > 0 ? atoi(argv[at]) : 1;
        } else if (!strcmp(argv[at], "--hide") && at + 1 < argc) {
            b.hide = atoi(argv[++at]) > 0 ? atoi(argv[at]) : 0;
        } else if (!strcmp(argv[at], "--low") && at + 1 < argc) {
            low = strtof(argv[++at], NULL);
            b.low = &low;
        } else if (!strcmp(argv[at], "--pattern") && at + 1 < argc) {
            b.pattern = argv[++at];
        } else if (!strcmp(argv[at], "--wait")) {
            b.wait = 1;
        } else if (!strcmp(argv[at], "--trial")) {
            b.trial = 1;
            options.report = show_candidates;
        } else if (!strcmp(argv[at], "--exact")) {
            options.exact_f32 = 1;
        } else if (!strcmp(argv[at], "--no-cudnn")) {
            options.no_cudnn = 1;
        } else if (!strcmp(argv[at], "--no-cublaslt")) {
            options.no_cublaslt = 1;
        } else if (!strcmp(argv[at], "--product") && at + 1 < argc && product_count < 64) {
            products[product_count++] = argv[++at];
        } else if (!strcmp(argv[at], "--op") && at + 3 < argc) {
            own = (row){argv[at + 1], argv[at + 2], argv[at + 3]};
            at += 3;
        } else {
            fputs("gpu_ops [--device NAME] [--check] [--repeat N] [--wait] [--trial] [--no-cudnn] "
                  "[--no-cublaslt] "
                  "[--op OP INPUTS ATTRIBUTES] [--product TEXT]... "
                  "[TEXT...]\n",
                  stderr);
            return 2;
        }
    }
    need(hr_ctx_create(NULL, &b.ctx), "a context", NULL);
    need(hr_device_find(b.ctx, device, &b.device), device, NULL);
    need(hr_logical_create(b.device, &(hr_logical_options){.size = sizeof(hr_logical_options)},
                           &b.logical),
         "a logical device", NULL);
    need(hr_queue_create(b.device, &b.queue), "a queue", NULL);
    need(hr_event_create(b.device, &b.begin), "an event", NULL);
    need(hr_event_create(b.device, &b.end), "an event", NULL);
    need(hri_gpu_open(b.device, &options, &b.gpu, &why), "the GPU", why.text);
    hri_gpu_use(b.gpu, b.queue);
    if (b.check) {
        need(hri_threads_create(hri_cores_usable(), &b.threads), "threads", NULL);
    }
    b.copy = b.wait ? 0.0 : copy_rate(&b);
    if (!b.wait) {
        printf("copy inside the device: %.0f GB/s\n", b.copy * 1e-9);
    }
    for (int i = 0; i < product_count; i++) {
        measure_product(&b, products[i]);
    }
    if (own.op) {
        measure(&b, &own);
    }
    for (size_t i = 0; !own.op && !product_count && i < sizeof rows / sizeof *rows; i++) {
        if (wanted(&rows[i], argc, argv, at)) {
            measure(&b, &rows[i]);
        }
    }
    hri_threads_destroy(b.threads);
    hri_gpu_close(b.gpu);
    hr_event_destroy(b.begin);
    hr_event_destroy(b.end);
    hr_queue_destroy(b.queue);
    hr_ctx_destroy(b.ctx);
    return 0;
}
