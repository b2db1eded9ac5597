/* 22.9 and 11.11: a safetensors header of 5.9 MB took 102 MiB to read. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    const uint64_t small = read_it(folder, "not a Headroom checkpoint");
    write_long(path, 5900000, 65000);
    CHECK_LE(read_it(folder, "not a Headroom checkpoint"), small + (16 << 20));
    write_wordy(path, "notes", 5900000);
    CHECK_LE(read_it(folder, "not a Headroom checkpoint"), small + (10 << 20));
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

/* ---- other JSON of others ---- */

/* `count` times "k":1.5 in the object "times_ns". */
static void write_times(const char *path, size_t count) {
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    fprintf(f, "{\"version\": 1, \"times_ns\": {");
    for (size_t i = 0; i < count; i++) {
        fprintf(f, "%s\"conv2d/1 f32[8,32,32,%zu] -> f32[8,32,32,64] stride=2\": 12345.678",
                i ? ", " : "", i);
    }
    fprintf(f, "}}");
    CHECK_EQ(fclose(f), 0);
    CHECK_EQ(chmod(path, 0600), 0);
}

TEST_TIMEOUT(f22_09, a_long_file_of_times_takes_little, 120) {
    PROGRAM_NEED_MEMORY();
    const char *folder = test_folder();
    char path[1024] = "";
    const program_options o = {.folder = folder, .environment = "HEADROOM_CACHE_DIR=cache"};
    program_outcome first =
        program_run(&o, "plan mlp:size=4,width=4,layers=1 --batch 4 --threads 1");
    program_expect(&first, 0, NULL);
    program_outcome name =
        program_run(&(program_options){.folder = folder, .as_shell = 1}, "ls cache/timings-*");
    CHECK(strstr(name.out, "timings-") && strchr(name.out, '\n'));
    *strchr(name.out, '\n') = '\0';
    snprintf(path, sizeof path, "%s/%s", folder, name.out);
    write_times(path, 600000); /* 46 MB */
    program_outcome again =
        program_run(&o, "plan mlp:size=4,width=4,layers=1 --batch 4 --threads 1");
    program_expect(&again, 0, NULL);
    CHECK_LE(again.resident_bytes, first.resident_bytes + (8 << 20));
    program_end(&first);
    program_end(&name);
    program_end(&again);
}

TEST(f22_09, problem_files_have_limits) {
    PROGRAM_NEED_MEMORY();
    const char *folder = test_folder();
    char path[512];
    snprintf(path, sizeof path, "%s/long.json", folder);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    fprintf(f, "[0");
    for (int i = 0; i < 3000000; i++) {
        fprintf(f, ",%d", i % 10);
    }
    fprintf(f, "]");
    CHECK_EQ(fclose(f), 0);
    static const char *const commands[] = {"plan --problem long.json",
                                           "plan mlp --batch 4 --no-measure --compare long.json"};
    for (size_t i = 0; i < 2; i++) {
        program_outcome o = program_run(&(program_options){.folder = folder}, "%s", commands[i]);
        program_expect(&o, 2, "more than the 2000000 allowed");
        CHECK_LE(o.resident_bytes, 48 << 20);
        program_end(&o);
    }
    CHECK_EQ(truncate(path, 33 << 20), 0);
    program_outcome o =
        program_run(&(program_options){.folder = folder}, "plan --problem long.json");
    program_expect(&o, 2, "longer than 33554432 bytes");
    program_end(&o);
}
