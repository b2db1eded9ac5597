/* csv:FILE[,FILE...]  records of comma-separated values (RFC 4180), a record an element, a column a field.
 *
 * With x= the columns are a table (data/tabular.h): an element has the fields x, f32, y (a class, or f32) and name (the key).
 * What the columns are is then learnt from all records in two passes, or given by the table that the pipeline has.
 *
 * With text= one column is a text, and the field tokens (text/samples.h) stands for x; with image= it is the path of an image, and
 * the field image (the file as it is) does.
 *
 * Otherwise types are settled when the pipeline is opened: those that `types` gives, and the others from the first 1000 records:
 * i64 where all are whole numbers, f32 where all are numbers, else text (u8[n]).  An empty number is 0 or NaN.  A
 * record that does not fit its column's type, or has another number of values, is a bad element. */
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/prose.h"
#include "data/formats/cells.h"
#include "data/formats/pictures.h"
#include "data/formats/record_stream.h"
#include "data/formats/tablefile.h"
#include "data/formats/typed.h"
#include "data/read.h"
#include "data/text/samples.h"

static const char *const tasks[] = {"auto", "classes", "numbers", NULL};
static const char *const rules[] = {"mean", "error", NULL};

typedef struct options {
    hri_list path, types;
    const char *x, *text, *image, *folder, *y, *key, *weight, *categories, *ids;
    hri_text_samples_options samples;
    int task, missing;
    bool header, index;
    const char *separator;
    uint64_t max_bytes;
} options;

static const hri_field fields[] = {
    {"path", "files", offsetof(options, path), HRI_FIELD_LIST, .metavar = "FILE"},
    {"header", "the first record of each file has the column names", offsetof(options, header),
     HRI_FIELD_BOOL, "on"},
    {"separator", "separator character, or \"tab\"", offsetof(options, separator), HRI_FIELD_STRING,
     ","},
    {"types", "column types, NAME:i64,NAME:f32,NAME:text; others are inferred",
     offsetof(options, types), HRI_FIELD_LIST},
    {"x", "a table: columns that go into the model, NAME+NAME, or *: all but y, key and weight",
     offsetof(options, x), HRI_FIELD_STRING, NULL, .metavar = "NAMES"},
    {"text", "a table: the column with a text that goes into the model", offsetof(options, text),
     HRI_FIELD_STRING, NULL, .metavar = "NAME"},
    {"image", "a table: the column with the paths of images that go into the model",
     offsetof(options, image), HRI_FIELD_STRING, NULL, .metavar = "NAME"},
    {"folder", "where paths of images begin; default: the folder of the file",
     offsetof(options, folder), HRI_FIELD_STRING, NULL, .metavar = "DIR"},
    HRI_TEXT_SAMPLES_FIELDS(options, samples),
    {"y",
     "columns to learn; text, and few different integers, are classes, several of 0 and 1 labels",
     offsetof(options, y), HRI_FIELD_STRING, NULL, .metavar = "NAMES"},
    {"key", "column that names a row in predictions", offsetof(options, key), HRI_FIELD_STRING,
     NULL, .metavar = "NAME"},
    {"weight", "column that says how much a row counts in the loss", offsetof(options, weight),
     HRI_FIELD_STRING, NULL, .metavar = "NAME"},
    {"categories", "columns of x that are categories although they are numbers",
     offsetof(options, categories), HRI_FIELD_STRING, NULL, .metavar = "NAMES"},
    {"ids", "categories of x as one number each instead of an input for each value",
     offsetof(options, ids), HRI_FIELD_STRING, NULL, .metavar = "NAMES"},
    {"task", "whether y is classes or numbers", offsetof(options, task), HRI_FIELD_ENUM, "auto",
     .choices = tasks},
    {"missing", "missing numbers of x: the mean of the training samples, or an error",
     offsetof(options, missing), HRI_FIELD_ENUM, "mean", .choices = rules},
    {"max_bytes", "longest record to plan for", offsetof(options, max_bytes), HRI_FIELD_BYTES,
     "64KiB"},
    {"index", "index all records first, for a full shuffle (16 bytes each)",
     offsetof(options, index), HRI_FIELD_BOOL, "off"},
    {0}};

