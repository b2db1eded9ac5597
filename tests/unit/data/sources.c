/* Sources: what is in the files is what comes out; what is wrong with them is said, or skipped and counted. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <headroom/data.h>
#include "base/crc32c.h"
#include "memory/left.h"
#include "pictures.h"
#include "test.h"

static hr_pipeline *open_with(const char *text, int skip_bad, uint64_t budget) {
    hr_pipeline_options o = {.size = sizeof o,
                             .budget_bytes = budget ? budget : 64 << 20,
                             .skip_bad = skip_bad,
                             .workers = 2};
    hr_pipeline *p;
    hr_error error;
    const hr_status status = hr_pipeline_open(&o, text, &error, &p);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, error.message);
    }
    return p;
}

static void refused(const char *text, hr_status wanted, const char *part) {
    hr_error error;
    hr_pipeline *p = NULL;
    CHECK_STATUS(hr_pipeline_open(NULL, text, &error, &p), wanted);
    if (!strstr(error.message, part)) {
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", error.message, part);
    }
}

static const char *in(const char *format, const char *name) {
    static char text[1024];
    char path[512];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    char *at = text;
    for (const char *p = format; *p; p++) {
        if (*p == '@') {
            at += sprintf(at, "%s", path);
        } else {
            *at++ = *p;
        }
    }
    *at = 0;
    return text;
}

/* ---- image folders ---- */

static void make_folder(const char *name) {
    char path[64];
    size_t bytes;
    for (int i = 0; i < 12; i++) {
        unsigned char *file = test_jpeg_of(80 + 16 * i, 60 + 10 * i, (uint64_t)i, NULL, &bytes);
        snprintf(path, sizeof path, "%s/c%d/p%02d.jpg", name, i % 3, i);
        test_write(test_folder(), path, file, bytes);
        free(file);
    }
}

TEST(images, classes_are_folders_in_the_order_of_their_names) {
    make_folder("set");
    hr_pipeline *p = open_with(in("images:@ | decode(32)", "set"), 0, 0);
    CHECK_EQ(hr_pipeline_count(p), 12);
    CHECK_STR(hr_pipeline_class(p, 0), "c0");
    CHECK_STR(hr_pipeline_class(p, 2), "c2");
    CHECK(hr_pipeline_class(p, 3) == NULL);
    hr_element *e;
    for (int i = 0; i < 12; i++) {
        CHECK_OK(hr_pipeline_next(p, &e));
        CHECK_EQ(*(const int32_t *)hr_element_find(e, "label")->data, i / 4);
        CHECK_EQ(hr_element_find(e, "image")->bytes, 32 * 32 * 3);
        hr_element_unref(e);
    }
    CHECK_STATUS(hr_pipeline_next(p, &e), HR_E_EOF);
    hr_pipeline_destroy(p);
}

TEST(images, augmentation_is_the_same_for_any_number_of_workers) {
    make_folder("set");
    const char *text =
        in("images:@ | shuffle(seed=3) | decode(24,random_crop=on,flip=on) | jitter(hue=0.1) | "
           "rotate(20) | crop(20,pad=2,random=on) | flip | normalise(mean=0.5,std=0.25) | batch(5)",
           "set");
    unsigned char *first = NULL;
    size_t bytes = 0;
    for (uint32_t workers = 1; workers <= 8; workers *= 2) {
        hr_pipeline_options o = {
            .size = sizeof o, .budget_bytes = 64 << 20, .workers = workers, .seed = 9};
        hr_pipeline *p;
        CHECK_OK(hr_pipeline_open(&o, text, NULL, &p));
        unsigned char *all = calloc(1, 1 << 20);
        size_t used = 0;
        hr_element *e;
        while (hr_pipeline_next(p, &e) == HR_OK) {
            const hr_field *f = hr_element_find(e, "image");
            CHECK_EQ(f->meta.type, HR_TYPE_F32);
            memcpy(all + used, f->data, f->bytes);
            used += f->bytes;
            hr_element_unref(e);
        }
        CHECK_EQ(used, 12 * 20 * 20 * 3 * 4);
        if (first) {
            CHECK_EQ(used, bytes);
            CHECK(memcmp(all, first, used) == 0);
            free(all);
        } else {
            first = all;
            bytes = used;
        }
        hr_pipeline_destroy(p);
    }
    free(first);
}

