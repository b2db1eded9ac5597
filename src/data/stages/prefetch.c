/* prefetch(N)  a thread that pulls ahead and keeps up to N elements ready.  N is the most; how many are worth it the
 * tuner finds out, and when the budget has no room for one more the thread waits.  One element is guaranteed. */
#include <pthread.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "data/mark.h"

typedef struct options {
    int64_t depth;
} options;

static const hri_field fields[] = {{"depth",
                                    "maximum number of elements ready; 0: chosen "
                                    "automatically",
                                    offsetof(options, depth), HRI_FIELD_INT, "0", .min = 0,
                                    .max = 65536, .metavar = "N"},
                                   {0}};

typedef struct ready {
    hri_item item;
    hri_place place;
    hr_status status;
} ready;

typedef struct own {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    bool made, running, stop;
    ready *ring;
    uint64_t size, head, tail;
    bool ended;        /* the input said EOF */
    bool pulling;      /* the thread is inside the input */
    hri_place current; /* what it pulls, when pulling */
    hri_marker marker;
} own;

static hr_status open(hri_stage *s, hri_prose *why) {
    (void)why;
    own *w = s->own;
    const options *o = s->options;
    s->depth_max = o->depth ? (uint32_t)o->depth : 8;
    s->depth = o->depth ? s->depth_max : 2;
    s->fixed_depth = o->depth != 0;
    w->size = s->depth_max + 1;
    w->ring = hri_calloc(w->size, sizeof *w->ring);
    if (!w->ring) {
        return HR_E_NOMEM_HOST;
    }
    pthread_mutex_init(&w->mutex, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->made = true;
    s->smallest_bytes = hri_spec_item_bytes(&s->spec);
    s->spec.load_bytes = 0; /* what it hands on is loaded */
    return HR_OK;
}

/* Pulls one element and loads it; the mutex is not held.  *again is set when bad ones were passed over. */
static hr_status pull(hri_stage *s, hri_item *item, bool *again) {
    const hri_spec *in = &s->inputs[0]->spec;
    for (;; *again = true) {
        const uint64_t claim = in->load_bytes ? 0 : in->item_bytes;
        *item = (hri_item){0};
        hr_status status = claim ? hri_stage_claim(s, claim) : HR_OK;
        if (status != HR_OK) {
            return status;
        }
        status = hri_stage_next(s->inputs[0], item);
        if (status == HR_OK && item->element) {
            hri_element_charge_to(item->element, s->account, claim);
            return HR_OK;
        }
        if (claim) {
            hri_ledger_release(s->account, claim);
        }
        if (status != HR_OK) {
            return status;
        }
        hr_element *e;
        status = hri_stage_take(s, item, &e);
        if (status == HR_OK) {
            item->element = e;
            return HR_OK;
        }
        if (status != HR_E_AGAIN) {
            return status;
        }
    }
}

/* Is there room for one more?  The first is guaranteed.  The mutex is held. */
static bool wants_more(hri_stage *s, own *w) {
    const uint64_t ahead = w->tail - w->head;
    if (w->ended || ahead >= w->size || ahead >= s->depth) {
        return false;
    }
    return ahead == 0 || hri_ledger_could(s->account, s->spec.item_bytes);
}

static void wait_a_little(own *w) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 5000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&w->changed, &w->mutex, &until);
}

