/* Text as windows of tokens: folders, tokenizers whose tokens are kept, and tokens that are hidden. */
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <headroom/data.h>
#include "data/pipeline.h"
#include "small_tokenizer.h"
#include "test.h"

static hr_pipeline *open_in(const char *format) {
    char text[2048];
    const hr_pipeline_options o = {
        .size = sizeof o, .budget_bytes = 64 << 20, .workers = 2, .seed = 5};
    const char *d = test_folder();
    hr_pipeline *p;
    hr_error error;
    snprintf(text, sizeof text, format, d, d, d);
    if (hr_pipeline_open(&o, text, &error, &p) != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, error.message);
    }
    return p;
}

static void refused(const char *format, hr_status wanted, const char *part) {
    char text[2048];
    const char *d = test_folder();
    hr_pipeline *p = NULL;
    hr_error error;
    snprintf(text, sizeof text, format, d, d, d);
    CHECK_STATUS(hr_pipeline_open(NULL, text, &error, &p), wanted);
    if (!strstr(error.message, part)) {
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", error.message, part);
    }
}

static const int32_t *of(const hr_element *e, const char *field) {
    return hr_element_find(e, field)->data;
}

/* The files of the cache; the first one's path goes to `path`. */
static size_t kept(char *path, size_t size) {
    char pattern[1024];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/kept/*", test_folder());
    if (glob(pattern, 0, NULL, &found) != 0) {
        return 0;
    }
    const size_t n = found.gl_pathc;
    snprintf(path, size, "%s", found.gl_pathv[0]);
    globfree(&found);
    return n;
}

TEST(text, a_folder_is_all_files_in_it_in_order) {
    test_write(test_folder(), "books/b.txt", "22222", 5);
    test_write(test_folder(), "books/a/z.txt", "11111", 5);
    test_write(test_folder(), "books/.hidden", "33333", 5);
    hr_pipeline *p = open_in("text:%s/books,length=4");
    CHECK_EQ(hr_pipeline_count(p), 2);
    for (int i = 0; i < 2; i++) {
        hr_element *e;
        CHECK_OK(hr_pipeline_next(p, &e));
        CHECK_EQ(of(e, "tokens")[0], '1' + i);
        hr_element_unref(e);
    }
    CHECK_EQ(hri_pipeline_vocab(p), 256);
    hr_pipeline_destroy(p);
    test_write(test_folder(), "empty/.x", "", 0);
    refused("text:%s/empty,length=4", HR_E_NOT_FOUND, "empty: no files in this folder");
}

TEST(text, tokens_of_a_tokenizer_are_made_once_and_kept) {
    static const char source[] = "text:%s/t.txt,length=3,tokenizer=%s/t.json,cache=%s/kept";
    static const int32_t want[] = {258, 'o', ' ', 256, 'y', '<'};
    char path[1024], other[1024];
    write_small_tokenizer("t.json");
    test_write(test_folder(), "t.txt", "hello hey<", 10);
    for (int round = 0; round < 2; round++) {
        hr_pipeline *p = open_in(source);
        hr_element *e;
        CHECK_EQ(hr_pipeline_count(p), 1); /* six tokens: the window behind needs one more */
        CHECK_EQ(hri_pipeline_vocab(p), 261);
        CHECK_OK(hr_pipeline_next(p, &e));
        CHECK(!memcmp(of(e, "tokens"), want, 3 * sizeof want[0]));
        CHECK(!memcmp(of(e, "targets"), want + 1, 3 * sizeof want[0]));
        hr_element_unref(e);
        hr_pipeline_destroy(p);
        CHECK_EQ(kept(path, sizeof path), 1);
    }
    test_write(test_folder(), "t.txt", "hello hello hey", 15); /* another length: another file */
    hr_pipeline *p = open_in(source);
    CHECK_EQ(hr_pipeline_count(p), 2);
    hr_pipeline_destroy(p);
    CHECK_EQ(kept(other, sizeof other), 2);
    refused("text:%s/t.txt,length=99,tokenizer=%s/t.json,cache=%s/kept", HR_E_FORMAT,
            "t.txt: fewer than 99 + 1 tokens");
    refused("text:%s/t.txt,tokenizer=%s/none.json,cache=%s/kept", HR_E_NOT_FOUND, "none.json");
    refused("text:%s/t.txt,length=3,tokenizer=%s/t.json,cache=%s/t.txt/x", HR_E_IO, "t.txt");
}

