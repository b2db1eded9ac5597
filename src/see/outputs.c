/* Writing what was asked for; see outputs.h. */
#include "see/outputs.h"

#include "job/outputs.h"
#include "see/export.h"
#include "see/from_plan.h"
#include "see/hrp.h"
#include "see/page.h"

hr_status hri_see_outputs_check(const hri_see_outputs *o, hri_why *why) {
    const struct {
        const char *option, *path;
        hri_output_kind kind;
    } all[] = {{"html", o->html, HRI_OUTPUT_FILE},
               {"record", o->record, HRI_OUTPUT_FILE},
               {"trace", o->trace, HRI_OUTPUT_FILE},
               {"csv", o->csv, HRI_OUTPUT_FOLDER},
               {"tensorboard", o->tensorboard, HRI_OUTPUT_FOLDER}};
    hr_status status = HR_OK;
    for (size_t i = 0; i < sizeof all / sizeof all[0] && status == HR_OK; i++) {
        status = hri_output_check(why, all[i].option, all[i].path, all[i].kind);
    }
    return status;
}

static hr_status write_page(const hri_recording *r, const char *path, hri_prose *why) {
    return hri_see_page_write(path, &r, &r->head.model, 1, why);
}

hr_status hri_see_write(const hri_recording *r, const hri_see_outputs *o, hri_prose *why) {
    const struct {
        const char *path;
        hr_status (*write)(const hri_recording *r, const char *path, hri_prose *why);
    } all[] = {{o->record, hri_hrp_write},
               {o->html, write_page},
               {o->trace, hri_see_export_trace},
               {o->csv, hri_see_export_csv},
               {o->tensorboard, hri_see_export_tensorboard}};
    hr_status status = HR_OK;
    for (size_t i = 0; i < sizeof all / sizeof all[0] && status == HR_OK; i++) {
        status = all[i].path ? all[i].write(r, all[i].path, why) : HR_OK;
    }
    return status;
}

hr_status hri_see_write_plan(hr_plan *plan, const hri_see_outputs *o, hri_prose *why) {
    hri_recording r = {.truncated = false};
    hr_status status = hri_recording_from_plan(plan, &r);
    if (status == HR_OK) {
        status = hri_see_write(&r, o, why);
    } else {
        (void)!hri_prose_set(why, status, "%s", hr_status_text(status));
    }
    hri_recording_deinit(&r);
    return status;
}

hr_status hr_plan_save_page(hr_plan *plan, const char *path, hr_error *error) {
    hri_why why = {0};
    hri_prose prose = {0};
    hr_plan_summary summary = {.size = sizeof summary};
    hr_status status = hr_plan_get_summary(plan, &summary);
    if (status == HR_OK && (!summary.fits || !summary.graph_count)) {
        status = hri_prose_set(&prose, HR_E_NOT_FOUND, "the plan has no details to show: %s",
                               summary.fits ? "training has begun" : "it does not fit");
    }
    if (status == HR_OK) {
        status = hri_see_write_plan(plan, &(hri_see_outputs){.html = path}, &prose);
    }
    if (status != HR_OK) {
        (void)!hri_why_prose(&why, hri_cause_of(status), status, NULL, &prose);
        hri_why_give(&why, status, error);
    }
    return status;
}
