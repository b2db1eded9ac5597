/* See bpe.h. */
#include "data/text/bpe.h"

#include <string.h>

#include "base/alloc.h"

/* ---- the alphabet of files ---- */

/* Printable bytes stand for themselves, the others for 256, 257 and so on, in order. */
static void fill_alphabet(hri_bpe *b) {
    uint16_t next = 256;
    memset(b->byte_of, 0xff, sizeof b->byte_of);
    for (uint16_t i = 0; i < 256; i++) {
        const int prints = (i >= 33 && i <= 126) || (i >= 161 && i != 173);
        b->letter[i] = prints ? i : next++;
        b->byte_of[b->letter[i]] = (int16_t)i;
    }
}

/* The bytes of a text in that alphabet; -1: a letter is not of it. */
static int read_letters(const hri_bpe *b, const char *name, char *out, uint32_t *length) {
    uint32_t n = 0;
    for (const unsigned char *p = (const unsigned char *)name; *p;) {
        uint32_t letter = *p++;
        if (letter >= 0xc0 && letter < 0xe0 && (*p & 0xc0) == 0x80) {
            letter = (letter & 31u) << 6 | (*p++ & 63u);
        } else if (letter >= 0x80) {
            return -1;
        }
        if (letter >= 512 || b->byte_of[letter] < 0) {
            return -1;
        }
        out[n++] = (char)b->byte_of[letter];
    }
    *length = n;
    return 0;
}

/* ---- the table ---- */

void hri_bpe_init(hri_bpe *b) {
    *b = (hri_bpe){0};
    memset(b->bytes, 0xff, sizeof b->bytes);
    fill_alphabet(b);
}

void hri_bpe_deinit(hri_bpe *b) {
    hri_bpe_tokens_deinit(&b->tokens);
    hri_strmap_deinit(&b->names);
    hri_intmap_deinit(&b->merges);
    hri_arena_deinit(&b->texts);
    *b = (hri_bpe){0};
}

hr_status hri_bpe_add(hri_bpe *b, const char *name, int64_t id, int raw, hri_prose *why) {
    char bytes[HRI_BPE_TOKEN_BYTES];
    uint32_t length = (uint32_t)strlen(name);
    if (id < 0 || id >= HRI_BPE_TOKENS || length >= sizeof bytes) {
        return hri_prose_set(why, HR_E_RANGE,
                             "token %lld, \"%.40s\": numbers go to %d, texts to %d bytes",
                             (long long)id, name, HRI_BPE_TOKENS - 1, HRI_BPE_TOKEN_BYTES - 1);
    }
    if (raw || read_letters(b, name, bytes, &length) != 0) {
        memcpy(bytes, name, length); /* an added token stands in the vocabulary as it is */
    }
    if ((size_t)id < b->tokens.count && b->tokens.items[id].bytes) {
        uint64_t there = 0;
        return hri_strmap_get(&b->names, name, &there) && (int64_t)there == id
                   ? HR_OK /* added tokens are often in the vocabulary, too */
                   : hri_prose_set(why, HR_E_FORMAT, "two tokens have the number %lld",
                                   (long long)id);
    }
    if ((size_t)id >= b->tokens.count &&
        hri_bpe_tokens_resize(&b->tokens, (size_t)id + 1) != HR_OK) {
        return HR_E_NOMEM_HOST;
    }
    char *copy = hri_arena_copy(&b->texts, bytes, length ? length : 1, 1);
    if (!copy || hri_strmap_put(&b->names, name, (uint64_t)id) != HR_OK) {
        return HR_E_NOMEM_HOST;
    }
    b->tokens.items[id] = (hri_bpe_token){copy, length};
    if (length == 1 && !raw) {
        b->bytes[(unsigned char)bytes[0]] = (int32_t)id;
    }
    return HR_OK;
}

hr_status hri_bpe_merge(hri_bpe *b, const char *left, size_t left_bytes, const char *right,
                        size_t right_bytes, hri_prose *why) {
    char name[2 * HRI_BPE_TOKEN_BYTES];
    uint64_t l = 0, r = 0, made = 0, there;
    const uint64_t rank = hri_intmap_count(&b->merges);
    if (left_bytes + right_bytes >= sizeof name) {
        return hri_prose_set(why, HR_E_RANGE, "merge %llu is too long", (unsigned long long)rank);
    }
    memcpy(name, left, left_bytes);
    memcpy(name + left_bytes, right, right_bytes);
    if (!hri_strmap_get_n(&b->names, left, left_bytes, &l) ||
        !hri_strmap_get_n(&b->names, right, right_bytes, &r) ||
        !hri_strmap_get_n(&b->names, name, left_bytes + right_bytes, &made)) {
        return hri_prose_set(
            why, HR_E_FORMAT,
            "merge %llu, \"%.*s\" and \"%.*s\": not all of them, and what they make, "
            "are in the vocabulary",
            (unsigned long long)rank + 1, (int)(left_bytes < 40 ? left_bytes : 40), left,
            (int)(right_bytes < 40 ? right_bytes : 40), right);
    }
    return hri_intmap_get(&b->merges, l << 32 | r, &there)
               ? hri_prose_set(why, HR_E_FORMAT, "merge %llu is there twice",
                               (unsigned long long)rank + 1)
               : hri_intmap_put(&b->merges, l << 32 | r, rank << 32 | made);
}

