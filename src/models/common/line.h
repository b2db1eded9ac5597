/* Networks in one line, in the language of the pipelines: "net: input(28x28x1) | conv(32,3) | relu | global_pool | dense(10)".
 *
 * Layers stand one behind the other; each takes numbers by place or by name (conv(32,kernel=5,stride=2)).  residual(...) adds
 * what goes into it to what comes out, repeat(3, ...) builds layers so many times.  What goes in is said by input(...), which
 * the data fills in where it is missing; `classes` may stand for the number of classes.  The last layer's output are the
 * logits of a cross entropy.  Errors say the place in the text.
 *
 * The text is the user's: nesting, layers and numbers have bounds. */
#ifndef HRI_MODELS_COMMON_LINE_H
#define HRI_MODELS_COMMON_LINE_H

#include "models/common/model.h"

/* 1 when a model's text is such a line. */
int hri_line_is(const char *text);
/* 1 when it does not say what goes in. */
int hri_line_lacks_input(const char *text);

typedef struct hri_line hri_line;

/* Reads the text; HR_E_INVALID with the place.  On failure *out is untouched. */
HR_MUST_CHECK hr_status hri_line_read(const char *text, hri_line **out, hri_prose *why);
/* NULL is allowed. */
void hri_line_free(hri_line *line);
/* An hr_build_fn: `line` is an hri_line. */
HR_MUST_CHECK hr_status hri_line_build(void *line, hr_graph *g, int64_t batch, int training);
/* Fills the model, whose graphs are built once as a check. */
HR_MUST_CHECK hr_status hri_line_open(const char *text, hr_model *m, hri_prose *why);

/* ---- between reading and building ---- */

enum { HRI_LINE_ARGS = 6, HRI_LINE_DIMS = 3 };

typedef struct hri_line_layer hri_line_layer;

typedef struct hri_line_stage {
    const hri_line_layer *layer;
    size_t at;     /* its place in the text, from 1 */
    char near[28]; /* what stands there, for messages */
    double arg[HRI_LINE_ARGS];
    int64_t dims[HRI_LINE_DIMS]; /* of input(28x28x1) */
    int rank;
    struct hri_line_stage *inner, *next; /* what is in brackets; what stands behind */
} hri_line_stage;

/* A number that a layer takes.  `least` and `most` bound it; `open` stands in its place where it is not given, and NaN there
 * means that it must be. */
typedef struct hri_line_arg {
    const char *name;
    double open, least, most;
    bool real; /* not only whole numbers */
} hri_line_arg;

struct hri_line_layer {
    const char *name;
    hri_line_arg args[HRI_LINE_ARGS]; /* name NULL: no more */
    bool has_inner, has_dims;
    hr_value (*build)(hri_build *b, const hri_line_stage *s, const char *name, hr_value x);
};

/* The table; ends with name NULL (line_layers.c). */
extern const hri_line_layer hri_line_layers[];

struct hri_line {
    hri_line_stage *first; /* input */
    hri_line_stage *all;   /* owned: stages in the order of reading */
    size_t count;
};

/* Builds layers from `s` on behind x. */
hr_value hri_line_layers_build(hri_build *b, const hri_line_stage *s, hr_value x);
hr_value hri_line_repeat(hri_build *b, const hri_line_stage *s, const char *name, hr_value x);
hr_value hri_line_residual(hri_build *b, const hri_line_stage *s, const char *name, hr_value x);
/* A sticky error of the graph with the stage's place in front; the first wins. */
void hri_line_fail(hri_build *b, const hri_line_stage *s, const char *format, ...) HR_PRINTF(3, 4);

#endif
