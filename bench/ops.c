/* How fast the host kernels of ops are, next to a copy of the same memory.
 *
 *   bench/ops [OP...]      one line an op: time, bytes of inputs and outputs a second, that rate over memcpy's
 *
 * One thread.  The inputs are too large for the caches (16 MiB in f32); the best of a few runs counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/graph.h"

enum { RUNS = 5 };

typedef struct row {
    const char *op, *attributes, *in; /* one or two inputs: "4096,1024 1024" */
    hr_type type;
} row;

static const row rows[] = {
    {"relu", "", "4096,1024", HR_TYPE_F32},
    {"relu_grad", "", "4096,1024 4096,1024", HR_TYPE_F32},
    {"relu_mask", "", "4096,1024", HR_TYPE_F32},
    {"add", "", "4096,1024 4096,1024", HR_TYPE_F32},
    {"bias_add", "", "4096,1024 1024", HR_TYPE_F32},
    {"bias_add", "", "65536,64 64", HR_TYPE_F32},
    {"affine", "scale=2,shift=1", "4096,1024", HR_TYPE_F32},
    {"clip", "", "4096,1024", HR_TYPE_F32},
    {"exp", "", "4096,1024", HR_TYPE_F32},
    {"log", "", "4096,1024", HR_TYPE_F32},
    {"tanh", "", "4096,1024", HR_TYPE_F32},
    {"sigmoid", "", "4096,1024", HR_TYPE_F32},
    {"silu", "", "4096,1024", HR_TYPE_F32},
    {"silu_grad", "", "4096,1024 4096,1024", HR_TYPE_F32},
    {"gelu", "", "4096,1024", HR_TYPE_F32},
    {"gelu", "approximate=tanh", "4096,1024", HR_TYPE_F32},
    {"gelu_grad", "", "4096,1024 4096,1024", HR_TYPE_F32},
    {"gelu_grad", "approximate=tanh", "4096,1024 4096,1024", HR_TYPE_F32},
    {"gelu", "", "4096,1024", HR_TYPE_BF16},
    {"gelu", "", "4096,1024", HR_TYPE_F16},
    {"cast", "to=bf16", "4096,1024", HR_TYPE_F32},
    {"cast", "to=f16", "4096,1024", HR_TYPE_F32},
    {"cast", "to=f32", "4096,1024", HR_TYPE_BF16},
    {"transpose", "", "4096,1024", HR_TYPE_F32},
    {"transpose", "", "4096,1024", HR_TYPE_BF16},
    {"transpose", "order=0x2x1x3", "8,512,16,64", HR_TYPE_F32},
    {"slice", "begin=0x256,size=-1x512", "4096,1024", HR_TYPE_F32},
    {"pad", "before=0x1x1,after=0x1x1", "16,64,64,64", HR_TYPE_F32},
    {"sum", "axes=0", "4096,1024", HR_TYPE_F32},
    {"sum", "axes=1", "4096,1024", HR_TYPE_F32},
    {"mean", "axes=1x2", "16,64,64,64", HR_TYPE_F32},
    {"max", "axes=1", "4096,1024", HR_TYPE_F32},
    {"max", "axes=0", "4096,1024", HR_TYPE_F32},
};

static void *memory(uint64_t bytes) {
    void *p = aligned_alloc(64, (bytes / 64 + 1) * 64);
    if (!p) {
        fputs("no memory\n", stderr);
        exit(1);
    }
    return p;
}

/* Time of this thread on a core: on a busy machine the wall clock would count the others too. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds_of(const hri_call *call) {
    double best = 1e9;
    for (int i = 0; i < RUNS; i++) {
        const double begin = now();
        if (hri_op_run(call) != HR_OK) {
            fputs("a kernel failed\n", stderr);
            exit(1);
        }
        const double taken = now() - begin;
        best = taken < best ? taken : best;
    }
    return best;
}

/* Bytes read and written a second by a plain copy. */
static double copy_rate(void) {
    const size_t bytes = (size_t)16 << 20;
    char *a = memory(bytes), *b = memory(bytes);
    double best = 1e9;
    memset(a, 1, bytes);
    for (int i = 0; i < RUNS; i++) {
        const double begin = now();
        memcpy(b, a, bytes);
        __asm__ volatile("" ::"r"(b) : "memory");
        const double taken = now() - begin;
        best = taken < best ? taken : best;
    }
    free(a);
    free(b);
    return 2.0 * (double)bytes / best;
}

/* Numbers from 0.5 to 1, in every real type. */
static void *filled(const hr_meta *m) {
    const uint16_t half = m->type == HR_TYPE_F16 ? 0x3800 : 0x3f00;
    uint16_t *p = memory(hr_meta_bytes(m));
    for (uint64_t i = 0; i < hr_meta_bytes(m) / 2; i++) {
        p[i] = (uint16_t)(half + i * 7919 % 127);
    }
    return p;
}

static uint32_t parse(const row *r, hr_graph *g, hr_value *in) {
    uint32_t count = 0;
    const char *at = r->in;
    while (*at) {
        hr_shape shape = {0};
        for (char *end = NULL;; at = end + 1) {
            shape.dim[shape.rank++] = strtoll(at, &end, 10);
            if (*end != ',') {
                at = end + (*end == ' ');
                break;
            }
        }
        in[count] = hr_graph_input(g, count ? "b" : "a", r->type, shape);
        count++;
    }
    return count;
}

static void measure(const row *r, double copy) {
    hr_graph *g;
    hr_value in[2];
    void *from[2] = {0}, *to[HRI_OUT_MAX] = {0};
    if (hr_graph_create(&g) != HR_OK) {
        exit(1);
    }
    const uint32_t count = parse(r, g, in);
    hr_graph_result(g, hr_graph_node(g, r->op, in, count, r->attributes), "y");
    if (hr_graph_freeze(g) != HR_OK) {
        hr_error error;
        hr_graph_error(g, &error);
        fprintf(stderr, "%s\n", error.message);
        exit(1);
    }
    const hri_sig *s = &g->nodes[0].sig;
    double bytes = 0.0;
    for (uint32_t i = 0; i < s->in_count; i++) {
        from[i] = filled(&s->in[i]);
        bytes += (double)hr_meta_bytes(&s->in[i]);
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        to[k] = filled(&s->out[k]);
        bytes += (double)hr_meta_bytes(&s->out[k]);
    }
    void *workspace = memory(hri_op_workspace(s, 0, 1));
    const void *const read[2] = {from[0], from[1]};
    const hri_call call = {.sig = s, .in = read, .out = to, .workspace = workspace};
    const double seconds = seconds_of(&call);
    printf("%-10s %-25s %-5s %8.2f ms %7.2f GB/s %4.0f %% of a copy\n", r->op, r->attributes,
           hr_type_name(r->type), seconds * 1e3, bytes / seconds * 1e-9,
           100.0 * bytes / seconds / copy);
    for (uint32_t i = 0; i < s->in_count; i++) {
        free(from[i]);
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        free(to[k]);
    }
    free(workspace);
    hr_graph_destroy(g);
}

int main(int argc, char **argv) {
    const double copy = copy_rate();
    printf("copy: %.2f GB/s\n", copy * 1e-9);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int wanted = argc < 2;
        for (int k = 1; k < argc; k++) {
            wanted |= !strcmp(argv[k], rows[i].op);
        }
        if (wanted) {
            measure(&rows[i], copy);
        }
    }
    return 0;
}
