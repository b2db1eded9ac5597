/* Recordings from outside: whatever the bytes, reading ends with a status, and what was accepted keeps the promises of
 * recording.h and can be written and read again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "see/group.h"
#include "see/hrp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

typedef struct bytes {
    unsigned char *data;
    size_t count;
} bytes;

static hr_status keep(void *user, const void *data, size_t count, hri_prose *why) {
    bytes *b = user;
    (void)why;
    b->data = realloc(b->data, b->count + count);
    must(b->data != NULL);
    memcpy(b->data + b->count, data, count);
    b->count += count;
    return HR_OK;
}

/* Checksums are put right, so that what is behind them is reached. */
static void mend(unsigned char *data, size_t size) {
    for (size_t at = 16; at + 24 <= size;) {
        uint64_t length;
        memcpy(&length, data + at + 8, sizeof length);
        if (length > size - at - 24) {
            return;
        }
        const uint32_t crc = (uint32_t)crc32_z(0, data + at + 24, (size_t)length);
        memcpy(data + at + 16, &crc, sizeof crc);
        at += 24 + ((size_t)length + 7) / 8 * 8;
    }
}

static void check(const hri_recording *r) {
    const size_t ops = r->tables[HRI_SEE_OPS].count;
    const hri_see_buffer *b = hri_recording_buffers(r);
    must(ops == 0 || r->head.peak_op < ops);
    for (size_t i = 0; i < r->tables[HRI_SEE_BUFFERS].count; i++) {
        must(b[i].birth <= b[i].death && b[i].death <= ops && b[i].name < r->texts.count);
        must(i == 0 || b[i - 1].birth <= b[i].birth);
        must(b[i].category < HRI_SEE_CATEGORIES);
    }
    hri_see_groups g = {0};
    must(hri_see_groups_open(r, HRI_SEE_BY_LAYER, &g) == HR_OK);
    hri_see_groups_close(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hri_recording r = {0}, again = {0};
    hri_prose why = {""};
    bytes out = {0};
    unsigned char *copy = malloc(size + 1);
    must(copy != NULL);
    memcpy(copy, data, size);
    mend(copy, size);
    const hr_status status = hri_hrp_decode(copy, size, &r, &why);
    free(copy);
    if (status != HR_OK) {
        must(status == HR_E_FORMAT || status == HR_E_UNSUPPORTED || status == HR_E_RANGE);
        must(why.text[0] != '\0');
        return 0;
    }
    check(&r);
    must(hri_hrp_encode(&r, keep, &out, NULL) == HR_OK);
    must(hri_hrp_decode(out.data, out.count, &again, NULL) == HR_OK && !again.truncated);
    for (int t = 0; t < HRI_SEE_TABLES; t++) {
        must(again.tables[t].count == r.tables[t].count);
    }
    free(out.data);
    hri_recording_deinit(&r);
    hri_recording_deinit(&again);
    return 0;
}
