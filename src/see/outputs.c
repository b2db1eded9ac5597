/* Writing what was asked for; see outputs.h. */
#include "see/outputs.h"

#include "see/from_plan.h"
#include "see/hrp.h"
#include "see/page.h"

hr_status hri_see_write(const hri_recording *r, const char *html, const char *record,
                        hri_prose *why) {
    hr_status status = record ? hri_hrp_write(r, record, why) : HR_OK;
    if (status == HR_OK && html) {
        status = hri_see_page_write(html, &r, &r->head.model, 1, why);
    }
    return status;
}

hr_status hri_see_write_plan(hr_plan *plan, const char *html, const char *record, hri_prose *why) {
    hri_recording r = {.truncated = false};
    hr_status status = hri_recording_from_plan(plan, &r);
    if (status == HR_OK) {
        status = hri_see_write(&r, html, record, why);
    } else {
        (void)!hri_prose_set(why, status, "%s", hr_status_text(status));
    }
    hri_recording_deinit(&r);
    return status;
}
