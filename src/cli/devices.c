/* headroom devices: what memory there is, and who has it.
 *
 * The one idea: total = free + ours + others, on every line.  "Ours" is what the outside sees of this process where
 * the device can tell (NVML, the resident set), else what the runtime took and what logical devices hold; "others" is
 * what is left.  The figures of a line are rounded so that they still add up; --json has the exact bytes. */
#include <stdio.h>
#include <string.h>
#include "cli/common/command.h"
#include "base/table.h"

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

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

static void add_json(hri_json *json, const hr_device_info *info) {
    hri_json_object(json, NULL);
    hri_json_string(json, "name", info->name);
    hri_json_bool(json, "usable", true);
    hri_json_string(json, "description", info->description);
    hri_json_string(json, "backend", info->backend);
    hri_json_u64(json, "total_bytes", info->total_bytes);
    hri_json_u64(json, "free_bytes", info->total_bytes - info->ours_bytes - info->others_bytes);
    hri_json_u64(json, "ours_bytes", info->ours_bytes);
    hri_json_u64(json, "others_bytes", info->others_bytes);
    if (info->is_open) {
        hri_json_u64(json, "runtime_bytes", info->runtime_bytes);
    } else {
        hri_json_null(json, "runtime_bytes");
    }
    hri_json_u64(json, "page_bytes", info->page_bytes);
    hri_json_u64(json, "limits_bytes", info->limits_bytes);
    hri_json_u64(json, "held_bytes", info->held_bytes);
    hri_json_u64(json, "logical_count", info->logical_count);
    if (info->is_gpu) {
        hri_json_u64(json, "compute_major", info->compute_major);
        hri_json_u64(json, "compute_minor", info->compute_minor);
    }
    hri_json_end(json);
}

/* A device that is there and cannot be used (a full GPU, say) is shown with the reason: that is what people look
 * for. */
static void add_unusable(hri_json *json, hri_table *table, const char *name, const char *why) {
    hri_json_object(json, NULL);
    hri_json_string(json, "name", name);
    hri_json_bool(json, "usable", false);
    hri_json_string(json, "error", why);
    hri_json_end(json);
    hri_table_cell(table, HRI_STYLE_BOLD, "%s", name);
    hri_table_cell(table, HRI_STYLE_BAD, "%.*s", (int)strcspn(why, "\n"), why);
    for (size_t i = 2; i < table->column_count; i++) {
        hri_table_cell(table, HRI_STYLE_PLAIN, "-");
    }
}

/* Hundredths of a GiB, or of a MiB on a device smaller than that. */
static uint64_t hundredths(uint64_t bytes, uint64_t unit) {
    return bytes / unit * 100 + (bytes % unit * 100 + unit / 2) / unit;
}

static void add_size(hri_table *table, uint64_t count, const char *unit) {
    hri_table_cell(table, HRI_STYLE_PLAIN, "%llu.%02llu %s", (unsigned long long)(count / 100),
                   (unsigned long long)(count % 100), unit);
}

static void add_row(hri_table *table, const hr_device_info *info) {
    const uint64_t unit = info->total_bytes >= GIB ? GIB : MIB;
    const char *unit_name = unit == GIB ? "GiB" : "MiB";
    const uint64_t total = hundredths(info->total_bytes, unit);
    const uint64_t ours = hundredths(info->ours_bytes, unit);
    uint64_t others = hundredths(info->others_bytes, unit);
    if (ours + others > total) { /* two roundings upwards on a full device */
        others = total - ours;
    }
    hri_table_cell(table, HRI_STYLE_BOLD, "%s", info->name);
    hri_table_cell(table, HRI_STYLE_PLAIN, "%s", info->description);
    add_size(table, total, unit_name);
    add_size(table, total - ours - others, unit_name);
    add_size(table, ours, unit_name);
    add_size(table, others, unit_name);
    char text[32];
    hri_table_cell(table, HRI_STYLE_PLAIN, "%s",
                   info->is_open ? hr_bytes_print(info->runtime_bytes, text, sizeof text)
                                 : "not open");
    hri_table_cell(table, HRI_STYLE_PLAIN, "%s",
                   info->limits_bytes ? hr_bytes_print(info->limits_bytes, text, sizeof text)
                                      : "none");
}

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
            add_json(json, &info);
            add_row(table, &info);
            continue;
        }
        hr_error error;
        hr_ctx_error(ctx, &error);
        counts->unusable++;
        add_unusable(json, table, hr_device_name(device),
                     error.code == status ? error.message : hr_status_text(status));
    }
    hri_json_end(json);
    return HRI_EXIT_YES;
}

static int print_table(hri_cli *cli, const hri_table *table, const device_counts *counts) {
    char unusable[48] = "";
    if (counts->unusable) {
        snprintf(unusable, sizeof unusable, ", %zu cannot be used", counts->unusable);
    }
    hri_say_title(cli, "%zu device%s, %zu GPU%s%s", counts->all, counts->all == 1 ? "" : "s",
                  counts->gpus, counts->gpus == 1 ? "" : "s", unusable);
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
    .help =
        "Prints one line per device, in the order in which Headroom uses them, or only those "
        "named. TOTAL is the device's memory (on the host, the memory of the machine or of its "
        "cgroup, whichever is less), FREE is what is available now, OURS is what the system "
        "reports for this process, OTHERS is what all other processes use. TOTAL is the sum of "
        "the three.\n\nRUNTIME is the memory used before any tensor exists (context, libraries). "
        "It is known once the device is open. Opening a GPU uses memory, so it is done only with "
        "--measure. LIMITS is the sum of the limits of this process's logical devices.\n\nA "
        "device that does not respond or cannot be opened is shown with the reason, and the exit "
        "code is 1.",
    .examples = {{"headroom devices", "a table"},
                 {"headroom devices --json", "the same for programs, in bytes"},
                 {"headroom devices cuda:0 --measure", "one device, with its runtime memory"},
                 {"headroom devices --null-device 24GiB", "with a hypothetical device"}},
    .fields = fields,
    .options_bytes = sizeof(devices_options),
    .run = run,
};
