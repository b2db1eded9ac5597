/* File sources against a sequential model: files with random records are written, and every element that a pipeline
 * gives is compared with the list that they were written from.  In order, shuffled by an index, with 1, 2 and 8
 * workers, and across cuts in which the state is saved and restored in another pipeline.
 *
 * An element is known by one number, `id`, that is drawn into everything else of it: a source that mixed two elements,
 * or read at a wrong place, does not give one that is whole. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <headroom/data.h>
#include "base/hash.h"
#include "base/random.h"
#include "data/formats/crc32c.h"
#include "test.h"

enum { ELEMENTS = 400, FILES = 3, TEXT = 2048, SIDE = 5, WINDOW = 7 };

typedef struct bytes {
    unsigned char *data;
    size_t count, capacity;
} bytes;

static void put(bytes *b, const void *data, size_t n) {
    if (b->count + n > b->capacity) {
        b->capacity = 2 * (b->count + n);
        b->data = realloc(b->data, b->capacity);
        CHECK(b->data != NULL);
    }
    if (n > 0) {
        memcpy(b->data + b->count, data, n);
    }
    b->count += n;
}

static void put_byte(bytes *b, unsigned value) {
    const unsigned char c = (unsigned char)value;
    put(b, &c, 1);
}

static const char *root(void) {
    static char folder[] = "/tmp/headroom-files-XXXXXX";
    static bool made;
    if (!made) {
        CHECK(mkdtemp(folder) != NULL);
        made = true;
    }
    return folder;
}

/* Writes and empties b. */
static void write_file(const char *name, bytes *b) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root(), name);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    if (b->count > 0) {
        CHECK_EQ(fwrite(b->data, 1, b->count, f), b->count);
    }
    CHECK(fclose(f) == 0);
    free(b->data);
    *b = (bytes){0};
}

static void clean(void) {
    char command[256];
    snprintf(command, sizeof command, "rm -r %s", root());
    CHECK_EQ(system(command), 0);
}

/* ---- what belongs to an id ---- */

static uint64_t mixed(uint64_t id, uint64_t salt) {
    return hri_hash_u64(id * 31 + salt);
}

/* A text of 0 to 60 bytes: no line ends. */
static size_t text_of(uint64_t id, char *to) {
    const size_t n = mixed(id, 1) % 61;
    for (size_t i = 0; i < n; i++) {
        to[i] = (char)(' ' + mixed(id, 10 + i) % 95);
    }
    return n;
}

/* ---- formats: how id is written, and how an element's is found and checked ---- */

typedef struct format {
    const char *text;              /* the pipeline; @ is the folder */
    bool random;                   /* has random access */
    void (*write)(uint64_t count); /* elements 0 .. count - 1 */
    uint64_t (*id)(const hr_element *e, uint64_t index);
} format;

/* Whole files with the elements spread over them, in the order of their names. */
static void write_parts(const char *pattern, uint64_t count,
                        void (*one)(bytes *b, uint64_t id, bool first)) {
    uint64_t id = 0;
    for (int part = 0; part < FILES; part++) {
        bytes b = {0};
        const uint64_t end = part + 1 == FILES ? count : count * (uint64_t)(part * part + 1) / 9;
        char name[64];
        bool first = true;
        for (; id < end; id++, first = false) {
            one(&b, id, first);
        }
        snprintf(name, sizeof name, pattern, part);
        write_file(name, &b);
    }
}

static void one_line(bytes *b, uint64_t id, bool first) {
    char text[TEXT];
    (void)first;
    const int n = snprintf(text, sizeof text, "%llu ", (unsigned long long)id);
    const size_t m = text_of(id, text + n);
    put(b, text, (size_t)n + m);
    put(b, "\r\n" + (mixed(id, 2) % 2), 1 + !(mixed(id, 2) % 2));
}

static void write_lines(uint64_t count) {
    write_parts("lines%d", count, one_line);
}

static uint64_t id_line(const hr_element *e, uint64_t index) {
    const hr_field *f = hr_element_find(e, "text");
    char want[TEXT], copy[TEXT];
    (void)index;
    CHECK(f != NULL);
    CHECK_LE(f->bytes, TEXT - 1);
    memcpy(copy, f->data, f->bytes);
    copy[f->bytes] = 0;
    const uint64_t id = strtoull(copy, NULL, 10);
    const int n = snprintf(want, sizeof want, "%llu ", (unsigned long long)id);
    CHECK_EQ(f->bytes, (size_t)n + text_of(id, want + n));
    CHECK(memcmp(want, f->data, f->bytes) == 0);
    return id;
}

