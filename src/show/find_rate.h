/* The learning-rate range test as a chart, as JSON and in words. */
#ifndef HRI_SHOW_FIND_RATE_H
#define HRI_SHOW_FIND_RATE_H

#include "base/json.h"
#include "base/out.h"
#include "base/prose.h"
#include "job/find_rate.h"

/* Loss over the logarithm of the learning rate: each step, the average, and the rate to begin with.  hri_free() the text. */
HR_MUST_CHECK hr_status hri_show_rates_svg(const hri_found_rate *f, const char *model, char **out);
/* The chart as a file; path NULL: none. */
HR_MUST_CHECK hr_status hri_show_rates_write(const hri_found_rate *f, const char *model,
                                             const char *path, hri_prose *why);
void hri_show_rates_json(const hri_found_rate *f, hri_json *json);
/* One line a decade, then what was found. */
void hri_show_rates_text(const hri_found_rate *f, hri_out *out);

#endif
