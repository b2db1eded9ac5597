/* Models by name: "resnet50:classes=10,size=64" becomes a graph.
 *
 *   hr_model *m;
 *   hr_error why;
 *   if (hr_model_open("resnet18:classes=10,size=64", &m, &why) != HR_OK) ...      why.message says what and what else
 *   status = hr_step_build(&options, hr_model_build, m, HR_STEP_WHOLE, 32, &graph, &why);      headroom/train.h
 *   hr_model_close(m);
 *
 * A model's graph has two inputs and two results, the same names in every family:
 *
 *   image    f32 (N, size, size, channels)     or   tokens   i32 (N, context)
 *   label    i32 (N), or (N, size, size) for one class per pixel, or (N, context) for the next token; negative: ignored
 *   logits   f32, the shape of the label followed by the classes; not a result of hr_step_build's graphs for gpt2, because they are large
 *   loss     f32, the mean cross entropy
 *
 * Parameters have the names that torchvision (image models) and Hugging Face (GPT-2) use.  Their shapes are the same
 * too but for the weights of convolutions, which lie as (KH, KW, C / groups, O) and in files as (O, C / groups, KH, KW);
 * hr_model_load() and hr_model_save() transpose them.  A graph for training takes batch statistics and drops out; one for
 * inference takes running statistics and does not.
 *
 * Threads: an opened model is read-only. */
#ifndef HEADROOM_MODEL_H
#define HEADROOM_MODEL_H

#include <stddef.h>
#include <stdint.h>
#include <headroom/context.h>
#include <headroom/custom.h>
#include <headroom/graph.h>
#include <headroom/train.h>

HR_BEGIN_DECLS

typedef struct hr_model hr_model;

/* What a listing shows.  Static texts. */
typedef struct hr_model_info {
    size_t size;        /* set by the caller to sizeof(hr_model_info) */
    const char *name;   /* "resnet50" */
    const char *family; /* "resnet" */
    const char *help;   /* one line */
} hr_model_info;

/* Names number 0, 1, ... until HR_E_EOF. */
HR_API HR_MUST_CHECK hr_status hr_model_list(size_t index, hr_model_info *out);
/* HR_E_NOT_FOUND with the nearest name in *why (may be NULL). */
HR_API HR_MUST_CHECK hr_status hr_model_find(const char *name, hr_model_info *out, hr_error *why);
/* Its keys, number 0, 1, ... until HR_E_EOF: name, help and default for this model ("" for none). */
typedef struct hr_model_key {
    size_t size; /* set by the caller to sizeof(hr_model_key) */
    const char *name, *help;
    char value[64];
} hr_model_key;
HR_API HR_MUST_CHECK hr_status hr_model_keys(const char *name, size_t index, hr_model_key *out);

/* "name[:key=value,...]", or the path of a model file: it ends in ".hr" or has a '/' in it.  HR_E_NOT_FOUND for an unknown name; HR_E_INVALID for an unknown key (the nearest is in the
 * sentence) or values that do not go together; HR_E_RANGE outside a range.  *why may be NULL. */
HR_API HR_MUST_CHECK hr_status hr_model_open(const char *text, hr_model **out, hr_error *why);
/* The text of a model file (docs/graph-format.md), from memory.  It is not trusted: as hr_model_open, with the line. */
HR_API HR_MUST_CHECK hr_status hr_model_parse(const char *text, size_t bytes, hr_model **out,
                                              hr_error *why);
/* The same for a text with custom ops (headroom/custom.h): a node whose op is not in the library's table is the one of `ops` that has its
 * name.  The ops must outlive the model.  Lines `custom "NAME" "TEXT"` in the head tell whoever makes them what each is. */
HR_API HR_MUST_CHECK hr_status hr_model_parse_custom(const char *text, size_t bytes,
                                                     const hr_custom *const *ops, size_t op_count,
                                                     hr_model **out, hr_error *why);
/* NULL is allowed. */
HR_API void hr_model_close(hr_model *m);

