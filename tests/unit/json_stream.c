/* The stream reads what jansson reads, in pieces of any size, and keeps nothing. */
#include "base/json_stream.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "test.h"

/* Gives `step` bytes at a call. */
typedef struct slow {
    hri_json_memory m;
    size_t step;
} slow;

static hr_status read_slowly(void *user, void *to, size_t room, size_t *got, hri_prose *why) {
    slow *s = user;
    return hri_json_read_memory(&s->m, to, room < s->step ? room : s->step, got, why);
}

typedef struct outcome {
    hr_status status;
    char shown[2048]; /* one word a token */
    hri_prose why;
    int nul;
} outcome;

static outcome read_all(const char *text, size_t bytes, size_t step,
                        const hri_json_stream_options *limits) {
    outcome o = {.status = HR_OK};
    slow source = {.m = {.text = text, .bytes = bytes}, .step = step};
    hri_json_stream_options options = limits ? *limits : (hri_json_stream_options){0};
    options.read = read_slowly;
    options.user = &source;
    hri_json_stream *s = NULL;
    size_t used = 0;
    o.status = hri_json_stream_open(&options, &s, &o.why);
    while (o.status == HR_OK) {
        static const char kinds[] = ".{}[]sirbn";
        hri_json_token t;
        o.status = hri_json_stream_next(s, &t, &o.why);
        if (o.status == HR_OK) {
            o.nul |= t.nul;
            used += (size_t)snprintf(o.shown + used, sizeof o.shown - used, "%u%c%s%s%s%s ",
                                     t.depth, kinds[t.kind], t.key, t.text[0] ? "=" : "", t.text,
                                     t.cut ? "~" : "");
            used = used < sizeof o.shown ? used : sizeof o.shown - 1;
            if (t.kind == HRI_JSON_INTEGER || t.kind == HRI_JSON_BOOL) {
                used += (size_t)snprintf(o.shown + used, sizeof o.shown - used, "%lld ",
                                         (long long)t.integer);
                used = used < sizeof o.shown ? used : sizeof o.shown - 1;
            }
        }
        if (o.status == HR_OK && t.kind == HRI_JSON_OVER) {
            break;
        }
    }
    hri_json_stream_close(s);
    CHECK(o.status == HR_OK || o.why.text[0]);
    return o;
}

static const char sample[] = "{\"a\": [1, -2.5e3, true, null], \"\\u00fc\\ud83c\\udf39\": {\"x\": "
                             "\"t\\n\\\"\\\\\"}, \"e\": {}, \"f\": []}";

TEST(json_stream, gives_every_token_with_its_place) {
    for (size_t step = 1; step < 40; step += 3) {
        const outcome o = read_all(sample, strlen(sample), step, NULL);
        CHECK_STATUS(o.status, HR_OK);
        CHECK_STR(o.shown, "0{ 1[a 2i 1 2r 2b 1 2n 1] 1{\xc3\xbc\xf0\x9f\x8c\xb9 2sx=t\n\"\\ 1} "
                           "1{e 1} 1[f 1] 0} 0. ");
    }
}

