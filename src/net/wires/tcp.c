/* A TCP connection as a stream. */
#include <poll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "net/socket.h"
#include "net/stream.h"

typedef struct tcp_stream {
    hri_stream base;
    int fd;
} tcp_stream;

static int64_t tcp_send(hri_stream *s, const void *data, size_t bytes) {
    return hri_socket_send(((tcp_stream *)s)->fd, data, bytes);
}

static int64_t tcp_receive(hri_stream *s, void *data, size_t bytes) {
    return hri_socket_receive(((tcp_stream *)s)->fd, data, bytes);
}

static bool tcp_sleep(hri_stream *s, bool receiving, bool sending, int *fd, short *events) {
    *events = (short)((receiving ? POLLIN : 0) | (sending ? POLLOUT : 0));
    *fd = *events ? ((tcp_stream *)s)->fd : -1;
    return true;
}

static void tcp_wake(hri_stream *s) {
    (void)s;
}

static void tcp_close(hri_stream *s) {
    close(((tcp_stream *)s)->fd);
    hri_free(s);
}

static const hri_stream_ops tcp_ops = {tcp_send, tcp_receive, tcp_sleep, tcp_wake, tcp_close};

hr_status hri_stream_tcp(int fd, hri_stream **out) {
    tcp_stream *t = hri_calloc(1, sizeof *t);
    if (!t) {
        close(fd);
        return HR_E_NOMEM_HOST;
    }
    *t = (tcp_stream){.base = {.ops = &tcp_ops}, .fd = fd};
    *out = &t->base;
    return HR_OK;
}
