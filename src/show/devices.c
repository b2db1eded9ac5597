/* See devices.h.  The figures of a line are rounded so that they still add up; the object has the exact bytes. */
#include "show/devices.h"

#include <string.h>
#include <headroom/bytes.h>

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

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

void hri_device_show_unusable(const char *name, const char *why, hri_json *json, hri_table *table) {
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

void hri_device_show(const hr_device_info *info, hri_json *json, hri_table *table) {
    add_json(json, info);
    add_row(table, info);
}
