/* filter  the elements for which a function says yes (hr_pipeline_filter), or whose first number in a field lies
 * between two bounds: filter(field=label,min=0,max=4).  An element that came as a ticket goes on with its ticket, so
 * that a shuffle behind a filter need not hold it. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "data/pipeline.h"
#include "graph/half.h"

typedef struct options {
    const char *field;
    double min, max;
} options;

static const hri_field fields[] = {
    {"field", "field whose first value is compared", offsetof(options, field), HRI_FIELD_STRING},
    {"min", "smallest value to keep", offsetof(options, min), HRI_FIELD_DOUBLE, "-inf"},
    {"max", "largest value to keep", offsetof(options, max), HRI_FIELD_DOUBLE, "inf"},
    {0}};

typedef struct own {
    hr_filter_fn *fn;
    void *user;
} own;

static hr_status open(hri_stage *s, hri_prose *why) {
    const own *w = s->own;
    const options *o = s->options;
    if (!w->fn && !o->field) {
        return hri_prose_set(why, HR_E_INVALID, "field: missing field name");
    }
    if (!w->fn && s->spec.field_count && !hri_spec_find(&s->spec, o->field)) {
        return hri_prose_set(why, HR_E_NOT_FOUND, "field: elements have no field \"%s\"", o->field);
    }
    s->smallest_bytes = s->spec.load_bytes;
    s->spec.count = HR_COUNT_UNKNOWN;
    return HR_OK;
}

static double first_number(const hr_field *f) {
    uint32_t bits;
    float real;
    hri_f16 half;
    switch (f->meta.type) {
    case HR_TYPE_F32:
        return *(const float *)f->data;
    case HR_TYPE_BF16:
        bits = (uint32_t) * (const uint16_t *)f->data << 16;
        memcpy(&real, &bits, 4);
        return real;
    case HR_TYPE_F16:
        memcpy(&half, f->data, 2);
        return (double)hri_from_f16(half);
    case HR_TYPE_I32:
        return *(const int32_t *)f->data;
    case HR_TYPE_I64:
        return (double)*(const int64_t *)f->data;
    default:
        return *(const uint8_t *)f->data;
    }
}

static bool stays(const hri_stage *s, const hr_element *e) {
    const own *w = s->own;
    const options *o = s->options;
    if (w->fn) {
        return w->fn(w->user, e) != 0;
    }
    const hr_field *f = hr_element_find(e, o->field);
    if (!f || f->bytes == 0) {
        return false;
    }
    const double x = first_number(f);
    return x >= o->min && x <= o->max;
}

static hr_status next(hri_stage *s, hri_item *out) {
    for (;;) {
        hri_item item = {0};
        hr_status status = hri_stage_next(s->inputs[0], &item);
        if (status != HR_OK) {
            return status;
        }
        hr_element *e;
        status = hri_stage_take(s, &item, &e);
        if (status == HR_E_AGAIN) {
            continue;
        }
        if (status != HR_OK) {
            return status;
        }
        if (stays(s, e)) {
            item.element = e;
            *out = item;
            return HR_OK;
        }
        hr_element_unref(e);
    }
}

const hri_stage_type hri_stage_type_filter = {
    .name = "filter",
    .help = "keep elements that match a rule",
    .main = "field",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .inputs = 1,
    .open = open,
    .next = next,
};

hr_status hr_pipeline_filter(hr_pipeline *p, hr_filter_fn *fn, void *user, const char *name) {
    hri_stage *s;
    if (!fn) {
        return hri_pipeline_fail(p, HR_E_INVALID, "filter: missing function");
    }
    const hr_status status = hri_pipeline_chain(p, &hri_stage_type_filter, name, &s);
    if (status == HR_OK) {
        *(own *)s->own = (own){fn, user};
    }
    return status;
}
