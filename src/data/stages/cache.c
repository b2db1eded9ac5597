/* cache  keeps what the stages above made in the first epoch, so that later epochs need not make it again.
 *
 * Behind a source whose places are known (and shuffles, takes and skips of them) it keeps elements by their number
 * (data/kept.h): order and random choices are as without it.  Behind a stream it keeps the first epoch in its order; random
 * choices above it are frozen with it, so the random augmentation belongs behind it.
 *
 *   cache            in memory: as many elements as the budget has room for; the others are made anew each epoch
 *   cache(DIR)       in a file in DIR, compressed, named by the fingerprint of the stages above: other stages, options
 *                    or files, another cache.  What a run that stopped or was killed has written is used by the next
 *                    (formats/cachefile.h).
 *
 * Of streams the one idea: the input is at one place at a time (input_at), and may be put to any place of its epoch 0 by a mark
 * taken every 256 elements; elements below `count` come from the cache, all others from the input, and exactly those
 * that come next behind `count` are added. */
#include <stdio.h>
#include <string.h>
#include <zstd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "data/formats/cachefile.h"
#include "data/kept.h"
#include "data/mark.h"
#include "data/read.h"

typedef struct options {
    const char *path;
    int64_t level;
} options;

static const hri_field fields[] = {{"path", "directory for the cache file; none: cache in memory",
                                    offsetof(options, path), HRI_FIELD_STRING, .metavar = "DIR"},
                                   {"level", "compression level; 0: none", offsetof(options, level),
                                    HRI_FIELD_INT, "1", .min = 0, .max = 19},
                                   {0}};

typedef struct own {
    hri_kept *by_number; /* random access; nothing below then */
    hr_element **kept;   /* in memory */
    uint64_t *numbers;   /* who they are */
    uint64_t kept_count, kept_capacity;
    hri_place *marks; /* in memory: of elements 0, 256, 512 ... */
    size_t mark_count, mark_capacity;
    bool full, complete, to_file;
    uint64_t input_at; /* UINT64_MAX: not known */
    hri_cachefile file;
    uint64_t cursor; /* of element `place`, while that is in the file */
    ZSTD_CCtx *zstd;
} own;

static uint64_t cached(const own *w) {
    return w->to_file ? w->file.element_count : w->kept_count;
}

static bool is_complete(const own *w) {
    return w->to_file ? w->file.complete : w->complete;
}

static hr_status open_file(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    hri_state state = {0};
    hri_stage_fingerprint(s->inputs[0], &state);
    hri_state_put(&state, (uint64_t)o->level);
    const uint64_t fingerprint = hri_hash_bytes(state.data, state.count, 9);
    hr_status status = hri_state_status(&state);
    hri_state_deinit(&state);
    if (status == HR_OK) {
        status = hri_path_make_folders(o->path, why);
    }
    if (status != HR_OK) {
        return status;
    }
    char name[64], *path;
    snprintf(name, sizeof name, "%016llx.cache", (unsigned long long)fingerprint);
    status = hri_path_join(o->path, name, &path);
    if (status != HR_OK) {
        return status;
    }
    status = hri_cachefile_open(&w->file, path, fingerprint, why);
    hri_free(path);
    if (status != HR_OK) {
        return status;
    }
    w->to_file = true;
    w->cursor = w->file.first;
    const uint64_t packed = hri_bytes_add(s->spec.item_bytes, s->spec.item_bytes / 100 + 16384);
    const uint64_t both = hri_bytes_mul(2, hri_pool_round(packed));
    s->smallest_bytes = hri_bytes_add(s->spec.load_bytes, both);
    s->spec.load_bytes = hri_bytes_add(s->spec.item_bytes, both);
    return HR_OK;
}

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    w->file.fd = -1;
    w->input_at = UINT64_MAX;
    if (s->random) {
        return hri_kept_open(s, o->path, o->level, &w->by_number, why);
    }
    if (o->path) {
        return open_file(s, why);
    }
    s->smallest_bytes = s->spec.load_bytes;
    s->spec.load_bytes = 0;
    return hri_ledger_open(s->account->ledger, s->name, s->position, &s->extra);
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    const own *w = s->own;
    const hr_status status = hri_stage_at(s->inputs[0], i, out);
    if (status == HR_OK) {
        hri_kept_ticket(w->by_number, out);
    }
    return status;
}

static hr_status start(hri_stage *s, uint64_t epoch) {
    (void)epoch;
    own *w = s->own;
    w->cursor = w->file.first;
    return HR_OK; /* the input stays where it is until it is needed */
}

/* The next good element of the input, and its number. */
static hr_status pull(hri_stage *s, hr_element **out, uint64_t *number) {
    for (;;) {
        hri_item item = {0};
        hr_status status = hri_stage_next(s->inputs[0], &item);
        if (status == HR_OK) {
            status = hri_stage_take(s, &item, out);
        }
        if (status != HR_E_AGAIN) {
            *number = item.index;
            return status;
        }
    }
}

