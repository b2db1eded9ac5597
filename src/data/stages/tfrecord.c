/* tfrecord:FILE[,FILE...]  TFRecord files.  Each record is a tf.train.Example whose features become fields
 * (formats/example.h); example=off gives the bytes as they are, as "record".  Names may be patterns.
 *
 * Opening reads the first record for the fields, and the lengths of the first 1000 for the size to plan for.  Lengths
 * carry a checksum of their own, so a damaged one is recognised before anything is asked for its sake; behind it the
 * rest of the file cannot be found any more.  A record whose data is damaged is one bad element.
 *
 * A stream of tickets; with index=on every record is found at the start (12 bytes of each are read), and a shuffle is
 * a full one. */
#include <stdio.h>
#include <string.h>
#include "base/crc32c.h"
#include "data/formats/example.h"
#include "data/formats/filelist.h"
#include "data/formats/index.h"
#include "data/pipeline.h"
#include "data/read.h"

enum { LOOK = 1000, HEAD = 12 };

typedef struct options {
    hri_list path;
    bool example, check, index;
    uint64_t max_bytes;
} options;

static const hri_field fields[] = {
    {"path", "files", offsetof(options, path), HRI_FIELD_LIST, .metavar = "FILE"},
    {"example", "records are tf.train.Example", offsetof(options, example), HRI_FIELD_BOOL, "on"},
    {"check", "verify the checksums of the data", offsetof(options, check), HRI_FIELD_BOOL, "on"},
    {"max_bytes", "longest record to plan for; 0: estimated from the first ones",
     offsetof(options, max_bytes), HRI_FIELD_BYTES, "0"},
    {"index", "index all records first, for a full shuffle (16 bytes each)",
     offsetof(options, index), HRI_FIELD_BOOL, "off"},
    {0}};

typedef struct own {
    hri_filelist files;
    size_t file;
    uint64_t offset;
    hri_index index;
} own;

static uint64_t number_at(const unsigned char *p, int bytes) {
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++) {
        x |= (uint64_t)p[i] << (8 * i);
    }
    return x;
}

/* The record at the cursor; HR_E_EOF behind the last. */
static hr_status find(own *w, size_t *file, uint64_t *offset, uint64_t *length, hri_prose *why) {
    while (w->file < w->files.count && w->offset >= w->files.files[w->file].bytes) {
        w->file++;
        w->offset = 0;
    }
    if (w->file >= w->files.count) {
        return HR_E_EOF;
    }
    const hri_file *f = &w->files.files[w->file];
    unsigned char head[HEAD];
    if (f->bytes - w->offset < HEAD + 4) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: truncated inside a record, at byte %llu",
                             f->path, (unsigned long long)w->offset);
    }
    const hr_status status = hri_filelist_read(f, w->offset, head, HEAD, why);
    if (status != HR_OK) {
        return status;
    }
    const uint64_t n = number_at(head, 8);
    if (hri_crc32c_masked(head, 8) != (uint32_t)number_at(head + 8, 4)) {
        return hri_prose_set(
            why, HR_E_FORMAT,
            "%s: the length of the record at byte %llu does not match its checksum", f->path,
            (unsigned long long)w->offset);
    }
    if (n > f->bytes - w->offset - HEAD - 4 || n >> HRI_LENGTH_BITS) {
        return hri_prose_set(
            why, HR_E_FORMAT,
            "%s: the record at byte %llu has a length of %llu bytes, more than the file has left",
            f->path, (unsigned long long)w->offset, (unsigned long long)n);
    }
    *file = w->file;
    *offset = w->offset + HEAD;
    *length = n;
    w->offset += HEAD + n + 4;
    return HR_OK;
}

/* place counts records, for the random identity. */
static hr_status next(hri_stage *s, hri_item *out) {
    own *w = s->own;
    for (;;) {
        hri_prose why = {{0}};
        size_t file = 0;
        uint64_t offset = 0, length = 0;
        const hr_status status = find(w, &file, &offset, &length, &why);
        if (status == HR_OK) {
            *out = (hri_item){.source = s,
                              .a = offset,
                              .b = hri_packed_of(file, length),
                              .epoch = s->epoch,
                              .index = s->place++};
            return HR_OK;
        }
        if (status == HR_E_EOF) {
            return status;
        }
        const hri_item item = {.index = s->place};
        w->file++; /* the rest of this file is lost */
        w->offset = 0;
        const hr_status told = hri_pipeline_bad_item(s->pipeline, status, s, &item, why.text);
        if (told != HR_E_AGAIN) {
            return told;
        }
    }
}

