/* Training a byte-level BPE: the merges of Hugging Face's BpeTrainer, and counting in bounded memory.  tools/check-tokenizer compares
 * whole files. */
#include "job/tokenizer_train.h"

#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "data/text/bpe_train.h"
#include "data/text/pcre2.h"
#include "data/tokenizer.h"
#include "pictures.h"
#include "test.h"

#define NEED_PCRE2()                                                                               \
    do {                                                                                           \
        hri_pcre2 p;                                                                               \
        if (!hri_pcre2_load(&p)) {                                                                 \
            test_skip("libpcre2-8.so.0 is not installed");                                         \
        }                                                                                          \
        hri_pcre2_unload(&p);                                                                      \
    } while (0)

static const char text[] = "low low low lower lower newest newest newest widest aaaa aaa aaaa\nthe "
                           "cat, the hat; the bat\n\n"
                           "  abab abab ab\n";

static hr_status train(int64_t tokens, hri_tokenizer_trained *r, hri_why *why) {
    char from[512], to[512];
    const char *const paths[] = {from};
    snprintf(from, sizeof from, "%s/text", test_folder());
    snprintf(to, sizeof to, "%s/tokenizer.json", test_folder());
    return hri_tokenizer_train(
        &(hri_tokenizer_train_options){.paths = paths, .count = 1, .tokens = tokens, .out = to}, r,
        why);
}

/* What the package tokenizers 0.23 gives for this text, as tokens 257 on. */
TEST(tokenizer_train, has_the_tokens_of_the_package_tokenizers) {
    static const char *const want[] = {"aa",     "ab",    "lo",      "we",   "st",  " lo",
                                       "at",     "ewe",   "he",      "newe", "the", " aa",
                                       " ab",    " newe", " newest", " the", "wer", " low",
                                       " lower", " aaaa", " abab",   "bat",  "cat"};
    char path[512];
    hri_tokenizer_trained r;
    hri_why why = {0};
    hri_prose prose = {""};
    hri_tokenizer *t;
    NEED_PCRE2();
    test_write(test_folder(), "text", text, sizeof text - 1);
    CHECK_OK(train(280, &r, &why));
    CHECK_EQ(r.tokens, 280);
    CHECK_EQ(r.bytes, sizeof text - 1);
    CHECK_EQ(r.forgotten, 0);
    snprintf(path, sizeof path, "%s/tokenizer.json", test_folder());
    CHECK_OK(hri_tokenizer_open(path, &t, &prose));
    CHECK_EQ(hri_tokenizer_count(t), 280);
    CHECK_EQ(hri_tokenizer_end(t), 0);
    for (int32_t i = 0; i < (int32_t)(sizeof want / sizeof want[0]); i++) {
        size_t bytes;
        const char *is = hri_tokenizer_text(t, 257 + i, &bytes);
        CHECK(is && bytes == strlen(want[i]) && !memcmp(is, want[i], bytes));
    }
    hri_tokens tokens = {0};
    CHECK_OK(hri_tokenizer_encode(t, "the lowest", 10, &tokens, &prose));
    CHECK_LE(tokens.count, 6);
    hri_tokens_deinit(&tokens);
    hri_tokenizer_close(t);
}

TEST(tokenizer_train, says_what_it_cannot_do) {
    hri_tokenizer_trained r;
    hri_why why = {0};
    NEED_PCRE2();
    CHECK_STATUS(train(256, &r, &why), HR_E_RANGE);
    why = (hri_why){0};
    CHECK_STATUS(train(300, &r, &why), HR_E_NOT_FOUND); /* no such text */
    test_write(test_folder(), "text", "ab", 2);
    why = (hri_why){0};
    CHECK_OK(train(300, &r, &why));
    CHECK_EQ(r.tokens, 258); /* there is one pair */
}

static hr_status nothing(void *user, uint64_t merges, uint64_t total) {
    (void)user, (void)merges, (void)total;
    return HR_OK;
}

/* Rare words are forgotten when memory is short; what is frequent stays, and merges follow it. */
TEST(tokenizer_train, rare_words_are_forgotten_when_memory_is_short) {
    hri_word_counts c = {.most_bytes = 1 << 17};
    hri_bpe_merges merges = {0};
    for (int i = 0; i < 50000; i++) {
        char word[32];
        const int n = snprintf(word, sizeof word, "%d", i);
        CHECK_OK(hri_word_counts_add(&c, word, (size_t)n));
        CHECK_OK(hri_word_counts_add(&c, "zz\0", 3));
    }
    CHECK_LE(1, c.forgotten);
    CHECK_LE(c.texts_room + c.room * sizeof *c.words + c.slot_count * sizeof *c.slots, 1 << 17);
    CHECK_OK(hri_bpe_train(&c, 0, 258, 2, &merges, nothing, NULL));
    CHECK_EQ(merges.count, 2);
    CHECK_EQ(merges.items[0].token, 256);
    int32_t number[256];
    hri_bpe_train_alphabet(0, number);
    CHECK_EQ(merges.items[0].left, number['z']); /* "zz" and "z\0" occur equally often */
    hri_bpe_merges_deinit(&merges);
    hri_word_counts_deinit(&c);
}
