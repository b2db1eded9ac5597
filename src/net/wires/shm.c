/* Two rings in shared memory as a stream.
 *
 * The memory is a memfd: it has no name, so nothing is left in /dev/shm whoever dies when.  It is sealed against shrinking, so
 * that no access can fault.  Each ring has one writer and one reader: `head` counts bytes written, `tail` bytes read, and
 * the difference is checked before every use.  Whoever finds nothing to do raises a flag, looks once more, and sleeps on
 * the socket; the other side lowers the flag and sends one byte.  A process that ends closes its socket, which the memory
 * alone would never tell. */
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "net/net.h"
#include "net/socket.h"
#include "net/stream.h"

enum { HEAD_BYTES = 256, LEAST_BYTES = 4096, MOST_BYTES = 1 << 30 };

typedef struct shm_ring {
    _Atomic uint64_t head;
    _Atomic uint32_t reader_sleeps;
    char apart[64 - 12];
    _Atomic uint64_t tail;
    _Atomic uint32_t writer_sleeps;
} shm_ring;

typedef struct shm_stream {
    hri_stream base;
    int fd;
    unsigned char *memory;
    uint64_t memory_bytes, ring_bytes;
    shm_ring *out, *in;
    unsigned char *out_bytes, *in_bytes;
    bool gone; /* the socket has ended */
} shm_stream;

static void ring_bell(shm_stream *s) {
    if (hri_socket_send(s->fd, "b", 1) < 0) {
        s->gone = true;
    }
}

static int64_t shm_send(hri_stream *base, const void *data, size_t bytes) {
    shm_stream *s = (shm_stream *)base;
    const uint64_t head = atomic_load_explicit(&s->out->head, memory_order_relaxed);
    const uint64_t used = head - atomic_load_explicit(&s->out->tail, memory_order_acquire);
    if (used > s->ring_bytes || s->gone || HRI_FAULT(SEND)) {
        return HRI_STREAM_GONE;
    }
    const uint64_t room = s->ring_bytes - used, n = bytes < room ? bytes : room;
    const uint64_t at = head % s->ring_bytes, first = s->ring_bytes - at;
    if (n == 0) {
        return 0;
    }
    memcpy(s->out_bytes + at, data, n < first ? n : first);
    if (n > first) {
        memcpy(s->out_bytes, (const unsigned char *)data + first, n - first);
    }
    atomic_store(&s->out->head, head + n);
    if (atomic_exchange(&s->out->reader_sleeps, 0)) {
        ring_bell(s);
    }
    return (int64_t)n;
}

static int64_t shm_receive(hri_stream *base, void *data, size_t bytes) {
    shm_stream *s = (shm_stream *)base;
    const uint64_t tail = atomic_load_explicit(&s->in->tail, memory_order_relaxed);
    const uint64_t used = atomic_load_explicit(&s->in->head, memory_order_acquire) - tail;
    if (used > s->ring_bytes || (used == 0 && s->gone) || HRI_FAULT(RECEIVE)) {
        return HRI_STREAM_GONE;
    }
    const uint64_t n = bytes < used ? bytes : used;
    const uint64_t at = tail % s->ring_bytes, first = s->ring_bytes - at;
    if (n == 0) {
        return 0;
    }
    memcpy(data, s->in_bytes + at, n < first ? n : first);
    if (n > first) {
        memcpy((unsigned char *)data + first, s->in_bytes, n - first);
    }
    atomic_store(&s->in->tail, tail + n);
    if (atomic_exchange(&s->in->writer_sleeps, 0)) {
        ring_bell(s);
    }
    return (int64_t)n;
}

static bool shm_sleep(hri_stream *base, bool receiving, bool sending, int *fd, short *events) {
    shm_stream *s = (shm_stream *)base;
    *fd = s->gone ? -1 : s->fd;
    *events = POLLIN;
    if (receiving) {
        atomic_store(&s->in->reader_sleeps, 1);
        if (atomic_load(&s->in->head) != atomic_load(&s->in->tail)) {
            return false;
        }
    }
    if (sending) {
        atomic_store(&s->out->writer_sleeps, 1);
        if (atomic_load(&s->out->head) - atomic_load(&s->out->tail) != s->ring_bytes) {
            return false;
        }
    }
    return !(s->gone && (receiving || sending));
}