typedef struct own {
    hri_record_stream stream;
    char separator;
    bool is_table;
    hri_typed typed; /* where it is no table */
    hri_tablefile table;
    hri_text_samples samples; /* of a table of texts */
    hri_pictures pictures;    /* of a table of images */
} own;

static hr_status read_record(const own *w, hri_cursor from, uint64_t length, char *to,
                             hri_prose *why) {
    const hri_file *f = &w->stream.records.files.files[from.file];
    return hri_filelist_read(f, from.offset, to, length, why);
}

static hr_status look(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    hri_buffer *memory;
    hr_status status =
        hri_buffer_create(hri_pipeline_pool(s->pipeline), s->account, o->max_bytes, &memory);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "no room in the budget for a record of %llu bytes",
                             (unsigned long long)o->max_bytes);
    }
    const hri_typed_ask ask = {.records = &w->stream.records,
                               .types = &o->types,
                               .header = o->header,
                               .max_bytes = o->max_bytes};
    w->typed.separator = w->separator;
    status = hri_typed_learn(&w->typed, &ask, memory->data, why);
    hri_buffer_unref(memory);
    return status;
}

/* ---- a table ---- */

static hri_columns_ask ask_of(const hri_stage *s) {
    const options *o = s->options;
    const own *w = s->own;
    return (hri_columns_ask){.x = o->text    ? o->text
                                  : o->image ? o->image
                                             : o->x,
                             .whole = o->text    ? HRI_COLUMN_TEXT
                                      : o->image ? HRI_COLUMN_IMAGE
                                                 : 0,
                             .y = o->y,
                             .key = o->key,
                             .weight = o->weight,
                             .categories = o->categories,
                             .ids = o->ids,
                             .task = o->task,
                             .no_missing = o->missing == 1,
                             .file = w->stream.records.files.files[0].path};
}

/* What the user should know of columns that have holes. */
static void note_missing(hri_stage *s) {
    const own *w = s->own;
    const hri_tabular *t = w->table.columns.own;
    for (size_t i = 0; t && i < t->input_count + t->target_count; i++) {
        const bool target = i >= t->input_count;
        const hri_column *c = target ? &t->targets[i - t->input_count] : &t->inputs[i];
        if (c->kind == HRI_COLUMN_CLASSES && c->value_count == 1) {
            hri_pipeline_note(s->pipeline,
                              "%s: column \"%s\" has the same value in all rows, so there is "
                              "nothing to learn",
                              w->stream.records.files.files[0].path, c->name);
        }
        if (c->missing) {
            const char *are = c->missing == 1 ? "is" : "are";
            hri_pipeline_note(s->pipeline, "%s: %llu value%s of column \"%s\" %s missing and %s %s",
                              w->stream.records.files.files[0].path, (unsigned long long)c->missing,
                              hri_plural(c->missing), c->name, are, are,
                              target                         ? "ignored in loss and metrics"
                              : c->kind == HRI_COLUMN_NUMBER ? "taken as the mean"
                                                             : "taken as none of its values");
        }
    }
}

static hr_status put_table_fields(hri_stage *s) {
    const own *w = s->own;
    const hri_tabular *t = w->table.columns.table;
    const hr_meta x = {.type = HR_TYPE_F32, .shape = {.rank = 1, .dim = {(int64_t)t->width}}};
    hr_meta y = {.type = hri_tabular_has_classes(t) ? HR_TYPE_I64 : HR_TYPE_F32};
    const hr_meta name = {.type = HR_TYPE_U8, .shape = {.rank = 1, .dim = {-1}}};
    if (t->target_count > 1) {
        y.shape = (hr_shape){.rank = 1, .dim = {(int64_t)t->target_count}};
    }
    hr_status status = hri_tabular_has_numbers(t) ? hri_spec_put(&s->spec, "x", x)
                       : hri_tabular_is_image(t)  ? hri_spec_put(&s->spec, "image", name)
                                                  : HR_OK;
    status =
        status == HR_OK && w->table.columns.has_targets ? hri_spec_put(&s->spec, "y", y) : status;
    if (status == HR_OK && w->table.columns.has_weight) {
        status = hri_spec_put(&s->spec, HRI_WEIGHT_FIELD, (hr_meta){.type = HR_TYPE_F32});
    }
    return status == HR_OK && (w->table.columns.has_key || hri_tabular_is_image(t))
               ? hri_spec_put(&s->spec, "name", name)
               : status;
}

