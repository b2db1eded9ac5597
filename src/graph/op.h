/* The descriptor of an op: everything that Headroom knows of it, in one place.
 *
 * src/ops/<name>.c defines exactly one `const hr_op hr_op_<name>`; the build lists the folder.  There is no enum, no
 * switch and no second list: the builder, the verifier, differentiation, the planner, the interpreter and the
 * conformance tests read the descriptor.  docs/adding-an-op.md is the guide; copy relu.c, add.c or sum.c.
 *
 * The facts the planner lives on, and what checks them in tests/conformance:
 *   keeps      which forward values the gradient reads      compared with the nodes that the gradient rule made
 *   overwrite  which inputs an output may take over         really tried, bit for bit
 *   updates    which inputs an output must take over        the interpreter and the verifier
 *   samples    whether samples of a batch touch one another split batches are compared with whole ones
 *   host       its kernel on the host, with its workspace   canaries around the workspace
 *
 * The host's kernel is part of what an op means: it is the reference for all others.  Other back ends have theirs in
 * tables of their own (device/kernel.h).
 *
 * A kernel gives the same bits for any number of threads: work is cut into pieces by shapes alone, and sums over
 * pieces are added in a fixed order. */
#ifndef HRI_GRAPH_OP_H
#define HRI_GRAPH_OP_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/graph.h>
#include "base/options.h"
#include "base/threads.h"
#include "device/gpu.h"
#include "device/kernel.h"

enum { HRI_IN_MAX = 16, HRI_OUT_MAX = 6 };

typedef struct hr_op hr_op;

/* One use of an op: its attributes and the types and shapes around it. */
typedef struct hri_sig {
    const hr_op *op;
    const void *attr; /* the op's own struct */
    uint32_t in_count, out_count;
    const hr_meta *in, *out;
} hri_sig;

/* ---- shape rule ---- */

typedef struct hri_infer {
    const void *attr;
    uint32_t in_count;
    const hr_meta *in;
    hr_meta *out;      /* to be filled: out_count of the descriptor */
    char message[256]; /* why not */
} hri_infer;

/* Writes the reason and returns HR_E_SHAPE. */
HR_MUST_CHECK hr_status hri_infer_fail(hri_infer *c, const char *format, ...) HR_PRINTF(2, 3);
/* Rules that many ops share.  Each checks that the inputs are real numbers of one type. */
HR_MUST_CHECK hr_status hri_infer_same(hri_infer *c); /* out 0 is like input 0; all of one meta */
HR_MUST_CHECK hr_status hri_infer_broadcast(hri_infer *c); /* numpy's rule over all inputs */

/* ---- gradient rule ---- */

/* The rule adds nodes with the builders (errors are sticky, so nothing has to be checked) and sets din[i] for the
 * inputs in `need`.  HR_NONE in din means "no dependence". */
typedef struct hri_grad {
    hr_graph *g;
    const hri_sig *sig;
    const hr_value *in, *out;
    const hr_value *dout; /* HR_NONE where the loss does not depend on that output */
    uint32_t need;        /* bit i: din[i] is wanted */
    hr_value *din;
    /* For rules that are those of the op before as well: gradients of values that are no inputs of this one, if they reach a wanted value.
     * Such a rule leaves din of what lies between HR_NONE, so that the op before is not asked. */
    struct hri_grad_also {
        hr_value of, grad; /* HR_NONE: none */
    } also[2];
    const unsigned char *reach; /* by value: 0: no gradient of it is needed */
    const hr_value *wrt;        /* what gradients are asked for of, wrt_count of them */
    size_t wrt_count;
} hri_grad;
typedef struct hri_grad_also hri_grad_also;

/* Whether a gradient of v, a forward value, leads on to a wanted one; whether it is wanted itself. */
int hri_grad_reaches(const hri_grad *c, hr_value v);
int hri_grad_wanted(const hri_grad *c, hr_value v);

#define HRI_NEEDS(C, I) (((C)->need >> (I)) & 1u)

/* What the gradient for one input reads of the forward pass, as bit masks. */
typedef struct hri_keeps {
    uint16_t in, out;
} hri_keeps;

/* ---- batches ---- */

/* How an output depends on the samples, when the inputs in `batched` carry samples along dimension 0. */
typedef enum hri_samples {
    HRI_SAMPLES_APART = 0, /* sample i of the output depends on sample i of the inputs alone */
    HRI_SAMPLES_SUM,       /* the output is a sum over samples: results of parts add up */
    HRI_SAMPLES_MEAN,      /* the output is a mean over samples: parts add up by their weights */
    HRI_SAMPLES_FOLDED,    /* a state takes it, part after part, and is the same for any parts */
    HRI_SAMPLES_COUPLED    /* anything else; parts of a batch give another function */
} hri_samples;

