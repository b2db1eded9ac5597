/* Building a pipeline: from a list of stages to a promise.
 *
 * Building goes through the stages from the source on: each opens, and says what its elements are and what it needs
 * at least.  Runs of apply stages are folded into one set of workers.  Then the smallest working sets are added up,
 * with one element for the user's hands; when the sum is over the budget the pipeline is refused with the whole sum
 * in the error, else each becomes the guarantee of its account (ledger.h). */
#include <stdio.h>
#include <string.h>
#include <headroom/bytes.h>
#include "base/alloc.h"
#include "base/hash.h"
#include "data/apply.h"
#include "data/pipeline.h"
#include "data/workers.h"

/* A stage without a seed of its own gets one from the pipeline's, its name and how many of that name come before:
 * so a stage of another kind put in between changes nothing. */
static uint64_t seed_of(const hr_pipeline *p, const hri_stage *s) {
    const hri_field *field = hri_options_field(&s->parsed, "seed");
    if (field && hri_options_origin(&s->parsed, field) != HRI_ORIGIN_DEFAULT) {
        int64_t seed;
        memcpy(&seed, (const char *)s->options + field->offset, sizeof seed);
        return hri_hash_u64((uint64_t)seed);
    }
    uint64_t before = 0;
    for (uint32_t i = 0; i < p->stage_count; i++) {
        before += p->stages[i]->type == s->type;
    }
    hri_hasher h;
    hri_hasher_init(&h, 0);
    hri_hasher_add_u64(&h, p->options.seed);
    hri_hasher_add_string(&h, s->type->name);
    hri_hasher_add_u64(&h, before);
    return hri_hasher_get(&h).lo;
}

static hr_status make_room(hr_pipeline *p) {
    if (p->stage_count < p->stage_capacity) {
        return HR_OK;
    }
    const uint32_t capacity = p->stage_capacity ? 2 * p->stage_capacity : 16;
    hri_stage **grown = hri_realloc(p->stages, capacity * sizeof *grown);
    if (!grown) {
        return HR_E_NOMEM_HOST;
    }
    p->stages = grown;
    p->stage_capacity = capacity;
    return HR_OK;
}

hr_status hri_pipeline_append(hr_pipeline *p, const hri_stage_type *type, const char *text,
                              hri_stage *const *inputs, uint32_t input_count, hri_stage **out) {
    static const hri_field no_fields[] = {{0}};
    hr_status status = make_room(p);
    hri_stage *s = status == HR_OK ? hri_calloc(1, sizeof *s) : NULL;
    if (!s) {
        return HR_E_NOMEM_HOST;
    }
    s->type = type;
    s->pipeline = p;
    s->position = p->stage_count;
    snprintf(s->name, sizeof s->name, "%s", type->name);
    s->options = hri_calloc(1, type->options_bytes ? type->options_bytes : 1);
    s->own = hri_calloc(1, type->own_bytes ? type->own_bytes : 1);
    s->inputs = hri_calloc(input_count ? input_count : 1, sizeof(hri_stage *));
    hri_prose why = {{0}};
    status = s->options && s->own && s->inputs ? HR_OK : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        for (uint32_t i = 0; i < input_count; i++) {
            s->inputs[i] = inputs[i];
        }
        s->input_count = input_count;
        status =
            hri_options_init(&s->parsed, type->fields ? type->fields : no_fields, s->options, &why);
    }
    if (status == HR_OK && text) {
        status = hri_options_set_text(&s->parsed, text, &why);
    }
    if (status == HR_OK) {
        s->seed = seed_of(p, s);
        status = hri_ledger_open(hri_pool_ledger(p->pool), s->name, s->position, &s->account);
    }
    if (status == HR_OK && type->apply) {
        status = hri_ledger_open(hri_pool_ledger(p->pool), s->name, s->position, &s->extra);
    }
    if (status != HR_OK) {
        hri_options_deinit(&s->parsed);
        hri_free(s->options);
        hri_free(s->own);
        hri_free(s->inputs);
        hri_free(s);
        return why.text[0] ? hri_pipeline_fail(p, status == HR_E_NOT_FOUND ? HR_E_INVALID : status,
                                               "%s: %s", type->name, why.text)
                           : status;
    }
    p->stages[p->stage_count++] = s;
    *out = s;
    return HR_OK;
}

