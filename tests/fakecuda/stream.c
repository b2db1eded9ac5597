/* Streams and events of the fake driver: a thread a stream, so that work is really asynchronous and a use before a
 * copy has finished shows (with FAKECUDA_DELAY_US, surely).
 *
 * Each recording of an event makes a mark of its own, counted by the event and by those who wait for it, so that an
 * event may be recorded again, or destroyed, while others wait for its earlier mark.  Pageable copies are as
 * asynchronous as any: stricter than the real driver, which may have finished reading when the call returns. */
#include "fake.h"
#include "work.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static CUstream streams; /* under fake_lock, as all here */
static CUevent events;

static void drop(mark *m) {
    if (m && --m->references == 0) {
        free(m);
    }
}

void fake_drop_work(work *w) {
    drop(w->mark);
    if (w->launch) {
        fake_launch_drop(w->launch);
    }
    if (w->graph) {
        fake_graph_drop(w->graph);
    }
    free(w);
}

CUresult fake_do(const work *w) {
    switch (w->kind) {
    case COPY:
        return fake_memory_copy(w->to, w->from, w->bytes) ? CUDA_ERROR_ILLEGAL_ADDRESS
                                                          : CUDA_SUCCESS;
    case FILL:
        return fake_memory_fill(w->to, w->value, w->bytes) ? CUDA_ERROR_ILLEGAL_ADDRESS
                                                           : CUDA_SUCCESS;
    case LAUNCH:
        return fake_launch_do(w->launch);
    case GRAPH:
        return fake_graph_do(w->graph);
    default:
        return CUDA_SUCCESS;
    }
}

/* Does one piece of work; the lock is held at entry and exit, not in between. */
static void perform(CUstream stream, work *w) {
    static _Atomic long delay_us = -1;
    if (delay_us < 0) {
        const char *text = getenv("FAKECUDA_DELAY_US");
        delay_us = text ? strtol(text, NULL, 10) : 0;
    }
    CUresult failed = CUDA_SUCCESS;
    if (w->kind == WAIT) {
        while (!w->mark->done) {
            pthread_cond_wait(&fake_changed, &fake_lock);
        }
    } else if (stream->context->bad == CUDA_SUCCESS && w->kind != MARK) {
        pthread_mutex_unlock(&fake_lock);
        if (delay_us > 0) {
            usleep((useconds_t)delay_us);
        }
        fake_at_work = stream->context->device;
        failed = fake_do(w);
        pthread_mutex_lock(&fake_lock);
    }
    if (failed != CUDA_SUCCESS) {
        stream->context->bad = failed;
    }
    if (w->kind == MARK) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        w->mark->at_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        w->mark->done = 1;
    }
    fake_drop_work(w);
}

static void *run_stream(void *argument) {
    CUstream stream = argument;
    pthread_mutex_lock(&fake_lock);
    while (!stream->ending || stream->first) {
        work *w = stream->first;
        if (!w) {
            pthread_cond_wait(&fake_changed, &fake_lock);
            continue;
        }
        stream->first = w->next;
        if (!stream->first) {
            stream->last = &stream->first;
        }
        stream->busy = 1;
        perform(stream, w);
        stream->busy = 0;
        pthread_cond_broadcast(&fake_changed);
    }
    pthread_mutex_unlock(&fake_lock);
    free(stream);
    return NULL;
}

int fake_known_stream(CUstream stream) {
    for (CUstream s = streams; s; s = s->next) {
        if (s == stream) {
            return 1;
        }
    }
    return 0;
}

static int known_event(CUevent event) {
    for (CUevent e = events; e; e = e->next) {
        if (e == event) {
            return 1;
        }
    }
    return 0;
}

