/* A recording for people, in a terminal: the verdict, a sum that adds up, the largest, where the time goes. */
#ifndef HRI_SEE_REPORT_H
#define HRI_SEE_REPORT_H

#include "base/json.h"
#include "base/out.h"
#include "base/term.h"
#include "see/recording.h"

/* `rows`: the most of each table; what is left out is said with its sum. */
HR_MUST_CHECK hr_status hri_see_report_text(const hri_recording *r, size_t rows, hri_out *out,
                                            const hri_term *term);
/* Every table in full. */
HR_MUST_CHECK hr_status hri_see_report_json(const hri_recording *r, hri_json *json);

/* "1.25 ms". */
const char *hri_see_span(double ns, char *buf, size_t size);

#endif
