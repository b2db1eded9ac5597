/* Text to a file of tokens: the same tokens for any number of threads. */
#include "job/tokenize.h"

#include <stdio.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "job/token_output.h"
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

enum { LONG = 3 * (4 << 20) + 12345, SHORT = 1000 };

typedef struct stop {
    int after; /* ticks; then it is cancelled, or the process dies */
    int kill;
} stop;

static hr_status stop_at(void *user, const hr_job_event *e) {
    stop *s = user;
    if (e->kind == HR_EVENT_TICK && s->after-- == 0) {
        if (s->kill) {
            raise(SIGKILL);
        }
        return HR_E_CANCELLED;
    }
    return HR_OK;
}

static hr_status tokenize_until(const char *const *from, const char *to, stop *s,
                                uint64_t *resumed) {
    hri_tokenize_result r = {0};
    hri_why why = {0};
    const hr_status status = hri_tokenize(
        &(hri_tokenize_options){
            .paths = from, .count = 2, .out = to, .threads = 2, .listener = {stop_at, s}},
        &r, &why);
    *resumed = r.resumed_bytes;
    if (status == HR_OK) {
        CHECK_EQ(r.tokens, LONG + SHORT);
        CHECK_EQ(r.bytes, LONG + SHORT);
    }
    return status;
}

/* Two texts; the whole result goes to `whole`. */
static void make_two(char from[2][512], char *to, char **whole) {
    char *text = malloc(LONG);
    CHECK(text);
    for (size_t i = 0; i < LONG; i++) {
        const size_t k = i * 2654435761u >> 9;
        text[i] = k % 71 == 0 ? '\n' : (char)('a' + k % 26);
    }
    test_write(test_folder(), "long", text, LONG);
    test_write(test_folder(), "short", text, SHORT);
    snprintf(from[0], 512, "%s/long", test_folder());
    snprintf(from[1], 512, "%s/short", test_folder());
    snprintf(to, 512, "%s/out", test_folder());
    *whole = malloc(2 * (LONG + SHORT));
    CHECK(*whole);
    for (size_t i = 0; i < LONG + SHORT; i++) {
        (*whole)[2 * i] = text[i < LONG ? i : i - LONG];
        (*whole)[2 * i + 1] = 0;
    }
    free(text);
}

static void check_whole(const char *to, const char *whole) {
    char part[520], note[528];
    char *is = read_back(to, 2 * (size_t)(LONG + SHORT));
    CHECK(!memcmp(is, whole, 2 * (size_t)(LONG + SHORT)));
    snprintf(part, sizeof part, "%s.part", to);
    snprintf(note, sizeof note, "%s.at", part);
    CHECK(access(part, F_OK) != 0 && access(note, F_OK) != 0);
    free(is);
    CHECK_EQ(unlink(to), 0);
}

