/* See tokenizer_file.h. */
#include "data/text/tokenizer_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json_stream.h"
#include "data/text/split.h"

enum { FILE_MAX = 256 << 20 };

typedef struct reader {
    hri_json_stream *json;
    hri_tokenizer_file *to;
    hri_prose *why;
    int has_bytes;             /* ByteLevel stands among the pre-tokenizers */
    int bert_text, bert_words; /* BertNormalizer, BertPreTokenizer */
    char unknown[64];
    int has_vocab; /* it was read */
} reader;

static hr_status next(reader *r, hri_json_token *t) {
    return hri_json_stream_next(r->json, t, r->why);
}

static hr_status expect(reader *r, const hri_json_token *t, hri_json_kind kind, const char *what) {
    return t->kind == kind
               ? HR_OK
               : hri_prose_set(r->why, HR_E_FORMAT, "%s is not of the right kind", what);
}

static hr_status refuse(reader *r, const char *what) {
    return hri_prose_set(r->why, HR_E_UNSUPPORTED,
                         "%s is not supported; byte-level BPE and BERT's WordPiece are", what);
}

/* ---- added tokens ---- */

static hr_status keep_added(reader *r, const char *text, int64_t id) {
    hri_tokenizer_file *f = r->to;
    if (!*text || f->added.count == HRI_TOKENIZER_ADDED) {
        return hri_prose_set(r->why, HR_E_RANGE,
                             "an added token is empty, or there are more than %d of them",
                             HRI_TOKENIZER_ADDED);
    }
    hr_status status = hri_bpe_add(&f->bpe, text, id, 1, r->why);
    if (status == HR_OK) {
        const hri_bpe_token *made = &f->bpe.tokens.items[id];
        status = hri_added_tokens_push(&f->added,
                                       (hri_added_token){made->bytes, made->length, (int32_t)id});
    }
    return status;
}

