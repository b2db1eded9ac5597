/* The list of pipeline stages for people: see stages.h. */
#include "cli/common/stages.h"

#include <string.h>
#include "base/table.h"
#include "data/stage.h"

static int print_list(hri_cli *cli) {
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
        hri_say_title(cli, sources ? "sources" : "stages");
        const hr_status status = hri_table_print(&table, &cli->out, &cli->out_term, 2, 0);
        hri_table_deinit(&table);
        if (status != HR_OK) {
            return hri_cli_failed(cli, NULL, "data", status);
        }
    }
    hri_say_next(cli, "headroom data --stages shuffle");
    return HRI_EXIT_YES;
}

static const hri_stage_type *find(const char *name) {
    for (size_t i = 0; hri_stage_types[i]; i++) {
        if (strcmp(hri_stage_types[i]->name, name) == 0) {
            return hri_stage_types[i];
        }
    }
    return NULL;
}

static int print_one(hri_cli *cli, const hri_stage_type *t) {
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
    hri_say_title(cli, "%s: %s", t->name, t->help);
    const hr_status status = hri_table_print(&table, &cli->out, &cli->out_term, 2, 1);
    hri_table_deinit(&table);
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_failed(cli, NULL, "data", status);
}

int hri_stages_print(hri_cli *cli, int count, const char *const *names) {
    if (count == 0) {
        return print_list(cli);
    }
    for (int i = 0; i < count; i++) {
        const hri_stage_type *t = find(names[i]);
        if (!t) {
            hri_say_error(cli, "data: unknown stage \"%s\"; headroom data --stages lists them",
                          names[i]);
            return HRI_EXIT_USAGE;
        }
        const int code = print_one(cli, t);
        if (code != HRI_EXIT_YES) {
            return code;
        }
    }
    return HRI_EXIT_YES;
}
