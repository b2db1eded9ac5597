/* Recordings for other programs; see export.h. */
#include "see/export.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "records/events.h"
#include "see/lines.h"

/* ---- traces ---- */

/* One process of the trace. */
typedef struct lane {
    const hri_recording *r;
    const uint64_t *live;
    hri_see_lines *to;
    bool measured;
    int pid;
} lane;

/* Whole nanoseconds: a reader drops slices that overlap by less.  An op without a time is as long as its number says. */
static bool time_of(const lane *l, size_t i, double *begin, double *end) {
    const hri_see_op *op = &hri_recording_ops(l->r)[i];
    const bool timed = l->r->head.step_ns > 0;
    const double from = l->measured ? op->measured_begin_ns
                        : timed     ? op->begin_ns
                                    : 1e3 * (double)i;
    const double to = l->measured ? op->measured_end_ns : timed ? op->end_ns : from + 1e3;
    *begin = round(from);
    *end = round(to);
    return !l->measured || to > 0;
}

static void put_name(const lane *l, const char *kind, int tid, const char *name) {
    hri_see_lines_add(
        l->to, "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"%s\",\"args\":{\"name\":", l->pid,
        tid, kind);
    hri_see_lines_json(l->to, name);
    hri_see_lines_add(l->to, "}},\n");
}

static void put_slice(const lane *l, size_t i, double begin, double end) {
    static const char *const phases[] = {"forward", "backward", "update"};
    const hri_see_op *op = &hri_recording_ops(l->r)[i];
    hri_see_lines_add(
        l->to, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"name\":", l->pid,
        op->what == HRI_SEE_COPY_OUT || op->what == HRI_SEE_COPY_IN ? 2 : 1, begin / 1e3,
        end > begin ? (end - begin) / 1e3 : 0);
    hri_see_lines_json(l->to, hri_recording_get_text(l->r, op->name));
    hri_see_lines_add(l->to, ",\"cat\":");
    hri_see_lines_json(l->to, hri_recording_get_text(l->r, op->kind));
    hri_see_lines_add(l->to, ",\"args\":{\"op\":%zu,\"what\":\"%s\",\"phase\":\"%s\",\"layer\":", i,
                      op->again ? "recompute" : hri_see_what_name(op->what), phases[op->phase]);
    hri_see_lines_json(l->to, hri_recording_get_text(l->r, op->layer));
    hri_see_lines_add(l->to, ",\"flops\":%.17g,\"bytes\":%llu}},\n", op->flops,
                      (unsigned long long)op->bytes);
}

static void put_memory(const lane *l, size_t i, double at) {
    const uint64_t *live = l->live + i * HRI_SEE_CATEGORIES;
    hri_see_lines_add(l->to,
                      "{\"ph\":\"C\",\"pid\":%d,\"ts\":%.3f,\"name\":\"memory in use\",\"args\":{",
                      l->pid, at / 1e3);
    for (int c = 0; c < HRI_SEE_CATEGORIES; c++) {
        const uint64_t bytes = live[c] + (c == HRI_SEE_RUNTIME ? l->r->head.runtime_bytes : 0);
        hri_see_lines_add(l->to, "%s\"%s\":%llu", c ? "," : "", hri_see_category_name((uint32_t)c),
                          (unsigned long long)bytes);
    }
    hri_see_lines_add(l->to, "}},\n");
    const uint64_t held = hri_recording_ops(l->r)[i].held_bytes;
    if (l->measured && held) {
        hri_see_lines_add(l->to,
                          "{\"ph\":\"C\",\"pid\":%d,\"ts\":%.3f,\"name\":\"memory held\",\"args\":{"
                          "\"bytes\":%llu}},\n",
                          l->pid, at / 1e3, (unsigned long long)held);
    }
}

static void put_lane(const lane *l) {
    const size_t count = l->r->tables[HRI_SEE_OPS].count;
    put_name(l, "process_name", 0, l->measured ? "measured" : "planned");
    put_name(l, "thread_name", 1, "ops");
    put_name(l, "thread_name", 2, "copies");
    for (size_t i = 0; i < count && l->to->status == HR_OK; i++) {
        double begin, end;
        if (time_of(l, i, &begin, &end)) {
            put_slice(l, i, begin, end);
            put_memory(l, i, begin);
        }
    }
}

hr_status hri_see_export_trace(const hri_recording *r, const char *path, hri_prose *why) {
    hri_see_lines to;
    uint64_t *live;
    hr_status status = hri_recording_live(r, &live);
    if (status != HR_OK) {
        return status;
    }
    hri_see_lines_open(&to, path, why);
    hri_see_lines_add(&to, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"model\":");
    hri_see_lines_json(&to, r->head.model);
    hri_see_lines_add(&to, ",\"program\":");
    hri_see_lines_json(&to, r->head.program);
    hri_see_lines_add(&to, "},\n\"traceEvents\":[\n");
    const lane planned = {r, live, &to, false, 1}, measured = {r, live, &to, true, 2};
    put_lane(&planned);
    if (r->head.measured_peak_bytes || r->head.measured_step_ns > 0) {
        put_lane(&measured);
    }
    hri_see_lines_add(&to, "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_sort_index\",\"args\":{"
                           "\"sort_index\":0}}\n]}\n");
    hri_free(live);
    return hri_see_lines_close(&to);
}

