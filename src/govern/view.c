/* See view.h. */
#include "govern/view.h"

#include <stdlib.h>
#include <string.h>

#include <headroom/bytes.h>
#include "base/alloc.h"

enum { ROWS = 4096 };

static int rank(const hri_wire *w) {
    return w->flags & HRI_WIRE_ROW_DEVICE ? 0 : 1;
}

static uint64_t taken(const hri_wire *w) {
    if (w->flags & HRI_WIRE_ROW_DEVICE) {
        return w->total_bytes > w->free_bytes ? w->total_bytes - w->free_bytes : 0;
    }
    return w->flags & HRI_WIRE_ROW_JOB ? w->held_bytes : w->held_bytes + w->remainder_bytes;
}

static int same(const hri_wire *a, const hri_wire *b) {
    const uint32_t kinds = HRI_WIRE_ROW_DEVICE | HRI_WIRE_ROW_JOB | HRI_WIRE_ROW_PROCESS;
    return (a->flags & kinds) == (b->flags & kinds) && a->job == b->job &&
           (!(a->flags & HRI_WIRE_ROW_PROCESS) || a->pid == b->pid) &&
           memcmp(a->uuid, b->uuid, 16) == 0;
}

static void remember(hri_view_line *line, const hri_view_line *before) {
    if (before) {
        memcpy(line->past, before->past, sizeof line->past);
        line->past_count = before->past_count;
    }
    if (line->past_count == HRI_VIEW_PAST) {
        memmove(line->past, line->past + 1, sizeof line->past - sizeof *line->past);
        line->past_count--;
    }
    line->past[line->past_count++] = line->taken_bytes;
}

hr_status hri_view_put(hri_watch_view *v, const hri_wire *rows, size_t count) {
    hri_view_line *lines = hri_calloc(count ? count : 1, sizeof *lines);
    if (!lines) {
        return HR_E_NOMEM_HOST;
    }
    for (size_t i = 0; i < count; i++) {
        const hri_view_line *before = NULL;
        for (size_t k = 0; k < v->count && !before; k++) {
            before = same(&v->lines[k].row, &rows[i]) ? &v->lines[k] : NULL;
        }
        lines[i].row = rows[i];
        lines[i].taken_bytes = taken(&rows[i]);
        remember(&lines[i], before);
    }
    hri_free(v->lines);
    v->lines = lines;
    v->count = v->room = count;
    hri_view_sort(v);
    return HR_OK;
}

hr_status hri_view_look(hri_watch_view *v, hri_link *link, hri_prose *why) {
    size_t count = 0, room = 64;
    hri_wire *rows = hri_calloc(room, sizeof *rows);
    hr_status status = rows ? HR_OK : HR_E_NOMEM_HOST;
    while (status == HR_OK && count < ROWS) {
        if (count == room) {
            hri_wire *more = hri_realloc(rows, 2 * room * sizeof *rows);
            if (!more) {
                status = HR_E_NOMEM_HOST;
                break;
            }
            rows = more;
            room *= 2;
        }
        status = hri_link_row(link, (uint32_t)count, &rows[count]);
        count += status == HR_OK;
    }
    status = status == HR_E_EOF ? HR_OK : status;
    if (status == HR_OK) {
        status = hri_view_put(v, rows, count);
    } else if (status != HR_E_NOMEM_HOST) {
        status = hri_prose_set(why, HR_E_IO, "the broker has gone");
    }
    hri_free(rows);
    return status;
}

/* ---- order ---- */

static int by_number(uint64_t a, uint64_t b) {
    return a < b ? -1 : a > b;
}

static int compare_jobs(const hri_view_line *a, const hri_view_line *b, hri_view_order order) {
    const int waits_a = (a->row.flags & HRI_WIRE_WAITING) != 0;
    const int waits_b = (b->row.flags & HRI_WIRE_WAITING) != 0;
    switch (order) {
    case HRI_VIEW_BY_HELD:
        return by_number(b->taken_bytes, a->taken_bytes);
    case HRI_VIEW_BY_BUDGET:
        return by_number(b->row.limit_bytes, a->row.limit_bytes);
    case HRI_VIEW_BY_NAME:
        return strcmp(a->row.name, b->row.name);
    case HRI_VIEW_BY_WAIT:
        return waits_a != waits_b ? waits_b - waits_a : by_number(b->row.wait_ms, a->row.wait_ms);
    default:
        return 0;
    }
}

/* A process is ordered by its job's line, so that it stays behind it. */
static const hri_view_line *job_of(const hri_watch_view *v, const hri_view_line *line) {
    for (size_t i = 0; i < v->count && (line->row.flags & HRI_WIRE_ROW_PROCESS); i++) {
        if ((v->lines[i].row.flags & HRI_WIRE_ROW_JOB) && v->lines[i].row.job == line->row.job &&
            !memcmp(v->lines[i].row.uuid, line->row.uuid, 16)) {
            return &v->lines[i];
        }
    }
    return line;
}

