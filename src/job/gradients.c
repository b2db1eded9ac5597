/* Gradients of a program's own: added up, looked at, applied; see headroom/trainer.h. */
#include <headroom/trainer.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/grow.h"
#include "base/text.h"
#include "job/together.h"

static hr_status give(hri_why *why, hr_status status, const hri_prose *prose, hr_error *error) {
    if (status != HR_OK) {
        (void)hri_why_prose(why, status == HR_E_RANGE ? HR_CAUSE_TRAINING : hri_cause_of(status),
                            status, NULL, prose);
        hri_why_give(why, status, error);
    }
    return status;
}

static hr_status check_kept(const hri_train_job *j, hri_prose *why) {
    return j->o.keep_gradients
               ? HR_OK
               : hri_prose_set(why, HR_E_UNSUPPORTED,
                               "the job was planned without keep_gradients, so it keeps none");
}

hr_status hr_trainer_backward(hr_trainer *t, const hr_field *fields, size_t count, double share,
                              hr_numbers *out, hr_error *error) {
    hri_train_job *j = hri_trainer_job(t);
    hri_why why = {0};
    hri_prose prose = {""};
    hri_numbers n = {0};
    hr_status status = check_kept(j, &prose);
    if (status == HR_OK && !(share > 0 && share <= 1)) {
        status = hri_prose_set(&prose, HR_E_INVALID, "a share is above 0 and at most 1");
    }
    if (status == HR_OK) {
        status = hri_fields_check(fields, count, &j->want, (uint64_t)j->batch, &prose);
    }
    if (status != HR_OK) {
        return give(&why, status, &prose, error);
    }
    j->feeds.fields = fields;
    j->feeds.field_count = count;
    j->feeds.want = &j->want;
    status = hri_trainer_backward(j->trainer, share, &n, &prose);
    j->feeds.fields = NULL;
    if (status != HR_OK || !out) {
        return give(&why, status, &prose, error);
    }
    const hri_record_step s = {.step = hri_trainer_progress(j->trainer)->state.step,
                               .epoch = hri_trainer_progress(j->trainer)->epoch + 1,
                               .loss = (double)n.loss,
                               .accuracy = (double)n.accuracy,
                               .top5 = (double)n.top5,
                               .rate = NAN,
                               .norm = NAN,
                               .memory_bytes = HR_UNKNOWN,
                               .peak_bytes = HR_UNKNOWN};
    const hr_numbers numbers = hri_train_numbers(j, &s);
    return hri_give(out, &numbers, sizeof numbers);
}

/* The state in which the parameter's gradients are added up. */
static hr_status name_sum(const hr_trainer *t, const char *parameter, hri_text *out) {
    const hri_train_job *j = hri_trainer_job(t);
    if (!j->o.keep_gradients) {
        return HR_E_UNSUPPORTED;
    }
    if (!hri_trainer_has_gradients(j->trainer)) {
        return HR_E_BUSY;
    }
    hri_text_add(out, "%s.sum", parameter);
    return hri_text_status(out);
}

hr_status hr_trainer_get_gradient(hr_trainer *t, const char *parameter, float *to, uint64_t bytes) {
    hri_text name = {0};
    hr_status status = name_sum(t, parameter, &name);
    if (status == HR_OK) {
        status = hr_trainer_get(t, hri_text_get(&name), to, bytes);
    }
    hri_text_deinit(&name);
    return status;
}

hr_status hr_trainer_put_gradient(hr_trainer *t, const char *parameter, const float *from,
                                  uint64_t bytes) {
    hri_text name = {0};
    hr_status status = name_sum(t, parameter, &name);
    if (status == HR_OK) {
        status = hr_trainer_put(t, hri_text_get(&name), from, bytes);
    }
    hri_text_deinit(&name);
    return status;
}

hr_status hr_trainer_apply(hr_trainer *t, hr_numbers *out, hr_error *error) {
    hri_train_job *j = hri_trainer_job(t);
    hri_why why = {0};
    hri_prose prose = {""};
    hri_record_step s = {0};
    hr_status status = check_kept(j, &prose);
    if (status == HR_OK) {
        status = hri_trainer_apply(j->trainer, &s, &prose);
    }
    if (status != HR_OK || !out) {
        return give(&why, status, &prose, error);
    }
    const hr_numbers numbers = hri_train_numbers(j, &s);
    return hri_give(out, &numbers, sizeof numbers);
}

void hr_trainer_drop_gradients(hr_trainer *t) {
    hri_trainer_drop(hri_trainer_job(t)->trainer);
}
