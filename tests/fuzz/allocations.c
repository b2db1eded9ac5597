/* Allocations of programs from outside: whatever the text, reading ends with a status, and what was accepted keeps the promises
 * of recording.h and can be written as a recording.  */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "see/group.h"
#include "see/hrp.h"
#include "see/allocations.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

static hr_status drop(void *user, const void *data, size_t count, hri_prose *why) {
    (void)user;
    (void)data;
    (void)count;
    (void)why;
    return HR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    hri_recording r = {0};
    hri_prose why = {""};
    const hr_status status = hri_allocations_decode((const char *)data, size, &r, &why);
    if (status != HR_OK) {
        must(status == HR_E_FORMAT || status == HR_E_RANGE);
        must(why.text[0] != '\0');
        return 0;
    }
    const size_t ops = r.tables[HRI_SEE_OPS].count;
    const hri_see_buffer *b = hri_recording_buffers(&r);
    must(ops > 0 && r.head.peak_op < ops && r.tables[HRI_SEE_PARTS].count > 0);
    for (size_t i = 0; i < r.tables[HRI_SEE_BUFFERS].count; i++) {
        must(b[i].birth <= b[i].death && b[i].death <= ops && b[i].name < r.texts.count);
        must(i == 0 || b[i - 1].birth <= b[i].birth);
    }
    hri_see_groups g = {0};
    must(hri_see_groups_open(&r, HRI_SEE_BY_KIND, &g) == HR_OK);
    hri_see_groups_close(&g);
    must(hri_hrp_encode(&r, drop, NULL, NULL) == HR_OK);
    hri_recording_deinit(&r);
    return 0;
}