/* ---- cost ---- */

typedef struct hri_cost {
    double flops, bytes;
    double messages, wire_bytes; /* of a rank, to others; 0: it needs nobody */
} hri_cost;

/* ---- kernels ---- */

typedef struct hri_call {
    const hri_sig *sig;
    const void *const *in;
    void *const *out;
    void *workspace;      /* 64-byte aligned; NULL when the op asked for none; holds anything */
    hri_threads *threads; /* NULL: one */
    uint32_t variant;     /* index into variants; 0 without a list */
    uint32_t
        node; /* with seed and step: the counter of random ops; a recomputation sees the same one */
    uint32_t step;
    uint32_t first_sample; /* of this part of the batch */
    uint64_t seed;
    struct hri_net *net; /* the other ranks, for ops with `net`; NULL: there are none */
} hri_call;

/* A call on a GPU.  The function puts launches into the queue in use of `gpu` (device/gpu.h) and waits for nothing; it is
 * called while a step is captured, so it reads no device memory and decides by the signature alone. */
typedef struct hri_gpu_call {
    hri_gpu *gpu;
    const hri_kernel *kernel; /* of the signature (hri_kernel_for) */
    const hri_sig *sig;
    const hr_addr *in; /* 0: an input that is left out, or empty */
    const hr_addr *out;
    hr_addr workspace; /* 256-byte aligned; 0 when the op asked for none */
    uint64_t workspace_bytes;
    hr_addr control; /* an hri_gpu_control on the device: what changes between replays */
    uint32_t variant;
    uint32_t node;
    uint32_t rank; /* of this arena among those that share the work; 0: there is one */
} hri_gpu_call;

/* Of an op that moves bytes between ranks, and does nothing else: what rank `rank` sends to each of them, and where it puts what
 * they send.  Offsets: `to` into input `from_input`, `from` into output 0; arrays of as many as there are ranks. */
typedef struct hri_moves {
    uint32_t ranks;      /* 1: a copy */
    uint32_t from_input; /* whose bytes are sent */
    struct hri_move_range {
        uint64_t at, bytes;
    } * to, *from;
} hri_moves;

/* Kernels of random ops read it from device memory; prelude.cuh declares the same struct. */
typedef struct hri_gpu_control {
    uint64_t seed;
    uint32_t step, first_sample;
} hri_gpu_control;

/* ---- test cases ---- */

enum {
    HRI_CASE_NO_GRAD = 1, /* do not compare the gradient with differences (kinks, plateaus) */
    HRI_CASE_BAD = 2,     /* the shape rule must refuse it */
    HRI_CASE_AS_IS =
        4, /* on a GPU in the types that it says alone: its kernel is one of many alike */
    HRI_CASE_HIDES = 8,  /* the last input is a mask with minus infinities: keys, and whole tiles */
    HRI_CASE_ZEROS = 16, /* what such a mask does not hide is 0 */
    /* queries of such a mask see none but keys with large numbers; of a gradient the two inputs before it are what forward gives */
    HRI_CASE_FAR = 32,
    /* large enough for a kernel that has work for all of a GPU: the host and the driver of the tests have smaller ones like it */
    HRI_CASE_MANY = 64
};

typedef struct hri_case {
    const char *name;       /* NULL ends the list */
    const char *in;         /* "f32[7,33] i32[7]" */
    const char *attributes; /* as for hr_graph_node; NULL: none */
    double low, high;       /* range of real inputs; both 0: -1 .. 1 */
    int64_t ids;            /* whole-number inputs are 0 .. ids-1; 0: 0 .. 9 */
    double
        tolerance; /* relative to the largest value, f32; 0: 1e-5.  2-byte types get theirs on top */
    double grad_tolerance; /* 0: 1e-3 */
    uint32_t flags;
    uint16_t
        batched; /* inputs with samples along dimension 0: parts of the batch are compared with the whole */
    uint8_t negative; /* of whole-number inputs: 1: about a third, 2: all */
} hri_case;

/* Of a descriptor.  Only tests read them, and every table is resident in every process, so other builds have none. */
#if defined(HEADROOM_CASES) && !defined(HRI_LEVEL)
#define HRI_CASES(X) (X)
#else
#define HRI_CASES(X) (0 ? (X) : NULL)
#endif

/* An element-wise op written by HRI_MAP*: the scalar function, for oracles and for other back ends. */
typedef struct hri_scalar {
    uint32_t arity;
    double (*f)(const double *x, const void *attr);
    const char
        *text; /* the expression in terms of a (and b, c), of type T, with p for the attributes */
    const char *const
        *texts; /* in place of text: one for each choice of the first attribute, an int */
} hri_scalar;

