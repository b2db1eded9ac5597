/* Workers: see workers.h.  One mutex guards the ring; it is never held while an element is pulled, loaded or worked
 * on.  A slot is FREE, READY (pulled, to be worked on, perhaps again), RUNNING or DONE. */
#include "data/workers.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "data/mark.h"

/* How far, by threads, workers may run ahead of the oldest element: pictures differ in size by a factor of fifty, and
 * with a short ring all would wait behind a large one. */
enum { AHEAD = 16 };

typedef enum slot_state { SLOT_FREE, SLOT_READY, SLOT_RUNNING, SLOT_DONE } slot_state;

typedef struct slot {
    slot_state state;
    bool starved;  /* READY, but growth was refused: it waits for its turn or for room */
    bool reported; /* the failure was recorded where it happened */
    hri_item item;
    hri_place place;
    hr_element *result;
    hr_status status;
    char *reason;
} slot;

struct hri_workers {
    hri_stage *stage, *input;
    hri_stage **chain;
    uint32_t chain_count;
    bool ordered;
    pthread_mutex_t mutex;
    pthread_cond_t work, done;
    pthread_t *threads;
    uint32_t thread_count, thread_max, running;
    slot *slots;
    uint64_t slot_count, head, tail; /* head: the oldest not yet handed on; tail: the next number */
    bool stop, at_end, pulling;
    hri_place pulling_place;
    hri_marker marker;
};

hr_status hri_workers_create(hri_stage *const *chain, uint32_t count, bool ordered,
                             hri_workers **out) {
    hri_workers *w = hri_calloc(1, sizeof *w);
    if (!w) {
        return HR_E_NOMEM_HOST;
    }
    w->stage = chain[count - 1];
    w->input = chain[0]->inputs[0];
    w->chain_count = count;
    w->ordered = ordered;
    w->thread_max = w->stage->parallel_max;
    w->slot_count = AHEAD * (uint64_t)w->thread_max + 2;
    w->chain = hri_calloc(count, sizeof(hri_stage *));
    w->slots = hri_calloc(w->slot_count, sizeof *w->slots);
    w->threads = hri_calloc(w->thread_max, sizeof *w->threads);
    if (!w->chain || !w->slots || !w->threads) {
        hri_free(w->chain);
        hri_free(w->slots);
        hri_free(w->threads);
        hri_free(w);
        return HR_E_NOMEM_HOST;
    }
    memcpy(w->chain, chain, count * sizeof(hri_stage *));
    pthread_mutex_init(&w->mutex, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->work, &attr);
    pthread_cond_init(&w->done, &attr);
    pthread_condattr_destroy(&attr);
    *out = w;
    return HR_OK;
}

static slot *slot_at(hri_workers *w, uint64_t number) {
    return &w->slots[number % w->slot_count];
}

static void slot_clear(slot *s) {
    hri_item_drop(&s->item);
    hri_place_drop(&s->place);
    hr_element_unref(s->result);
    hri_free(s->reason);
    *s = (slot){0};
}

bool hri_workers_is_oldest(hri_workers *w, uint64_t number) {
    pthread_mutex_lock(&w->mutex);
    const bool oldest = number == w->head;
    pthread_mutex_unlock(&w->mutex);
    return oldest;
}

void hri_workers_drop_results(hri_workers *w) {
    hr_element *dropped[64];
    uint32_t count = 0;
    pthread_mutex_lock(&w->mutex);
    for (uint64_t n = w->head + 1; n < w->tail && count < 64; n++) {
        slot *s = slot_at(w, n);
        if (s->state == SLOT_DONE && s->result && s->item.source && !s->item.element) {
            dropped[count++] = s->result;
            s->result = NULL;
            s->state = SLOT_READY;
            s->starved = true;
        }
    }
    pthread_mutex_unlock(&w->mutex);
    for (uint32_t i = 0; i < count; i++) {
        hr_element_unref(dropped[i]);
    }
}

/* ---- one element ---- */

static hr_status work_on(hri_workers *w, uint64_t number, hri_item *item, hr_element **out,
                         char *reason, size_t reason_size) {
    hri_stage *last = w->stage;
    hri_memory memory = {.pool = hri_pipeline_pool(last->pipeline),
                         .account = last->account,
                         .extra = last->extra,
                         .workers = w,
                         .stage = last,
                         .slot = number};
    hr_element *e;
    const uint64_t first = hri_clock_ns();
    hr_status status = hri_item_load(item, &memory, &e, reason, reason_size);
    for (uint32_t i = 0; status == HR_OK && i < w->chain_count; i++) {
        hri_stage *s = w->chain[i];
        const uint64_t began = hri_clock_ns();
        hr_emit emit;
        status = hri_emit_init(&emit, &memory, e, s->seed, item->epoch, item->index);
        if (status == HR_OK) {
            status = s->type->apply(s, &emit);
            if (status != HR_OK) {
                snprintf(reason, reason_size, "%s", emit.reason);
            }
        }
        hr_element_unref(e);
        e = NULL;
        if (status == HR_OK) {
            e = hri_emit_take(&emit);
            s->out_elements +=
                i + 1 < w->chain_count; /* the last one counts when it is handed on */
        }
        hri_emit_deinit(&emit);
        s->busy_ns += hri_clock_ns() - began;
    }
    last->work_ns += hri_clock_ns() - first;
    if (status == HR_OK) {
        *out = e;
    }
    return status;
}

