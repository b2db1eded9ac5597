/* Checkpoints: one safetensors file with everything that a training, or a prediction, goes on from.
 *
 *   weights and running statistics    under the model's names, in the layout of files: other programs load them
 *   <norm>.num_batches_tracked        i64, as torch has it
 *   optimizer/<param>.<state>         what the optimizer remembers (only in a whole checkpoint)
 *   headroom/input                    u8: the place of the input pipeline (only in a whole one)
 *   __metadata__                      "format": "pt", and "headroom": a JSON text with the rest: hri_about, hri_progress_state;
 *                                     "headroom.graph": the model itself, where no name opens it
 *
 * Where passes added parameters (LoRA), they are among the weights, under their names.
 *
 * A run keeps two files in its folder: last.safetensors is whole and goes on with the same bits; best.safetensors has
 * the weights of the best epoch and nothing that strict loaders would trip over.  Both are written beside their place,
 * synced and renamed, so at every moment each of them is a whole old file or a whole new one.
 *
 * For inference:
 *
 *   hri_checkpoint c;
 *   status = hri_checkpoint_open("runs/flowers", &c, &why);          a folder (best, else last) or a file
 *   hri_checkpoint_model(&c, &model, &why); hr_step_build(..., HR_STEP_EVALUATE, ...)
 *   hri_source_stages, c.about.pixels                                the same pictures as validation saw
 *   status = hri_checkpoint_load(&c, graph, &values, HRI_CHECKPOINT_WEIGHTS, &why);
 *   hri_checkpoint_close(&c);
 *
 * Reading trusts nothing: a file that was cut short, lies or belongs to another model is refused with a sentence before
 * the first weight is changed.  Nothing in the text is ever run: what was done to the data is kept as numbers, each with a
 * range, and our own code makes stages of them; `source` is for eyes and comparisons alone.  The text is read as a stream;
 * its limits are HRI_CHECKPOINT_*_MAX.
 *
 * Version 1 (0.1.0) kept the stages as text.  One that says exactly what 0.1.0 wrote (rename, decode, resize, normalise, with
 * numbers) is taken for its numbers; any other is refused.  Training does not go on from version 1.
 * Threads: one at a time. */
#ifndef HRI_WEIGHTS_CHECKPOINT_H
#define HRI_WEIGHTS_CHECKPOINT_H

#include <headroom/train.h>
#include "data/tabular.h"
#include "graph/pixels.h"
#include "passes/common/losses.h"
#include "weights/tensor_move.h"

enum {
    HRI_CHECKPOINT_CLASSES_MAX = 65536, /* classes */
    HRI_CHECKPOINT_NAME_MAX = 1024,     /* bytes of a class's name, a fact's name or value */
    HRI_CHECKPOINT_SOURCE_MAX = 65536,  /* bytes of the source's text */
    HRI_CHECKPOINT_FACTS_MAX = 128
};

/* Facts that are compared in their own way. */
#define HRI_FACT_MODEL "the model"
#define HRI_FACT_DATA  "data"

/* One thing that a training's history depends on, as its user would say it: {"--batch", "8"}. */
typedef struct hri_fact {
    const char *name, *value;
} hri_fact;

/* A part of the data kept apart: the first val_count samples of the order that `seed` makes; all 0: none was. */
typedef struct hri_split {
    double fraction;
    uint64_t seed, val_count, train_count;
} hri_split;

#define HRI_CHECKPOINT_LAST "last.safetensors"
#define HRI_CHECKPOINT_BEST "best.safetensors"

/* What the weights are of.  Texts belong to whoever filled it: hri_checkpoint_open's live until close. */
typedef struct hri_about {
    const char *model; /* every key said: opens the same model */
    const char
        *graph; /* the text of a model that no name opens (docs/graph-format.md); else NULL */
    const char *passes;    /* over the model's graph, as hri_passes_parse reads them; NULL: none */
    const char *prefix;    /* what other programs put before its names; not in the file */
    const char *precision; /* "f32", "bf16", "f16" */
    const char *source;    /* what it was trained on: "images:flowers" */
    hri_pixels pixels;     /* how its graph makes real numbers of bytes; channels 0: none came */
    const char *input;     /* the model's input that the data goes to: "image", "tokens" */
    const hri_tabular *table;   /* what the columns of its data are; NULL: it has none */
    hri_loss loss;              /* in place of the model's own; .kind 0: it has its own */
    const char *const *classes; /* names, class_count of them; NULL: it has none */
    size_t class_count;
    hri_split split;
    /* What makes the history: it must be the same for training to go on.  And where it was made: another one is a warning,
     * since the last bits may differ. */
    const hri_fact *run, *environment;
    size_t run_count, environment_count;
} hri_about;

