/* 22.9 and 11.11: a safetensors header of 5.9 MB took 102 MiB to read. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forge.h"
#include "pictures.h"
#include "program.h"
#include "test.h"

/* Tensors of no bytes, so many that the header has about `bytes` bytes. */
static void write_long(const char *path, size_t bytes, size_t most) {
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    char *header = malloc(bytes + 256);
    CHECK(header != NULL);
    size_t used = (size_t)sprintf(header, "{");
    for (size_t i = 0; used < bytes && i < most; i++) {
        used += (size_t)sprintf(
            header + used,
            "%s\"layers.%zu.weight\":{\"dtype\":\"F32\",\"shape\":[0,768],\"data_offsets\":[0,0]}",
            i ? "," : "", i);
    }
    used += (size_t)sprintf(header + used, "}");
    const uint64_t length = used;
    fwrite(&length, 1, 8, f);
    fwrite(header, 1, used, f);
    CHECK_EQ(fclose(f), 0);
    free(header);
}

/* Metadata of so many bytes in one text. */
static void write_wordy(const char *path, const char *key, size_t bytes) {
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    const uint64_t length = bytes + strlen(key) + 24;
    fwrite(&length, 1, 8, f);
    fprintf(f, "{\"__metadata__\":{\"%s\":\"", key);
    for (size_t i = 0; i < bytes; i++) {
        fputc('x', f);
    }
    fprintf(f, "\"}}");
    CHECK_EQ(fclose(f), 0);
}

static uint64_t read_it(const char *folder, const char *sentence) {
    program_outcome o =
        program_run(&(program_options){.folder = folder}, "eval long --data npy:x.npy,y.npy");
    program_expect(&o, 2, sentence);
    const uint64_t bytes = o.resident_bytes;
    program_end(&o);
    return bytes;
}

TEST(f22_09, a_header_of_megabytes_takes_little_more_than_its_own_length) {
    PROGRAM_NEED_MEMORY();
    const char *folder = test_folder();
    char path[512];
    snprintf(path, sizeof path, "%s/long", folder);
    forge_data(folder);
    write_long(path, 100, 1);
    const uint64_t small = read_it(folder, "no checkpoint");
    write_long(path, 5900000, 65000);
    CHECK_LE(read_it(folder, "no checkpoint"), small + (16 << 20));
    write_wordy(path, "notes", 5900000);
    CHECK_LE(read_it(folder, "no checkpoint"), small + (10 << 20));
}

TEST(f22_09, limits_are_kept_and_named) {
    PROGRAM_NEED_MEMORY();
    const char *folder = test_folder();
    char path[512];
    snprintf(path, sizeof path, "%s/long", folder);
    forge_data(folder);
    write_long(path, 17 << 20, 1000000);
    CHECK_LE(read_it(folder, "more than the 16777216 allowed"), 32 << 20);
    write_long(path, 8000000, 1000000);
    CHECK_LE(read_it(folder, "more than 65536 tensors"), 48 << 20);
    write_wordy(path, "headroom", 5 << 20);
    CHECK_LE(read_it(folder, "longer than 4194304 bytes"), 32 << 20);
}
