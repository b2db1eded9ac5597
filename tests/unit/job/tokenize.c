/* Text to a file of tokens: the same tokens for any number of threads. */
#include "job/tokenize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "pictures.h"
#include "test.h"

enum { BYTES = (4 << 20) + 70000 }; /* two pieces */

static char *text_of_lines(void) {
    char *text = malloc(BYTES);
    CHECK(text);
    for (size_t i = 0; i < BYTES; i++) {
        const size_t k = i * 2654435761u >> 7;
        text[i] = k % 61 == 0 ? '\n' : k % 7 == 0 ? ' ' : k % 53 == 0 ? '.' : (char)('a' + k % 26);
    }
    return text;
}

static char *read_back(const char *path, size_t bytes) {
    FILE *file = fopen(path, "rb");
    char *data = malloc(bytes + 1);
    CHECK(file && data);
    CHECK_EQ(fread(data, 1, bytes + 1, file), bytes);
    fclose(file);
    return data;
}

static void tokenize(const char *from, const char *to, uint32_t threads) {
    hri_tokenize_result r;
    hri_why why = {0};
    CHECK_OK(hri_tokenize(
        &(hri_tokenize_options){.paths = &from, .count = 1, .out = to, .threads = threads}, &r,
        &why));
    CHECK_EQ(r.tokens, BYTES);
    CHECK_EQ(r.bytes, BYTES);
}

TEST(tokenize, has_the_same_tokens_for_any_number_of_threads) {
    char from[512], to[2][512];
    char *text = text_of_lines();
    test_write(test_folder(), "text", text, BYTES);
    snprintf(from, sizeof from, "%s/text", test_folder());
    for (int i = 0; i < 2; i++) {
        snprintf(to[i], sizeof to[i], "%s/%d", test_folder(), i);
    }
    tokenize(from, to[0], 1);
    tokenize(from, to[1], 3);
    char *one = read_back(to[0], 2 * (size_t)BYTES), *three = read_back(to[1], 2 * (size_t)BYTES);
    CHECK(!memcmp(one, three, 2 * (size_t)BYTES));
    size_t wrong = 0;
    for (size_t i = 0; i < BYTES; i++) {
        wrong += one[2 * i] != text[i] || one[2 * i + 1];
    }
    CHECK_EQ(wrong, 0);
    free(text);
    free(one);
    free(three);
}