/* ---- the input's place ---- */

static hr_status input_to_file_mark(hri_stage *s, const hri_cache_mark *m) {
    own *w = s->own;
    hri_prose why = {{0}};
    void *data = hri_malloc(m->bytes ? m->bytes : 1);
    if (!data) {
        return HR_E_NOMEM_HOST;
    }
    hr_status status = hri_cachefile_read(&w->file, m->offset, data, m->bytes, &why);
    if (status == HR_OK) {
        hri_state r = hri_state_reader(data, m->bytes);
        status = hri_stage_restore(s->inputs[0], &r);
    }
    hri_free(data);
    return status;
}

/* Puts the input before element `to` of its epoch 0. */
static hr_status input_to(hri_stage *s, uint64_t to) {
    own *w = s->own;
    if (w->input_at == to) {
        return HR_OK;
    }
    const size_t count = w->to_file ? w->file.mark_count : w->mark_count;
    hr_status status;
    uint64_t at = 0;
    size_t k = count;
    while (k > 0 && (w->to_file ? w->file.marks[k - 1].element
                                : (uint64_t)(k - 1) * HRI_CACHE_MARK_EVERY) > to) {
        k--;
    }
    w->input_at = UINT64_MAX;
    if (k == 0) {
        status = hri_stage_start(s->inputs[0], 0);
    } else if (w->to_file) {
        at = w->file.marks[k - 1].element;
        status = input_to_file_mark(s, &w->file.marks[k - 1]);
    } else {
        at = (uint64_t)(k - 1) * HRI_CACHE_MARK_EVERY;
        const hri_place *p = &w->marks[k - 1];
        hri_state r = hri_state_reader(p->mark->data, p->mark->bytes);
        status = hri_stage_restore(s->inputs[0], &r);
    }
    while (status == HR_OK && at < to) {
        hr_element *e;
        uint64_t number;
        status = pull(s, &e, &number); /* loaded, as bad ones must be passed over as before */
        if (status == HR_OK) {
            hr_element_unref(e);
            at++;
        }
    }
    if (status == HR_OK) {
        w->input_at = to;
    }
    return status;
}

/* Before each 256th element that is added. */
static hr_status add_mark(hri_stage *s) {
    own *w = s->own;
    hri_state state = {0};
    hri_stage_save(s->inputs[0], &state);
    hr_status status = hri_state_status(&state);
    if (status == HR_OK && w->to_file) {
        status = hri_cachefile_add_mark(&w->file, state.data, state.count);
    } else if (status == HR_OK) {
        if (w->mark_count == w->mark_capacity) {
            const size_t capacity = w->mark_capacity ? 2 * w->mark_capacity : 16;
            hri_place *grown = hri_realloc(w->marks, capacity * sizeof *grown);
            if (grown) {
                w->marks = grown;
                w->mark_capacity = capacity;
            } else {
                status = HR_E_NOMEM_HOST;
            }
        }
        hri_marker marker = {0};
        if (status == HR_OK) {
            status = hri_marker_look(&marker, s->inputs[0], &w->marks[w->mark_count]);
        }
        hri_marker_clear(&marker);
        w->mark_count += status == HR_OK;
    }
    hri_state_deinit(&state);
    return status;
}

/* ---- adding ---- */

static void stop_adding(hri_stage *s) {
    own *w = s->own;
    if (!w->full) {
        w->full = true;
        hri_pipeline_log(s->pipeline, HR_LOG_WARN,
                         w->to_file ? "%s: %s cannot be extended; its existing contents stay in use"
                                    : "%s: the budget has room for %s elements; the others are "
                                      "recomputed every epoch",
                         s->name, w->to_file ? w->file.path : "no more");
        s->shrunk++;
    }
}

/* Keeps a reference when all of the element can be charged to the cache, and leaves an eighth of the budget alone. */
static void add_to_memory(hri_stage *s, hr_element *e, uint64_t number) {
    own *w = s->own;
    const uint64_t spare = s->account->ledger->budget / 8;
    if (!hri_ledger_could(s->extra, spare)) {
        stop_adding(s);
        return;
    }
    if (w->kept_count == w->kept_capacity) {
        const uint64_t capacity = w->kept_capacity ? 2 * w->kept_capacity : 256;
        hr_element **grown = hri_realloc(w->kept, capacity * sizeof(hr_element *));
        w->kept = grown ? grown : w->kept;
        uint64_t *numbers = grown ? hri_realloc(w->numbers, capacity * sizeof *numbers) : NULL;
        if (!numbers) {
            stop_adding(s);
            return;
        }
        w->numbers = numbers;
        w->kept_capacity = capacity;
    }
    hri_element_charge_to(e, s->extra, 0);
    for (uint32_t i = 0; i < e->count; i++) {
        if (e->parts[i].buffer->account != s->extra) {
            stop_adding(s);
            return;
        }
    }
    w->numbers[w->kept_count] = number;
    w->kept[w->kept_count++] = hr_element_ref(e);
}