/* Where the images are: a look at every row. */
static hr_status open_pictures(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    hri_buffer *memory = NULL;
    hr_status status =
        hri_buffer_create(hri_pipeline_pool(s->pipeline), s->account, o->max_bytes, &memory);
    status = status == HR_OK ? hri_pictures_open(&w->pictures, s, o->folder,
                                                 w->stream.records.files.files[0].path, why)
                             : status;
    for (uint64_t i = 0; status == HR_OK && i < w->stream.index.count; i++) {
        hri_item item;
        hri_columns_row_out row = {0};
        hri_index_get(&w->stream.index, i, &item);
        const uint64_t length = hri_packed_length(item.b);
        const hri_file *f = &w->stream.records.files.files[hri_packed_file(item.b)];
        if (length > o->max_bytes) {
            continue; /* a bad element */
        }
        status = hri_filelist_read(f, item.a, memory->data, length, why);
        if (status == HR_OK &&
            hri_columns_cell(&w->table.columns, memory->data, length, w->separator, &row)) {
            status = hri_pictures_look(&w->pictures, i, w->stream.index.count, row.text,
                                       row.text_bytes, why);
        }
    }
    hri_buffer_unref(memory);
    return status;
}

static hr_status open_table(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    hri_buffer *memory;
    if (!o->header) {
        return hri_prose_set(why, HR_E_INVALID,
                             "x=, text= and image= name columns, so the file needs a header");
    }
    hr_status status =
        hri_buffer_create(hri_pipeline_pool(s->pipeline), s->account, o->max_bytes, &memory);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "no room in the budget for a record of %llu bytes",
                             (unsigned long long)o->max_bytes);
    }
    const hri_columns_ask ask = ask_of(s);
    w->table.records = &w->stream.records;
    w->table.separator = w->separator;
    w->table.max_bytes = o->max_bytes;
    status =
        hri_tablefile_learn(&w->table, &ask, hri_pipeline_table(s->pipeline), memory->data, why);
    hri_buffer_unref(memory);
    const int is_text = status == HR_OK && hri_tabular_is_text(w->table.columns.table);
    status = is_text ? hri_text_samples_open(&w->samples, s, &o->samples, why) : status;
    if (status == HR_OK) {
        note_missing(s);
        status = put_table_fields(s);
    }
    if (status != HR_OK) {
        return status;
    }
    const uint64_t numbers = w->table.columns.table->width + w->table.columns.table->target_count +
                             2 + (is_text ? (uint64_t)o->samples.length : 0);
    if (w->table.columns.has_weight) {
        hri_pipeline_note(s->pipeline, "%s: the loss is weighted by column \"%s\"",
                          w->stream.records.files.files[0].path, o->weight);
    }
    s->spec.item_bytes =
        hri_bytes_add(hri_pool_round(numbers * 4), hri_pool_round(o->max_bytes) + 320);
    s->spec.load_bytes = hri_bytes_add(s->spec.item_bytes, hri_pool_round(o->max_bytes + 1));
    if (is_text) {
        s->spec.load_bytes = hri_bytes_add(s->spec.load_bytes, hri_text_samples_work(&w->samples));
    }
    status = hri_index_fill(&w->stream.index, s, why);
    if (status == HR_OK && hri_tabular_is_image(w->table.columns.table)) {
        status = open_pictures(s, why);
        s->spec.item_bytes =
            hri_bytes_add(s->spec.item_bytes, hri_pool_round(w->pictures.largest_file + 1) + 64);
        s->spec.load_bytes =
            hri_bytes_add(s->spec.load_bytes, hri_pool_round(w->pictures.largest_file + 1) + 64);
    }
    return status;
}

/* The tokens of a row's text. */
static hr_status load_text(own *w, const hri_columns_row_out *row, hr_emit *emit) {
    row->text[row->text_bytes] = '\0'; /* its separator, or what lies behind the record */
    return hri_text_samples_emit(&w->samples, row->text, row->text_bytes, emit);
}

