/* hr_pipeline_run: a pipeline run for its own sake. */
#include <headroom/data.h>

#include <stdbool.h>
#include "base/clock.h"
#include "base/grow.h"

static uint64_t samples_of(const hr_element *e) {
    const hr_field *f = hr_element_field(e, 0);
    return f && f->meta.shape.rank > 0 && f->meta.shape.dim[0] > 0 ? (uint64_t)f->meta.shape.dim[0]
                                                                   : 1;
}

static hr_status take_one(hr_pipeline *p, hr_element_fn *fn, void *user,
                          hr_pipeline_run_result *r) {
    hr_element *e;
    hr_status status = hr_pipeline_next(p, &e);
    if (status != HR_OK) {
        return status;
    }
    status = fn ? fn(user, e) : HR_OK;
    r->elements++;
    r->samples += samples_of(e);
    for (size_t i = 0; i < hr_element_field_count(e); i++) {
        r->bytes += hr_element_field(e, i)->bytes;
    }
    hr_element_unref(e);
    return status;
}

/* Another epoch?  An empty one is not waited for twice. */
static bool goes_on(const hr_pipeline_run_options *o, const hr_pipeline_run_result *r) {
    return o->epochs ? r->epochs < o->epochs : o->milliseconds && r->elements;
}

hr_status hr_pipeline_run(hr_pipeline *p, const hr_pipeline_run_options *options, hr_element_fn *fn,
                          void *user, hr_pipeline_run_result *out) {
    hr_pipeline_run_options o;
    hr_pipeline_run_result r = {.size = sizeof r};
    hr_status status = hri_take(&o, sizeof o, options);
    if (status != HR_OK) {
        return status;
    }
    const uint64_t began = hri_clock_ns();
    const uint64_t until = o.milliseconds ? began + o.milliseconds * 1000000u : UINT64_MAX;
    while (status == HR_OK && (!o.elements || r.elements < o.elements) &&
           (o.milliseconds == 0 || hri_clock_ns() < until)) {
        status = take_one(p, fn, user, &r);
        if (status == HR_E_EOF) {
            r.epochs++;
            status = HR_OK;
            if (!goes_on(&o, &r)) {
                break;
            }
            status = hr_pipeline_rewind(p);
        }
    }
    r.seconds = (double)(hri_clock_ns() - began) / 1e9;
    const hr_status given = hri_give(out, &r, sizeof r);
    return status == HR_OK ? given : status;
}
