/* The independent reader of event files. */
#include "events.h"

#include <dirent.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

static unsigned char *slurp(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    CHECK(fseek(f, 0, SEEK_END) == 0);
    const long size = ftell(f);
    CHECK(size >= 0);
    rewind(f);
    unsigned char *data = malloc((size_t)size + 1);
    CHECK(data != NULL);
    *bytes = fread(data, 1, (size_t)size, f);
    fclose(f);
    return data;
}

static uint32_t slow_crc(const unsigned char *p, size_t n) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
        }
    }
    crc = ~crc;
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

typedef struct field {
    uint64_t number, wire, value;
    const unsigned char *data;
    size_t bytes;
} field;

static uint64_t varint(const unsigned char **p, const unsigned char *end) {
    uint64_t x = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        CHECK(*p < end);
        const unsigned char byte = *(*p)++;
        x |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) {
            return x;
        }
    }
    CHECK(!"a number of more than ten bytes");
    return 0;
}

/* The next field of a message; 0 at its end. */
static int next_field(const unsigned char **p, const unsigned char *end, field *out) {
    if (*p == end) {
        return 0;
    }
    const uint64_t key = varint(p, end);
    *out = (field){.number = key >> 3, .wire = key & 7};
    if (out->wire == 0) {
        out->value = varint(p, end);
        return 1;
    }
    CHECK(out->wire == 1 || out->wire == 2 || out->wire == 5);
    out->bytes = out->wire == 1 ? 8 : out->wire == 5 ? 4 : (size_t)varint(p, end);
    CHECK(out->bytes <= (size_t)(end - *p));
    out->data = *p;
    *p += out->bytes;
    return 1;
}

static void read_value(const field *f, uint64_t step, test_events *s) {
    const unsigned char *p = f->data, *end = p + f->bytes;
    char tag[160] = "";
    float value = NAN;
    int text = 0, plugin = 0;
    field v;
    while (next_field(&p, end, &v)) {
        if (v.number == 1) {
            memcpy(tag, v.data, v.bytes);
            tag[v.bytes] = '\0';
        } else if (v.number == 2) {
            CHECK_EQ(v.wire, 5);
            memcpy(&value, v.data, 4);
        } else if (v.number == 8) {
            const unsigned char *q = v.data, *stop = q + v.bytes;
            field t;
            while (next_field(&q, stop, &t)) {
                CHECK(t.number != 1 || t.value == 7); /* dtype: string */
                if (t.number == 8) {
                    snprintf(s->text, sizeof s->text, "%.*s", (int)t.bytes, (const char *)t.data);
                    text = 1;
                }
            }
        } else if (v.number == 9) {
            CHECK(v.bytes == 8 && !memcmp(v.data + 4, "text", 4));
            plugin = 1;
        }
    }
    CHECK_EQ(text, plugin);
    const size_t used = strlen(s->log);
    if (text) {
        snprintf(s->log + used, sizeof s->log - used, "text:%s@%llu ", tag,
                 (unsigned long long)step);
    } else {
        snprintf(s->log + used, sizeof s->log - used, "%s@%llu=%g ", tag, (unsigned long long)step,
                 (double)value);
    }
}

static void read_event(const unsigned char *data, size_t bytes, test_events *s) {
    const unsigned char *p = data, *end = data + bytes;
    field f;
    uint64_t step = 0;
    double time = 0;
    while (next_field(&p, end, &f)) {
        const size_t used = strlen(s->log);
        if (f.number == 1) {
            memcpy(&time, f.data, 8);
        } else if (f.number == 2) {
            step = f.value;
        } else if (f.number == 3) {
            CHECK(f.bytes == 13 && !memcmp(f.data, "brain.Event:2", 13));
            strcat(s->log, "version ");
        } else if (f.number == 7) {
            CHECK(f.bytes == 2 && f.data[0] == 8 && f.data[1] == 1);
            snprintf(s->log + used, sizeof s->log - used, "start@%llu ", (unsigned long long)step);
        } else if (f.number == 5) {
            const unsigned char *q = f.data, *stop = q + f.bytes;
            field v;
            while (next_field(&q, stop, &v)) {
                CHECK_EQ(v.number, 1);
                read_value(&v, step, s);
            }
        } else {
            CHECK(!"a field of no meaning here");
        }
    }
    CHECK(time > 1e9 && time < 1e11);
}

void test_events_file(const char *path, test_events *s) {
    size_t bytes;
    unsigned char *text = slurp(path, &bytes);
    for (size_t at = 0; at < bytes;) {
        uint64_t length;
        uint32_t crc;
        CHECK(bytes - at >= 12);
        memcpy(&length, text + at, 8);
        memcpy(&crc, text + at + 8, 4);
        CHECK_EQ(crc, slow_crc(text + at, 8));
        CHECK(length <= bytes - at - 12 && bytes - at - 12 - length >= 4);
        memcpy(&crc, text + at + 12 + length, 4);
        CHECK_EQ(crc, slow_crc(text + at + 12, length));
        if (s) {
            read_event(text + at + 12, length, s);
        }
        at += 16 + length;
    }
    free(text);
}

int test_events_folder(const char *folder, test_events *s) {
    struct dirent **names;
    const int count = scandir(folder, &names, NULL, alphasort);
    int files = 0;
    for (int i = 0; i < count; i++) {
        if (strstr(names[i]->d_name, "tfevents")) {
            char path[512];
            snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
            test_events_file(path, s);
            files++;
        }
        free(names[i]);
    }
    free(names);
    return files;
}
