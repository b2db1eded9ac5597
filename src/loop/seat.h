/* Where one sample goes in an input of a run, and how a field gets there: bytes stay bytes, which the graph normalises; other numbers
 * become those of the input's type, a piece at a time. */
#ifndef HRI_LOOP_SEAT_H
#define HRI_LOOP_SEAT_H

#include <headroom/data.h>
#include "base/prose.h"
#include "fit/planned.h"
#include "loop/model_input.h"

/* Where a sample goes. */
typedef struct hri_seat {
    hri_exec *exec;
    hr_value value;
    hr_type type;
    uint64_t count;    /* numbers of one sample */
    uint64_t index;    /* of the sample in the run */
    uint64_t *counted; /* of labels: gets those that count; NULL: it is no label */
    int leaves_out;    /* of labels that are numbers of no classes: negative ones do not count */
    int64_t row, from, to; /* of labels: of each row those from here to there; row 0: all */
    int numbers;      /* 1: targets of a loss over numbers: as they are, and NaN does not count */
    int64_t table;    /* of whole numbers: rows that they pick from; 0: any number will do */
    const char *data; /* what the user calls the data */
} hri_seat;

/* The input of this name; .value is HR_NONE where the graph does without it. */
hri_seat hri_seat_of(const char *data, const hri_planned_run *run, const char *name,
                     const hr_meta *sample, uint64_t index);
/* Of labels: what counts among them. */
void hri_seat_counts(hri_seat *p, const hri_model_input *want, uint64_t *counted);
/* Labels, of which the first is number `first` of a sample, and targets that count, added where they are counted. */
void hri_seat_count_labels(const hri_seat *p, uint64_t first, const int32_t *labels, uint64_t n);
void hri_seat_count_reals(const hri_seat *p, const float *targets, uint64_t n);

/* n numbers of the input's own type, from number `first` of the sample on. */
HR_MUST_CHECK hr_status hri_seat_put(const hri_seat *p, uint64_t first, const void *data,
                                     uint64_t n);
/* The same byte everywhere: 0 is zero in every type, 0xff is -1 in whole numbers and NaN in real ones. */
HR_MUST_CHECK hr_status hri_seat_put_same(const hri_seat *p, int byte);
/* Whole numbers from `shift` on; behind the last one stands -1.  All must be below `limit`. */
HR_MUST_CHECK hr_status hri_seat_put_wholes(const hri_seat *p, const hr_field *f, uint64_t shift,
                                            int64_t limit, hri_prose *why);
/* A field of one sample; limit 0: whole numbers are no numbers of classes. */
HR_MUST_CHECK hr_status hri_seat_put_field(const hri_seat *p, const hr_field *f, int64_t limit,
                                           hri_prose *why);

#endif
