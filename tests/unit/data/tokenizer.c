/* Tokenizers of files: a small one of our own, what is refused, and text that is no text.  tools/check-tokenizer compares with
 * Hugging Face's. */
#include "data/tokenizer.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "data/text/split.h"
#include "data/text/tokenizer_file.h"
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

/* All bytes as 0 to 255, then "he" 256, "ll" 257, "hell" 258, " w" 259; added: "<end>" 260. */
static void write_file(hri_text *t, const char *more, const char *prefix) {
    int next = 256;
    hri_text_add(t,
                 "{\"added_tokens\":[{\"id\":260,\"content\":\"<end>\",\"special\":true}],%s"
                 "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":%s},"
                 "\"model\":{\"type\":\"BPE\",\"vocab\":{",
                 more, prefix);
    for (int i = 0; i < 256; i++) {
        const int prints = (i >= 33 && i <= 126) || (i >= 161 && i != 173);
        hri_text_add(t, "\"\\u%04x\":%d,", (unsigned)(prints ? i : next++), i);
    }
    hri_text_add(t, "\"he\":256,\"ll\":257,\"hell\":258,\"\\u0120w\":259},"
                    "\"merges\":[\"h e\",[\"l\",\"l\"],\"he ll\",\"\\u0120 w\"]}}");
}

static hri_tokenizer *open_small_with(const char *prefix) {
    char path[512];
    hri_text t = {0};
    hri_tokenizer *made;
    hri_prose why = {""};
    write_file(&t, "", prefix);
    test_write(test_folder(), "tokenizer.json", hri_text_get(&t), strlen(hri_text_get(&t)));
    hri_text_deinit(&t);
    snprintf(path, sizeof path, "%s/tokenizer.json", test_folder());
    const hr_status status = hri_tokenizer_open(path, &made, &why);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s", why.text);
    }
    return made;
}

static hri_tokenizer *open_small(void) {
    return open_small_with("false");
}

static void encodes(const hri_tokenizer *t, const char *text, size_t bytes, const int32_t *want,
                    size_t count) {
    hri_tokens is = {0};
    hri_prose why = {""};
    char back[64];
    size_t used = 0;
    CHECK_OK(hri_tokenizer_encode(t, text, bytes, &is, &why));
    CHECK_EQ(is.count, count);
    for (size_t i = 0; i < count; i++) {
        size_t n;
        CHECK_EQ(is.items[i], want[i]);
        const char *part = hri_tokenizer_text(t, is.items[i], &n);
        CHECK(part && used + n <= sizeof back);
        memcpy(back + used, part, n);
        used += n;
    }
    CHECK(used == bytes && !memcmp(back, text, bytes));
    hri_tokens_deinit(&is);
}

TEST(tokenizer, a_text_that_goes_on_gets_no_space_in_front) {
    NEED_PCRE2();
    hri_tokenizer *t = open_small_with("true");
    hri_tokens is = {0};
    hri_prose why = {""};
    CHECK_OK(hri_tokenizer_encode(t, "w", 1, &is, &why));
    CHECK_OK(hri_tokenizer_go_on(t, "w<end>w", 7, &is, &why));
    static const int32_t want[] = {259, 'w', 260, 259};
    CHECK_EQ(is.count, 4);
    CHECK(!memcmp(is.items, want, sizeof want));
    hri_tokens_deinit(&is);
    hri_tokenizer_close(t);
}

TEST(tokenizer, merges_come_in_their_order_and_stay_within_pieces) {
    NEED_PCRE2();
    hri_tokenizer *t = open_small();
    CHECK_EQ(hri_tokenizer_count(t), 261);
    static const int32_t hello[] = {258, 'o', 259, 'o'}, apart[] = {'h', ' ', 'e'},
                         lll[] = {257, 'l'}, added[] = {'a', 260, 260, 256};
    encodes(t, "hello wo", 8, hello, 4);
    encodes(t, "h e", 3, apart, 3);
    encodes(t, "lll", 3, lll, 2);
    encodes(t, "a<end><end>he", 13, added, 4);
    encodes(t, "", 0, NULL, 0);
    static const int32_t odd[] = {0xff, 0, 0xc3, 256};
    encodes(t, "\xff\0\xc3he", 5, odd, 4); /* bytes that are no UTF-8 */
    size_t n;
    CHECK(!hri_tokenizer_text(t, 261, &n) && !hri_tokenizer_text(t, -1, &n));
    hri_tokenizer_close(t);
}

TEST(tokenizer, without_a_file_tokens_are_bytes) {
    hri_tokenizer *t;
    hri_prose why = {""};
    CHECK_OK(hri_tokenizer_open(NULL, &t, &why));
    CHECK_EQ(hri_tokenizer_count(t), 256);
    CHECK_EQ(hri_tokenizer_end(t), -1);
    static const int32_t want[] = {'a', 0xff, 0};
    encodes(t, "a\xff\0", 3, want, 3);
    hri_tokenizer_close(t);
}

static void refused(const char *text, hr_status status, const char *sentence) {
    hri_tokenizer_file f;
    hri_prose why = {""};
    const hr_status is = hri_tokenizer_file_parse(text, strlen(text), &f, &why);
    CHECK_STATUS(is, status);
    if (!strstr(why.text, sentence)) {
        test_fail(__FILE__, __LINE__, "%s", why.text);
    }
}

TEST(tokenizer, what_would_give_other_tokens_is_refused) {
    hri_text t = {0};
    write_file(&t, "\"normalizer\":{\"type\":\"NFC\"},", "false");
    refused(hri_text_get(&t), HR_E_UNSUPPORTED, "its normalizer");
    hri_text_deinit(&t);
    refused("[1]", HR_E_FORMAT, "not of the right kind");
    refused("{\"model\":{\"type\":\"Unigram\"}}", HR_E_UNSUPPORTED, "its model");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1,\"b\":1}}}", HR_E_FORMAT,
            "the number 1");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1}}}", HR_E_RANGE, "token -1");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1},\"merges\":[\"a b\"]}}", HR_E_FORMAT,
            "merge 1, \"a\" and \"b\"");
    refused("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":1}}}", HR_E_UNSUPPORTED, "byte-level");
    refused(
        "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\",\"vocab\":{}}}",
        HR_E_FORMAT, "byte 0 has no token");
    refused("{\"pre_tokenizer\":{\"type\":\"Whitespace\"}}", HR_E_UNSUPPORTED, "its pre-tokenizer");
}

TEST_TIMEOUT(tokenizer, a_long_piece_takes_no_squares, 20) {
    NEED_PCRE2();
    hri_tokenizer *t = open_small();
    hri_tokens is = {0};
    hri_prose why = {""};
    const size_t n = 1 << 18;
    char *text = hri_malloc(n);
    CHECK(text);
    memset(text, 'l', n);
    CHECK_OK(hri_tokenizer_encode(t, text, n, &is, &why));
    CHECK_EQ(is.count, n / 2);
    hri_free(text);
    hri_tokens_deinit(&is);
    hri_tokenizer_close(t);
}

TEST(tokenizer, a_pattern_that_is_none_is_refused) {
    NEED_PCRE2();
    hri_text_split s;
    hri_prose why = {""};
    CHECK_STATUS(hri_text_split_open("(", &s, &why), HR_E_FORMAT);
    CHECK(strstr(why.text, "its pattern cannot be read"));
}
