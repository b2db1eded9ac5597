/* What the packer alone found, as CSV, as JSON, and in one line. */
#ifndef HRI_SHOW_PACK_H
#define HRI_SHOW_PACK_H

#include <stdio.h>
#include "plan/pack_csv.h"
#include "show/show.h"

void hri_pack_json(const hri_pack_file *file, const uint64_t *offsets, const hri_pack_result *r,
                   hri_json *json);
void hri_pack_show_csv(const hri_pack_file *file, const uint64_t *offsets, hri_out *out);
void hri_pack_show_summary(const hri_pack_result *r, FILE *to);

#endif
