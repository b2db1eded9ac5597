/* Byte sizes as people write them: whatever the text, parsing ends with a status, keeps its hands off `out` when it
 * fails, and what it accepts can be printed and read back to within the three figures that printing promises. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <headroom/bytes.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint64_t wholes[] = {0, 1, 85899345920u, UINT64_MAX};
    char *text = malloc(size + 1);
    if (!text) {
        return 0;
    }
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = 0;
    for (size_t i = 0; i < sizeof wholes / sizeof *wholes; i++) {
        const uint64_t untouched = 0x5a5a5a5a5a5a5a5au;
        uint64_t bytes = untouched, again = 0;
        const hr_status status = hr_bytes_parse(text, wholes[i], &bytes);
        must(status == HR_OK || status == HR_E_INVALID || status == HR_E_RANGE);
        if (status != HR_OK) {
            must(bytes == untouched);
            continue;
        }
        char shown[32];
        must(hr_bytes_print(bytes, shown, sizeof shown) == shown && strlen(shown) < sizeof shown);
        const hr_status reread = hr_bytes_parse(shown, 0, &again);
        if (reread != HR_OK) {
            must(reread == HR_E_RANGE && bytes > UINT64_MAX / 200 * 199); /* rounded up past 2^64 */
            continue;
        }
        const uint64_t apart = again > bytes ? again - bytes : bytes - again;
        must(apart <= bytes / 200 + 1); /* half of the third figure, and whole bytes */
    }
    free(text);
    return 0;
}
