/* See client.h. */
#include "broker/client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"

hr_status hri_client_open(const char *folder, hri_client *out, hri_prose *why) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int length = snprintf(at.sun_path, sizeof at.sun_path, "%s/broker", folder);
    if (length < 0 || (size_t)length >= sizeof at.sun_path) {
        return hri_prose_set(why, HR_E_RANGE, "%s is too long for a socket path", folder);
    }
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return hri_prose_set(why, HR_E_IO, "no socket: %s", strerror(errno));
    }
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    if (connect(fd, (const struct sockaddr *)&at, sizeof at) != 0) {
        const int error = errno;
        close(fd);
        return hri_prose_set(why, HR_E_NOT_FOUND, "no broker at %s: %s", at.sun_path,
                             strerror(error));
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != getuid()) {
        close(fd);
        return hri_prose_set(why, HR_E_INVALID, "the broker at %s is another user's", at.sun_path);
    }
    *out = (hri_client){.fd = fd};
    return HR_OK;
}

void hri_client_close(hri_client *client) {
    if (client->fd >= 0) {
        close(client->fd);
        client->fd = -1;
    }
}

hr_status hri_client_hear(hri_client *client, hri_wire *wire, uint64_t timeout_ms) {
    const uint64_t until = hri_clock_ns() / 1000000 + timeout_ms;
    for (;;) {
        const uint64_t now = hri_clock_ns() / 1000000;
        struct pollfd p = {.fd = client->fd, .events = POLLIN};
        const int ready = poll(&p, 1, until > now ? (int)(until - now) : 0);
        if (ready < 0 && errno == EINTR) {
            return HR_E_AGAIN; /* a signal: the caller decides */
        }
        if (ready == 0) {
            return HR_E_AGAIN;
        }
        hri_wire w;
        const ssize_t got = recv(client->fd, &w, sizeof w, MSG_DONTWAIT | MSG_TRUNC);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            continue;
        }
        if (got <= 0 || !hri_wire_check(&w, (size_t)got)) {
            return HR_E_IO;
        }
        if (w.id == client->next_id) {
            *wire = w;
            return HR_OK;
        }
    }
}

hr_status hri_client_ask(hri_client *client, hri_wire *wire, uint64_t timeout_ms) {
    ssize_t sent;
    wire->id = ++client->next_id;
    do {
        sent = send(client->fd, wire, sizeof *wire, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *wire ? hri_client_hear(client, wire, timeout_ms) : HR_E_IO;
}