TEST(images, bad_files_are_named_or_skipped_and_counted) {
    make_folder("set");
    size_t bytes;
    unsigned char *file = test_jpeg_of(100, 80, 1, NULL, &bytes);
    test_write(test_folder(), "set/c1/a_cut.jpg", file, bytes / 2);
    test_write(test_folder(), "set/c1/b_empty.jpg", "", 0);
    test_write(test_folder(), "set/c1/c_text.png", "hello", 5);
    /* A PNG that declares 100,000 x 100,000 pixels. */
    static const unsigned char head[] = {0x89, 'P',  'N', 'G', '\r', '\n', 0x1a, '\n', 0,    0, 0,
                                         13,   'I',  'H', 'D', 'R',  0,    1,    0x86, 0xa0, 0, 1,
                                         0x86, 0xa0, 8,   2,   0,    0,    0,    1,    2,    3, 4};
    test_write(test_folder(), "set/c1/d_bomb.png", head, sizeof head);
    free(file);
    file = test_jpeg_of(64, 64, 1, &(test_jpeg_options){.cmyk = 1}, &bytes);
    test_write(test_folder(), "set/c1/e_cmyk.jpg", file, bytes); /* this one is good */
    free(file);

    hr_pipeline *p = open_with(in("images:@ | decode(32)", "set"), 0, 0);
    hr_element *e;
    hr_error error;
    int good = 0, bad = 0;
    hr_status status;
    while ((status = hr_pipeline_next(p, &e)) != HR_E_EOF) {
        if (status == HR_OK) {
            hr_element_unref(e);
            good++;
            continue;
        }
        hr_pipeline_error(p, &error);
        CHECK(strstr(error.message, "c1/") != NULL);
        CHECK_EQ(error.code, status);
        bad++;
    }
    CHECK_EQ(good, 13);
    CHECK_EQ(bad, 4);
    hr_pipeline_destroy(p);

    p = open_with(in("images:@ | decode(32) | batch(4)", "set"), 1, 0);
    uint64_t samples = 0;
    while (hr_pipeline_next(p, &e) == HR_OK) {
        samples += (uint64_t)hr_element_find(e, "image")->meta.shape.dim[0];
        hr_element_unref(e);
    }
    CHECK_EQ(samples, 13);
    hr_pipeline_stats s = {.size = sizeof s};
    CHECK_OK(hr_pipeline_get_stats(p, &s));
    CHECK_EQ(s.bad, 4);
    CHECK(strstr(hr_pipeline_bad(p, 0), "c1/a_cut.jpg") != NULL);
    CHECK(strstr(hr_pipeline_bad(p, 1), "empty") != NULL);
    CHECK(strstr(hr_pipeline_bad(p, 3), "100000 x 100000") != NULL);
    CHECK(hr_pipeline_bad(p, 4) == NULL);
    hr_pipeline_destroy(p);
}

TEST(images, a_file_that_vanishes_or_shrinks_is_one_bad_element) {
    make_folder("set");
    hr_pipeline *p = open_with(in("images:@ | decode(32)", "set"), 1, 0);
    char path[512];
    snprintf(path, sizeof path, "%s/set/c0/p03.jpg", test_folder());
    CHECK(unlink(path) == 0);
    snprintf(path, sizeof path, "%s/set/c2/p05.jpg", test_folder());
    CHECK(truncate(path, 100) == 0);
    hr_element *e;
    int good = 0;
    while (hr_pipeline_next(p, &e) == HR_OK) {
        hr_element_unref(e);
        good++;
    }
    CHECK_EQ(good, 10);
    CHECK(strstr(hr_pipeline_bad(p, 0), "c0/p03.jpg") != NULL);
    hr_pipeline_destroy(p);
}

