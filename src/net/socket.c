/* See socket.h. */
#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"

enum { BACKLOG = 512, AGAIN_MS = 20, USER_TIMEOUT_MS = 30000 };

typedef struct place {
    struct sockaddr_storage at;
    socklen_t bytes;
} place;

/* "host:port" or "[v6]:port"; the host goes into `host`. */
static bool split(const char *text, char host[256], const char **port) {
    const char *colon = strrchr(text, ':');
    const size_t length = colon ? (size_t)(colon - text) : 0;
    if (!colon || length == 0 || length >= 256) {
        return false;
    }
    memcpy(host, text, length);
    host[length] = '\0';
    if (host[0] == '[' && host[length - 1] == ']') {
        memmove(host, host + 1, length - 2);
        host[length - 2] = '\0';
    }
    *port = colon + 1;
    return true;
}

bool hri_place_is_loopback(const char *text) {
    char host[256];
    const char *port;
    if (text[0] == '@') {
        return true;
    }
    return split(text, host, &port) && (strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
                                        strcmp(host, "localhost") == 0);
}

static hr_status resolve(const char *text, place *out, hri_prose *why) {
    memset(out, 0, sizeof *out);
    if (text[0] == '@') {
        struct sockaddr_un *un = (struct sockaddr_un *)&out->at;
        const size_t length = strlen(text + 1);
        if (length + 1 > sizeof un->sun_path) {
            return hri_prose_set(why, HR_E_INVALID, "the run's name is too long: %s", text + 1);
        }
        un->sun_family = AF_UNIX;
        memcpy(un->sun_path + 1, text + 1, length); /* a NUL first: no file */
        out->bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
        out->bytes = length ? out->bytes : (socklen_t)sizeof(sa_family_t);
        return HR_OK;
    }
    char host[256];
    const char *port;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    if (!split(text, host, &port)) {
        return hri_prose_set(why, HR_E_INVALID, "%s is not HOST:PORT", text);
    }
    const int code = HRI_FAULT(MEET) ? EAI_AGAIN : getaddrinfo(host, port, &hints, &list);
    if (code != 0) {
        return hri_prose_set(why, HR_E_NOT_FOUND, "%s: %s", text, gai_strerror(code));
    }
    memcpy(&out->at, list->ai_addr, list->ai_addrlen);
    out->bytes = list->ai_addrlen;
    freeaddrinfo(list);
    return HR_OK;
}

static int open_socket(int family) {
    const int fd =
        HRI_FAULT(MEET) ? -1 : socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return fd;
}

static void settle(int fd, int family) {
    const int one = 1, timeout = USER_TIMEOUT_MS;
    if (family != AF_UNIX) { /* hints: a failure changes speed, not results */
        (void)!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        (void)!setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
    }
}

static hr_status print_place(int fd, bool port_too, char out[HRI_PLACE_BYTES]) {
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &bytes) != 0) {
        return HR_E_IO;
    }
    if (at.ss_family == AF_UNIX) {
        const struct sockaddr_un *un = (const struct sockaddr_un *)&at;
        const int length = (int)(bytes - offsetof(struct sockaddr_un, sun_path)) - 1;
        snprintf(out, HRI_PLACE_BYTES, "@%.*s", length > 0 ? length : 0, un->sun_path + 1);
        return HR_OK;
    }
    char host[128], port[16];
    if (getnameinfo((struct sockaddr *)&at, bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return HR_E_IO;
    }
    snprintf(out, HRI_PLACE_BYTES, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host,
             port_too ? port : "0");
    return HR_OK;
}

hr_status hri_socket_own_place(int fd, char out[HRI_PLACE_BYTES]) {
    return print_place(fd, false, out);
}

