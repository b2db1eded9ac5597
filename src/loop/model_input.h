/* What a model wants of its data: its inputs and its label, as its graph has them. */
#ifndef HRI_LOOP_MODEL_INPUT_H
#define HRI_LOOP_MODEL_INPUT_H

#include <headroom/data.h>
#include <headroom/model.h>
#include "base/prose.h"
#include "passes/common/losses.h"

enum { HRI_OTHER_INPUTS = 14 };

/* One more input, which a field of the same name goes to. */
typedef struct hri_other_input {
    char name[HR_FIELD_NAME_SIZE];
    hr_meta sample;
    int64_t table; /* rows of the table that it picks from; 0: it picks from none */
} hri_other_input;

/* What the model wants of one sample, and its label: the input of that name, or else the numbers of classes that its loss
 * is a cross entropy over.  Every other input but the first is fed by the field of its name. */
typedef struct hri_model_input {
    char name[HR_FIELD_NAME_SIZE];       /* "image", "tokens" */
    char label_name[HR_FIELD_NAME_SIZE]; /* "label"; "": it has none */
    hr_meta sample, label;               /* without the batch */
    int64_t table; /* rows of the table that its first input picks from; 0: it picks from none */
    hri_other_input others[HRI_OTHER_INPUTS];
    uint32_t other_count;
    int counts; /* 1: the loss is a mean over what has no negative label, or none that is NaN */
    int masks; /* 1: that, and a label that does not count changes nothing else: it can fill a batch up */
    int shifts; /* 1: the graph itself looks for the next token's label, or makes other things of labels */
    int leaves_out;           /* 1: a part of the loss is a mean over the labels that count */
    int other_labels;         /* 1: and a part over others than those of the label input */
    int64_t row;              /* of labels, in each of which */
    int64_t row_from, row_to; /* those from here to there are read; row 0: all are */
    int64_t classes;          /* 0: labels are not classes */
    int64_t vocab;            /* the same of the first of its inputs that picks from one */
    uint32_t weights;         /* how many parameters and running statistics it has */
    uint64_t parameters;      /* numbers in all parameters */
    int states_classes,
        states_channels; /* 1: its string has that key, which can be another number */
} hri_model_input;

/* Tokens whose labels are the next ones: both are numbers of the same classes. */
int hri_model_input_is_sequence(const hri_model_input *want);
/* Asks the model by building it once. */
HR_MUST_CHECK hr_status hri_model_input_of(hr_model *m, hri_model_input *out, hri_prose *why);
/* The same with another loss than its own (NULL: its own): the label is then what that loss wants. */
HR_MUST_CHECK hr_status hri_model_input_with(hr_model *m, const hri_loss *loss,
                                             hri_model_input *out, hri_prose *why);

#endif
