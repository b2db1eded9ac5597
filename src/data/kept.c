/* Elements kept by their number: see kept.h. */
#include "data/kept.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <zstd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "data/formats/cachefile.h"
#include "data/pipeline.h"
#include "data/read.h"

/* What a record of the file begins with. */
typedef struct label {
    uint64_t index, a, b;
} label;

typedef struct kept {
    hr_element *element;
    uint64_t a, b;
} kept;

struct hri_kept {
    hri_stage *stage, *source; /* source: whose tickets they are */
    int64_t level;
    pthread_mutex_t mutex; /* everything below */
    hri_buffer *memory;    /* places */
    union {
        kept **in_memory;
        uint64_t *in_file; /* offset of the data; 0: not there */
    } at;
    bool to_file, full;
    uint64_t count;
    hri_cachefile file;
    ZSTD_CCtx *packer; /* lent to one thread at a time */
};

/* ---- opening ---- */

static hr_status read_places(hri_kept *k, hri_prose *why) {
    uint64_t cursor = k->file.first, offset, bytes;
    hr_status status;
    while ((status = hri_cachefile_next(&k->file, &cursor, &offset, &bytes, why)) == HR_OK) {
        label l;
        if (bytes < sizeof l ||
            hri_read_at(k->file.fd, k->file.path, offset, &l, sizeof l, why) != HR_OK) {
            return HR_E_IO;
        }
        if (l.index < k->stage->spec.count && !k->at.in_file[l.index]) {
            k->at.in_file[l.index] = offset;
            k->count++;
        }
    }
    return status == HR_E_EOF ? HR_OK : status;
}

static hr_status open_file(hri_kept *k, const char *folder, hri_prose *why) {
    hri_stage *s = k->stage;
    hri_state state = {0};
    char name[64], *path = NULL;
    hri_stage_fingerprint(k->source, &state); /* the stages between choose places alone */
    hri_state_put(&state, (uint64_t)k->level);
    hr_status status = hri_state_status(&state);
    const uint64_t fingerprint =
        status == HR_OK && state.count ? hri_hash_bytes(state.data, state.count, 8) : 0;
    hri_state_deinit(&state);
    if (status == HR_OK) {
        status = hri_path_make_folders(folder, why);
    }
    snprintf(name, sizeof name, "%016llx.cache", (unsigned long long)fingerprint);
    if (status == HR_OK) {
        status = hri_path_join(folder, name, &path);
    }
    if (status == HR_OK) {
        status = hri_cachefile_open(&k->file, path, fingerprint, why);
    }
    hri_free(path);
    if (status != HR_OK) {
        return status;
    }
    k->to_file = true;
    const uint64_t plain = hri_bytes_add(s->spec.item_bytes, s->spec.item_bytes / 100 + 16384);
    const uint64_t both = hri_bytes_mul(2, hri_pool_round(plain));
    s->spec.load_bytes = hri_bytes_add(hri_spec_item_bytes(&s->spec), both);
    return read_places(k, why);
}

static hr_status open_places(hri_kept *k, hri_prose *why) {
    hri_stage *s = k->stage;
    const uint64_t bytes = hri_bytes_mul(k->source->spec.count, sizeof(uint64_t));
    const hr_status status = hri_buffer_create(hri_pipeline_pool(s->pipeline), s->account,
                                               bytes ? bytes : 1, &k->memory);
    if (status != HR_OK) {
        return hri_prose_set(why, status,
                             "the budget has no room for the positions of %llu "
                             "elements",
                             (unsigned long long)k->source->spec.count);
    }
    memset(k->memory->data, 0, bytes ? bytes : 1);
    k->at.in_file = k->memory->data;
    s->smallest_bytes = k->memory->bytes;
    return HR_OK;
}

