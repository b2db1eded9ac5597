/* See bpe_train.h.
 *
 * A heap has candidates: a pair, how often it occurred when it was put there, and the words in which it was found then.  What is on top
 * with an old count goes back with the new one.  A pair that appears anew while it is in the heap is put there again with the new words
 * alone; the same token made of two other parts is one token. */
#include "data/text/bpe_train.h"

#include <stdbool.h>

#include "base/alloc.h"
#include "base/map.h"
#include "data/text/bpe.h"

HRI_VECTOR(places, uint32_t)

typedef struct candidate {
    int64_t count;
    uint64_t pair; /* left << 32 | right */
    places in;     /* words, ascending */
} candidate;

HRI_VECTOR(heap, candidate)

/* Words in which a pair has appeared since the last look, in the order of the first. */
typedef struct appeared {
    uint64_t pair;
    places in;
} appeared;

HRI_VECTOR(appearances, appeared)

typedef struct training {
    const hri_word_counts *counts;
    int32_t *symbols; /* of all words, each from its place in the texts on */
    uint32_t *length; /* of each word */
    hri_intmap pairs; /* -> how often, an int64_t */
    hri_intmap fresh; /* -> appearances */
    appearances news;
    heap queue;
    hri_strmap names; /* the letters of a token -> token */
    char **texts;     /* of each token */
    int32_t token_count;
} training;

void hri_bpe_train_alphabet(int32_t first, int32_t number[256]) {
    hri_bpe b;
    int32_t next = first;
    hri_bpe_init(&b);
    for (int letter = 0; letter < 512; letter++) {
        if (b.byte_of[letter] >= 0) {
            number[b.byte_of[letter]] = next++;
        }
    }
    hri_bpe_deinit(&b);
}

/* ---- the heap ---- */

static bool before(const candidate *a, const candidate *b) {
    return a->count != b->count ? a->count > b->count : a->pair < b->pair;
}

static void sink(heap *h, size_t i) {
    for (;;) {
        const size_t l = 2 * i + 1, r = l + 1;
        size_t best = i;
        best = l < h->count && before(&h->items[l], &h->items[best]) ? l : best;
        best = r < h->count && before(&h->items[r], &h->items[best]) ? r : best;
        if (best == i) {
            return;
        }
        const candidate c = h->items[i];
        h->items[i] = h->items[best];
        h->items[best] = c;
        i = best;
    }
}

static hr_status put(heap *h, candidate c) {
    const hr_status status = heap_push(h, c);
    for (size_t i = status == HR_OK ? h->count - 1 : 0; i > 0;) {
        const size_t up = (i - 1) / 2;
        if (!before(&h->items[i], &h->items[up])) {
            break;
        }
        const candidate t = h->items[i];
        h->items[i] = h->items[up];
        h->items[up] = t;
        i = up;
    }
    return status;
}

static candidate take(heap *h) {
    const candidate top = h->items[0];
    h->items[0] = h->items[--h->count];
    sink(h, 0);
    return top;
}

/* ---- counts of pairs ---- */

