/* States: see state.h. */
#include "data/state.h"

#include <string.h>
#include "base/alloc.h"

void hri_state_put_bytes(hri_state *w, const void *data, size_t bytes) {
    if (w->failed || bytes == 0) {
        return;
    }
    if (bytes > w->capacity - w->count) {
        size_t capacity = w->capacity ? w->capacity : 128;
        while (capacity - w->count < bytes) {
            capacity *= 2;
        }
        unsigned char *grown = hri_realloc(w->data, capacity);
        if (!grown) {
            w->failed = true;
            return;
        }
        w->data = grown;
        w->capacity = capacity;
    }
    memcpy(w->data + w->count, data, bytes);
    w->count += bytes;
}

void hri_state_put(hri_state *w, uint64_t number) {
    unsigned char b[8];
    for (int i = 0; i < 8; i++) {
        b[i] = (unsigned char)(number >> (8 * i));
    }
    hri_state_put_bytes(w, b, sizeof b);
}

void hri_state_put_blob(hri_state *w, const void *data, size_t bytes) {
    hri_state_put(w, bytes);
    hri_state_put_bytes(w, data, bytes);
}

void hri_state_deinit(hri_state *w) {
    hri_free(w->data);
    *w = (hri_state){0};
}

hri_state hri_state_reader(const void *data, size_t bytes) {
    return (hri_state){.data = (unsigned char *)(uintptr_t)data, .count = bytes, .reads = true};
}

uint64_t hri_state_get(hri_state *r) {
    if (r->failed || r->count - r->at < 8) {
        r->failed = true;
        return 0;
    }
    uint64_t number = 0;
    for (int i = 0; i < 8; i++) {
        number |= (uint64_t)r->data[r->at + (size_t)i] << (8 * i);
    }
    r->at += 8;
    return number;
}

hri_state hri_state_get_blob(hri_state *r) {
    const uint64_t bytes = hri_state_get(r);
    if (r->failed || bytes > r->count - r->at) {
        r->failed = true;
        return (hri_state){.failed = true, .reads = true};
    }
    const hri_state blob = {.data = r->data + r->at, .count = (size_t)bytes, .reads = true};
    r->at += (size_t)bytes;
    return blob;
}

hr_status hri_state_status(const hri_state *s) {
    if (!s->failed) {
        return HR_OK;
    }
    return s->reads ? HR_E_FORMAT : HR_E_NOMEM_HOST;
}
