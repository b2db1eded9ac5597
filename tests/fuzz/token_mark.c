/* How far an interrupted `tokenize` was, from a file that anybody may have written. */
#include <stdint.h>
#include <stdlib.h>

#include "job/token_output.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const unsigned char print[HRI_SHA256_BYTES] = {0};
    hri_token_mark m = {.file = 77};
    if (hri_token_mark_parse((const char *)data, size, print, &m) != HR_OK && m.file != 77) {
        abort(); /* untouched on failure */
    }
    return 0;
}
