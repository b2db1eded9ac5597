/* The graph inside: two arrays, values and nodes, in the order of building, which is a valid order of running.
 *
 * Layers repeat, so most nodes have the attributes and metas of an earlier one: equal ones are kept once.
 *
 * Ids are 32 bits.  Value ids start at 1 (0 is "none"); the outputs of a node have consecutive ids.  Names, attributes
 * and constants lie in the graph's arena.  Before freeze everything may only be appended; freeze marks which nodes
 * are live and nothing is renumbered, so ids that the caller holds stay good. */
#ifndef HRI_GRAPH_GRAPH_H
#define HRI_GRAPH_GRAPH_H

#include <headroom/graph.h>
#include "base/arena.h"
#include "base/map.h"
#include "graph/op.h"
#include "graph/pixels.h"

enum { HRI_NO_NODE = 0xffffffffu };

typedef struct hri_value {
    hr_meta meta;
    hr_value_kind kind;
    uint32_t node; /* the producer, HRI_NO_NODE for inputs, constants and persistent values */
    hr_value
        origin; /* the persistent value whose memory this is (itself, or a later version), or HR_NONE */
    const char *name;    /* full path */
    hr_init init;        /* persistent values and fills */
    const void *data;    /* constants; NULL: every element is init.a */
    const hr_tags *tags; /* of persistent values; NULL: all defaults */
    uint8_t carried;     /* an input that comes from another graph on the device, and is no batch */
} hri_value;

typedef enum hri_phase { HRI_FORWARD = 0, HRI_BACKWARD, HRI_UPDATE } hri_phase;

typedef struct hri_node_record {
    hri_sig sig; /* op, attributes, metas: all of the graph */
    const hr_value *in;
    hr_value out; /* the first; the others follow */
    const char *name;
    hri_phase phase;
    uint32_t forward; /* of a backward node: the node it belongs to */
    uint32_t
        counter; /* what random ops count by: its own number, or that of the node it was made from */
    uint8_t live;    /* set by freeze */
    uint8_t dropped; /* 1: not run for what it updates; somebody else does that */
} hri_node_record;

typedef struct hri_result {
    hr_value value;
    const char *name;
    uint8_t
        spare; /* 1: no step needs it; it is there for those who take the model's graph as it is */
} hri_result;

typedef struct hri_note {
    const char *name, *text;
    const struct hri_note *next;
} hri_note;

struct hr_graph {
    hri_arena arena;
    hri_value *values; /* [0] is unused */
    uint32_t value_count, value_space;
    hri_node_record *nodes;
    uint32_t node_count, node_space;
    hri_result *results;
    uint32_t result_count, result_space;

    hri_strmap names; /* of inputs and persistent values */
    hri_intmap same;  /* hash -> attributes or metas that are there already; until freeze */
    char path[256];   /* the current scope, without a dot at the end */
    uint32_t path_ends[32];
    uint32_t depth;

    hri_phase phase;  /* what nodes made now belong to */
    uint32_t forward; /* see hri_node_record */
    uint8_t frozen;
    uint8_t keep_scores; /* for models: a head of many classes keeps its scores for the gradient */
    const hri_pixels *pixels;   /* while a model is built: how its images come; NULL: as it asks */
    const float *class_weights; /* of a model's graph, for the pass `loss`; NULL: none */
    size_t class_weight_count;
    const hri_note *notes; /* the last one first */
    uint32_t live_count;
    hr_error error; /* the first one */
};

/* What a random op that made this value counts by. */
static inline uint32_t hri_graph_counter(const hr_graph *g, hr_value v) {
    return g->nodes[g->values[v].node].counter;
}
static inline const hri_value *hri_value_at(const hr_graph *g, hr_value v) {
    return &g->values[v];
}

/* Remembers the first failure. */
void hri_graph_fail(hr_graph *g, hr_status code, const char *format, ...) HR_PRINTF(3, 4);
/* hr_graph_node with its attributes by printf. */
hr_value hri_nodef(hr_graph *g, const char *op, const hr_value *in, size_t count,
                   const char *format, ...) HR_PRINTF(5, 6);
/* A node of `op` with a struct of attributes (copied; NULL: defaults). */
hr_value hri_graph_add(hr_graph *g, const hr_op *op, const hr_value *in, uint32_t count,
                       const void *attr);
/* A node that is there becomes a use of `op`, which has as many outputs and updates nothing, with these attributes; what its inputs and
 * outputs are follows.  Those who read an output that is another now must become what suits it before the graph is frozen. */
void hri_graph_become(hr_graph *g, uint32_t node, const hr_op *op, const void *attr);
/* A result like hr_graph_result's that the graph of a step leaves out, and whatever serves it alone. */
void hri_graph_result_spare(hr_graph *g, hr_value value, const char *name);

/* Something that a pass says of a value for those who take the graph further, by the value's name; the text of a graph does
 * not have it.  Passes carry notes over.  NULL: there is none. */
void hri_graph_note(hr_graph *g, const char *name, const char *text);
const char *hri_graph_find_note(const hr_graph *g, const char *name);
void hri_graph_copy_notes(const hr_graph *from, hr_graph *to);

/* Marks which nodes results and updates need; gives their number. */
uint32_t hri_graph_mark_live(hr_graph *g);
/* Checks a graph from scratch, trusting nothing that the builder did.  The reason is in message. */
HR_MUST_CHECK hr_status hri_graph_verify(const hr_graph *g, char *message, size_t size);

/* The tags of a value; never NULL. */
const hr_tags *hri_graph_tags(const hr_graph *g, hr_value v);

/* The contents with which a persistent value or constant begins. */
void hri_graph_initial(const hr_graph *g, hr_value v, uint64_t seed, void *out);
/* The same for elements first .. first + count, of which `first` begins a block: parts are made by any thread. */
enum { HRI_INITIAL_BLOCK = 64 };
void hri_graph_initial_part(const hr_graph *g, hr_value v, uint64_t seed, int64_t first,
                            int64_t count, void *out);
/* 1 when all of it is zero. */
int hri_graph_begins_zero(const hr_graph *g, hr_value v);

#endif