hr_status hri_socket_listen(const char *text, int *out_fd, char out_place[HRI_PLACE_BYTES],
                            hri_prose *why) {
    place p;
    const int one = 1;
    hr_status status = resolve(text, &p, why);
    if (status != HR_OK) {
        return status;
    }
    const int fd = open_socket(p.at.ss_family);
    if (fd >= 0 && p.at.ss_family != AF_UNIX) {
        (void)!setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    }
    if (fd < 0 || HRI_FAULT(MEET) || bind(fd, (struct sockaddr *)&p.at, p.bytes) != 0 ||
        listen(fd, BACKLOG) != 0 || print_place(fd, true, out_place) != HR_OK) {
        const int code = errno;
        if (fd >= 0) {
            close(fd);
        }
        return hri_prose_set(why, code == EADDRINUSE ? HR_E_BUSY : HR_E_IO,
                             "listening at %s failed: %s%s", text, strerror(code),
                             code == EADDRINUSE ? "; another run may use it" : "");
    }
    *out_fd = fd;
    return HR_OK;
}

/* Of a UNIX socket: is the other side the same user? */
static bool same_user(int fd) {
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &bytes) != 0) {
        return false;
    }
    struct ucred who;
    socklen_t length = sizeof who;
    return at.ss_family != AF_UNIX ||
           (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == geteuid());
}

hr_status hri_socket_wait(int fd, short events, uint64_t until_ns) {
    for (;;) {
        const uint64_t now = hri_clock_ns();
        const uint64_t left = until_ns > now ? (until_ns - now) / 1000000 + 1 : 0;
        struct pollfd p = {.fd = fd, .events = events};
        const int n = poll(&p, 1, left > 1000 ? 1000 : (int)left);
        if (n > 0) {
            return HR_OK;
        }
        if ((n < 0 && errno != EINTR) || left == 0) {
            return n < 0 ? HR_E_IO : HR_E_AGAIN;
        }
    }
}

/* One try.  HR_E_AGAIN: nobody listens there yet. */
static hr_status connect_once(const place *p, uint64_t until_ns, int *out_fd) {
    const int fd = open_socket(p->at.ss_family);
    if (fd < 0) {
        return HR_E_IO;
    }
    int code = HRI_FAULT(MEET)                                               ? EHOSTUNREACH
               : connect(fd, (const struct sockaddr *)&p->at, p->bytes) == 0 ? 0
                                                                             : errno;
    if (code == EINPROGRESS) {
        socklen_t length = sizeof code;
        if (hri_socket_wait(fd, POLLOUT, until_ns) != HR_OK ||
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &length) != 0) {
            code = ETIMEDOUT;
        }
    }
    if (code == 0 && same_user(fd)) {
        settle(fd, p->at.ss_family);
        *out_fd = fd;
        return HR_OK;
    }
    close(fd);
    return code == 0 ? HR_E_INVALID
           : code == ECONNREFUSED || code == EAGAIN || code == ETIMEDOUT || code == EHOSTUNREACH
               ? HR_E_AGAIN
               : HR_E_IO;
}

hr_status hri_socket_connect(const char *text, uint64_t until_ns, int *out_fd, hri_prose *why) {
    place p;
    hr_status status = resolve(text, &p, why);
    if (status != HR_OK) {
        return status;
    }
    for (;;) {
        status = connect_once(&p, until_ns, out_fd);
        if (status != HR_E_AGAIN) {
            break;
        }
        if (hri_clock_ns() >= until_ns) {
            return hri_prose_set(why, HR_E_PEER, "nobody answers at %s", text);
        }
        poll(NULL, 0, AGAIN_MS);
    }
    return status == HR_E_INVALID ? hri_prose_set(why, status, "%s belongs to another user", text)
           : status != HR_OK
               ? hri_prose_set(why, status, "connecting to %s failed: %s", text, strerror(errno))
               : HR_OK;
}

