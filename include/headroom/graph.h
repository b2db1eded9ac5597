/* The training graph: values, the nodes that make them, and their gradients.
 *
 *   hr_graph *g;
 *   if (hr_graph_create(&g) != HR_OK) ...
 *   hr_value x = hr_graph_input(g, "image", HR_TYPE_F32, hr_shape_4(16, 224, 224, 3));
 *   hr_graph_push(g, "fc");
 *   hr_value w = hr_graph_param(g, "weight", HR_TYPE_F32, hr_shape_2(10, 512), hr_init_normal(0.01));
 *   hr_value y = hr_relu(g, hr_matmul(g, x, w, 0, 1));          -- headroom/ops.h
 *   hr_graph_pop(g);
 *   if (hr_graph_freeze(g) != HR_OK) ...                         -- hr_graph_error() says what and where
 *
 * Builders compose: they return a value at once and never a status.  The first mistake stays on the graph with the
 * path of the node, its op and the shapes; builders after it do nothing, and hr_graph_freeze() returns its status.
 *
 * A value is written once.  Memory that lives on from step to step (parameters, moments, running statistics) is a
 * value too; an op that updates it makes a new value that takes over the old one's memory, and no node may read the
 * old one after that.
 *
 * Threads: a graph belongs to one thread until it is frozen; then any thread may read it. */
#ifndef HEADROOM_GRAPH_H
#define HEADROOM_GRAPH_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/context.h>
#include <headroom/event.h>
#include <headroom/status.h>

HR_BEGIN_DECLS

/* X(NAME, "name", bytes, is a floating-point number) */
#define HR_TYPE_MAP(X)                                                                             \
    X(F32, "f32", 4, 1)                                                                            \
    X(BF16, "bf16", 2, 1)                                                                          \
    X(F16, "f16", 2, 1)                                                                            \
    X(I32, "i32", 4, 0)                                                                            \
    X(I64, "i64", 8, 0)                                                                            \
    X(U8, "u8", 1, 0)                                                                              \
    X(I8, "i8", 1, 0)

typedef enum hr_type {
#define HR_TYPE_ENUM(NAME, TEXT, BYTES, REAL) HR_TYPE_##NAME,
    HR_TYPE_MAP(HR_TYPE_ENUM)
#undef HR_TYPE_ENUM
        HR_TYPE_COUNT
} hr_type;

HR_API const char *hr_type_name(hr_type type);
HR_API size_t hr_type_bytes(hr_type type);
HR_API int hr_type_is_real(hr_type type);
HR_API HR_MUST_CHECK hr_status hr_type_find(const char *name, int32_t *out);

enum { HR_RANK_MAX = 8 };

/* Row-major; the last dimension is the dense one.  A dimension may be 0 (an empty value); rank 0 is a scalar. */
typedef struct hr_shape {
    int32_t rank;
    int64_t dim[HR_RANK_MAX];
} hr_shape;

/* hr_shape_2(16, 512) is (16, 512); hr_shape_0() is the shape of a scalar. */
HR_API hr_shape hr_shape_0(void);
HR_API hr_shape hr_shape_1(int64_t a);
HR_API hr_shape hr_shape_2(int64_t a, int64_t b);
HR_API hr_shape hr_shape_3(int64_t a, int64_t b, int64_t c);
HR_API hr_shape hr_shape_4(int64_t a, int64_t b, int64_t c, int64_t d);
HR_API hr_shape hr_shape_5(int64_t a, int64_t b, int64_t c, int64_t d, int64_t e);
/* Any rank; `dims` has that many and may be NULL for rank 0. */
HR_API hr_shape hr_shape_from(int32_t rank, const int64_t *dims);

typedef struct hr_meta {
    int32_t type; /* hr_type */
    hr_shape shape;
} hr_meta;

/* The checks of a shape: HR_E_SHAPE for a rank or dimension that is not possible, HR_E_RANGE when the number of
 * elements or of bytes does not fit into 63 bits.  out may be NULL. */
HR_API HR_MUST_CHECK hr_status hr_meta_check(const hr_meta *meta, uint64_t *out_bytes);
/* Of a shape that was checked. */
HR_API int64_t hr_shape_count(const hr_shape *shape);
HR_API uint64_t hr_meta_bytes(const hr_meta *meta);
HR_API int hr_shape_same(const hr_shape *a, const hr_shape *b);
/* "f32[16,224,224,3]".  80 + 21 * rank bytes are always enough; returns buf. */
HR_API const char *hr_meta_print(const hr_meta *meta, char *buf, size_t size);

/* A value of a graph.  0: none. */
typedef uint32_t hr_value;
#define HR_NONE ((hr_value)0)

typedef struct hr_graph hr_graph;

/* How a persistent value begins.  The numbers come from a counter (seed, name, index), so that they depend neither on
 * the order of building nor on the number of threads. */