/* ---- CSV ---- */

static void put_cell(const hri_recording *r, hri_see_lines *to, const hri_see_column *c,
                     const char *row) {
    const void *at = row + c->offset;
    switch (c->type) {
    case HRI_SEE_TEXT:
        hri_see_lines_csv(to, hri_recording_get_text(r, *(const uint32_t *)at));
        break;
    case HRI_SEE_F64:
        hri_see_lines_add(to, "%.17g", *(const double *)at);
        break;
    case HRI_SEE_U8:
        if (!strcmp(c->name, "category")) {
            hri_see_lines_add(to, "%s", hri_see_category_name(*(const uint8_t *)at));
        } else if (!strcmp(c->name, "what")) {
            hri_see_lines_add(to, "%s", hri_see_what_name(*(const uint8_t *)at));
        } else {
            hri_see_lines_add(to, "%u", *(const uint8_t *)at);
        }
        break;
    case HRI_SEE_U32:
        hri_see_lines_add(to, "%u", *(const uint32_t *)at);
        break;
    case HRI_SEE_U64:
        hri_see_lines_add(to, "%llu", (unsigned long long)*(const uint64_t *)at);
        break;
    }
}

static hr_status put_table(const hri_recording *r, int table, const char *path, hri_prose *why) {
    const hri_see_table_info *info = &hri_see_tables[table];
    hri_see_lines to;
    hri_see_lines_open(&to, path, why);
    for (size_t c = 0; c < info->column_count; c++) {
        hri_see_lines_add(&to, "%s%s", c ? "," : "", info->columns[c].name);
    }
    hri_see_lines_add(&to, "\r\n");
    for (size_t i = 0; i < r->tables[table].count && to.status == HR_OK; i++) {
        const char *row = (const char *)r->tables[table].items + i * info->row_bytes;
        for (size_t c = 0; c < info->column_count; c++) {
            hri_see_lines_add(&to, c ? "," : "");
            put_cell(r, &to, &info->columns[c], row);
        }
        hri_see_lines_add(&to, "\r\n");
    }
    return hri_see_lines_close(&to);
}

hr_status hri_see_export_csv(const hri_recording *r, const char *folder, hri_prose *why) {
    hr_status status = hri_path_make_folders(folder, why);
    for (int t = 0; t < HRI_SEE_TABLES && status == HR_OK; t++) {
        hri_text path = {0};
        hri_text_add(&path, "%s/%s.csv", folder, hri_see_tables[t].name);
        status = hri_text_status(&path);
        if (status == HR_OK) {
            status = put_table(r, t, hri_text_get(&path), why);
        }
        hri_text_deinit(&path);
    }
    return status;
}

/* ---- TensorBoard ---- */

static void put_steps(const hri_recording *r, hri_events *e) {
    const hri_see_step *s = hri_recording_steps(r);
    for (size_t i = 0; i < r->tables[HRI_SEE_STEPS].count; i++) {
        hri_events_scalar(e, "profile/step_ms", s[i].number, (s[i].end_ns - s[i].begin_ns) / 1e6);
        hri_events_scalar(e, "profile/loss", s[i].number, s[i].loss);
        if (s[i].held_bytes) {
            hri_events_scalar(e, "profile/held_bytes", s[i].number, (double)s[i].held_bytes);
        }
    }
}

static void put_ops(const hri_recording *r, const uint64_t *live, hri_events *e) {
    const hri_see_op *op = hri_recording_ops(r);
    for (size_t i = 0; i < r->tables[HRI_SEE_OPS].count; i++) {
        uint64_t sum = r->head.runtime_bytes;
        for (int c = 0; c < HRI_SEE_CATEGORIES; c++) {
            const uint64_t bytes = live[i * HRI_SEE_CATEGORIES + (size_t)c];
            char tag[64];
            snprintf(tag, sizeof tag, "memory/%s", hri_see_category_name((uint32_t)c));
            sum += bytes;
            if (c != HRI_SEE_RUNTIME) {
                hri_events_scalar(e, tag, i, (double)bytes);
            }
        }
        hri_events_scalar(e, "memory/in use", i, (double)sum);
        hri_events_scalar(e, "op/us", i, hri_see_op_ns(&op[i]) / 1e3);
    }
}

hr_status hri_see_export_tensorboard(const hri_recording *r, const char *folder, hri_prose *why) {
    hri_events e = {.sink = {.fd = -1}};
    uint64_t *live;
    hr_status status = hri_recording_live(r, &live);
    if (status != HR_OK) {
        return status;
    }
    status = hri_events_open(folder, 0, NULL, NULL, &e, why);
    if (status == HR_OK) {
        put_steps(r, &e);
        put_ops(r, live, &e);
        hri_events_flush(&e);
        status =
            e.sink.lost ? hri_prose_set(why, HR_E_IO, "%s: could not be written", folder) : HR_OK;
    }
    hri_events_close(&e);
    hri_free(live);
    return status;
}
