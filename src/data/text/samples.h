/* Texts as samples: each becomes `length` tokens, cut where it is longer and filled up with one token where it is shorter.
 *
 *   hri_text_samples_open(&t, s, &o, &why);            the tokenizer; the field "tokens" i32[length], vocab and pad in the stage's spec
 *   hri_text_samples_emit(&t, text, bytes, emit);      one text
 *
 * The token that fills is `pad` where the user says it, else the tokenizer's own ("[PAD]"), else one behind its last; of bytes it is
 * 0.  Models hide it by its number.  Of a text only the first 32 bytes per token are looked at, so memory has a bound; of bytes only
 * `length`.  WordPiece puts its [CLS] before a text and its [SEP] behind it, as BERT was trained.  A text without anything in it, a byte that stands for padding, and, where there is a tokenizer, a text that is not UTF-8 are
 * bad elements.
 *
 * Threads: opened and closed by one; any number may emit. */
#ifndef HRI_DATA_TEXT_SAMPLES_H
#define HRI_DATA_TEXT_SAMPLES_H

#include <pthread.h>
#include "data/stage.h"
#include "data/tokenizer.h"

enum { HRI_TEXT_SAMPLES_IDLE = 16 };

typedef struct hri_text_samples_options {
    const char *tokenizer;
    int64_t length, pad;
} hri_text_samples_options;

/* Rows of the table of options; WHERE is offsetof the struct above in the stage's options. */
#define HRI_TEXT_SAMPLES_FIELDS(OPTIONS, MEMBER)                                                   \
    {"tokenizer",                                                                                  \
     "texts: tokenizer.json, merges.txt, vocab.txt or a folder; default: tokens are bytes",        \
     offsetof(OPTIONS, MEMBER.tokenizer), HRI_FIELD_STRING, .metavar = "FILE"},                    \
        {"length",                                                                                 \
         "texts: tokens of each, cut or filled up",                                                \
         offsetof(OPTIONS, MEMBER.length),                                                         \
         HRI_FIELD_INT,                                                                            \
         "128",                                                                                    \
         .min = 1,                                                                                 \
         .max = 1e6,                                                                               \
         .metavar = "N"},                                                                          \
    {                                                                                              \
        "pad", "texts: token that fills short ones; -1: the tokenizer's, or a new one",            \
            offsetof(OPTIONS, MEMBER.pad), HRI_FIELD_INT, "-1", .min = -1, .max = 1e7              \
    }

typedef struct hri_text_samples {
    hri_tokenizer *tokenizer;
    hri_account *account;
    uint64_t charged; /* what the tokenizer holds */
    hri_sha256 print;
    int64_t length;
    int32_t pad, begin, end; /* before and behind a text; -1: nothing */
    bool bytes;              /* tokens are bytes */
    pthread_mutex_t lock;    /* of the encoders that nobody uses now */
    hri_encoder *idle[HRI_TEXT_SAMPLES_IDLE];
    size_t idle_count;
    bool open;
} hri_text_samples;

HR_MUST_CHECK hr_status hri_text_samples_open(hri_text_samples *t, hri_stage *s,
                                              const hri_text_samples_options *o, hri_prose *why);
/* A zeroed one is allowed. */
void hri_text_samples_close(hri_text_samples *t);
/* The most bytes of a text that are looked at. */
uint64_t hri_text_samples_most(const hri_text_samples *t);
/* Bytes of working memory for one text of the length above, beside its buffer. */
uint64_t hri_text_samples_work(const hri_text_samples *t);
/* The field "tokens" of a text, which a NUL ends. */
HR_MUST_CHECK hr_status hri_text_samples_emit(hri_text_samples *t, const char *text, uint64_t bytes,
                                              hr_emit *emit);
/* What decides which tokens a text gets, beside the options. */
void hri_text_samples_fingerprint(const hri_text_samples *t, hri_state *state);

#endif
