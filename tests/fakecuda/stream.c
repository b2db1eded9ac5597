/* Streams and events of the fake driver: a thread a stream, so that work is really asynchronous and a use before a
 * copy has finished shows (with FAKECUDA_DELAY_US, surely).
 *
 * Each recording of an event makes a mark of its own, counted by the event and by those who wait for it, so that an
 * event may be recorded again, or destroyed, while others wait for its earlier mark.  Pageable copies are as
 * asynchronous as any: stricter than the real driver, which may have finished reading when the call returns. */
#include "fake.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct mark {
    int references, done;
    uint64_t at_ns;
} mark;

enum work_kind { COPY, FILL, MARK, WAIT };

typedef struct work {
    enum work_kind kind;
    unsigned char value;
    uint64_t to, from, bytes;
    mark *mark;
    struct work *next;
} work;

struct CUstream_st {
    struct CUctx_st *context;
    work *first, **last;
    int busy, ending;
    struct CUstream_st *next;
};

struct CUevent_st {
    struct CUctx_st *context;
    mark *mark; /* NULL: never recorded */
    unsigned flags;
    struct CUevent_st *next;
};

static CUstream streams; /* under fake_lock, as all here */
static CUevent events;

static void drop(mark *m) {
    if (m && --m->references == 0) {
        free(m);
    }
}

/* Does one piece of work; the lock is held at entry and exit, not in between. */
static void perform(CUstream stream, work *w) {
    static _Atomic long delay_us = -1;
    if (delay_us < 0) {
        const char *text = getenv("FAKECUDA_DELAY_US");
        delay_us = text ? strtol(text, NULL, 10) : 0;
    }
    int failed = 0;
    if (w->kind == WAIT) {
        while (!w->mark->done) {
            pthread_cond_wait(&fake_changed, &fake_lock);
        }
    } else if (stream->context->bad == CUDA_SUCCESS && (w->kind == COPY || w->kind == FILL)) {
        pthread_mutex_unlock(&fake_lock);
        if (delay_us > 0) {
            usleep((useconds_t)delay_us);
        }
        failed = w->kind == COPY ? fake_memory_copy(w->to, w->from, w->bytes)
                                 : fake_memory_fill(w->to, w->value, w->bytes);
        pthread_mutex_lock(&fake_lock);
    }
    if (failed) {
        stream->context->bad = CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if (w->kind == MARK) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        w->mark->at_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        w->mark->done = 1;
    }
    drop(w->mark);
    free(w);
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

static int known_stream(CUstream stream) {
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
    if (result == CUDA_SUCCESS && !known_stream(stream)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS) {
        while (stream->first || stream->busy) {
            pthread_cond_wait(&fake_changed, &fake_lock);
        }
        result = stream->context->bad;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* Puts a copy of *w into the stream.  Under the lock. */
static CUresult put(CUstream stream, const work *w) {
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
    pthread_cond_broadcast(&fake_changed);
    return CUDA_SUCCESS;
}

CUresult fake_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && !known_stream(stream)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (result == CUDA_SUCCESS && bytes && (!to || !from)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS && bytes) {
        result = put(stream, &(work){.kind = COPY, .to = to, .from = from, .bytes = bytes});
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
    if (result == CUDA_SUCCESS && !known_stream(stream)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else if (result == CUDA_SUCCESS && count && !fake_memory_fillable(to)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result == CUDA_SUCCESS && count) {
        result = load_fill(stream->context);
    }
    if (result == CUDA_SUCCESS && count) {
        result = put(stream, &(work){.kind = FILL, .to = to, .value = value, .bytes = count});
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* ---- events ---- */

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
        drop(event->mark);
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
        (!known_event(event) || !known_stream(stream) || event->context != stream->context)) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS) {
        mark *m = calloc(1, sizeof *m);
        result = m ? put(stream, &(work){.kind = MARK, .mark = m}) : CUDA_ERROR_OUT_OF_MEMORY;
        if (result == CUDA_SUCCESS) {
            drop(event->mark);
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
    } else if (result == CUDA_SUCCESS && (!known_event(event) || !known_stream(stream))) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS && event->mark) {
        result = put(stream, &(work){.kind = WAIT, .mark = event->mark});
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
