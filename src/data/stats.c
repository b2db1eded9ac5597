/* What is known of a pipeline, for people and programs: counts, fields, classes, statistics. */
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/grow.h"
#include "data/pipeline.h"

uint64_t hr_pipeline_count(const hr_pipeline *p) {
    return p->built ? p->last->spec.count : HR_COUNT_UNKNOWN;
}
size_t hr_pipeline_field_count(const hr_pipeline *p) {
    return p->built ? p->last->spec.field_count : 0;
}
const hr_field *hr_pipeline_field(const hr_pipeline *p, size_t index) {
    return index < hr_pipeline_field_count(p) ? &p->last->spec.fields[index] : NULL;
}
uint64_t hr_pipeline_fingerprint(const hr_pipeline *p) {
    return p->fingerprint;
}

const char *hr_pipeline_class(const hr_pipeline *p, size_t index) {
    for (uint32_t i = 0; i < p->stage_count; i++) {
        hri_stage *s = p->stages[i];
        const char *name = s->type->class_name ? s->type->class_name(s, index) : NULL;
        if (name) {
            return name;
        }
    }
    return NULL;
}

hr_status hr_pipeline_get_stats(hr_pipeline *p, hr_pipeline_stats *out) {
    const hri_ledger_view v = hri_ledger_look(hri_pool_ledger(p->pool));
    pthread_mutex_lock(&p->mutex);
    const hr_pipeline_stats stats = {.budget_bytes = v.budget,
                                     .held_bytes = v.held,
                                     .peak_bytes = v.peak,
                                     .smallest_bytes = v.guarantees,
                                     .epoch = p->epoch,
                                     .elements = p->handed_elements,
                                     .bad = p->bad_count,
                                     .wait_ns = p->wait_ns,
                                     .stage_count = p->stage_count,
                                     .left_over = p->left_over};
    pthread_mutex_unlock(&p->mutex);
    return hri_give(out, &stats, sizeof stats);
}

hr_status hr_pipeline_get_stage_stats(hr_pipeline *p, size_t index, hr_stage_stats *out) {
    if (index >= p->stage_count) {
        return HR_E_NOT_FOUND;
    }
    hri_stage *s = p->stages[index];
    hr_stage_stats r = {.elements = s->out_elements,
                        .bytes = s->out_bytes,
                        .busy_ns = s->busy_ns,
                        .wait_ns = s->wait_ns,
                        .smallest_bytes = s->smallest_bytes,
                        .parallel = s->folded ? 0 : s->parallel,
                        .depth = s->depth,
                        .shrunk = s->shrunk};
    memcpy(r.name, s->name, sizeof r.name);
    uint64_t refused, held, peak;
    hri_account_look(s->account, &r.held_bytes, &r.peak_bytes, &refused);
    if (s->extra) {
        hri_account_look(s->extra, &held, &peak, &refused);
        r.held_bytes += held;
        r.peak_bytes += peak;
    }
    return hri_give(out, &r, sizeof r);
}

const char *hr_pipeline_note(const hr_pipeline *p, size_t index) {
    return index < p->note_count ? p->notes[index] : NULL;
}

hr_status hr_pipeline_labels(hr_pipeline *p, const char *field, hr_label_range *out) {
    hri_stage *found = NULL;
    for (uint32_t i = 0; i < p->stage_count; i++) {
        hri_stage *s = p->stages[i];
        if (!strcmp(s->type->name, "rename") || !strcmp(s->type->name, "map")) {
            return HR_E_NOT_FOUND; /* the field may be another one, or have other numbers */
        }
        found = s->type->labels && !found ? s : found;
    }
    hr_label_range range = {0};
    const hr_status status = found ? found->type->labels(found, field, &range) : HR_E_NOT_FOUND;
    return status == HR_OK ? hri_give(out, &range, sizeof range) : status;
}

hr_status hr_pipeline_newest(const hr_pipeline *p, char *path, size_t size, int64_t *changed_s) {
    char *here = hri_malloc(size ? size : 1);
    int64_t newest = INT64_MIN;
    if (!here) {
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t i = 0; i < p->stage_count; i++) {
        hri_stage *s = p->stages[i];
        const int64_t time = s->type->newest ? s->type->newest(s, here, size) : INT64_MIN;
        if (time > newest) {
            newest = time;
            snprintf(path, size, "%s", here);
        }
    }
    hri_free(here);
    if (newest == INT64_MIN) {
        return HR_E_NOT_FOUND;
    }
    *changed_s = newest;
    return HR_OK;
}

const char *hr_pipeline_bad(hr_pipeline *p, size_t index) {
    pthread_mutex_lock(&p->mutex);
    const char *text = index < HRI_BAD_KEPT ? p->bad[index] : NULL;
    pthread_mutex_unlock(&p->mutex);
    return text;
}