static void one_record(bytes *b, uint64_t id, bool first) {
    char text[TEXT];
    if (first) {
        put(b, "id,real,word\n", 13);
    }
    const int n = snprintf(text, sizeof text, "%llu,%.3f,\"", (unsigned long long)id,
                           (double)(int64_t)(mixed(id, 3) % 2000) / 8 - 100);
    put(b, text, (size_t)n);
    const size_t m = text_of(id, text);
    for (size_t i = 0; i < m; i++) {
        put(b, text[i] == '"' ? "\"\"" : text[i] == '~' ? "\n" : &text[i], text[i] == '"' ? 2 : 1);
    }
    put(b, "\"\r\n", 3);
}

static void write_csv(uint64_t count) {
    write_parts("csv%d", count, one_record);
}

static uint64_t id_csv(const hr_element *e, uint64_t index) {
    const hr_field *f = hr_element_find(e, "id"), *real = hr_element_find(e, "real"),
                   *word = hr_element_find(e, "word");
    char want[TEXT];
    (void)index;
    CHECK(f && real && word);
    const uint64_t id = (uint64_t) * (const int64_t *)f->data;
    CHECK(*(const float *)real->data == (float)((double)(int64_t)(mixed(id, 3) % 2000) / 8 - 100));
    const size_t n = text_of(id, want);
    for (size_t i = 0; i < n; i++) {
        want[i] = want[i] == '~' ? '\n' : want[i];
    }
    CHECK_EQ(word->bytes, n);
    CHECK(memcmp(want, word->data, n) == 0);
    return id;
}

static void put_framed(bytes *b, const void *data, uint64_t n) {
    uint32_t crc = hri_crc32c_masked(&n, 8);
    put(b, &n, 8);
    put(b, &crc, 4);
    put(b, data, n);
    crc = hri_crc32c_masked(data, n);
    put(b, &crc, 4);
}

static void put_number(bytes *b, uint64_t n) {
    for (; n >= 128; n >>= 7) {
        put_byte(b, (unsigned)(n & 127) | 128);
    }
    put_byte(b, (unsigned)n);
}

static void put_message(bytes *to, unsigned field, bytes *b) {
    put_byte(to, field << 3 | 2);
    put_number(to, b->count);
    if (b->count) {
        put(to, b->data, b->count);
    }
    free(b->data);
    *b = (bytes){0};
}

static void put_feature(bytes *features, const char *name, unsigned kind, bytes *list) {
    bytes key = {0}, value = {0}, pair = {0};
    put(&key, name, strlen(name));
    put_message(&value, kind, list);
    put_message(&pair, 1, &key);
    put_message(&pair, 2, &value);
    put_message(features, 1, &pair);
}

/* id: int64, floats packed or one by one, text: bytes. */
static void one_example(bytes *b, uint64_t id, bool first) {
    bytes features = {0}, list = {0}, inner = {0}, example = {0};
    (void)first;
    put_byte(&list, 1 << 3);
    put_number(&list, id);
    put_feature(&features, "id", 3, &list);
    for (uint64_t i = 0; i < 3; i++) {
        const float real = (float)(int64_t)(mixed(id, 4 + i) % 1000);
        if (id % 2) {
            put_byte(&list, 1 << 3 | 5);
        }
        put(id % 2 ? &list : &inner, &real, 4);
    }
    if (inner.count) {
        put_message(&list, 1, &inner);
    }
    put_feature(&features, "floats", 2, &list);
    char text[TEXT];
    put(&inner, text, text_of(id, text));
    put_message(&list, 1, &inner);
    put_feature(&features, "text", 1, &list);
    put_message(&example, 1, &features);
    put_framed(b, example.data, example.count);
    free(example.data);
}

static void write_examples(uint64_t count) {
    write_parts("tf%d", count, one_example);
}

static uint64_t id_example(const hr_element *e, uint64_t index) {
    const hr_field *f = hr_element_find(e, "id"), *floats = hr_element_find(e, "floats"),
                   *text = hr_element_find(e, "text");
    char want[TEXT];
    (void)index;
    CHECK(f && floats && text);
    const uint64_t id = (uint64_t) * (const int64_t *)f->data;
    CHECK_EQ(floats->bytes, 12);
    for (uint64_t i = 0; i < 3; i++) {
        CHECK(((const float *)floats->data)[i] == (float)(int64_t)(mixed(id, 4 + i) % 1000));
    }
    CHECK_EQ(text->bytes, text_of(id, want));
    CHECK(memcmp(want, text->data, text->bytes) == 0);
    return id;
}

