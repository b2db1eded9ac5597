/* A pass: graph in, graph out.  The listing of src/passes/ is the list of passes: one file a pass.
 *
 *   hri_pass_options o;
 *   hri_pass_parse("precision:to=bf16", &o, &why);
 *   hri_pass_apply(&o, model, empty, &map, &why);      every node built again, some of them otherwise
 *   ... map.values[v]: what became of value v; hri_pass_read(&map, w): what a gradient of w should be taken of
 *   hri_pass_map_deinit(&map);
 *   hri_pass_options_deinit(&o);
 *
 * The one idea: `from` is only read, `to` is a new graph with the same names, tags and results.  A pass says what it does
 * to a node, and hri_rewrite does the rest.  No pass knows a model.  A pass works on a model's forward graph, before it is
 * differentiated, so what it changes is trained as it is changed. */
#ifndef HRI_PASSES_COMMON_PASS_H
#define HRI_PASSES_COMMON_PASS_H

#include "base/options.h"
#include "base/text.h"
#include "graph/graph.h"

/* What became of the values.  Zeroed: nothing. */
typedef struct hri_pass_map {
    hr_value *values; /* by value of `from`: the same in `to`; HR_NONE: it is gone */
    uint32_t value_count;
    hr_value *reads; /* by value of `to`: what is read in its place by everybody; HR_NONE: itself */
    uint32_t read_count;
} hri_pass_map;

/* What a gradient should be taken of: of a parameter that is only read through its cast the cast, so that the gradient
 * stays as small; else the value itself. */
hr_value hri_pass_read(const hri_pass_map *map, hr_value value);
/* A zeroed one is allowed. */
void hri_pass_map_deinit(hri_pass_map *map);

enum { HRI_PASS_BYTES = 64 };

typedef struct hri_pass {
    const char *name;    /* "precision" */
    const char *help;    /* one line */
    int changes_result;  /* 1: another function: never applied because of a budget alone */
    int by_user;         /* 1: may stand in a list of passes; 0: the library applies it by itself */
    int training_only;   /* 1: the model is evaluated without it */
    int evaluation_only; /* 1: a model that has it cannot be trained */
    const hri_field *fields; /* of its options, options_bytes of them: at most HRI_PASS_BYTES */
    size_t options_bytes;
    /* Whether values go together; NULL: they always do. */
    hr_status (*check)(const void *options, hri_prose *why);
    /* Fills the empty graph `to`; errors stay on it.  HR_E_NOMEM_HOST without one. */
    hr_status (*apply)(const void *options, const hr_graph *from, hr_graph *to, hri_pass_map *map);
    /* The same of a model that is evaluated; NULL: as `apply`. */
    hr_status (*apply_evaluate)(const void *options, const hr_graph *from, hr_graph *to,
                                hri_pass_map *map);
} hri_pass;

extern const hri_pass *const hri_passs[]; /* NULL at the end; the build writes it */

const hri_pass *hri_pass_find(const char *name); /* NULL: there is none */

/* A pass with its options read.  It may not move. */
typedef struct hri_pass_options {
    const hri_pass *pass;
    hri_options parsed; /* has the texts */
    _Alignas(16) char bytes[HRI_PASS_BYTES];
} hri_pass_options;

/* "NAME" or "NAME:key=value,...".  HR_E_NOT_FOUND for another name, with those there are; as base/options.h for its keys. */
HR_MUST_CHECK hr_status hri_pass_parse(const char *text, hri_pass_options *out, hri_prose *why);
/* Adds "NAME:key=value,..." with every key that has a value. */
void hri_pass_print(const hri_pass_options *o, hri_text *out);
/* A zeroed one is allowed. */
void hri_pass_options_deinit(hri_pass_options *o);
/* On failure *to has the reason, or there is no memory; `map` is untouched. */
HR_MUST_CHECK hr_status hri_pass_apply(const hri_pass_options *o, const hr_graph *from,
                                       hr_graph *to, hri_pass_map *map);
HR_MUST_CHECK hr_status hri_pass_apply_evaluate(const hri_pass_options *o, const hr_graph *from,
                                                hr_graph *to, hri_pass_map *map);

/* ---- several, one after the other ---- */

typedef struct hri_passes {
    hri_pass_options *of; /* count of them */
    size_t count;
    const char *without; /* one that is not applied; NULL: all are */
} hri_passes;

/* "lora:rank=16;...": passes with ';' between.  NULL or "": none.  HR_E_INVALID for one that is not for lists.
 * Sentences begin with the name of the pass. */
HR_MUST_CHECK hr_status hri_passes_parse(const char *text, hri_passes *out, hri_prose *why);
/* A text that parses to them. */
void hri_passes_print(const hri_passes *p, hri_text *out);
/* Adds the text of those in `text` but the one of this name. */
HR_MUST_CHECK hr_status hri_passes_add_others(const char *text, const char *name, hri_text *out,
                                              hri_prose *why);
/* The options of the pass of this name; NULL: it is not among them. */
const void *hri_passes_find(const hri_passes *p, const char *name);
/* *g, of a model built for training or not, becomes the graph after all of them; the one before is destroyed.  On failure *g has
 * the reason, or there is no memory. */
HR_MUST_CHECK hr_status hri_passes_apply(const hri_passes *p, int training, hr_graph **g);
/* A zeroed one is allowed. */
void hri_passes_deinit(hri_passes *p);

/* ---- for those who write a pass ---- */

typedef struct hri_rewrite hri_rewrite;

#define HRI_REWRITE_GONE ((hr_value)0xffffffffu)

/* Builds node `n` of `from` in `to`, or something in its place; in[] are its inputs there, HR_NONE for one that was left
 * out.  Returns the first output, the others follow; HR_NONE after a failure, or to leave it out: a result that it made is
 * then left out as well. */
typedef hr_value hri_rewrite_fn(hri_rewrite *r, const hri_node_record *n, hr_value *in);

struct hri_rewrite {
    const hr_graph *from;
    hr_graph *to;
    hri_rewrite_fn *node; /* NULL: every node stays */
    /* Something in place of an input, persistent value or constant; HR_NONE: it stays; HRI_REWRITE_GONE: it is left out, and
     * `node` leaves out what reads it.  NULL: all stay. */
    hr_value (*source)(hri_rewrite *r, hr_value value);
    void *user;
    hr_value *values; /* by value of `from` */
};

/* The node as it is. */
hr_value hri_rewrite_keep(hri_rewrite *r, const hri_node_record *n, const hr_value *in);
/* Everything in order: inputs and persistent values with their tags, nodes under their names, results. */
HR_MUST_CHECK hr_status hri_rewrite_graph(hri_rewrite *r);

#endif
