/* What sources say about files that are not what they should be, and what they do about them. */
#include <headroom/data.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "test.h"

static char root[] = "/tmp/headroom-files-XXXXXX";

static void begin(void) {
    CHECK(mkdtemp(root) != NULL);
}

static void end(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK_EQ(system(command), 0);
}

static void write_file(const char *name, const void *data, size_t bytes) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    CHECK_EQ(fwrite(data, 1, bytes, f), bytes);
    CHECK(fclose(f) == 0);
}

static hr_status open_it(const char *text, int skip_bad, hr_error *error, hr_pipeline **out) {
    char full[512], *at = full;
    for (const char *p = text; *p; p++) {
        if (*p == '@') {
            at += sprintf(at, "%s", root);
        } else {
            *at++ = *p;
        }
    }
    *at = 0;
    const hr_pipeline_options o = {
        .size = sizeof o, .budget_bytes = 8 << 20, .workers = 1, .skip_bad = skip_bad};
    return hr_pipeline_open(&o, full, error, out);
}

static void says(const char *message, const char *part) {
    test_count_check();
    if (!strstr(message, part)) {
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", message, part);
    }
}

static void refused(const char *text, hr_status wanted, const char *part) {
    hr_error error = {0};
    hr_pipeline *p = NULL;
    CHECK_STATUS(open_it(text, 0, &error, &p), wanted);
    CHECK(p == NULL);
    says(error.message, part);
}

/* Opens, and counts what comes; bad elements are skipped. */
static uint64_t good_of(const char *text, uint64_t bad, const char *first_bad) {
    hr_pipeline *p;
    hr_error error;
    hr_element *e;
    uint64_t good = 0;
    const hr_status status = open_it(text, 1, &error, &p);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, error.message);
    }
    while (hr_pipeline_next(p, &e) == HR_OK) {
        hr_element_unref(e);
        good++;
    }
    hr_pipeline_stats stats = {.size = sizeof stats};
    CHECK_OK(hr_pipeline_get_stats(p, &stats));
    CHECK_EQ(stats.bad, bad);
    if (first_bad) {
        CHECK(hr_pipeline_bad(p, 0) != NULL);
        says(hr_pipeline_bad(p, 0), first_bad);
    }
    hr_pipeline_destroy(p);
    return good;
}

static size_t put_record(unsigned char *to, const void *data, uint64_t bytes) {
    uint32_t crc = hri_crc32c_masked(&bytes, 8);
    memcpy(to, &bytes, 8);
    memcpy(to + 8, &crc, 4);
    memcpy(to + 12, data, bytes);
    crc = hri_crc32c_masked(data, bytes);
    memcpy(to + 12 + bytes, &crc, 4);
    return 16 + bytes;
}

TEST(tfrecord, a_wrong_checksum_is_one_element_and_a_wrong_length_the_rest_of_a_file) {
    unsigned char file[512];
    size_t n = 0, second, third;
    begin();
    n += put_record(file + n, "first", 5);
    second = n;
    n += put_record(file + n, "second", 6);
    third = n;
    n += put_record(file + n, "third", 5);
    n += put_record(file + n, "fourth", 6);
    write_file("a", file, n);
    file[second + 12] ^= 1;
    write_file("b", file, n);
    CHECK_EQ(good_of("tfrecord:@/a,@/b,example=off", 1, "does not match its checksum"), 7);
    CHECK_EQ(good_of("tfrecord:@/b,example=off,check=off", 0, NULL), 4);
    file[third] ^= 1;
    write_file("c", file, n);
    CHECK_EQ(good_of("tfrecord:@/c,@/a,example=off", 2, "byte 33 does not match"), 5);
    CHECK_EQ(good_of("tfrecord:@/c,@/a,example=off,index=on", 2, "length of the record at byte 43"),
             5);
    refused("tfrecord:@/c,@/a,example=off,index=on", HR_E_FORMAT, "/c: the length of the record");
    /* Damage at the very start is no reason not to open, when what is bad is skipped. */
    file[0] ^= 1;
    write_file("d", file, n);
    refused("tfrecord:@/d,@/a,example=off", HR_E_FORMAT, "byte 0");
    CHECK_EQ(good_of("tfrecord:@/d,@/a,example=off", 1, "byte 0"), 4);
    end();
}