typedef enum hr_init_kind {
    HR_INIT_CONSTANT = 0, /* a */
    HR_INIT_NORMAL,       /* mean a, standard deviation b */
    HR_INIT_UNIFORM,      /* a <= x < b */
    HR_INIT_TRUNCATED     /* normal, drawn again outside two standard deviations */
} hr_init_kind;

typedef struct hr_init {
    int32_t kind; /* hr_init_kind */
    double a, b;
} hr_init;

HR_API hr_init hr_init_constant(double value);
HR_API hr_init hr_init_normal(double deviation);
HR_API hr_init hr_init_uniform(double low, double high);
HR_API hr_init hr_init_truncated(double deviation);

typedef enum hr_value_kind {
    HR_VALUE_NODE = 0, /* made by a node */
    HR_VALUE_INPUT,    /* fed in every step */
    HR_VALUE_CONSTANT, /* its contents lie in the graph */
    HR_VALUE_PARAM,    /* persistent, trainable */
    HR_VALUE_STATE     /* persistent, not trainable: moments, running statistics, step counters */
} hr_value_kind;

HR_API HR_MUST_CHECK hr_status hr_graph_create(hr_graph **out);
/* NULL is allowed. */
HR_API void hr_graph_destroy(hr_graph *g);

/* ---- building ---- */

/* Names are paths: parts joined by dots.  push("layer3"), push("0"), push("conv2") makes what follows
 * "layer3.0.conv2.<name>".  A part may hold dots itself.  Pops must match pushes at freeze. */
HR_API void hr_graph_push(hr_graph *g, const char *part);
HR_API void hr_graph_pop(hr_graph *g);

/* Inputs, parameters and states have unique full names.  An input named with a leading '/' is not put into a scope. */
HR_API hr_value hr_graph_input(hr_graph *g, const char *name, hr_type type, hr_shape shape);
HR_API hr_value hr_graph_param(hr_graph *g, const char *name, hr_type type, hr_shape shape,
                               hr_init init);
HR_API hr_value hr_graph_state(hr_graph *g, const char *name, hr_type type, hr_shape shape,
                               hr_init init);
/* Copies `data`, the whole value in row-major order. */
HR_API hr_value hr_graph_constant(hr_graph *g, hr_type type, hr_shape shape, const void *data);
/* A constant of one number everywhere. */
HR_API hr_value hr_graph_fill(hr_graph *g, hr_type type, hr_shape shape, double number);

/* The one builder of nodes: an op by its name, its inputs, its attributes as text ("stride=2,pad=1"; NULL or "" for
 * none: defaults).  Returns the first output.  headroom/ops.h has one line of sugar for each op. */
HR_API hr_value hr_graph_node(hr_graph *g, const char *op, const hr_value *inputs, size_t count,
                              const char *attributes);
/* Output `index` of the node that made `value`. */
HR_API hr_value hr_graph_output(hr_graph *g, hr_value value, uint32_t index);

/* The value is a result that the caller wants after a step, under this name ("loss").  What no result and no update
 * of a persistent value needs is dropped at freeze. */
HR_API void hr_graph_result(hr_graph *g, hr_value value, const char *name);

/* Appends the nodes of the gradient of `loss` (a real scalar) with respect to wrt[0..count), and gives the values in
 * grads[], HR_NONE where loss does not depend on it.  `seed` is the gradient of the loss itself, a scalar of its type:
 * HR_NONE for 1, a value for loss scaling.  Fails with the graph's sticky error. */
HR_API HR_MUST_CHECK hr_status hr_graph_differentiate(hr_graph *g, hr_value loss, hr_value seed,
                                                      const hr_value *wrt, size_t count,
                                                      hr_value *grads);

/* Checks everything, drops dead nodes, and makes the graph read-only.  Returns the sticky error when there is one. */
HR_API HR_MUST_CHECK hr_status hr_graph_freeze(hr_graph *g);
/* The first mistake, or code HR_OK. */
HR_API void hr_graph_error(const hr_graph *g, hr_error *out);

/* ---- reading ---- */

HR_API size_t hr_graph_value_count(const hr_graph *g); /* ids are 1 .. count */
HR_API size_t hr_graph_node_count(const hr_graph *g);  /* nodes that run */
/* Of a valid value.  Names are of the graph; a node's value is named for its node. */
HR_API hr_meta hr_graph_meta(const hr_graph *g, hr_value value);
HR_API const char *hr_graph_name(const hr_graph *g, hr_value value);
HR_API hr_value_kind hr_graph_kind(const hr_graph *g, hr_value value);
/* An input, parameter, state or result by its full name; HR_NONE when there is none. */
HR_API hr_value hr_graph_find(const hr_graph *g, const char *name);