static int compare(const hri_watch_view *v, const hri_view_line *a, const hri_view_line *b) {
    if (rank(&a->row) != rank(&b->row) || (a->row.flags & HRI_WIRE_ROW_DEVICE)) {
        return rank(&a->row) - rank(&b->row);
    }
    const hri_view_line *of_a = job_of(v, a), *of_b = job_of(v, b);
    int order = of_a == of_b ? 0 : compare_jobs(of_a, of_b, v->order);
    order = order ? order : by_number(a->row.job, b->row.job);
    order = order ? order : memcmp(a->row.uuid, b->row.uuid, 16);
    return order ? order
                 : (int)(b->row.flags & HRI_WIRE_ROW_JOB) - (int)(a->row.flags & HRI_WIRE_ROW_JOB);
}

/* By insertion into a list of its own: lines are few, and comparing looks at the others. */
void hri_view_sort(hri_watch_view *v) {
    hri_view_line *sorted = v->count ? hri_calloc(v->count, sizeof *sorted) : NULL;
    if (!sorted) {
        return; /* in the broker's order then */
    }
    for (size_t i = 0; i < v->count; i++) {
        size_t at = i;
        while (at > 0 && compare(v, &sorted[at - 1], &v->lines[i]) > 0) {
            sorted[at] = sorted[at - 1];
            at--;
        }
        sorted[at] = v->lines[i];
    }
    hri_free(v->lines);
    v->lines = sorted;
    v->room = v->count;
}

void hri_view_deinit(hri_watch_view *v) {
    hri_free(v->lines);
    *v = (hri_watch_view){0};
}

/* ---- words ---- */

const char *hri_view_order_name(hri_view_order order) {
    static const char *const names[] = {"job", "held", "budget", "name", "wait"};
    return order < HRI_VIEW_ORDERS ? names[order] : names[0];
}

const char *hri_view_state(const hri_wire *row) {
    return row->flags & HRI_WIRE_DRAINING  ? "exited, memory not yet released"
           : row->flags & HRI_WIRE_AWAY    ? "not seen since the broker restarted"
           : row->flags & HRI_WIRE_WAITING ? "waiting"
                                           : "running";
}

void hri_view_spark(const hri_view_line *line, uint64_t most, int width, int utf8, char *out) {
    static const char *const bars[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char plain[] = " .:-=+*#@";
    const int first = line->past_count > width ? line->past_count - width : 0;
    *out = '\0';
    for (int i = first; i < line->past_count; i++) {
        const uint64_t x = line->past[i];
        const double part = most ? (double)x / (double)most * 8 + 0.5 : 0;
        int level = part > 8 ? 8 : (int)part;
        level = x && !level ? 1 : level;
        if (utf8) {
            memcpy(out, bars[level], strlen(bars[level]) + 1);
            out += strlen(bars[level]);
        } else {
            *out++ = plain[level];
            *out = '\0';
        }
    }
}

static const char *const cause_names[HRI_CAUSES] = {"context", "modules", "graphs"};

uint64_t hri_view_other(uint64_t remainder_bytes, const uint64_t cause_bytes[HRI_CAUSES]) {
    uint64_t left = remainder_bytes;
    for (int i = 0; i < HRI_CAUSES; i++) {
        left -= cause_bytes[i] < left ? cause_bytes[i] : left;
    }
    return left;
}

void hri_view_causes(uint64_t remainder_bytes, const uint64_t cause_bytes[HRI_CAUSES],
                     hri_text *out) {
    const uint64_t other = hri_view_other(remainder_bytes, cause_bytes);
    char size[32];
    int count = 0;
    for (int i = 0; i <= HRI_CAUSES; i++) {
        const uint64_t bytes = i < HRI_CAUSES ? cause_bytes[i] : other;
        if (bytes) {
            hri_text_add(out, "%s%s %s", count++ ? ", " : "",
                         i < HRI_CAUSES ? cause_names[i] : "other",
                         hr_bytes_print(bytes, size, sizeof size));
        }
    }
}

void hri_view_causes_json(uint64_t remainder_bytes, const uint64_t cause_bytes[HRI_CAUSES],
                          hri_json *json) {
    hri_json_object(json, "measured");
    hri_json_u64(json, "context_bytes", cause_bytes[HRI_CAUSE_CONTEXT]);
    hri_json_u64(json, "modules_bytes", cause_bytes[HRI_CAUSE_MODULES]);
    hri_json_u64(json, "graphs_bytes", cause_bytes[HRI_CAUSE_GRAPHS]);
    hri_json_u64(json, "other_bytes", hri_view_other(remainder_bytes, cause_bytes));
    hri_json_end(json);
}