hr_status hri_pipeline_chain(hr_pipeline *p, const hri_stage_type *type, const char *name,
                             hri_stage **out) {
    if (p->built) {
        return hri_pipeline_fail(p, HR_E_BUSY,
                                 "the pipeline is already built; no more stages can be added");
    }
    if ((type->inputs == 0) != (p->last == NULL)) {
        return hri_pipeline_fail(p, HR_E_INVALID,
                                 p->last ? "%s is a source and must come first"
                                         : "%s is not a source; a source must come before it",
                                 type->name);
    }
    hri_stage *s;
    const hr_status status = hri_pipeline_append(p, type, NULL, &p->last, p->last != NULL, &s);
    if (status == HR_OK) {
        if (name) {
            snprintf(s->name, sizeof s->name, "%s", name);
        }
        p->last = s;
        *out = s;
    }
    return status;
}

/* Opens a stage: its spec starts as its first input's. */
static hr_status open_stage(hr_pipeline *p, hri_stage *s) {
    hri_prose why = {{0}};
    if (s->input_count > 0) {
        s->spec = s->inputs[0]->spec;
    } else {
        s->spec.count = HR_COUNT_UNKNOWN;
    }
    s->random = s->type->at && (s->input_count == 0 || s->inputs[0]->random);
    const hr_status status = s->type->open ? s->type->open(s, &why) : HR_OK;
    if (status != HR_OK) {
        return hri_pipeline_fail(p, status, "%s: %s", s->name,
                                 why.text[0] ? why.text : hr_status_text(status));
    }
    return HR_OK;
}

/* The most that one element takes on its way through a run of apply stages. */
static uint64_t run_bytes(hri_stage *const *chain, uint32_t count) {
    const hri_spec *in = &chain[0]->inputs[0]->spec;
    uint64_t most = hri_spec_item_bytes(in), before = in->item_bytes;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t here = hri_bytes_add(
            before, hri_bytes_add(chain[i]->scratch_bytes, chain[i]->spec.item_bytes));
        most = here > most ? here : most;
        before = chain[i]->spec.item_bytes;
    }
    return most;
}

static bool is_ordered(const hri_stage *s) {
    return ((const hri_apply_options *)s->options)->ordered;
}

/* Gives the last of each run of apply stages its workers' numbers; the others are folded into it. */
static hr_status fold(hri_stage *s, hri_stage **chain, uint32_t *count) {
    *count = 0;
    for (hri_stage *at = s; at->type->apply && is_ordered(at) == is_ordered(s);
         at = at->inputs[0]) {
        if (*count == 32) {
            break;
        }
        memmove(chain + 1, chain, *count * sizeof *chain);
        chain[0] = at;
        ++*count;
    }
    int64_t parallel = 0;
    for (uint32_t i = 0; i < *count; i++) {
        const hri_apply_options *o = chain[i]->options;
        parallel = o->parallel > parallel ? o->parallel : parallel;
        chain[i]->folded = i + 1 < *count;
    }
    const uint32_t most = s->pipeline->options.workers;
    s->fixed_parallel = parallel > 0;
    s->parallel_max = parallel > 0 && parallel < most ? (uint32_t)parallel : most;
    s->parallel = s->parallel_max;
    s->smallest_bytes = run_bytes(chain, *count);
    return HR_OK;
}

static hr_status refuse(hr_pipeline *p, uint64_t sum, uint64_t user) {
    char list[700], b1[32], b2[32], b3[32];
    size_t used = 0;
    const char *worst = "the element held by the caller";
    uint64_t worst_bytes = user;
    bool worst_stage = false;
    for (uint32_t i = 0; i < p->stage_count; i++) {
        const hri_stage *s = p->stages[i];
        if (s->smallest_bytes >= worst_bytes) {
            /* a stage rather than the user, and of equals the one that makes them */
            worst = worst_stage && s->smallest_bytes == worst_bytes ? worst : s->name;
            worst_bytes = s->smallest_bytes;
            worst_stage = true;
        }
        if (s->smallest_bytes && used < sizeof list - 1) {
            used += (size_t)snprintf(list + used, sizeof list - used, "%s %s + ", s->name,
                                     hr_bytes_print(s->smallest_bytes, b1, sizeof b1));
        }
    }
    if (used < sizeof list - 1) {
        snprintf(list + used, sizeof list - used, "the element held by the caller %s",
                 hr_bytes_print(user, b1, sizeof b1));
    }
    hri_pipeline_fail(p, HR_E_LIMIT,
                      "the pipeline does not fit: %s needs at least %s, all stages together %s, "
                      "but the budget is %s (%s)",
                      worst, hr_bytes_print(worst_bytes, b1, sizeof b1),
                      hr_bytes_print(sum, b2, sizeof b2),
                      hr_bytes_print(p->options.budget_bytes, b3, sizeof b3), list);
    pthread_mutex_lock(&p->mutex);
    p->error.wanted_bytes = sum;
    p->error.limit_bytes = p->options.budget_bytes;
    snprintf(p->error.holders[0].owner, sizeof p->error.holders[0].owner, "%s", worst);
    p->error.holders[0].bytes = worst_bytes;
    p->error.holder_count = 1;
    pthread_mutex_unlock(&p->mutex);
    return HR_E_LIMIT;
}

