/* This program for src/manual: its commands, settings, and exit codes. */
#include "cli/common/command.h"
#include "manual/chapters.h"

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

const hri_manual hri_program_manual = {
    .summary = "trains neural networks within a memory budget",
    .commands = hri_commands,
    .settings = hri_settings_fields,
    .foreign = hri_foreign_variables,
    .exits = exits,
    .first_steps = first_steps,
    .chapters = hri_manual_chapters,
};