/* With an index only. */
static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    *out = (hri_item){.source = s, .epoch = s->epoch, .index = i};
    hri_index_get(&((own *)s->own)->index, i, out);
    return HR_OK;
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const options *o = s->options;
    const own *w = s->own;
    const hri_file *f = &w->files.files[hri_packed_file(item->b)];
    const uint64_t length = hri_packed_length(item->b);
    hri_prose why = {{0}};
    hri_buffer *raw;
    hr_status status = hri_memory_buffer(emit->memory, length + 4, &raw);
    if (status != HR_OK) {
        return status;
    }
    unsigned char *data = raw->data;
    status = hri_filelist_read(f, item->a, data, length + 4, &why);
    if (status != HR_OK) {
        hr_emit_explain(emit, why.text);
    } else if (o->check &&
               hri_crc32c_masked(data, length) != (uint32_t)number_at(data + length, 4)) {
        status =
            hri_emit_fail(emit, HR_E_FORMAT, "the data at byte %llu does not match its checksum",
                          (unsigned long long)item->a);
    } else if (o->example) {
        status = hri_example_emit(data, length, emit);
    } else {
        const hr_field field = {
            .name = "record",
            .meta = {.type = HR_TYPE_U8, .shape = {.rank = 1, .dim = {(int64_t)length}}},
            .bytes = length,
            .data = data};
        status = hri_emit_share(emit, &field, raw);
    }
    hri_buffer_unref(raw);
    return status;
}

/* The fields of a record, the first as a rule.  Byte strings vary in length; lists of numbers are taken to have one
 * length, as they must to be batched without padding. */
static hr_status learn_fields(hri_stage *s, const hri_item *item, hri_prose *why) {
    hri_memory memory = hri_stage_memory(s);
    hr_element *e;
    char reason[256] = "";
    hr_status status = hri_item_load(item, &memory, &e, reason, sizeof reason);
    if (status == HR_E_RANGE && !reason[0]) {
        return hri_prose_set(why, HR_E_LIMIT, "the first record is too large (%llu bytes)",
                             (unsigned long long)hri_packed_length(item->b));
    }
    if (status != HR_OK) {
        return hri_prose_set(why, status, "the first record: %s",
                             reason[0] ? reason : hr_status_text(status));
    }
    for (uint32_t i = 0; status == HR_OK && i < e->count; i++) {
        hr_meta m = e->parts[i].field.meta;
        if (m.type == HR_TYPE_U8) {
            m.shape.dim[0] = -1;
        }
        status = hri_spec_put(&s->spec, e->parts[i].field.name, m);
    }
    hr_element_unref(e);
    return status;
}

static hr_status start(hri_stage *s, uint64_t epoch) {
    (void)epoch;
    own *w = s->own;
    w->file = 0;
    w->offset = 0;
    return HR_OK;
}

/* Looks at the first records: the longest, and the fields of the first that can be read.  What is damaged is an error
 * only when it comes before that; the element it belongs to says so again in its turn. */
static hr_status look(hri_stage *s, uint64_t *longest, hri_prose *why) {
    own *w = s->own;
    const bool skip_bad = s->pipeline->options.skip_bad;
    bool learned = false;
    *longest = 0;
    for (int i = 0; i < LOOK; i++) {
        size_t file = 0;
        uint64_t offset = 0, length = 0;
        hr_status status = find(w, &file, &offset, &length, why);
        if (status == HR_E_EOF) {
            break;
        }
        if (status == HR_OK) {
            *longest = length > *longest ? length : *longest;
            if (!learned) {
                const hri_item item = {.source = s, .a = offset, .b = hri_packed_of(file, length)};
                status = learn_fields(s, &item, why);
                learned = status == HR_OK;
            }
        } else {
            w->file++;
            w->offset = 0;
        }
        if (status != HR_OK && !learned && (!skip_bad || status == HR_E_NOMEM_HOST)) {
            return status;
        }
    }
    return learned
               ? HR_OK
               : hri_prose_set(why, HR_E_FORMAT, "%s: no readable record", w->files.files[0].path);
}

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    hr_status status = hri_filelist_open(&w->files, &o->path, why);
    uint64_t longest;
    if (status == HR_OK) {
        status = look(s, &longest, why);
    }
    if (status != HR_OK) {
        return status;
    }
    longest = o->max_bytes ? o->max_bytes : 2 * longest;
    s->spec.item_bytes = hri_bytes_add(hri_pool_round(longest), 16 << 10);
    s->spec.load_bytes = hri_bytes_add(s->spec.item_bytes, hri_pool_round(longest + 4));
    s->random = false;
    return o->index ? hri_index_fill(&w->index, s, why) : start(s, 0);
}

static void save(hri_stage *s, hri_state *state) {
    const own *w = s->own;
    hri_state_put(state, w->file);
    hri_state_put(state, w->offset);
}

static hr_status restore(hri_stage *s, hri_state *r) {
    own *w = s->own;
    w->file = (size_t)hri_state_get(r);
    w->offset = hri_state_get(r);
    return hri_state_status(r);
}

static void name_of(hri_stage *s, const hri_item *item, char *buf, size_t size) {
    const own *w = s->own;
    const size_t file = hri_packed_file(item->b);
    snprintf(buf, size, "%s, record %llu", file < w->files.count ? w->files.files[file].path : "?",
             (unsigned long long)item->index + 1);
}

static void fingerprint(hri_stage *s, hri_state *w) {
    hri_filelist_fingerprint(&((own *)s->own)->files, w);
}

static int64_t newest(hri_stage *s, char *path, size_t size) {
    return hri_filelist_newest(&((own *)s->own)->files, path, size);
}

static void close(hri_stage *s) {
    hri_index_deinit(&((own *)s->own)->index);
    hri_filelist_close(&((own *)s->own)->files);
}

const hri_stage_type hri_stage_type_tfrecord = {
    .name = "tfrecord",
    .help = "TFRecord files of tf.train.Example",
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
