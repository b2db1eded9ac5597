/* TFRecord files from outside.  Checksums of data are not compared, so that damage reaches the reader of
 * tf.train.Example; those of lengths always are, and the second half of the work makes them right first. */
#include "source.h"

#include "base/crc32c.h"

/* The bytes as one record with a right head. */
static void whole_record(const uint8_t *data, size_t size) {
    uint8_t *file = malloc(size + 16);
    must(file != NULL);
    for (int i = 0; i < 8; i++) {
        file[i] = (uint8_t)((uint64_t)size >> (8 * i));
    }
    const uint32_t crc = hri_crc32c_masked(file, 8);
    memcpy(file + 8, &crc, 4);
    if (size > 0) {
        memcpy(file + 12, data, size);
    }
    memset(file + 12 + size, 0, 4);
    char path[32], text[96];
    const int fd = fuzz_file(file, size + 16, path);
    snprintf(text, sizeof text, "tfrecord:%s,check=off", path);
    fuzz_source(text);
    close(fd);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[32], text[96];
    const int fd = fuzz_file(data, size, path);
    snprintf(text, sizeof text, "tfrecord:%s", path);
    fuzz_source(text);
    snprintf(text, sizeof text, "tfrecord:%s,example=off,check=off", path);
    fuzz_source(text);
    snprintf(text, sizeof text, "tfrecord:%s,example=off,index=on", path);
    fuzz_source(text);
    close(fd);
    whole_record(data, size);
    return 0;
}
