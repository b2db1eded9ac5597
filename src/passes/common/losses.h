/* Losses that a training may ask for in place of the model's own, as nodes over its scores.
 *
 *   cross_entropy   ids of classes                           focal       the same, (1 - p)^gamma of it
 *   bce             numbers from 0 to 1, one per score: any number of classes at a time
 *   mse mae huber   numbers, one per score
 *
 * The one idea: a target that is missing counts for nothing (an id below 0; a number that is NaN), and a loss is the sum
 * over those that count divided by how many they are, once.  So parts of a batch weigh what they have of the targets that
 * count (step/share.h), and the loss does not depend on how a batch was cut.  Class weights multiply the loss of a target;
 * the division stays that by their number, as in Keras: weights whose mean over the data is 1 leave the loss as large.
 * So do weights of samples, each for all targets of its sample: (weight * loss).mean() in PyTorch's words. */
#ifndef HRI_PASSES_COMMON_LOSSES_H
#define HRI_PASSES_COMMON_LOSSES_H

#include "base/options.h"
#include "base/prose.h"
#include "graph/graph.h"

typedef enum hri_loss_kind {
    HRI_LOSS_MODEL = 0, /* whatever the model has */
    HRI_LOSS_CROSS_ENTROPY,
    HRI_LOSS_FOCAL,
    HRI_LOSS_BCE,
    HRI_LOSS_MSE,
    HRI_LOSS_MAE,
    HRI_LOSS_HUBER
} hri_loss_kind;

/* Zeroed: the model's own. */
typedef struct hri_loss {
    int kind;     /* hri_loss_kind */
    double delta; /* huber: where it turns from squares to lines */
    double gamma; /* focal */
    int soft;     /* cross entropy of training alone: a target is a distribution over the classes */
    int weighted; /* the input "sample_weight" (batch) says how much each sample counts */
} hri_loss;

/* Names of the kinds by their number, NULL at the end; "model" is the first. */
extern const char *const hri_loss_names[];

enum { HRI_LOSS_TEXT = 80 };

/* "huber" or "huber:delta=0.5".  HR_E_NOT_FOUND with the names there are; HR_E_INVALID, HR_E_RANGE for its keys. */
HR_MUST_CHECK hr_status hri_loss_parse(const char *text, hri_loss *out, hri_prose *why);
/* The text that parses to it, with every key that it has. */
char *hri_loss_print(const hri_loss *l, char *text, size_t size);
/* 1: its targets are ids of classes, else numbers, one per score. */
int hri_loss_has_ids(const hri_loss *l);
/* What the targets of these scores are. */
hr_meta hri_loss_label(const hri_loss *l, const hr_meta *scores);

/* The name of a loss's input with the weights of samples. */
#define HRI_LOSS_SAMPLE_WEIGHT "sample_weight"

/* What a loss is made of. */
typedef struct hri_loss_parts {
    hr_value scores, label;
    hr_value sample_weight; /* f32 (batch); HR_NONE: every sample counts the same */
    double smoothing;
    const float
        *weights; /* weight_count numbers, one per class, only where targets are ids; NULL: none */
    size_t weight_count;
} hri_loss_parts;

/* The nodes. */
hr_value hri_loss_build(hr_graph *g, const hri_loss *l, const hri_loss_parts *of);

#endif
