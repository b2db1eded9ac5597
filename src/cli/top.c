/* headroom top: devices, jobs, who holds and who waits. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/table.h"
#include "govern/link.h"
#include "cli/common/command.h"

typedef struct top_options {
    bool once, json;
} top_options;

static const hri_field fields[] = {
    {"once", "print once and exit", offsetof(top_options, once), HRI_FIELD_BOOL, .value = NULL},
    {"json", "print one JSON object, sizes in bytes, and exit", offsetof(top_options, json),
     HRI_FIELD_BOOL, .value = NULL},
    {0},
};

enum { ROWS = 4096 };

static const char *state_of(const hri_wire *row) {
    return row->flags & HRI_WIRE_DRAINING  ? "exited, memory not yet released"
           : row->flags & HRI_WIRE_AWAY    ? "not seen since the broker restarted"
           : row->flags & HRI_WIRE_WAITING ? "waiting"
                                           : "running";
}

static void add_json(hri_json *json, const hri_wire *row) {
    char uuid[48];
    hri_link_uuid_text(row->uuid, uuid);
    hri_json_object(json, NULL);
    hri_json_string(json, "kind",
                    row->flags & HRI_WIRE_ROW_DEVICE ? "device"
                    : row->flags & HRI_WIRE_ROW_JOB  ? "job"
                                                     : "process");
    hri_json_string(json, "device", uuid);
    if (row->flags & HRI_WIRE_ROW_DEVICE) {
        hri_json_u64(json, "total_bytes", row->total_bytes);
        hri_json_u64(json, "free_bytes", row->free_bytes);
        hri_json_u64(json, "outside_bytes", row->outside_bytes);
        hri_json_bool(json, "processes_known", !(row->flags & HRI_WIRE_NO_PIDS));
    } else {
        hri_json_u64(json, "job", row->job);
        hri_json_string(json, "name", row->name);
        hri_json_string(json, "state", state_of(row));
        hri_json_i64(json, "pid", row->pid);
        hri_json_u64(json, "granted_bytes", row->granted_bytes);
        hri_json_u64(json, "held_bytes", row->held_bytes);
        if (row->flags & HRI_WIRE_ROW_JOB) {
            hri_json_u64(json, "budget_bytes", row->limit_bytes);
            hri_json_bool(json, "reserved", !(row->flags & HRI_WIRE_OVERCOMMIT));
            hri_json_bool(json, "own", (row->flags & HRI_WIRE_OWN) != 0);
        } else {
            hri_json_u64(json, "context_bytes", row->remainder_bytes);
        }
    }
    hri_json_end(json);
}

static void add_row(hri_table *devices, hri_table *jobs, const hri_wire *row) {
    char a[32], b[32], c[32];
    if (row->flags & HRI_WIRE_ROW_DEVICE) {
        char uuid[48];
        hri_link_uuid_text(row->uuid, uuid);
        hri_table_cell(devices, HRI_STYLE_BOLD, "%.12s", uuid);
        hri_table_cell(devices, HRI_STYLE_PLAIN, "%s",
                       hr_bytes_print(row->total_bytes, a, sizeof a));
        hri_table_cell(devices, HRI_STYLE_PLAIN, "%s",
                       hr_bytes_print(row->free_bytes, b, sizeof b));
        hri_table_cell(devices, HRI_STYLE_PLAIN, "%s",
                       hr_bytes_print(row->outside_bytes, c, sizeof c));
        return;
    }
    const int job = (row->flags & HRI_WIRE_ROW_JOB) != 0;
    const uint64_t held = job ? row->held_bytes : row->held_bytes + row->remainder_bytes;
    hri_table_cell(jobs, job ? HRI_STYLE_BOLD : HRI_STYLE_PLAIN, "%s%llu", job ? "" : "  ",
                   (unsigned long long)row->job);
    hri_table_cell(jobs, HRI_STYLE_PLAIN, "%s", row->name);
    hri_table_cell(jobs, HRI_STYLE_PLAIN, "%d", (int)row->pid);
    hri_table_cell(jobs, HRI_STYLE_PLAIN, "%s", hr_bytes_print(held, a, sizeof a));
    hri_table_cell(jobs, HRI_STYLE_PLAIN, "%s", hr_bytes_print(row->granted_bytes, b, sizeof b));
    hri_table_cell(jobs, HRI_STYLE_PLAIN, "%s",
                   job ? hr_bytes_print(row->limit_bytes, c, sizeof c) : "");
    hri_table_cell(jobs, HRI_STYLE_PLAIN, "%s", state_of(row));
}

/* One look.  HR_E_EOF is the end of the list. */
static hr_status look(hri_cli *cli, hri_link *link, hri_json *json) {
    static const char *const device_heads[] = {"device", ">total", ">free", ">held by others"};
    static const char *const job_heads[] = {"job",     "program", ">pid", ">holds",
                                            ">leased", ">budget", "state"};
    hri_table devices, jobs;
    hri_wire row;
    hr_status status = HR_OK;
    int any = 0;
    hri_table_init(&devices, device_heads, 4);
    hri_table_init(&jobs, job_heads, 7);
    for (uint32_t r = 0; r < ROWS && status == HR_OK; r++) {
        status = hri_link_row(link, r, &row);
        if (status == HR_OK && json) {
            add_json(json, &row);
        } else if (status == HR_OK) {
            any |= !(row.flags & HRI_WIRE_ROW_DEVICE);
            add_row(&devices, &jobs, &row);
        }
    }
    status = status == HR_E_EOF ? HR_OK : status;
    if (status == HR_OK && !json) {
        status = hri_table_print(&devices, &cli->out, &cli->out_term, 0, 1);
        hri_out_text(&cli->out, "\n");
        if (status == HR_OK && any) {
            status = hri_table_print(&jobs, &cli->out, &cli->out_term, 0, 1);
        } else if (status == HR_OK) {
            hri_out_text(&cli->out, "no jobs\n");
        }
    }
    hri_table_deinit(&devices);
    hri_table_deinit(&jobs);
    return status;
}