static void write_npy(uint64_t count) {
    bytes x = {0}, y = {0};
    char head[129];
    for (int i = 0; i < 2; i++) {
        snprintf(head, sizeof head,
                 i ? "{'descr': '<i8', 'fortran_order': False, 'shape': (%llu,), }"
                   : "{'descr': '<f4', 'fortran_order': False, 'shape': (%llu, 2, 3), }",
                 (unsigned long long)count);
        put(i ? &y : &x, "\x93NUMPY\x01\x00\x76\x00", 10);
        char line[118];
        memset(line, ' ', sizeof line);
        memcpy(line, head, strlen(head));
        line[117] = '\n';
        put(i ? &y : &x, line, sizeof line);
    }
    for (uint64_t id = 0; id < count; id++) {
        put(&y, &id, 8);
        for (uint64_t i = 0; i < 6; i++) {
            const float real = (float)(mixed(id, i) % 4096);
            put(&x, &real, 4);
        }
    }
    write_file("x.npy", &x);
    write_file("y.npy", &y);
}

static uint64_t id_npy(const hr_element *e, uint64_t index) {
    const hr_field *x = hr_element_find(e, "x"), *y = hr_element_find(e, "y");
    (void)index;
    CHECK(x && y);
    const uint64_t id = (uint64_t) * (const int64_t *)y->data;
    CHECK_EQ(x->bytes, 24);
    for (uint64_t i = 0; i < 6; i++) {
        CHECK(((const float *)x->data)[i] == (float)(mixed(id, i) % 4096));
    }
    return id;
}

static void put_word(bytes *b, uint64_t word) {
    for (int shift = 24; shift >= 0; shift -= 8) {
        put_byte(b, (unsigned)(word >> shift) & 255);
    }
}

static void write_mnist(uint64_t count) {
    bytes x = {0}, y = {0};
    put_word(&x, 0x803);
    put_word(&x, count);
    put_word(&x, SIDE);
    put_word(&x, SIDE);
    put_word(&y, 0x801);
    put_word(&y, count);
    for (uint64_t id = 0; id < count; id++) {
        put_byte(&y, (unsigned)mixed(id, 99) & 255);
        put(&x, &id, 4);
        for (uint64_t i = 4; i < SIDE * SIDE; i++) {
            put_byte(&x, (unsigned)mixed(id, i) & 255);
        }
    }
    write_file("train-images-idx3-ubyte", &x);
    write_file("train-labels-idx1-ubyte", &y);
}

static uint64_t id_mnist(const hr_element *e, uint64_t index) {
    const hr_field *x = hr_element_find(e, "image"), *y = hr_element_find(e, "label");
    uint32_t id = 0;
    (void)index;
    CHECK(x && y);
    memcpy(&id, x->data, 4);
    CHECK_EQ(*(const int32_t *)y->data, mixed(id, 99) & 255);
    for (uint64_t i = 4; i < SIDE * SIDE; i++) {
        CHECK_EQ(((const uint8_t *)x->data)[i], mixed(id, i) & 255);
    }
    return id;
}

static void write_cifar(uint64_t count) {
    uint64_t id = 0;
    for (int part = 0; part < 5; part++) {
        bytes b = {0};
        char name[64];
        const uint64_t end = part == 4 ? count : count * (uint64_t)(part * part) / 20;
        for (; id < end; id++) {
            put_byte(&b, (unsigned)(mixed(id, 5) % 10));
            put(&b, &id, 4);
            for (uint64_t i = 4; i < 3072; i++) {
                put_byte(&b, (unsigned)(id * 7 + i * 13) & 255);
            }
        }
        snprintf(name, sizeof name, "data_batch_%d.bin", part + 1);
        write_file(name, &b);
    }
}

static uint64_t id_cifar(const hr_element *e, uint64_t index) {
    const hr_field *x = hr_element_find(e, "image"), *y = hr_element_find(e, "label");
    (void)index;
    CHECK(x && y);
    const uint8_t *p = x->data;
    const uint64_t id = (uint64_t)p[0] | (uint64_t)p[3] << 8 | (uint64_t)p[6] << 16;
    CHECK_EQ(*(const int32_t *)y->data, mixed(id, 5) % 10);
    for (uint64_t i = 4; i < 3072; i++) {
        CHECK_EQ(p[i % 1024 * 3 + i / 1024], (id * 7 + i * 13) & 255);
    }
    return id;
}

