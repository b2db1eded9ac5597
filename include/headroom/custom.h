/* Custom ops: add an op to the library with a few functions.
 *
 *   static hr_status shape(void *user, const hr_meta *in, uint32_t count, hr_meta *out, const char **why) { ... }
 *   static void slope(void *user, hr_graph *g, hr_custom_grad *c) { ... builders ... }
 *   static hr_status run(void *user, const hr_custom_call *c) { ... loops ... }
 *
 *   const hr_custom_options o = {.size = sizeof o, .name = "softplus", .input_count = 1, .output_count = 1,
 *                                .shape = shape, .slope = slope, .run = run};
 *   hr_custom *softplus;
 *   hr_custom_create(&o, &softplus);
 *   hr_value y = hr_graph_custom(g, softplus, &x, 1);
 *
 * A custom op is planned, recomputed, offloaded and split into micro-batches like any other, so its options must be
 * correct.  `run` must depend on its inputs only, because it may be called twice.  It runs on the host.
 *
 * Threads: an op may be used by any number of graphs at once; `run` is called from the thread that trains. */
#ifndef HEADROOM_CUSTOM_H
#define HEADROOM_CUSTOM_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/graph.h>

HR_BEGIN_DECLS

enum { HR_CUSTOM_INPUTS = 16, HR_CUSTOM_OUTPUTS = 6 };

typedef struct hr_custom hr_custom;

/* The gradient, as nodes: read in[], out[] and dout[] (HR_NONE: the loss does not depend on that output), add nodes
 * with the builders, and set din[i] where bit i of `need` is set.  What it reads is kept until then or
 * recomputed. */
typedef struct hr_custom_grad {
    size_t size; /* set by the library */
    const hr_value *in, *out, *dout;
    hr_value *din;
    uint32_t need, reserved;
} hr_custom_grad;

/* One run.  Arrays are dense, in row-major order. */
typedef struct hr_custom_call {
    size_t size; /* set by the library */
    const void *const *in;
    void *const *out;
    const hr_meta *in_meta, *out_meta;
    uint32_t in_count, out_count;
    void *workspace; /* 64-byte aligned; holds anything */
    void *threads;   /* for hr_custom_parallel */
} hr_custom_call;

/* Divides [0, count) into pieces of `piece` items and calls fn for each, on all threads of the run.  The division does not
 * depend on the number of threads, so neither do the results. */
typedef void hr_custom_piece_fn(void *arg, uint64_t begin, uint64_t end);
HR_API void hr_custom_parallel(const hr_custom_call *call, uint64_t count, uint64_t piece,
                               hr_custom_piece_fn *fn, void *arg);

/* Zero means the default in every optional field.  Set `size` to sizeof(hr_custom_options). */
typedef struct hr_custom_options {
    size_t size;
    const char *name; /* 1 to 40 letters, digits, '_', '-' */
    uint32_t input_count, output_count;
    /* Checks the inputs and fills in types and shapes of the outputs; returns HR_E_SHAPE with a static text in *why to refuse. */
    hr_status (*shape)(void *user, const hr_meta *in, uint32_t count, hr_meta *out,
                       const char **why);
    void (*slope)(void *user, hr_graph *g, hr_custom_grad *c); /* NULL: no gradient */
    hr_status (*run)(void *user, const hr_custom_call *c);
    /* Bit i: output 0 may overwrite input i; run must then read each element before it writes it. */
    uint32_t overwrite;
    /* 1: samples (dimension 0) depend on one another, so a batch with this op is never split. */
    int32_t coupled;
    double flops_per_element; /* of output 0; 0: one */
    uint64_t workspace_bytes;
    void *user; /* passed to all functions */
    /* Workspace beside workspace_bytes, over the bytes of all inputs and outputs: for code that allocates memory itself, which the plan
     * then leaves room for. */
    double workspace_ratio;
} hr_custom_options;

/* Copies the options.  HR_E_INVALID for a name, count or function that is missing or out of range. */
HR_API HR_MUST_CHECK hr_status hr_custom_create(const hr_custom_options *options, hr_custom **out);
/* Call it after destroying every graph that uses the op.  NULL is allowed. */
HR_API void hr_custom_destroy(hr_custom *op);

/* A node; returns its first output.  Errors are sticky on the graph. */
HR_API hr_value hr_graph_custom(hr_graph *g, const hr_custom *op, const hr_value *inputs,
                                size_t count);

HR_END_DECLS
#endif