static hr_status load_table(own *w, char *record, uint64_t length, hr_emit *emit) {
    const hri_tabular *t = w->table.columns.table;
    const hr_meta x = {.type = HR_TYPE_F32, .shape = {.rank = 1, .dim = {(int64_t)t->width}}};
    hr_meta y = {.type = hri_tabular_has_classes(t) ? HR_TYPE_I64 : HR_TYPE_F32};
    hri_columns_row_out out = {0};
    hri_prose why = {""};
    void *data, *label = NULL;
    if (t->target_count > 1) {
        y.shape = (hr_shape){.rank = 1, .dim = {(int64_t)t->target_count}};
    }
    const int numbers = hri_tabular_has_numbers(t);
    hr_status status = numbers ? hr_emit_field(emit, "x", &x, &data) : HR_OK;
    out.x = numbers ? data : NULL;
    if (status == HR_OK && w->table.columns.has_targets) {
        status = hr_emit_field(emit, "y", &y, &label);
        out.y = label;
    }
    if (status != HR_OK) {
        return status;
    }
    status = hri_columns_row(&w->table.columns, record, length, w->separator, &out, &why);
    if (status != HR_OK) {
        return hri_emit_fail(emit, status, "%s", why.text);
    }
    if (label && hri_tabular_has_classes(t)) {
        *(int64_t *)label = out.class_id;
    }
    if (w->table.columns.has_weight) {
        const hr_meta one = {.type = HR_TYPE_F32};
        status = hr_emit_field(emit, HRI_WEIGHT_FIELD, &one, &data);
        if (status != HR_OK) {
            return status;
        }
        *(float *)data = out.weight;
    }
    status = hri_tabular_is_text(t) ? load_text(w, &out, emit)
             : hri_tabular_is_image(t)
                 ? hri_pictures_emit(&w->pictures, out.text, out.text_bytes, emit)
                 : HR_OK;
    if (!w->table.columns.has_key && hri_tabular_is_image(t)) { /* an image is called by its path */
        out.key = out.text;
        out.key_bytes = out.text_bytes;
    }
    if (status == HR_OK && (w->table.columns.has_key || hri_tabular_is_image(t))) {
        const hr_meta name = {.type = HR_TYPE_U8,
                              .shape = {.rank = 1, .dim = {(int64_t)out.key_bytes}}};
        status = hr_emit_field(emit, "name", &name, &data);
        if (status == HR_OK && out.key_bytes) {
            memcpy(data, out.key, out.key_bytes);
        }
    }
    return status;
}

static const char *class_name(hri_stage *s, size_t index) {
    const own *w = s->own;
    const hri_tabular *t = w->table.columns.table;
    if (!w->is_table || !t) {
        return NULL;
    }
    if (hri_columns_has_flags(&w->table.columns)) {
        return index < t->target_count ? t->targets[index].name : NULL;
    }
    return hri_tabular_has_classes(t) && index < t->targets[0].value_count
               ? t->targets[0].values[index]
               : NULL;
}

/* Of several columns of y that are whole numbers. */
static hr_status labels(hri_stage *s, const char *field, hr_label_range *out) {
    const own *w = s->own;
    const hri_columns *c = &w->table.columns;
    if (!w->is_table || strcmp(field, "y") != 0 || !c->has_range) {
        return HR_E_NOT_FOUND;
    }
    *out = (hr_label_range){.size = out->size,
                            .min = c->least,
                            .max = c->most,
                            .count = c->cells,
                            .negative = c->missing};
    return HR_OK;
}

static hri_tabular *take_table(hri_stage *s) {
    own *w = s->own;
    hri_tabular *t = w->table.columns.own;
    w->table.columns.own = NULL;
    return t;
}

