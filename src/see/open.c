/* What kind of file it is; see open.h. */
#include "see/open.h"

#include <stdio.h>

#include "base/file.h"
#include "see/hrp.h"

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
    } else {
        status = hri_prose_set(&own, HR_E_FORMAT, "not a recording (.hrp)");
    }
    hri_free(bytes);
    if (status == HR_OK && out->truncated && !out->head.note[0]) {
        out->head.note = "The file was truncated: this is what it has.";
    }
    return status == HR_OK ? HR_OK
                           : hri_prose_set(why, status, "%s: %s", path,
                                           own.text[0] ? own.text : hr_status_text(status));
}
