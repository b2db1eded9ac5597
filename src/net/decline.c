/* A rank that will not come to the meeting says so; see net.h. */
#include <poll.h>
#include <stdio.h>

#include <unistd.h>

#include "base/clock.h"
#include "net/meeting.h"

#define HELLO_NS 2000000000u

/* Rank 0: one rank that came is told. */
static bool tell_one(hri_meeting *m, const hri_member *own, int listener, const char *said) {
    int fd;
    hri_member peer;
    hri_prose ignored = {0};
    if (hri_socket_accept(listener, &fd) != HR_OK) {
        return false;
    }
    const bool one =
        hri_greet(fd, false, m, own, &peer, hri_clock_ns() + HELLO_NS, &ignored) == HR_OK;
    if (one) {
        hri_end_send(fd, 0, 0, HR_E_INVALID, said);
    }
    hri_end_leave(m, &fd, 1);
    return one;
}

static void tell_all(hri_meeting *m, const hri_member *own, const char *place, const char *said,
                     uint64_t until_ns) {
    int listener = -1;
    char at[HRI_PLACE_BYTES];
    hri_prose ignored = {0};
    if (hri_socket_listen(place, &listener, at, &ignored) != HR_OK) {
        return;
    }
    for (uint32_t told = 1; told < m->size;) {
        if (hri_socket_wait(listener, POLLIN, until_ns) != HR_OK) {
            break;
        }
        told += tell_one(m, own, listener, said) ? 1 : 0;
    }
    close(listener);
}

/* The others tell rank 0, which tells all. */
static void tell_first(hri_meeting *m, const hri_member *own, const char *place, const char *said,
                       uint64_t until_ns) {
    hri_member host;
    hri_prose ignored = {0};
    hr_status status = HR_E_PEER;
    while (status == HR_E_PEER && hri_clock_ns() < until_ns) { /* rank 0 may be busy and give up */
        int fd = -1;
        status = hri_socket_connect(place, until_ns, &fd, &ignored);
        if (status != HR_OK) {
            return;
        }
        status = hri_greet(fd, true, m, own, &host, until_ns, &ignored);
        if (status == HR_OK) {
            hri_end_send(fd, 0, m->rank, HR_E_INVALID, said);
        }
        hri_end_leave(m, &fd, 1);
    }
}

void hri_net_decline(const hri_net_options *o, const char *text, uint64_t wait_ns) {
    hri_meeting m;
    hri_member own;
    hri_prose ignored = {0};
    char place[HRI_PLACE_BYTES], said[256];
    const uint64_t until_ns = hri_clock_ns() + wait_ns;
    if (o->who.size < 2 ||
        hri_meeting_prepare(o, hri_net_wire_of(o), &m, &own, place, &ignored) != HR_OK) {
        return;
    }
    snprintf(said, sizeof said, "rank %u (%s, process %u): %s", m.rank, own.host, own.pid, text);
    if (m.rank == 0) {
        tell_all(&m, &own, place, said, until_ns);
    } else {
        tell_first(&m, &own, place, said, until_ns);
    }
    hri_meeting_deinit(&m);
}
