/* lines:FILE[,FILE...]  text files, a line an element: "text" (u8[n], without the line end).  Names may be patterns.
 * Empty lines are elements too, unless empty=off.
 *
 * A stream of tickets: finding line ends and reading lines are apart, so a shuffle holds places and no text.  With
 * index=on the places are all found at the start, and a shuffle is a full one. */
#include <stdio.h>
#include <string.h>
#include "data/formats/record_stream.h"
#include "data/read.h"

typedef struct options {
    hri_list path;
    bool empty, index;
    uint64_t max_bytes;
} options;

static const hri_field fields[] = {
    {"path", "files", offsetof(options, path), HRI_FIELD_LIST, .metavar = "FILE"},
    {"empty", "keep empty lines", offsetof(options, empty), HRI_FIELD_BOOL, "on"},
    {"max_bytes", "longest line to plan for", offsetof(options, max_bytes), HRI_FIELD_BYTES,
     "64KiB"},
    {"index", "index all records first, for a full shuffle (16 bytes each)",
     offsetof(options, index), HRI_FIELD_BOOL, "off"},
    {0}};

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    hr_status status = hri_record_stream_open(s, &o->path, false, why);
    if (status != HR_OK) {
        return status;
    }
    s->spec.item_bytes = s->spec.load_bytes = hri_pool_round(o->max_bytes);
    s->random = false;
    status = o->index ? hri_index_fill(&((hri_record_stream *)s->own)->index, s, why) : HR_OK;
    return status != HR_OK
               ? status
               : hri_spec_put(&s->spec, "text",
                              (hr_meta){.type = HR_TYPE_U8, .shape = {.rank = 1, .dim = {-1}}});
}

static hr_status next(hri_stage *s, hri_item *out) {
    return hri_record_stream_next(s, ((const options *)s->options)->empty, false, out);
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const hri_record_stream *w = s->own;
    const hri_file *f = &w->records.files.files[hri_packed_file(item->b)];
    const uint64_t length = hri_packed_length(item->b);
    const hr_meta m = {.type = HR_TYPE_U8, .shape = {.rank = 1, .dim = {(int64_t)length}}};
    hri_prose why = {{0}};
    void *data;
    hr_status status = hr_emit_field(emit, "text", &m, &data);
    if (status == HR_OK) {
        status = hri_filelist_read(f, item->a, data, length, &why);
        if (status != HR_OK) {
            hr_emit_explain(emit, why.text);
        }
    }
    return status;
}

static void name_of(hri_stage *s, const hri_item *item, char *buf, size_t size) {
    const hri_record_stream *w = s->own;
    snprintf(buf, size, "%s, line %llu", w->records.files.files[hri_packed_file(item->b)].path,
             (unsigned long long)item->index + 1);
}

const hri_stage_type hri_stage_type_lines = {
    .name = "lines",
    .help = "text files, one element per line",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(hri_record_stream),
    .open = open,
    .close = hri_record_stream_close,
    .start = hri_record_stream_start,
    .next = next,
    .at = hri_record_stream_at,
    .load = load,
    .save = hri_record_stream_save,
    .restore = hri_record_stream_restore,
    .name_of = name_of,
    .fingerprint = hri_record_stream_fingerprint,
    .newest = hri_record_stream_newest,
};
