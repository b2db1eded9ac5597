/* Stream capture and graphs of the fake driver.
 *
 * A capture keeps every piece of work with its line and with the clock that must have been reached before it.  Replays
 * run one piece at a time, but not in the order of capture: lines other than the first run as late as their clocks
 * allow, or as early (FAKECUDA_ORDER=reverse), so that an event that somebody forgot shows as a wrong result. */
#include "work.h"

#include <stdlib.h>
#include <string.h>

static CUgraph graphs; /* given to callers and not destroyed; under fake_lock, as all here */
static CUgraphExec executables;

void fake_graph_drop(CUgraph graph) {
    if (--graph->references > 0) {
        return;
    }
    for (size_t i = 0; i < graph->count; i++) {
        fake_drop_work(graph->items[i]);
    }
    free(graph->items);
    free(graph);
}

CUresult fake_capture_add(CUstream stream, const work *w) {
    CUgraph c = stream->capture;
    if (c->invalid) {
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    if (c->count == c->room) {
        const size_t room = c->room ? 2 * c->room : 64;
        work **items = realloc(c->items, room * sizeof *items);
        if (!items) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        c->items = items;
        c->room = room;
    }
    work *copy = malloc(sizeof *copy);
    if (!copy) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *copy = *w;
    copy->line = stream->line;
    copy->before = stream->known;
    if (copy->launch) {
        fake_launch_hold(copy->launch);
    }
    if (copy->graph) {
        copy->graph->references++;
    }
    c->items[c->count++] = copy;
    stream->known.done[stream->line] = ++c->length[stream->line];
    return CUDA_SUCCESS;
}

CUresult fake_cuStreamBeginCapture(CUstream stream) {
    return fake_cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
}

/* A graph that is built node by node; only allocations are looked at. */
CUresult fake_cuGraphCreate(CUgraph *out, unsigned int flags) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    CUgraph g = result == CUDA_SUCCESS && out && !flags ? calloc(1, sizeof *g) : NULL;
    if (g) {
        g->references = 1;
        g->context = context;
        g->lines = 1;
        g->given = 1;
        g->next = graphs;
        graphs = g;
        fake_live.graphs++;
        *out = g;
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                             size_t count, CUgraphNodeParams *parameters) {
    return parameters && parameters->type == 10
               ? fake_cuGraphAddMemAllocNode(out, graph, dependencies, count, &parameters->alloc)
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult fake_cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                                const void *edges, size_t count, CUgraphNodeParams *parameters) {
    return edges ? CUDA_ERROR_INVALID_VALUE
                 : fake_cuGraphAddNode(out, graph, dependencies, count, parameters);
}

/* Into `into`, or into a graph of its own. */
static CUresult begin_capture(CUstream stream, CUgraph into, CUstreamCaptureMode mode) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && ((unsigned)mode > 2 || !fake_known_stream(stream))) {
        result = (unsigned)mode > 2 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS && stream->capture) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    CUgraph c = result == CUDA_SUCCESS && !into ? calloc(1, sizeof *c) : NULL;
    if (result == CUDA_SUCCESS && into) {
        into->origin = stream;
        stream->capture = into;
        stream->line = 0;
        stream->known = (fake_clock){{0}};
        stream->known.done[0] = into->length[0];
    } else if (c) {
        c->references = 1;
        c->context = context;
        c->origin = stream;
        c->lines = 1;
        stream->capture = c;
        stream->line = 0;
        stream->known = (fake_clock){{0}};
    } else if (result == CUDA_SUCCESS) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
    return begin_capture(stream, NULL, mode);
}

/* Since 12.3: the graph is the caller's; its nodes are the beginning. */
CUresult fake_cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                          const CUgraphNode *dependencies, const void *edges,
                                          size_t count, CUstreamCaptureMode mode) {
    pthread_mutex_lock(&fake_lock);
    CUgraph known = graphs;
    while (known && known != graph) {
        known = known->next;
    }
    pthread_mutex_unlock(&fake_lock);
    return !known || known->origin || (count && !dependencies) || edges
               ? CUDA_ERROR_INVALID_VALUE
               : begin_capture(stream, graph, mode);
}

