/* Safetensors: what is written is read, and every way in which a file can lie is told from the others. */
#include "weights/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "graph/half.h"
#include "test.h"

static char path[64];

static const char *temporary(void) {
    snprintf(path, sizeof path, "/tmp/headroom-tensors-XXXXXX");
    const int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    return path;
}

/* A file of this header and so many bytes of data. */
static const char *file_of(const char *header, size_t data_bytes) {
    FILE *f = fopen(temporary(), "wb");
    CHECK(f != NULL);
    const uint64_t bytes = strlen(header);
    fwrite(&bytes, 1, 8, f);
    fwrite(header, 1, bytes, f);
    for (size_t i = 0; i < data_bytes; i++) {
        fputc((int)i, f);
    }
    CHECK_EQ(fclose(f), 0);
    return path;
}

static void check_refused(const char *header, size_t data_bytes, hr_status status,
                          const char *part) {
    hri_tensors t = {.fd = -7};
    hri_prose why = {""};
    CHECK_STATUS(hri_tensors_open(file_of(header, data_bytes), &t, &why), status);
    CHECK_EQ(t.fd, -7);
    if (!strstr(why.text, part) || !strstr(why.text, path)) {
        test_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"", why.text, part);
    }
    unlink(path);
}

TEST(safetensors, a_file_without_tensors_is_a_file) {
    hri_tensors t;
    CHECK_OK(hri_tensors_open(file_of("{}", 0), &t, NULL));
    CHECK_EQ(t.count, 0);
    hri_tensors_close(&t);
    unlink(path);
}

TEST(safetensors, a_small_file_is_read) {
    hri_tensors t;
    CHECK_OK(hri_tensors_open(file_of("{\"__metadata__\":{\"format\":\"pt\"},"
                                      "\"b\":{\"dtype\":\"U8\",\"shape\":[2],"
                                      "\"data_offsets\":[8,10]},"
                                      "\"a\":{\"dtype\":\"I64\",\"shape\":[],"
                                      "\"data_offsets\":[0,8]},"
                                      "\"none\":{\"dtype\":\"F32\",\"shape\":[3,0],"
                                      "\"data_offsets\":[10,10]}}   ",
                                      10),
                              &t, NULL));
    CHECK_EQ(t.count, 3);
    CHECK_STR(hri_tensors_metadata(&t, "format"), "pt");
    CHECK(hri_tensors_metadata(&t, "other") == NULL);
    CHECK(hri_tensors_find(&t, "c") == NULL);
    const hri_tensor *a = hri_tensors_find(&t, "a"), *b = hri_tensors_find(&t, "b");
    int64_t number = 0;
    uint8_t bytes[2] = {0};
    CHECK_OK(hri_tensors_read(&t, a, 0, 1, HR_TYPE_I64, &number, NULL));
    CHECK_EQ(number, 0x0706050403020100);
    CHECK_OK(hri_tensors_read(&t, b, 1, 1, HR_TYPE_U8, bytes, NULL));
    CHECK_EQ(bytes[0], 9);
    CHECK_STATUS(hri_tensors_read(&t, b, 1, 2, HR_TYPE_U8, bytes, NULL), HR_E_RANGE);
    CHECK_STATUS(hri_tensors_read(&t, b, UINT64_MAX, 2, HR_TYPE_U8, bytes, NULL), HR_E_RANGE);
    CHECK_STATUS(hri_tensors_read(&t, b, 0, 2, HR_TYPE_F32, bytes, NULL), HR_E_UNSUPPORTED);
    hri_tensors_close(&t);
    unlink(path);
}

#define ENTRY(NAME, TYPE, SHAPE, FROM, TO)                                                         \
    "\"" NAME "\":{\"dtype\":\"" TYPE "\",\"shape\":[" SHAPE "],\"data_offsets\":[" FROM "," TO "]}"

