/* Models and their keys as rows; see models.h. */
#include "see/models.h"

#include "see/summary.h"

hr_status hri_see_list_models(hri_table *t, hri_json *json, hr_error *why) {
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

hr_status hri_see_list_keys(const char *name, hri_table *t, hri_json *json, hr_error *why) {
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
