/* The descriptor of a model family: everything that Headroom knows of it, in one place.
 *
 * src/models/<family>.c defines exactly one `const hri_family hri_family_<family>`; the build lists the folder.  A family
 * has one table of keys and one builder; its names (resnet18, resnet50) are sets of defaults.  Copy mlp.c.
 *
 * The builder makes inputs, parameters and nodes with the builders of graph.h and ops.h and with layers.h; errors are
 * sticky, so nothing is checked.  It ends with hri_model_loss().  Models are built in f32: the step builder casts. */
#ifndef HRI_MODELS_COMMON_MODEL_H
#define HRI_MODELS_COMMON_MODEL_H

#include <stdbool.h>
#include <headroom/model.h>
#include <headroom/ops.h>
#include <headroom/train.h>
#include "base/options.h"

/* What a builder is given. */
typedef struct hri_build {
    hr_graph *g;
    const void *options; /* the family's own struct */
    int64_t batch;
    bool training;
    int64_t
        decode; /* tokens of one step of generation (hri_model_build_decode); 0: the whole model */
} hri_build;

typedef struct hri_model_name {
    const char *name;     /* NULL ends the list */
    const char *help;     /* one line, lower case, no full stop */
    const char *defaults; /* "layers=24,width=1024"; NULL: those of the table */
} hri_model_name;

typedef struct hri_family {
    const char *name;
    const hri_model_name *names;
    const hri_field *fields;
    size_t options_bytes;
    /* Whether values go together; NULL: they always do. */
    hr_status (*check)(const void *options, hri_prose *why);
    void (*build)(hri_build *b);
    int64_t (*classes)(const void *options);
    /* The most tokens of a text; its builder then knows `decode`.  NULL: it does not write text token by token. */
    int64_t (*context)(const void *options);
    bool both_ways; /* a token's scores are made of those behind it, too: it cannot write */
    /* Files of other programs: names may stand behind this prefix (all or none of them; NULL: never), and tensors whose
     * names end in one of these (NULL at the end, or no list) say nothing new. */
    const char *prefix;
    const char *const *derived;
    const char *const *
        heads; /* beginnings of names that files of other heads do not have; NULL at the end, or no list */
} hri_family;

typedef struct hri_model_file hri_model_file; /* file.h */
struct hri_line;                              /* line.h */

/* Written by the build from the folder listing; ends with NULL. */
extern const hri_family *const hri_familys[];

/* A model is a family's, a file's or a program's; the first has a family, the second a file, the third a function.  A line is
 * a function that the model owns. */
struct hr_model {
    const hri_family *family;
    hri_options parsed; /* texts of the options live here */
    _Alignas(16) unsigned char options[512];

    hri_model_file *file;
    struct hri_line *line;
    hr_build_fn *build;
    void *user;

    char *name, *text;
    char *weights; /* of a file: the safetensors file that training starts from; NULL: none */
    int64_t classes;
    const char *prefix; /* as in hri_family */
    const char *const *derived, *const *heads;
};

/* The prose as an error; returns status.  why may be NULL. */
hr_status hri_model_fail(hr_error *why, hr_status status, const hri_prose *prose);

/* Writing text token by token: the most tokens of a text, 0: the model has no such step. */
int64_t hri_model_context(const hr_model *m);
/* The graph of the next `tokens` tokens of one text: inputs tokens i32 (1, tokens), positions i32 (tokens) and mask f32
 * (1, 1, tokens, context), 0 where a key is seen and -inf elsewhere; result logits (1, 1, classes) of the last of them.  Keys and
 * values of all tokens so far are states (layers.h) that graphs of any number of tokens share. */
HR_MUST_CHECK hr_status hri_model_build_decode(const hr_model *m, hr_graph *g, int64_t tokens);

/* Names logits and loss: the mean cross entropy of (..., classes) and label (...). */
void hri_model_loss(hri_build *b, hr_value logits);
/* The same for logits x w^T with many classes: the loss is made without them.  The result "logits" is there all the
 * same, but spare: the graphs of steps, training and evaluation, leave it out and the product with it. */
void hri_model_linear_loss(hri_build *b, hr_value x, hr_value w);
/* The same for x w^T + bias, x (N, T, width): the bias goes as a column beside w, because linear_cross_entropy has none. */
void hri_model_linear_loss_with(hri_build *b, hr_value x, hr_value w, hr_value bias);

#endif
