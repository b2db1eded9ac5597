/* This program for src/manual: its commands, settings, exit codes and the chapters of docs/commands.md that are ours. */
#include "cli/common/command.h"
#include "data/stage.h"
#include "step/options.h"

static const hri_exit_text exits[] = {
    {HRI_EXIT_YES, "success, or \"fits\""},
    {HRI_EXIT_NO, "does not fit, or a check failed"},
    {HRI_EXIT_USAGE, "usage error or bad input"},
    {HRI_EXIT_FAULT, "runtime failure"},
    {0, NULL},
};

static const hri_example first_steps[] = {
    {"headroom plan resnet50 --batch 32 --budget 2GiB", "tell whether a training run fits, and "
                                                        "at what cost"},
    {"headroom data 'images:DIR | decode(224) | batch(32)' --budget 64MiB",
     "run an input pipeline"},
    {"headroom devices", "list devices and their memory"},
    {"headroom doctor", "check this machine"},
    {NULL, NULL},
};

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

static void put_chapters(hri_out *out) {
    hri_out_text(out, "## Training options\n\nFor `--options`, written `key=value,...`.\n\n");
    hri_markdown_keys(out, hri_train_fields);
    put_models(out);
    put_stages(out);
}

const hri_manual hri_program_manual = {
    .summary = "trains neural networks within a memory budget",
    .commands = hri_commands,
    .settings = hri_settings_fields,
    .foreign = hri_foreign_variables,
    .exits = exits,
    .first_steps = first_steps,
    .chapters = put_chapters,
};