/* Works on a slot that is READY; the mutex is held on entry and on return. */
static void run_slot(hri_workers *w, uint64_t number) {
    slot *s = slot_at(w, number);
    s->state = SLOT_RUNNING;
    s->starved = false;
    w->running++;
    hri_item item = s->item; /* the slot's reference holds while it is RUNNING */
    pthread_mutex_unlock(&w->mutex);
    char reason[256] = "";
    hr_element *result = NULL;
    const hr_status status = work_on(w, number, &item, &result, reason, sizeof reason);
    pthread_mutex_lock(&w->mutex);
    w->running--;
    if (status == HR_E_AGAIN) {
        s->state = SLOT_READY;
        s->starved = true;
        hri_stage *stage = w->stage;
        const uint32_t parallel = stage->parallel;
        if (!stage->fixed_parallel && parallel > 1) {
            stage->parallel = parallel - 1;
        }
        if (parallel > 1) {
            hri_pipeline_shrunk(stage, "threads", parallel, parallel - 1);
        }
        return;
    }
    s->state = SLOT_DONE;
    s->status = status;
    s->result = result;
    if (status != HR_OK && reason[0]) {
        s->reason = hri_strdup(reason);
    }
    hri_item_drop(&s->item); /* the ticket, where there is one, stays */
    pthread_cond_signal(&w->done);
}

/* ---- pulling ---- */

/* Room for an element that comes loaded.  The mutex is held. */
static bool claim_room(hri_workers *w, hri_account **account, uint64_t *claim) {
    *claim = w->input->spec.load_bytes ? 0 : w->input->spec.item_bytes;
    *account = w->tail == w->head ? w->stage->account : w->stage->extra;
    return *claim == 0 || hri_ledger_try(*account, *claim);
}

/* Pulls one element into a new slot; the mutex is held on entry and on return.  False: nothing was pulled. */
static bool pull_one(hri_workers *w) {
    hri_account *account;
    uint64_t claim;
    if (!claim_room(w, &account, &claim)) {
        return false;
    }
    hri_place place = {0};
    w->pulling = true;
    hr_status status = hri_marker_take(&w->marker, w->input, &place);
    w->pulling_place = place;
    pthread_mutex_unlock(&w->mutex);
    hri_item item = {0};
    if (status == HR_OK) {
        status = hri_stage_next(w->input, &item);
    }
    if (item.element) {
        hri_element_charge_to(item.element, account, claim);
    } else if (claim) {
        hri_ledger_release(account, claim);
    }
    pthread_mutex_lock(&w->mutex);
    w->pulling = false;
    w->pulling_place = (hri_place){0};
    if (status == HR_E_EOF || status == HR_E_CANCELLED || w->stop) {
        hri_item_drop(&item);
        hri_place_drop(&place);
        w->at_end = w->at_end || status == HR_E_EOF;
        pthread_cond_broadcast(&w->done);
        pthread_cond_broadcast(&w->work);
        return false;
    }
    slot *s = slot_at(w, w->tail++);
    *s = (slot){.state = SLOT_READY, .item = item, .place = place, .status = status};
    if (status != HR_OK) {
        s->state = SLOT_DONE;
        s->reported = true;
        pthread_cond_signal(&w->done);
    }
    pthread_cond_signal(&w->work);
    return true;
}

/* ---- threads ---- */

/* The number of a slot to work on, or UINT64_MAX.  The oldest always may run; others while there are threads for
 * them, and starved ones only when room is likely. */
static uint64_t find_ready(hri_workers *w) {
    for (uint64_t n = w->head; n < w->tail; n++) {
        slot *s = slot_at(w, n);
        if (s->state != SLOT_READY) {
            continue;
        }
        if (n == w->head) {
            return n;
        }
        if (w->running >= w->stage->parallel) {
            return UINT64_MAX;
        }
        if (!s->starved || hri_ledger_could(w->stage->extra, w->stage->smallest_bytes)) {
            return n;
        }
        return UINT64_MAX; /* in order: a later one must not overtake it for memory */
    }
    return UINT64_MAX;
}

