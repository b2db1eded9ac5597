/* The list once, as text and as JSON; see top.h. */
#include "show/top.h"

#include <headroom/bytes.h>
#include "base/table.h"
#include "govern/holders.h"

static void device_json(const hri_wire *row, hri_json *json) {
    hri_json_u64(json, "index", row->row);
    hri_json_string(json, "name", row->name);
    hri_json_u64(json, "total_bytes", row->total_bytes);
    hri_json_u64(json, "free_bytes", row->free_bytes);
    hri_json_u64(json, "outside_bytes", row->outside_bytes);
    hri_json_bool(json, "processes_known", !(row->flags & HRI_WIRE_NO_PIDS));
}

static void holder_json(const hri_wire *row, hri_json *json) {
    hri_json_u64(json, "job", row->job);
    hri_json_string(json, "name", row->name);
    hri_json_string(json, "state", hri_view_state(row));
    hri_json_i64(json, "pid", row->pid);
    hri_json_u64(json, "granted_bytes", row->granted_bytes);
    hri_json_u64(json, "held_bytes", row->held_bytes);
    hri_json_u64(json, "spilled_bytes", row->spilled_bytes);
    hri_json_double(json, "seconds", (double)row->wait_ms / 1e3);
    if (row->flags & HRI_WIRE_ROW_JOB) {
        hri_json_u64(json, "budget_bytes", row->limit_bytes);
        hri_json_bool(json, "reserved", !(row->flags & HRI_WIRE_OVERCOMMIT));
        hri_json_bool(json, "own", (row->flags & HRI_WIRE_OWN) != 0);
    } else {
        hri_json_u64(json, "context_bytes", row->remainder_bytes);
        hri_view_causes_json(row->remainder_bytes, row->cause_bytes, json);
    }
}

void hri_top_json(const hri_watch_view *v, hri_json *json) {
    for (size_t i = 0; i < v->count; i++) {
        const hri_wire *row = &v->lines[i].row;
        char uuid[48];
        hri_link_uuid_text(row->uuid, uuid);
        hri_json_object(json, NULL);
        hri_json_string(json, "kind",
                        row->flags & HRI_WIRE_ROW_DEVICE ? "device"
                        : row->flags & HRI_WIRE_ROW_JOB  ? "job"
                                                         : "process");
        hri_json_string(json, "device", uuid);
        if (row->flags & HRI_WIRE_ROW_DEVICE) {
            device_json(row, json);
        } else {
            holder_json(row, json);
        }
        hri_json_end(json);
    }
}

static void add_device(hri_table *t, const hri_wire *row) {
    char text[48];
    hri_table_cell(t, HRI_STYLE_BOLD, "cuda:%u", row->row);
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", row->name);
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hr_bytes_print(row->total_bytes, text, sizeof text));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hr_bytes_print(row->free_bytes, text, sizeof text));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hr_bytes_print(row->outside_bytes, text, sizeof text));
}

static void add_holder(hri_table *t, const hri_view_line *line) {
    const hri_wire *row = &line->row;
    const int job = (row->flags & HRI_WIRE_ROW_JOB) != 0;
    char text[48], since[32];
    hri_table_cell(t, job ? HRI_STYLE_BOLD : HRI_STYLE_PLAIN, "%s%llu", job ? "" : "  ",
                   (unsigned long long)row->job);
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", row->name);
    hri_table_cell(t, HRI_STYLE_PLAIN, "%d", (int)row->pid);
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hr_bytes_print(line->taken_bytes, text, sizeof text));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hr_bytes_print(row->granted_bytes, text, sizeof text));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s",
                   job ? hr_bytes_print(row->limit_bytes, text, sizeof text) : "");
    const int waits = (row->flags & HRI_WIRE_WAITING) != 0;
    const int spills = row->spilled_bytes != 0;
    hri_text causes = {0};
    if (!job) {
        hri_view_causes(row->remainder_bytes, row->cause_bytes, &causes);
    }
    hri_table_cell(t, waits ? HRI_STYLE_WARN : HRI_STYLE_PLAIN, "%s%s%s%s%s%s%s",
                   hri_view_state(row), job || waits ? ", " : "",
                   job || waits ? hri_holders_time(row->wait_ms, since, sizeof since) : "",
                   spills ? ", spilled " : "",
                   spills ? hr_bytes_print(row->spilled_bytes, text, sizeof text) : "",
                   *hri_text_get(&causes) ? "; " : "", hri_text_get(&causes));
    hri_text_deinit(&causes);
}

hr_status hri_top_text(const hri_watch_view *v, hri_out *out, const hri_term *term) {
    static const char *const device_heads[] = {"device", "name", ">total", ">free",
                                               ">held by others"};
    static const char *const job_heads[] = {"job",     "program", ">pid", ">holds",
                                            ">leased", ">budget", "state"};
    hri_table devices, jobs;
    int any = 0;
    hri_table_init(&devices, device_heads, 5);
    hri_table_init(&jobs, job_heads, 7);
    for (size_t i = 0; i < v->count; i++) {
        if (v->lines[i].row.flags & HRI_WIRE_ROW_DEVICE) {
            add_device(&devices, &v->lines[i].row);
        } else {
            any = 1;
            add_holder(&jobs, &v->lines[i]);
        }
    }
    hr_status status = hri_table_print(&devices, out, term, 0, 1);
    hri_out_text(out, "\n");
    if (status == HR_OK && any) {
        status = hri_table_print(&jobs, out, term, 0, 1);
    } else if (status == HR_OK) {
        hri_out_text(out, "no jobs\n");
    }
    hri_table_deinit(&devices);
    hri_table_deinit(&jobs);
    return status;
}
