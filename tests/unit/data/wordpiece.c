/* WordPiece as of BERT: characters, words, pieces, what is refused.  tools/check-tokenizer compares with Hugging Face's on megabytes. */
#include "data/text/wordpiece.h"

#include <stdio.h>
#include <string.h>

#include "data/text/tokenizer_file.h"
#include "pictures.h"
#include "test.h"

static const char words[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##aff\n##able\nnaive\n,\n!\n"
    "\xe4\xb8\xad\n\xe6\x96\x87\n##s\ni\n\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab\n";

static hri_tokenizer *open_words(const char *config) {
    char path[512];
    hri_tokenizer *t = NULL;
    hri_prose why = {""};
    test_write(test_folder(), "vocab.txt", words, sizeof words - 1);
    if (config) {
        test_write(test_folder(), "tokenizer_config.json", config, strlen(config));
    }
    snprintf(path, sizeof path, "%s", test_folder());
    const hr_status status = hri_tokenizer_open(path, &t, &why);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.text);
    }
    return t;
}

static void encodes(const hri_tokenizer *t, const char *text, const int32_t *want, size_t count) {
    hri_tokens out = {0};
    hri_prose why = {""};
    CHECK_OK(hri_tokenizer_encode(t, text, strlen(text), &out, &why));
    CHECK_EQ(out.count, count);
    for (size_t i = 0; i < count && i < out.count; i++) {
        CHECK_EQ(out.items[i], want[i]);
    }
    hri_tokens_deinit(&out);
}
#define ENCODES(T, TEXT, ...)                                                                      \
    encodes(T, TEXT, (const int32_t[]){__VA_ARGS__},                                               \
            sizeof(const int32_t[]){__VA_ARGS__} / sizeof(int32_t))

TEST(wordpiece, words_become_the_longest_pieces) {
    hri_tokenizer *t = open_words(NULL);
    CHECK_EQ(hri_tokenizer_count(t), 16);
    CHECK_EQ(hri_tokenizer_pad(t), 0);
    CHECK_EQ(hri_tokenizer_mask(t), 4);
    ENCODES(t, "unaffable", 5, 6, 7);
    ENCODES(t, "un aff", 5, 1);
    ENCODES(t, "uns, unx!", 5, 13, 9, 1, 10);
    ENCODES(t, "Na\xc3\xafve", 8);                  /* case and accents go */
    ENCODES(t, "nai\xcc\x88ve", 8);                 /* an accent of its own */
    ENCODES(t, "\xe4\xb8\xad\xe6\x96\x87", 11, 12); /* each a word */
    ENCODES(t, "\xed\x95\x9c", 15);                 /* Hangul as letters */
    ENCODES(t, "\xc4\xb0", 14);                     /* a capital I with a dot: i and a mark */
    ENCODES(t, "un[SEP]un", 5, 3, 5);
    ENCODES(t, "u\xff\x01n\xe2\x80\x8b", 5); /* bytes that are no text, and marks without width */
    ENCODES(t, "un\t\xc2\xa0un", 5, 5);
    hri_tokenizer_close(t);
}

TEST(wordpiece, a_config_says_that_case_matters) {
    hri_tokenizer *t = open_words("{\"do_lower_case\":false,\"model_max_length\":512}");
    ENCODES(t, "Un", 1);
    ENCODES(t, "un", 5);
    ENCODES(t, "na\xc3\xafve", 1);
    hri_tokenizer_close(t);
}

TEST(wordpiece, a_word_that_is_too_long_is_unknown_and_texts_come_back) {
    char text[240];
    size_t bytes;
    hri_tokenizer *t = open_words(NULL);
    memset(text, 's', sizeof text);
    memcpy(text, "un", 2);
    text[101] = '\0';
    ENCODES(t, text, 1);
    CHECK(!memcmp(hri_tokenizer_text(t, 8, &bytes), " naive", 6) && bytes == 6);
    CHECK(!memcmp(hri_tokenizer_text(t, 7, &bytes), "able", 4) && bytes == 4);
    CHECK(!memcmp(hri_tokenizer_text(t, 3, &bytes), "[SEP]", 5) && bytes == 5);
    int32_t begin, end;
    hri_tokenizer_around(t, &begin, &end);
    CHECK(begin == 2 && end == 3);
    hri_tokenizer_close(t);
}

TEST(wordpiece, what_would_give_other_tokens_is_refused_by_name) {
    static const struct {
        const char *text, *sentence;
    } files[] = {
        {"{\"normalizer\":{\"type\":\"NFC\"},\"model\":{}}", "its normalizer is not supported"},
        {"{\"pre_tokenizer\":{\"type\":\"Whitespace\"},\"model\":{}}",
         "its pre-tokenizer is not supported"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]}}",
         "its model (Unigram) is not supported; byte-level BPE and BERT's WordPiece are"},
        {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0}}}",
         "WordPiece with another pre-tokenizer than BertPreTokenizer is not supported"},
        {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\","
         "\"vocab\":{\"a\":0}}}",
         "the vocabulary has no \"[UNK]\", which stands for unknown words"},
        {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"vocab\":{\"[UNK]\":0},"
         "\"type\":\"WordPiece\"}}",
         "its model (WordPiece) is not supported"},
        {"{\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\","
         "\"max_input_chars_per_word\":100000}}",
         "max_input_chars_per_word is not 1 to 1000"},
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        hri_tokenizer_file f;
        hri_prose why = {""};
        CHECK(hri_tokenizer_file_parse(files[i].text, strlen(files[i].text), &f, &why) != HR_OK);
        if (!strstr(why.text, files[i].sentence)) {
            test_fail(__FILE__, __LINE__, "said: %s", why.text);
        }
    }
}