/* The number and the element.  The bytes of the record's data; 0 when it was not added. */
static uint64_t add_to_file(hri_stage *s, const hr_element *e, uint64_t number) {
    const options *o = s->options;
    own *w = s->own;
    hri_memory memory = hri_stage_memory(s);
    hri_buffer *plain = NULL, *packed = NULL;
    const uint64_t bytes = hri_element_packed_bytes(e);
    uint64_t added = bytes + sizeof number;
    hr_status status = hri_memory_buffer(&memory, added, &plain);
    if (status == HR_OK) {
        memcpy(plain->data, &number, sizeof number);
        hri_element_pack(e, (char *)plain->data + sizeof number);
    }
    if (status == HR_OK && o->level > 0) {
        const size_t bound = ZSTD_compressBound((size_t)bytes);
        w->zstd = w->zstd ? w->zstd : ZSTD_createCCtx();
        status =
            w->zstd ? hri_memory_buffer(&memory, bound + sizeof number, &packed) : HR_E_NOMEM_HOST;
        if (status == HR_OK) {
            memcpy(packed->data, &number, sizeof number);
            const size_t n = ZSTD_compressCCtx(w->zstd, (char *)packed->data + sizeof number, bound,
                                               (const char *)plain->data + sizeof number,
                                               (size_t)bytes, (int)o->level);
            added = n + sizeof number;
            status = ZSTD_isError(n)
                         ? HR_E_INTERNAL
                         : hri_cachefile_add_element(&w->file, packed->data, (size_t)added);
        }
    } else if (status == HR_OK) {
        status = hri_cachefile_add_element(&w->file, plain->data, (size_t)added);
    }
    hri_buffer_unref(plain);
    hri_buffer_unref(packed);
    if (status != HR_OK) {
        stop_adding(s);
    }
    return status == HR_OK ? added : 0;
}

/* ---- giving ---- */

static hr_status next_cached(hri_stage *s, hri_item *out) {
    own *w = s->own;
    if (!w->to_file) {
        *out = (hri_item){.element = hr_element_ref(w->kept[s->place]),
                          .epoch = s->epoch,
                          .index = w->numbers[s->place]};
    } else {
        hri_prose why = {{0}};
        uint64_t offset, bytes, number = 0;
        hr_status status = hri_cachefile_next(&w->file, &w->cursor, &offset, &bytes, &why);
        if (status == HR_OK) {
            status = hri_read_at(w->file.fd, w->file.path, offset, &number, sizeof number, &why);
        }
        if (status != HR_OK) {
            const hri_item item = {.index = s->place};
            return hri_pipeline_bad_item(s->pipeline, HR_E_INTERNAL, s, &item, why.text);
        }
        *out = (hri_item){.source = s, .a = offset, .b = bytes, .epoch = s->epoch, .index = number};
    }
    s->place++;
    return HR_OK;
}

static hr_status next_made(hri_stage *s, hri_item *out) {
    own *w = s->own;
    for (;;) {
        const bool adding = s->place == cached(w) && !w->full && (!w->to_file || w->file.writable);
        hr_status status = input_to(s, s->place);
        if (status == HR_OK && adding && s->place % HRI_CACHE_MARK_EVERY == 0 &&
            add_mark(s) != HR_OK) {
            stop_adding(s);
            continue;
        }
        hr_element *e = NULL;
        uint64_t number = 0;
        if (status == HR_OK) {
            status = pull(s, &e, &number);
        }
        if (status == HR_E_EOF && adding) {
            if (!w->to_file) {
                w->complete = true;
            } else if (hri_cachefile_finish(&w->file) != HR_OK) {
                stop_adding(s);
            }
        }
        if (status != HR_OK) {
            return status;
        }
        *out = (hri_item){.element = e, .epoch = s->epoch, .index = number};
        s->place++;
        if (adding && w->to_file) {
            const uint64_t bytes = add_to_file(s, e, number);
            if (bytes) { /* it may be loaded again */
                out->source = s;
                out->a = w->file.end - bytes;
                out->b = bytes;
            }
        } else if (adding) {
            add_to_memory(s, e, number);
        }
        if (adding && s->place % HRI_CACHE_MARK_EVERY == 0) {
            const uint64_t total = s->spec.count == HR_COUNT_UNKNOWN ? 0 : s->spec.count;
            hri_pipeline_progress(s->pipeline, s, s->place, total);
        }
        w->input_at = s->place;
        if (w->to_file && cached(w) == s->place) {
            w->cursor = w->file.end;
        }
        return HR_OK;
    }
}

