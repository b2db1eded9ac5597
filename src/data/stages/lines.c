/* lines:FILE[,FILE...]  text files, a line an element: "text" (u8[n], without the line end).  Names may be patterns.
 * Empty lines are elements too, unless empty=off.
 *
 * A stream of tickets: finding line ends and reading lines are apart, so a shuffle holds places and no text.  With
 * index=on the places are all found at the start, and a shuffle is a full one. */
#include <stdio.h>
#include <string.h>
#include "data/formats/index.h"
#include "data/formats/records.h"
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

typedef struct own {
    hri_records records;
    hri_index index;
    hri_cursor at;
} own;

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    hr_status status = hri_filelist_open(&w->records.files, &o->path, why);
    if (status != HR_OK) {
        return status;
    }
    w->records.chunk_file = SIZE_MAX;
    status = hri_buffer_create(hri_pipeline_pool(s->pipeline), s->account, HRI_RECORDS_CHUNK,
                               &w->records.memory);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "no room in the budget for a buffer of %d bytes",
                             HRI_RECORDS_CHUNK);
    }
    s->spec.item_bytes = s->spec.load_bytes = hri_pool_round(o->max_bytes);
    s->random = false;
    status = o->index ? hri_index_fill(&w->index, s, why) : HR_OK;
    return status != HR_OK
               ? status
               : hri_spec_put(&s->spec, "text",
                              (hr_meta){.type = HR_TYPE_U8, .shape = {.rank = 1, .dim = {-1}}});
}

static hr_status start(hri_stage *s, uint64_t epoch) {
    (void)epoch;
    ((own *)s->own)->at = (hri_cursor){0};
    return HR_OK;
}

/* place counts lines, for the random identity. */
static hr_status next(hri_stage *s, hri_item *out) {
    own *w = s->own;
    const bool empty = ((const options *)s->options)->empty;
    hri_cursor from;
    uint64_t length = 0;
    hr_status status;
    do {
        hri_prose why = {{0}};
        status = hri_records_next(&w->records, &w->at, &from, &length, &why);
        if (status == HR_E_EOF) {
            return status;
        }
        if (status != HR_OK) {
            const hri_item item = {.index = s->place};
            w->at = (hri_cursor){.file = w->at.file + 1}; /* the rest of this file is lost */
            status = hri_pipeline_bad_item(s->pipeline, status, s, &item, why.text);
            if (status != HR_E_AGAIN) {
                return status;
            }
        }
    } while (status == HR_E_AGAIN || (length == 0 && !empty));
    *out = (hri_item){.source = s,
                      .a = from.offset,
                      .b = hri_packed_of(from.file, length),
                      .epoch = s->epoch,
                      .index = s->place++};
    return HR_OK;
}

/* With an index only. */
static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    *out = (hri_item){.source = s, .epoch = s->epoch, .index = i};
    hri_index_get(&((own *)s->own)->index, i, out);
    return HR_OK;
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const own *w = s->own;
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

static void save(hri_stage *s, hri_state *state) {
    const own *w = s->own;
    hri_state_put(state, w->at.file);
    hri_state_put(state, w->at.offset);
}

static hr_status restore(hri_stage *s, hri_state *r) {
    own *w = s->own;
    w->at.file = (size_t)hri_state_get(r);
    w->at.offset = hri_state_get(r);
    return hri_state_status(r);
}

static void name_of(hri_stage *s, const hri_item *item, char *buf, size_t size) {
    const own *w = s->own;
    snprintf(buf, size, "%s, line %llu", w->records.files.files[hri_packed_file(item->b)].path,
             (unsigned long long)item->index + 1);
}

static void fingerprint(hri_stage *s, hri_state *w) {
    hri_filelist_fingerprint(&((own *)s->own)->records.files, w);
}

static int64_t newest(hri_stage *s, char *path, size_t size) {
    return hri_filelist_newest(&((own *)s->own)->records.files, path, size);
}

static void close(hri_stage *s) {
    own *w = s->own;
    hri_index_deinit(&w->index);
    hri_buffer_unref(w->records.memory);
    hri_filelist_close(&w->records.files);
}

const hri_stage_type hri_stage_type_lines = {
    .name = "lines",
    .help = "text files, one element per line",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .open = open,
    .close = close,
    .start = start,
    .next = next,
    .at = at,
    .load = load,
    .save = save,
    .restore = restore,
    .name_of = name_of,
    .fingerprint = fingerprint,
    .newest = newest,
};
