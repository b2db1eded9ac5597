/* See wordpiece.h. */
#include "data/text/wordpiece.h"

#include <string.h>

#include "base/alloc.h"
#include "base/visible.h"
#include "data/text/bert_tables.h"

#define IN(TABLE, C) in_table(TABLE, sizeof(TABLE) / sizeof(TABLE)[0], 2, C)

enum { MOST = 3, FFFD = 0xfffd };

HRI_VECTOR(characters, uint32_t)

/* The last row that begins at or before c; NULL: none. */
static const uint32_t *row_of(const uint32_t *table, size_t count, size_t width, uint32_t c) {
    size_t low = 0, high = count / width;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (table[middle * width] <= c) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low ? table + (low - 1) * width : NULL;
}

static int in_table(const uint32_t *table, size_t count, size_t width, uint32_t c) {
    const uint32_t *row = row_of(table, count, width, c);
    return row && c <= row[1];
}

/* What a character becomes by a table of up to three; 0: it is not in it. */
static size_t look_up(const uint32_t *table, size_t count, uint32_t c, uint32_t out[MOST]) {
    const uint32_t *row = row_of(table, count, 1 + MOST, c);
    size_t n = 0;
    if (!row || row[0] != c) {
        return 0;
    }
    while (n < MOST && row[1 + n]) {
        out[n] = row[1 + n];
        n++;
    }
    return n;
}

/* Without accents: how many are left. */
static size_t strip(uint32_t c, uint32_t out[MOST]) {
    if (c < 0xc0) {
        out[0] = c;
        return 1;
    }
    if (c >= 0xac00 && c <= 0xd7a3) { /* a syllable of Hangul into its letters */
        const uint32_t s = c - 0xac00;
        out[0] = 0x1100 + s / 588;
        out[1] = 0x1161 + s % 588 / 28;
        out[2] = 0x11a7 + s % 28;
        return s % 28 ? 3 : 2;
    }
    const uint32_t *one = row_of(one_strip, sizeof one_strip / sizeof one_strip[0], 2, c);
    const size_t n = look_up(more_strip, sizeof more_strip / sizeof more_strip[0], c, out);
    if (n) {
        return n;
    }
    out[0] = one && one[0] == c ? one[1] : c;
    return IN(in_marks, c) ? 0 : 1;
}

static size_t lower(uint32_t c, uint32_t out[MOST]) {
    const size_t n = look_up(more_lower, sizeof more_lower / sizeof more_lower[0], c, out);
    const uint32_t *run = row_of(one_lower, sizeof one_lower / sizeof one_lower[0], 4, c);
    if (n) {
        return n;
    }
    out[0] = run && c <= run[1] && (c - run[0]) % run[2] == 0 ? c + run[3] : c;
    return 1;
}

static size_t read_one(const char *text, size_t left, uint32_t *out) {
    static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    char four[5] = "";
    memcpy(four, text, left < 4 ? left : 4); /* nothing need lie behind the text */
    const size_t n = *four ? hri_utf8_length(four) : 1;
    if (n == 0 || n > left) {
        *out = FFFD;
        return 1;
    }
    *out = (unsigned char)*text & first[n];
    for (size_t i = 1; i < n; i++) {
        *out = *out << 6 | ((unsigned char)text[i] & 0x3f);
    }
    return n;
}

/* One character as the normalizer leaves it. */
static hr_status add_plain(const hri_wordpiece *w, uint32_t c, characters *to) {
    uint32_t bare[MOST] = {c}, low[MOST];
    if (w->clean && IN(in_dropped, c)) {
        return HR_OK;
    }
    if (w->clean && IN(in_blank, c)) {
        bare[0] = c = ' ';
    }
    const int apart = w->chinese && IN(in_chinese, c);
    hr_status status = apart ? characters_push(to, ' ') : HR_OK;
    const size_t n = w->strip ? strip(c, bare) : 1;
    for (size_t i = 0; i < n && status == HR_OK; i++) {
        low[0] = bare[i];
        const size_t m = w->lower ? lower(bare[i], low) : 1;
        for (size_t k = 0; k < m && status == HR_OK; k++) {
            status = characters_push(to, low[k]);
        }
    }
    return status == HR_OK && apart ? characters_push(to, ' ') : status;
}

/* ---- words ---- */

static size_t write_one(uint32_t c, char *to) {
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--) {
        to[i] = (char)(0x80 | (c & 0x3f));
        c >>= 6;
    }
    to[0] = (char)(heads[n] | c);
    return n;
}

/* The longest pieces from the left.  The prefix is put over what was taken already. */
static hr_status encode_word(const hri_wordpiece *w, const hri_bpe *b, const uint32_t *word,
                             size_t count, hri_tokens *out) {
    char text[HRI_WORDPIECE_PREFIX + 4 * HRI_WORDPIECE_CHARS];
    size_t ends[HRI_WORDPIECE_CHARS + 1];
    const size_t prefix = strlen(w->prefix), before = out->count;
    if (count > (size_t)w->chars) {
        return hri_tokens_push(out, w->unknown);
    }
    ends[0] = prefix;
    for (size_t i = 0; i < count; i++) {
        ends[i + 1] = ends[i] + write_one(word[i], text + ends[i]);
    }
    hr_status status = HR_OK;
    for (size_t from = 0; from < count && status == HR_OK;) {
        const size_t begin = from ? ends[from] - prefix : ends[0];
        size_t to = count;
        uint64_t id = 0;
        if (from) {
            memcpy(text + begin, w->prefix, prefix);
        }
        while (to > from && !hri_strmap_get_n(&b->names, text + begin, ends[to] - begin, &id)) {
            to--;
        }
        if (to == from) {
            out->count = before;
            return hri_tokens_push(out, w->unknown);
        }
        status = hri_tokens_push(out, (int32_t)id);
        from = to;
    }
    return status;
}

static hr_status encode_words(const hri_wordpiece *w, const hri_bpe *b, const characters *all,
                              hri_tokens *out) {
    hr_status status = HR_OK;
    size_t from = 0;
    for (size_t i = 0; i <= all->count && status == HR_OK; i++) {
        const uint32_t c = i < all->count ? all->items[i] : ' ';
        const int alone = IN(in_punctuation, c);
        if (!alone && !IN(in_space, c)) {
            continue;
        }
        status = i > from ? encode_word(w, b, all->items + from, i - from, out) : HR_OK;
        if (status == HR_OK && alone) {
            status = encode_word(w, b, &c, 1, out);
        }
        from = i + 1;
    }
    return status;
}

hr_status hri_wordpiece_encode(const hri_wordpiece *w, const hri_bpe *b, const char *text,
                               size_t bytes, hri_tokens *out) {
    characters all = {0};
    hr_status status = HR_OK;
    for (size_t i = 0; i < bytes && status == HR_OK;) {
        uint32_t c;
        i += read_one(text + i, bytes - i, &c);
        status = add_plain(w, c, &all);
    }
    status = status == HR_OK ? encode_words(w, b, &all, out) : status;
    characters_deinit(&all);
    return status;
}
