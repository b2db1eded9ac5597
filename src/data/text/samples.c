/* See samples.h. */
#include "data/text/samples.h"

#include <string.h>

#include "base/visible.h"
#include "data/ledger.h"
#include "data/pool.h"

enum { BYTES_PER_TOKEN = 32, WORK_PER_BYTE = 48 }; /* of the merging of one long word */

static hr_status open_tokenizer(hri_text_samples *t, hri_stage *s,
                                const hri_text_samples_options *o, hri_prose *why) {
    const hr_status status = hri_tokenizer_open(o->tokenizer, &t->tokenizer, why);
    if (status != HR_OK) {
        return status;
    }
    const uint64_t bytes = hri_tokenizer_bytes(t->tokenizer);
    if (!hri_ledger_try(s->account, bytes)) {
        return hri_prose_set(why, HR_E_LIMIT,
                             "no room in the budget for the tokenizer (%llu bytes)",
                             (unsigned long long)bytes);
    }
    t->account = s->account;
    t->charged = bytes;
    return HR_OK;
}

/* The number of the token that fills. */
static hr_status choose_pad(hri_text_samples *t, hri_stage *s, int64_t given, hri_prose *why) {
    const int64_t count = hri_tokenizer_count(t->tokenizer);
    const int32_t own = hri_tokenizer_pad(t->tokenizer);
    if (given >= count) {
        return hri_prose_set(why, HR_E_INVALID, "pad: the tokens have numbers below %lld",
                             (long long)count);
    }
    t->pad = given >= 0 ? (int32_t)given : t->bytes ? 0 : own >= 0 ? own : (int32_t)count;
    s->spec.vocab = count + (t->pad == count);
    s->spec.pad = t->pad;
    hri_tokenizer_around(t->tokenizer, &t->begin, &t->end);
    return HR_OK;
}

hr_status hri_text_samples_open(hri_text_samples *t, hri_stage *s,
                                const hri_text_samples_options *o, hri_prose *why) {
    const hr_meta m = {.type = HR_TYPE_I32, .shape = {.rank = 1, .dim = {o->length}}};
    pthread_mutex_init(&t->lock, NULL);
    t->open = true;
    t->length = o->length;
    t->bytes = !o->tokenizer;
    hr_status status = open_tokenizer(t, s, o, why);
    status = status == HR_OK ? choose_pad(t, s, o->pad, why) : status;
    if (status == HR_OK) {
        hri_sha256_init(&t->print);
        hri_tokenizer_print(t->tokenizer, &t->print);
        status = hri_spec_put(&s->spec, "tokens", m);
    }
    return status;
}

void hri_text_samples_close(hri_text_samples *t) {
    for (size_t i = 0; i < t->idle_count; i++) {
        hri_encoder_close(t->idle[i]);
    }
    hri_tokenizer_close(t->tokenizer);
    if (t->charged) {
        hri_ledger_release(t->account, t->charged);
    }
    if (t->open) {
        pthread_mutex_destroy(&t->lock);
    }
    *t = (hri_text_samples){0};
}

uint64_t hri_text_samples_most(const hri_text_samples *t) {
    return (uint64_t)t->length * (t->bytes ? 1 : BYTES_PER_TOKEN);
}

uint64_t hri_text_samples_work(const hri_text_samples *t) {
    return hri_pool_round(hri_text_samples_most(t) * (t->bytes ? 4 : WORK_PER_BYTE));
}

/* ---- one text ---- */

static hr_status take_encoder(hri_text_samples *t, hri_encoder **out, hri_prose *why) {
    hri_encoder *e = NULL;
    pthread_mutex_lock(&t->lock);
    if (t->idle_count) {
        e = t->idle[--t->idle_count];
    }
    pthread_mutex_unlock(&t->lock);
    *out = e;
    return e ? HR_OK : hri_encoder_open(t->tokenizer, out, why);
}

static void give_encoder(hri_text_samples *t, hri_encoder *e) {
    pthread_mutex_lock(&t->lock);
    if (t->idle_count < HRI_TEXT_SAMPLES_IDLE) {
        t->idle[t->idle_count++] = e;
        e = NULL;
    }
    pthread_mutex_unlock(&t->lock);
    hri_encoder_close(e);
}

static hr_status check(const hri_text_samples *t, const char *text, uint64_t bytes, hr_emit *emit) {
    uint64_t seen = 0;
    for (uint64_t i = 0; i < bytes;) {
        const size_t n = t->bytes || !text[i] ? 1 : hri_utf8_length(text + i);
        if (n == 0 || i + n > bytes) {
            return hri_emit_fail(emit, HR_E_FORMAT,
                                 "byte %llu is not UTF-8; convert the text, or drop "
                                 "tokenizer= to take bytes as tokens",
                                 (unsigned long long)i);
        }
        if (t->bytes && (unsigned char)text[i] == t->pad) {
            return hri_emit_fail(emit, HR_E_FORMAT,
                                 "byte %llu is %d, the token that fills short texts; pad=N says "
                                 "another one",
                                 (unsigned long long)i, t->pad);
        }
        seen += text[i] != ' ' && text[i] != '\n' && text[i] != '\t' && text[i] != '\r';
        i += n;
    }
    return seen ? HR_OK : hri_emit_fail(emit, HR_E_FORMAT, "the text is empty");
}

static hr_status encode(hri_text_samples *t, const char *text, uint64_t bytes, hri_tokens *tokens,
                        hr_emit *emit) {
    hri_prose why = {""};
    hri_encoder *e = NULL;
    hr_status status = take_encoder(t, &e, &why);
    if (status == HR_OK) {
        status = hri_encoder_encode(e, 0, text, bytes, tokens, &why);
        give_encoder(t, e);
    }
    if (status != HR_OK) {
        hr_emit_explain(emit, why.text[0] ? why.text : hr_status_text(status));
    }
    return status;
}

hr_status hri_text_samples_emit(hri_text_samples *t, const char *text, uint64_t bytes,
                                hr_emit *emit) {
    const hr_meta m = {.type = HR_TYPE_I32, .shape = {.rank = 1, .dim = {t->length}}};
    const uint64_t most = hri_text_samples_most(t);
    hri_tokens tokens = {0};
    void *data = NULL;
    if (bytes > most) {
        bytes = t->bytes ? most : hri_utf8_cut(text, most);
    }
    hr_status status = check(t, text, bytes, emit);
    status = status == HR_OK ? hr_emit_field(emit, "tokens", &m, &data) : status;
    status = status == HR_OK ? encode(t, text, bytes, &tokens, emit) : status;
    const int64_t head = t->begin >= 0, tail = t->end >= 0, room = t->length - head - tail;
    const int64_t kept = room < 0 ? 0 : (int64_t)tokens.count < room ? (int64_t)tokens.count : room;
    for (int64_t i = 0; status == HR_OK && i < t->length; i++) {
        ((int32_t *)data)[i] = i < head                   ? t->begin
                               : i - head < kept          ? tokens.items[i - head]
                               : i - head == kept && tail ? t->end
                                                          : t->pad;
    }
    hri_tokens_deinit(&tokens);
    return status;
}

void hri_text_samples_fingerprint(const hri_text_samples *t, hri_state *state) {
    unsigned char digest[HRI_SHA256_BYTES];
    hri_sha256_get(&t->print, digest);
    hri_state_put_blob(state, digest, sizeof digest);
    hri_state_put(state, (uint64_t)t->pad);
}
