/* Weights to begin with, from a file of somebody else's training.
 *
 * Every weight of the model must be in the file, under its own name or behind a family's prefix, in its shape; but a
 * tensor whose shape differs only where the model has its number of classes stays as the seed made it: a head for
 * other classes is trained anew; and adapters and ranges of activations, which a model's own file does not have, stay so too.  A file may also end before
 * the head (a backbone): the last tensors of the model may be missing where they have the number of classes, and those whose names begin as
 * one of `heads` wherever they are: what another class of the same model (BertModel, BertForMaskedLM) does not have.  What else is in
 * the file is looked past.  Everything is compared before the first weight is changed. */
#ifndef HRI_WEIGHTS_INIT_H
#define HRI_WEIGHTS_INIT_H

#include "weights/checkpoint.h"

typedef struct hri_init_report {
    size_t loaded, replaced, missing;
    char head[128];       /* the first one that was not loaded; "" when all were */
    int64_t file_classes; /* of the file's head, when it differs */
} hri_init_report;

/* A tensor under its own name or one that other programs give it: behind a prefix, without that of a class with a head ("bert."), the
 * names of old files (LayerNorm.gamma), or the tensor that it shares there; NULL: there is none. */
const hri_tensor *hri_init_find(const hri_tensors *file, const char *name);
HR_MUST_CHECK hr_status hri_init_load(const char *path, const hr_graph *g, const hri_values *to,
                                      int64_t classes, const char *const *heads,
                                      hri_init_report *out, hri_prose *why);

#endif
