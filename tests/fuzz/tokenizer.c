/* Tokenizers of files: whatever the bytes, reading ends with a status and a sentence, and what was accepted encodes any text to
 * tokens, which give it back where they are of bytes. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/text/tokenizer_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

static void check_text(const hri_tokenizer_file *f, const char *text, size_t bytes) {
    hri_bpe_work *w;
    hri_tokens out = {0};
    size_t at = 0;
    if (f->wordpiece.on) {
        must(hri_wordpiece_encode(&f->wordpiece, &f->bpe, text, bytes, &out) == HR_OK);
        for (size_t i = 0; i < out.count; i++) {
            must(out.items[i] >= 0 && (size_t)out.items[i] < f->bpe.tokens.count);
        }
        hri_tokens_deinit(&out);
        return;
    }
    must(hri_bpe_work_open(&w) == HR_OK);
    must(hri_bpe_encode(&f->bpe, w, text, bytes, f->whole, &out) == HR_OK);
    for (size_t i = 0; i < out.count; i++) {
        must(out.items[i] >= 0 && (size_t)out.items[i] < f->bpe.tokens.count);
        const hri_bpe_token *t = &f->bpe.tokens.items[out.items[i]];
        must(t->bytes && at + t->length <= bytes && !memcmp(t->bytes, text + at, t->length));
        at += t->length;
    }
    must(at == bytes);
    hri_tokens_deinit(&out);
    hri_bpe_work_close(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hri_tokenizer_file f;
    hri_prose why = {""};
    const hr_status status = hri_tokenizer_file_parse((const char *)data, size, &f, &why);
    if (status != HR_OK) {
        must(status == HR_E_FORMAT || status == HR_E_RANGE || status == HR_E_UNSUPPORTED);
        must(why.text[0] != '\0');
        return 0;
    }
    check_text(&f, "hello, world", 12);
    check_text(&f, (const char *)data, size < 200 ? size : 200);
    hri_tokenizer_file_deinit(&f);
    return 0;
}
