/* Which layers are meant: "c_attn+c_proj", "h.*.mlp", "fc".
 *
 * A pattern is alternatives joined by '+'.  Each is a path with '*' for any letters and '?' for one, and means the layer that
 * has it as its whole path or as the last parts of it, and everything inside that layer: c_attn is h.0.attn.c_attn and
 * h.11.attn.c_attn; h.0 is all of h.0. */
#ifndef HRI_PASSES_COMMON_PATTERN_H
#define HRI_PASSES_COMMON_PATTERN_H

#include "base/prose.h"

/* HR_E_INVALID for letters that no path has, and for an empty alternative. */
HR_MUST_CHECK hr_status hri_pattern_check(const char *pattern, hri_prose *why);
/* Is the thing of this path meant, itself or as a part of a layer? */
int hri_pattern_has(const char *pattern, const char *path);

#endif