TEST(tfrecord, a_length_of_2_to_the_60th_is_refused_before_anything_is_asked_for_it) {
    unsigned char file[64] = {0};
    begin();
    file[7] = 0x10;
    const uint32_t crc = hri_crc32c_masked(file, 8);
    memcpy(file + 8, &crc, 4);
    write_file("a", file, sizeof file);
    refused("tfrecord:@/a", HR_E_FORMAT,
            "/a: the record at byte 0 has a length of 1152921504606846976 bytes, more than the "
            "file has left");
    write_file("b", file, 10);
    refused("tfrecord:@/b", HR_E_FORMAT, "truncated inside a record, at byte 0");
    write_file("c", file, 0);
    refused("tfrecord:@/c", HR_E_FORMAT, "no readable record");
    refused("tfrecord:@/nowhere", HR_E_NOT_FOUND, "/nowhere");
    refused("tfrecord:@/x*", HR_E_NOT_FOUND, "no file matches");
    refused("tfrecord:@", HR_E_FORMAT, "not a regular file but a folder");
    end();
}

TEST(mnist, compressed_files_are_refused_with_what_to_do) {
    begin();
    write_file("train-images-idx3-ubyte.gz", "\x1f\x8b", 2);
    refused("mnist:@", HR_E_NOT_FOUND, "train-images-idx3-ubyte.gz is compressed");
    refused("mnist:@", HR_E_NOT_FOUND, "gunzip");
    write_file("train-images-idx3-ubyte", "\x1f\x8b\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 17);
    write_file("train-labels-idx1-ubyte", "\0\0\x08\x01\0\0\0\0", 8);
    refused("mnist:@", HR_E_FORMAT, "still compressed");
    write_file("train-images-idx3-ubyte", "\0\0\x08\x03\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff",
               16);
    refused("mnist:@", HR_E_FORMAT, "invalid image size 4294967295 x 4294967295");
    end();
}

TEST(csv, types_can_be_given_and_are_kept) {
    static const char text[] = "id,price,name\n1,2,x\n2,3,\"4\"\n3,,5\nx,1,6\n4,1e2,7\n5,1\n";
    begin();
    write_file("a", text, sizeof text - 1);
    hr_pipeline *p;
    hr_error error;
    CHECK_OK(open_it("csv:@/a,types=id:i64,price:f32", 0, &error, &p));
    CHECK_EQ(hr_pipeline_field(p, 0)->meta.type, HR_TYPE_I64);
    CHECK_EQ(hr_pipeline_field(p, 1)->meta.type, HR_TYPE_F32);
    CHECK_EQ(hr_pipeline_field(p, 2)->meta.type, HR_TYPE_U8);
    hr_pipeline_destroy(p);
    CHECK_EQ(good_of("csv:@/a,types=id:i64,price:f32", 2, "\"x\" is not a valid integer"), 4);
    CHECK_EQ(good_of("csv:@/a,types=id:text", 1, "fewer than 3 values"), 5);
    refused("csv:@/a,types=cost:f32", HR_E_NOT_FOUND, "unknown column \"cost\"");
    refused("csv:@/a,types=id:f16", HR_E_INVALID, "id:f16");
    end();
}

TEST(csv, what_is_no_table_is_refused) {
    char wide[400] = "a0";
    begin();
    write_file("empty", "", 0);
    refused("csv:@/empty", HR_E_FORMAT, "/empty: the file is empty");
    write_file("late", "\n\na,b\n1,2\n", 10);
    refused("csv:@/late", HR_E_FORMAT, "first record should have the column names");
    write_file("twice", "a,a\n1,2\n", 8);
    refused("csv:@/twice", HR_E_EXISTS, "\"a\"");
    for (int i = 1; i < 65; i++) {
        snprintf(wide + strlen(wide), sizeof wide - strlen(wide), ",a%d", i);
    }
    write_file("wide", wide, strlen(wide));
    refused("csv:@/wide", HR_E_FORMAT, "more than 64 columns");
    write_file("marked", "\xef\xbb\xbfid,x\n1,2\n", 13);
    hr_pipeline *p;
    hr_error error;
    CHECK_OK(open_it("csv:@/marked", 0, &error, &p));
    CHECK_STR(hr_pipeline_field(p, 0)->name, "id");
    hr_pipeline_destroy(p);
    end();
}

TEST(tokens, a_number_that_is_no_i32_is_one_bad_element) {
    const uint32_t tokens[] = {1, 2, 3, 4, 0x80000000u, 6, 7};
    begin();
    write_file("t", tokens, sizeof tokens);
    CHECK_EQ(good_of("tokens:@/t,length=2,type=u32", 2, "token 4 is 2147483648"), 1);
    end();
}

TEST(lines, a_line_longer_than_planned_is_read_when_there_is_room) {
    static char text[3000];
    memset(text, 'x', sizeof text);
    text[10] = text[2500] = '\n';
    begin();
    write_file("t", text, sizeof text);
    CHECK_EQ(good_of("lines:@/t,max_bytes=16", 0, NULL), 3);
    end();
}
