/* What `headroom merge` and `headroom quantize` say of the files they write. */
#ifndef HRI_SHOW_FILES_H
#define HRI_SHOW_FILES_H

#include <headroom/checkpoint.h>
#include <headroom/quantize.h>
#include "show/show.h"

extern const char hri_merge_help[], hri_quantize_help[];

void hri_merge_show(const char *path, const hr_merge_result *r, hri_out *out);
void hri_merge_json(const char *path, const hr_merge_result *r, hri_json *json);
void hri_quantize_show(const char *path, const hr_quantize_result *r, hri_out *out);
void hri_quantize_json(const char *path, const hr_quantize_result *r, hri_json *json);

#endif