TEST(text, what_a_tokenizer_of_characters_cannot_read_is_refused_with_its_place) {
    static const char source[] = "text:%s/w.txt,length=2,tokenizer=%s/vocab.txt,cache=%s/kept";
    static const char words[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n\xc3\xbc\n";
    char path[1024];
    test_write(test_folder(), "vocab.txt", words, sizeof words - 1);
    test_write(test_folder(), "w.txt", "un un\nun \xfc un\n", 14); /* Latin-1 */
    refused(source, HR_E_FORMAT, "w.txt: byte 9 is not UTF-8; convert the file");
    CHECK_EQ(kept(path, sizeof path), 0);
    test_write(test_folder(), "w.txt", "un un\nun \xc3\xbc un\n", 15);
    hr_pipeline_destroy(open_in(source));
    CHECK_EQ(kept(path, sizeof path), 1);
}

TEST(text, hidden_tokens_are_what_a_masked_model_predicts) {
    char text[4001];
    for (int i = 0; i < 4001; i++) {
        text[i] = (char)('a' + i % 26);
    }
    test_write(test_folder(), "m.txt", text, sizeof text);
    int32_t first[1000];
    int hidden = 0, masked = 0, same = 0;
    for (int round = 0; round < 2; round++) {
        hr_pipeline *p = open_in("text:%s/m.txt,length=1000,mask=0.2");
        hr_element *e;
        for (int n = 0; n < 4; n++) {
            CHECK_OK(hr_pipeline_next(p, &e));
            const int32_t *x = of(e, "tokens"), *y = of(e, "targets");
            for (int i = 0; i < 1000; i++) {
                const int32_t is = (unsigned char)text[1000 * n + i];
                CHECK(y[i] == -1 || y[i] == is);
                CHECK(y[i] >= 0 || x[i] == is);
                CHECK(x[i] == 1 || (x[i] >= 'a' && x[i] <= 'z'));
                hidden += y[i] >= 0;
                masked += y[i] >= 0 && x[i] == 1;
                same += y[i] >= 0 && x[i] == is;
            }
            if (n == 0 && round == 0) {
                memcpy(first, x, sizeof first);
            } else if (n == 0) {
                CHECK(!memcmp(first, x, sizeof first)); /* the same draws again */
            }
            hr_element_unref(e);
        }
        hr_pipeline_destroy(p);
    }
    CHECK_LE(1300, hidden); /* of 8000, 0.2 */
    CHECK_LE(hidden, 1900);
    CHECK_LE(hidden * 7 / 10, masked);
    CHECK_LE(masked, hidden * 9 / 10);
    CHECK_LE(hidden * 5 / 100, same);
    write_small_tokenizer("t.json");
    hr_pipeline *p = open_in("text:%s/m.txt,length=500,mask=0.5,tokenizer=%s/t.json,cache=%s/kept");
    hr_element *e;
    CHECK_OK(hr_pipeline_next(p, &e));
    masked = 0;
    for (int i = 0; i < 500; i++) {
        masked += of(e, "tokens")[i] == 260; /* "[MASK]" */
    }
    CHECK_LE(100, masked);
    hr_element_unref(e);
    hr_pipeline_destroy(p);
    test_write(test_folder(), "t.bin", text, 4000);
    refused("tokens:%s/t.bin,length=8,mask=0.2", HR_E_INVALID, "mask_token: missing");
}

/* The tokens of the next element, compared. */
static void check_tokens(hr_pipeline *p, const int32_t *want, size_t count) {
    hr_element *e;
    CHECK_OK(hr_pipeline_next(p, &e));
    CHECK_EQ(hr_element_find(e, "tokens")->bytes, count * sizeof *want);
    CHECK(!memcmp(of(e, "tokens"), want, count * sizeof *want));
    hr_element_unref(e);
}

TEST(text, samples_are_cut_and_filled_up) {
    static const int32_t bytes[2][4] = {{'h', 'e', 0, 0}, {'h', 'e', 'l', 'l'}};
    static const int32_t tokens[2][3] = {{256, 261, 261}, {258, 'o', ' '}};
    write_small_tokenizer("t.json");
    test_write(test_folder(), "in/a/1.txt", "he", 2);
    test_write(test_folder(), "in/b/1.txt", "hello he", 8);
    hr_pipeline *p = open_in("texts:%s/in,length=4");
    CHECK_EQ(hr_pipeline_count(p), 2);
    CHECK_STR(hr_pipeline_class(p, 1), "b");
    CHECK_EQ(hri_pipeline_vocab(p), 256);
    CHECK_EQ(hri_pipeline_pad(p), 0);
    check_tokens(p, bytes[0], 4);
    check_tokens(p, bytes[1], 4);
    hr_pipeline_destroy(p);
    p = open_in("texts:%s/in,length=3,tokenizer=%s/t.json");
    CHECK_EQ(hri_pipeline_vocab(p), 262); /* it has none that fills: one more */
    CHECK_EQ(hri_pipeline_pad(p), 261);
    check_tokens(p, tokens[0], 3);
    check_tokens(p, tokens[1], 3);
    hr_pipeline_destroy(p);
    refused("texts:%s/in,tokenizer=%s/t.json,pad=261", HR_E_INVALID, "numbers below 261");
    refused("texts:%s/nothing", HR_E_NOT_FOUND, "nothing: no such file or directory");
}

TEST(text, samples_that_are_not_utf8_are_bad_with_a_tokenizer_alone) {
    hr_element *e;
    write_small_tokenizer("t.json");
    test_write(test_folder(), "in/a/1.txt", "he\xff", 3);
    hr_pipeline *p = open_in("texts:%s/in,length=4");
    CHECK_OK(hr_pipeline_next(p, &e));
    CHECK_EQ(of(e, "tokens")[2], 255);
    hr_element_unref(e);
    hr_pipeline_destroy(p);
    p = open_in("texts:%s/in,length=4,tokenizer=%s/t.json");
    hr_error error;
    CHECK_STATUS(hr_pipeline_next(p, &e), HR_E_FORMAT);
    hr_pipeline_error(p, &error);
    CHECK(strstr(error.message, "a/1.txt: texts: byte 2 is not UTF-8"));
    hr_pipeline_destroy(p);
}

/* Only the first 32 bytes per token are read, up to a whole character. */
TEST(text, a_long_sample_is_cut_between_characters) {
    static const int32_t want[] = {0xc3, 0xa9};
    char text[200];
    write_small_tokenizer("t.json");
    for (int i = 0; i < 200; i++) {
        text[i] = (char)(i % 2 ? 0xc3 : 0xa9);
    }
    test_write(test_folder(), "in/a/1.txt", text + 1, 199);
    hr_pipeline *p = open_in("texts:%s/in,length=2,tokenizer=%s/t.json");
    check_tokens(p, want, 2);
    hr_pipeline_destroy(p);
}
