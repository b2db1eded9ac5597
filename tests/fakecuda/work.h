/* Streams, events and the work in them, as stream.c and graph.c see them.  All of it is under fake_lock.
 *
 * While a stream is captured, work goes into the capture instead of the stream.  A capture has lines, one a stream that
 * belongs to it; what a line may take for done is a clock: how many pieces of each line come before. */
#ifndef FAKECUDA_WORK_H
#define FAKECUDA_WORK_H

#include "fake.h"

enum { FAKE_LINES = 16 };

typedef struct fake_clock {
    unsigned done[FAKE_LINES];
} fake_clock;

typedef struct mark {
    int references, done;
    uint64_t at_ns;
} mark;

enum work_kind { COPY, FILL, MARK, WAIT, LAUNCH, GRAPH };

typedef struct work {
    enum work_kind kind;
    unsigned char value;
    uint64_t to, from, bytes;
    mark *mark;
    struct fake_launch *launch; /* counted, as mark and graph are */
    CUgraph graph;
    struct work *next;
    int line;          /* in a capture */
    fake_clock before; /* what must have been done */
} work;

struct CUstream_st {
    struct CUctx_st *context;
    work *first, **last;
    int busy, ending;
    struct CUstream_st *next;
    CUgraph capture; /* NULL: not captured */
    int line;
    fake_clock known;
};

struct CUevent_st {
    struct CUctx_st *context;
    mark *mark; /* NULL: never recorded */
    unsigned flags;
    struct CUevent_st *next;
    CUgraph capture; /* the capture in which it was recorded last, counted */
    fake_clock known;
};

/* A capture, and the graph that it becomes. */
struct CUgraph_st {
    int references;
    struct CUctx_st *context;
    CUstream origin;           /* NULL: the capture is over */
    int lines, invalid, given; /* given: the caller has it as a graph */
    unsigned length[FAKE_LINES];
    uint64_t memory_bytes; /* of allocations in it */
    work **items;
    size_t count, room;
    struct CUgraph_st *next;
};

struct CUgraphExec_st {
    CUgraph graph;
    uint64_t bytes;
    struct CUgraphExec_st *next;
};

/* stream.c */
int fake_known_stream(CUstream stream);
/* Puts a copy of *w into the stream or its capture; 0 lines of it are done yet. */
CUresult fake_put(CUstream stream, const work *w);
/* Gives back what a piece of work holds, and itself. */
void fake_drop_work(work *w);
/* Does one piece of work (copies, fills, launches, graphs) without the lock.  CUDA_SUCCESS, or what the context dies of. */
CUresult fake_do(const work *w);
/* All streams of a capture leave it. */
void fake_capture_leave(CUgraph capture);

/* graph.c */
CUresult fake_capture_add(CUstream stream, const work *w);
void fake_graph_drop(CUgraph graph);
CUresult fake_graph_do(CUgraph graph);

/* module.c */
CUresult fake_module_load(struct CUctx_st *context, const void *image, CUmodule *out);
/* 0, or -1 for one that is none. */
int fake_module_unload(CUmodule module);
/* How long an image is; 0: it is none. */
uint64_t fake_image_bytes(const void *image);
void fake_launch_hold(struct fake_launch *launch);
void fake_launch_drop(struct fake_launch *launch);
CUresult fake_launch_do(const struct fake_launch *launch);

#endif
