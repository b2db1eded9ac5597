/* Pipelines: making, running, saving, ending, and what goes wrong on the way.  Building is in build.c, the textual form
 * in text.c, the tuner in tune.c, what stages have in common in stage.c, numbers for people in stats.c. */
#include "data/pipeline.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <headroom/budget.h>
#include <headroom/bytes.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "base/cores.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/number.h"
#include "data/workers.h"
#include "memory/left.h"

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
    hri_vsnprintf(text, sizeof text, format, args);
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
    hri_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    hri_log_write(&p->log, level, "%s", text);
}

void hri_pipeline_note(hr_pipeline *p, const char *format, ...) {
    hri_prose note;
    va_list args;
    va_start(args, format);
    hri_prose_set_args(&note, format, args);
    va_end(args);
    hri_log_write(&p->log, HR_LOG_WARN, "%s", note.text);
    if (p->note_count < HRI_NOTES_KEPT) {
        p->notes[p->note_count] = hri_strdup(note.text);
        p->note_count += p->notes[p->note_count] != NULL;
    }
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
        hri_log_write(
            &p->log, HR_LOG_WARN, "%s: %u %s instead of %u, because the budget of %s is used up",
            s->name, to, what, from,
            hr_bytes_print(hri_ledger_look(hri_pool_ledger(p->pool)).budget, b, sizeof b));
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
                 "%s: %s: it needs more than the %s available of the budget of %s%s", name, s->name,
                 hr_bytes_print(hri_ledger_room(s->account, status == HR_E_LIMIT), b1, sizeof b1),
                 hr_bytes_print(hri_ledger_look(s->account->ledger).budget, b2, sizeof b2),
                 status == HR_E_LIMIT ? " while the caller holds elements" : "");
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
    hri_log_write(&p->log, HR_LOG_WARN, "skipped: %s", text);
    return HR_E_AGAIN;
}

/* ---- making and ending ---- */

hri_buffer_pool *hri_pipeline_pool(hr_pipeline *p) {
    return p->pool;
}
int64_t hri_pipeline_vocab(const hr_pipeline *p) {
    int64_t vocab = 0;
    for (uint32_t i = 0; i < p->stage_count; i++) {
        vocab = p->stages[i]->spec.vocab > vocab ? p->stages[i]->spec.vocab : vocab;
    }
    return vocab;
}

bool hri_pipeline_image_size(const hr_pipeline *p, uint32_t *height, uint32_t *width) {
    const hri_spec *s = p->stage_count ? &p->stages[0]->spec : NULL;
    if (!s || !s->image_least_width || s->image_least_width != s->image_width ||
        s->image_least_height != s->image_height) {
        return false;
    }
    *height = s->image_height;
    *width = s->image_width;
    return true;
}

int64_t hri_pipeline_pad(const hr_pipeline *p) {
    return p->stage_count ? p->stages[0]->spec.pad : 0;
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

/* How much memory there is: what a lease grants, else what was said, else half of what the machine has. */
static hr_status find_memory(hr_pipeline_options *o, hr_lease **lease) {
    const uint64_t given = o->budget_bytes;
    if (!given) {
        o->budget_bytes = hri_memory_left_free("") / 2;
    }
    if (!o->budget) {
        return HR_OK;
    }
    const hr_lease_options wanted = {.size = sizeof wanted,
                                     .pool = "input",
                                     .name = "input pipeline",
                                     .wanted_bytes = o->budget_bytes,
                                     .least_bytes = given ? given : 1};
    hr_status status = hr_lease_request(o->budget, &wanted, lease, NULL);
    if (status == HR_OK) {
        o->budget_bytes = hr_lease_granted(*lease);
        status = hr_lease_hold(*lease, o->budget_bytes); /* it may fill all of it at any time */
    }
    return status;
}

static hr_status open_pool(hr_pipeline *p) {
    hr_lease *lease = NULL;
    hr_status status = find_memory(&p->options, &lease);
    if (status == HR_OK) {
        status = hri_pool_create(p->options.budget_bytes, &p->pool);
    }
    if (status != HR_OK) {
        hr_lease_release(lease);
        return status;
    }
    hri_pool_adopt(p->pool, lease);
    return HR_OK;
}

hr_status hr_pipeline_create(const hr_pipeline_options *options, hr_pipeline **out) {
    hr_pipeline_options own = {.size = sizeof own};
    hr_status status = options ? hri_take(&own, sizeof own, options) : HR_OK;
    if (status != HR_OK) {
        return status;
    }
    hr_pipeline *p = hri_calloc(1, sizeof *p);
    if (!p) {
        return HR_E_NOMEM_HOST;
    }
    p->options = own;
    if (p->options.workers == 0) {
        p->options.workers = hri_cores_usable();
    }
    status = open_pool(p);
    if (status == HR_OK) {
        status = hri_ledger_open(hri_pool_ledger(p->pool), "the element held by the caller",
                                 UINT32_MAX, &p->user);
    }
    if (status != HR_OK) {
        hri_pool_unref(p->pool);
        hri_free(p);
        return status;
    }
    hri_log_init(&p->log, p->options.log, p->options.log_user, (hr_log_level)p->options.log_level);
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
    for (size_t i = 0; i < p->note_count; i++) {
        hri_free(p->notes[i]);
    }
    hri_free(p->stages);
    hri_free(p->tuned);
    hri_log_deinit(&p->log);
    pthread_mutex_destroy(&p->mutex);
    hri_pool_unref(p->pool);
    hri_free(p);
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
    hri_pool_answer(p->pool);
    return status;
}

hr_status hr_pipeline_next_into(hr_pipeline *p, hr_field *to, size_t count) {
    hr_element *e;
    hr_status status = hr_pipeline_next(p, &e);
    if (status != HR_OK) {
        return status;
    }
    for (size_t i = 0; status == HR_OK && i < count; i++) {
        const hr_field *from = hr_element_find(e, to[i].name);
        char b1[32], b2[32];
        if (!from) {
            status = hri_pipeline_fail(p, HR_E_NOT_FOUND, "elements have no field \"%.31s\"",
                                       to[i].name);
        } else if (from->bytes > to[i].bytes) {
            status = hri_pipeline_fail(p, HR_E_SHAPE,
                                       "field \"%.31s\" has %s, but there is room for "
                                       "%s only",
                                       to[i].name, hr_bytes_print(from->bytes, b1, sizeof b1),
                                       hr_bytes_print(to[i].bytes, b2, sizeof b2));
        }
    }
    for (size_t i = 0; status == HR_OK && i < count; i++) {
        const hr_field *from = hr_element_find(e, to[i].name);
        memcpy(to[i].data, from->data, from->bytes);
        to[i].meta = from->meta;
        to[i].bytes = from->bytes;
    }
    hr_element_unref(e);
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
        return hri_pipeline_fail(p, status, "out of memory for the state");
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
            p, HR_E_INVALID, "the state was saved by another pipeline, or the files have changed");
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
                                 "the state cannot be restored, and the epoch cannot be restarted");
    }
    return hri_pipeline_fail(p, status, "the state cannot be restored; the epoch starts over");
}
