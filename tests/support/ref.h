/* Oracles: naive implementations in double, written apart from the kernels.
 *
 * tests/ref/<op>.c defines one `const test_ref test_ref_<op>`; the build lists the folder.  Element-wise ops need
 * none: their scalar expression runs in double.  Every value is an array of doubles here, whole numbers included. */
#ifndef HR_TEST_REF_H
#define HR_TEST_REF_H

#include "graph/graph.h"

typedef struct ref_call {
    const hri_sig *sig;
    const double *const *in;
    double *const *out;
    uint64_t seed;
    uint32_t step, node;
} ref_call;

typedef struct test_ref {
    const char *op;
    void (*run)(const ref_call *c);
} test_ref;

extern const test_ref *const test_refs[];

/* 0 when the op has no oracle. */
int ref_run(const ref_call *c);
int ref_exists(const hr_op *op);

/* The inputs of a case, "f32[7,33] i32[7]", as metas; at most HRI_IN_MAX.  Returns how many; fails the test on bad
 * text. */
uint32_t ref_parse(const char *text, hr_meta *out);

/* Stored values to doubles and back (rounded as the type rounds). */
double ref_load(hr_type type, const void *data, int64_t i);
void ref_store(hr_type type, void *data, int64_t i, double x);

/* What conv2d_i8 and matmul_i8 make of a whole sum in column `column`: bytes or f32, as their inputs say. */
double ref_requantize(const ref_call *c, int32_t sum, int64_t column, int relu);
/* The number of a code of 8-bit floats, from its definition. */
double ref_f8(int code);

/* The naive interpreter: data[v] for every value of a frozen graph; sources are set by the caller. */
typedef struct naive {
    const hr_graph *g;
    double **data;
} naive;
void naive_init(naive *n, const hr_graph *g);
void naive_run(naive *n, uint64_t seed, uint32_t step);
void naive_deinit(naive *n);

/* Indexes: the position of flat index i of `shape`, and back. */
void ref_unflatten(const hr_shape *shape, int64_t i, int64_t *at);
int64_t ref_flatten(const hr_shape *shape, const int64_t *at);

#endif