/* ---- the descriptor ---- */

struct hr_op {
    const char *name;
    const char *formula; /* one line, for people */

    uint8_t in_min, in_max; /* the last inputs may be left out */
    uint8_t out_count;

    const hri_field *fields; /* attributes; NULL: none */
    size_t attr_bytes;

    hr_status (*infer)(hri_infer *c);

    void (*grad)(hri_grad *c); /* NULL: no gradient flows through this op */
    hri_keeps keeps
        [HRI_IN_MAX]; /* by input whose gradient is wanted; the last one stands for all further inputs */

    uint8_t aux; /* bit k: no gradient flows through output k (kept statistics, indices) */
    uint16_t
        no_grad; /* bit i: on purpose none flows to the real input i (targets, running statistics) */

    uint16_t overwrite
        [HRI_OUT_MAX]; /* bit i: output may lie where input i of equal bytes lay, if that dies here */
    /* Whether it may with these types and attributes too; NULL: with all. */
    int (*may_overwrite)(const hri_sig *s, uint32_t out, uint32_t in);
    uint8_t updates[HRI_OUT_MAX]; /* i + 1: output *is* input i's memory, afterwards; 0: no */
    uint8_t
        by_parts; /* 1: what it does not update may be of several parts, (parts, elements): one after the other */
    uint8_t view; /* 1: output 0 has the same bytes as input 0; needs no kernel when they share */
    uint8_t net;  /* 1: ranks exchange bytes; all of them run it, in the same order */
    /* With net: what is moved; NULL: it computes too.  `to` and `from` may be NULL: only `ranks` is wanted. */
    void (*moves)(const hri_sig *s, uint32_t rank, hri_moves *out);
    uint8_t host_only; /* 1: other back ends need no kernel for it */
    uint8_t random;    /* 1: reads seed, step, node and first_sample */
    uint8_t
        product; /* 1: where the arithmetic is; mixed precision gives it its real inputs in the small type */

    hri_samples (*samples)(const hri_sig *s, uint32_t batched); /* NULL: apart */

    void (*cost)(const hri_sig *s, hri_cost *out); /* NULL: one flop an element, every byte once */
    /* Where its whole-number input is an id below this, and how they are spread matters to its time; NULL: it does not. */
    int64_t (*ids)(const hri_sig *s);
    hri_kernel host;
    const hri_scalar *scalar; /* element-wise ops */

    const hri_case *cases; /* HRI_CASES(list); NULL: none, or not in this build */
};

/* Written by the build from the folder listing; ends with NULL. */
extern const hr_op *const hr_ops[];
const hr_op *hri_op_find(const char *name); /* NULL: none */

/* The expression of an element-wise op; NULL: it has none as text. */
const char *hri_scalar_text(const hri_sig *s);

/* What the planner asks. */
int hri_op_may_overwrite(const hri_sig *s, uint32_t out, uint32_t in);
hri_samples hri_op_samples(const hri_sig *s, uint32_t batched);
hri_cost hri_op_cost(const hri_sig *s);
hri_keeps hri_op_keeps(const hr_op *op, uint32_t in);

/* ---- kernels, found (graph/op_kernel.c) ---- */

/* The kernel of a back end for one use of an op: its own, one it makes, or that of its base; NULL: it has none. */
const hri_kernel *hri_kernel_for(const hri_kernels *kernels, const hri_sig *s);
/* Where the processor reads the memory: work space and function of a variant, 0 without a list.  For `s` that it supports. */
uint64_t hri_kernel_workspace(const hri_kernel *k, const hri_sig *s, uint32_t variant,
                              uint32_t threads);
hri_run_fn *hri_kernel_run(const hri_kernel *k, uint32_t variant);
/* The host's kernel: the plain meaning of an op.  On x86-64 there is one for each level of processor below hri_op_levels(),
 * all with the same bits; a level that is too high counts as the best one here. */
uint32_t hri_op_levels(void);
const hri_kernel *hri_op_host(const hr_op *op, uint32_t level);
uint64_t hri_op_workspace(const hri_sig *s, uint32_t variant, uint32_t threads);
HR_MUST_CHECK hr_status hri_op_run(const hri_call *c);

/* ---- calls put into queues ---- */

/* HR_E_UNSUPPORTED: there is no kernel, or it does not do this after all. */
HR_MUST_CHECK hr_status hri_op_launch(const hri_gpu_call *c);
/* 0 without a kernel. */
uint64_t hri_kernel_launch_workspace(const hri_kernel *k, const hri_sig *s, hri_gpu *gpu,
                                     uint32_t variant);
/* Calls in the order of the plan, as hri_op_launch one after the other would do them, to the last bit; runs of calls of
 * one op with `launch_many` that touch none of each other's results go together (graph/op_many.c). */
