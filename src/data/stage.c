/* What all stages have in common: dispatch and counting, specs, and taking elements over. */
#include "data/stage.h"

#include <stdio.h>
#include <string.h>
#include <headroom/bytes.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "data/pipeline.h"
#include "data/workers.h"

void hri_stage_stop(hri_stage *s) {
    if (s->workers) {
        hri_workers_stop(s->workers);
    } else if (s->type->stop) {
        s->type->stop(s);
    }
    for (uint32_t i = 0; i < s->input_count; i++) {
        hri_stage_stop(s->inputs[i]);
    }
}

hr_status hri_stage_start(hri_stage *s, uint64_t epoch) {
    s->epoch = epoch;
    s->place = 0;
    if (s->workers) {
        hri_workers_stop(s->workers);
        return hri_workers_start(s->workers, epoch);
    }
    if (s->type->stop) {
        s->type->stop(s);
    }
    if (s->type->start && !s->random) {
        return s->type->start(s, epoch);
    }
    hr_status status = HR_OK;
    for (uint32_t i = 0; status == HR_OK && i < s->input_count; i++) {
        status = hri_stage_start(s->inputs[i], epoch);
    }
    return status;
}

hr_status hri_stage_at(hri_stage *s, uint64_t i, hri_item *out) {
    const hr_status status = s->type->at(s, i, out);
    s->out_elements += status == HR_OK;
    return status;
}

hr_status hri_stage_next(hri_stage *s, hri_item *out) {
    hr_status status;
    if (s->workers) {
        status = hri_workers_next(s->workers, out);
    } else if (s->folded) {
        status = HR_E_INTERNAL;
    } else if (s->random) {
        if (s->place >= s->spec.count) {
            return HR_E_EOF;
        }
        status = s->type->at(s, s->place++, out);
    } else {
        const uint64_t began = s->type->load ? 0 : hri_clock_ns();
        status = s->type->next(s, out);
        if (began) {
            s->wait_ns += hri_clock_ns() - began;
        }
    }
    if (status == HR_OK) {
        s->out_elements++;
        s->out_bytes += out->element ? hri_element_bytes(out->element) : 0;
    }
    return status;
}

void hri_stage_save(hri_stage *s, hri_state *w) {
    if (s->type->only_speed && s->random) { /* its input would be where it is */
        hri_stage *in = s->inputs[0];
        const uint64_t epoch = in->epoch, place = in->place;
        in->epoch = s->epoch;
        in->place = s->type->to_input ? s->type->to_input(s) : s->place;
        hri_stage_save(in, w);
        in->epoch = epoch;
        in->place = place;
        return;
    }
    hri_state_put(w, s->epoch);
    hri_state_put(w, s->place);
    if (s->workers) {
        hri_workers_save(s->workers, w);
    } else if (s->type->save && !s->random) {
        s->type->save(s, w);
    } else {
        for (uint32_t i = 0; i < s->input_count; i++) {
            hri_stage_save(s->inputs[i], w);
        }
    }
}

hr_status hri_stage_restore(hri_stage *s, hri_state *r) {
    if (s->workers) {
        hri_workers_stop(s->workers);
    } else if (s->type->stop) {
        s->type->stop(s);
    }
    if (s->type->only_speed && s->random) {
        const hr_status status = hri_stage_restore(s->inputs[0], r);
        s->epoch = s->inputs[0]->epoch;
        const uint64_t place = s->inputs[0]->place;
        s->place = s->type->from_input ? s->type->from_input(s, place) : place;
        return status;
    }
    s->epoch = hri_state_get(r);
    s->place = hri_state_get(r);
    if (r->failed) {
        return HR_E_FORMAT;
    }
    if (s->workers) {
        return hri_workers_restore(s->workers, r);
    }
    if (s->type->restore && !s->random) {
        return s->type->restore(s, r);
    }
    hr_status status = HR_OK;
    for (uint32_t i = 0; status == HR_OK && i < s->input_count; i++) {
        status = hri_stage_restore(s->inputs[i], r);
    }
    return status;
}

void hri_stage_fingerprint(hri_stage *s, hri_state *w) {
    for (uint32_t i = 0; i < s->input_count; i++) {
        hri_stage_fingerprint(s->inputs[i], w);
    }
    if (s->type->only_speed && s->random) {
        return;
    }
    hri_state_put_blob(w, s->name, strlen(s->name));
    if (s->type->only_speed) {
        return;
    }
    hri_state_put(w, s->seed);
    for (const hri_field *f = s->type->fields; f && f->name; f++) {
        if (strcmp(f->name, "parallel") != 0) { /* how fast is not what */
            char text[512], *longer = NULL;
            const size_t n = hri_options_print(&s->parsed, f, text, sizeof text);
            if (n >= sizeof text && (longer = hri_malloc(n + 1)) != NULL) {
                (void)hri_options_print(&s->parsed, f, longer, n + 1);
            }
            w->failed = w->failed || (n >= sizeof text && !longer);
            hri_state_put_blob(w, longer ? longer : text, longer || n < sizeof text ? n : 0);
            hri_free(longer);
        }
    }
    if (s->type->fingerprint) {
        s->type->fingerprint(s, w);
    }
}

