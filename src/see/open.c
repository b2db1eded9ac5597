/* What kind of file it is; see open.h. */
#include "see/open.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "see/allocations.h"
#include "see/hrp.h"
#include "see/torch.h"
#include "see/xla.h"

/* "...buffer-assignment.txt" -> "...live-range.txt", which XLA writes beside it.  NULL when there is none. */
static char *read_ranges(const char *path, size_t *count) {
    static const char from[] = "buffer-assignment.txt", to[] = "live-range.txt";
    const size_t bytes = strlen(path), tail = sizeof from - 1;
    char *ranges = NULL;
    if (bytes >= tail && !strcmp(path + bytes - tail, from)) {
        hri_text beside = {0};
        hri_text_bytes(&beside, path, bytes - tail);
        hri_text_add(&beside, "%s", to);
        if (hri_text_status(&beside) != HR_OK ||
            hri_file_read(hri_text_get(&beside), HRI_HRP_FILE_BYTES, &ranges, count, NULL) !=
                HR_OK) {
            ranges = NULL;
        }
        hri_text_deinit(&beside);
    }
    return ranges;
}

static hr_status open_xla(const char *path, const char *bytes, size_t count, hri_recording *out,
                          hri_prose *why) {
    size_t range_count = 0;
    char *ranges = read_ranges(path, &range_count);
    const hr_status status = hri_xla_decode(bytes, count, ranges, range_count, out, why);
    hri_free(ranges);
    return status;
}

hr_status hri_see_open(const char *path, hri_recording *out, hri_prose *why) {
    char *bytes;
    size_t count;
    hri_prose own = {0};
    hr_status status = hri_file_read(path, HRI_HRP_FILE_BYTES, &bytes, &count, why);
    if (status != HR_OK) {
        return status;
    }
    if (hri_hrp_is(bytes, count)) {
        status = hri_hrp_decode(bytes, count, out, &own);
    } else if (hri_torch_is(bytes, count)) {
        status = hri_torch_decode(bytes, count, out, &own);
    } else if (hri_xla_is(bytes, count)) {
        status = open_xla(path, bytes, count, out, &own);
    } else if (hri_allocations_is(bytes, count)) {
        status = hri_allocations_decode(bytes, count, out, &own);
    } else {
        status = hri_prose_set(&own, HR_E_FORMAT,
                               "not a recording (.hrp), a PyTorch memory snapshot (.pickle) or an "
                               "XLA buffer assignment");
    }
    hri_free(bytes);
    if (status == HR_OK && out->truncated && !out->head.note[0]) {
        out->head.note = "The file was truncated: this is what it has.";
    }
    return status == HR_OK ? HR_OK
                           : hri_prose_set(why, status, "%s: %s", path,
                                           own.text[0] ? own.text : hr_status_text(status));
}