static hr_status next(hri_stage *s, hri_item *out) {
    own *w = s->own;
    if (s->place < cached(w)) {
        return next_cached(s, out);
    }
    return is_complete(w) ? HR_E_EOF : next_made(s, out);
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const options *o = s->options;
    const own *w = s->own;
    if (w->by_number) {
        return hri_kept_load(w->by_number, item, emit);
    }
    hri_prose why = {{0}};
    hri_buffer *packed = NULL, *plain = NULL;
    hr_status status = hri_memory_buffer(emit->memory, item->b, &packed);
    if (status == HR_OK) {
        status = hri_cachefile_read(&w->file, item->a, packed->data, item->b, &why);
        if (status != HR_OK) {
            hr_emit_explain(emit, why.text);
        }
    }
    const uint64_t bytes = item->b > 8 ? item->b - 8 : 0; /* behind the number */
    const char *data = status == HR_OK ? (const char *)packed->data + 8 : NULL;
    if (status == HR_OK && o->level > 0) {
        const unsigned long long size = ZSTD_getFrameContentSize(data, bytes);
        if (size >= (unsigned long long)1 << 40) {
            status = hri_emit_fail(emit, HR_E_FORMAT, "the cached element is damaged");
        } else {
            status = hri_memory_buffer(emit->memory, size, &plain);
        }
        if (status == HR_OK && ZSTD_decompress(plain->data, size, data, bytes) != size) {
            status = hri_emit_fail(emit, HR_E_FORMAT, "the cached element is damaged");
        }
        if (status == HR_OK) {
            status = hri_element_unpack(plain->data, size, emit);
        }
    } else if (status == HR_OK) {
        status = hri_element_unpack(data, bytes, emit);
    }
    hri_buffer_unref(packed);
    hri_buffer_unref(plain);
    return status;
}

/* ---- states ---- */

/* The input's state too when it stands at the place: a process whose cache is shorter goes on from there. */
static void save(hri_stage *s, hri_state *state) {
    own *w = s->own;
    const bool here = w->input_at == s->place;
    hri_state inner = {0};
    hri_state_put(state, here);
    if (here) {
        hri_stage_save(s->inputs[0], &inner);
        state->failed = state->failed || inner.failed;
        hri_state_put_blob(state, inner.data, inner.count);
        hri_state_deinit(&inner);
    }
}

static hr_status restore(hri_stage *s, hri_state *r) {
    own *w = s->own;
    const uint64_t place = s->place;
    const bool here = hri_state_get(r) != 0;
    w->input_at = UINT64_MAX;
    if (here) {
        hri_state inner = hri_state_get_blob(r);
        const hr_status status = hri_stage_restore(s->inputs[0], &inner);
        if (status != HR_OK) {
            return status;
        }
        w->input_at = place;
    }
    if (r->failed) {
        return HR_E_FORMAT;
    }
    w->cursor = w->file.first;
    if (w->to_file && place <= w->file.element_count) {
        for (uint64_t i = 0; i < place; i++) {
            uint64_t offset, bytes;
            const hr_status status =
                hri_cachefile_next(&w->file, &w->cursor, &offset, &bytes, NULL);
            if (status != HR_OK) {
                return status;
            }
        }
    }
    return HR_OK;
}

static void name_of(hri_stage *s, const hri_item *item, char *buf, size_t size) {
    const own *w = s->own;
    if (w->by_number) {
        const hri_item inner = hri_kept_inner(w->by_number, item);
        hri_item_name(&inner, buf, size);
        return;
    }
    snprintf(buf, size, "%s, element %llu", w->to_file ? w->file.path : s->name,
             (unsigned long long)item->index);
}

static void stop(hri_stage *s) {
    ((own *)s->own)->input_at =
        UINT64_MAX; /* those above lose their places when they are stopped */
}

static void close(hri_stage *s) {
    own *w = s->own;
    for (uint64_t i = 0; i < w->kept_count; i++) {
        hr_element_unref(w->kept[i]);
    }
    for (size_t i = 0; i < w->mark_count; i++) {
        hri_place_drop(&w->marks[i]);
    }
    hri_free(w->kept);
    hri_free(w->numbers);
    hri_free(w->marks);
    hri_kept_close(w->by_number);
    ZSTD_freeCCtx(w->zstd);
    if (w->to_file) {
        hri_cachefile_close(&w->file);
    }
}

const hri_stage_type hri_stage_type_cache = {
    .name = "cache",
    .help = "cache elements in memory or in a file",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .inputs = 1,
    .only_speed = true,
    .open = open,
    .close = close,
    .start = start,
    .at = at,
    .next = next,
    .load = load,
    .save = save,
    .restore = restore,
    .stop = stop,
    .name_of = name_of,
};