TEST(safetensors, headers_that_lie_are_told_apart) {
    check_refused("{" ENTRY("a", "F32", "4", "0", "16") "}", 12, HR_E_FORMAT,
                  "but the file has only");
    check_refused("{" ENTRY("a", "F32", "4", "0", "16") "}", 20, HR_E_FORMAT, "has 20 bytes");
    check_refused("{" ENTRY("a", "F32", "4", "0", "12") "}", 12, HR_E_FORMAT, "not F32[4]");
    check_refused("{" ENTRY("a", "U8", "4", "4", "8") "}", 8, HR_E_FORMAT, "after a gap");
    check_refused("{" ENTRY("a", "U8", "4", "0", "4") "," ENTRY("b", "U8", "4", "2", "6") "}", 6,
                  HR_E_FORMAT, "inside");
    check_refused("{" ENTRY("a", "U8", "4", "0", "4") "," ENTRY("b", "U8", "4", "0", "4") "}", 4,
                  HR_E_FORMAT, "inside");
    check_refused("{" ENTRY("a", "U8", "4", "0", "4") "," ENTRY("a", "U8", "4", "4", "8") "}", 8,
                  HR_E_FORMAT, "duplicate");
    check_refused("{" ENTRY("a", "F32", "-4", "0", "16") "}", 16, HR_E_FORMAT, "dimension");
    check_refused("{" ENTRY("a", "F32", "4", "16", "0") "}", 16, HR_E_FORMAT, "offsets");
    check_refused("{" ENTRY("a", "F32", "4", "0.5", "16") "}", 16, HR_E_FORMAT, "offsets");
    check_refused("{" ENTRY("a", "F32", "4611686018427387904,4", "0", "0") "}", 0, HR_E_FORMAT,
                  "offsets span 0 bytes");
    check_refused("{" ENTRY("a", "F31", "4", "0", "16") "}", 16, HR_E_UNSUPPORTED, "F31");
    check_refused("{" ENTRY("a", "F32", "1,1,1,1,1,1,1,1,1", "0", "4") "}", 4, HR_E_UNSUPPORTED,
                  "9 dimensions");
    check_refused("{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, HR_E_FORMAT, "data_offsets");
    check_refused("{\"a\":7}", 4, HR_E_FORMAT, "tensor a");
    check_refused("{\"__metadata__\":{\"x\":1}}", 0, HR_E_FORMAT, "__metadata__");
    check_refused("[]", 0, HR_E_FORMAT, "'{'");
    check_refused(" {}", 0, HR_E_FORMAT, "'{'");
    check_refused("{\"a\":", 0, HR_E_FORMAT, "header");
}

static void check_bytes_refused(const void *data, size_t bytes, hr_status status) {
    FILE *f = fopen(temporary(), "wb");
    hri_tensors t;
    CHECK(f != NULL);
    fwrite(data, 1, bytes, f);
    CHECK_EQ(fclose(f), 0);
    CHECK_STATUS(hri_tensors_open(path, &t, NULL), status);
    unlink(path);
}

TEST(safetensors, files_that_are_none_are_refused) {
    check_bytes_refused("", 0, HR_E_FORMAT);
    check_bytes_refused("\2\0\0\0\0\0\0", 7, HR_E_FORMAT);
    check_bytes_refused("\0\0\0\0\0\0\0\0", 8, HR_E_FORMAT);
    check_bytes_refused("\3\0\0\0\0\0\0\0{}", 10, HR_E_FORMAT);
    check_bytes_refused("\377\377\377\377\377\377\377\377{}", 10, HR_E_FORMAT);
    hri_tensors t;
    CHECK_STATUS(hri_tensors_open("/tmp/headroom-there-is-no-such-file", &t, NULL), HR_E_NOT_FOUND);
    CHECK_STATUS(hri_tensors_open("/tmp", &t, NULL), HR_E_FORMAT);
}

enum { COUNT = 5000 }; /* more than one piece */

/* f32 numbers saved as `type`, read as f32: rounded once. */
static void round_trip(hr_type type) {
    static float numbers[COUNT], back[COUNT];
    uint64_t state = test_seed();
    for (int i = 0; i < COUNT; i++) {
        numbers[i] = (float)((double)(int64_t)test_random(&state) * 0x1p-60);
    }
    const hri_tensor_plan plan[] = {
        {"count", {HR_TYPE_I64, hr_shape_0()}},
        {"w", {type, hr_shape_2(50, COUNT / 50)}},
    };
    const int64_t count = 77;
    hri_tensors_writer w;
    hri_tensors t;
    CHECK_OK(hri_tensors_create(&w, temporary(), plan, 2, NULL, NULL));
    CHECK_OK(hri_tensors_write(&w, &count, 1, HR_TYPE_I64, HR_TYPE_I64, NULL));
    CHECK_OK(hri_tensors_write(&w, numbers, 1234, HR_TYPE_F32, type, NULL));
    CHECK_OK(hri_tensors_write(&w, numbers + 1234, COUNT - 1234, HR_TYPE_F32, type, NULL));
    CHECK_OK(hri_tensors_commit(&w, NULL));
    CHECK_OK(hri_tensors_open(path, &t, NULL));
    CHECK_EQ(t.data_begin % 8, 0);
    const hri_tensor *x = hri_tensors_find(&t, "w");
    CHECK_OK(hri_tensors_read(&t, x, 0, COUNT, HR_TYPE_F32, back, NULL));
    for (int i = 0; i < COUNT; i++) {
        const float wanted = type == HR_TYPE_BF16  ? hri_from_bf16(hri_to_bf16(numbers[i]))
                             : type == HR_TYPE_F16 ? hri_from_f16(hri_to_f16(numbers[i]))
                                                   : numbers[i];
        CHECK(memcmp(&back[i], &wanted, sizeof wanted) == 0);
    }
    hri_tensors_close(&t);
    unlink(path);
}

TEST(safetensors, numbers_round_once_on_the_way) {
    round_trip(HR_TYPE_F32);
    round_trip(HR_TYPE_BF16);
    round_trip(HR_TYPE_F16);
}

TEST(safetensors, a_file_with_less_than_promised_is_never_put_in_place) {
    const hri_tensor_plan plan[] = {{"w", {HR_TYPE_F32, hr_shape_1(4)}}};
    const float numbers[4] = {1, 2, 3, 4};
    hri_tensors_writer w;
    snprintf(path, sizeof path, "/tmp/headroom-promised-%d", (int)getpid());
    CHECK_OK(hri_tensors_create(&w, path, plan, 1, NULL, NULL));
    CHECK_OK(hri_tensors_write(&w, numbers, 3, HR_TYPE_F32, HR_TYPE_F32, NULL));
    CHECK_STATUS(hri_tensors_commit(&w, NULL), HR_E_INTERNAL);
    CHECK(!hri_file_exists(path));
    const hri_tensor_plan twice[] = {plan[0], plan[0]};
    CHECK_STATUS(hri_tensors_create(&w, path, twice, 2, NULL, NULL), HR_E_EXISTS);
    CHECK(!hri_file_exists(path));
}

TEST(safetensors, a_file_that_shrinks_while_it_is_read_is_told) {
    hri_tensors t;
    float x[4];
    CHECK_OK(hri_tensors_open(file_of("{" ENTRY("a", "F32", "4", "0", "16") "}", 16), &t, NULL));
    CHECK_EQ(truncate(path, (off_t)t.data_begin + 10), 0);
    CHECK_STATUS(hri_tensors_read(&t, &t.items[0], 0, 4, HR_TYPE_F32, x, NULL), HR_E_FORMAT);
    hri_tensors_close(&t);
    unlink(path);
}

#ifdef HEADROOM_FAULTS
static hr_status open_and_read(void) {
    hri_tensors t;
    float x[4];
    hr_status status = hri_tensors_open(path, &t, NULL);
    if (status == HR_OK) {
        status = hri_tensors_read(&t, &t.items[0], 0, 4, HR_TYPE_F32, x, NULL);
        hri_tensors_close(&t);
    }
    return status;
}

TEST(safetensors, whatever_is_refused_on_the_way_is_a_status_and_a_retry_works) {
    file_of("{" ENTRY("a", "F32", "4", "0", "16") "}", 16);
    for (uint64_t nth = 1;; nth++) {
        CHECK(nth < 100);
        const int64_t before = hri_fault_live_allocs();
        hri_fault_set(HRI_FAULT_ANY, nth, 0);
        const hr_status status = open_and_read();
        const uint64_t delivered = hri_fault_delivered();
        hri_fault_set(HRI_FAULT_ANY, 0, 0);
        CHECK_EQ(hri_fault_live_allocs(), before);
        CHECK_OK(open_and_read());
        if (!delivered) {
            CHECK_OK(status);
            break;
        }
        CHECK(status == HR_E_NOMEM_HOST || status == HR_E_IO);
    }
    unlink(path);
}
#endif
