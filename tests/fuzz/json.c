/* JSON from outside: whatever the bytes, reading ends with a status and a value only on success; what was read is
 * written by jansson and read back equal. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    json_t *value = NULL, *again = NULL;
    const hri_json_limits limits = {.max_bytes = 1 << 16, .max_depth = 8};
    const hr_status status = hri_json_parse((const char *)data, size, &limits, &value, NULL);
    must((status == HR_OK) == (value != NULL));
    if (status != HR_OK) {
        must(status == HR_E_FORMAT || status == HR_E_RANGE || status == HR_E_INVALID);
        return 0;
    }
    if (json_is_object(value)) {
        uint64_t number = 7;
        const char *text = NULL;
        const hr_status got = hri_json_get_u64(value, "version", &number, NULL);
        must(got == HR_OK || number == 7);
        must((hri_json_get_string(value, "name", &text, NULL) == HR_OK) == (text != NULL));
    }
    char *written = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
    if (written) {
        must(hri_json_parse(written, strlen(written), NULL, &again, NULL) == HR_OK);
        must(json_equal(value, again));
        json_decref(again);
        free(written);
    }
    json_decref(value);
    return 0;
}