TEST(images, folders_without_classes_or_pictures_are_refused) {
    refused("images:/nowhere/at/all", HR_E_NOT_FOUND, "/nowhere/at/all");
    test_write(test_folder(), "flat/x.jpg", "x", 1);
    refused(in("images:@", "flat"), HR_E_FORMAT, "contains no class folders (it has 1 image;");
    test_write(test_folder(), "bare/c/readme.txt", "x", 1);
    refused(in("images:@", "bare"), HR_E_NOT_FOUND, "no .jpg");
    hr_pipeline *p = open_with(in("images(@,classes=off)", "flat"), 0, 0);
    CHECK_EQ(hr_pipeline_count(p), 1);
    hr_pipeline_destroy(p);
}

TEST(images, one_file_and_a_list_of_files_come_in_order_with_their_names) {
    size_t bytes;
    unsigned char *file = test_jpeg_of(40, 30, 1, NULL, &bytes);
    test_write(test_folder(), "a b/x,1.jpg", file, bytes);
    test_write(test_folder(), "y.jpg", file, bytes);
    free(file);
    char list[1024], text[512];
    const int n = snprintf(list, sizeof list, "%s/y.jpg\r\n\n%s/a b/x,1.jpg\n/nowhere.jpg",
                           test_folder(), test_folder());
    test_write(test_folder(), "list", list, (size_t)n);
    snprintf(text, sizeof text, "images(\"@%s/list\",classes=off,names=on) | decode(8)",
             test_folder());
    hr_pipeline *p = open_with(text, 1, 0);
    CHECK_EQ(hr_pipeline_count(p), 3);
    static const char *const names[] = {"/y.jpg", "/a b/x,1.jpg"};
    for (int i = 0; i < 2; i++) {
        hr_element *e;
        CHECK_OK(hr_pipeline_next(p, &e));
        const hr_field *name = hr_element_find(e, "name");
        snprintf(text, sizeof text, "%.*s", (int)name->bytes, (const char *)name->data);
        CHECK_STR(text + strlen(test_folder()), names[i]);
        hr_element_unref(e);
    }
    hr_element *e;
    CHECK_STATUS(hr_pipeline_next(p, &e), HR_E_EOF);
    CHECK(strstr(hr_pipeline_bad(p, 0), "/nowhere.jpg: ") != NULL);
    hr_pipeline_destroy(p);
    p = open_with(in("images:@,classes=off | decode(8)", "y.jpg"), 0, 0);
    CHECK_EQ(hr_pipeline_count(p), 1);
    hr_pipeline_destroy(p);
}

TEST(images, too_small_a_budget_is_refused_with_stage_and_bytes) {
    make_folder("set");
    hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 8 << 20};
    hr_pipeline *p = NULL;
    hr_error error;
    CHECK_STATUS(hr_pipeline_open(&o, in("images:@ | decode(224) | batch(64) | prefetch", "set"),
                                  &error, &p),
                 HR_E_LIMIT);
    CHECK(strstr(error.message, "batch needs at least 10") != NULL);
    CHECK(strstr(error.message, "the budget is 8 MiB") != NULL);
    CHECK_STR(error.holders[0].owner, "batch");
    CHECK_LE(64 * 224 * 224 * 3, error.holders[0].bytes);
    CHECK_EQ(error.limit_bytes, 8 << 20);
}

/* ---- tables and tokens ---- */

TEST(npy, an_input_that_is_not_a_number_is_told_with_file_row_and_column) {
    static const struct {
        const char *head, *part;
        uint64_t rows;
    } all[] = {{"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }",
                "x.npy: row 1, column 1 (counted from 0) is not a number", 1},
               {"{'descr': '<f8', 'fortran_order': False, 'shape': (6,), }",
                "x.npy: row 3 (counted from 0) is not a number", 3},
               {"{'descr': '<f8', 'fortran_order': False, 'shape': (1,3,2,1), }",
                "x.npy: row 0, element [1, 1, 0] (counted from 0) is not a number", 0}};
    const double x[6] = {1, 2, 3, NAN, 5, INFINITY};
    for (size_t k = 0; k < 3; k++) {
        unsigned char file[128 + sizeof x];
        memset(file, ' ', 128);
        memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
        memcpy(file + 10, all[k].head, strlen(all[k].head));
        file[127] = '\n';
        memcpy(file + 128, x, sizeof x);
        test_write(test_folder(), "x.npy", file, sizeof file);
        hr_pipeline *p = open_with(in("npy:@", "x.npy"), 0, 0);
        hr_element *e;
        hr_error error;
        for (uint64_t i = 0; i < all[k].rows; i++) {
            CHECK_OK(hr_pipeline_next(p, &e));
            hr_element_unref(e);
        }
        CHECK_STATUS(hr_pipeline_next(p, &e), HR_E_FORMAT);
        hr_pipeline_error(p, &error);
        if (!strstr(error.message, all[k].part)) {
            test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", error.message, all[k].part);
        }
        hr_pipeline_destroy(p);
    }
}

