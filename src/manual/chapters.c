/* See chapters.h. */
#include "manual/chapters.h"

#include <headroom/model.h>
#include "data/stage.h"
#include "manual/manual.h"
#include "step/options.h"

static void put_models(hri_out *out) {
    hri_out_text(out, "## Models\n\nA model is `name[:key=value,...]`.\n\n");
    hr_model_info info = {.size = sizeof info};
    for (size_t i = 0; hr_model_list(i, &info) == HR_OK; i++) {
        hr_model_key key = {.size = sizeof key};
        hri_out_printf(out, "### %s\n\n%s\n\n| key | meaning | default |\n|---|---|---|\n",
                       info.name, info.help);
        for (size_t k = 0; hr_model_keys(info.name, k, &key) == HR_OK; k++) {
            hri_markdown_row(out, key.name, key.help, key.value);
        }
        hri_out_text(out, "\n");
    }
}

static void put_stages(hri_out *out) {
    hri_out_text(out, "## Pipeline sources and stages\n\n"
                      "Written `name(option=value,...)` or `name:value,option=value`; the main "
                      "option needs no name.\n\n");
    for (size_t i = 0; hri_stage_types[i]; i++) {
        const hri_stage_type *t = hri_stage_types[i];
        hri_out_printf(out, "### %s\n\n%s%s%s%s\n\n", t->name, t->help,
                       t->main ? ". The main option: `" : "", t->main ? t->main : "",
                       t->main ? "`" : "");
        if (t->fields && t->fields->name) {
            hri_markdown_keys(out, t->fields);
        }
    }
}

void hri_manual_chapters(hri_out *out) {
    hri_out_text(out, "## Training options\n\nFor `--options`, written `key=value,...`.\n\n");
    hri_markdown_keys(out, hri_train_fields);
    put_models(out);
    put_stages(out);
}
