/* See forge.h. */
#include "forge.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "test.h"

static char *read_header(FILE *f, uint64_t *bytes) {
    CHECK_EQ(fread(bytes, 1, 8, f), 8);
    char *text = malloc(*bytes + 1);
    CHECK(text != NULL);
    CHECK_EQ(fread(text, 1, *bytes, f), *bytes);
    text[*bytes] = '\0';
    return text;
}

json_t *forge_read(const char *path) {
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    uint64_t bytes;
    char *text = read_header(f, &bytes);
    json_t *header = json_loads(text, 0, NULL);
    CHECK(header != NULL);
    free(text);
    fclose(f);
    return header;
}

json_t *forge_text(const json_t *header) {
    const json_t *text = json_object_get(json_object_get(header, "__metadata__"), "headroom");
    json_t *value = json_loads(json_string_value(text), 0, NULL);
    CHECK(value != NULL);
    return value;
}

void forge_write(const char *from, const char *to, json_t *header, const json_t *text) {
    FILE *in = fopen(from, "rb");
    CHECK(in != NULL);
    uint64_t old;
    free(read_header(in, &old));
    char data[65536];
    const size_t rest = fread(data, 1, sizeof data, in); /* small models only */
    CHECK(feof(in));
    fclose(in);
    if (text) {
        char *printed = json_dumps(text, JSON_COMPACT);
        json_object_set_new(json_object_get(header, "__metadata__"), "headroom",
                            json_string(printed));
        free(printed);
    }
    char *whole = json_dumps(header, JSON_COMPACT);
    const uint64_t bytes = strlen(whole);
    FILE *out = fopen(to, "wb");
    CHECK(out != NULL);
    fwrite(&bytes, 1, 8, out);
    fwrite(whole, 1, bytes, out);
    fwrite(data, 1, rest, out);
    CHECK_EQ(fclose(out), 0);
    free(whole);
}

static void write_npy(const char *path, const char *descr, const char *shape, const void *data,
                      size_t bytes) {
    char head[128];
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    const int n =
        snprintf(head + 10, sizeof head - 10,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    head[10 + n] = ' ';
    head[127] = '\n';
    fwrite(head, 1, sizeof head, f);
    fwrite(data, 1, bytes, f);
    CHECK_EQ(fclose(f), 0);
}

void forge_data(const char *folder) {
    unsigned char images[8 * 16];
    int32_t labels[8];
    char path[512];
    for (unsigned i = 0; i < sizeof images; i++) {
        images[i] = (unsigned char)(i * 37 % 251);
    }
    for (int i = 0; i < 8; i++) {
        labels[i] = i % 2;
    }
    snprintf(path, sizeof path, "%s/x.npy", folder);
    write_npy(path, "|u1", "8, 4, 4, 1", images, sizeof images);
    snprintf(path, sizeof path, "%s/y.npy", folder);
    write_npy(path, "<i4", "8,", labels, sizeof labels);
}

const char *forge_train(const char *folder, const char *name, const char *flags) {
    static char path[512];
    forge_data(folder);
    program_outcome o = program_run(&(program_options){.folder = folder},
                                    "train mlp:size=4,channels=1,width=4,layers=1,classes=2 "
                                    "--data npy:x.npy,y.npy --batch 4 --steps 4 --out %s %s",
                                    name, flags);
    program_expect(&o, 0, NULL);
    program_end(&o);
    snprintf(path, sizeof path, "%s/%s/last.safetensors", folder, name);
    return path;
}