TEST(npy, slices_side_by_side_with_converted_types) {
    char head[128];
    unsigned char file[128 + 6 * 8];
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    const char *d = "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 2), }";
    memcpy(head + 10, d, strlen(d));
    head[127] = '\n';
    memcpy(file, head, 128);
    const double x[6] = {1, 2.5, -3, 4, 5, 6};
    memcpy(file + 128, x, sizeof x);
    test_write(test_folder(), "x.npy", file, sizeof file);
    d = "{'descr': '<u2', 'fortran_order': False, 'shape': (3,), }  ";
    memcpy(head + 10, d, strlen(d));
    memcpy(file, head, 128);
    const uint16_t y[3] = {7, 8, 65535};
    memcpy(file + 128, y, sizeof y);
    test_write(test_folder(), "y.npy", file, 128 + sizeof y);
    char text[1024];
    snprintf(text, sizeof text, "npy:%s/x.npy,%s/y.npy", test_folder(), test_folder());
    hr_pipeline *p = open_with(text, 0, 0);
    CHECK_EQ(hr_pipeline_count(p), 3);
    hr_element *e;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(hr_pipeline_next(p, &e));
        CHECK(((const float *)hr_element_find(e, "x")->data)[1] == (float)x[2 * i + 1]);
        CHECK_EQ(*(const int32_t *)hr_element_find(e, "y")->data, y[i]);
        hr_element_unref(e);
    }
    hr_pipeline_destroy(p);
    test_write(test_folder(), "short.npy", file, 130);
    refused(in("npy:@", "short.npy"), HR_E_FORMAT, "truncated");
    test_write(test_folder(), "not.npy", "nothing of the kind", 19);
    refused(in("npy:@", "not.npy"), HR_E_FORMAT, "not a .npy");
    d = "{'descr': '<c8', 'fortran_order': False, 'shape': (3,), }  ";
    memcpy(head + 10, d, strlen(d));
    test_write(test_folder(), "complex.npy", head, 128);
    refused(in("npy:@", "complex.npy"), HR_E_FORMAT, "type <c8 is not supported");
    head[10 + strlen("{'descr': '")] = '>';
    test_write(test_folder(), "big.npy", head, 128);
    refused(in("npy:@", "big.npy"), HR_E_FORMAT, "type >c8 is not supported; save a little-endian");
    test_write(test_folder(), "xy.npz", "PK\3\4 and more bytes", 19);
    refused(in("npy:@", "xy.npz"), HR_E_FORMAT, "an archive (.npz)");
}

TEST(mnist, pictures_and_labels) {
    unsigned char images[16 + 2 * 6] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3};
    unsigned char labels[8 + 2] = {0, 0, 8, 1, 0, 0, 0, 2, 9, 4};
    for (int i = 0; i < 12; i++) {
        images[16 + i] = (unsigned char)(i * 10);
    }
    test_write(test_folder(), "m/train-images-idx3-ubyte", images, sizeof images);
    test_write(test_folder(), "m/train-labels-idx1-ubyte", labels, sizeof labels);
    hr_pipeline *p = open_with(in("mnist:@ | skip(1)", "m"), 0, 0);
    hr_element *e;
    CHECK_OK(hr_pipeline_next(p, &e));
    const hr_field *f = hr_element_find(e, "image");
    CHECK_EQ(f->meta.shape.dim[0], 2);
    CHECK_EQ(f->meta.shape.dim[1], 3);
    CHECK_EQ(((const uint8_t *)f->data)[5], 110);
    CHECK_EQ(*(const int32_t *)hr_element_find(e, "label")->data, 4);
    hr_element_unref(e);
    hr_pipeline_destroy(p);
    images[7] = 3; /* more pictures than there are */
    test_write(test_folder(), "m/train-images-idx3-ubyte", images, sizeof images);
    refused(in("mnist:@", "m"), HR_E_FORMAT, "describes more data");
    refused(in("mnist(@,split=test)", "m"), HR_E_NOT_FOUND, "t10k-images");
}

