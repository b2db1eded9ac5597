/* .npy files from outside: alone, and beside another one. */
#include "source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char good[] = "\x93NUMPY\x01\x00\x46\x00"
                               "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }"
                               "            \n\1\0\0\0\2\0\0\0";
    char path[32], other[32], text[128];
    const int fd = fuzz_file(data, size, path);
    const int beside = fuzz_file((const uint8_t *)good, sizeof good - 1, other);
    snprintf(text, sizeof text, "npy:%s", path);
    fuzz_source(text);
    snprintf(text, sizeof text, "npy:%s,%s | batch(2)", path, other);
    hr_pipeline_destroy(fuzz_open(text, false));
    close(fd);
    close(beside);
    return 0;
}
