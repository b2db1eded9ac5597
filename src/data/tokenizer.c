/* Tokens that are bytes, or those of a file; see tokenizer.h. */
#include "data/tokenizer.h"

#include <string.h>

#include "base/alloc.h"
#include "data/text/split.h"
#include "data/text/tokenizer_file.h"

enum { BYTES = 256 };

struct hri_tokenizer {
    char bytes[BYTES];
    int has_file;
    hri_tokenizer_file file;
};

hr_status hri_tokenizer_open(const char *path, hri_tokenizer **out, hri_prose *why) {
    hri_tokenizer *t = hri_calloc(1, sizeof *t);
    if (!t) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for the tokenizer");
    }
    for (int i = 0; i < BYTES; i++) {
        t->bytes[i] = (char)i;
    }
    t->has_file = path != NULL;
    const hr_status status = path ? hri_tokenizer_file_read(path, &t->file, why) : HR_OK;
    if (status != HR_OK) {
        hri_free(t);
        return status;
    }
    *out = t;
    return HR_OK;
}

void hri_tokenizer_close(hri_tokenizer *t) {
    if (t && t->has_file) {
        hri_tokenizer_file_deinit(&t->file);
    }
    hri_free(t);
}

int64_t hri_tokenizer_count(const hri_tokenizer *t) {
    return t->has_file ? (int64_t)t->file.bpe.tokens.count : BYTES;
}

int32_t hri_tokenizer_end(const hri_tokenizer *t) {
    return t->has_file ? t->file.end : -1;
}

/* The added token that has one of these names; -1: none. */
static int32_t find_added(const hri_tokenizer *t, const char *const names[3]) {
    for (size_t i = 0; t->has_file && i < t->file.added.count; i++) {
        const hri_added_token *a = &t->file.added.items[i];
        for (size_t k = 0; k < 3; k++) {
            if (strlen(names[k]) == a->length && !memcmp(names[k], a->text, a->length)) {
                return a->token;
            }
        }
    }
    return -1;
}

int32_t hri_tokenizer_mask(const hri_tokenizer *t) {
    static const char *const names[] = {"[MASK]", "<mask>", "<|mask|>"};
    return find_added(t, names);
}

int32_t hri_tokenizer_pad(const hri_tokenizer *t) {
    static const char *const names[] = {"[PAD]", "<pad>", "<|pad|>"};
    return find_added(t, names);
}

void hri_tokenizer_around(const hri_tokenizer *t, int32_t *begin, int32_t *end) {
    const hri_wordpiece *w = &t->file.wordpiece;
    *begin = t->has_file && w->on ? w->begin : -1;
    *end = t->has_file && w->on ? w->end : -1;
}

int hri_tokenizer_needs_utf8(const hri_tokenizer *t) {
    return t->has_file && t->file.wordpiece.on;
}

uint64_t hri_tokenizer_bytes(const hri_tokenizer *t) {
    enum { EACH = 256, PATTERN = 256 << 10 }; /* of the tables; of a pattern that is compiled */
    return sizeof *t + (t->has_file ? PATTERN + EACH * (uint64_t)t->file.bpe.tokens.count : 0);
}

void hri_tokenizer_print(const hri_tokenizer *t, hri_sha256 *to) {
    const hri_tokenizer_file *f = &t->file;
    uint64_t merge[2];
    hri_sha256_add_string(to, !t->has_file ? "bytes" : f->wordpiece.on ? "wordpiece 1" : "bpe 1");
    if (!t->has_file) {
        return;
    }
    if (f->wordpiece.on) {
        const hri_wordpiece *w = &f->wordpiece;
        const int64_t how[] = {w->clean, w->chinese, w->strip, w->lower, w->chars, w->unknown};
        hri_sha256_add(to, how, sizeof how);
        hri_sha256_add_string(to, w->prefix);
    }
    hri_sha256_add_string(to, f->pattern ? f->pattern : "");
    const int how[] = {f->pattern != NULL, f->prefix_space, f->whole};
    hri_sha256_add(to, how, sizeof how);
    for (size_t i = 0; i < f->bpe.tokens.count; i++) {
        const hri_bpe_token *token = &f->bpe.tokens.items[i];
        hri_sha256_add(to, &token->length, sizeof token->length);
        hri_sha256_add(to, token->bytes, token->bytes ? token->length : 0);
    }
    for (size_t at = 0; hri_intmap_next(&f->bpe.merges, &at, &merge[0], &merge[1]);) {
        hri_sha256_add(to, merge, sizeof merge);
    }
    for (size_t i = 0; i < f->added.count; i++) {
        hri_sha256_add(to, f->added.items[i].text, f->added.items[i].length);
        hri_sha256_add(to, &f->added.items[i].token, sizeof f->added.items[i].token);
    }
}

const char *hri_tokenizer_text(const hri_tokenizer *t, int32_t token, size_t *bytes) {
    *bytes = 0;
    if (token < 0 || token >= hri_tokenizer_count(t)) {
        return NULL;
    }
    if (!t->has_file) {
        *bytes = 1;
        return &t->bytes[token];
    }
    *bytes = t->file.bpe.tokens.items[token].length;
    return t->file.bpe.tokens.items[token].bytes;
}