TEST(cifar10, planes_become_pixels) {
    static unsigned char file[3 * 3073];
    for (int r = 0; r < 3; r++) {
        unsigned char *at = file + r * 3073;
        at[0] = (unsigned char)(r + 1);
        for (int i = 0; i < 3072; i++) {
            at[1 + i] = (unsigned char)(i / 1024 * 50 + i % 7 + r);
        }
    }
    test_write(test_folder(), "c/test_batch.bin", file, sizeof file);
    hr_pipeline *p = open_with(in("cifar10(@,split=test)", "c"), 0, 0);
    CHECK_EQ(hr_pipeline_count(p), 3);
    CHECK_STR(hr_pipeline_class(p, 9), "truck");
    hr_element *e;
    CHECK_OK(hr_pipeline_next(p, &e));
    const uint8_t *x = hr_element_find(e, "image")->data;
    CHECK_EQ(x[3 * 100], 100 % 7);
    CHECK_EQ(x[3 * 100 + 2], 100 + (2048 + 100) % 7);
    hr_element_unref(e);
    hr_pipeline_destroy(p);
    test_write(test_folder(), "c/test_batch.bin", file, sizeof file - 1);
    refused(in("cifar10(@,split=test)", "c"), HR_E_FORMAT, "is not a multiple of the record size");
}

TEST(tokens, windows_and_what_follows_them) {
    uint16_t tokens[100];
    for (int i = 0; i < 100; i++) {
        tokens[i] = (uint16_t)(60000 + i);
    }
    test_write(test_folder(), "t.bin", tokens, sizeof tokens);
    hr_pipeline *p = open_with(in("tokens:@,length=10,stride=7", "t.bin"), 0, 0);
    CHECK_EQ(hr_pipeline_count(p), (100 - 1 - 10) / 7 + 1);
    hr_element *e;
    uint64_t n = 0;
    while (hr_pipeline_next(p, &e) == HR_OK) {
        for (int i = 0; i < 10; i++) {
            CHECK_EQ(((const int32_t *)hr_element_find(e, "tokens")->data)[i],
                     60000 + 7 * (int)n + i);
            CHECK_EQ(((const int32_t *)hr_element_find(e, "targets")->data)[i],
                     60001 + 7 * (int)n + i);
        }
        hr_element_unref(e);
        n++;
    }
    CHECK_EQ(n, hr_pipeline_count(p));
    hr_pipeline_destroy(p);
    refused(in("tokens:@,length=100", "t.bin"), HR_E_FORMAT, "fewer than 100 + 1 tokens");
}

TEST(text, bytes_are_tokens_whatever_they_are) {
    static const char text[] = "caf\xc3\xa9 \xff\x00z";
    test_write(test_folder(), "t.txt", text, 9);
    hr_pipeline *p = open_with(in("text:@,length=4,stride=1", "t.txt"), 0, 0);
    CHECK_EQ(hr_pipeline_count(p), 5);
    hr_element *e;
    for (int n = 0; n < 5; n++) {
        CHECK_OK(hr_pipeline_next(p, &e));
        for (int i = 0; i < 4; i++) {
            CHECK_EQ(((const int32_t *)hr_element_find(e, "tokens")->data)[i],
                     (unsigned char)text[n + i]);
            CHECK_EQ(((const int32_t *)hr_element_find(e, "targets")->data)[i],
                     (unsigned char)text[n + i + 1]);
        }
        hr_element_unref(e);
    }
    CHECK_STATUS(hr_pipeline_next(p, &e), HR_E_EOF);
    hr_pipeline_destroy(p);
    refused(in("text:@,length=9", "t.txt"), HR_E_FORMAT, "fewer than 9 + 1 bytes");
}

