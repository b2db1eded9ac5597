/* map  a function of the user's, from one element to another (hr_pipeline_map), run by the workers.  The ready-made
 * ones (decode, resize, normalise ...) are stages of their own. */
#include <stdio.h>
#include <string.h>
#include "data/apply.h"
#include "base/grow.h"
#include "data/pipeline.h"

static const hri_field fields[] = {HRI_APPLY_FIELDS, {0}};

typedef struct own {
    hr_map_fn *fn;
    void *user;
    uint64_t output_bytes;
    hri_spec declared;
} own;

static hr_status open(hri_stage *s, hri_prose *why) {
    const own *w = s->own;
    if (!w->fn) {
        return hri_prose_set(
            why, HR_E_INVALID,
            "needs a function (hr_pipeline_map); in a pipeline string use the built-in stages");
    }
    const uint64_t count = s->spec.count;
    s->spec = w->declared;
    s->spec.count = count;
    s->spec.load_bytes = 0;
    s->spec.item_bytes = w->output_bytes;
    return HR_OK;
}

static hr_status apply(hri_stage *s, hr_emit *emit) {
    const own *w = s->own;
    return w->fn(w->user, emit->input, emit);
}

const hri_stage_type hri_stage_type_map = {
    .name = "map",
    .help = "custom function (C API only)",
    .fields = fields,
    .options_bytes = sizeof(hri_apply_options),
    .own_bytes = sizeof(own),
    .inputs = 1,
    .open = open,
    .apply = apply,
};

hr_status hr_pipeline_map(hr_pipeline *p, hr_map_fn *fn, void *user,
                          const hr_map_options *options) {
    hr_map_options own_options = {.size = sizeof own_options};
    const hr_map_options *o = &own_options;
    hr_status status = options ? hri_take(&own_options, sizeof own_options, options) : HR_OK;
    if (status == HR_OK && (!fn || o->output_count > HR_FIELD_MAX)) {
        status = HR_E_INVALID;
    }
    if (status != HR_OK) {
        return hri_pipeline_fail(p, status, "map: missing function or invalid options");
    }
    hri_stage *s;
    status = hri_pipeline_chain(p, &hri_stage_type_map, o->name, &s);
    if (status != HR_OK) {
        return status;
    }
    own *w = s->own;
    w->fn = fn;
    w->user = user;
    for (size_t i = 0; status == HR_OK && i < o->output_count; i++) {
        status = hri_spec_put(&w->declared, o->names[i], o->outputs[i]);
    }
    uint64_t exact = 1 << 20;
    hri_spec_exact(&w->declared, &exact);
    w->output_bytes =
        o->output_bytes ? hri_bytes_add(hri_pool_round(o->output_bytes), 4096) : exact;
    hri_apply_options *a = s->options;
    a->parallel = o->parallel;
    a->ordered = !o->unordered;
    return status;
}
