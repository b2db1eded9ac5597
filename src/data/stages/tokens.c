/* tokens:FILE[,FILE...]  a file of token numbers (u16 or u32, little-endian), cut into windows: "tokens" i32[length] and
 * "targets" i32[length], the same one further on.  Windows begin every `stride` tokens (0: every `length`).  The
 * 1024-byte header of llm.c's files is recognised and skipped. */
#include <stdio.h>
#include <string.h>
#include "data/formats/filelist.h"
#include "data/read.h"

typedef struct options {
    hri_list path;
    int type;
    int64_t length, stride;
    uint64_t skip;
} options;

static const char *const types[] = {"u16", "u32", NULL};

static const hri_field fields[] = {
    {"path", "the files", offsetof(options, path), HRI_FIELD_LIST, .metavar = "FILE"},
    {"length", "tokens in an element", offsetof(options, length), HRI_FIELD_INT, "1024", .min = 1,
     .max = 1e8, .metavar = "N"},
    {"stride", "tokens from one element's start to the next; 0: length", offsetof(options, stride),
     HRI_FIELD_INT, "0", .min = 0, .max = 1e12},
    {"type", "of a token in the file", offsetof(options, type), HRI_FIELD_ENUM, "u16",
     .choices = types},
    {"skip", "bytes before the first token", offsetof(options, skip), HRI_FIELD_BYTES, "0"},
    {0}};

typedef struct own {
    hri_filelist files;
} own;

static const uint32_t llmc_magic = 20240520;

static size_t unit(const options *o) {
    return o->type == 0 ? 2 : 4;
}

static uint64_t head_bytes(const options *o, const hri_file *f) {
    uint32_t word;
    if (o->skip == 0 && f->bytes >= 1024 &&
        hri_read_at(f->fd, f->path, 0, &word, sizeof word, NULL) == HR_OK && word == llmc_magic) {
        return 1024;
    }
    return o->skip;
}

static uint64_t stride(const options *o) {
    return (uint64_t)(o->stride ? o->stride : o->length);
}

/* Windows in a file; each needs one token more than its length. */
static uint64_t windows(const options *o, const hri_file *f) {
    const uint64_t head = head_bytes(o, f);
    const uint64_t n = f->bytes > head ? (f->bytes - head) / unit(o) : 0;
    return n > (uint64_t)o->length ? (n - 1 - (uint64_t)o->length) / stride(o) + 1 : 0;
}

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    hr_status status = hri_filelist_open(&w->files, &o->path, why);
    if (status != HR_OK) {
        return status;
    }
    s->spec.count = 0;
    for (size_t i = 0; i < w->files.count; i++) {
        s->spec.count += windows(o, &w->files.files[i]);
    }
    if (s->spec.count == 0) {
        return hri_prose_set(why, HR_E_FORMAT, "the files have less than %lld tokens and one more",
                             (long long)o->length);
    }
    const hr_meta m = {.type = HR_TYPE_I32, .shape = {.rank = 1, .dim = {o->length}}};
    status = hri_spec_put(&s->spec, "tokens", m);
    if (status == HR_OK) {
        status = hri_spec_put(&s->spec, "targets", m);
    }
    if (status == HR_OK && !hri_spec_exact(&s->spec, &s->spec.item_bytes)) {
        status = HR_E_INTERNAL;
    }
    s->spec.load_bytes =
        hri_bytes_add(s->spec.item_bytes, hri_pool_round(((uint64_t)o->length + 1) * 4));
    return status;
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    *out = (hri_item){.source = s, .a = i, .epoch = s->epoch, .index = i};
    return HR_OK;
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const options *o = s->options;
    const own *w = s->own;
    size_t file = 0;
    uint64_t window = item->a;
    while (window >= windows(o, &w->files.files[file])) {
        window -= windows(o, &w->files.files[file++]);
    }
    const hri_file *f = &w->files.files[file];
    const uint64_t n = (uint64_t)o->length;
    const hr_meta m = {.type = HR_TYPE_I32, .shape = {.rank = 1, .dim = {o->length}}};
    hri_prose why = {{0}};
    void *tokens, *targets;
    hri_buffer *raw;
    hr_status status = hr_emit_field(emit, "tokens", &m, &tokens);
    if (status == HR_OK) {
        status = hr_emit_field(emit, "targets", &m, &targets);
    }
    if (status == HR_OK) {
        status = hri_memory_buffer(emit->memory, (n + 1) * unit(o), &raw);
    }
    if (status != HR_OK) {
        return status;
    }
    status = hri_read_at(f->fd, f->path, head_bytes(o, f) + window * stride(o) * unit(o), raw->data,
                         (n + 1) * unit(o), &why);
    if (status != HR_OK) {
        hr_emit_explain(emit, why.text);
    }
    for (uint64_t i = 0; status == HR_OK && i <= n; i++) {
        const int32_t token = o->type == 0 ? ((const uint16_t *)raw->data)[i]
                                           : (int32_t)((const uint32_t *)raw->data)[i];
        if (i < n) {
            ((int32_t *)tokens)[i] = token;
        }
        if (i > 0) {
            ((int32_t *)targets)[i - 1] = token;
        }
    }
    hri_buffer_unref(raw);
    return status;
}

static void fingerprint(hri_stage *s, hri_state *w) {
    hri_filelist_fingerprint(&((own *)s->own)->files, w);
}

static void close(hri_stage *s) {
    hri_filelist_close(&((own *)s->own)->files);
}

const hri_stage_type hri_stage_type_tokens = {
    .name = "tokens",
    .help = "files of token numbers, cut into windows",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .open = open,
    .close = close,
    .at = at,
    .load = load,
    .fingerprint = fingerprint,
};