/* Characters of three bytes without a line: a cut anywhere would be in the middle of one. */
TEST(tokenize, one_long_line_is_cut_between_characters) {
    static const char words[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n\xe4\xb8\xad\n";
    enum { COUNT = BYTES / 3 };
    char from[512], to[512], vocab[512];
    char *text = malloc(3 * COUNT);
    hri_tokenize_result r;
    hri_why why = {0};
    CHECK(text);
    for (size_t i = 0; i < COUNT; i++) {
        memcpy(text + 3 * i, "\xe4\xb8\xad", 3);
    }
    test_write(test_folder(), "line", text, 3 * COUNT);
    test_write(test_folder(), "vocab.txt", words, sizeof words - 1);
    snprintf(from, sizeof from, "%s/line", test_folder());
    snprintf(to, sizeof to, "%s/tokens", test_folder());
    snprintf(vocab, sizeof vocab, "%s/vocab.txt", test_folder());
    const char *path = from;
    const hri_tokenize_options o = {
        .paths = &path, .count = 1, .out = to, .tokenizer = vocab, .threads = 2};
    CHECK_OK(hri_tokenize(&o, &r, &why));
    CHECK_EQ(r.tokens, COUNT);
    text[3 * COUNT - 2] = 'x';
    test_write(test_folder(), "line", text, 3 * COUNT);
    CHECK_EQ(hri_tokenize(&o, &r, &why), HR_E_FORMAT);
    snprintf(vocab, sizeof vocab, "byte %d is not UTF-8", 3 * COUNT - 3);
    CHECK(strstr(why.prose.text, vocab) && strstr(why.prose.text, "line"));
    free(text);
}

TEST_TIMEOUT(tokenize, goes_on_where_it_was_after_being_cancelled_or_killed, 120) {
    char from[2][512], to[512], *whole;
    make_two(from, to, &whole);
    const char *const paths[] = {from[0], from[1]};
    for (int kill = 0; kill < 2; kill++) {
        for (int after = 0; after <= 4; after += 2) {
            stop s = {after, kill}, never = {-1, 0};
            uint64_t resumed = 0;
            if (kill) {
                const pid_t child = fork();
                CHECK(child >= 0);
                if (child == 0) {
                    (void)!tokenize_until(paths, to, &s, &resumed);
                    _exit(1);
                }
                int how;
                CHECK_EQ(waitpid(child, &how, 0), child);
                CHECK(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
            } else {
                CHECK_STATUS(tokenize_until(paths, to, &s, &resumed), HR_E_CANCELLED);
            }
            CHECK(access(to, F_OK) != 0);
            CHECK_OK(tokenize_until(paths, to, &never, &resumed));
            CHECK(after < 2 ? resumed == 0 : resumed >= 7 << 20); /* a piece ends with a line */
            check_whole(to, whole);
        }
    }
    free(whole);
}

TEST_TIMEOUT(tokenize, begins_anew_when_a_text_has_changed_or_the_note_is_damaged, 120) {
    char from[2][512], to[512], note[520], *whole;
    make_two(from, to, &whole);
    const char *const paths[] = {from[0], from[1]};
    for (int k = 0; k < 2; k++) {
        stop s = {3, 0}, never = {-1, 0};
        uint64_t resumed = 7;
        CHECK_STATUS(tokenize_until(paths, to, &s, &resumed), HR_E_CANCELLED);
        snprintf(note, sizeof note, "%s.part.at", to);
        CHECK_EQ(access(note, F_OK), 0);
        if (k == 0) {
            FILE *f = fopen(note, "r+");
            CHECK(f && fseek(f, 90, SEEK_SET) == 0 && fputc('9', f) == '9' && fclose(f) == 0);
        } else {
            CHECK_EQ(truncate(from[1], SHORT - 1), 0);
            CHECK_EQ(truncate(from[1], SHORT), 0);
            FILE *f = fopen(from[1], "r+"); /* the same text at another time */
            CHECK(f && fwrite(whole, 1, 0, f) == 0 && fclose(f) == 0);
            for (size_t i = 0; i < SHORT; i++) {
                whole[2 * (LONG + i)] = i == SHORT - 1 ? 0 : whole[2 * i];
            }
        }
        CHECK_OK(tokenize_until(paths, to, &never, &resumed));
        CHECK_EQ(resumed, 0);
        check_whole(to, whole);
    }
    free(whole);
}

TEST(tokenize, a_second_process_is_kept_out) {
    char path[512];
    snprintf(path, sizeof path, "%s/out", test_folder());
    hri_token_output a = {.to = {.to = {.fd = -1}, .width = 2}};
    hri_token_output b = a;
    hri_prose why = {""};
    CHECK_OK(hri_token_output_open(&a, path, &why));
    CHECK_STATUS(hri_token_output_open(&b, path, &why), HR_E_BUSY);
    CHECK(strstr(why.text, "out: another process is writing it"));
    hri_token_output_close(&b);
    CHECK_OK(hri_token_output_commit(&a, &why));
    hri_token_output_close(&a);
    CHECK_EQ(access(path, F_OK), 0);
}