hr_status hri_socket_accept(int listener, int *out_fd) {
    struct sockaddr_storage at;
    socklen_t bytes = sizeof at;
    const int fd = HRI_FAULT(MEET) ? (errno = EMFILE, -1)
                                   : accept4(listener, (struct sockaddr *)&at, &bytes,
                                             SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR ? HR_E_AGAIN : HR_E_IO;
    }
    if (!same_user(fd)) {
        close(fd);
        return HR_E_AGAIN;
    }
    settle(fd, at.ss_family);
    *out_fd = fd;
    return HR_OK;
}

static int64_t result(ssize_t n, bool receiving) {
    if (n > 0) {
        return n;
    }
    if (n == 0) {
        return receiving ? HRI_SOCKET_GONE : 0;
    }
    return errno == EAGAIN || errno == EINTR ? 0 : HRI_SOCKET_GONE;
}

int64_t hri_socket_send(int fd, const void *data, size_t bytes) {
    return HRI_FAULT(SEND) ? HRI_SOCKET_GONE
                           : result(send(fd, data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT), false);
}

int64_t hri_socket_receive(int fd, void *data, size_t bytes) {
    return HRI_FAULT(RECEIVE) ? HRI_SOCKET_GONE : result(recv(fd, data, bytes, MSG_DONTWAIT), true);
}

hr_status hri_socket_send_all(int fd, const void *data, size_t bytes, uint64_t until_ns) {
    for (size_t done = 0; done < bytes;) {
        const int64_t n = hri_socket_send(fd, (const unsigned char *)data + done, bytes - done);
        if (n < 0) {
            return HR_E_PEER;
        }
        done += (size_t)n;
        if (n == 0) {
            const hr_status status = hri_socket_wait(fd, POLLOUT, until_ns);
            if (status != HR_OK) {
                return status;
            }
        }
    }
    return HR_OK;
}

hr_status hri_socket_receive_all(int fd, void *data, size_t bytes, uint64_t until_ns) {
    for (size_t done = 0; done < bytes;) {
        const int64_t n = hri_socket_receive(fd, (unsigned char *)data + done, bytes - done);
        if (n < 0) {
            return HR_E_PEER;
        }
        done += (size_t)n;
        if (n == 0) {
            const hr_status status = hri_socket_wait(fd, POLLIN, until_ns);
            if (status != HR_OK) {
                return status;
            }
        }
    }
    return HR_OK;
}

/* ---- descriptors ---- */

typedef union fd_room {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(sizeof(int))];
} fd_room;

hr_status hri_socket_send_fd(int fd, int what, uint64_t until_ns) {
    char byte = 'f';
    fd_room room = {0};
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {.msg_iov = &piece,
                       .msg_iovlen = 1,
                       .msg_control = room.bytes,
                       .msg_controllen = sizeof room.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof what);
    memcpy(CMSG_DATA(c), &what, sizeof what);
    hr_status status = hri_socket_wait(fd, POLLOUT, until_ns);
    if (status == HR_OK && (HRI_FAULT(SEND) || sendmsg(fd, &m, MSG_NOSIGNAL) != 1)) {
        status = HR_E_PEER;
    }
    return status;
}

hr_status hri_socket_receive_fd(int fd, int *what, uint64_t until_ns) {
    char byte;
    fd_room room = {0};
    struct iovec piece = {.iov_base = &byte, .iov_len = 1};
    struct msghdr m = {.msg_iov = &piece,
                       .msg_iovlen = 1,
                       .msg_control = room.bytes,
                       .msg_controllen = sizeof room.bytes};
    const hr_status status = hri_socket_wait(fd, POLLIN, until_ns);
    if (status != HR_OK) {
        return status;
    }
    if (HRI_FAULT(RECEIVE) || recvmsg(fd, &m, MSG_CMSG_CLOEXEC) != 1) {
        return HR_E_PEER;
    }
    const struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
        c->cmsg_len != CMSG_LEN(sizeof *what)) {
        return HR_E_FORMAT;
    }
    memcpy(what, CMSG_DATA(c), sizeof *what);
    return HR_OK;
}
