/* Packing problems as CSV: the columns id, lower, upper and size in any order, named by the first line; others are
 * passed over.  Lifetimes are half open.  This is the form in which public problems are exchanged. */
#ifndef HRI_PLAN_PACK_CSV_H
#define HRI_PLAN_PACK_CSV_H

#include "base/prose.h"
#include "plan/pack.h"

typedef struct hri_pack_file {
    hri_pack_buffer *buffers; /* (count) */
    char **ids;               /* (count), into `text` */
    size_t count;
    char *text; /* a copy of the input, cut into pieces */
} hri_pack_file;

/* HR_E_FORMAT with the line and what is wrong with it in `why`; HR_E_NOMEM_HOST. */
HR_MUST_CHECK hr_status hri_pack_file_parse(const char *text, size_t bytes, hri_pack_file *out,
                                            hri_prose *why);
/* A zeroed one is allowed. */
void hri_pack_file_deinit(hri_pack_file *file);

#endif