/* ---- encoding ---- */

struct hri_encoder {
    const hri_tokenizer *tokenizer;
    const hri_tokenizer_file *file;
    hri_text_split split;
    hri_bpe_work *work;
    hri_tokens *out;
    hri_prose *why;
    int inside; /* what comes next goes on with a text */
};

static hr_status encode_piece(void *user, const char *text, size_t bytes) {
    hri_encoder *e = user;
    if (e->file->wordpiece.on) {
        return hri_wordpiece_encode(&e->file->wordpiece, &e->file->bpe, text, bytes, e->out);
    }
    return hri_bpe_encode(&e->file->bpe, e->work, text, bytes, e->file->whole, e->out);
}

static hr_status encode_plain(hri_encoder *e, const char *text, size_t bytes) {
    return e->split.code ? hri_text_split_run(&e->split, text, bytes, encode_piece, e, e->why)
                         : encode_piece(e, text, bytes);
}

/* Text without added tokens, at least one byte. */
static hr_status encode_part(hri_encoder *e, const char *text, size_t bytes) {
    const int inside = e->inside;
    e->inside = 0;
    if (!e->file->prefix_space || *text == ' ' || inside) {
        return encode_plain(e, text, bytes);
    }
    char *with = hri_malloc(bytes + 1);
    if (!with) {
        return HR_E_NOMEM_HOST;
    }
    with[0] = ' ';
    memcpy(with + 1, text, bytes);
    const hr_status status = encode_plain(e, with, bytes + 1);
    hri_free(with);
    return status;
}

/* The longest added token that stands here; NULL: none. */
static const hri_added_token *added_at(const hri_tokenizer_file *f, const char *text, size_t left) {
    const hri_added_token *best = NULL;
    for (size_t i = 0; i < f->added.count; i++) {
        const hri_added_token *a = &f->added.items[i];
        if (a->length <= left && a->text[0] == text[0] && !memcmp(a->text, text, a->length) &&
            (!best || a->length > best->length)) {
            best = a;
        }
    }
    return best;
}

static hr_status encode_all(hri_encoder *e, const char *text, size_t bytes) {
    size_t from = 0, at = 0;
    hr_status status = HR_OK;
    while (at < bytes && status == HR_OK) {
        const hri_added_token *a = added_at(e->file, text + at, bytes - at);
        if (!a) {
            at++;
            continue;
        }
        status = at > from ? encode_part(e, text + from, at - from) : HR_OK;
        status = status == HR_OK ? hri_tokens_push(e->out, a->token) : status;
        e->inside = 0;
        from = at += a->length;
    }
    return status == HR_OK && bytes > from ? encode_part(e, text + from, bytes - from) : status;
}

static hr_status encode_bytes(const char *text, size_t bytes, hri_tokens *out) {
    const hr_status status = hri_tokens_reserve(out, out->count + bytes);
    for (size_t i = 0; status == HR_OK && i < bytes; i++) {
        out->items[out->count++] = (unsigned char)text[i];
    }
    return status;
}

hr_status hri_encoder_open(const hri_tokenizer *t, hri_encoder **out, hri_prose *why) {
    hri_encoder *e = hri_calloc(1, sizeof *e);
    if (!e) {
        return HR_E_NOMEM_HOST;
    }
    e->tokenizer = t;
    e->file = &t->file;
    hr_status status = t->has_file ? hri_bpe_work_open(&e->work) : HR_OK;
    if (status == HR_OK && t->has_file && t->file.pattern) {
        status = hri_text_split_open(t->file.pattern, &e->split, why);
    }
    if (status != HR_OK) {
        hri_encoder_close(e);
        return status;
    }
    *out = e;
    return HR_OK;
}

void hri_encoder_close(hri_encoder *e) {
    if (e) {
        hri_text_split_close(&e->split);
        hri_bpe_work_close(e->work);
        hri_free(e);
    }
}

hr_status hri_encoder_encode(hri_encoder *e, int inside, const char *text, size_t bytes,
                             hri_tokens *out, hri_prose *why) {
    const size_t before = out->count;
    if (!e->tokenizer->has_file) {
        return encode_bytes(text, bytes, out);
    }
    e->out = out;
    e->why = why;
    e->inside = inside;
    const hr_status status = encode_all(e, text, bytes);
    out->count = status == HR_OK ? out->count : before;
    return status;
}

static hr_status encode(const hri_tokenizer *t, int inside, const char *text, size_t bytes,
                        hri_tokens *out, hri_prose *why) {
    hri_encoder *e = NULL;
    hr_status status = hri_encoder_open(t, &e, why);
    status = status == HR_OK ? hri_encoder_encode(e, inside, text, bytes, out, why) : status;
    hri_encoder_close(e);
    return status;
}

hr_status hri_tokenizer_encode(const hri_tokenizer *t, const char *text, size_t bytes,
                               hri_tokens *out, hri_prose *why) {
    return encode(t, 0, text, bytes, out, why);
}

hr_status hri_tokenizer_go_on(const hri_tokenizer *t, const char *text, size_t bytes,
                              hri_tokens *out, hri_prose *why) {
    return encode(t, 1, text, bytes, out, why);
}