hr_status hri_bpe_settle(hri_bpe *b, hri_prose *why) {
    for (int i = 0; i < 256; i++) {
        if (b->bytes[i] < 0) {
            return hri_prose_set(why, HR_E_FORMAT,
                                 "byte %d has no token; only byte-level BPE is supported", i);
        }
    }
    return HR_OK;
}

/* ---- encoding ---- */

/* A part of the piece: a token, and its neighbours; next -1 behind the last.  token -1: it was merged into the one before. */
typedef struct part {
    int32_t token, before, next;
} part;

typedef struct pair {
    uint64_t rank_made; /* as in merges */
    int32_t left, right_token, left_token;
} pair;

HRI_VECTOR(parts, part)
HRI_VECTOR(pairs, pair)

struct hri_bpe_work {
    parts parts;
    pairs heap;
};

hr_status hri_bpe_work_open(hri_bpe_work **out) {
    hri_bpe_work *w = hri_calloc(1, sizeof *w);
    if (!w) {
        return HR_E_NOMEM_HOST;
    }
    *out = w;
    return HR_OK;
}

void hri_bpe_work_close(hri_bpe_work *w) {
    if (w) {
        parts_deinit(&w->parts);
        pairs_deinit(&w->heap);
        hri_free(w);
    }
}

static int comes_first(const pair *a, const pair *b) {
    const uint64_t x = a->rank_made >> 32, y = b->rank_made >> 32;
    return x != y ? x < y : a->left < b->left;
}

static hr_status push(hri_bpe_work *w, pair p) {
    const hr_status status = pairs_push(&w->heap, p);
    pair *h = w->heap.items;
    for (size_t i = w->heap.count - 1; status == HR_OK && i && comes_first(&p, &h[(i - 1) / 2]);) {
        h[i] = h[(i - 1) / 2];
        i = (i - 1) / 2;
        h[i] = p;
    }
    return status;
}

static pair pop(hri_bpe_work *w) {
    pair *h = w->heap.items;
    const pair first = h[0], last = h[--w->heap.count];
    const size_t n = w->heap.count;
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && comes_first(&h[child + 1], &h[child]);
        if (!comes_first(&h[child], &last)) {
            break;
        }
        h[i] = h[child];
    }
    if (n) {
        h[i] = last;
    }
    return first;
}

/* The pair that begins at part i, where it can be merged. */
static hr_status consider(const hri_bpe *b, hri_bpe_work *w, int32_t i) {
    const part *p = w->parts.items;
    uint64_t found;
    if (i < 0 || p[i].next < 0) {
        return HR_OK;
    }
    const int32_t left = p[i].token, right = p[p[i].next].token;
    return hri_intmap_get(&b->merges, (uint64_t)left << 32 | (uint32_t)right, &found)
               ? push(w, (pair){found, i, right, left})
               : HR_OK;
}

static hr_status merge_all(const hri_bpe *b, hri_bpe_work *w) {
    part *p = w->parts.items;
    hr_status status = HR_OK;
    while (status == HR_OK && w->heap.count) {
        const pair best = pop(w);
        part *left = &p[best.left];
        if (left->token != best.left_token || left->next < 0 ||
            p[left->next].token != best.right_token) {
            continue; /* one of them is gone */
        }
        part *right = &p[left->next];
        left->token = (int32_t)(uint32_t)best.rank_made;
        right->token = -1;
        left->next = right->next;
        if (left->next >= 0) {
            p[left->next].before = best.left;
        }
        status = consider(b, w, left->before);
        status = status == HR_OK ? consider(b, w, best.left) : status;
    }
    return status;
}

/* A piece that is a token by itself, found by its text in the file's alphabet. */
static int find_whole(const hri_bpe *b, const char *piece, size_t bytes, uint64_t *out) {
    char name[512];
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        const uint32_t letter = b->letter[(unsigned char)piece[i]];
        if (n + 3 > sizeof name) {
            return 0;
        }
        if (letter < 0x80) {
            name[n++] = (char)letter;
        } else {
            name[n++] = (char)(0xc0 | letter >> 6);
            name[n++] = (char)(0x80 | (letter & 63));
        }
    }
    return hri_strmap_get_n(&b->names, name, n, out);
}

hr_status hri_bpe_encode(const hri_bpe *b, hri_bpe_work *w, const char *piece, size_t bytes,
                         int whole, hri_tokens *out) {
    uint64_t one;
    if (bytes > INT32_MAX) {
        return HR_E_RANGE;
    }
    if (bytes == 1 || (whole && find_whole(b, piece, bytes, &one))) {
        return hri_tokens_push(out, bytes == 1 ? b->bytes[(unsigned char)*piece] : (int32_t)one);
    }
    parts_clear(&w->parts);
    pairs_clear(&w->heap);
    hr_status status = parts_reserve(&w->parts, bytes);
    for (size_t i = 0; status == HR_OK && i < bytes; i++) {
        w->parts.items[w->parts.count++] = (part){b->bytes[(unsigned char)piece[i]], (int32_t)i - 1,
                                                  i + 1 < bytes ? (int32_t)i + 1 : -1};
    }
    for (size_t i = 0; status == HR_OK && i < bytes; i++) {
        status = consider(b, w, (int32_t)i);
    }
    status = status == HR_OK ? merge_all(b, w) : status;
    for (int32_t i = 0; status == HR_OK && i >= 0 && bytes; i = w->parts.items[i].next) {
        status = hri_tokens_push(out, w->parts.items[i].token);
    }
    return status;
}
