/* rename(image/encoded,to=image)  gives a field another name; keep=off drops all others.  Without `to` the field keeps
 * its name, so that rename(x,keep=off) selects one field. */
#include <stdio.h>
#include <string.h>
#include "data/apply.h"
#include "data/stage.h"

typedef struct options {
    hri_apply_options apply;
    const char *field, *to;
    bool keep;
} options;

static const hri_field fields[] = {
    {"field", "field to rename", offsetof(options, field), HRI_FIELD_STRING},
    {"to", "new name", offsetof(options, to), HRI_FIELD_STRING},
    {"keep", "keep the other fields", offsetof(options, keep), HRI_FIELD_BOOL, "on"},
    HRI_APPLY_FIELDS,
    {0}};

static const char *new_name(const options *o) {
    return o->to ? o->to : o->field;
}

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    if (!o->field || strlen(new_name(o)) >= HR_FIELD_NAME_SIZE) {
        return hri_prose_set(why, HR_E_INVALID, "field and to: must be names of 1 to %d bytes",
                             HR_FIELD_NAME_SIZE - 1);
    }
    const hr_field *f = hri_spec_find(&s->spec, o->field);
    if (s->spec.field_count && !f) {
        return hri_prose_set(why, HR_E_NOT_FOUND, "elements have no field \"%s\"", o->field);
    }
    if (f) {
        const hr_meta m = f->meta;
        if (!o->keep) {
            s->spec.field_count = 0;
        } else {
            memmove((void *)(uintptr_t)f, f + 1,
                    (size_t)(s->spec.fields + s->spec.field_count - f - 1) * sizeof *f);
            s->spec.field_count--;
            if (hri_spec_find(&s->spec, new_name(o))) {
                return hri_prose_set(why, HR_E_EXISTS, "a field \"%s\" already exists",
                                     new_name(o));
            }
        }
        const hr_status status = hri_spec_put(&s->spec, new_name(o), m);
        if (status != HR_OK) {
            return status;
        }
    }
    s->spec.load_bytes = 0;
    return HR_OK;
}

static hr_status apply(hri_stage *s, hr_emit *emit) {
    const options *o = s->options;
    hr_status status = HR_OK;
    bool found = false;
    for (uint32_t i = 0; status == HR_OK && i < emit->input->count; i++) {
        const hri_part *part = &emit->input->parts[i];
        hr_field f = part->field;
        const bool this = strcmp(f.name, o->field) == 0;
        if (this) {
            snprintf(f.name, sizeof f.name, "%s", new_name(o));
            found = true;
        }
        if (this || o->keep) {
            status = hri_emit_share(emit, &f, part->buffer);
        }
    }
    if (status == HR_OK && !found) {
        return hri_emit_fail(emit, HR_E_NOT_FOUND, "the element has no field \"%s\"", o->field);
    }
    return status;
}

const hri_stage_type hri_stage_type_rename = {
    .name = "rename",
    .help = "rename a field, or keep a single one",
    .main = "field",
    .fields = fields,
    .options_bytes = sizeof(options),
    .inputs = 1,
    .open = open,
    .apply = apply,
};
