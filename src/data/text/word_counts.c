/* See word_counts.h: open addressing over an array of words, texts behind one another. */
#include "data/text/word_counts.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

enum { FIRST_SLOTS = 1 << 12 };

static size_t bytes_of(size_t texts, size_t words, size_t slots) {
    return texts + words * sizeof(hri_word) + slots * sizeof(uint32_t);
}

/* The slot of the word, or the free one where it belongs. */
static size_t find(const hri_word_counts *c, uint32_t hash, const char *text, size_t bytes) {
    const size_t mask = c->slot_count - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        const hri_word *w = c->slots[i] ? &c->words[c->slots[i] - 1] : NULL;
        if (!w ||
            (w->hash == hash && w->length == bytes && !memcmp(c->texts + w->at, text, bytes))) {
            return i;
        }
    }
}

static void fill_slots(hri_word_counts *c) {
    memset(c->slots, 0, c->slot_count * sizeof *c->slots);
    for (size_t k = 0; k < c->count; k++) {
        const hri_word *w = &c->words[k];
        c->slots[find(c, w->hash, c->texts + w->at, w->length)] = (uint32_t)k + 1;
    }
}

static void keep_those_over(hri_word_counts *c, uint64_t least) {
    size_t kept = 0, used = 0;
    for (size_t k = 0; k < c->count; k++) {
        hri_word w = c->words[k];
        if (w.count > least) {
            memmove(c->texts + used, c->texts + w.at, w.length);
            w.at = used;
            used += w.length;
            c->words[kept++] = w;
        }
    }
    c->count = kept;
    c->texts_used = used;
}

static void forget(hri_word_counts *c) {
    const size_t words = c->count / 2, texts = c->texts_used / 2;
    for (uint64_t least = 1; c->count > words || c->texts_used > texts; least++) {
        keep_those_over(c, least);
    }
    c->forgotten++;
    fill_slots(c);
}

static size_t grown(size_t room, size_t wanted, size_t first) {
    room = room ? room : first;
    while (room < wanted) {
        room *= 2;
    }
    return room;
}

/* Room for one more word of so many bytes. */
static hr_status make_room(hri_word_counts *c, size_t bytes) {
    const size_t texts = grown(c->texts_room, c->texts_used + bytes, 1 << 14),
                 words = grown(c->room, c->count + 1, 1 << 10),
                 slots = grown(c->slot_count, 2 * (c->count + 1), FIRST_SLOTS);
    if (bytes_of(texts, words, slots) > c->most_bytes && c->count > 16) {
        forget(c);
        return make_room(c, bytes);
    }
    if (texts != c->texts_room) {
        char *t = hri_realloc(c->texts, texts);
        if (!t) {
            return HR_E_NOMEM_HOST;
        }
        c->texts = t;
        c->texts_room = texts;
    }
    if (words != c->room) {
        hri_word *w = hri_realloc(c->words, words * sizeof *w);
        if (!w) {
            return HR_E_NOMEM_HOST;
        }
        c->words = w;
        c->room = words;
    }
    if (slots != c->slot_count) {
        uint32_t *s = hri_realloc(c->slots, slots * sizeof *s);
        if (!s) {
            return HR_E_NOMEM_HOST;
        }
        c->slots = s;
        c->slot_count = slots;
        fill_slots(c);
    }
    return HR_OK;
}

hr_status hri_word_counts_add(hri_word_counts *c, const char *text, size_t bytes) {
    const uint32_t hash = (uint32_t)hri_hash_bytes(text, bytes, 0);
    size_t slot = c->slot_count ? find(c, hash, text, bytes) : 0;
    if (c->slot_count && c->slots[slot]) {
        c->words[c->slots[slot] - 1].count++;
        return HR_OK;
    }
    const hr_status status = make_room(c, bytes);
    if (status != HR_OK) {
        return status;
    }
    memcpy(c->texts + c->texts_used, text, bytes);
    c->words[c->count++] =
        (hri_word){.at = c->texts_used, .count = 1, .length = (uint32_t)bytes, .hash = hash};
    slot = find(c, hash, text, bytes);
    c->slots[slot] = (uint32_t)c->count;
    c->texts_used += bytes;
    return HR_OK;
}

void hri_word_counts_deinit(hri_word_counts *c) {
    hri_free(c->texts);
    hri_free(c->words);
    hri_free(c->slots);
    *c = (hri_word_counts){.most_bytes = c->most_bytes};
}