/* Windows that lie end to end; a file's tokens count on from the last's. */
static void write_tokens(uint64_t count) {
    uint64_t id = 0;
    for (int part = 0; part < FILES; part++) {
        bytes b = {0};
        char name[64];
        const uint64_t end = part + 1 == FILES ? count : count * (uint64_t)part / 4;
        for (uint64_t i = id * WINDOW; id < end && i <= end * WINDOW; i++) {
            const uint32_t token = (uint32_t)i;
            put(&b, &token, 4);
        }
        id = end;
        snprintf(name, sizeof name, "tokens%d", part);
        write_file(name, &b);
    }
}

static uint64_t id_tokens(const hr_element *e, uint64_t index) {
    const hr_field *x = hr_element_find(e, "tokens"), *y = hr_element_find(e, "targets");
    (void)index;
    CHECK(x && y);
    const int32_t first = ((const int32_t *)x->data)[0];
    CHECK_EQ(first % WINDOW, 0);
    for (int i = 0; i < WINDOW; i++) {
        CHECK_EQ(((const int32_t *)x->data)[i], first + i);
        CHECK_EQ(((const int32_t *)y->data)[i], first + i + 1);
    }
    return (uint64_t)first / WINDOW;
}

static const format formats[] = {
    {"lines:@/lines*", false, write_lines, id_line},
    {"lines:@/lines*,index=on", true, write_lines, id_line},
    {"csv:@/csv*", false, write_csv, id_csv},
    {"csv:@/csv*,index=on", true, write_csv, id_csv},
    {"tfrecord:@/tf*", false, write_examples, id_example},
    {"tfrecord:@/tf*,index=on", true, write_examples, id_example},
    {"npy:@/x.npy,@/y.npy", true, write_npy, id_npy},
    {"mnist:@", true, write_mnist, id_mnist},
    {"cifar10:@", true, write_cifar, id_cifar},
    {"tokens:@/tokens*,type=u32,length=7", true, write_tokens, id_tokens},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

/* ---- pipelines ---- */

static void spell(const format *f, const char *rest, char *at) {
    for (const char *p = f->text; *p; p++) {
        if (*p == '@') {
            at += sprintf(at, "%s", root());
        } else {
            *at++ = *p;
        }
    }
    sprintf(at, "%s", rest);
}

static hr_pipeline *build(const format *f, const char *rest, uint32_t workers, uint64_t budget) {
    char text[1024];
    spell(f, rest, text);
    const hr_pipeline_options o = {
        .size = sizeof o, .budget_bytes = budget, .workers = workers, .seed = 4};
    hr_pipeline *p;
    hr_error error;
    const hr_status status = hr_pipeline_open(&o, text, &error, &p);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, error.message);
    }
    return p;
}

/* The model: the ids in the order of an epoch. */
static void order(const format *f, int64_t seed, uint64_t epoch, uint64_t count, uint64_t *out) {
    const uint64_t key = hri_hash_u64((uint64_t)seed);
    const hri_shuffle s = hri_shuffle_make(key ^ hri_hash_u64(epoch >> 32), (uint32_t)epoch, count);
    for (uint64_t i = 0; i < count; i++) {
        out[i] = seed >= 0 && f->random ? hri_shuffle_at(&s, i) : i;
    }
}

static void follow(const format *f, hr_pipeline *p, const uint64_t *want, uint64_t *at,
                   uint64_t end) {
    for (; *at < end; ++*at) {
        hr_element *e;
        CHECK_OK(hr_pipeline_next(p, &e));
        const uint64_t id = f->id(e, *at);
        if (id != want[*at]) {
            test_fail(__FILE__, __LINE__, "%s: element %llu is %llu, not %llu", f->text,
                      (unsigned long long)*at, (unsigned long long)id,
                      (unsigned long long)want[*at]);
        }
        hr_element_unref(e);
    }
}