/* Two elements a thread always; more while the budget has room for two more at their largest. */
static bool may_pull(const hri_workers *w) {
    const uint64_t ahead = w->tail - w->head;
    if (w->pulling || w->at_end || w->running >= w->stage->parallel || ahead >= w->slot_count) {
        return false;
    }
    return ahead < 2u * w->stage->parallel + 1 ||
           hri_ledger_could(w->stage->extra, 2 * w->stage->smallest_bytes);
}

static void wait_for_work(hri_workers *w) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 5000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    const bool all_done = w->at_end && w->head == w->tail;
    bool waits_for_room = false; /* rooms are freed elsewhere, so look again by the clock */
    for (uint64_t n = w->head; n < w->tail; n++) {
        waits_for_room = waits_for_room || slot_at(w, n)->starved;
    }
    waits_for_room = waits_for_room || (w->tail - w->head < 2 && !all_done);
    if (waits_for_room) {
        pthread_cond_timedwait(&w->work, &w->mutex, &until);
    } else {
        pthread_cond_wait(&w->work, &w->mutex);
    }
}

static void *thread_main(void *arg) {
    hri_workers *w = arg;
    pthread_mutex_lock(&w->mutex);
    while (!w->stop) {
        const uint64_t number = find_ready(w);
        if (number != UINT64_MAX) {
            run_slot(w, number);
        } else if (!may_pull(w) || !pull_one(w)) {
            if (!w->stop) {
                wait_for_work(w);
            }
        }
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

static hr_status start_threads(hri_workers *w) {
    while (w->thread_count < w->thread_max) {
        if (pthread_create(&w->threads[w->thread_count], NULL, thread_main, w) != 0) {
            return w->thread_count ? HR_OK : HR_E_NOMEM_HOST;
        }
        w->thread_count++;
    }
    return HR_OK;
}

void hri_workers_stop(hri_workers *w) {
    pthread_mutex_lock(&w->mutex);
    w->stop = true;
    w->stage->stopping = true;
    pthread_cond_broadcast(&w->work);
    pthread_mutex_unlock(&w->mutex);
    hri_ledger_wake(hri_pool_ledger(hri_pipeline_pool(w->stage->pipeline)));
    for (uint32_t i = 0; i < w->thread_count; i++) {
        pthread_join(w->threads[i], NULL);
    }
    w->thread_count = 0;
    for (uint64_t n = 0; n < w->slot_count; n++) {
        slot_clear(&w->slots[n]);
    }
    hri_marker_clear(&w->marker);
    w->head = w->tail = 0;
    w->stop = w->at_end = w->pulling = false;
    w->stage->stopping = false;
}

void hri_workers_destroy(hri_workers *w) {
    if (!w) {
        return;
    }
    hri_workers_stop(w);
    pthread_mutex_destroy(&w->mutex);
    pthread_cond_destroy(&w->work);
    pthread_cond_destroy(&w->done);
    hri_free(w->chain);
    hri_free(w->slots);
    hri_free(w->threads);
    hri_free(w);
}

void hri_workers_retune(hri_workers *w) {
    pthread_mutex_lock(&w->mutex);
    pthread_cond_broadcast(&w->work);
    pthread_cond_broadcast(&w->done);
    pthread_mutex_unlock(&w->mutex);
}

/* ---- the consumer's side ---- */

hr_status hri_workers_start(hri_workers *w, uint64_t epoch) {
    return hri_stage_start(w->input, epoch);
}

/* The oldest slot that may be handed on, or UINT64_MAX. */
static uint64_t find_done(hri_workers *w) {
    for (uint64_t n = w->head; n < w->tail; n++) {
        if (slot_at(w, n)->state == SLOT_DONE) {
            return n;
        }
        if (w->ordered) {
            break;
        }
    }
    return UINT64_MAX;
}

/* Takes a finished slot out of the ring.  HR_E_AGAIN: a bad element was passed over. */
static hr_status take_slot(hri_workers *w, uint64_t number, hri_item *out) {
    slot *s = slot_at(w, number);
    hri_item item = s->item;
    item.element = s->result;
    s->result = NULL;
    hr_status status = s->status;
    char *reason = s->reason;
    const bool reported = s->reported;
    s->reason = NULL;
    s->item = (hri_item){0};
    slot_clear(s);
    while (w->head < w->tail && slot_at(w, w->head)->state == SLOT_FREE) {
        w->head++;
    }
    pthread_cond_broadcast(&w->work);
    if (status == HR_OK) {
        item.source = NULL; /* what was made here can no longer be loaded from its ticket */
        *out = item;
    } else if (!reported) {
        status = hri_pipeline_bad_item(w->stage->pipeline, status, w->stage, &item,
                                       reason ? reason : "");
    }
    hri_free(reason);
    return status;
}

hr_status hri_workers_next(hri_workers *w, hri_item *out) {
    const bool threads = w->thread_max > 1;
    hr_status status = HR_OK;
    pthread_mutex_lock(&w->mutex);
    if (threads && w->thread_count == 0) {
        status = start_threads(w);
    }
    uint64_t waited = 0;
    while (status == HR_OK) {
        const uint64_t number = find_done(w);
        if (w->stage->stopping) {
            status = HR_E_CANCELLED;
        } else if (number != UINT64_MAX) {
            status = take_slot(w, number, out);
            if (status != HR_E_AGAIN) {
                break;
            }
            status = HR_OK;
        } else if (w->at_end && w->head == w->tail) {
            status = HR_E_EOF;
        } else if (threads) {
            const uint64_t began = hri_clock_ns();
            pthread_cond_wait(&w->done, &w->mutex);
            waited += hri_clock_ns() - began;
        } else if (w->head < w->tail) {
            run_slot(w, w->head);
        } else if (!pull_one(w) && !w->at_end) {
            hri_account *account = w->stage->account;
            pthread_mutex_unlock(&w->mutex);
            status = hri_ledger_wait(account, w->input->spec.item_bytes, 0, 20);
            if (status != HR_OK) {
                status = hri_stage_no_room(w->stage, w->input->spec.item_bytes);
            }
            pthread_mutex_lock(&w->mutex);
        }
    }
    pthread_mutex_unlock(&w->mutex);
    w->stage->wait_ns += waited;
    return status;
}

/* ---- states ---- */

/* The places of elements that were pulled and not yet handed on (unordered only), then the place from which all goes
 * on.  In order, the oldest slot's place says everything. */
void hri_workers_save(hri_workers *w, hri_state *state) {
    pthread_mutex_lock(&w->mutex);
    while (w->pulling && w->head == w->tail && !w->pulling_place.mark) {
        pthread_cond_wait(&w->done, &w->mutex); /* no mark could be taken: the pull fails at once */
    }
    uint64_t pending = 0;
    for (uint64_t n = w->head; !w->ordered && n < w->tail; n++) {
        pending += slot_at(w, n)->place.mark != NULL;
    }
    hri_state_put(state, pending);
    for (uint64_t n = w->head; pending && n < w->tail; n++) {
        if (slot_at(w, n)->place.mark) {
            hri_place_save(&slot_at(w, n)->place, state);
        }
    }
    hri_place now = {0};
    hr_status status = HR_OK;
    if (w->ordered && w->head < w->tail) {
        hri_place_save(&slot_at(w, w->head)->place, state);
    } else if (w->pulling) {
        hri_place_save(&w->pulling_place, state);
    } else {
        status = hri_marker_look(&w->marker, w->input, &now);
        if (status == HR_OK) {
            hri_place_save(&now, state);
            hri_place_drop(&now);
        }
    }
    state->failed = state->failed || status != HR_OK;
    pthread_mutex_unlock(&w->mutex);
}

/* A state may come from a run with more workers.  The ring is empty. */
static hr_status grow_ring(hri_workers *w, uint64_t wanted) {
    if (wanted <= w->slot_count) {
        return HR_OK;
    }
    slot *grown = hri_calloc(wanted, sizeof *grown);
    if (!grown) {
        return HR_E_NOMEM_HOST;
    }
    hri_free(w->slots);
    w->slots = grown;
    w->slot_count = wanted;
    return HR_OK;
}

hr_status hri_workers_restore(hri_workers *w, hri_state *state) {
    const uint64_t pending = hri_state_get(state);
    hr_status status = pending <= 4096 ? grow_ring(w, pending + 1) : HR_E_FORMAT;
    for (uint64_t i = 0; status == HR_OK && i < pending; i++) {
        status = hri_place_restore(w->input, state);
        if (status != HR_OK) {
            break;
        }
        hri_item item = {0};
        hri_place place = {0};
        hri_marker marker = {0};
        status = hri_marker_take(&marker, w->input, &place);
        hri_marker_clear(&marker);
        if (status == HR_OK) {
            status = hri_stage_next(w->input, &item);
        }
        slot *s = slot_at(w, w->tail++);
        *s = (slot){.state = SLOT_READY, .item = item, .place = place};
        if (status != HR_OK && status != HR_E_EOF) {
            s->state = SLOT_DONE;
            s->status = status;
            s->reported = true;
            status = HR_OK;
        }
    }
    if (status == HR_OK) {
        status = hri_place_restore(w->input, state);
    }
    return status == HR_E_EOF ? HR_E_FORMAT : status;
}
