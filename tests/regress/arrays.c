/* Small data sets; see arrays.h. */
#include "arrays.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

void arrays_write(const char *path, const void *data, size_t bytes) {
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(data, 1, bytes, f) == bytes && fclose(f) == 0);
}

void arrays_write_npy(const char *path, int major, const char *header, const void *data,
                      size_t bytes) {
    unsigned char head[128] = "\x93NUMPY";
    const size_t start = major >= 2 ? 12 : 10;
    FILE *f = fopen(path, "wb");
    head[6] = (unsigned char)major;
    head[8] = (unsigned char)(128 - start);
    memset(head + start, ' ', 128 - start);
    CHECK(f && strlen(header) < 128 - start);
    memcpy(head + start, header, strlen(header));
    head[127] = '\n';
    CHECK(fwrite(head, 1, 128, f) == 128 && fwrite(data, 1, bytes, f) == bytes && fclose(f) == 0);
}

void arrays_write_reals(const char *path, uint32_t count, uint32_t width, uint64_t seed) {
    char header[96];
    float *x = calloc((size_t)count * width + 1, sizeof *x);
    CHECK(x);
    for (size_t i = 0; i < (size_t)count * width; i++) {
        x[i] = (float)(test_random(&seed) >> 40) / (float)(1 << 24);
    }
    snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': (%u, %u), }",
             count, width);
    arrays_write_npy(path, 1, header, x, (size_t)count * width * sizeof *x);
    free(x);
}

void arrays_write_i64(const char *path, const int64_t *labels, uint32_t count) {
    char header[96];
    snprintf(header, sizeof header, "{'descr': '<i8', 'fortran_order': False, 'shape': (%u,), }",
             count);
    arrays_write_npy(path, 1, header, labels, count * sizeof *labels);
}

void arrays_write_labels(const char *path, uint32_t count, int64_t classes) {
    int64_t *y = calloc(count + 1, sizeof *y);
    CHECK(y);
    for (uint32_t i = 0; i < count; i++) {
        y[i] = (int64_t)i % classes;
    }
    arrays_write_i64(path, y, count);
    free(y);
}