TEST_TIMEOUT(files, follow_the_model_and_resume_anywhere, 120) {
    static const uint32_t workers[] = {1, 2, 8};
    uint64_t seed = test_seed() + 2;
    uint64_t want[ELEMENTS];
    for (int k = 0; k < FORMATS; k++) {
        const format *f = &formats[k];
        const uint64_t count = 20 + test_random(&seed) % (ELEMENTS - 20);
        f->write(count);
        for (int round = 0; round < 6; round++) {
            const bool shuffled = round % 2 && f->random;
            const uint64_t epoch = test_random(&seed) % 3;
            const char *rest = shuffled ? " | shuffle(seed=8) | prefetch(3)" : " | prefetch(2)";
            order(f, shuffled ? 8 : -1, epoch, count, want);
            hr_pipeline *p = build(f, rest, workers[test_random(&seed) % 3], 8 << 20);
            if (f->random) {
                CHECK_EQ(hr_pipeline_count(p), count);
            }
            CHECK_OK(hr_pipeline_seek(p, epoch));
            uint64_t at = 0;
            while (at < count) {
                const uint64_t step = test_random(&seed) % count;
                follow(f, p, want, &at, step < count - at ? at + step : count);
                void *state;
                size_t n;
                CHECK_OK(hr_pipeline_save(p, &state, &n));
                hr_pipeline_destroy(p);
                p = build(f, rest, workers[test_random(&seed) % 3], 8 << 20);
                CHECK_OK(hr_pipeline_restore(p, state, n));
                hr_pipeline_state_free(state);
            }
            hr_element *e;
            CHECK_STATUS(hr_pipeline_next(p, &e), HR_E_EOF);
            hr_pipeline_stats stats = {.size = sizeof stats};
            CHECK_OK(hr_pipeline_get_stats(p, &stats));
            CHECK_LE(stats.peak_bytes, stats.budget_bytes);
            hr_pipeline_destroy(p);
        }
    }
    clean();
}

TEST(files, a_change_while_reading_is_told_and_another_pipeline_for_states) {
    for (int k = 0; k < FORMATS; k++) {
        const format *f = &formats[k];
        f->write(50);
        hr_pipeline *p = build(f, "", 1, 8 << 20);
        hr_element *e;
        CHECK_OK(hr_pipeline_next(p, &e));
        hr_element_unref(e);
        void *state;
        size_t n;
        CHECK_OK(hr_pipeline_save(p, &state, &n));
        f->write(51);
        hr_status status;
        int bad = 0;
        while ((status = hr_pipeline_next(p, &e)) != HR_E_EOF && bad < 60) {
            if (status == HR_OK) {
                hr_element_unref(e); /* can be, of what was read ahead */
                continue;
            }
            hr_error error;
            hr_pipeline_error(p, &error);
            CHECK_STATUS(status, HR_E_IO);
            CHECK(strstr(error.message, "changed after it was opened") != NULL);
            CHECK(strstr(error.message, root()) != NULL);
            bad++;
        }
        CHECK_LE(1, bad);
        hr_pipeline_destroy(p);
        p = build(f, "", 1, 8 << 20);
        CHECK_STATUS(hr_pipeline_restore(p, state, n), HR_E_INVALID);
        hr_pipeline_state_free(state);
        hr_pipeline_destroy(p);
    }
    clean();
}

TEST(files, more_of_them_than_a_process_may_open_are_read) {
    enum { MANY = 300 };
    for (int i = 0; i < MANY; i++) {
        bytes b = {0};
        char name[32];
        one_line(&b, (uint64_t)i, true);
        snprintf(name, sizeof name, "lines%03d", i);
        write_file(name, &b);
    }
    const struct rlimit few = {280, 280};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int k = 0; k < 2; k++) {
        uint64_t want[MANY], at = 0;
        order(&formats[k], -1, 0, MANY, want);
        hr_pipeline *p = build(&formats[k], "", 2, 8 << 20);
        follow(&formats[k], p, want, &at, MANY);
        hr_pipeline_destroy(p);
    }
    clean();
}

