/* MPI messages as streams: one in flight each way between two ranks, through bands of our own, which the plan counts.
 *
 * All calls after the opening come from the mesh's thread.  MPI says nothing when a rank is gone: the star does, and then the
 * library is left as it is, since finalising would wait for the dead. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "net/mpi_min.h"
#include "net/net.h"
#include "net/stream.h"

enum { TAG = 4711, LENGTH_BYTES = 8, LAST_MS = 100 };

typedef struct mpi_stream {
    hri_stream base;
    const hri_mpi *mpi;
    int peer;
    uint64_t out_request, in_request; /* slots of any handle */
    bool out_busy, in_busy;
    uint64_t in_bytes, in_taken; /* of the band that came */
    unsigned char *out, *in;     /* LENGTH_BYTES and the band */
} mpi_stream;

static bool done(mpi_stream *s, uint64_t *request) {
    int flag = 0;
    return s->mpi->test(request, &flag, s->mpi->status_ignore) == 0 && flag;
}

static int64_t mpi_send(hri_stream *base, const void *data, size_t bytes) {
    mpi_stream *s = (mpi_stream *)base;
    if (s->out_busy && !done(s, &s->out_request)) {
        return 0;
    }
    s->out_busy = false;
    const uint64_t n = bytes < HRI_NET_BAND_BYTES ? bytes : HRI_NET_BAND_BYTES;
    memcpy(s->out, &n, sizeof n);
    memcpy(s->out + LENGTH_BYTES, data, n);
    if (HRI_FAULT(SEND) || s->mpi->isend(s->out, (int)(LENGTH_BYTES + n), s->mpi->byte, s->peer,
                                         TAG, s->mpi->world, &s->out_request) != 0) {
        return HRI_STREAM_GONE;
    }
    s->out_busy = true;
    return (int64_t)n;
}

static int64_t mpi_receive(hri_stream *base, void *data, size_t bytes) {
    mpi_stream *s = (mpi_stream *)base;
    if (s->in_taken == s->in_bytes) {
        if (!s->in_busy) {
            if (HRI_FAULT(RECEIVE) ||
                s->mpi->irecv(s->in, LENGTH_BYTES + HRI_NET_BAND_BYTES, s->mpi->byte, s->peer, TAG,
                              s->mpi->world, &s->in_request) != 0) {
                return HRI_STREAM_GONE;
            }
            s->in_busy = true;
        }
        if (!done(s, &s->in_request)) {
            return 0;
        }
        s->in_busy = false;
        s->in_taken = 0;
        memcpy(&s->in_bytes, s->in, sizeof s->in_bytes);
        if (s->in_bytes == 0 || s->in_bytes > HRI_NET_BAND_BYTES) {
            s->in_bytes = 0;
            return HRI_STREAM_GONE;
        }
    }
    const uint64_t left = s->in_bytes - s->in_taken, n = bytes < left ? bytes : left;
    memcpy(data, s->in + LENGTH_BYTES + s->in_taken, n);
    s->in_taken += n;
    return (int64_t)n;
}

static bool mpi_sleep(hri_stream *base, bool receiving, bool sending, int *fd, short *events) {
    (void)base;
    (void)receiving;
    (void)sending;
    *fd = -1; /* MPI has nothing to sleep on */
    *events = 0;
    return true;
}

static void mpi_wake(hri_stream *base) {
    (void)base;
}

static bool ends(mpi_stream *s, uint64_t *request) {
    for (int i = 0; i < LAST_MS; i++) {
        if (done(s, request)) {
            return true;
        }
        poll(NULL, 0, 1);
    }
    return false;
}

/* A band of a message that never ends belongs to the library for good, and is left to it. */
static void mpi_close(hri_stream *base) {
    mpi_stream *s = (mpi_stream *)base;
    if (!s->out_busy || ends(s, &s->out_request)) {
        hri_free(s->out);
    }
    if (!s->in_busy || (s->mpi->cancel(&s->in_request) == 0 && ends(s, &s->in_request))) {
        hri_free(s->in);
    }
    hri_free(s);
}

static const hri_stream_ops mpi_ops = {mpi_send, mpi_receive, mpi_sleep, mpi_wake, mpi_close};

hr_status hri_stream_mpi(const hri_mpi *mpi, uint32_t peer, hri_stream **out) {
    mpi_stream *s = hri_calloc(1, sizeof *s);
    if (!s) {
        return HR_E_NOMEM_HOST;
    }
    *s = (mpi_stream){.base = {.ops = &mpi_ops}, .mpi = mpi, .peer = (int)peer};
    s->out = hri_malloc(LENGTH_BYTES + HRI_NET_BAND_BYTES);
    s->in = hri_malloc(LENGTH_BYTES + HRI_NET_BAND_BYTES);
    if (!s->out || !s->in) {
        mpi_close(&s->base);
        return HR_E_NOMEM_HOST;
    }
    *out = &s->base;
    return HR_OK;
}

/* Open MPI yields the processor in every MPI_Test where ranks outnumber cores, which on a busy machine costs each time what all others
 * want of it; we pause between looks ourselves (mesh_turn.c).  Who has set it has a reason. */
static void let_us_pause(const hri_mpi *mpi) {
    if (strcmp(mpi->abi, "Open MPI") == 0) {
        (void)!setenv("OMPI_MCA_mpi_yield_when_idle", "0", 0);
    }
}

hr_status hri_mpi_start(const hri_mpi *mpi, uint32_t rank, uint32_t size, hri_prose *why) {
    int flag = 0, provided = 0, own = 0, all = 0;
    if (mpi->finalized(&flag) != 0 || flag) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "%s was ended in this process before",
                             mpi->name);
    }
    let_us_pause(mpi);
    if (mpi->initialized(&flag) != 0 ||
        (!flag && mpi->init_thread(NULL, NULL, mpi->thread_serialized, &provided) != 0)) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "%s: MPI_Init_thread failed", mpi->name);
    }
    if (!flag && provided < mpi->thread_serialized) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "%s gives thread level %d, %d is needed",
                             mpi->name, provided, mpi->thread_serialized);
    }
    if (mpi->comm_rank(mpi->world, &own) != 0 || mpi->comm_size(mpi->world, &all) != 0 ||
        own != (int)rank || all != (int)size) {
        return hri_prose_set(why, HR_E_INVALID,
                             "%s says rank %d of %d, the launcher rank %u of %u: this is not the "
                             "library of the launcher",
                             mpi->name, own, all, rank, size);
    }
    return HR_OK;
}
