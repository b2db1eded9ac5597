/* Predictions as rows of CSV and as members of a JSON array, one at a time. */
#ifndef HRI_SHOW_PREDICT_H
#define HRI_SHOW_PREDICT_H

#include "job/given.h"
#include "job/mask_files.h"
#include "show/infer.h"

typedef struct hri_prediction_sheet {
    hri_infer_sheet infer;
    const hri_given *given; /* what samples are called */
    int64_t top;            /* classes shown of each */
    const hri_mask_files
        *masks; /* what was written of a prediction that is a mask; NULL: it is none */
} hri_prediction_sheet;

/* "path,class,probability", and more of the last two; of labels that do not exclude one another a probability each; of masks "path,mask,overlay" and a share of the pixels for each class. */
void hri_prediction_csv_head(const hri_prediction_sheet *s, hri_out *out);
HR_MUST_CHECK hr_status hri_prediction_csv(const hri_prediction_sheet *s, const hr_prediction *p,
                                           hri_out *out);
/* With the comma that it needs behind another one. */
HR_MUST_CHECK hr_status hri_prediction_json(const hri_prediction_sheet *s, const hr_prediction *p,
                                            hri_out *out);
/* An object whose predictions are printed one by one: what stands before them, and (members in j) behind.  j is empty at first. */
HR_MUST_CHECK hr_status hri_prediction_json_head(const hri_prediction_sheet *s, hri_json *j,
                                                 hri_out *out);
HR_MUST_CHECK hr_status hri_prediction_json_tail(hri_json *j, hri_out *out);

#endif