CUresult fake_cuStreamCreate(CUstream *stream, unsigned int flags) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && (!stream || flags > CU_STREAM_NON_BLOCKING)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    CUstream s = result == CUDA_SUCCESS ? calloc(1, sizeof *s) : NULL;
    if (s) {
        pthread_t thread;
        s->context = context;
        s->last = &s->first;
        if (pthread_create(&thread, NULL, run_stream, s) == 0) {
            pthread_detach(thread); /* it frees the stream when the last work is done */
            s->next = streams;
            streams = s;
            fake_live.streams++;
            *stream = s;
        } else {
            free(s);
            s = NULL;
        }
    }
    if (result == CUDA_SUCCESS && !s) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* Takes it out of the list; its thread does what is left in it, and goes.  Nobody waits for that. */
static void end_stream(CUstream *at) {
    CUstream s = *at;
    *at = s->next;
    s->ending = 1;
    fake_live.streams--;
    pthread_cond_broadcast(&fake_changed);
}

CUresult fake_cuStreamDestroy_v2(CUstream stream) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    CUstream *at = &streams;
    while (*at && *at != stream) {
        at = &(*at)->next;
    }
    if (!*at) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (result != CUDA_ERROR_INVALID_CONTEXT) { /* a lost context is no obstacle */
        end_stream(at);
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

void fake_streams_end(struct CUctx_st *context) {
    CUstream *at = &streams;
    while (*at) {
        if ((*at)->context == context) {
            end_stream(at);
        } else {
            at = &(*at)->next;
        }
    }
}

CUresult fake_cuStreamSynchronize(CUstream stream) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && !fake_known_stream(stream)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS && stream->capture) {
        stream->capture->invalid = 1; /* waiting for work that does not run */
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (result == CUDA_SUCCESS) {
        while (stream->first || stream->busy) {
            pthread_cond_wait(&fake_changed, &fake_lock);
        }
        result = stream->context->bad;
        fake_pools_synced();
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuStreamSynchronize_ptsz(CUstream stream) {
    return fake_cuStreamSynchronize(stream);
}

void fake_streams_drain(const struct CUctx_st *context) {
    for (CUstream s = streams; s;) {
        if (s->context == context && (s->first || s->busy)) {
            pthread_cond_wait(&fake_changed, &fake_lock);
            s = streams; /* the list may be another one */
        } else {
            s = s->next;
        }
    }
}

CUresult fake_put(CUstream stream, const work *w) {
    if (stream->capture) {
        return fake_capture_add(stream, w);
    }
    work *copy = malloc(sizeof *copy);
    if (!copy) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *copy = *w;
    copy->next = NULL;
    *stream->last = copy;
    stream->last = &copy->next;
    if (copy->mark) {
        copy->mark->references++;
    }
    if (copy->launch) {
        fake_launch_hold(copy->launch);
    }
    if (copy->graph) {
        copy->graph->references++;
    }
    pthread_cond_broadcast(&fake_changed);
    return CUDA_SUCCESS;
}

CUresult fake_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && !fake_known_stream(stream)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (result == CUDA_SUCCESS && bytes && (!to || !from)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS && bytes) {
        result = fake_put(stream, &(work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* The fill kernel is loaded by the first fill of a context, and takes memory then. */
static CUresult load_fill(struct CUctx_st *context) {
    if (!context->warm) {
        if (fake_state_take(context->device, fake_state_lazy_bytes()) != 0) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        context->taken_bytes += fake_state_lazy_bytes();
        context->warm = 1;
    }
    return CUDA_SUCCESS;
}

CUresult fake_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && !fake_known_stream(stream)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (result == CUDA_SUCCESS && count && !fake_memory_fillable(to)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS && count) {
        result = load_fill(stream->context);
    }
    if (result == CUDA_SUCCESS && count) {
        result = fake_put(stream, &(work){.kind = FILL, .to = to, .value = value, .bytes = count});
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* ---- events ---- */

/* Takes back what was recorded. */
static void forget(CUevent event) {
    drop(event->mark);
    event->mark = NULL;
    if (event->capture) {
        fake_graph_drop(event->capture);
        event->capture = NULL;
    }
}

/* A stream waits for an event that was recorded in a capture: it joins the capture, or learns what was before. */
static CUresult wait_captured(CUstream stream, CUevent event) {
    CUgraph capture = event->capture;
    if (!capture->origin || (stream->capture && stream->capture != capture) ||
        (!stream->capture && capture->lines == FAKE_LINES)) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (!stream->capture) {
        stream->capture = capture;
        stream->line = capture->lines++;
        stream->known = (fake_clock){{0}};
    }
    for (int i = 0; i < FAKE_LINES; i++) {
        if (event->known.done[i] > stream->known.done[i]) {
            stream->known.done[i] = event->known.done[i];
        }
    }
    return CUDA_SUCCESS;
}

void fake_capture_leave(CUgraph capture) {
    for (CUstream s = streams; s; s = s->next) {
        if (s->capture == capture) {
            s->capture = NULL;
        }
    }
}

CUresult fake_cuEventCreate(CUevent *event, unsigned int flags) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && (!event || flags > 7)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS) {
        CUevent e = calloc(1, sizeof *e);
        if (e) {
            e->context = context;
            e->flags = flags;
            e->next = events;
            events = e;
            fake_live.events++;
            *event = e;
        } else {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuEventDestroy_v2(CUevent event) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    CUevent *at = &events;
    while (*at && *at != event) {
        at = &(*at)->next;
    }
    if (!*at) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (result != CUDA_ERROR_INVALID_CONTEXT) {
        *at = event->next;
        forget(event);
        free(event);
        fake_live.events--;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuEventRecord(CUevent event, CUstream stream) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS &&
        (!known_event(event) || !fake_known_stream(stream) || event->context != stream->context)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS && stream->capture) {
        forget(event);
        event->capture = stream->capture;
        event->capture->references++;
        event->known = stream->known;
    } else if (result == CUDA_SUCCESS) {
        mark *m = calloc(1, sizeof *m);
        result = m ? fake_put(stream, &(work){.kind = MARK, .mark = m}) : CUDA_ERROR_OUT_OF_MEMORY;
        if (result == CUDA_SUCCESS) {
            forget(event);
            event->mark = m;
            m->references++;
        } else {
            free(m);
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && flags != 0) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (result == CUDA_SUCCESS && (!known_event(event) || !fake_known_stream(stream))) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS && event->capture) {
        result = wait_captured(stream, event);
    } else if (result == CUDA_SUCCESS && stream->capture) {
        stream->capture->invalid = 1; /* an event from outside the capture */
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (result == CUDA_SUCCESS && event->mark) {
        result = fake_put(stream, &(work){.kind = WAIT, .mark = event->mark});
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuEventQuery(CUevent event) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS) {
        result = !known_event(event)                 ? CUDA_ERROR_INVALID_HANDLE
                 : event->mark && !event->mark->done ? CUDA_ERROR_NOT_READY
                                                     : CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuEventSynchronize(CUevent event) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && !known_event(event)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS && event->mark) {
        mark *m = event->mark;
        m->references++;
        while (!m->done) {
            pthread_cond_wait(&fake_changed, &fake_lock);
        }
        drop(m);
        result = context->bad;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuEventElapsedTime(float *ms, CUevent from, CUevent to) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && !ms) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (result == CUDA_SUCCESS && (!known_event(from) || !known_event(to) || !from->mark ||
                                          !to->mark || (from->flags & 2) || (to->flags & 2))) {
        result = CUDA_ERROR_INVALID_HANDLE; /* unknown, never recorded, or without timing */
    } else if (result == CUDA_SUCCESS && (!from->mark->done || !to->mark->done)) {
        result = CUDA_ERROR_NOT_READY;
    }
    if (result == CUDA_SUCCESS) {
        *ms = (float)((double)((int64_t)to->mark->at_ns - (int64_t)from->mark->at_ns) * 1e-6);
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}
