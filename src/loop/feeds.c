/* A pipeline's samples or a batch of somebody's own; see feeds.h. */
#include "loop/feeds.h"

#include <string.h>

#include "loop/seat.h"

/* Input number i of the model: the first, the label where there is one, the others; NULL at the end. */
static const char *input_at(const hri_model_input *want, uint32_t i, const hr_meta **sample) {
    const uint32_t label = want->label_name[0] != '\0';
    if (i == 0) {
        *sample = &want->sample;
        return want->name;
    }
    if (i == 1 && label) {
        *sample = &want->label;
        return want->label_name;
    }
    i -= 1 + label;
    if (i >= want->other_count) {
        return NULL;
    }
    *sample = &want->others[i].sample;
    return want->others[i].name;
}

static const hr_field *find_field(const hr_field *fields, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(fields[i].name, name)) {
            return &fields[i];
        }
    }
    return NULL;
}

hr_status hri_fields_check(const hr_field *fields, size_t count, const hri_model_input *want,
                           uint64_t samples, hri_prose *why) {
    const hr_meta *sample;
    const char *name;
    for (uint32_t i = 0; (name = input_at(want, i, &sample)); i++) {
        const hr_field *f = find_field(fields, count, name);
        if (!f) {
            return hri_prose_set(why, HR_E_NOT_FOUND, "the batch has no field %s", name);
        }
        if (f->meta.type != sample->type || f->bytes != samples * hr_meta_bytes(sample)) {
            char is[256];
            return hri_prose_set(why, HR_E_SHAPE,
                                 "the field %s has %llu bytes of %s; %llu samples of %s are needed",
                                 name, (unsigned long long)f->bytes, hr_type_name(f->meta.type),
                                 (unsigned long long)samples, hr_meta_print(sample, is, sizeof is));
        }
    }
    return HR_OK;
}

static hr_status feed_fields(const hri_feeds *f, const hri_planned_run *run, hri_prose *why) {
    const hr_meta *sample;
    const char *name;
    uint64_t counted = f->want->label_name[0] ? 0 : run->samples;
    hr_status status = HR_OK;
    for (uint32_t i = 0; status == HR_OK && (name = input_at(f->want, i, &sample)); i++) {
        const hr_field *field = find_field(f->fields, f->field_count, name);
        hri_seat to = hri_seat_of("the batch", run, name, sample, 0);
        const uint64_t first = run->first_sample * to.count, n = run->samples * to.count;
        if ((int32_t)to.type != sample->type) { /* images that the job's data has as bytes */
            return hri_prose_set(why, HR_E_SHAPE, "this graph expects %s as %s", name,
                                 hr_type_name(to.type));
        }
        const char *data = (const char *)field->data + first * hr_type_bytes(to.type);
        if (!strcmp(name, f->want->label_name)) {
            hri_seat_counts(&to, f->want, &counted);
            if (to.type == HR_TYPE_I32) {
                hri_seat_count_labels(&to, 0, (const int32_t *)(const void *)data, n);
            } else if (f->want->counts && to.type == HR_TYPE_F32) {
                hri_seat_count_reals(&to, (const float *)(const void *)data, n);
            } else {
                counted += n;
            }
        }
        status = to.value == HR_NONE ? HR_OK : hri_seat_put(&to, 0, data, n);
    }
    if (status == HR_OK && run->counted) {
        *run->counted = counted;
    }
    return status;
}

hr_status hri_feeds_feed(void *feeds, const hri_planned_run *run, hri_prose *why) {
    hri_feeds *f = feeds;
    if (f->fields && run->evaluate) { /* whole batches, else one sample after the other */
        hri_planned_run from = *run;
        from.first_sample = f->field_first;
        if (f->field_samples - f->field_first < run->samples) {
            return HR_E_AGAIN;
        }
        f->fed = run->samples;
        return feed_fields(f, &from, why);
    }
    if (f->fields) {
        return run->exec ? feed_fields(f, run, why) : HR_OK;
    }
    return hri_supply_feed(run->evaluate ? f->validation : f->train, run, &f->fed, why);
}