TEST(csv, columns_get_the_types_that_fit) {
    const char text[] =
        "id,score,name\r\n1,0.5,\"a, \"\"b\"\"\nc\"\r\n2,3,plain\r\n3,,\r\n4,x,bad\r\n5,1\r\n";
    test_write(test_folder(), "t.csv", text, sizeof text - 1);
    /* "x" makes score a text; so look at a file whose bad record comes after the types are settled. */
    hr_pipeline *p = open_with(in("csv:@", "t.csv"), 1, 0);
    const hr_field *f = hr_pipeline_field(p, 1);
    CHECK_EQ(f->meta.type, HR_TYPE_U8);
    hr_element *e;
    CHECK_OK(hr_pipeline_next(p, &e));
    CHECK_EQ(*(const int64_t *)hr_element_find(e, "id")->data, 1);
    const hr_field *name = hr_element_find(e, "name");
    CHECK_EQ(name->bytes, 8);
    CHECK(memcmp(name->data, "a, \"b\"\nc", 8) == 0);
    hr_element_unref(e);
    int rest = 0;
    while (hr_pipeline_next(p, &e) == HR_OK) {
        hr_element_unref(e);
        rest++;
    }
    CHECK_EQ(rest, 3); /* the last record has a value too few */
    CHECK(strstr(hr_pipeline_bad(p, 0), "fewer than 3 values") != NULL);
    hr_pipeline_destroy(p);
}

TEST(lines, with_any_line_end_and_across_files) {
    test_write(test_folder(), "a.txt", "one\ntwo\r\n\nfour", 14);
    test_write(test_folder(), "b.txt", "five\n", 5);
    char text[512];
    snprintf(text, sizeof text, "lines:%s/?.txt", test_folder());
    hr_pipeline *p = open_with(text, 0, 0);
    static const char *const want[] = {"one", "two", "", "four", "five"};
    hr_element *e;
    for (int i = 0; i < 5; i++) {
        CHECK_OK(hr_pipeline_next(p, &e));
        const hr_field *f = hr_element_find(e, "text");
        CHECK_EQ(f->bytes, strlen(want[i]));
        CHECK(memcmp(f->data, want[i], f->bytes) == 0);
        hr_element_unref(e);
    }
    CHECK_STATUS(hr_pipeline_next(p, &e), HR_E_EOF);
    hr_pipeline_destroy(p);
}

/* ---- TFRecord ---- */

static size_t put_record(unsigned char *to, const void *data, uint64_t bytes) {
    memcpy(to, &bytes, 8);
    uint32_t crc = hri_crc32c_masked(to, 8);
    memcpy(to + 8, &crc, 4);
    memcpy(to + 12, data, bytes);
    crc = hri_crc32c_masked(data, bytes);
    memcpy(to + 12 + bytes, &crc, 4);
    return 16 + bytes;
}

/* {"n": int64 [value], "f": float [1.5, value]} */
static size_t put_example(unsigned char *to, unsigned char value) {
    const float f[2] = {1.5f, value};
    unsigned char b[64] = {0x0a, 31, /* features */
                           0x0a, 10, 0x0a, 1, 'n', 0x12, 5,  0x1a, 3,  0x0a, 1, value, /* n */
                           0x0a, 17, 0x0a, 1, 'f', 0x12, 12, 0x12, 10, 0x0a, 8};       /* f */
    memcpy(b + 25, f, 8);
    return put_record(to, b, 33);
}

TEST(crc32c, has_its_published_value) {
    CHECK_EQ(hri_crc32c(0, "123456789", 9), 0xe3069283u);
    unsigned char zeros[32] = {0};
    CHECK_EQ(hri_crc32c(0, zeros, 32), 0x8a9136aau);
    CHECK_EQ(hri_crc32c(hri_crc32c(0, "1234", 4), "56789", 5), 0xe3069283u);
}

