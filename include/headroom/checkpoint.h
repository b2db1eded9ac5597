/* Checkpoints: what is in a file, and its tensors.
 *
 *   hr_checkpoint *c;
 *   hr_checkpoint_open("runs/flowers", &c, &why);
 *   hr_checkpoint_info info = {.size = sizeof info};
 *   hr_checkpoint_get_info(c, &info);
 *   hr_checkpoint_close(c);
 *
 * A checkpoint is a safetensors file that other programs can load: parameters and running statistics under the model's
 * names, in file layout.  A resumable one also has optimizer state, the position in the data, and counters.  A run keeps
 * two files in its folder: last.safetensors is resumable, best.safetensors has the parameters of the best validation.
 * Both are replaced atomically.  A checkpoint of a model that no name opens contains its graph, so it can be evaluated
 * without the program that built it.
 *
 * Trainers save and resume by themselves (trainer.h).  Files are not trusted: one that is truncated, inconsistent or from
 * another model is refused.  Threads: an open checkpoint is read-only and used by one thread at a time. */
#ifndef HEADROOM_CHECKPOINT_H
#define HEADROOM_CHECKPOINT_H

#include <headroom/graph.h>
#include <headroom/model.h>

HR_BEGIN_DECLS

typedef struct hr_checkpoint hr_checkpoint;

/* A file, or the folder of a run (best, else last).  HR_E_NOT_FOUND, HR_E_FORMAT. */
HR_API HR_MUST_CHECK hr_status hr_checkpoint_open(const char *path, hr_checkpoint **out,
                                                  hr_error *why);
/* NULL is allowed. */
HR_API void hr_checkpoint_close(hr_checkpoint *c);

/* Set size to sizeof(hr_checkpoint_info). */
typedef struct hr_checkpoint_info {
    size_t size;
    /* Strings are valid until close, "" if the file does not say. */
    const char *path;  /* of the file that was opened */
    const char *model; /* text for hr_model_open, or a name and a fingerprint if it is custom */
    const char *precision;
    const char *data;  /* training data */
    const char *input; /* the model input that the data feeds */
    uint64_t class_count, tensor_count;
    uint64_t step, epoch; /* completed */
    uint64_t batch, micro_batches, seed;
    uint64_t history; /* digest of all losses so far */
    double best;      /* loss of the best validation; NAN: none yet */
    uint64_t best_epoch;
    double seconds;    /* of training so far */
    int32_t resumable; /* 0: parameters only, counters are zero */
    int32_t custom;    /* 1: contains the graph */
} hr_checkpoint_info;

HR_API HR_MUST_CHECK hr_status hr_checkpoint_get_info(const hr_checkpoint *c,
                                                      hr_checkpoint_info *out);
/* NULL if there is no such class or it has no name. */
HR_API const char *hr_checkpoint_class(const hr_checkpoint *c, uint64_t index);
/* The model, opened by name or from the stored graph; hr_model_close() it. */
HR_API HR_MUST_CHECK hr_status hr_checkpoint_model(const hr_checkpoint *c, hr_model **out,
                                                   hr_error *why);

/* Set size to sizeof(hr_tensor_info). */
typedef struct hr_tensor_info {
    size_t size;
    const char *name; /* "fc.weight", "optimizer/fc.weight.velocity"; valid until close */
    const char *type; /* in the file's own word: "F32" */
    hr_shape shape;   /* in the file */
    uint64_t bytes;
} hr_tensor_info;

/* Until HR_E_EOF. */
HR_API HR_MUST_CHECK hr_status hr_checkpoint_get_tensor(const hr_checkpoint *c, size_t index,
                                                        hr_tensor_info *out);
/* Reads elements [at, at + count) of a tensor as `type` (hr_type).  HR_E_NOT_FOUND, HR_E_RANGE, HR_E_UNSUPPORTED for a
 * type that it cannot be read as. */
HR_API HR_MUST_CHECK hr_status hr_checkpoint_read(const hr_checkpoint *c, const char *name,
                                                  int32_t type, uint64_t at, void *to,
                                                  uint64_t count, hr_error *why);

/* Set size to sizeof(hr_merge_result). */
typedef struct hr_merge_result {
    size_t size;
    uint64_t layers;     /* whose weights were changed */
    uint64_t parameters; /* of the model */
    uint64_t bytes;      /* of the tensors in the file */
} hr_merge_result;

/* Puts LoRA adapters into the weights they belong to, W + (alpha / rank) B A in f32, and writes a checkpoint of the model without
 * adapters: parameters only, which other programs load and `init` starts from.  The file is replaced atomically.
 * HR_E_INVALID: the run has no adapters.  out may be NULL. */
HR_API HR_MUST_CHECK hr_status hr_checkpoint_merge(const hr_checkpoint *c, const char *path,
                                                   hr_merge_result *out, hr_error *why);

HR_END_DECLS
#endif
