/* Pipelines: building, running, saving.
 *
 * Building goes through the stages from the source on: each opens, and says what its elements are and what it needs
 * at least.  Runs of apply stages are folded into one set of workers.  Then the smallest working sets are added up,
 * with one element for the user's hands; when the sum is over the budget the pipeline is refused with the whole sum
 * in the error, else each becomes the guarantee of its account (ledger.h).
 *
 * The textual form is in text.c, the tuner in tune.c, what stages have in common in stage.c. */
#include "data/pipeline.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <headroom/bytes.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/cores.h"
#include "data/apply.h"
#include "data/budget.h"
#include "data/workers.h"

#define STATE_MAGIC 0x3165746174735248u /* "HRstate1" */

/* ---- errors and words ---- */

static void keep_error(hr_pipeline *p, hr_status status, const char *text) {
    pthread_mutex_lock(&p->mutex);
    p->error = (hr_error){.code = status, .device_free_bytes = UINT64_MAX};
    snprintf(p->error.message, sizeof p->error.message, "%s", text);
    pthread_mutex_unlock(&p->mutex);
    hri_log_write(&p->log, HR_LOG_ERROR, "%s", text);
}

hr_status hri_pipeline_fail(hr_pipeline *p, hr_status status, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    keep_error(p, status, text);
    return status;
}

void hr_pipeline_error(hr_pipeline *p, hr_error *out) {
    pthread_mutex_lock(&p->mutex);
    *out = p->error;
    pthread_mutex_unlock(&p->mutex);
}

void hri_pipeline_log(hr_pipeline *p, hr_log_level level, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    hri_log_write(&p->log, level, "%s", text);
}

void hri_pipeline_progress(hr_pipeline *p, const hri_stage *s, uint64_t done, uint64_t total) {
    if (p->options.progress) {
        pthread_mutex_lock(&p->mutex);
        p->options.progress(p->options.progress_user, s->name, done, total);
        pthread_mutex_unlock(&p->mutex);
    }
}

void hri_pipeline_shrunk(hri_stage *s, const char *what, uint32_t from, uint32_t to) {
    hr_pipeline *p = s->pipeline;
    s->shrunk++;
    pthread_mutex_lock(&p->mutex);
    const bool first = !s->told_shrunk;
    s->told_shrunk = true;
    pthread_mutex_unlock(&p->mutex);
    if (first) {
        char b[32];
        hri_log_write(&p->log, HR_LOG_WARN,
                      "%s: %u %s instead of %u, because the budget of %s is in use", s->name, to,
                      what, from, hr_bytes_print(hri_pool_ledger(p->pool)->budget, b, sizeof b));
    }
}

static bool is_elements_own(hr_status status) {
    return status == HR_E_FORMAT || status == HR_E_IO || status == HR_E_RANGE ||
           status == HR_E_SHAPE || status == HR_E_NOT_FOUND || status == HR_E_UNSUPPORTED ||
           status == HR_E_INVALID;
}

hr_status hri_pipeline_bad_item(hr_pipeline *p, hr_status status, const hri_stage *s,
                                const hri_item *item, const char *reason) {
    if (status == HR_E_CANCELLED || status == HR_E_EOF) {
        return status;
    }
    char name[512], text[900], b1[32], b2[32];
    hri_item_name(item, name, sizeof name);
    if (reason[0] == 0 && (status == HR_E_RANGE || status == HR_E_LIMIT)) {
        snprintf(text, sizeof text,
                 "%s: %s: it needs more than the %s of the budget of %s that can be had%s", name,
                 s->name,
                 hr_bytes_print(hri_ledger_room(s->account, status == HR_E_LIMIT), b1, sizeof b1),
                 hr_bytes_print(s->account->ledger->budget, b2, sizeof b2),
                 status == HR_E_LIMIT ? " beside the elements that were not given back" : "");
    } else {
        snprintf(text, sizeof text, "%s: %s: %s", name, s->name,
                 reason[0] ? reason : hr_status_text(status));
    }
    if (!p->options.skip_bad || !is_elements_own(status)) {
        keep_error(p, status, text);
        return status;
    }
    char *copy = hri_strdup(text);
    pthread_mutex_lock(&p->mutex);
    if (copy && p->bad_count < HRI_BAD_KEPT) {
        p->bad[p->bad_count] = copy;
        copy = NULL;
    }
    p->bad_count++;
    pthread_mutex_unlock(&p->mutex);
    hri_free(copy);
    hri_log_write(&p->log, HR_LOG_WARN, "left out: %s", text);
    return HR_E_AGAIN;
}

/* ---- building ---- */

hri_pool *hri_pipeline_pool(hr_pipeline *p) {
    return p->pool;
}
uint64_t hri_pipeline_seed(const hr_pipeline *p) {
    return p->options.seed;
}
uint32_t hri_pipeline_workers(const hr_pipeline *p) {
    return p->options.workers;
}
uint64_t hri_pipeline_budget(const hr_pipeline *p) {
    return p->options.budget_bytes;
}