HR_MUST_CHECK hr_status hri_op_launch_many(const hri_gpu_call *calls, uint32_t count);

/* A chain of element-wise steps as one kernel (graph/op_scalar.c): every op has a scalar expression, all results have
 * one shape and type.  Results that nobody reads outside the chain are not stored; those that are stored, and those
 * that are not, have the bits of the steps one by one. */
extern const hri_kernel hri_kernel_scalar; /* what has a scalar and no kernel of its own */
enum { HRI_CHAIN_STEPS = 24, HRI_CHAIN_OPERANDS = 8 };
typedef struct hri_chain_operand {
    hr_addr at;
    const hr_meta *meta; /* broadcasts to the shape of the chain */
} hri_chain_operand;
typedef struct hri_chain_step {
    const hri_sig *sig;
    int32_t in[3]; /* >= 0: that operand; < 0: the result of step -1 - in */
    hr_addr out;   /* 0: not stored.  May lie over operands of the same shape, and over no others */
} hri_chain_step;
HR_MUST_CHECK hr_status hri_chain_launch(hri_gpu *gpu, const hri_chain_operand *operands,
                                         uint32_t operand_count, const hri_chain_step *steps,
                                         uint32_t step_count);
typedef struct hri_chain {
    hri_chain_operand operands[HRI_CHAIN_OPERANDS];
    hri_chain_step steps[HRI_CHAIN_STEPS];
    uint32_t operand_count, step_count;
} hri_chain;
/* How many calls from the first on are one chain (0: the first is not element-wise), and that chain (graph/op_chain.c). */
uint32_t hri_chain_find(const hri_gpu_call *calls, uint32_t count, hri_chain *out);
/* Whether a call can be a step of a chain at all. */
int hri_chain_may_hold(const hri_gpu_call *call);
/* Whether the second call may be one launch with the first, the sum of two that it reads first (launch_sum). */
int hri_sum_feeds(const hri_gpu_call *sum, const hri_gpu_call *reader);
/* Whether it may be one launch with the one before, whose first output it adds to something else (launch_added). */
int hri_sum_takes(const hri_gpu_call *maker, const hri_gpu_call *sum);
/* Whether `total` sums the columns of what `maker` writes first, or, with `sum` (NULL: none), of what that makes of it. */
int hri_total_takes(const hri_gpu_call *maker, const hri_gpu_call *sum, const hri_gpu_call *total);
/* Whether it may be one launch with the element-wise one before, whose result it reads (launch_made). */
int hri_made_feeds(const hri_gpu_call *maker, const hri_gpu_call *reader);
/* Whether two uses of ops may be one launch when the first runs again right before the second, its gradient (launch_beside, or a
 * chain): they read the same whole tensor. */
int hri_op_beside(const hri_sig *again, const hri_kernel *of_again, const hri_sig *grad,
                  const hri_kernel *of_grad);
/* The same of two calls where they lie. */
int hri_beside(const hri_gpu_call *again, const hri_gpu_call *grad);
/* A kernel of `behind`, which finds the element-wise call's function as HR_STEP, that of `again` (NULL: none) as HR_AGAIN, and HR_T and HR_V
 * defined. */
HR_MUST_CHECK hr_status hri_scalar_launch_in(const hri_gpu_call *maker, const hri_gpu_call *again,
                                             const hri_gpu_source *behind, const char *kernel,
                                             int pack, const hri_gpu_grid *grid, void *const *args);

/* ---- attributes ---- */

/* Room for the struct of any op. */
typedef struct hri_attr {
    _Alignas(16) unsigned char bytes[512];
} hri_attr;

/* Defaults, then the text ("stride=2,pad=1"; NULL: none). */
HR_MUST_CHECK hr_status hri_attr_parse(const hr_op *op, const char *text, hri_attr *out,
                                       hri_prose *why);
/* The attributes that differ from their defaults, as text that parse reads back. */
const char *hri_attr_print(const hr_op *op, const void *attr, char *buf, size_t size);

/* ---- for gradient rules and other builders inside the library ---- */

/* A node with attributes as a struct (NULL: defaults); returns its first output. */
hr_value hri_node(hr_graph *g, const char *op, const hr_value *in, uint32_t count,
                  const void *attr);
#define HRI_NODE(G, OP, ATTR, ...)                                                                 \
    hri_node((G), (OP), (const hr_value[]){__VA_ARGS__},                                           \
             (uint32_t)(sizeof((const hr_value[]){__VA_ARGS__}) / sizeof(hr_value)), (ATTR))
/* dy summed over the dimensions along which `like` was broadcast. */
hr_value hri_sum_to(hr_graph *g, hr_value dy, hr_value like);

#endif
