/* headroom devices: what memory there is, and who has it.
 *
 * The one idea: total = free + ours + others, on every line.  "Ours" is what the outside sees of this process where
 * the device can tell (NVML, the resident set), else what the runtime took and what logical devices hold; "others" is
 * what is left.  The figures of a line are rounded so that they still add up; --json has the exact bytes. */
#include <stdio.h>
#include <string.h>
#include "base/prose.h"
#include "cli/common/command.h"
#include "show/devices.h"
#include "show/help_texts.h"

typedef struct devices_options {
    bool json, measure;
} devices_options;

static const hri_field fields[] = {
    {"json", "print one JSON object, sizes in bytes", offsetof(devices_options, json),
     HRI_FIELD_BOOL, .value = NULL},
    {"measure", "open each device and measure its runtime memory",
     offsetof(devices_options, measure), HRI_FIELD_BOOL, .value = NULL},
    {0},
};

typedef struct device_counts {
    size_t all, gpus, unusable;
} device_counts;

/* Device i of those named, or of all when none is. */
static int find(hri_cli *cli, hr_ctx *ctx, int count, const char *const *names, size_t i,
                hr_device **out) {
    if (!count) {
        *out = hr_device_at(ctx, i);
        return HRI_EXIT_YES;
    }
    const hr_status status = hr_device_find(ctx, names[i], out);
    return status == HR_OK ? HRI_EXIT_YES : hri_cli_failed(cli, ctx, names[i], status);
}

/* Both forms are filled from one reading of the devices, and the one that is not wanted is thrown away. */
static int gather(hri_cli *cli, hr_ctx *ctx, int count, const char *const *names, int measure,
                  hri_json *json, hri_table *table, device_counts *counts) {
    *counts = (device_counts){.all = count ? (size_t)count : hr_device_count(ctx)};
    hri_json_array(json, "devices");
    for (size_t i = 0; i < counts->all; i++) {
        hr_device *device = NULL;
        hr_device_info info = {.size = sizeof info};
        const int code = find(cli, ctx, count, names, i, &device);
        if (code != HRI_EXIT_YES) {
            return code;
        }
        hr_status status = hr_device_get_info(device, &info);
        counts->gpus += status != HR_OK || info.is_gpu; /* no other device fails to respond */
        if (status == HR_OK && (measure || !info.is_gpu) && !info.is_open) {
            status = hr_device_open(device); /* to open the others takes nothing worth asking for */
            info.size = sizeof info;
            status = status == HR_OK ? hr_device_get_info(device, &info) : status;
        }
        if (status == HR_OK) {
            hri_device_show(&info, json, table);
            continue;
        }
        hr_error error;
        hr_ctx_error(ctx, &error);
        counts->unusable++;
        hri_device_show_unusable(hr_device_name(device),
                                 error.code == status ? error.message : hr_status_text(status),
                                 json, table);
    }
    hri_json_end(json);
    return HRI_EXIT_YES;
}

static int print_table(hri_cli *cli, const hri_table *table, const device_counts *counts) {
    char unusable[48] = "";
    if (counts->unusable) {
        snprintf(unusable, sizeof unusable, ", %zu cannot be used", counts->unusable);
    }
    hri_say_title(cli, "%zu device%s, %zu GPU%s%s", counts->all, hri_plural(counts->all),
                  counts->gpus, hri_plural(counts->gpus), unusable);
    const hr_status status = hri_table_print(table, &cli->out, &cli->out_term, 0, 1);
    if (status != HR_OK) {
        return hri_cli_failed(cli, NULL, "devices", status);
    }
    hri_out_text(&cli->out, "total = free + ours + others\n");
    hri_say_next(cli, "headroom doctor");
    return counts->unusable ? HRI_EXIT_NO : HRI_EXIT_YES;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    static const char *const headings[] = {"DEVICE", "WHAT",    ">TOTAL",   ">FREE",
                                           ">OURS",  ">OTHERS", ">RUNTIME", ">LIMITS"};
    const devices_options *o = options;
    hr_ctx *ctx = NULL;
    int code = hri_cli_open(cli, &ctx);
    if (code != HRI_EXIT_YES) {
        return code;
    }
    hri_json json;
    hri_table table;
    device_counts counts;
    hri_cli_json_start(&json);
    hri_table_init(&table, headings, sizeof headings / sizeof headings[0]);
    code = gather(cli, ctx, count, arguments, o->measure, &json, &table, &counts);
    if (code == HRI_EXIT_YES && o->json) {
        if (counts.unusable) {
            hri_refuse(cli, "check_failed", "%zu of %zu devices cannot be used", counts.unusable,
                       counts.all);
        }
        code = hri_cli_json_end(cli, &json, counts.unusable ? HRI_EXIT_NO : HRI_EXIT_YES);
    } else {
        hri_json_deinit(&json);
        if (code == HRI_EXIT_YES) {
            code = print_table(cli, &table, &counts);
        }
    }
    hri_table_deinit(&table);
    hr_ctx_destroy(ctx);
    return code;
}

const hri_command hri_command_devices = {
    .name = "devices",
    .summary = "list devices with total, free and used memory",
    .arguments = "[DEVICE...]",
    .choices = "",
    .arguments_max = HRI_ARGUMENTS_MAX,
    .help = hri_help_devices,
    .examples = {{"headroom devices", "a table"},
                 {"headroom devices --json", "the same for programs, in bytes"},
                 {"headroom devices cuda:0 --measure", "one device, with its runtime memory"},
                 {"headroom devices --null-device 24GiB", "with a hypothetical device"}},
    .fields = fields,
    .options_bytes = sizeof(devices_options),
    .run = run,
};