/* ---- opening ---- */

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    w->separator = strcmp(o->separator, "tab") == 0 ? '\t' : o->separator[0];
    if (w->separator == 0 || w->separator == '"' || w->separator == '\n') {
        return hri_prose_set(why, HR_E_INVALID,
                             "separator: must be one character other than a "
                             "quote");
    }
    hr_status status = hri_record_stream_open(s, &o->path, true, why);
    if (status != HR_OK) {
        return status;
    }
    if ((o->x != NULL) + (o->text != NULL) + (o->image != NULL) > 1) {
        return hri_prose_set(why, HR_E_INVALID, "%s and %s cannot be combined", o->x ? "x" : "text",
                             o->x && o->text ? "text" : "image");
    }
    w->is_table = o->x || o->text || o->image || hri_pipeline_table(s->pipeline);
    if (w->is_table) {
        return open_table(s, why);
    }
    if (o->y || o->key || o->weight || o->categories || o->ids) {
        return hri_prose_set(
            why, HR_E_INVALID,
            "y, key, weight, categories and ids need x=NAME+NAME, or x=*, text=NAME or image=NAME");
    }
    status = look(s, why);
    for (uint32_t i = 0; status == HR_OK && i < w->typed.count; i++) {
        const hri_typed_column *c = &w->typed.columns[i];
        hr_meta m = {.type = c->type};
        if (m.type == HR_TYPE_U8) {
            m.shape = (hr_shape){.rank = 1, .dim = {-1}};
        }
        if (hri_spec_find(&s->spec, c->name)) {
            return hri_prose_set(why, HR_E_EXISTS, "two columns are named \"%s\"", c->name);
        }
        status = hri_spec_put(&s->spec, c->name, m);
    }
    s->spec.item_bytes = hri_bytes_add(hri_pool_round(o->max_bytes), 64u * w->typed.count);
    s->spec.load_bytes = hri_bytes_add(s->spec.item_bytes, hri_pool_round(o->max_bytes + 1));
    s->random = false;
    return status == HR_OK && o->index ? hri_index_fill(&w->stream.index, s, why) : status;
}

static hr_status next(hri_stage *s, hri_item *out) {
    return hri_record_stream_next(s, false, ((const options *)s->options)->header, out);
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    own *w = s->own;
    const uint64_t length = hri_packed_length(item->b);
    hri_prose why = {{0}};
    hri_buffer *record;
    hr_status status = hri_memory_buffer(emit->memory, length + 1, &record);
    if (status != HR_OK) {
        return status;
    }
    const hri_cursor from = {hri_packed_file(item->b), item->a};
    status = read_record(w, from, length, record->data, &why);
    if (status != HR_OK) {
        hr_emit_explain(emit, why.text);
    }
    if (status == HR_OK) {
        status = w->is_table ? load_table(w, record->data, length, emit)
                             : hri_typed_emit(&w->typed, record->data, length, emit);
    }
    hri_buffer_unref(record);
    return status;
}

static void name_of(hri_stage *s, const hri_item *item, char *buf, size_t size) {
    const own *w = s->own;
    snprintf(buf, size, "%s, record %llu",
             w->stream.records.files.files[hri_packed_file(item->b)].path,
             (unsigned long long)item->index + 1);
}

static void fingerprint(hri_stage *s, hri_state *state) {
    const own *w = s->own;
    hri_record_stream_fingerprint(s, state);
    if (w->samples.open) {
        hri_text_samples_fingerprint(&w->samples, state);
    }
    if (w->pictures.stage) {
        hri_pictures_fingerprint(&w->pictures, state);
    }
}

static int64_t newest(hri_stage *s, char *path, size_t size) {
    own *w = s->own;
    const int64_t own_time = hri_record_stream_newest(s, path, size);
    return w->pictures.stage && w->pictures.newest_s > own_time
               ? hri_pictures_newest(&w->pictures, path, size)
               : own_time;
}

static void close(hri_stage *s) {
    own *w = s->own;
    hri_tablefile_deinit(&w->table);
    hri_text_samples_close(&w->samples);
    hri_pictures_close(&w->pictures);
    hri_record_stream_close(s);
}

const hri_stage_type hri_stage_type_csv = {
    .name = "csv",
    .help = "comma-separated values: one field per column, or with x= a table to learn from",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .open = open,
    .close = close,
    .start = hri_record_stream_start,
    .next = next,
    .at = hri_record_stream_at,
    .load = load,
    .save = hri_record_stream_save,
    .restore = hri_record_stream_restore,
    .name_of = name_of,
    .class_name = class_name,
    .labels = labels,
    .take_table = take_table,
    .fingerprint = fingerprint,
    .newest = newest,
};