static void *thread_main(void *arg) {
    hri_stage *s = arg;
    own *w = s->own;
    pthread_mutex_lock(&w->mutex);
    while (!w->stop) {
        if (!wants_more(s, w)) {
            const bool for_room = !w->ended && w->tail - w->head < s->depth;
            if (for_room) {
                hri_pipeline_shrunk(s, "elements ahead", s->depth, (uint32_t)(w->tail - w->head));
                wait_a_little(w);
            } else {
                pthread_cond_wait(&w->changed, &w->mutex);
            }
            continue;
        }
        ready r = {.status = HR_OK};
        r.status = hri_marker_take(&w->marker, s->inputs[0], &r.place);
        w->current = r.place;
        w->pulling = true;
        pthread_mutex_unlock(&w->mutex);
        bool again = false;
        if (r.status == HR_OK) {
            const uint64_t began = hri_clock_ns();
            r.status = pull(s, &r.item, &again);
            s->busy_ns += hri_clock_ns() - began;
        }
        pthread_mutex_lock(&w->mutex);
        w->pulling = false;
        w->current = (hri_place){0};
        if (again) {
            hri_marker_clear(&w->marker); /* it counted one pull */
        }
        if (r.status == HR_E_EOF || r.status == HR_E_CANCELLED) {
            w->ended = true;
            hri_place_drop(&r.place);
        } else {
            w->ring[w->tail++ % w->size] = r;
        }
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

static hr_status next(hri_stage *s, hri_item *out) {
    own *w = s->own;
    if (hri_pipeline_workers(s->pipeline) == 1) { /* no threads but the user's */
        bool again;
        hri_marker_clear(&w->marker);
        return pull(s, out, &again);
    }
    pthread_mutex_lock(&w->mutex);
    if (!w->running) {
        if (pthread_create(&w->thread, NULL, thread_main, s) != 0) {
            pthread_mutex_unlock(&w->mutex);
            return HR_E_NOMEM_HOST;
        }
        w->running = true;
    }
    while (w->head == w->tail && !w->ended && !s->stopping) {
        pthread_cond_wait(&w->changed, &w->mutex);
    }
    hr_status status = s->stopping ? HR_E_CANCELLED : HR_E_EOF;
    if (w->head < w->tail) {
        ready *r = &w->ring[w->head++ % w->size];
        status = r->status;
        *out = r->item;
        hri_place_drop(&r->place);
        *r = (ready){0};
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->mutex);
    return status;
}

static void stop(hri_stage *s) {
    own *w = s->own;
    if (!w->made) {
        return;
    }
    if (w->running) {
        pthread_mutex_lock(&w->mutex);
        w->stop = true;
        const bool was = s->stopping;
        s->stopping = true;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->mutex);
        pthread_join(w->thread, NULL);
        s->stopping = was;
        w->running = w->stop = false;
    }
    for (; w->head < w->tail; w->head++) {
        ready *r = &w->ring[w->head % w->size];
        hri_item_drop(&r->item);
        hri_place_drop(&r->place);
    }
    hri_marker_clear(&w->marker);
    w->head = w->tail = 0;
    w->ended = false;
}

static void close(hri_stage *s) {
    own *w = s->own;
    stop(s);
    if (w->made) {
        pthread_mutex_destroy(&w->mutex);
        pthread_cond_destroy(&w->changed);
    }
    hri_free(w->ring);
}

static void save(hri_stage *s, hri_state *state) {
    own *w = s->own;
    pthread_mutex_lock(&w->mutex);
    if (w->head < w->tail) {
        hri_place_save(&w->ring[w->head % w->size].place, state);
    } else if (w->pulling && w->current.mark) {
        hri_place_save(&w->current, state);
    } else {
        hri_place now;
        if (!w->pulling && hri_marker_look(&w->marker, s->inputs[0], &now) == HR_OK) {
            hri_place_save(&now, state);
            hri_place_drop(&now);
        } else {
            state->failed = true;
        }
    }
    pthread_mutex_unlock(&w->mutex);
}

static hr_status restore(hri_stage *s, hri_state *r) {
    return hri_place_restore(s->inputs[0], r);
}

const hri_stage_type hri_stage_type_prefetch = {
    .name = "prefetch",
    .help = "prepare elements ahead in a thread",
    .main = "depth",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .inputs = 1,
    .open = open,
    .next = next,
    .stop = stop,
    .close = close,
    .save = save,
    .restore = restore,
};