static hr_status promise(hr_pipeline *p) {
    const uint64_t user = hri_spec_item_bytes(&p->last->spec);
    uint64_t sum = user;
    for (uint32_t i = 0; i < p->stage_count; i++) {
        hri_stage *s = p->stages[i];
        if (s->smallest_bytes < s->account->held) {
            s->smallest_bytes = s->account->held;
        }
        sum = hri_bytes_add(sum, s->smallest_bytes);
    }
    if (sum > p->options.budget_bytes) {
        return refuse(p, sum, user);
    }
    hr_status status = hri_ledger_guarantee(p->user, user);
    for (uint32_t i = 0; status == HR_OK && i < p->stage_count; i++) {
        status = hri_ledger_guarantee(p->stages[i]->account, p->stages[i]->smallest_bytes);
    }
    if (status == HR_OK) {
        hri_pool_settle(p->pool);
    }
    return status == HR_OK ? HR_OK : refuse(p, sum, user);
}

static hr_status make_fingerprint(hr_pipeline *p) {
    hri_state w = {0};
    hri_stage_fingerprint(p->last, &w);
    const hr_status status = hri_state_status(&w);
    if (status == HR_OK) {
        p->fingerprint = w.count ? hri_hash_bytes(w.data, w.count, 0) : 0;
    }
    hri_state_deinit(&w);
    return status;
}

hr_status hr_pipeline_build(hr_pipeline *p) {
    if (p->built) {
        return hri_pipeline_fail(p, HR_E_BUSY, "the pipeline is already built");
    }
    if (!p->last) {
        return hri_pipeline_fail(p, HR_E_INVALID, "the pipeline has no source");
    }
    hr_status status = HR_OK;
    for (uint32_t i = 0; status == HR_OK && i < p->stage_count; i++) {
        status = open_stage(p, p->stages[i]);
    }
    hri_stage *chain[32];
    uint32_t count;
    for (uint32_t i = p->stage_count; status == HR_OK && i-- > 0;) {
        if (p->stages[i]->type->apply && !p->stages[i]->folded) {
            status = fold(p->stages[i], chain, &count);
        }
    }
    if (status == HR_OK) {
        status = promise(p);
    }
    for (uint32_t i = 0; status == HR_OK && i < p->stage_count; i++) {
        hri_stage *s = p->stages[i];
        if (s->type->apply && !s->folded) {
            status = fold(s, chain, &count);
            if (status == HR_OK) {
                status = hri_workers_create(chain, count, is_ordered(s), &s->workers);
            }
        }
    }
    p->tuned = status == HR_OK ? hri_calloc(3 * p->stage_count, sizeof *p->tuned) : NULL;
    if (status == HR_OK && !p->tuned) {
        status = HR_E_NOMEM_HOST;
    }
    if (status == HR_OK) {
        status = make_fingerprint(p);
    }
    if (status == HR_OK) {
        p->built = true;
        status = hri_stage_start(p->last, 0);
        p->built = status == HR_OK;
    }
    return status;
}

hr_status hr_pipeline_open(const hr_pipeline_options *options, const char *text, hr_error *error,
                           hr_pipeline **out) {
    return hri_pipeline_open_with(options, text, NULL, error, out);
}

const hri_tabular *hri_pipeline_table(const hr_pipeline *p) {
    return p->table;
}

hri_tabular *hri_pipeline_take_table(hr_pipeline *p) {
    for (uint32_t i = 0; i < p->stage_count; i++) {
        hri_stage *s = p->stages[i];
        hri_tabular *t = s->type->take_table ? s->type->take_table(s) : NULL;
        if (t) {
            return t;
        }
    }
    return NULL;
}

hr_status hri_pipeline_open_with(const hr_pipeline_options *options, const char *text,
                                 const hri_tabular *table, hr_error *error, hr_pipeline **out) {
    hr_pipeline *p = NULL;
    hr_status status = hr_pipeline_create(options, &p);
    if (status == HR_OK) {
        p->table = table;
        status = hr_pipeline_add(p, text);
    }
    if (status == HR_OK) {
        status = hr_pipeline_build(p);
    }
    if (status == HR_OK) {
        *out = p;
        return HR_OK;
    }
    if (error && p) {
        hr_pipeline_error(p, error);
    }
    if (error && (!p || error->code == HR_OK)) {
        *error = (hr_error){.code = status};
        snprintf(error->message, sizeof error->message, "%s", hr_status_text(status));
    }
    hr_pipeline_destroy(p);
    return status;
}
