/* Cutting files of tokens into windows; see windows.h. */
#include "data/formats/windows.h"

#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "data/read.h"

static uint64_t stride(const hri_windows_options *o) {
    return (uint64_t)(o->stride ? o->stride : o->length);
}

static hr_status measure(const hri_stage *s, hri_windows_head_fn *head, const hri_file *f,
                         hri_windows_part *out, hri_prose *why) {
    const hri_windows_options *o = s->options;
    const hri_windows *w = s->own;
    hri_windows_part p = {0};
    const hr_status status = head ? head(o, f, &p.head, why) : HR_OK;
    if (status != HR_OK) {
        return status;
    }
    const uint64_t n = f->bytes > p.head ? (f->bytes - p.head) / w->unit : 0;
    /* A window needs one token more than its length. */
    p.starts = n > (uint64_t)o->length ? n - (uint64_t)o->length : 0;
    p.windows = p.starts ? (p.starts - 1) / stride(o) + 1 : 0;
    *out = p;
    return HR_OK;
}

hr_status hri_windows_open(hri_stage *s, unsigned unit, hri_windows_head_fn *head, const char *what,
                           const char *name, int32_t mask_token, hri_prose *why) {
    const hri_windows_options *o = s->options;
    hri_windows *w = s->own;
    hr_status status = HR_OK;
    w->unit = unit;
    w->mask_token = o->mask_token >= 0 ? (int32_t)o->mask_token : mask_token;
    if (o->mask > 0 && w->mask_token < 0) {
        return hri_prose_set(why, HR_E_INVALID,
                             "mask_token: missing; which token hides others is not known here");
    }
    w->parts = hri_calloc(w->files.count, sizeof *w->parts);
    if (!w->parts) {
        return HR_E_NOMEM_HOST;
    }
    s->spec.count = 0;
    for (size_t i = 0; i < w->files.count; i++) {
        status = measure(s, head, &w->files.files[i], &w->parts[i], why);
        if (status != HR_OK) {
            return status;
        }
        s->spec.count += w->parts[i].windows;
        w->starts += w->parts[i].starts;
    }
    if (s->spec.count == 0) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: fewer than %lld + 1 %s", name,
                             (long long)o->length, what);
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
hr_status hri_windows_at(hri_stage *s, uint64_t i, hri_item *out) {
    const hri_windows_options *o = s->options;
    const hri_windows *w = s->own;
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

static uint32_t token_at(const void *raw, unsigned unit, uint64_t i) {
    return unit == 1   ? ((const uint8_t *)raw)[i]
           : unit == 2 ? ((const uint16_t *)raw)[i]
                       : ((const uint32_t *)raw)[i];
}

static hr_status unpack(const hri_file *f, const hri_item *item, unsigned unit, const void *raw,
                        uint64_t n, int32_t *tokens, int32_t *targets, hr_emit *emit) {
    for (uint64_t i = 0; i <= n; i++) {
        const uint32_t number = token_at(raw, unit, i);
        if (number > INT32_MAX) {
            return hri_emit_fail(emit, HR_E_FORMAT,
                                 "%s: token %llu is %u, which does not fit "
                                 "in an i32",
                                 f->path, (unsigned long long)(item->a + i), number);
        }
        if (i < n) {
            tokens[i] = (int32_t)number;
        }
        if (i > 0) {
            targets[i - 1] = (int32_t)number;
        }
    }
    return HR_OK;
}

static void hide_some(const hri_stage *s, const hri_item *item, uint64_t n, int32_t *tokens,
                      int32_t *targets) {
    const hri_windows_options *o = s->options;
    const hri_windows *w = s->own;
    hri_random r =
        hri_random_at(s->seed + (item->index >> 32) + (item->epoch >> 32) * 0x9e3779b97f4a7c15u,
                      (uint32_t)item->epoch, HRI_RANDOM_NODE_TEXT, (uint32_t)item->index);
    memcpy(targets, tokens, n * sizeof *targets);
    for (uint64_t i = 0; i < n; i++) {
        const bool chosen = (double)hri_random_float(&r) < o->mask;
        const float how = hri_random_float(&r);
        const uint64_t other = hri_random_below(&r, n);
        if (chosen && how < 0.9f) {
            tokens[i] = how < 0.8f            ? w->mask_token
                        : targets[other] >= 0 ? targets[other]
                                              : tokens[other];
        }
        targets[i] = chosen ? targets[i] : -1;
    }
}

hr_status hri_windows_load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const hri_windows_options *o = s->options;
    const hri_windows *w = s->own;
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
        status = hri_memory_buffer(emit->memory, (n + 1) * w->unit, &raw);
    }
    if (status != HR_OK) {
        return status;
    }
    status = hri_filelist_read(f, w->parts[item->b].head + item->a * w->unit, raw->data,
                               (n + 1) * w->unit, &why);
    if (status != HR_OK) {
        hr_emit_explain(emit, why.text);
    } else {
        status = unpack(f, item, w->unit, raw->data, n, tokens, targets, emit);
        if (status == HR_OK && o->mask > 0) {
            hide_some(s, item, n, tokens, targets);
        }
    }
    hri_buffer_unref(raw);
    return status;
}

void hri_windows_fingerprint(hri_stage *s, hri_state *w) {
    hri_filelist_fingerprint(&((hri_windows *)s->own)->files, w);
}

int64_t hri_windows_newest(hri_stage *s, char *path, size_t size) {
    return hri_filelist_newest(&((hri_windows *)s->own)->files, path, size);
}

void hri_windows_close(hri_stage *s) {
    hri_windows *w = s->own;
    hri_free(w->parts);
    hri_filelist_close(&w->files);
}