HR_API const char *hr_model_name(const hr_model *m);
/* The name with every key as it is: text that opens the same model. */
HR_API const char *hr_model_text(const hr_model *m);
/* The same number for the same model, whether it was opened by its name, from a file or defined: of all its parameters and
 * nodes.  0: it cannot be written as text, see hr_model_write. */
HR_API uint64_t hr_model_fingerprint(const hr_model *m);
/* How many classes a label tells apart: the end of the range of its ids. */
HR_API int64_t hr_model_classes(const hr_model *m);

/* Adds the model to g, for `batch` samples.  An hr_build_fn (headroom/train.h): `model` is an hr_model.  The graph's
 * sticky error is its status; nothing is frozen. */
HR_API HR_MUST_CHECK hr_status hr_model_build(void *model, hr_graph *g, int64_t batch,
                                              int training);

/* ---- custom models, and model files ---- */

/* Zero is the default in every field but name and build.  Set size to sizeof(hr_model_options). */
typedef struct hr_model_options {
    size_t size;
    const char *name;   /* for messages and checkpoints; 1 to 64 bytes, copied */
    hr_build_fn *build; /* headroom/train.h */
    void *user;         /* for build; must outlive the model */
    int64_t classes;    /* of the labels; 0: labels are not classes */
} hr_model_options;

/* A model like those of hr_model_open: it can be planned, trained, evaluated, saved and resumed.  It is built for several
 * batch sizes, for training and evaluation, to find mistakes early: HR_E_SHAPE when a parameter depends on the batch or
 * there is no scalar result "loss", and whatever build says. */
HR_API HR_MUST_CHECK hr_status hr_model_define(const hr_model_options *options, hr_model **out,
                                               hr_error *why);
/* The model as text for hr_model_open (docs/graph-format.md): its graphs for training and evaluation, with dimensions in
 * terms of the batch.  The file is replaced as a whole.  HR_E_UNSUPPORTED for what cannot be written so: custom ops, and
 * numbers that do not grow in proportion to the batch. */
HR_API HR_MUST_CHECK hr_status hr_model_write(const hr_model *m, const char *path, hr_error *why);

/* ---- weights in safetensors files ---- */

/* Copies bytes of a persistent value, from byte `at` of it on: out of wherever it lives, and into it.  Its memory may be
 * a device's. */
typedef hr_status hr_value_get(void *user, hr_value value, uint64_t at, void *to, uint64_t bytes);
typedef hr_status hr_value_put(void *user, hr_value value, uint64_t at, const void *from,
                               uint64_t bytes);

/* Zero is the default in every field but get or put.  Set size to sizeof(hr_weights_options). */
typedef struct hr_weights_options {
    size_t size;
    hr_value_get *get; /* save */
    hr_value_put *put; /* load */
    void *user;
    uint64_t buffer_bytes; /* transposed at a time; 0: 256 KiB */
    int32_t
        type; /* hr_type; save: of the weights in the file.  Running statistics and counts keep theirs */
    int32_t check;  /* load: 1 refuses weights that are not finite, before any is loaded */
    uint64_t steps; /* save: written as num_batches_tracked of every batch norm */
} hr_weights_options;

/* The parameters and running statistics of the model, found in `g` by their names.  Everything is checked before the
 * first byte is written: HR_E_NOT_FOUND for a missing tensor or file, HR_E_EXISTS for an extra one, HR_E_SHAPE for one
 * of another shape, HR_E_FORMAT for a file that is truncated, inconsistent or of another format, HR_E_UNSUPPORTED for a type
 * that weights cannot have, HR_E_RANGE for weights that are not finite.  After HR_E_IO in the middle the weights are a
 * mixture.  Types are converted; memory beyond the header is one small buffer. */
HR_API HR_MUST_CHECK hr_status hr_model_load(const hr_model *m, const hr_graph *g, const char *path,
                                             const hr_weights_options *o, hr_error *why);
/* Writes a temporary file and renames it: whatever fails, the old file is kept. */
HR_API HR_MUST_CHECK hr_status hr_model_save(const hr_model *m, const hr_graph *g, const char *path,
                                             const hr_weights_options *o, hr_error *why);

HR_END_DECLS
#endif