/* ---- specs ---- */

const hr_field *hri_spec_find(const hri_spec *spec, const char *name) {
    for (uint32_t i = 0; i < spec->field_count; i++) {
        if (strcmp(spec->fields[i].name, name) == 0) {
            return &spec->fields[i];
        }
    }
    return NULL;
}

hr_status hri_spec_put(hri_spec *spec, const char *name, hr_meta meta) {
    uint32_t at = 0;
    while (at < spec->field_count && strcmp(spec->fields[at].name, name) != 0) {
        at++;
    }
    if (at == HR_FIELD_MAX) {
        return HR_E_RANGE;
    }
    spec->field_count += at == spec->field_count;
    spec->fields[at] = (hr_field){.meta = meta};
    snprintf(spec->fields[at].name, sizeof spec->fields[at].name, "%s", name);
    return HR_OK;
}

bool hri_spec_exact(const hri_spec *spec, uint64_t *out_charged) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < spec->field_count; i++) {
        const hr_meta *m = &spec->fields[i].meta;
        uint64_t bytes = hr_type_bytes(m->type);
        for (int d = 0; d < m->shape.rank; d++) {
            if (m->shape.dim[d] < 0) {
                return false;
            }
            bytes = hri_bytes_mul(bytes, (uint64_t)m->shape.dim[d]);
        }
        sum = hri_bytes_add(sum, hri_pool_round(bytes));
    }
    *out_charged = sum;
    return spec->field_count > 0;
}

uint64_t hri_spec_item_bytes(const hri_spec *spec) {
    return spec->item_bytes > spec->load_bytes ? spec->item_bytes : spec->load_bytes;
}

/* ---- memory ---- */

hri_memory hri_stage_memory(hri_stage *s) {
    return (hri_memory){.pool = hri_pipeline_pool(s->pipeline), .account = s->account, .stage = s};
}

hr_status hri_memory_buffer(hri_memory *m, uint64_t bytes, hri_buffer **out) {
    const uint64_t rounded = hri_pool_round(bytes);
    for (;;) {
        const bool oldest = !m->workers || hri_workers_is_oldest(m->workers, m->slot);
        hri_account *account = oldest ? m->account : m->extra;
        hr_status status = hri_buffer_create(m->pool, account, bytes, out);
        if (status == HR_OK) {
            m->mine += oldest ? (*out)->bytes : 0;
            return HR_OK;
        }
        if (status != HR_E_LIMIT) {
            return status;
        }
        if (!oldest) {
            return HR_E_AGAIN;
        }
        if (m->stage && m->stage->stopping) {
            return HR_E_CANCELLED;
        }
        if (rounded > hri_ledger_room(account, false)) {
            return HR_E_RANGE; /* too large for this budget, whatever anybody gives back */
        }
        if (m->workers) {
            hri_workers_drop_results(m->workers);
        }
        status = hri_ledger_wait(account, rounded, m->mine, 20);
        if (status != HR_OK) {
            return status;
        }
    }
}

hr_status hri_stage_claim(hri_stage *s, uint64_t bytes) {
    while (!hri_ledger_try(s->account, bytes)) {
        if (s->stopping) {
            return HR_E_CANCELLED;
        }
        const hr_status status = hri_ledger_wait(s->account, bytes, 0, 20);
        if (status != HR_OK) {
            return hri_stage_no_room(s, bytes);
        }
    }
    return HR_OK;
}

hr_status hri_stage_no_room(hri_stage *s, uint64_t bytes) {
    char b1[32], b2[32];
    return hri_pipeline_fail(
        s->pipeline, HR_E_LIMIT,
        "%s: elements held by the caller leave %s of the budget, but one more needs %s", s->name,
        hr_bytes_print(hri_ledger_room(s->account, true), b1, sizeof b1),
        hr_bytes_print(bytes, b2, sizeof b2));
}

hr_status hri_stage_take(hri_stage *s, hri_item *item, hr_element **out) {
    if (item->element) {
        *out = item->element;
        item->element = NULL;
        return HR_OK;
    }
    hri_memory memory = hri_stage_memory(s);
    char reason[256] = "";
    const hr_status status = hri_item_load(item, &memory, out, reason, sizeof reason);
    return status == HR_OK ? HR_OK : hri_pipeline_bad_item(s->pipeline, status, s, item, reason);
}