static uint64_t pair_of(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static int64_t count_of(const training *t, uint64_t pair) {
    uint64_t n = 0;
    (void)hri_intmap_get(&t->pairs, pair, &n);
    return (int64_t)n;
}

static hr_status change(training *t, uint64_t pair, uint32_t word, int by) {
    const int64_t n = count_of(t, pair) + by * (int64_t)t->counts->words[word].count;
    const hr_status status = hri_intmap_put(&t->pairs, pair, (uint64_t)n);
    if (status != HR_OK || by < 0) {
        return status;
    }
    uint64_t at;
    if (!hri_intmap_get(&t->fresh, pair, &at)) {
        at = t->news.count;
        hr_status more = appearances_push(&t->news, (appeared){.pair = pair});
        more = more == HR_OK ? hri_intmap_put(&t->fresh, pair, at) : more;
        if (more != HR_OK) {
            return more;
        }
    }
    places *in = &t->news.items[at].in;
    return in->count && in->items[in->count - 1] == word ? HR_OK : places_push(in, word);
}

/* What has appeared goes to the heap, which owns its words then. */
static hr_status queue_news(training *t) {
    hr_status status = HR_OK;
    for (size_t i = 0; i < t->news.count && status == HR_OK; i++) {
        appeared *a = &t->news.items[i];
        const int64_t n = count_of(t, a->pair);
        if (n > 0) {
            status = put(&t->queue, (candidate){n, a->pair, a->in});
        }
        if (n > 0 && status == HR_OK) {
            a->in = (places){0};
        }
    }
    for (size_t i = 0; i < t->news.count; i++) {
        places_deinit(&t->news.items[i].in);
    }
    appearances_clear(&t->news);
    hri_intmap_deinit(&t->fresh);
    return status;
}

static hr_status count_pairs(training *t) {
    hr_status status = HR_OK;
    for (size_t w = 0; w < t->counts->count && status == HR_OK; w++) {
        const int32_t *s = t->symbols + t->counts->words[w].at;
        for (uint32_t i = 0; i + 1 < t->length[w] && status == HR_OK; i++) {
            status = change(t, pair_of(s[i], s[i + 1]), (uint32_t)w, 1);
        }
    }
    return status == HR_OK ? queue_news(t) : status;
}

/* ---- merging ---- */

static hr_status merge_in(training *t, uint32_t word, uint64_t pair, int32_t token) {
    int32_t *s = t->symbols + t->counts->words[word].at;
    const int32_t left = (int32_t)(pair >> 32), right = (int32_t)(uint32_t)pair;
    uint32_t n = t->length[word], to = 0;
    hr_status status = HR_OK;
    /* s[0..to) is done; what is read lies at or behind it. */
    for (uint32_t i = 0; i < n && status == HR_OK; to++) {
        if (s[i] != left || i + 1 >= n || s[i + 1] != right) {
            s[to] = s[i++];
            continue;
        }
        if (to > 0) {
            status = change(t, pair_of(s[to - 1], left), word, -1);
            status = status == HR_OK ? change(t, pair_of(s[to - 1], token), word, 1) : status;
        }
        i += 2;
        if (i < n && status == HR_OK) {
            status = change(t, pair_of(right, s[i]), word, -1);
            status = status == HR_OK ? change(t, pair_of(token, s[i]), word, 1) : status;
        }
        s[to] = token;
    }
    t->length[word] = to;
    return status;
}

/* The token of two others together: a new one, or one that others make, too. */
static hr_status token_of(training *t, uint64_t pair, int32_t *out) {
    const char *a = t->texts[pair >> 32], *b = t->texts[(uint32_t)pair];
    const size_t n = strlen(a), k = strlen(b);
    char *text = hri_malloc(n + k + 1);
    uint64_t known;
    if (!text) {
        return HR_E_NOMEM_HOST;
    }
    memcpy(text, a, n);
    memcpy(text + n, b, k + 1);
    if (hri_strmap_get(&t->names, text, &known)) {
        hri_free(text);
        *out = (int32_t)known;
        return HR_OK;
    }
    const hr_status status = hri_strmap_put(&t->names, text, (uint64_t)t->token_count);
    if (status != HR_OK) {
        hri_free(text);
        return status;
    }
    *out = t->token_count;
    t->texts[t->token_count++] = text;
    return HR_OK;
}

static hr_status merge_top(training *t, const candidate *top, hri_bpe_merges *out) {
    int32_t token = 0;
    hr_status status = token_of(t, top->pair, &token);
    if (status == HR_OK) {
        status = hri_bpe_merges_push(
            out, (hri_bpe_pair){(int32_t)(top->pair >> 32), (int32_t)(uint32_t)top->pair, token});
    }
    for (size_t i = 0; i < top->in.count && status == HR_OK; i++) {
        status = merge_in(t, top->in.items[i], top->pair, token);
    }
    return status == HR_OK ? queue_news(t) : status;
}

static hr_status merge_all(training *t, int32_t tokens, uint64_t least, hri_bpe_merges *out,
                           hri_bpe_train_fn *fn, void *user) {
    const uint64_t total = (uint64_t)(tokens - t->token_count);
    hr_status status = HR_OK;
    while (status == HR_OK && t->token_count < tokens && t->queue.count) {
        candidate top = take(&t->queue);
        const int64_t now = count_of(t, top.pair);
        if (top.count != now) {
            top.count = now;
            status = put(&t->queue, top); /* there is room: it was just taken out */
            continue;
        }
        const bool over = now < 1 || (uint64_t)now < least;
        status = over ? HR_OK : merge_top(t, &top, out);
        places_deinit(&top.in);
        if (over) {
            break;
        }
        status = status == HR_OK && out->count % 64 == 0 ? fn(user, out->count, total) : status;
    }
    return status;
}

/* ---- opening ---- */

static hr_status name_bytes(training *t, int32_t first, const int32_t *number) {
    hri_bpe b;
    hr_status status = HR_OK;
    hri_bpe_init(&b);
    for (int i = 0; i < 256 && status == HR_OK; i++) {
        const unsigned letter = b.letter[i];
        char name[3] = {(char)letter, 0, 0};
        if (letter >= 0x80) {
            name[0] = (char)(0xc0 | letter >> 6);
            name[1] = (char)(0x80 | (letter & 63));
        }
        t->texts[number[i]] = hri_strdup(name);
        status = t->texts[number[i]] ? hri_strmap_put(&t->names, name, (uint64_t)number[i])
                                     : HR_E_NOMEM_HOST;
    }
    hri_bpe_deinit(&b);
    t->token_count = first + 256;
    return status;
}

static hr_status begin(training *t, int32_t first, int32_t tokens) {
    const hri_word_counts *c = t->counts;
    int32_t number[256];
    t->symbols = hri_calloc(c->texts_used + 1, sizeof *t->symbols);
    t->length = hri_calloc(c->count + 1, sizeof *t->length);
    t->texts =
        hri_calloc((size_t)(tokens > first + 256 ? tokens : first + 256) + 1, sizeof *t->texts);
    if (!t->symbols || !t->length || !t->texts) {
        return HR_E_NOMEM_HOST;
    }
    hri_bpe_train_alphabet(first, number);
    for (size_t i = 0; i < c->texts_used; i++) {
        t->symbols[i] = number[(unsigned char)c->texts[i]];
    }
    for (size_t w = 0; w < c->count; w++) {
        t->length[w] = c->words[w].length;
    }
    return name_bytes(t, first, number);
}

static void training_deinit(training *t) {
    for (size_t i = 0; i < t->queue.count; i++) {
        places_deinit(&t->queue.items[i].in);
    }
    for (size_t i = 0; i < t->news.count; i++) {
        places_deinit(&t->news.items[i].in);
    }
    for (int32_t i = 0; t->texts && i < t->token_count; i++) {
        hri_free(t->texts[i]);
    }
    heap_deinit(&t->queue);
    appearances_deinit(&t->news);
    hri_intmap_deinit(&t->pairs);
    hri_intmap_deinit(&t->fresh);
    hri_strmap_deinit(&t->names);
    hri_free(t->texts);
    hri_free(t->symbols);
    hri_free(t->length);
}

hr_status hri_bpe_train(const hri_word_counts *counts, int32_t first, int32_t tokens,
                        uint64_t least, hri_bpe_merges *out, hri_bpe_train_fn *fn, void *user) {
    training t = {.counts = counts};
    hr_status status = begin(&t, first, tokens);
    status = status == HR_OK ? count_pairs(&t) : status;
    status = status == HR_OK ? merge_all(&t, tokens, least, out, fn, user) : status;
    training_deinit(&t);
    return status;
}
