/* load  elements as they are, read or made by several threads.  A source with random access does its work where an element
 * is first needed; without a stage that several threads run, that is one thread.  This stage is such a one, and does
 * nothing else. */
#include "data/apply.h"
#include "data/pipeline.h"

static const hri_field fields[] = {HRI_APPLY_FIELDS, {0}};

static hr_status open(hri_stage *s, hri_prose *why) {
    (void)why;
    s->spec.load_bytes = 0; /* what it hands on is loaded */
    return HR_OK;
}

static hr_status apply(hri_stage *s, hr_emit *emit) {
    (void)s;
    return hr_emit_keep(emit, NULL);
}

const hri_stage_type hri_stage_type_load = {
    .name = "load",
    .help = "read elements with several threads",
    .fields = fields,
    .options_bytes = sizeof(hri_apply_options),
    .inputs = 1,
    .open = open,
    .apply = apply,
};