TEST(tfrecord, features_become_fields) {
    unsigned char file[1024];
    size_t n = 0;
    for (unsigned char i = 0; i < 5; i++) {
        n += put_example(file + n, i);
    }
    test_write(test_folder(), "t.tfrecord", file, n);
    hr_pipeline *p = open_with(in("tfrecord:@", "t.tfrecord"), 0, 0);
    hr_element *e;
    for (int i = 0; i < 5; i++) {
        CHECK_OK(hr_pipeline_next(p, &e));
        CHECK_EQ(*(const int64_t *)hr_element_find(e, "n")->data, i);
        CHECK_EQ(hr_element_find(e, "n")->meta.shape.rank, 0);
        CHECK(((const float *)hr_element_find(e, "f")->data)[1] == (float)i);
        hr_element_unref(e);
    }
    CHECK_STATUS(hr_pipeline_next(p, &e), HR_E_EOF);
    hr_pipeline_destroy(p);
}

TEST(tfrecord, wrong_checksums_and_lengths_are_told) {
    unsigned char file[1024];
    size_t n = 0;
    for (unsigned char i = 0; i < 5; i++) {
        n += put_example(file + n, i);
    }
    const size_t one = n / 5;
    file[2 * one + 20] ^= 1; /* data of the third record */
    test_write(test_folder(), "t.tfrecord", file, n);
    hr_pipeline *p = open_with(in("tfrecord:@", "t.tfrecord"), 1, 0);
    hr_element *e;
    int good = 0;
    while (hr_pipeline_next(p, &e) == HR_OK) {
        hr_element_unref(e);
        good++;
    }
    CHECK_EQ(good, 4);
    CHECK(strstr(hr_pipeline_bad(p, 0), "record 3") != NULL);
    CHECK(strstr(hr_pipeline_bad(p, 0), "checksum") != NULL);
    hr_pipeline_destroy(p);

    const uint64_t huge = (uint64_t)1 << 60;
    memcpy(file + 3 * one, &huge, 8);
    for (int right = 0; right < 2;
         right++) { /* with a wrong and with a right checksum of the length */
        const uint32_t crc = right ? hri_crc32c_masked(&huge, 8) : 7;
        memcpy(file + 3 * one + 8, &crc, 4);
        test_write(test_folder(), "t.tfrecord", file, n);
        p = open_with(in("tfrecord:@", "t.tfrecord"), 0, 0);
        CHECK_OK(hr_pipeline_next(p, &e));
        hr_element_unref(e);
        CHECK_OK(hr_pipeline_next(p, &e));
        hr_element_unref(e);
        CHECK_STATUS(hr_pipeline_next(p, &e), HR_E_FORMAT);
        CHECK_STATUS(hr_pipeline_next(p, &e), HR_E_FORMAT);
        hr_error error;
        hr_pipeline_error(p, &error);
        CHECK(strstr(error.message, right ? "a length of 1152921504606846976 bytes" : "checksum") !=
              NULL);
        CHECK_STATUS(hr_pipeline_next(p, &e), HR_E_EOF);
        hr_pipeline_destroy(p);
    }
}

/* ---- the machine ---- */

TEST(budget, is_the_least_of_machine_and_control_groups) {
    const char meminfo[] = "MemTotal: 999 kB\nMemAvailable:   1048576 kB\n";
    const char *root = test_folder();
    test_write(root, "proc/meminfo", meminfo, sizeof meminfo - 1);
    CHECK_EQ(hri_memory_left_free(root), 1 << 30);
    test_write(root, "proc/self/cgroup", "0::/a/b\n", 8);
    test_write(root, "sys/fs/cgroup/a/b/memory.max", "max\n", 4);
    test_write(root, "sys/fs/cgroup/a/b/memory.current", "5000\n", 5);
    CHECK_EQ(hri_memory_left_free(root), 1 << 30);
    test_write(root, "sys/fs/cgroup/a/memory.max", "100000000\n", 10);
    test_write(root, "sys/fs/cgroup/a/memory.current", "60000000\n", 9);
    test_write(root, "sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 20000000\n", 30);
    CHECK_EQ(hri_memory_left_free(root), 60000000);
    test_write(root, "proc/self/cgroup", "3:cpu,memory:/x\n", 16);
    test_write(root, "sys/fs/cgroup/memory/x/memory.limit_in_bytes", "50000000\n", 9);
    test_write(root, "sys/fs/cgroup/memory/x/memory.usage_in_bytes", "60000000\n", 9);
    CHECK_EQ(hri_memory_left_free(root), 0 + 0);
}
