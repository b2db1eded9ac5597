/* Does every label of the data count?
 *
 * Negative labels do not.  Where it is known before a training starts that every sample has equally many labels that
 * count, micro-batches weigh what they have of the samples, and sgd with momentum adds them straight to its velocity.
 * Otherwise sums of gradients are planned (hr_train_options.ignored). */
#ifndef HRI_LOOP_LABELS_H
#define HRI_LOOP_LABELS_H

#include "loop/source.h"

/* 1: yes, by the kind of the source or because the labels of an npy file were looked through; 0: not known. */
int hri_labels_all_count(const hri_source *s);

#endif