hr_status hri_kept_open(hri_stage *s, const char *folder, int64_t level, hri_kept **out,
                        hri_prose *why) {
    hri_kept *k = hri_calloc(1, sizeof *k);
    if (!k) {
        return HR_E_NOMEM_HOST;
    }
    k->stage = s;
    k->level = level;
    k->file.fd = -1;
    pthread_mutex_init(&k->mutex, NULL);
    for (k->source = s->inputs[0]; !k->source->type->load;) {
        k->source = k->source->inputs[0];
    }
    hr_status status = open_places(k, why);
    if (status == HR_OK) {
        status = folder ? open_file(k, folder, why)
                        : hri_ledger_open(s->account->ledger, s->name, s->position, &s->extra);
    }
    if (status != HR_OK) {
        hri_kept_close(k);
        return status;
    }
    *out = k;
    return HR_OK;
}

void hri_kept_close(hri_kept *k) {
    if (!k) {
        return;
    }
    for (uint64_t i = 0; !k->to_file && k->memory && i < k->source->spec.count; i++) {
        if (k->at.in_memory[i]) {
            hr_element_unref(k->at.in_memory[i]->element);
            hri_free(k->at.in_memory[i]);
        }
    }
    hri_buffer_unref(k->memory);
    ZSTD_freeCCtx(k->packer);
    if (k->to_file) {
        hri_cachefile_close(&k->file);
    }
    pthread_mutex_destroy(&k->mutex);
    hri_free(k);
}

void hri_kept_ticket(const hri_kept *k, hri_item *item) {
    if (!item->element && item->source == k->source && item->index < k->source->spec.count) {
        item->source = k->stage;
    }
}

hri_item hri_kept_inner(const hri_kept *k, const hri_item *item) {
    hri_item inner = *item;
    inner.source = k->source;
    inner.epoch = 0; /* a source of the user's own may look at it: the first one is kept */
    return inner;
}

/* ---- what is there ---- */

static hr_status share(const hr_element *e, hr_emit *emit) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; status == HR_OK && i < e->count; i++) {
        status = hri_emit_share(emit, &e->parts[i].field, e->parts[i].buffer);
    }
    return status;
}

/* HR_E_NOT_FOUND: it is not kept. */
static hr_status load_from_memory(hri_kept *k, const hri_item *item, hr_emit *emit) {
    hr_element *e = NULL;
    pthread_mutex_lock(&k->mutex);
    const kept *here = k->at.in_memory[item->index];
    if (here && here->a == item->a && here->b == item->b) {
        e = hr_element_ref(here->element);
    }
    pthread_mutex_unlock(&k->mutex);
    if (!e) {
        return HR_E_NOT_FOUND;
    }
    const hr_status status = share(e, emit);
    hr_element_unref(e);
    return status;
}

static hr_status damaged(hr_emit *emit) {
    return hri_emit_fail(emit, HR_E_FORMAT, "the cached element is damaged");
}

static hr_status unpack(const hri_kept *k, const char *data, uint64_t bytes, hr_emit *emit) {
    if (k->level == 0) {
        return hri_element_unpack(data, bytes, emit);
    }
    const unsigned long long size = ZSTD_getFrameContentSize(data, bytes);
    hri_buffer *plain = NULL;
    hr_status status = size >= (unsigned long long)1 << 40
                           ? damaged(emit)
                           : hri_memory_buffer(emit->memory, size, &plain);
    if (status == HR_OK && ZSTD_decompress(plain->data, size, data, bytes) != size) {
        status = damaged(emit);
    }
    if (status == HR_OK) {
        status = hri_element_unpack(plain->data, size, emit);
    }
    hri_buffer_unref(plain);
    return status;
}

