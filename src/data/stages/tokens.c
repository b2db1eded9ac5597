/* tokens:FILE[,FILE...]  a file of token numbers (u16 or u32, little-endian), cut into windows: "tokens" i32[length]
 * and "targets" i32[length], the same one further on.  Windows begin every `stride` tokens (0: every `length`).  The
 * 1024-byte header of llm.c's files is recognised and skipped.
 *
 * With random=on there are as many windows, but each begins anywhere: window i of an epoch is a draw by (seed, epoch,
 * i), every start in all files as likely as any other.  No window reaches over the end of a file. */
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/random.h"
#include "data/formats/filelist.h"
#include "data/read.h"

typedef struct options {
    hri_list path;
    int type;
    int64_t length, stride;
    uint64_t skip;
    bool random;
    int64_t seed;
} options;

static const char *const types[] = {"u16", "u32", NULL};

static const hri_field fields[] = {
    {"path", "files", offsetof(options, path), HRI_FIELD_LIST, .metavar = "FILE"},
    {"length", "tokens per element", offsetof(options, length), HRI_FIELD_INT, "1024", .min = 1,
     .max = 1e8, .metavar = "N"},
    {"stride", "tokens between the starts of two elements; 0: length", offsetof(options, stride),
     HRI_FIELD_INT, "0", .min = 0, .max = 1e12},
    {"type", "type of a token in the file", offsetof(options, type), HRI_FIELD_ENUM, "u16",
     .choices = types},
    {"skip", "bytes to skip before the first token", offsetof(options, skip), HRI_FIELD_BYTES, "0"},
    {"random", "start windows at random positions", offsetof(options, random), HRI_FIELD_BOOL,
     "off"},
    {"seed", "random seed", offsetof(options, seed), HRI_FIELD_INT},
    {0}};

/* What is in one file. */
typedef struct part {
    uint64_t head;    /* bytes before the first token */
    uint64_t windows; /* at every stride */
    uint64_t starts;  /* places at which a window can begin */
} part;

typedef struct own {
    hri_filelist files;
    part *parts; /* of each file */
    uint64_t starts;
} own;

static const uint32_t llmc_magic = 20240520;

static size_t unit(const options *o) {
    return o->type == 0 ? 2 : 4;
}

static uint64_t stride(const options *o) {
    return (uint64_t)(o->stride ? o->stride : o->length);
}

static hr_status measure(const options *o, const hri_file *f, part *out, hri_prose *why) {
    part p = {.head = o->skip};
    if (o->skip == 0 && f->bytes >= 1024) {
        uint32_t word;
        const hr_status status = hri_filelist_read(f, 0, &word, sizeof word, why);
        if (status != HR_OK) {
            return status;
        }
        p.head = word == llmc_magic ? 1024 : 0;
    }
    const uint64_t n = f->bytes > p.head ? (f->bytes - p.head) / unit(o) : 0;
    /* A window needs one token more than its length. */
    p.starts = n > (uint64_t)o->length ? n - (uint64_t)o->length : 0;
    p.windows = p.starts ? (p.starts - 1) / stride(o) + 1 : 0;
    *out = p;
    return HR_OK;
}

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    hr_status status = hri_filelist_open(&w->files, &o->path, why);
    if (status != HR_OK) {
        return status;
    }
    w->parts = hri_calloc(w->files.count, sizeof *w->parts);
    if (!w->parts) {
        return HR_E_NOMEM_HOST;
    }
    s->spec.count = 0;
    for (size_t i = 0; i < w->files.count; i++) {
        status = measure(o, &w->files.files[i], &w->parts[i], why);
        if (status != HR_OK) {
            return status;
        }
        s->spec.count += w->parts[i].windows;
        w->starts += w->parts[i].starts;
    }
    if (s->spec.count == 0) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: fewer than %lld + 1 tokens",
                             w->files.files[0].path, (long long)o->length);
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

/* A ticket is a file and the token that its window begins with. */
static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    const options *o = s->options;
    const own *w = s->own;
    *out = (hri_item){.source = s, .epoch = s->epoch, .index = i};
    size_t file = 0;
    if (o->random) {
        hri_random r = hri_random_at(s->seed + (i >> 32) + (s->epoch >> 32) * 0x9e3779b97f4a7c15u,
                                     (uint32_t)s->epoch, HRI_RANDOM_NODE_AUGMENT, (uint32_t)i);
        uint64_t start = hri_random_below(&r, w->starts);
        while (start >= w->parts[file].starts) {
            start -= w->parts[file++].starts;
        }
        out->a = start;
    } else {
        while (i >= w->parts[file].windows) {
            i -= w->parts[file++].windows;
        }
        out->a = i * stride(o);
    }
    out->b = file;
    return HR_OK;
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const options *o = s->options;
    const own *w = s->own;
    const hri_file *f = &w->files.files[item->b];
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
    status = hri_filelist_read(f, w->parts[item->b].head + item->a * unit(o), raw->data,
                               (n + 1) * unit(o), &why);
    if (status != HR_OK) {
        hr_emit_explain(emit, why.text);
    }
    for (uint64_t i = 0; status == HR_OK && i <= n; i++) {
        const uint32_t number =
            o->type == 0 ? ((const uint16_t *)raw->data)[i] : ((const uint32_t *)raw->data)[i];
        if (number > INT32_MAX) {
            status = hri_emit_fail(emit, HR_E_FORMAT,
                                   "%s: token %llu is %u, which does not fit "
                                   "in an i32",
                                   f->path, (unsigned long long)(item->a + i), number);
            break;
        }
        const int32_t token = (int32_t)number;
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

static int64_t newest(hri_stage *s, char *path, size_t size) {
    return hri_filelist_newest(&((own *)s->own)->files, path, size);
}

static void close(hri_stage *s) {
    own *w = s->own;
    hri_free(w->parts);
    hri_filelist_close(&w->files);
}

const hri_stage_type hri_stage_type_tokens = {
    .name = "tokens",
    .help = "token files, read in windows",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .open = open,
    .close = close,
    .at = at,
    .load = load,
    .fingerprint = fingerprint,
    .newest = newest,
};