hr_status hr_pipeline_create(const hr_pipeline_options *options, hr_pipeline **out) {
    if (options && options->size != sizeof *options) {
        return HR_E_INVALID;
    }
    hr_pipeline *p = hri_calloc(1, sizeof *p);
    if (!p) {
        return HR_E_NOMEM_HOST;
    }
    if (options) {
        p->options = *options;
    }
    if (p->options.budget_bytes == 0) {
        p->options.budget_bytes = hri_budget_available("") / 2;
    }
    if (p->options.workers == 0) {
        p->options.workers = hri_cores_usable();
    }
    hr_status status = hri_pool_create(p->options.budget_bytes, &p->pool);
    if (status == HR_OK) {
        status = hri_ledger_open(hri_pool_ledger(p->pool), "the element in your hands", UINT32_MAX,
                                 &p->user);
    }
    if (status != HR_OK) {
        hri_pool_unref(p->pool);
        hri_free(p);
        return status;
    }
    hri_log_init(&p->log, p->options.log, p->options.log_user, p->options.log_level);
    pthread_mutex_init(&p->mutex, NULL);
    *out = p;
    return HR_OK;
}

static void destroy_stage(hri_stage *s) {
    hri_workers_destroy(s->workers);
    if (s->type->close) {
        s->type->close(s);
    }
    hri_options_deinit(&s->parsed);
    hri_free(s->options);
    hri_free(s->own);
    hri_free(s->inputs);
    hri_free(s);
}

void hri_pipeline_cut(hr_pipeline *p, uint32_t count) {
    while (p->stage_count > count) {
        destroy_stage(p->stages[--p->stage_count]);
    }
}

/* Every thread stands still and every buffer is empty afterwards. */
static void stop_all(hr_pipeline *p) {
    if (!p->built) {
        return;
    }
    for (uint32_t i = 0; i < p->stage_count; i++) {
        p->stages[i]->stopping = true;
    }
    hri_ledger_wake(hri_pool_ledger(p->pool));
    for (uint32_t i = 0; i < p->stage_count; i++) {
        if (p->stages[i]->workers) {
            hri_workers_retune(p->stages[i]->workers);
        }
    }
    hri_stage_stop(p->last);
    for (uint32_t i = 0; i < p->stage_count; i++) {
        p->stages[i]->stopping = false;
    }
}