static hr_status load_from_file(hri_kept *k, const hri_item *item, hr_emit *emit) {
    label l;
    uint64_t bytes = 0;
    hri_prose why = {{0}};
    pthread_mutex_lock(&k->mutex);
    const uint64_t offset = k->at.in_file[item->index];
    pthread_mutex_unlock(&k->mutex);
    if (!offset) {
        return HR_E_NOT_FOUND;
    }
    hr_status status = hri_read_at(k->file.fd, k->file.path, offset, &l, sizeof l, &why);
    if (status == HR_OK && (l.index != item->index || l.a != item->a || l.b != item->b)) {
        return HR_E_NOT_FOUND;
    }
    if (status == HR_OK) {
        status = hri_cachefile_bytes(&k->file, offset, &bytes, &why);
    }
    hri_buffer *record = NULL;
    if (status == HR_OK) {
        status = hri_memory_buffer(emit->memory, bytes, &record);
        if (status != HR_OK) {
            return status;
        }
        status = hri_cachefile_read(&k->file, offset, record->data, bytes, &why);
    }
    if (status != HR_OK) {
        hr_emit_explain(emit, why.text);
    } else {
        status = bytes < sizeof l
                     ? damaged(emit)
                     : unpack(k, (const char *)record->data + sizeof l, bytes - sizeof l, emit);
    }
    hri_buffer_unref(record);
    return status;
}

/* ---- adding ---- */

static void stop_adding(hri_kept *k) {
    pthread_mutex_lock(&k->mutex);
    const bool first = !k->full;
    k->full = true;
    pthread_mutex_unlock(&k->mutex);
    if (first) {
        hri_stage *s = k->stage;
        hri_pipeline_log(s->pipeline, HR_LOG_WARN,
                         k->to_file ? "%s: %s cannot be extended; its existing contents stay in use"
                                    : "%s: the budget has room for %s elements; the others are "
                                      "recomputed every epoch",
                         s->name, k->to_file ? k->file.path : "no more");
        s->shrunk++;
    }
}

/* The fields again, charged to the cache; NULL when there is no room for them. */
static hr_element *copy_of(hri_kept *k, const hr_element *e) {
    hri_memory memory = {.pool = hri_pipeline_pool(k->stage->pipeline), .account = k->stage->extra};
    hr_emit emit;
    hr_element *copy = NULL;
    if (!hri_ledger_could(k->stage->extra, k->stage->account->ledger->budget / 8) ||
        hri_emit_init(&emit, &memory, NULL, 0, 0, 0) != HR_OK) {
        return NULL;
    }
    hr_status status = HR_OK;
    for (uint32_t i = 0; status == HR_OK && i < e->count; i++) {
        const hr_field *f = &e->parts[i].field;
        hr_field field = *f;
        hri_buffer *buffer = NULL;
        /* Not hri_memory_buffer: a cache never waits. */
        status = hri_buffer_create(memory.pool, memory.account, f->bytes, &buffer);
        if (status == HR_OK) {
            memcpy(buffer->data, f->data, f->bytes);
            field.data = buffer->data;
            status = hri_emit_share(&emit, &field, buffer);
        }
        hri_buffer_unref(buffer);
    }
    if (status == HR_OK) {
        copy = hri_emit_take(&emit);
    }
    hri_emit_deinit(&emit);
    return copy;
}

static void add_to_memory(hri_kept *k, const hri_item *item, const hr_element *e) {
    kept *here = hri_malloc(sizeof *here);
    hr_element *copy = here ? copy_of(k, e) : NULL;
    if (!copy) {
        hri_free(here);
        stop_adding(k);
        return;
    }
    *here = (kept){.element = copy, .a = item->a, .b = item->b};
    pthread_mutex_lock(&k->mutex);
    const bool first = !k->at.in_memory[item->index];
    if (first) {
        k->at.in_memory[item->index] = here;
        k->count++;
    }
    pthread_mutex_unlock(&k->mutex);
    if (!first) {
        hr_element_unref(copy);
        hri_free(here);
    }
}

/* One compressor for all that come one by one; those that come at the same time make their own. */
static ZSTD_CCtx *borrow_packer(hri_kept *k) {
    pthread_mutex_lock(&k->mutex);
    ZSTD_CCtx *packer = k->packer;
    k->packer = NULL;
    pthread_mutex_unlock(&k->mutex);
    return packer ? packer : ZSTD_createCCtx();
}

static void give_back_packer(hri_kept *k, ZSTD_CCtx *packer) {
    pthread_mutex_lock(&k->mutex);
    if (!k->packer) {
        k->packer = packer;
        packer = NULL;
    }
    pthread_mutex_unlock(&k->mutex);
    ZSTD_freeCCtx(packer);
}