/* Where a training is: plain numbers, all of them in the file. */
typedef struct hri_progress_state {
    hr_step_state state; /* steps, updates, loss scale */
    uint64_t epoch;      /* begun, from 0 */
    uint64_t epoch_step; /* steps done in it */
    uint64_t batch, seed;
    uint64_t parts;                      /* of a batch: another number would round otherwise */
    uint64_t input_print;                /* fingerprint of the input pipeline */
    double loss_sum, right_sum, top_sum; /* over the steps of this epoch, by labels that count */
    uint64_t counted;                    /* labels of this epoch that count, behind the sums */
    uint64_t samples;                    /* of this epoch */
    uint64_t digest; /* of the bits of every loss so far: the same history, the same number */
    double best;     /* the number that is watched, at its best; NaN: none yet */
    uint64_t best_epoch, bad_epochs;
    uint64_t seconds_ns; /* trained so far */
} hri_progress_state;

typedef enum hri_checkpoint_part {
    HRI_CHECKPOINT_WEIGHTS, /* parameters and running statistics */
    HRI_CHECKPOINT_WHOLE    /* the optimizer's states too */
} hri_checkpoint_part;

typedef struct hri_checkpoint {
    hri_tensors file;
    hri_arena texts; /* of `about` */
    hri_about about;
    hri_tabular *table;          /* about.table */
    uint64_t version;            /* of the text: 1 or 2 */
    hri_progress_state progress; /* zeros in a file of weights alone */
    int whole;                   /* 1: training can go on from it */
    int plain;                   /* 1: tensors alone, as another program may have named them */
    char *path;                  /* the file that was opened */
} hri_checkpoint;

/* HR_E_NOT_FOUND when there is none; HR_E_FORMAT for one that is no checkpoint, with the reason. */
HR_MUST_CHECK hr_status hri_checkpoint_open(const char *path, hri_checkpoint *out, hri_prose *why);
/* The model, by its name or from the graph in the file; hr_model_close() it. */
HR_MUST_CHECK hr_status hri_checkpoint_model(const hri_checkpoint *c, hr_model **out,
                                             hri_prose *why);
/* Reads the text "headroom" into c->about, progress and version; hri_checkpoint_open's own. */
HR_MUST_CHECK hr_status hri_checkpoint_read_text(hri_checkpoint *c, const char *text,
                                                 hri_prose *why);
/* Is this training (its facts) the one of c?  HR_E_INVALID with "cannot resume: the run used --batch 8, this command has 4".
 * What is only another place to compute on goes into `warning`, "" when there is nothing. */
HR_MUST_CHECK hr_status hri_checkpoint_same(const hri_checkpoint *c, const hri_about *here,
                                            hri_prose *warning, hri_prose *why);
/* A zeroed one is allowed. */
void hri_checkpoint_close(hri_checkpoint *c);
/* Fills the persistent values of g.  Everything is compared first: HR_E_NOT_FOUND for a missing tensor, HR_E_SHAPE for
 * another shape, HR_E_INVALID when the optimizer's states are asked for and are not there. */
HR_MUST_CHECK hr_status hri_checkpoint_load(const hri_checkpoint *c, const hr_graph *g,
                                            const hri_values *to, hri_checkpoint_part part,
                                            hri_prose *why);
/* The place of the input pipeline, for hr_pipeline_restore; hri_free() it. */
HR_MUST_CHECK hr_status hri_checkpoint_input(const hri_checkpoint *c, void **out, size_t *out_bytes,
                                             hri_prose *why);
/* Updates that its weights have seen: a whole file says it, another one has it from its batch norms. */
uint64_t hri_checkpoint_updates(const hri_checkpoint *c);

/* What is written.  input is the pipeline's place; NULL with input_bytes 0: a file of weights alone. */
typedef struct hri_checkpoint_write {
    const hr_graph *g;
    const hri_values *from;
    const hri_about *about;
    const hri_progress_state *progress; /* NULL: weights alone */
    const void *input;
    size_t input_bytes;
    uint64_t updates; /* of weights alone: steps that changed them, as progress has them */
} hri_checkpoint_write;

/* HR_E_RANGE for what could be written but not read again (too many classes, too long names): ask before training. */
HR_MUST_CHECK hr_status hri_about_check(const hri_about *about, hri_prose *why);
HR_MUST_CHECK hr_status hri_checkpoint_save(const char *path, const hri_checkpoint_write *w,
                                            hri_prose *why);
/* What the file will take, at most a few KiB less: for asking the disk before training starts. */
uint64_t hri_checkpoint_bytes(const hr_graph *g, hri_checkpoint_part part);

/* How a value of a training's graph is kept, as its tags say; HR_KEEP_NOT for what does not outlive a step. */
hr_keep hri_keep_of(const hr_graph *g, hr_value v);
/* Type and shape that a persistent value has in files. */
hr_meta hri_file_meta(const hr_graph *g, hr_value v);

#endif
