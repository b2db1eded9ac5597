/* An input pipeline for people and scripts: an element, and what its stages did. */
#ifndef HRI_SHOW_DATA_H
#define HRI_SHOW_DATA_H

#include <headroom/data.h>
#include "show/show.h"

/* Fields of an element with type, bytes and first numbers; a label with the name of its class. */
void hri_data_show_element(const hr_pipeline *p, const hr_element *e, uint64_t number,
                           hri_out *out);
void hri_data_element_json(const hr_pipeline *p, const hr_element *e, hri_json *json);
/* Time and memory of every stage, and what the tuner chose. */
HR_MUST_CHECK hr_status hri_data_show_stages(hr_pipeline *p, hri_out *out, const hri_term *term);
void hri_data_stages_json(hr_pipeline *p, hri_json *json);
/* The elements that were skipped. */
void hri_data_show_bad(hr_pipeline *p, hri_out *out);
void hri_data_bad_json(hr_pipeline *p, hri_json *json);

/* A pipeline that ran, in sum. */
typedef struct hri_data_sheet {
    hr_pipeline *pipeline;
    const hr_pipeline_stats *stats;
    const hr_pipeline_run_result *result;
    bool epochs, bench; /* it ran whole epochs; to be measured */
} hri_data_sheet;

HR_MUST_CHECK hr_status hri_data_show(const hri_data_sheet *s, hri_out *out, const hri_term *term);
void hri_data_json(const hri_data_sheet *s, hri_json *json);

#endif
