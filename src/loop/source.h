/* What the user's data is, and what must be done to it before a model can take it.
 *
 * SRC is a source ("images:flowers", "mnist:DIR", "npy:x.npy,y.npy", "tokens:FILE", "synthetic") or a whole pipeline
 * that begins with one and gives single samples.  Looking at it says what its elements are, how many, and the names of
 * classes.  From that and the model's input follow the stages behind it: files are decoded at the model's size, other
 * pictures resized to it; nothing is added that the user's own stages did already.  Bytes stay bytes up to the device:
 * hri_source_pixels says how the graph normalises them.
 *
 *   hri_source_look(text, seed, &source, &why);
 *   hri_source_fill_model("resnet18", &source, text, sizeof text, &why);    "resnet18:classes=5"
 *   hri_source_pipeline(&source, &input, &how, text, sizeof text, &why);    "images:flowers | shuffle | decode(64) | ..."
 *
 * Threads: one at a time. */
#ifndef HRI_LOOP_SOURCE_H
#define HRI_LOOP_SOURCE_H

#include <headroom/data.h>
#include <headroom/model.h>
#include "base/prose.h"
#include "graph/pixels.h"
#include "data/tabular.h"
#include "loop/model_input.h"
#include "passes/common/losses.h"

enum { HRI_SOURCE_TEXT = 2048 };

/* What the labels are, as far as the data tells. */
typedef enum hri_target {
    HRI_TARGET_CLASSES = 0, /* whole numbers, or no labels at all */
    HRI_TARGET_NUMBERS,     /* real numbers */
    HRI_TARGET_FLAGS        /* several of 0 or 1 in a row: which of the classes it is of */
} hri_target;

typedef struct hri_source {
    char text[HRI_SOURCE_TEXT];
    char kind[HR_FIELD_NAME_SIZE]; /* "images" */
    hr_field input, label;         /* of one sample; name "" for a label that is not there */
    uint64_t count;                /* an epoch; HR_COUNT_UNKNOWN */
    char **classes;                /* class_count names, or NULL */
    size_t class_count;            /* 0: not known */
    uint32_t height, width;        /* of encoded images that are all of one size; 0: not known */
    int64_t vocab;                 /* tokens are numbers below this; 0: not known */
    int64_t pad; /* the token that fills short texts; 0 where there is none, too */
    hri_target target;
    int weighted; /* 1: its field sample_weight says how much a sample counts in the loss */
    hri_tabular *
        table; /* what its columns are, as learnt from all of it; NULL: it has none, or was given one */
    int labels_known; /* 1: `labels` is what the source's labels are */
    hr_label_range labels;
    char *
        *notes; /* note_count sentences for the user: what was left out, labels that are ignored */
    size_t note_count;
} hri_source;

/* The loss that goes with such labels where nobody names one; .kind 0: the model's own. */
hri_loss hri_source_loss(const hri_source *s, const hri_model_input *want);
/* Labels are what this loss wants, whatever the data looks like.  HR_E_INVALID where they cannot be. */
HR_MUST_CHECK hr_status hri_source_set_loss(hri_source *s, const hri_loss *loss, hri_prose *why);

/* Opens the source for a look and closes it again.  `want` (may be NULL) completes sources that are made to measure:
 * tokens and text get the model's length, synthetic its shape and classes, where the text does not say them. */
HR_MUST_CHECK hr_status hri_source_look(const char *text, const hri_model_input *want,
                                        hri_source *out, hri_prose *why);
/* The same of a source whose columns a table says (NULL: the source itself). */
HR_MUST_CHECK hr_status hri_source_look_with(const char *text, const hri_model_input *want,
                                             const hri_tabular *table, hri_source *out,
                                             hri_prose *why);
/* The same of a pipeline that somebody has built: what it gives is taken as it is. */
HR_MUST_CHECK hr_status hri_source_look_at(hr_pipeline *p, const hri_model_input *want,
                                           hri_source *out, hri_prose *why);
/* HR_E_INVALID: the model learns from labels, and the source has none and is no text that is its own. */
HR_MUST_CHECK hr_status hri_source_check_labels(const hri_source *s, const hri_model_input *want,
                                                hri_prose *why);
/* Numbers in a shape; -1: its sizes are not known. */
int64_t hri_source_count(const hr_shape *shape);
/* A zeroed one is allowed. */
void hri_source_deinit(hri_source *s);

/* The model string with the keys that the data knows and the string does not say: classes, channels, size.  `said`
 * (may be NULL) gets what was added, "classes=10". */
HR_MUST_CHECK hr_status hri_source_fill_model(const char *model, const hri_source *s, char *out,
                                              size_t size, char *said, size_t said_size,
                                              hri_prose *why);

extern const char *const hri_augmentations[]; /* "none" and words of `augment`; NULL ends it */

/* How samples are drawn. */
typedef struct hri_source_use {
    int training; /* shuffled anew each epoch, augmented */
    int bare;     /* 1: samples as the source has them, without the stages that follow */
    const char
        *augment; /* "flip,crop,jitter,randaugment,erase" or any of them; NULL or "none": nothing */
    uint64_t seed;
    /* A part of the source, drawn once by the seed: the first `part_count` after `part_first` of that order; 0: all. */
    uint64_t part_first, part_count;
    /* Of a source of unknown length: an epoch has whole batches of so many samples; 0: all samples. */
    uint64_t batch;
    /* Of a source with random access: of each batch (in parts of `part` samples) only what rank `rank` of `ranks` trains on;
     * ranks 0: all. */
    uint64_t deal_batch, part;
    uint32_t ranks, rank;
} hri_source_use;

/* How the graph turns these images into real numbers; channels 0: the data has none that come as bytes. */
void hri_source_pixels(const hri_source *s, const hri_model_input *want, hri_pixels *out);
/* The stages behind the source alone, " | decode(64)", as inference needs them; may be "". */
HR_MUST_CHECK hr_status hri_source_stages(const hri_source *s, const hri_model_input *want,
                                          const char *augment, char *out, size_t size,
                                          hri_prose *why);
/* Is there such a stage behind the source?  The name in a path is none. */
bool hri_source_has_stage(const hri_source *s, const char *name);
/* The whole pipeline. */
HR_MUST_CHECK hr_status hri_source_pipeline(const hri_source *s, const hri_model_input *want,
                                            const hri_source_use *use, char *out, size_t size,
                                            hri_prose *why);

#endif
