/* Safetensors headers from outside: whatever the bytes, parsing ends with a status, and what was accepted covers its
 * data exactly.  The first two bytes say how much data lies behind the header. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "weights/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hri_tensors t;
    hri_prose why = {""};
    if (size < 2) {
        return 0;
    }
    const uint64_t data_bytes = (uint64_t)data[0] | (uint64_t)data[1] << 8;
    const hr_status status =
        hri_tensors_parse("file", (const char *)data + 2, size - 2, data_bytes, &t, &why);
    if (status != HR_OK) {
        must(status == HR_E_FORMAT || status == HR_E_RANGE || status == HR_E_UNSUPPORTED ||
             status == HR_E_INVALID);
        must(why.text[0] != '\0');
        return 0;
    }
    uint64_t at = 0;
    for (size_t i = 0; i < t.count; i++) {
        must(t.items[i].begin == at && t.items[i].end >= at);
        must(hri_tensors_find(&t, t.items[i].name) == &t.items[i]);
        at = t.items[i].end;
    }
    must(at == data_bytes);
    hri_tensors_close(&t);
    return 0;
}
