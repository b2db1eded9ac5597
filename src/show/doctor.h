/* What doctor shows, in sections of rows with four cells, for people or as JSON. */
#ifndef HRI_SHOW_DOCTOR_H
#define HRI_SHOW_DOCTOR_H

#include <headroom/doctor.h>
#include "base/json.h"
#include "base/out.h"
#include "base/table.h"
#include "base/term.h"

typedef struct hri_sections {
    hri_out *out;
    const hri_term *term;
    bool as_json;
    hri_json json;
    hri_table table; /* of the section being written */
    hr_status status;
} hri_sections;

/* One of the four things that a row says: in JSON a key with its value, for people a word that may be another one. */
typedef struct hri_row_cell {
    const char *key, *value;
    const char *shown; /* NULL: the value */
    hri_style style;
} hri_row_cell;

void hri_section_start(hri_sections *r, const char *title, const char *key);
void hri_section_end(hri_sections *r);
/* For people, cells[first] stands in front of the others. */
void hri_section_row(hri_sections *r, const hri_row_cell *cells, int first);
void hri_show_machine(hri_sections *r);
void hri_show_components(hri_sections *r, const hr_doctor *d);
void hri_show_check(hri_sections *r, const hr_check *c);

#endif
