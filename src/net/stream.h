/* One connection of two ranks as the mesh sees it: bytes in order, both ways, never blocking. */
#ifndef HRI_NET_STREAM_H
#define HRI_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>
#include "base/prose.h"
#include "net/mpi_min.h"

enum { HRI_STREAM_GONE = -1 };

typedef struct hri_stream hri_stream;

typedef struct hri_stream_ops {
    /* How many bytes went; 0: none now; HRI_STREAM_GONE: the other side is gone and nothing is left to receive. */
    int64_t (*send)(hri_stream *s, const void *data, size_t bytes);
    int64_t (*receive)(hri_stream *s, void *data, size_t bytes);
    /* Before the thread sleeps: false when there is something to do at once.  Otherwise the descriptor and events that
     * will wake it; *fd -1: none, look again soon. */
    bool (*sleep)(hri_stream *s, bool receiving, bool sending, int *fd, short *events);
    /* The descriptor has something. */
    void (*wake)(hri_stream *s);
    void (*close)(hri_stream *s);
} hri_stream_ops;

struct hri_stream {
    const hri_stream_ops *ops;
};

/* Both take the descriptor, also when they fail. */
HR_MUST_CHECK hr_status hri_stream_tcp(int fd, hri_stream **out);
/* A pair of rings in memory without a name, made by the caller and passed over the UNIX socket, which rings the bell and ends
 * when a process does. */
HR_MUST_CHECK hr_status hri_stream_shm(int fd, bool caller, uint64_t ring_bytes, uint64_t until_ns,
                                       hri_stream **out, hri_prose *why);
HR_MUST_CHECK hr_status hri_stream_mpi(const hri_mpi *mpi, uint32_t peer, hri_stream **out);

#endif
