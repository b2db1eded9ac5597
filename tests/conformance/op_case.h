/* One case of one op, made real: metas parsed, inputs filled, buffers with guards. */
#ifndef HR_TEST_OP_CASE_H
#define HR_TEST_OP_CASE_H

#include "graph/graph.h"
#include "ref.h"
#include "test.h"

/* A buffer with guard bytes on both sides, which are checked when it is freed. */
typedef struct guarded {
    char *memory;
    void *data; /* 64-byte aligned */
    uint64_t bytes;
} guarded;

typedef struct op_case {
    const hr_op *op;
    const hri_case *c;
    uint32_t in_count;
    hr_meta in_meta[HRI_IN_MAX];
    hr_graph *g; /* inputs, the node, every output a result; frozen */
    hr_value in[HRI_IN_MAX];
    const hri_node_record *node;
    guarded data[HRI_IN_MAX];
    double *real[HRI_IN_MAX]; /* the same as doubles */
    double largest[HRI_IN_MAX];
    uint32_t first_sample; /* of this part of the batch */
    uint32_t below;        /* so many levels below the best of this processor */
} op_case;

guarded guarded_new(uint64_t bytes);
void guarded_free(guarded *b, const char *what);

void op_case_init(op_case *t, const hr_op *op, const hri_case *c, const hr_meta *metas,
                  uint32_t count);
void op_case_deinit(op_case *t);
/* Fills the inputs; they are the same for the same case. */
void op_case_fill(op_case *t);

/* Runs the kernel on `threads` threads into fresh buffers.  over[k] is the input over which output k lies, or -1. */
void op_case_run(const op_case *t, uint32_t threads, const int *over, guarded out[HRI_OUT_MAX]);
void op_case_free(const op_case *t, guarded out[HRI_OUT_MAX]);
/* How far from `want` a result may be: `tolerance` of it, or of a tenth of the largest result, for what is small because
 * large numbers cancel; and what rounding of the inputs makes of nothing.  0 for whole numbers. */
double op_case_allowed(const op_case *t, hr_type type, double tolerance, double want,
                       double largest);

#define FAIL_CASE(T, ...)                                                                          \
    do {                                                                                           \
        char fail_case_text[2048];                                                                 \
        snprintf(fail_case_text, sizeof fail_case_text, __VA_ARGS__);                              \
        test_fail(__FILE__, __LINE__, "%s, case \"%s\": %s", (T)->op->name, (T)->c->name,          \
                  fail_case_text);                                                                 \
    } while (0)

#endif
