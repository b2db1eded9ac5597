/* headroom models: what models there are, and the keys of one. */
#include "cli/common/command.h"
#include "see/models.h"

typedef struct models_options {
    bool json;
} models_options;

static const hri_field fields[] = {
    {"json", "print one JSON object", offsetof(models_options, json), HRI_FIELD_BOOL,
     .value = NULL},
    {0},
};

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    static const char *const models[] = {"MODEL", ">PARAMETERS", "WHAT"};
    static const char *const keys[] = {"KEY", "DEFAULT", "WHAT"};
    const models_options *o = options;
    hr_error why = {0};
    hri_table t;
    hri_json json;
    int code;
    hri_table_init(&t, count ? keys : models, 3);
    hri_cli_json_start(&json);
    hr_status status = count ? hri_see_list_keys(arguments[0], &t, &json, &why)
                             : hri_see_list_models(&t, &json, &why);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", why.message[0] ? why.message : hr_status_text(status));
        hri_json_deinit(&json);
        code = hri_cli_exit_code_of_input(status);
    } else if (o->json) {
        code = hri_cli_json_end(cli, &json, HRI_EXIT_YES);
    } else {
        hri_json_deinit(&json);
        status = hri_table_print(&t, &cli->out, &cli->out_term, 0, 1);
        code = status == HR_OK ? HRI_EXIT_YES : hri_cli_failed(cli, NULL, "models", status);
        hri_say_next(cli, count ? "headroom summary MODEL:key=value" : "headroom models NAME");
    }
    hri_table_deinit(&t);
    return code;
}

const hri_command hri_command_models = {
    .name = "models",
    .summary = "list the models that come with Headroom",
    .arguments = "[NAME]",
    .choices = "",
    .arguments_max = 1,
    .help = "Lists the models by name, with their number of parameters at default settings. With "
            "NAME, lists the keys of that model, to be set as NAME:key=value,key=value.",
    .examples = {{"headroom models", "all models"},
                 {"headroom models resnet50", "the keys of one"}},
    .fields = fields,
    .options_bytes = sizeof(models_options),
    .run = run,
};