TEST(json_stream, takes_and_refuses_what_jansson_does) {
    uint64_t state = test_seed();
    static const char alphabet[] = "{}[]\",:\\u0123456789abcdeE+-.truefalsn \n\x01\xc3\xbc\xff";
    unsigned good = 0;
    for (int round = 0; round < 200000; round++) {
        char text[sizeof sample];
        size_t bytes = sizeof sample - 1;
        memcpy(text, sample, bytes);
        const unsigned changes = (unsigned)(test_random(&state) % 3);
        for (unsigned i = 0; i < changes; i++) {
            const size_t at = test_random(&state) % bytes;
            if (test_random(&state) % 3 == 0) {
                memmove(text + at, text + at + 1, bytes - at - 1);
                bytes--;
            } else {
                text[at] = alphabet[test_random(&state) % (sizeof alphabet - 1)];
            }
        }
        json_error_t error;
        json_t *value = json_loadb(text, bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
        const outcome o = read_all(text, bytes, 7, NULL);
        /* a name with a NUL in it is refused by both, whatever the flags */
        if ((o.status == HR_OK) != (value != NULL)) {
            test_fail(__FILE__, __LINE__, "%.*s: %s (%s), jansson: %s", (int)bytes, text,
                      hr_status_name(o.status), o.why.text, value ? "good" : error.text);
        }
        good += value != NULL;
        json_decref(value);
    }
    CHECK(good > 1000);
}

TEST(json_stream, keeps_to_its_limits) {
    const hri_json_stream_options small = {
        .max_text = 4, .max_key = 3, .max_depth = 2, .max_bytes = 40};
    outcome o = read_all("[\"abcd\",\"abcde\",\"x\"]", 20, 3, &small);
    CHECK_STATUS(o.status, HR_OK);
    CHECK_STR(o.shown, "0[ 1s=abcd 1s=abcd~ 1s=x 0] 0. ");
    CHECK_STATUS(read_all("{\"abcd\":1}", 10, 3, &small).status, HR_E_RANGE);
    CHECK_STATUS(read_all("[[1]]", 5, 3, &small).status, HR_OK);
    CHECK_STATUS(read_all("[[[1]]]", 7, 3, &small).status, HR_E_RANGE);
    CHECK_STATUS(read_all("[                                        ]", 42, 100, &small).status,
                 HR_E_RANGE);
    CHECK_STATUS(read_all("9223372036854775808", 19, 3, NULL).status, HR_E_FORMAT);
    CHECK_STATUS(read_all("1e999", 5, 3, NULL).status, HR_E_FORMAT);
    o = read_all("\"a\\u0000b\"", 10, 3, NULL);
    CHECK(o.status == HR_OK && o.nul);
}

TEST(json_stream, a_text_of_megabytes_takes_kilobytes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    test_skip("the resident set holds the sanitizer's own memory");
#endif
    const size_t bytes = 8 << 20;
    char *text = malloc(bytes);
    CHECK(text != NULL);
    memset(text, 'x', bytes);
    text[0] = text[bytes - 1] = '"';
    const uint64_t before = test_resident_bytes();
    const outcome o = read_all(text, bytes, 4096, NULL);
    CHECK_STATUS(o.status, HR_OK);
    CHECK_LE(test_resident_bytes(), before + (1 << 20));
    free(text);
}

TEST(json_stream, skips_what_is_not_wanted) {
    hri_json_memory m = {.text = "{\"a\":{\"b\":[1,{}]},\"c\":2}", .bytes = 24};
    const hri_json_stream_options options = {.read = hri_json_read_memory, .user = &m};
    hri_json_stream *s;
    hri_json_token t;
    CHECK_OK(hri_json_stream_open(&options, &s, NULL));
    CHECK_OK(hri_json_stream_next(s, &t, NULL));
    CHECK_OK(hri_json_stream_next(s, &t, NULL));
    CHECK_STR(t.key, "a");
    CHECK_OK(hri_json_stream_skip(s, &t, NULL));
    CHECK_OK(hri_json_stream_next(s, &t, NULL));
    CHECK_STR(t.key, "c");
    CHECK_OK(hri_json_stream_skip(s, &t, NULL));
    CHECK_OK(hri_json_stream_next(s, &t, NULL));
    CHECK_OK(hri_json_stream_next(s, &t, NULL));
    CHECK_EQ(t.kind, HRI_JSON_OVER);
    hri_json_stream_close(s);
}

#ifdef HEADROOM_FAULTS
TEST(json_stream, every_allocation_may_fail) {
    for (uint64_t nth = 1;; nth++) {
        const int64_t live = hri_fault_live_allocs();
        hri_fault_set(HRI_FAULT_ALLOC, nth, 0);
        const outcome o = read_all(sample, strlen(sample), 5, NULL);
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ALLOC, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), live);
        CHECK_STATUS(o.status, delivered ? HR_E_NOMEM_HOST : HR_OK);
        if (!delivered) {
            CHECK(nth > 3);
            break;
        }
    }
}
#endif
