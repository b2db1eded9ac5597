/* The list of pipeline stages for people: see stages.h. */
#include "show/stages.h"

#include <string.h>
#include "base/table.h"
#include "data/stage.h"

hr_status hri_stages_show(hri_out *out, const hri_term *term) {
    static const char *const headings[] = {"STAGE", "WHAT"};
    for (int sources = 1; sources >= 0; sources--) {
        hri_table table;
        hri_table_init(&table, headings, 2);
        for (size_t i = 0; hri_stage_types[i]; i++) {
            if ((hri_stage_types[i]->inputs == 0) == (sources == 1)) {
                hri_table_cell(&table, HRI_STYLE_BOLD, "%s", hri_stage_types[i]->name);
                hri_table_cell(&table, HRI_STYLE_PLAIN, "%s", hri_stage_types[i]->help);
            }
        }
        hri_show_title(out, term, sources ? "sources" : "stages");
        const hr_status status = hri_table_print(&table, out, term, 2, 0);
        hri_table_deinit(&table);
        if (status != HR_OK) {
            return status;
        }
    }
    return HR_OK;
}

static const hri_stage_type *find(const char *name) {
    for (size_t i = 0; hri_stage_types[i]; i++) {
        if (strcmp(hri_stage_types[i]->name, name) == 0) {
            return hri_stage_types[i];
        }
    }
    return NULL;
}

static hr_status print_one(const hri_stage_type *t, hri_out *out, const hri_term *term) {
    static const char *const headings[] = {"OPTION", "DEFAULT", "WHAT"};
    hri_table table;
    hri_table_init(&table, headings, 3);
    for (const hri_field *f = t->fields; f && f->name; f++) {
        const bool main = t->main && strcmp(f->name, t->main) == 0;
        hri_table_cell(&table, main ? HRI_STYLE_BOLD : HRI_STYLE_PLAIN, "%s", f->name);
        hri_table_cell(&table, HRI_STYLE_PLAIN, "%s", f->value ? f->value : "-");
        hri_table_cell(&table, HRI_STYLE_PLAIN, "%s%s", f->help,
                       main ? " (the name is optional)" : "");
    }
    hri_show_title(out, term, "%s: %s", t->name, t->help);
    const hr_status status = hri_table_print(&table, out, term, 2, 1);
    hri_table_deinit(&table);
    return status;
}

hr_status hri_stage_show(const char *name, hri_out *out, const hri_term *term) {
    const hri_stage_type *t = find(name);
    return t ? print_one(t, out, term) : HR_E_NOT_FOUND;
}
