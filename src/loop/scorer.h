/* Metrics of a validation while training: labels as they are fed, scores as each batch leaves them, values at the end.
 *
 *   hri_scorer_open(&options, &s, &why);      before the memory is taken: all that it needs, so that nothing grows
 *   hri_scorer_begin(s);                      a pass begins
 *   hri_scorer_seen(s, index, element)        the validation's supply shows each sample
 *   hri_scorer_add(s, planned, samples, &why) behind each batch
 *   hri_scorer_value(s, i, &sums, &value)     at the end
 *
 * Every rank goes through all the validation data, so all of them have the same values.  Threads: one at a time. */
#ifndef HRI_LOOP_SCORER_H
#define HRI_LOOP_SCORER_H

#include "fit/planned.h"
#include "loop/wanted.h"

typedef struct hri_scorer hri_scorer;

typedef struct hri_scorer_options {
    const hri_wanted *wanted; /* lives as long as the scorer */
    hri_metrics_options metrics;
    const char *label; /* the field of the data that has the labels; lives as long as the scorer */
    uint64_t label_each; /* labels of a sample: ids of its rows, or their outputs */
    uint64_t samples;    /* of a batch, at most */
} hri_scorer_options;

/* HR_E_NOMEM_HOST. */
HR_MUST_CHECK hr_status hri_scorer_open(const hri_scorer_options *o, hri_scorer **out);
/* NULL is allowed. */
void hri_scorer_close(hri_scorer *s);
/* What one takes. */
uint64_t hri_scorer_bytes(const hri_scorer_options *o);
void hri_scorer_begin(hri_scorer *s);
/* As hri_supply_options.seen; `scorer` is an hri_scorer. */
void hri_scorer_seen(void *scorer, uint32_t index, const hr_element *sample);
/* HR_E_UNSUPPORTED: the model has no whole scores to read. */
HR_MUST_CHECK hr_status hri_scorer_add(hri_scorer *s, hri_planned *planned, uint32_t samples,
                                       hri_prose *why);
/* Metric i of the wanted ones. */
HR_MUST_CHECK hr_status hri_scorer_value(hri_scorer *s, size_t i, const hri_wanted_sums *sums,
                                         double *out);
const hri_wanted *hri_scorer_wanted(const hri_scorer *s);

/* The labels of one sample: `each` of them behind to_ids or to_reals (one is NULL).  What has none of this form does not
 * count: -1, NAN. */
void hri_labels_keep(const hr_element *sample, const char *field, uint64_t each, int32_t *to_ids,
                     float *to_reals);

#endif
