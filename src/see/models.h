/* What models there are, and the keys of one: the rows of `headroom models`. */
#ifndef HRI_SEE_MODELS_H
#define HRI_SEE_MODELS_H

#include <headroom/model.h>
#include "base/json.h"
#include "base/table.h"

/* Both fill a table of three columns (name, number or default, help) and the same into the open object. */
HR_MUST_CHECK hr_status hri_see_list_models(hri_table *t, hri_json *json, hr_error *why);
HR_MUST_CHECK hr_status hri_see_list_keys(const char *name, hri_table *t, hri_json *json,
                                          hr_error *why);

#endif