static void shm_wake(hri_stream *base) {
    shm_stream *s = (shm_stream *)base;
    char bells[64];
    int64_t n;
    do {
        n = hri_socket_receive(s->fd, bells, sizeof bells);
    } while (n == (int64_t)sizeof bells);
    s->gone = s->gone || n < 0;
}

static void shm_close(hri_stream *base) {
    shm_stream *s = (shm_stream *)base;
    if (s->memory) {
        munmap(s->memory, s->memory_bytes);
    }
    close(s->fd);
    hri_free(s);
}

static const hri_stream_ops shm_ops = {shm_send, shm_receive, shm_sleep, shm_wake, shm_close};

static int make_memory(uint64_t bytes) {
    const int fd =
        HRI_FAULT(MAP) ? -1 : memfd_create("headroom-wire", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (ftruncate(fd, (off_t)bytes) != 0 ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool good_memory(int fd, uint64_t bytes) {
    struct stat st;
    return fstat(fd, &st) == 0 && (uint64_t)st.st_size == bytes &&
           (fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK) != 0;
}

static hr_status map_rings(shm_stream *s, bool caller, uint64_t until_ns, hri_prose *why) {
    int fd = caller ? make_memory(s->memory_bytes) : -1;
    if (caller && fd < 0) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "no shared memory of %llu bytes",
                             (unsigned long long)s->memory_bytes);
    }
    hr_status status = caller ? hri_socket_send_fd(s->fd, fd, until_ns)
                              : hri_socket_receive_fd(s->fd, &fd, until_ns);
    if (status != HR_OK) {
        status = hri_prose_set(why, HR_E_PEER, "it ended while the ranks met");
    } else if (!good_memory(fd, s->memory_bytes)) {
        status =
            hri_prose_set(why, HR_E_PEER, "the shared-memory buffers of two ranks differ in size");
    }
    if (status == HR_OK) {
        void *at = HRI_FAULT(MAP)
                       ? MAP_FAILED
                       : mmap(NULL, s->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED) {
            status =
                hri_prose_set(why, HR_E_NOMEM_HOST, "mapping %llu bytes of shared memory failed",
                              (unsigned long long)s->memory_bytes);
        } else {
            s->memory = at;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
    return status;
}

hr_status hri_stream_shm(int fd, bool caller, uint64_t ring_bytes, uint64_t until_ns,
                         hri_stream **out, hri_prose *why) {
    shm_stream *s = hri_calloc(1, sizeof *s);
    if (!s) {
        close(fd);
        return HR_E_NOMEM_HOST;
    }
    *s = (shm_stream){.base = {.ops = &shm_ops}, .fd = fd};
    s->ring_bytes = ring_bytes ? ring_bytes : HRI_NET_RING_BYTES;
    hr_status status = HR_OK;
    if (s->ring_bytes < LEAST_BYTES || s->ring_bytes > MOST_BYTES) {
        status = hri_prose_set(why, HR_E_RANGE, "a ring of %llu bytes: %d to %d are possible",
                               (unsigned long long)s->ring_bytes, LEAST_BYTES, MOST_BYTES);
    }
    s->memory_bytes = 2 * (HEAD_BYTES + s->ring_bytes);
    status = status == HR_OK ? map_rings(s, caller, until_ns, why) : status;
    if (status != HR_OK) {
        shm_close(&s->base);
        return status;
    }
    s->out = (shm_ring *)(void *)(s->memory + (caller ? 0 : HEAD_BYTES));
    s->in = (shm_ring *)(void *)(s->memory + (caller ? HEAD_BYTES : 0));
    s->out_bytes = s->memory + 2 * HEAD_BYTES + (caller ? 0 : s->ring_bytes);
    s->in_bytes = s->memory + 2 * HEAD_BYTES + (caller ? s->ring_bytes : 0);
    *out = &s->base;
    return HR_OK;
}