/* Every second until 'q', a key press that ends the input, or a signal. */
static hr_status watch(hri_cli *cli, hri_link *link) {
    hr_status status = HR_OK;
    while (status == HR_OK) {
        hri_out_text(&cli->out, "\033[H\033[2J");
        status = look(cli, link, NULL);
        hri_out_text(&cli->out, "\nq and Enter: quit\n");
        hri_out_flush(&cli->out);
        struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};
        char key = 0;
        if (poll(&p, 1, 1000) > 0 && (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q')) {
            break;
        }
    }
    return status;
}

static int run(hri_cli *cli, const void *options, int count, const char *const *arguments) {
    (void)count;
    (void)arguments;
    const top_options *o = options;
    hri_link link;
    hri_prose why = {0};
    hr_status status = hri_link_open(&link, &why);
    if (status != HR_OK) {
        hri_say_error(cli, "%s", *why.text ? why.text : hr_status_text(status));
        return status == HR_E_UNSUPPORTED || status == HR_E_RANGE ? HRI_EXIT_USAGE : HRI_EXIT_FAULT;
    }
    int code = HRI_EXIT_YES;
    if (o->json) {
        hri_json json;
        hri_cli_json_start(&json);
        hri_json_array(&json, "rows");
        status = look(cli, &link, &json);
        hri_json_end(&json);
        code = hri_cli_json_end(cli, &json, status == HR_OK ? HRI_EXIT_YES : HRI_EXIT_FAULT);
    } else if (o->once || !isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO)) {
        status = look(cli, &link, NULL);
    } else {
        status = watch(cli, &link);
    }
    hri_link_close(&link);
    return status == HR_OK ? code : hri_cli_failed(cli, NULL, "asking the broker", status);
}

const hri_command hri_command_top = {
    .name = "top",
    .summary = "show who holds GPU memory and who waits for it",
    .arguments = "",
    .choices = "",
    .help = "Lists the GPUs, with their free memory and the memory held by programs that do not "
            "run under headroom run, and your jobs with their processes: how much each holds "
            "(context included), how much it may allocate without asking again, its budget, and "
            "whether it is running or waiting. On a terminal the display is updated every second.",
    .examples = {{"headroom top", "live"}, {"headroom top --once --json", "for scripts"}},
    .fields = fields,
    .options_bytes = sizeof(top_options),
    .run = run,
};