CUresult fake_cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && (!graph || !fake_known_stream(stream) || !stream->capture)) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (result == CUDA_SUCCESS && stream->capture->origin != stream) {
        result = CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    }
    if (result == CUDA_SUCCESS) {
        CUgraph c = stream->capture;
        for (int i = 1; i < c->lines; i++) {
            if (stream->known.done[i] < c->length[i]) {
                result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
            }
        }
        if (c->invalid) {
            result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
        }
        c->origin = NULL;
        fake_capture_leave(c);
        if (c->given) { /* it was the caller's all the time */
            c->invalid = 0;
            *graph = result == CUDA_SUCCESS ? c : NULL;
        } else if (result == CUDA_SUCCESS) {
            c->given = 1;
            c->next = graphs;
            graphs = c;
            fake_live.graphs++;
            *graph = c;
        } else {
            fake_graph_drop(c);
            *graph = NULL;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuStreamIsCapturing(CUstream stream, int *status) {
    if (!status) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    *status = stream && fake_known_stream(stream) && stream->capture != NULL;
    pthread_mutex_unlock(&fake_lock);
    return CUDA_SUCCESS;
}

CUresult fake_cuGraphDestroy(CUgraph graph) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    CUgraph *at = &graphs;
    while (*at && *at != graph) {
        at = &(*at)->next;
    }
    if (!*at) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (result != CUDA_ERROR_INVALID_CONTEXT) {
        *at = graph->next;
        fake_live.graphs--;
        fake_graph_drop(graph);
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

static CUgraphExec *find_executable(CUgraphExec executable) {
    CUgraphExec *at = &executables;
    while (*at && *at != executable) {
        at = &(*at)->next;
    }
    return at;
}

enum { AUTO_FREE = 1, UPLOAD = 2, DEVICE_LAUNCH = 4, NODE_PRIORITY = 8 };

/* Under the lock. */
static CUresult instantiate(CUgraphExec *executable, CUgraph graph, unsigned long long flags) {
    struct CUctx_st *context;
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && (!executable || !graph || flags > 2 * NODE_PRIORITY - 1)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    CUgraphExec made = result == CUDA_SUCCESS ? calloc(1, sizeof *made) : NULL;
    if (result == CUDA_SUCCESS) {
        const uint64_t bytes = (graph->count * 512 + 65535) / 65536 * 65536 +
                               fake_env_bytes("FAKECUDA_GRAPH_BYTES", 0);
        if (!made || fake_state_take(context->device, bytes) != 0) {
            free(made);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        } else {
            made->bytes = bytes;
            made->graph = graph;
            graph->references++;
            made->next = executables;
            executables = made;
            fake_live.graphs++;
            *executable = made;
        }
    }
    return result;
}

CUresult fake_cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                          unsigned long long flags) {
    pthread_mutex_lock(&fake_lock);
    const CUresult result = flags & UPLOAD ? CUDA_ERROR_INVALID_VALUE /* wants a stream */
                                           : instantiate(executable, graph, flags);
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* The old forms have room for words about what is wrong. */
CUresult fake_cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, CUgraphNode *error,
                                 char *text, size_t bytes) {
    const CUresult result = fake_cuGraphInstantiateWithFlags(executable, graph, 0);
    if (error) {
        *error = NULL;
    }
    if (text && bytes) {
        *text = '\0';
    }
    return result;
}

CUresult fake_cuGraphInstantiate_v2(CUgraphExec *executable, CUgraph graph, CUgraphNode *error,
                                    char *text, size_t bytes) {
    return fake_cuGraphInstantiate(executable, graph, error, text, bytes);
}

/* Since 12.0: with UPLOAD its memory is taken at once. */
CUresult fake_cuGraphInstantiateWithParams(CUgraphExec *executable, CUgraph graph,
                                           CUDA_GRAPH_INSTANTIATE_PARAMS *p) {
    if (!p) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&fake_lock);
    CUresult result = p->flags & UPLOAD && !fake_known_stream(p->hUploadStream)
                          ? CUDA_ERROR_INVALID_HANDLE
                          : instantiate(executable, graph, p->flags);
    pthread_mutex_unlock(&fake_lock);
    if (result == CUDA_SUCCESS && p->flags & UPLOAD) {
        result = fake_cuGraphUpload(*executable, p->hUploadStream);
        if (result != CUDA_SUCCESS) {
            (void)fake_cuGraphExecDestroy(*executable);
        }
    }
    p->hErrNode_out = NULL;
    p->result_out = result == CUDA_SUCCESS ? 0 : 1;
    return result;
}

void fake_graphs_end(const struct CUctx_st *context) {
    for (CUgraphExec e = executables; e; e = e->next) {
        if (e->graph->context == context) {
            fake_state_give(context->device, e->bytes);
            e->bytes = 0;
        }
    }
}

CUresult fake_cuGraphUpload(CUgraphExec executable, CUstream stream) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && (!*find_executable(executable) || !fake_known_stream(stream))) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS && fake_graph_memory(executable->graph->context->device,
                                                    executable->graph->memory_bytes) != 0) {
        result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuGraphLaunch(CUgraphExec executable, CUstream stream) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    if (result == CUDA_SUCCESS && (!*find_executable(executable) || !fake_known_stream(stream))) {
        result = CUDA_ERROR_INVALID_HANDLE;
    }
    if (result == CUDA_SUCCESS) {
        result = fake_graph_memory(executable->graph->context->device,
                                   executable->graph->memory_bytes) == 0
                     ? fake_put(stream, &(work){.kind = GRAPH, .graph = executable->graph})
                     : CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

CUresult fake_cuGraphExecDestroy(CUgraphExec executable) {
    struct CUctx_st *context;
    pthread_mutex_lock(&fake_lock);
    CUresult result = fake_current(&context);
    CUgraphExec *at = find_executable(executable);
    if (!*at) {
        result = CUDA_ERROR_INVALID_VALUE;
    } else if (result != CUDA_ERROR_INVALID_CONTEXT) {
        *at = executable->next;
        fake_state_give(executable->graph->context->device, executable->bytes);
        fake_graph_drop(executable->graph);
        free(executable);
        fake_live.graphs--;
    }
    pthread_mutex_unlock(&fake_lock);
    return result;
}

/* ---- per-thread streams: the default stream is none here, so they are the same ---- */

CUresult fake_cuGraphLaunch_ptsz(CUgraphExec executable, CUstream stream) {
    return fake_cuGraphLaunch(executable, stream);
}
CUresult fake_cuGraphUpload_ptsz(CUgraphExec executable, CUstream stream) {
    return fake_cuGraphUpload(executable, stream);
}
CUresult fake_cuGraphInstantiateWithParams_ptsz(CUgraphExec *executable, CUgraph graph,
                                                CUDA_GRAPH_INSTANTIATE_PARAMS *p) {
    return fake_cuGraphInstantiateWithParams(executable, graph, p);
}
CUresult fake_cuStreamBeginCapture_ptsz(CUstream stream) {
    return fake_cuStreamBeginCapture(stream);
}
CUresult fake_cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode) {
    return fake_cuStreamBeginCapture_v2(stream, mode);
}
CUresult fake_cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
                                               const CUgraphNode *dependencies, const void *edges,
                                               size_t count, CUstreamCaptureMode mode) {
    return fake_cuStreamBeginCaptureToGraph(stream, graph, dependencies, edges, count, mode);
}
CUresult fake_cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph) {
    return fake_cuStreamEndCapture(stream, graph);
}