typedef struct hr_node_info {
    size_t size; /* set by the caller to sizeof(hr_node_info) */
    /* Valid as long as the graph. */
    const char *op;         /* "conv2d" */
    const char *name;       /* "layer1.0.conv1.conv2d" */
    const hr_value *inputs; /* input_count of them */
    uint32_t input_count, output_count;
    hr_value first_output; /* the others have the following ids */
    uint32_t attribute_count;
    int32_t phase; /* 0 forward, 1 backward, 2 update */
    int32_t live;  /* after freeze; 0: nothing needs it, it does not run */
} hr_node_info;

/* Node `index`, in the order of building, which is a valid order of execution, until HR_E_EOF.  Any graph, frozen or not;
 * nodes that do not run are among them. */
HR_API HR_MUST_CHECK hr_status hr_graph_get_node(const hr_graph *g, size_t index,
                                                 hr_node_info *out);
/* The index of the node that makes the value.  HR_E_NOT_FOUND for inputs, constants, parameters and states. */
HR_API HR_MUST_CHECK hr_status hr_graph_find_node(const hr_graph *g, hr_value value, size_t *out);

typedef enum hr_attribute_kind {
    HR_ATTRIBUTE_INTEGER = 0, /* and booleans */
    HR_ATTRIBUTE_REAL,
    HR_ATTRIBUTE_NAME,    /* one of a fixed set */
    HR_ATTRIBUTE_INTEGERS /* axes, padding, sizes */
} hr_attribute_kind;

enum { HR_ATTRIBUTE_TEXT = 208 };

typedef struct hr_attribute {
    size_t size;                  /* set by the caller to sizeof(hr_attribute) */
    const char *name;             /* "stride" */
    char text[HR_ATTRIBUTE_TEXT]; /* the exact value, as hr_graph_node reads it */
    int32_t kind;                 /* hr_attribute_kind: which of the following holds it */
    int32_t is_default;
    int64_t integer; /* NAME: its place in the set */
    double real;
    uint64_t integer_count;
    int64_t integers[HR_RANK_MAX];
} hr_attribute;

/* Attribute `index` of a node, until HR_E_EOF. */
HR_API HR_MUST_CHECK hr_status hr_graph_get_attribute(const hr_graph *g, size_t node, size_t index,
                                                      hr_attribute *out);
/* Result `index`, until HR_E_EOF.  Either out-parameter may be NULL. */
HR_API HR_MUST_CHECK hr_status hr_graph_get_result(const hr_graph *g, size_t index, hr_value *value,
                                                   const char **name);

/* ---- tags of parameters and states ---- */

typedef enum hr_layout {
    HR_LAYOUT_SAME = 0, /* the same in files and in memory */
    HR_LAYOUT_CONV      /* (KH, KW, C, O) in memory, (O, C, KH, KW) in files */
} hr_layout;

typedef enum hr_keep {
    HR_KEEP_MODEL = 0, /* part of the model: parameters, running statistics */
    HR_KEEP_OPTIMIZER, /* only in checkpoints that can be resumed */
    HR_KEEP_NOT        /* never saved: gradient accumulators */
} hr_keep;

/* Facts about a persistent value, in addition to its type and shape.  Zero is the default in every field. */
typedef struct hr_tags {
    size_t size;    /* set by the caller to sizeof(hr_tags) */
    hr_value owner; /* of a state: the parameter it belongs to */
    int32_t layout; /* hr_layout */
    int32_t keep;   /* hr_keep */
    int32_t frozen; /* a parameter that is not trained */
    int32_t decay;  /* weight decay: 0 by the rule (rank 2 and more), 1 always, -1 never */
    int32_t reserved;
} hr_tags;

/* A mistake is sticky on the graph, as with builders. */
HR_API void hr_graph_set_tags(hr_graph *g, hr_value value, const hr_tags *tags);
HR_API HR_MUST_CHECK hr_status hr_graph_get_tags(const hr_graph *g, hr_value value, hr_tags *out);

/* ---- as text ---- */

/* One line per value and node, all numbers exact: equal graphs give equal text, and hr_graph_parse gives the same graph
 * (docs/graph-format.md).  HR_E_UNSUPPORTED for a graph with ops of custom.h, which are code. */
HR_API HR_MUST_CHECK hr_status hr_graph_write(const hr_graph *g, hr_write_fn *write, void *user,
                                              hr_error *why);
/* The text is not trusted: HR_E_FORMAT, HR_E_NOT_FOUND (an unknown op), HR_E_SHAPE and so on, with the line in *why
 * (may be NULL).  Frozen when the written graph was. */
HR_API HR_MUST_CHECK hr_status hr_graph_parse(const char *text, size_t bytes, hr_graph **out,
                                              hr_error *why);

typedef enum hr_graph_format { HR_GRAPH_TEXT = 0, HR_GRAPH_DOT = 1 } hr_graph_format;
/* Gives the text in pieces to `write`.  Any graph, frozen or not. */
HR_API void hr_graph_print(const hr_graph *g, hr_graph_format format,
                           void (*write)(void *user, const char *text), void *user);

HR_END_DECLS
#endif
