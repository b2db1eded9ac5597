/* Tokens that are bytes; see tokenizer.h. */
#include "data/tokenizer.h"

#include "base/alloc.h"

enum { BYTES = 256 };

struct hri_tokenizer {
    char bytes[BYTES];
};

hr_status hri_tokenizer_open(const char *path, hri_tokenizer **out, hri_prose *why) {
    if (path) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "%s: only text as bytes is supported", path);
    }
    hri_tokenizer *t = hri_calloc(1, sizeof *t);
    if (!t) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for the tokenizer");
    }
    for (int i = 0; i < BYTES; i++) {
        t->bytes[i] = (char)i;
    }
    *out = t;
    return HR_OK;
}

void hri_tokenizer_close(hri_tokenizer *t) {
    hri_free(t);
}

int64_t hri_tokenizer_count(const hri_tokenizer *t) {
    (void)t;
    return BYTES;
}

int32_t hri_tokenizer_end(const hri_tokenizer *t) {
    (void)t;
    return -1;
}

hr_status hri_tokenizer_encode(const hri_tokenizer *t, const char *text, size_t bytes,
                               hri_tokens *out, hri_prose *why) {
    (void)t;
    if (hri_tokens_reserve(out, out->count + bytes) != HR_OK) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for %zu tokens", bytes);
    }
    for (size_t i = 0; i < bytes; i++) {
        out->items[out->count++] = (unsigned char)text[i];
    }
    return HR_OK;
}

const char *hri_tokenizer_text(const hri_tokenizer *t, int32_t token, size_t *bytes) {
    *bytes = token >= 0 && token < BYTES;
    return *bytes ? &t->bytes[token] : NULL;
}
