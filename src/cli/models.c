/* headroom models: what models there are, and the keys of one. */
#include "base/table.h"
#include "cli/common/command.h"
#include "see/summary.h"

typedef struct models_options {
    bool json;
} models_options;

static const hri_field fields[] = {
    {"json", "print one JSON object", offsetof(models_options, json), HRI_FIELD_BOOL,
     .value = NULL},
    {0},
};

static hr_status list_models(hri_table *t, hri_json *json, hr_error *why) {
    hr_model_info info = {.size = sizeof info};
    hr_status status = HR_OK;
    hri_json_array(json, "models");
    for (size_t i = 0; status == HR_OK && hr_model_list(i, &info) == HR_OK; i++) {
        uint64_t count = 0;
        char buf[32];
        status = hri_see_count_parameters(info.name, &count, why);
        hri_table_cell(t, HRI_STYLE_PLAIN, "%s", info.name);
        hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hri_see_count((double)count, buf, sizeof buf));
        hri_table_cell(t, HRI_STYLE_PLAIN, "%s", info.help);
        hri_json_object(json, NULL);
        hri_json_string(json, "name", info.name);
        hri_json_string(json, "family", info.family);
        hri_json_u64(json, "parameters", count);
        hri_json_string(json, "help", info.help);
        hri_json_end(json);
    }
    hri_json_end(json);
    return status;
}

static hr_status list_keys(const char *name, hri_table *t, hri_json *json, hr_error *why) {
    hr_model_info info = {.size = sizeof info};
    hr_model_key key = {.size = sizeof key};
    const hr_status status = hr_model_find(name, &info, why);
    if (status != HR_OK) {
        return status;
    }
    hri_json_string(json, "model", info.name);
    hri_json_string(json, "help", info.help);
    hri_json_array(json, "keys");
    for (size_t i = 0; hr_model_keys(name, i, &key) == HR_OK; i++) {
        hri_table_cell(t, HRI_STYLE_PLAIN, "%s", key.name);
        hri_table_cell(t, HRI_STYLE_PLAIN, "%s", key.value);
        hri_table_cell(t, HRI_STYLE_PLAIN, "%s", key.help);
        hri_json_object(json, NULL);
        hri_json_string(json, "name", key.name);
        hri_json_string(json, "default", key.value);
        hri_json_string(json, "help", key.help);
        hri_json_end(json);
    }
    hri_json_end(json);
    return HR_OK;
}

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
    hr_status status =
        count ? list_keys(arguments[0], &t, &json, &why) : list_models(&t, &json, &why);
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
