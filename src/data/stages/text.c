/* text:FILE[,FILE...]  text as bytes: every byte is a token, so there are 256 of them and any file is text, in any language
 * and encoding.  text:DIR is all files in a folder.  With tokenizer=FILE tokens are those of a tokenizer, made once and kept
 * (text/token_cache.h).  Cut into windows (formats/windows.h). */
#include "data/formats/windows.h"
#include "data/text/token_cache.h"
#include "data/text/token_stream.h"

enum { BYTES = 256, HIDDEN = 1 }; /* a byte that no text has hides others */

typedef struct options {
    hri_windows_options windows;
    const char *tokenizer, *cache;
} options;

typedef struct own {
    hri_windows windows;
    hri_filelist
        texts; /* of its tokens; without a tokenizer it is empty, and the windows' files are the texts */
    hri_sha256 print; /* of the tokenizer */
} own;

static const hri_field fields[] = {
    {"path", "files, or folders of them", offsetof(options, windows.path), HRI_FIELD_LIST,
     .metavar = "FILE"},
    HRI_WINDOWS_CUT,
    {"tokenizer", "tokenizer.json, merges.txt, vocab.txt or a folder; default: tokens are bytes",
     offsetof(options, tokenizer), HRI_FIELD_STRING, .metavar = "FILE"},
    {"cache", "directory for the tokens; default: tokens in the cache directory",
     offsetof(options, cache), HRI_FIELD_STRING, .metavar = "DIR"},
    HRI_WINDOWS_DRAW,
    {0}};

static hr_status open_tokens(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    hri_tokenizer *t;
    hr_status status = hri_tokenizer_open(o->tokenizer, &t, why);
    if (status != HR_OK) {
        return status;
    }
    hri_sha256_init(&w->print);
    hri_tokenizer_print(t, &w->print);
    s->spec.vocab = hri_tokenizer_count(t);
    status = hri_token_cache_open(s, &w->texts, t, o->cache, &w->windows.files, why);
    if (status == HR_OK) {
        status = hri_windows_open(s, hri_token_width(s->spec.vocab), NULL, "tokens",
                                  w->texts.files[0].path, hri_tokenizer_mask(t), why);
    }
    hri_tokenizer_close(t);
    return status;
}

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    hri_filelist *to = o->tokenizer ? &w->texts : &w->windows.files;
    const hr_status status = hri_filelist_open_folders(to, &o->windows.path, why);
    if (status != HR_OK || o->tokenizer) {
        return status == HR_OK ? open_tokens(s, why) : status;
    }
    s->spec.vocab = BYTES;
    return hri_windows_open(s, 1, NULL, "bytes", w->windows.files.files[0].path, HIDDEN, why);
}

static const hri_filelist *texts(const hri_stage *s) {
    const own *w = s->own;
    return w->texts.count ? &w->texts : &w->windows.files;
}

static void fingerprint(hri_stage *s, hri_state *state) {
    const own *w = s->own;
    unsigned char digest[HRI_SHA256_BYTES];
    hri_filelist_fingerprint(texts(s), state);
    if (w->texts.count) {
        hri_sha256_get(&w->print, digest);
        hri_state_put_blob(state, digest, sizeof digest);
    }
}

static int64_t newest(hri_stage *s, char *path, size_t size) {
    return hri_filelist_newest(texts(s), path, size);
}

static void close_text(hri_stage *s) {
    hri_windows_close(s);
    hri_filelist_close(&((own *)s->own)->texts);
}

const hri_stage_type hri_stage_type_text = {
    .name = "text",
    .help = "text files as bytes or tokens, read in windows",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .open = open,
    .close = close_text,
    .at = hri_windows_at,
    .load = hri_windows_load,
    .fingerprint = fingerprint,
    .newest = newest,
};