static hr_status read_added(reader *r) {
    hri_json_token t;
    char text[HRI_BPE_TOKEN_BYTES] = "";
    int64_t id = -1;
    int odd = 0;
    hr_status status;
    while ((status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_OBJECT_END) {
        if (!strcmp(t.key, "content") && t.kind == HRI_JSON_STRING && !t.cut && !t.nul &&
            t.bytes < sizeof text) {
            memcpy(text, t.text, t.bytes + 1);
        } else if (!strcmp(t.key, "id") && t.kind == HRI_JSON_INTEGER) {
            id = t.integer;
        } else if (t.kind == HRI_JSON_BOOL && t.integer) {
            odd |= !strcmp(t.key, "lstrip") || !strcmp(t.key, "rstrip") ||
                   !strcmp(t.key, "single_word");
        }
        status = hri_json_stream_skip(r->json, &t, r->why);
        if (status != HR_OK) {
            return status;
        }
    }
    return status != HR_OK ? status
           : odd           ? refuse(r, "an added token with lstrip, rstrip or single_word")
                           : keep_added(r, text, id);
}

static hr_status read_all_added(reader *r) {
    hri_json_token t;
    hr_status status;
    while ((status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_ARRAY_END) {
        status = expect(r, &t, HRI_JSON_OBJECT, "an added token");
        status = status == HR_OK ? read_added(r) : status;
        if (status != HR_OK) {
            return status;
        }
    }
    return status;
}

/* ---- the pattern ---- */

static hr_status set_pattern(reader *r, const char *pattern) {
    if (r->to->pattern) {
        return refuse(r, "more than one pattern");
    }
    r->to->pattern = hri_arena_strdup(&r->to->bpe.texts, pattern);
    return r->to->pattern ? HR_OK : HR_E_NOMEM_HOST;
}

typedef struct pre {
    char type[32], behavior[32];
    char pattern[16384];
    int prefix, regex, invert;
} pre;

static hr_status read_pre(reader *r);

static hr_status take_pre(reader *r, const pre *p) {
    const int isolated = !strcmp(p->behavior, "Isolated") && !p->invert;
    const int removed = !strcmp(p->behavior, "Removed") && p->invert;
    if (!strcmp(p->type, "ByteLevel")) {
        r->has_bytes = 1;
        r->to->prefix_space = p->prefix;
        return p->regex ? set_pattern(r, hri_text_split_gpt2) : HR_OK;
    }
    if (!strcmp(p->type, "Split") && p->pattern[0] && (isolated || removed)) {
        return set_pattern(r, p->pattern);
    }
    r->bert_words |= !strcmp(p->type, "BertPreTokenizer");
    return !strcmp(p->type, "Sequence") || r->bert_words ? HR_OK : refuse(r, "its pre-tokenizer");
}

/* {"Regex": "..."} */
static hr_status read_pattern(reader *r, char *to, size_t size) {
    hri_json_token t;
    hr_status status;
    while ((status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_OBJECT_END) {
        if (strcmp(t.key, "Regex") != 0 || t.kind != HRI_JSON_STRING || t.cut || t.nul ||
            t.bytes >= size) {
            return refuse(r, "a pattern that is not a short regular expression");
        }
        memcpy(to, t.text, t.bytes + 1);
    }
    return status;
}

static hr_status read_sequence(reader *r) {
    hri_json_token t;
    hr_status status;
    while ((status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_ARRAY_END) {
        status = expect(r, &t, HRI_JSON_OBJECT, "a pre-tokenizer");
        status = status == HR_OK ? read_pre(r) : status;
        if (status != HR_OK) {
            return status;
        }
    }
    return status;
}

static void take_text(const hri_json_token *t, char *to, size_t size) {
    snprintf(to, size, "%s", t->kind == HRI_JSON_STRING ? t->text : "");
}

static hr_status read_pre_member(reader *r, const hri_json_token *t, pre *p) {
    if (!strcmp(t->key, "type")) {
        take_text(t, p->type, sizeof p->type);
    } else if (!strcmp(t->key, "behavior")) {
        take_text(t, p->behavior, sizeof p->behavior);
    } else if (!strcmp(t->key, "add_prefix_space")) {
        p->prefix = t->integer != 0;
    } else if (!strcmp(t->key, "use_regex")) {
        p->regex = t->integer != 0;
    } else if (!strcmp(t->key, "invert")) {
        p->invert = t->integer != 0;
    } else if (!strcmp(t->key, "pattern") && t->kind == HRI_JSON_OBJECT) {
        return read_pattern(r, p->pattern, sizeof p->pattern);
    } else if (!strcmp(t->key, "pretokenizers") && t->kind == HRI_JSON_ARRAY) {
        return read_sequence(r);
    }
    return hri_json_stream_skip(r->json, t, r->why);
}

static hr_status read_pre(reader *r) {
    hri_json_token t;
    pre *p = hri_calloc(1, sizeof *p);
    hr_status status = p ? HR_OK : HR_E_NOMEM_HOST;
    if (p) {
        p->regex = 1;
    }
    while (status == HR_OK && (status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_OBJECT_END) {
        status = read_pre_member(r, &t, p);
    }
    status = status == HR_OK ? take_pre(r, p) : status;
    hri_free(p);
    return status;
}

/* ---- the model ---- */

static hr_status read_vocab(reader *r) {
    hri_json_token t;
    hr_status status;
    while ((status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_OBJECT_END) {
        status = expect(r, &t, HRI_JSON_INTEGER, "the number of a token");
        status = status == HR_OK
                     ? hri_bpe_add(&r->to->bpe, t.key, t.integer, r->to->wordpiece.on, r->why)
                     : status;
        if (status != HR_OK) {
            return status;
        }
    }
    return status;
}

static hr_status merge_line(reader *r, const char *line, size_t bytes) {
    const char *space = memchr(line, ' ', bytes);
    if (!space) {
        return hri_prose_set(r->why, HR_E_FORMAT, "a merge is not two texts with a space between");
    }
    return hri_bpe_merge(&r->to->bpe, line, (size_t)(space - line), space + 1,
                         bytes - (size_t)(space + 1 - line), r->why);
}

/* ["left", "right"] */
static hr_status merge_pair(reader *r) {
    hri_json_token t;
    char left[HRI_BPE_TOKEN_BYTES];
    size_t bytes = 0;
    hr_status status = HR_OK;
    for (int i = 0; i < 2 && status == HR_OK; i++) {
        status = next(r, &t);
        if (status == HR_OK && (t.kind != HRI_JSON_STRING || t.bytes >= sizeof left)) {
            return hri_prose_set(r->why, HR_E_FORMAT, "a merge is not a pair of texts");
        }
        if (status == HR_OK && i == 0) {
            memcpy(left, t.text, t.bytes);
            bytes = t.bytes;
        }
    }
    status =
        status == HR_OK ? hri_bpe_merge(&r->to->bpe, left, bytes, t.text, t.bytes, r->why) : status;
    status = status == HR_OK ? next(r, &t) : status;
    return status == HR_OK ? expect(r, &t, HRI_JSON_ARRAY_END, "a merge") : status;
}

static hr_status read_merges(reader *r) {
    hri_json_token t;
    hr_status status;
    while ((status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_ARRAY_END) {
        status = t.kind == HRI_JSON_STRING ? merge_line(r, t.text, t.bytes)
                 : t.kind == HRI_JSON_ARRAY
                     ? merge_pair(r)
                     : hri_prose_set(r->why, HR_E_FORMAT, "a merge is not a text or a pair");
        if (status != HR_OK) {
            return status;
        }
    }
    return status;
}

/* What WordPiece has and BPE has not. */
static hr_status read_wordpiece_member(reader *r, const hri_json_token *t) {
    hri_wordpiece *w = &r->to->wordpiece;
    if (!strcmp(t->key, "unk_token")) {
        take_text(t, r->unknown, sizeof r->unknown);
    } else if (!strcmp(t->key, "continuing_subword_prefix")) {
        if (t->kind != HRI_JSON_STRING || t->bytes >= sizeof w->prefix) {
            return refuse(r, "a long prefix of pieces");
        }
        take_text(t, w->prefix, sizeof w->prefix);
    } else if (!strcmp(t->key, "max_input_chars_per_word")) {
        if (t->kind != HRI_JSON_INTEGER || t->integer < 1 || t->integer > HRI_WORDPIECE_CHARS) {
            return hri_prose_set(r->why, HR_E_RANGE, "max_input_chars_per_word is not 1 to %d",
                                 HRI_WORDPIECE_CHARS);
        }
        w->chars = t->integer;
    } else if (!strcmp(t->key, "vocab") && t->kind == HRI_JSON_OBJECT) {
        return read_vocab(r);
    }
    return hri_json_stream_skip(r->json, t, r->why);
}

static void init_wordpiece(reader *r) {
    r->to->wordpiece = (hri_wordpiece){.on = 1,
                                       .clean = r->to->wordpiece.clean,
                                       .chinese = r->to->wordpiece.chinese,
                                       .strip = r->to->wordpiece.strip,
                                       .lower = r->to->wordpiece.lower,
                                       .prefix = "##",
                                       .chars = 100};
    snprintf(r->unknown, sizeof r->unknown, "[UNK]");
}

static hr_status read_model_member(reader *r, const hri_json_token *t) {
    if (!strcmp(t->key, "type") && !strcmp(t->text, "WordPiece") && !r->has_vocab) {
        init_wordpiece(r);
    } else if (!strcmp(t->key, "type") && strcmp(t->text, "BPE") != 0) {
        char what[96];
        snprintf(what, sizeof what, "its model (%.40s)", t->text);
        return refuse(r, what);
    }
    r->has_vocab |= !strcmp(t->key, "vocab");
    if (r->to->wordpiece.on) {
        return read_wordpiece_member(r, t);
    }
    if ((!strcmp(t->key, "continuing_subword_prefix") || !strcmp(t->key, "end_of_word_suffix")) &&
        *t->text) {
        return refuse(r, "a prefix or suffix of words");
    }
    if ((!strcmp(t->key, "dropout") && t->kind != HRI_JSON_NULL && t->real != 0) ||
        (!strcmp(t->key, "byte_fallback") && t->integer)) {
        return refuse(r, "dropout or byte_fallback");
    }
    r->to->whole |= !strcmp(t->key, "ignore_merges") && t->integer;
    if (!strcmp(t->key, "vocab") && t->kind == HRI_JSON_OBJECT) {
        return read_vocab(r);
    }
    if (!strcmp(t->key, "merges") && t->kind == HRI_JSON_ARRAY) {
        return read_merges(r);
    }
    return hri_json_stream_skip(r->json, t, r->why);
}

static hr_status read_model(reader *r) {
    hri_json_token t;
    hr_status status;
    while ((status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_OBJECT_END) {
        status = read_model_member(r, &t);
        if (status != HR_OK) {
            return status;
        }
    }
    return status;
}

/* {"type": "BertNormalizer", "clean_text": true, ...}; accents go with the case unless they are named. */
static hr_status read_normalizer(reader *r) {
    hri_json_token t;
    hri_wordpiece w = {.clean = 1, .chinese = 1, .strip = -1, .lower = 1};
    hr_status status;
    while ((status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_OBJECT_END) {
        int *to = !strcmp(t.key, "clean_text")             ? &w.clean
                  : !strcmp(t.key, "handle_chinese_chars") ? &w.chinese
                  : !strcmp(t.key, "strip_accents")        ? &w.strip
                  : !strcmp(t.key, "lowercase")            ? &w.lower
                                                           : NULL;
        if (to && t.kind == HRI_JSON_BOOL) {
            *to = t.integer != 0;
        }
        r->bert_text |= !strcmp(t.key, "type") && !strcmp(t.text, "BertNormalizer");
        status = hri_json_stream_skip(r->json, &t, r->why);
        if (status != HR_OK) {
            return status;
        }
    }
    if (status == HR_OK && !r->bert_text) {
        return refuse(r, "its normalizer");
    }
    hri_wordpiece *to = &r->to->wordpiece;
    to->clean = w.clean;
    to->chinese = w.chinese;
    to->lower = w.lower;
    to->strip = w.strip < 0 ? w.lower : w.strip;
    return status;
}

/* ---- files ---- */

static hr_status read_member(reader *r, const hri_json_token *t) {
    const int object = t->kind == HRI_JSON_OBJECT;
    if (!strcmp(t->key, "normalizer") && t->kind != HRI_JSON_NULL) {
        return object ? read_normalizer(r) : refuse(r, "its normalizer");
    }
    return !strcmp(t->key, "added_tokens") && t->kind == HRI_JSON_ARRAY ? read_all_added(r)
           : !strcmp(t->key, "pre_tokenizer") && object                 ? read_pre(r)
           : !strcmp(t->key, "model") && object                         ? read_model(r)
                                                : hri_json_stream_skip(r->json, t, r->why);
}

static hr_status read_json(reader *r) {
    hri_json_token t;
    hr_status status = next(r, &t);
    status = status == HR_OK ? expect(r, &t, HRI_JSON_OBJECT, "the file") : status;
    while (status == HR_OK && (status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_OBJECT_END) {
        status = read_member(r, &t);
    }
    status = status == HR_OK ? next(r, &t) : status; /* nothing behind it */
    if (status == HR_OK && r->to->wordpiece.on) {
        return r->bert_words && !r->has_bytes
                   ? HR_OK
                   : refuse(r, "WordPiece with another pre-tokenizer than BertPreTokenizer");
    }
    return status == HR_OK && (!r->has_bytes || r->bert_text || r->bert_words)
               ? refuse(r, "a tokenizer that is not byte-level")
               : status;
}

static hr_status read_vocab_json(reader *r) {
    hri_json_token t;
    hr_status status = next(r, &t);
    status = status == HR_OK ? expect(r, &t, HRI_JSON_OBJECT, "the file") : status;
    return status == HR_OK ? read_vocab(r) : status;
}

static hr_status read_text(const char *text, size_t bytes, hr_status (*read)(reader *), reader *r) {
    hri_json_memory memory = {.text = text, .bytes = bytes};
    const hri_json_stream_options o = {.read = hri_json_read_memory,
                                       .user = &memory,
                                       .max_bytes = FILE_MAX,
                                       .max_key = HRI_BPE_TOKEN_BYTES,
                                       .max_text = 4 * HRI_BPE_TOKEN_BYTES};
    hr_status status = hri_json_stream_open(&o, &r->json, r->why);
    if (status == HR_OK) {
        status = read(r);
        hri_json_stream_close(r->json);
    }
    return status;
}

/* "#version: 0.2", then a merge a line. */
static hr_status read_lines(reader *r, const char *text) {
    hr_status status = HR_OK;
    for (const char *line = text; *line && status == HR_OK;) {
        const size_t bytes = strcspn(line, "\r\n");
        const int skip = !bytes || (line == text && !strncmp(line, "#version", 8));
        status = skip ? HR_OK : merge_line(r, line, bytes);
        line += bytes + strspn(line + bytes, "\r\n");
    }
    return status;
}

static int32_t find_name(const reader *r, const char *name) {
    uint64_t id;
    return hri_strmap_get(&r->to->bpe.names, name, &id) ? (int32_t)id : -1;
}

/* The text of a piece when tokens become text again: a word has a space in front. */
static hr_status settle_piece(reader *r, hri_bpe_token *t) {
    const char *prefix = r->to->wordpiece.prefix;
    const size_t n = strlen(prefix);
    if (n && t->length > n && !memcmp(t->bytes, prefix, n)) {
        t->bytes += n;
        t->length -= (uint32_t)n;
        return HR_OK;
    }
    char *spaced = hri_arena_alloc(&r->to->bpe.texts, t->length + 1, 1, 1);
    if (!spaced) {
        return HR_E_NOMEM_HOST;
    }
    spaced[0] = ' ';
    memcpy(spaced + 1, t->bytes, t->length);
    *t = (hri_bpe_token){spaced, t->length + 1};
    return HR_OK;
}

static hr_status settle_pieces(reader *r) {
    hri_bpe_tokens *tokens = &r->to->bpe.tokens;
    unsigned char *added = hri_calloc(tokens->count + 1, 1);
    hr_status status = added ? HR_OK : HR_E_NOMEM_HOST;
    for (size_t i = 0; added && i < r->to->added.count; i++) {
        added[r->to->added.items[i].token] = 1;
    }
    for (size_t i = 0; i < tokens->count && status == HR_OK; i++) {
        status = tokens->items[i].bytes && !added[i] ? settle_piece(r, &tokens->items[i]) : HR_OK;
    }
    hri_free(added);
    return status;
}

static hr_status settle_wordpiece(reader *r) {
    hri_wordpiece *w = &r->to->wordpiece;
    r->to->end = -1;
    w->unknown = find_name(r, r->unknown);
    w->begin = find_name(r, "[CLS]");
    w->end = find_name(r, "[SEP]");
    if (w->unknown < 0) {
        return hri_prose_set(r->why, HR_E_FORMAT,
                             "the vocabulary has no \"%s\", which stands for unknown words",
                             r->unknown);
    }
    return settle_pieces(r);
}

static hr_status settle(reader *r) {
    static const char *const ends[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};
    uint64_t id;
    r->to->end = -1;
    for (size_t i = 0; i < 4 && r->to->end < 0; i++) {
        if (hri_strmap_get(&r->to->bpe.names, ends[i], &id)) {
            r->to->end = (int32_t)id;
        }
    }
    return hri_bpe_settle(&r->to->bpe, r->why);
}

static hr_status finish(hr_status status, reader *r, hri_tokenizer_file *made,
                        hri_tokenizer_file *out) {
    status = status != HR_OK ? status : r->to->wordpiece.on ? settle_wordpiece(r) : settle(r);
    if (status != HR_OK) {
        hri_tokenizer_file_deinit(made);
        return status;
    }
    *out = *made;
    return HR_OK;
}

hr_status hri_tokenizer_file_parse(const char *text, size_t bytes, hri_tokenizer_file *out,
                                   hri_prose *why) {
    hri_tokenizer_file made = {0};
    reader r = {.to = &made, .why = why};
    hri_bpe_init(&made.bpe);
    return finish(read_text(text, bytes, read_json, &r), &r, &made, out);
}

/* vocab.json beside the merges. */
static hr_status read_pair(const char *vocab, const char *merges, hri_tokenizer_file *out,
                           hri_prose *why) {
    hri_tokenizer_file made = {0};
    reader r = {.to = &made, .why = why, .has_bytes = 1};
    char *text = NULL, *lines = NULL;
    size_t bytes = 0;
    hri_bpe_init(&made.bpe);
    made.pattern = hri_text_split_gpt2;
    hr_status status = hri_file_read(vocab, FILE_MAX, &text, &bytes, why);
    status = status == HR_OK ? hri_file_read(merges, FILE_MAX, &lines, NULL, why) : status;
    status = status == HR_OK ? read_text(text, bytes, read_vocab_json, &r) : status;
    status = status == HR_OK ? read_lines(&r, lines) : status;
    uint64_t end;
    if (status == HR_OK && hri_strmap_get(&made.bpe.names, "<|endoftext|>", &end)) {
        status = keep_added(&r, "<|endoftext|>", (int64_t)end);
    }
    hri_free(text);
    hri_free(lines);
    return finish(status, &r, &made, out);
}

/* A token a line, and what tokenizer_config.json beside it says of case, if there is one. */
static hr_status read_words(reader *r, const char *text) {
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    char line[HRI_BPE_TOKEN_BYTES];
    hr_status status = HR_OK;
    int64_t id = 0;
    for (const char *at = text; *at && status == HR_OK; id++) {
        const size_t bytes = strcspn(at, "\n"), cr = bytes && at[bytes - 1] == '\r';
        if (bytes >= sizeof line) {
            return hri_prose_set(r->why, HR_E_RANGE, "line %lld is longer than %d bytes",
                                 (long long)id + 1, HRI_BPE_TOKEN_BYTES - 1);
        }
        memcpy(line, at, bytes);
        line[bytes - cr] = '\0';
        status = hri_bpe_add(&r->to->bpe, line, id, 1, r->why);
        at += bytes + (at[bytes] == '\n');
    }
    for (size_t i = 0; i < 5 && status == HR_OK; i++) {
        const int32_t token = find_name(r, special[i]);
        status = token >= 0 ? keep_added(r, special[i], token) : HR_OK;
    }
    return status;
}

static hr_status read_config(reader *r) {
    hri_json_token t;
    hri_wordpiece *w = &r->to->wordpiece;
    hr_status status = next(r, &t);
    status = status == HR_OK ? expect(r, &t, HRI_JSON_OBJECT, "tokenizer_config.json") : status;
    int accents = -1;
    while (status == HR_OK && (status = next(r, &t)) == HR_OK && t.kind != HRI_JSON_OBJECT_END) {
        int *to = !strcmp(t.key, "do_lower_case")            ? &w->lower
                  : !strcmp(t.key, "tokenize_chinese_chars") ? &w->chinese
                  : !strcmp(t.key, "strip_accents")          ? &accents
                                                             : NULL;
        if (to && t.kind == HRI_JSON_BOOL) {
            *to = t.integer != 0;
        }
        status = hri_json_stream_skip(r->json, &t, r->why);
    }
    w->strip = accents < 0 ? w->lower : accents;
    return status;
}

static hr_status read_vocab_txt(const char *path, hri_tokenizer_file *out, hri_prose *why) {
    hri_tokenizer_file made = {0};
    reader r = {.to = &made, .why = why};
    char *text = NULL, *config = NULL, beside[4096];
    size_t bytes = 0;
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash + 1 - path) : 0;
    hri_bpe_init(&made.bpe);
    made.wordpiece = (hri_wordpiece){.clean = 1, .chinese = 1, .strip = 1, .lower = 1};
    init_wordpiece(&r);
    snprintf(beside, sizeof beside, "%.*stokenizer_config.json", folder, path);
    hr_status status = hri_file_read(path, FILE_MAX, &text, NULL, why);
    status = status == HR_OK ? read_words(&r, text) : status;
    if (status == HR_OK && hri_file_exists(beside)) {
        status = hri_file_read(beside, FILE_MAX, &config, &bytes, why);
        status = status == HR_OK ? read_text(config, bytes, read_config, &r) : status;
    }
    hri_free(text);
    hri_free(config);
    return finish(status, &r, &made, out);
}

static hr_status read_at(const char *folder, size_t bytes, const char *merges,
                         hri_tokenizer_file *out, hri_prose *why) {
    char vocab[4096];
    return snprintf(vocab, sizeof vocab, "%.*svocab.json", (int)bytes, folder) < (int)sizeof vocab
               ? read_pair(vocab, merges, out, why)
               : hri_prose_set(why, HR_E_RANGE, "the path is too long");
}

static hr_status read_path(const char *path, hri_tokenizer_file *out, hri_prose *why) {
    char file[4096];
    struct stat st;
    const size_t n = strlen(path);
    const char *slash = strrchr(path, '/');
    if (n + 32 > sizeof file) {
        return hri_prose_set(why, HR_E_RANGE, "the path is too long");
    }
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        snprintf(file, sizeof file, "%s/tokenizer.json", path);
        if (hri_file_exists(file)) {
            return read_path(file, out, why);
        }
        snprintf(file, sizeof file, "%s/vocab.txt", path);
        if (hri_file_exists(file)) {
            return read_path(file, out, why);
        }
        snprintf(file, sizeof file, "%s/merges.txt", path);
        return read_at(file, n + 1, file, out, why);
    }
    if (!strcmp(slash ? slash + 1 : path, "vocab.txt")) {
        return read_vocab_txt(path, out, why);
    }
    if (n < 5 || strcmp(path + n - 5, ".json") != 0) {
        return read_at(path, slash ? (size_t)(slash + 1 - path) : 0, path, out, why);
    }
    char *text;
    size_t bytes;
    hr_status status = hri_file_read(path, FILE_MAX, &text, &bytes, why);
    if (status == HR_OK) {
        status = hri_tokenizer_file_parse(text, bytes, out, why);
        hri_free(text);
    }
    return status;
}

hr_status hri_tokenizer_file_read(const char *path, hri_tokenizer_file *out, hri_prose *why) {
    hri_prose inner = {""};
    const hr_status status = read_path(path, out, &inner);
    return status == HR_OK ? HR_OK
           : strstr(inner.text, path)
               ? hri_prose_set(why, status, "%s", inner.text)
               : hri_prose_set(why, status, "%s: %s", path,
                               inner.text[0] ? inner.text : hr_status_text(status));
}

void hri_tokenizer_file_deinit(hri_tokenizer_file *t) {
    hri_added_tokens_deinit(&t->added);
    hri_bpe_deinit(&t->bpe);
    *t = (hri_tokenizer_file){0};
}