/* Opens with every budget from almost nothing on: it is refused, or it is enough to the end. */
TEST_TIMEOUT(files, any_budget_is_refused_or_enough, 120) {
    static const char *const more[] = {"", " | batch(4,pad=on)", " | shuffle(20) | prefetch(2)"};
    char text[1024];
    for (int k = 0; k < FORMATS; k++) {
        const format *f = &formats[k];
        f->write(30);
        for (size_t m = 0; m < sizeof more / sizeof more[0]; m++) {
            hr_status last = HR_E_LIMIT;
            uint64_t budget = 1000;
            for (; budget < 4 << 20; budget += budget / 3) {
                spell(f, more[m], text);
                const hr_pipeline_options o = {
                    .size = sizeof o, .budget_bytes = budget, .workers = 2};
                hr_pipeline *p = NULL;
                hr_error error;
                const hr_status status = hr_pipeline_open(&o, text, &error, &p);
                if (status != HR_OK) {
                    CHECK_STATUS(status, HR_E_LIMIT);
                    CHECK_STATUS(last, HR_E_LIMIT); /* more is never less */
                    continue;
                }
                last = HR_OK;
                uint64_t elements = 0;
                hr_element *e;
                while (hr_pipeline_next(p, &e) == HR_OK) {
                    const hr_field *field = hr_element_field(e, 0);
                    elements += m == 1 ? (uint64_t)field->meta.shape.dim[0] : 1;
                    hr_element_unref(e);
                }
                CHECK_EQ(elements, 30);
                hr_pipeline_stats stats = {.size = sizeof stats};
                CHECK_OK(hr_pipeline_get_stats(p, &stats));
                CHECK_LE(stats.peak_bytes, budget);
                hr_pipeline_destroy(p);
            }
            CHECK_OK(last);
        }
    }
    clean();
}

TEST_TIMEOUT(files, a_record_larger_than_the_budget_is_refused_at_once, 60) {
    bytes b = {0}, record = {0};
    for (int i = 0; i < 200 << 10; i++) {
        put_byte(&record, 'x');
    }
    put_framed(&b, record.data, record.count);
    write_file("big", &b);
    free(record.data);
    put(&b, "one\n", 4);
    write_file("lines", &b);
    char text[512];
    snprintf(text, sizeof text, "zip({lines:%s/lines,max_bytes=64},{tfrecord:%s/big,example=off})",
             root(), root());
    bool opened = false;
    for (uint64_t budget = 32 << 10; budget < 4 << 20; budget += budget / 16) {
        const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = budget};
        hr_pipeline *p = NULL;
        hr_element *e;
        hr_error error;
        const hr_status status = hr_pipeline_open(&o, text, &error, &p);
        if (status == HR_OK) {
            CHECK_OK(hr_pipeline_next(p, &e));
            hr_element_unref(e);
            hr_pipeline_destroy(p);
            opened = true;
        } else {
            CHECK_STATUS(status, HR_E_LIMIT);
            CHECK(!opened);
        }
    }
    CHECK(opened);
    clean();
}

TEST(files, an_index_that_does_not_fit_is_refused_with_its_bytes) {
    bytes b = {0};
    for (int i = 0; i < 20000; i++) {
        put(&b, "x\n", 2);
    }
    write_file("lines", &b);
    char text[128];
    snprintf(text, sizeof text, "lines:%s/lines,index=on,max_bytes=100", root());
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 300 << 10};
    hr_pipeline *p = NULL;
    hr_error error;
    CHECK_STATUS(hr_pipeline_open(&o, text, &error, &p), HR_E_LIMIT);
    CHECK(strstr(error.message, "index: the positions of") != NULL);
    CHECK(strstr(error.message, "300 KiB") != NULL);
    clean();
}

TEST(tokens, random_windows_are_drawn_by_epoch_and_place) {
    write_tokens(40);
    int32_t first[2][40];
    uint64_t differ = 0;
    for (int k = 0; k < 3; k++) { /* twice the same epoch, then the next */
        char text[256];
        snprintf(text, sizeof text, "tokens:%s/tokens*,type=u32,length=7,random=on", root());
        const hr_pipeline_options o = {
            .size = sizeof o, .budget_bytes = 1 << 20, .workers = 1 + (uint32_t)k, .seed = 3};
        hr_pipeline *p;
        CHECK_OK(hr_pipeline_open(&o, text, NULL, &p));
        CHECK_OK(hr_pipeline_seek(p, k == 2));
        CHECK_EQ(hr_pipeline_count(p), 40);
        for (int i = 0; i < 40; i++) {
            hr_element *e;
            CHECK_OK(hr_pipeline_next(p, &e));
            const int32_t *x = hr_element_find(e, "tokens")->data;
            for (int t = 1; t < WINDOW; t++) {
                CHECK_EQ(x[t], x[0] + t);
            }
            if (k == 1) {
                CHECK_EQ(x[0], first[0][i]);
            } else {
                first[k / 2][i] = x[0];
            }
            hr_element_unref(e);
        }
        hr_pipeline_destroy(p);
    }
    for (int i = 0; i < 40; i++) {
        differ += first[0][i] != first[1][i];
    }
    CHECK_LE(30, differ);
    clean();
}
