/* See files_formats.h. */
#include "files_formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/hash.h"
#include "base/crc32c.h"
#include "test.h"

enum { FILES = 3, TEXT = 2048, SIDE = 5 };

void files_put(files_bytes *b, const void *data, size_t n) {
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

void files_put_byte(files_bytes *b, unsigned value) {
    const unsigned char c = (unsigned char)value;
    files_put(b, &c, 1);
}

const char *files_root(void) {
    static char folder[] = "/tmp/headroom-files-XXXXXX";
    static bool made;
    if (!made) {
        CHECK(mkdtemp(folder) != NULL);
        made = true;
    }
    return folder;
}

/* Writes and empties b. */
void files_write(const char *name, files_bytes *b) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", files_root(), name);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    if (b->count > 0) {
        CHECK_EQ(fwrite(b->data, 1, b->count, f), b->count);
    }
    CHECK(fclose(f) == 0);
    free(b->data);
    *b = (files_bytes){0};
}

void files_clean(void) {
    char command[256];
    snprintf(command, sizeof command, "rm -r %s", files_root());
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

/* ---- files_formats: how id is written, and how an element's is found and checked ---- */

/* Whole files with the elements spread over them, in the order of their names. */
static void write_parts(const char *pattern, uint64_t count,
                        void (*one)(files_bytes *b, uint64_t id, bool first)) {
    uint64_t id = 0;
    for (int part = 0; part < FILES; part++) {
        files_bytes b = {0};
        const uint64_t end = part + 1 == FILES ? count : count * (uint64_t)(part * part + 1) / 9;
        char name[64];
        bool first = true;
        for (; id < end; id++, first = false) {
            one(&b, id, first);
        }
        snprintf(name, sizeof name, pattern, part);
        files_write(name, &b);
    }
}

void files_put_line(files_bytes *b, uint64_t id, bool first) {
    char text[TEXT];
    (void)first;
    const int n = snprintf(text, sizeof text, "%llu ", (unsigned long long)id);
    const size_t m = text_of(id, text + n);
    files_put(b, text, (size_t)n + m);
    files_put(b, "\r\n" + (mixed(id, 2) % 2), 1 + !(mixed(id, 2) % 2));
}

static void write_lines(uint64_t count) {
    write_parts("lines%d", count, files_put_line);
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

static void one_record(files_bytes *b, uint64_t id, bool first) {
    char text[TEXT];
    if (first) {
        files_put(b, "id,real,word\n", 13);
    }
    const int n = snprintf(text, sizeof text, "%llu,%.3f,\"", (unsigned long long)id,
                           (double)(int64_t)(mixed(id, 3) % 2000) / 8 - 100);
    files_put(b, text, (size_t)n);
    const size_t m = text_of(id, text);
    for (size_t i = 0; i < m; i++) {
        files_put(b,
                  text[i] == '"'   ? "\"\""
                  : text[i] == '~' ? "\n"
                                   : &text[i],
                  text[i] == '"' ? 2 : 1);
    }
    files_put(b, "\"\r\n", 3);
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

void files_put_framed(files_bytes *b, const void *data, uint64_t n) {
    uint32_t crc = hri_crc32c_masked(&n, 8);
    files_put(b, &n, 8);
    files_put(b, &crc, 4);
    files_put(b, data, n);
    crc = hri_crc32c_masked(data, n);
    files_put(b, &crc, 4);
}

static void put_number(files_bytes *b, uint64_t n) {
    for (; n >= 128; n >>= 7) {
        files_put_byte(b, (unsigned)(n & 127) | 128);
    }
    files_put_byte(b, (unsigned)n);
}

static void put_message(files_bytes *to, unsigned field, files_bytes *b) {
    files_put_byte(to, field << 3 | 2);
    put_number(to, b->count);
    if (b->count) {
        files_put(to, b->data, b->count);
    }
    free(b->data);
    *b = (files_bytes){0};
}

static void put_feature(files_bytes *features, const char *name, unsigned kind, files_bytes *list) {
    files_bytes key = {0}, value = {0}, pair = {0};
    files_put(&key, name, strlen(name));
    put_message(&value, kind, list);
    put_message(&pair, 1, &key);
    put_message(&pair, 2, &value);
    put_message(features, 1, &pair);
}

/* id: int64, floats packed or one by one, text: bytes. */
static void one_example(files_bytes *b, uint64_t id, bool first) {
    files_bytes features = {0}, list = {0}, inner = {0}, example = {0};
    (void)first;
    files_put_byte(&list, 1 << 3);
    put_number(&list, id);
    put_feature(&features, "id", 3, &list);
    for (uint64_t i = 0; i < 3; i++) {
        const float real = (float)(int64_t)(mixed(id, 4 + i) % 1000);
        if (id % 2) {
            files_put_byte(&list, 1 << 3 | 5);
        }
        files_put(id % 2 ? &list : &inner, &real, 4);
    }
    if (inner.count) {
        put_message(&list, 1, &inner);
    }
    put_feature(&features, "floats", 2, &list);
    char text[TEXT];
    files_put(&inner, text, text_of(id, text));
    put_message(&list, 1, &inner);
    put_feature(&features, "text", 1, &list);
    put_message(&example, 1, &features);
    files_put_framed(b, example.data, example.count);
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
    files_bytes x = {0}, y = {0};
    char head[129];
    for (int i = 0; i < 2; i++) {
        snprintf(head, sizeof head,
                 i ? "{'descr': '<i8', 'fortran_order': False, 'shape': (%llu,), }"
                   : "{'descr': '<f4', 'fortran_order': False, 'shape': (%llu, 2, 3), }",
                 (unsigned long long)count);
        files_put(i ? &y : &x, "\x93NUMPY\x01\x00\x76\x00", 10);
        char line[118];
        memset(line, ' ', sizeof line);
        memcpy(line, head, strlen(head));
        line[117] = '\n';
        files_put(i ? &y : &x, line, sizeof line);
    }
    for (uint64_t id = 0; id < count; id++) {
        files_put(&y, &id, 8);
        for (uint64_t i = 0; i < 6; i++) {
            const float real = (float)(mixed(id, i) % 4096);
            files_put(&x, &real, 4);
        }
    }
    files_write("x.npy", &x);
    files_write("y.npy", &y);
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

static void put_word(files_bytes *b, uint64_t word) {
    for (int shift = 24; shift >= 0; shift -= 8) {
        files_put_byte(b, (unsigned)(word >> shift) & 255);
    }
}

static void write_mnist(uint64_t count) {
    files_bytes x = {0}, y = {0};
    put_word(&x, 0x803);
    put_word(&x, count);
    put_word(&x, SIDE);
    put_word(&x, SIDE);
    put_word(&y, 0x801);
    put_word(&y, count);
    for (uint64_t id = 0; id < count; id++) {
        files_put_byte(&y, (unsigned)mixed(id, 99) & 255);
        files_put(&x, &id, 4);
        for (uint64_t i = 4; i < SIDE * SIDE; i++) {
            files_put_byte(&x, (unsigned)mixed(id, i) & 255);
        }
    }
    files_write("train-images-idx3-ubyte", &x);
    files_write("train-labels-idx1-ubyte", &y);
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
        files_bytes b = {0};
        char name[64];
        const uint64_t end = part == 4 ? count : count * (uint64_t)(part * part) / 20;
        for (; id < end; id++) {
            files_put_byte(&b, (unsigned)(mixed(id, 5) % 10));
            files_put(&b, &id, 4);
            for (uint64_t i = 4; i < 3072; i++) {
                files_put_byte(&b, (unsigned)(id * 7 + i * 13) & 255);
            }
        }
        snprintf(name, sizeof name, "data_batch_%d.bin", part + 1);
        files_write(name, &b);
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
void files_write_tokens(uint64_t count) {
    uint64_t id = 0;
    for (int part = 0; part < FILES; part++) {
        files_bytes b = {0};
        char name[64];
        const uint64_t end = part + 1 == FILES ? count : count * (uint64_t)part / 4;
        for (uint64_t i = id * FILES_WINDOW; id < end && i <= end * FILES_WINDOW; i++) {
            const uint32_t token = (uint32_t)i;
            files_put(&b, &token, 4);
        }
        id = end;
        snprintf(name, sizeof name, "tokens%d", part);
        files_write(name, &b);
    }
}

static uint64_t id_tokens(const hr_element *e, uint64_t index) {
    const hr_field *x = hr_element_find(e, "tokens"), *y = hr_element_find(e, "targets");
    (void)index;
    CHECK(x && y);
    const int32_t first = ((const int32_t *)x->data)[0];
    CHECK_EQ(first % FILES_WINDOW, 0);
    for (int i = 0; i < FILES_WINDOW; i++) {
        CHECK_EQ(((const int32_t *)x->data)[i], first + i);
        CHECK_EQ(((const int32_t *)y->data)[i], first + i + 1);
    }
    return (uint64_t)first / FILES_WINDOW;
}

const files_format files_formats[FILES_FORMATS] = {
    {"lines:@/lines*", false, write_lines, id_line},
    {"lines:@/lines*,index=on", true, write_lines, id_line},
    {"csv:@/csv*", false, write_csv, id_csv},
    {"csv:@/csv*,index=on", true, write_csv, id_csv},
    {"tfrecord:@/tf*", false, write_examples, id_example},
    {"tfrecord:@/tf*,index=on", true, write_examples, id_example},
    {"npy:@/x.npy,@/y.npy", true, write_npy, id_npy},
    {"mnist:@", true, write_mnist, id_mnist},
    {"cifar10:@", true, write_cifar, id_cifar},
    {"tokens:@/tokens*,type=u32,length=7", true, files_write_tokens, id_tokens},
};
