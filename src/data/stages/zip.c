/* zip({A},{B},...)  one element of each input side by side, as one element with the fields of all.  It ends with the
 * shortest.  Fields keep their names; the same name twice is refused when the pipeline is built, or at the element
 * when fields were not known before. */
#include "data/stage.h"

static hr_status open(hri_stage *s, hri_prose *why) {
    const uint64_t first = s->spec.item_bytes;
    s->smallest_bytes = s->inputs[0]->spec.load_bytes;
    s->spec.item_bytes = first;
    s->spec.load_bytes = 0;
    for (uint32_t i = 1; i < s->input_count; i++) {
        const hri_spec *in = &s->inputs[i]->spec;
        for (uint32_t k = 0; k < in->field_count; k++) {
            if (hri_spec_find(&s->spec, in->fields[k].name)) {
                return hri_prose_set(why, HR_E_EXISTS, "two inputs have a field named \"%s\"",
                                     in->fields[k].name);
            }
            const hr_status status = hri_spec_put(&s->spec, in->fields[k].name, in->fields[k].meta);
            if (status != HR_OK) {
                return status;
            }
        }
        if (in->field_count == 0) {
            s->spec.field_count = 0;
        }
        s->spec.count = in->count < s->spec.count ? in->count : s->spec.count;
        s->spec.item_bytes = hri_bytes_add(s->spec.item_bytes, in->item_bytes);
        s->smallest_bytes = hri_bytes_add(s->smallest_bytes, in->load_bytes);
    }
    return HR_OK;
}

static hr_status pull(hri_stage *s, hri_stage *input, hri_item *item, hr_element **out) {
    for (;;) {
        *item = (hri_item){0};
        hr_status status = hri_stage_next(input, item);
        if (status == HR_OK) {
            status = hri_stage_take(s, item, out);
        }
        if (status != HR_E_AGAIN) {
            return status;
        }
    }
}

static hr_status next(hri_stage *s, hri_item *out) {
    hri_memory memory = hri_stage_memory(s);
    hr_emit emit;
    hr_status status = hri_emit_init(&emit, &memory, NULL, s->seed, s->epoch, s->place);
    for (uint32_t i = 0; status == HR_OK && i < s->input_count; i++) {
        hri_item item;
        hr_element *e;
        status = pull(s, s->inputs[i], &item, &e);
        if (status != HR_OK) {
            break;
        }
        emit.input = e;
        status = HR_OK;
        for (uint32_t k = 0; status == HR_OK && k < e->count; k++) {
            status = hr_emit_keep(&emit, e->parts[k].field.name);
        }
        hr_element_unref(e);
        if (status != HR_OK) {
            status = hri_pipeline_bad_item(s->pipeline, status, s, &item, emit.reason);
            status = status == HR_E_AGAIN ? HR_E_EXISTS : status;
        }
    }
    if (status == HR_OK) {
        *out = (hri_item){.element = hri_emit_take(&emit), .epoch = s->epoch, .index = s->place++};
    }
    hri_emit_deinit(&emit);
    return status;
}

const hri_stage_type hri_stage_type_zip = {
    .name = "zip",
    .help = "join elements of several pipelines into one",
    .inputs = UINT32_MAX,
    .open = open,
    .next = next,
};