void hr_pipeline_destroy(hr_pipeline *p) {
    if (!p) {
        return;
    }
    stop_all(p);
    for (uint32_t i = p->stage_count; i-- > 0;) {
        destroy_stage(p->stages[i]);
    }
    for (size_t i = 0; i < HRI_BAD_KEPT; i++) {
        hri_free(p->bad[i]);
    }
    hri_free(p->stages);
    hri_free(p->tuned);
    hri_log_deinit(&p->log);
    pthread_mutex_destroy(&p->mutex);
    hri_pool_unref(p->pool);
    hri_free(p);
}

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
                                 "the pipeline is built; stages can no longer be added");
    }
    if ((type->inputs == 0) != (p->last == NULL)) {
        return hri_pipeline_fail(p, HR_E_INVALID,
                                 p->last ? "%s is a source: it can only come first"
                                         : "%s is no source: something must come before it",
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
    const char *worst = "the element in your hands";
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
        snprintf(list + used, sizeof list - used, "the element in your hands %s",
                 hr_bytes_print(user, b1, sizeof b1));
    }
    hri_pipeline_fail(p, HR_E_LIMIT,
                      "the pipeline does not fit: %s needs %s at least, all together %s, and the "
                      "budget is %s (%s)",
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
        return hri_pipeline_fail(p, HR_E_BUSY, "the pipeline is built already");
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
    hr_pipeline *p = NULL;
    hr_status status = hr_pipeline_create(options, &p);
    if (status == HR_OK) {
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

/* ---- running ---- */

static hr_status not_built(hr_pipeline *p) {
    return hri_pipeline_fail(p, HR_E_INVALID, "the pipeline is not built yet");
}

/* The next element, charged to the user's account as far as that has room. */
static hr_status take_next(hr_pipeline *p, hr_element **out) {
    const uint64_t claim = p->last->spec.load_bytes ? 0 : p->last->spec.item_bytes;
    for (;;) {
        const uint64_t claimed = claim && hri_ledger_try(p->user, claim) ? claim : 0;
        hri_item item = {0};
        hr_status status = hri_stage_next(p->last, &item);
        hr_element *e = NULL;
        if (status == HR_OK && item.element) {
            e = item.element;
            hri_element_charge_to(e, p->user, claimed);
            hri_element_hand(e, p->user);
            *out = e;
            return HR_OK;
        }
        if (claimed) {
            hri_ledger_release(p->user, claimed);
        }
        if (status == HR_OK) {
            char reason[256] = "";
            hri_memory memory = {.pool = p->pool, .account = p->user};
            status = hri_item_load(&item, &memory, out, reason, sizeof reason);
            if (status == HR_OK) {
                return HR_OK;
            }
            hri_stage as_user = {.account = p->user};
            snprintf(as_user.name, sizeof as_user.name, "%s", p->last->name);
            status = hri_pipeline_bad_item(p, status, &as_user, &item, reason);
        }
        if (status != HR_E_AGAIN) {
            return status;
        }
    }
}

hr_status hr_pipeline_next(hr_pipeline *p, hr_element **out) {
    if (!p->built) {
        return not_built(p);
    }
    const uint64_t began = hri_clock_ns();
    hri_ledger_set_user_waiting(hri_pool_ledger(p->pool), true);
    hr_status status = take_next(p, out);
    hri_ledger_set_user_waiting(hri_pool_ledger(p->pool), false);
    const uint64_t now = hri_clock_ns();
    p->wait_ns += now - began;
    p->handed_elements += status == HR_OK;
    hri_pipeline_tune(p, now);
    return status;
}

hr_status hr_pipeline_seek(hr_pipeline *p, uint64_t epoch) {
    if (!p->built) {
        return not_built(p);
    }
    stop_all(p);
    const hr_status status = hri_stage_start(p->last, epoch);
    if (status == HR_OK) {
        p->epoch = epoch;
    }
    return status;
}

hr_status hr_pipeline_rewind(hr_pipeline *p) {
    return hr_pipeline_seek(p, p->epoch + 1);
}

hr_status hr_pipeline_save(hr_pipeline *p, void **out, size_t *out_bytes) {
    if (!p->built) {
        return not_built(p);
    }
    hri_state w = {0};
    hri_state_put(&w, STATE_MAGIC);
    hri_state_put(&w, p->fingerprint);
    hri_state_put(&w, p->epoch);
    hri_stage_save(p->last, &w);
    hri_state_put(&w, w.count ? hri_hash_bytes(w.data, w.count, 1) : 0);
    const hr_status status = hri_state_status(&w);
    if (status != HR_OK) {
        hri_state_deinit(&w);
        return hri_pipeline_fail(p, status, "no memory for the state");
    }
    *out = w.data;
    *out_bytes = w.count;
    return HR_OK;
}

void hr_pipeline_state_free(void *state) {
    hri_free(state);
}

hr_status hr_pipeline_restore(hr_pipeline *p, const void *state, size_t bytes) {
    if (!p->built) {
        return not_built(p);
    }
    hri_state r = hri_state_reader(state, bytes < 8 ? 0 : bytes - 8);
    hri_state sum = hri_state_reader((const char *)state + r.count, bytes < 8 ? 0 : 8);
    if (hri_state_get(&r) != STATE_MAGIC || r.failed ||
        hri_state_get(&sum) != hri_hash_bytes(state, r.count, 1)) {
        return hri_pipeline_fail(p, HR_E_FORMAT, "the state is damaged");
    }
    if (hri_state_get(&r) != p->fingerprint) {
        return hri_pipeline_fail(
            p, HR_E_INVALID, "the state was saved by another pipeline, or its files have changed");
    }
    const uint64_t epoch = hri_state_get(&r);
    stop_all(p);
    hr_status status = hri_stage_restore(p->last, &r);
    if (status == HR_OK && r.at != r.count) {
        status = HR_E_FORMAT;
    }
    if (status == HR_OK) {
        p->epoch = epoch;
        return HR_OK;
    }
    stop_all(p);
    if (hri_stage_start(p->last, p->epoch) != HR_OK) {
        return hri_pipeline_fail(p, status,
                                 "the state cannot be restored, nor the epoch begun anew");
    }
    return hri_pipeline_fail(p, status, "the state cannot be restored; the epoch begins anew");
}

/* ---- what is known ---- */

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

void hr_pipeline_get_stats(hr_pipeline *p, hr_pipeline_stats *out) {
    const hri_ledger_view v = hri_ledger_look(hri_pool_ledger(p->pool));
    pthread_mutex_lock(&p->mutex);
    *out = (hr_pipeline_stats){.budget_bytes = v.budget,
                               .held_bytes = v.held,
                               .peak_bytes = v.peak,
                               .smallest_bytes = v.guarantees,
                               .epoch = p->epoch,
                               .elements = p->handed_elements,
                               .bad = p->bad_count,
                               .wait_ns = p->wait_ns,
                               .stage_count = p->stage_count};
    pthread_mutex_unlock(&p->mutex);
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
    *out = r;
    return HR_OK;
}

const char *hr_pipeline_bad(hr_pipeline *p, size_t index) {
    pthread_mutex_lock(&p->mutex);
    const char *text = index < HRI_BAD_KEPT ? p->bad[index] : NULL;
    pthread_mutex_unlock(&p->mutex);
    return text;
}