/* The record's data in a buffer.  HR_E_AGAIN and the like: not now. */
static hr_status pack(hri_kept *k, const hri_item *item, const hr_element *e, hri_memory *memory,
                      hri_buffer **out, size_t *out_bytes) {
    const label l = {.index = item->index, .a = item->a, .b = item->b};
    const uint64_t bytes = hri_element_packed_bytes(e);
    const size_t bound = k->level ? ZSTD_compressBound((size_t)bytes) : 0;
    hri_buffer *plain = NULL, *packed = NULL;
    hr_status status = hri_memory_buffer(memory, bytes + (bound ? 0 : sizeof l), &plain);
    if (status == HR_OK && bound) {
        status = hri_memory_buffer(memory, bound + sizeof l, &packed);
    }
    size_t n = (size_t)bytes;
    if (status == HR_OK) {
        hri_element_pack(e, (char *)plain->data + (bound ? 0 : sizeof l));
    }
    if (status == HR_OK && bound) {
        ZSTD_CCtx *packer = borrow_packer(k);
        n = packer ? ZSTD_compressCCtx(packer, (char *)packed->data + sizeof l, bound, plain->data,
                                       (size_t)bytes, (int)k->level)
                   : 0;
        status = !packer ? HR_E_NOMEM_HOST : ZSTD_isError(n) ? HR_E_INTERNAL : HR_OK;
        give_back_packer(k, packer);
        hri_buffer_unref(plain);
        plain = packed;
    } else {
        hri_buffer_unref(packed);
    }
    if (status != HR_OK) {
        hri_buffer_unref(plain);
        return status;
    }
    memcpy(plain->data, &l, sizeof l);
    *out = plain;
    *out_bytes = n + sizeof l;
    return HR_OK;
}

static void add_to_file(hri_kept *k, const hri_item *item, const hr_element *e,
                        hri_memory *memory) {
    hri_buffer *record;
    size_t bytes;
    if (pack(k, item, e, memory, &record, &bytes) != HR_OK) {
        return; /* there is no room now; another epoch may have it */
    }
    hr_status status = HR_OK;
    pthread_mutex_lock(&k->mutex);
    if (!k->at.in_file[item->index]) {
        status = hri_cachefile_add_element(&k->file, record->data, bytes);
        if (status == HR_OK) {
            k->at.in_file[item->index] = k->file.end - bytes;
            k->count++;
        }
        if (status == HR_OK && k->count == k->source->spec.count) {
            status = hri_cachefile_finish(&k->file);
        }
    }
    const uint64_t count = k->count;
    pthread_mutex_unlock(&k->mutex);
    hri_buffer_unref(record);
    if (status != HR_OK) {
        stop_adding(k);
    } else if (count % HRI_CACHE_MARK_EVERY == 0) {
        hri_pipeline_progress(k->stage->pipeline, k->stage, count, k->source->spec.count);
    }
}

hr_status hri_kept_load(hri_kept *k, const hri_item *item, hr_emit *emit) {
    hr_status status = k->to_file ? load_from_file(k, item, emit) : load_from_memory(k, item, emit);
    if (status != HR_E_NOT_FOUND) {
        return status;
    }
    hr_element *e = NULL;
    const hri_item inner = hri_kept_inner(k, item);
    status = hri_item_load(&inner, emit->memory, &e, emit->reason, sizeof emit->reason);
    if (status != HR_OK) {
        return status;
    }
    pthread_mutex_lock(&k->mutex);
    const bool adds = !k->full && (!k->to_file || (k->file.writable && !k->file.complete)) &&
                      !k->at.in_file[item->index];
    pthread_mutex_unlock(&k->mutex);
    if (adds && k->to_file) {
        add_to_file(k, item, e, emit->memory);
    } else if (adds) {
        add_to_memory(k, item, e);
    }
    status = share(e, emit);
    hr_element_unref(e);
    return status;
}
