/* The doors of headroom/checkpoint.h. */
#include <headroom/checkpoint.h>

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/grow.h"
#include "job/why.h"
#include "weights/checkpoint.h"
#include "weights/merge.h"

struct hr_checkpoint {
    hri_checkpoint c;
};

static hr_status failed(hr_status status, const hri_prose *prose, hr_error *error) {
    hri_why why = {0};
    (void)hri_why_prose(&why, hri_cause_of_input(status), status, NULL, prose);
    hri_why_give(&why, status, error);
    return status;
}

hr_status hr_checkpoint_open(const char *path, hr_checkpoint **out, hr_error *error) {
    hri_prose why = {""};
    hr_checkpoint *c = hri_calloc(1, sizeof *c);
    const hr_status status = c ? hri_checkpoint_open(path, &c->c, &why) : HR_E_NOMEM_HOST;
    if (status != HR_OK) {
        hri_free(c);
        return failed(status, &why, error);
    }
    *out = c;
    return HR_OK;
}

void hr_checkpoint_close(hr_checkpoint *c) {
    if (c) {
        hri_checkpoint_close(&c->c);
        hri_free(c);
    }
}

static const char *text(const char *t) {
    return t ? t : "";
}

hr_status hr_checkpoint_get_info(const hr_checkpoint *c, hr_checkpoint_info *out) {
    const hri_about *a = &c->c.about;
    const hri_progress_state *p = &c->c.progress;
    const hr_checkpoint_info info = {.size = sizeof info,
                                     .path = text(c->c.path),
                                     .model = text(a->model),
                                     .precision = text(a->precision),
                                     .data = text(a->source),
                                     .input = text(a->input),
                                     .class_count = a->class_count,
                                     .tensor_count = c->c.file.count,
                                     .step = p->state.step,
                                     .epoch = p->epoch,
                                     .batch = p->batch,
                                     .micro_batches = p->parts,
                                     .seed = p->seed,
                                     .history = p->digest,
                                     .best = c->c.whole ? p->best : NAN,
                                     .best_epoch = p->best_epoch,
                                     .seconds = (double)p->seconds_ns / 1e9,
                                     .resumable = c->c.whole,
                                     .custom = a->graph != NULL};
    return hri_give(out, &info, sizeof info);
}

const char *hr_checkpoint_class(const hr_checkpoint *c, uint64_t index) {
    return c->c.about.classes && index < c->c.about.class_count ? c->c.about.classes[index] : NULL;
}

hr_status hr_checkpoint_model(const hr_checkpoint *c, hr_model **out, hr_error *error) {
    hri_prose why = {""};
    const hr_status status = hri_checkpoint_model(&c->c, out, &why);
    return status == HR_OK ? HR_OK : failed(status, &why, error);
}

hr_status hr_checkpoint_get_tensor(const hr_checkpoint *c, size_t index, hr_tensor_info *out) {
    if (index >= c->c.file.count) {
        return HR_E_EOF;
    }
    const hri_tensor *t = &c->c.file.items[index];
    const hr_tensor_info info = {.size = sizeof info,
                                 .name = t->name,
                                 .type = t->dtype,
                                 .shape = t->shape,
                                 .bytes = t->end - t->begin};
    return hri_give(out, &info, sizeof info);
}

hr_status hr_checkpoint_read(const hr_checkpoint *c, const char *name, int32_t type, uint64_t at,
                             void *to, uint64_t count, hr_error *error) {
    hri_prose why = {""};
    const hri_tensor *t = hri_tensors_find(&c->c.file, name);
    const uint64_t all = t ? (uint64_t)hr_shape_count(&t->shape) : 0;
    hr_status status = HR_OK;
    if (!t) {
        status = hri_prose_set(&why, HR_E_NOT_FOUND, "%s: there is no tensor %s", c->c.path, name);
    } else if (at > all || count > all - at) {
        status = hri_prose_set(&why, HR_E_RANGE, "%s: %s has %llu elements", c->c.path, name,
                               (unsigned long long)all);
    } else if (type < 0 || !hr_type_bytes((hr_type)type) || !hri_tensor_can_be(t, (hr_type)type)) {
        status =
            hri_prose_set(&why, HR_E_UNSUPPORTED,
                          "%s: tensor %s is %s, which cannot be converted to the requested type",
                          c->c.path, name, t->dtype);
    } else {
        status = hri_tensors_read(&c->c.file, t, at, count, (hr_type)type, to, &why);
    }
    return status == HR_OK ? HR_OK : failed(status, &why, error);
}

hr_status hr_checkpoint_merge(const hr_checkpoint *c, const char *path, hr_merge_result *out,
                              hr_error *error) {
    hri_prose why = {""};
    hri_merge_report r;
    const hr_status status = hri_checkpoint_merge(&c->c, path, &r, &why);
    if (status != HR_OK) {
        return failed(status, &why, error);
    }
    const hr_merge_result result = {
        .size = sizeof result, .layers = r.layers, .parameters = r.parameters, .bytes = r.bytes};
    return out ? hri_give(out, &result, sizeof result) : HR_OK;
}