/* ---- replaying ---- */

static int ready(const work *w, const unsigned *done) {
    for (int i = 0; i < FAKE_LINES; i++) {
        if (w->before.done[i] > done[i]) {
            return 0;
        }
    }
    return 1;
}

CUresult fake_graph_do(CUgraph graph) {
    const char *order = getenv("FAKECUDA_ORDER");
    const int reverse = order && strcmp(order, "reverse") == 0;
    size_t at[FAKE_LINES]; /* the next piece of each line */
    unsigned done[FAKE_LINES] = {0};
    for (int i = 0; i < FAKE_LINES; i++) {
        at[i] = 0;
    }
    for (size_t left = graph->count; left > 0; left--) {
        const work *next = NULL;
        for (int i = 0; i < graph->lines && !next; i++) {
            const int line = reverse ? graph->lines - 1 - i : i;
            while (at[line] < graph->count && graph->items[at[line]]->line != line) {
                at[line]++;
            }
            if (at[line] < graph->count && ready(graph->items[at[line]], done)) {
                next = graph->items[at[line]++];
                done[line]++;
            }
        }
        const CUresult result = next ? fake_do(next) : CUDA_ERROR_LAUNCH_FAILED;
        if (result != CUDA_SUCCESS) {
            return result;
        }
    }
    return CUDA_SUCCESS;
}
