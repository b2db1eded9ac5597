/* See meeting.h. */
#include "net/meeting.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text.h"

#define SECOND_NS 1000000000ull

enum { HELLO_S = 2, LATER_S = 2, SLICE_MS = 200 };

/* The place where rank 0 listens. */
static void meeting_place(const hri_net_options *o, char out[HRI_PLACE_BYTES], bool *local) {
    const char *meet = o->who.meet;
    *local = meet[0] == '\0' || hri_place_is_loopback(meet);
    if (!*local) {
        snprintf(out, HRI_PLACE_BYTES, "%s", meet);
    } else if (meet[0]) {
        snprintf(out, HRI_PLACE_BYTES, "@headroom-%u-port%s", (unsigned)getuid(),
                 strrchr(meet, ':'));
    } else {
        snprintf(out, HRI_PLACE_BYTES, "@headroom-%u-%s", (unsigned)getuid(), o->who.run);
    }
}

static hr_status take_key(const hri_net_options *o, hri_meeting *m, hri_prose *why) {
    if (o->who.token_file[0]) {
        return hri_token_read(o->who.token_file, m->key, why);
    }
    if (!m->local && !o->open) {
        return hri_prose_set(
            why, HR_E_INVALID,
            "%s can be reached by others: make a token (head -c 32 /dev/urandom > token; "
            "chmod 600 token) and set HEADROOM_TOKEN_FILE on every rank",
            o->who.meet);
    }
    return HR_OK; /* zeros: whoever reaches the socket may join, and on one machine that is the user alone */
}

static void describe(const hri_net_options *o, const char *wire, hri_member *own) {
    *own = (hri_member){.rank = o->who.rank, .size = o->who.size, .pid = (uint32_t)getpid()};
    if (gethostname(own->host, sizeof own->host - 1) != 0) {
        snprintf(own->host, sizeof own->host, "?");
    }
    snprintf(own->device, sizeof own->device, "%s", o->device ? o->device : "");
    snprintf(own->wire, sizeof own->wire, "%s", wire);
}

/* Where this rank accepts others: the loopback, or the address by which it reaches rank 0. */
static hr_status listen_for_links(hri_meeting *m, int reach, hri_member *own, hri_prose *why) {
    char place[HRI_PLACE_BYTES] = "127.0.0.1:0";
    hr_status status = HR_OK;
    if (strcmp(own->wire, "shm") == 0) {
        snprintf(place, sizeof place, "@");
    } else if (!m->local) {
        status = hri_socket_own_place(reach, place);
    }
    return status == HR_OK ? hri_socket_listen(place, &m->listener, own->link, why) : status;
}

/* ---- rank 0 ---- */

static void missing(const hri_meeting *m, uint64_t waited_ns, hri_prose *why) {
    hri_text t = {0};
    uint32_t absent = 0;
    for (uint32_t i = 1; i < m->size; i++) {
        if (m->control[i] < 0 && ++absent <= 8) {
            hri_text_add(&t, "%s%u", absent > 1 ? ", " : "", i);
        }
    }
    hri_prose_set(why, HR_E_PEER, "rank%s %s%s did not connect within %llu s (%u of %u have)",
                  absent > 1 ? "s" : "", hri_text_get(&t), absent > 8 ? ", ..." : "",
                  (unsigned long long)(waited_ns / SECOND_NS), m->size - absent, m->size);
    hri_text_deinit(&t);
}

/* What is wrong with a rank that came; "" when nothing is. */
static void judge(const hri_meeting *m, const hri_member *own, const hri_member *peer,
                  char out[256]) {
    out[0] = '\0';
    if (peer->size != m->size) {
        snprintf(out, 256, "%s counts %u ranks, rank 0 counts %u", peer->name, peer->size, m->size);
    } else if (peer->rank == 0 || peer->rank >= m->size || m->control[peer->rank] >= 0) {
        snprintf(out, 256, "%s is already there or cannot be", peer->name);
    } else if (strcmp(peer->wire, own->wire) != 0) {
        snprintf(out, 256, "%s wants the wire %s, rank 0 %s", peer->name, peer->wire, own->wire);
    }
}

static hr_status receive_one(hri_meeting *m, const hri_member *own, int listener, uint32_t *here,
                             hri_prose *why) {
    int fd;
    hr_status status = hri_socket_accept(listener, &fd);
    if (status != HR_OK) {
        return status == HR_E_AGAIN ? HR_OK : hri_prose_set(why, status, "accepting a rank failed");
    }
    hri_member peer;
    hri_prose ignored = {0};
    status = hri_greet(fd, false, m, own, &peer, hri_clock_ns() + HELLO_S * SECOND_NS, &ignored);
    if (status != HR_OK) {
        close(fd); /* a stranger: the ranks are still awaited */
        return HR_OK;
    }
    char wrong[256];
    judge(m, own, &peer, wrong);
    if (wrong[0]) {
        hri_end_send(fd, 0, 0, HR_E_INVALID, wrong);
        hri_end_leave(m, &fd, 1);
        return hri_prose_set(why, HR_E_PEER, "%s", wrong);
    }
    m->members[peer.rank] = peer;
    m->control[peer.rank] = fd;
    ++*here;
    return HR_OK;
}

/* There will be no run: ranks that are on their way still come in, so that they are told why with the others. */
static void receive_late(hri_meeting *m, const hri_member *own, int listener, uint32_t here) {
    const uint64_t until = hri_clock_ns() + m->grace_ns;
    hri_prose ignored = {0};
    while (here < m->size && hri_clock_ns() < until &&
           hri_socket_wait(listener, POLLIN, until) == HR_OK &&
           receive_one(m, own, listener, &here, &ignored) == HR_OK) {
    }
}

static hr_status host_meeting(hri_meeting *m, const char *place, hri_member *own, uint64_t begun_ns,
                              uint64_t until_ns, hri_prose *why) {
    int listener = -1;
    char at[HRI_PLACE_BYTES];
    uint32_t here = 1;
    hr_status status = hri_socket_listen(place, &listener, at, why);
    status = status == HR_OK ? listen_for_links(m, listener, own, why) : status;
    while (status == HR_OK && here < m->size) {
        const uint64_t now = hri_clock_ns(), slice = now + SLICE_MS * 1000000ull;
        if (now >= until_ns) {
            missing(m, now - begun_ns, why);
            status = HR_E_PEER;
            break;
        }
        status = hri_socket_wait(listener, POLLIN, slice < until_ns ? slice : until_ns);
        status = status == HR_OK        ? receive_one(m, own, listener, &here, why)
                 : status == HR_E_AGAIN ? HR_OK
                                        : status;
        status = status == HR_OK ? hri_meeting_still_here(m, m->control, why) : status;
        if (status == HR_E_PEER) {
            receive_late(m, own, listener, here);
        }
    }
    if (listener >= 0) {
        close(listener);
    }
    if (status == HR_OK && m->local && m->key[0] == 0) {
        status = hri_random_bytes(m->key, sizeof m->key);
    }
    status = status == HR_OK ? hri_random_bytes(&m->epoch, sizeof m->epoch) : status;
    unsigned char own_record[HRI_MEMBER_BYTES];
    hri_member_encode(own, own_record);
    status = status == HR_OK ? hri_member_decode(own_record, &m->members[0]) : status;
    for (uint32_t i = 1; i < m->size && status == HR_OK; i++) {
        for (uint32_t k = 0; k < m->size && status == HR_OK; k++) {
            unsigned char record[HRI_MEMBER_BYTES];
            if (m->local) {
                memcpy(m->members[k].key, m->key, sizeof m->key);
            }
            hri_member_encode(&m->members[k], record);
            const hri_frame f = {.kind = HRI_FRAME_TABLE,
                                 .to = i,
                                 .epoch = m->epoch,
                                 .number = k,
                                 .bytes = sizeof record};
            status = hri_frame_send(m->control[i], &f, record, until_ns);
            status = status == HR_OK ? HR_OK : hri_meeting_lost(m, m->control, i, why);
        }
    }
    return status;
}

/* ---- the others ---- */

static hr_status read_table(hri_meeting *m, uint64_t until_ns, hri_prose *why) {
    for (uint32_t i = 0; i < m->size; i++) {
        unsigned char record[HRI_MEMBER_BYTES + 1] = {0};
        hri_frame f;
        const hr_status status =
            hri_frame_receive(m->control[0], &f, record, HRI_MEMBER_BYTES, until_ns);
        hri_net_end end;
        if (status == HR_OK && hri_end_of(&f, record, &end)) {
            return hri_prose_set(why, HR_E_PEER, "%s", end.text);
        }
        if (status != HR_OK || f.kind != HRI_FRAME_TABLE || f.number != i ||
            f.bytes != HRI_MEMBER_BYTES || hri_member_decode(record, &m->members[i]) != HR_OK ||
            m->members[i].rank != i) {
            return status == HR_E_AGAIN
                       ? hri_prose_set(why, HR_E_PEER,
                                       HRI_FIRST_GONE "it did not report in time who has connected")
                       : hri_prose_set(why, HR_E_PEER,
                                       HRI_FIRST_GONE "it ended while the ranks met");
        }
        m->epoch = f.epoch;
        if (m->local) {
            memcpy(m->key, m->members[i].key, sizeof m->key);
        }
    }
    return HR_OK;
}

static hr_status attend(hri_meeting *m, const char *place, hri_member *own, uint64_t until_ns,
                        hri_prose *why) {
    hri_prose said = {0};
    hr_status status = hri_socket_connect(place, until_ns, &m->control[0], &said);
    if (status != HR_OK) {
        return status == HR_E_PEER ? hri_prose_set(why, HR_E_PEER, HRI_FIRST_GONE "%s", said.text)
                                   : hri_prose_set(why, status, "%s", said.text);
    }
    hri_member host;
    until_ns += LATER_S *
                SECOND_NS; /* rank 0 knows who is missing: its word comes before our time is over */
    status = listen_for_links(m, m->control[0], own, why);
    if (status == HR_OK) {
        status = hri_greet(m->control[0], true, m, own, &host, until_ns, &said);
        if (status != HR_OK) {
            return hri_prose_set(why, status == HR_E_INVALID ? status : HR_E_PEER,
                                 "%srank 0 at %s: %s", status == HR_E_INVALID ? "" : HRI_FIRST_GONE,
                                 place,
                                 said.text[0] ? said.text : "it ended, or is no rank of ours");
        }
    }
    return status == HR_OK ? read_table(m, until_ns, why) : status;
}

/* ---- links ---- */

/* Did rank 0 (or, at rank 0, anybody) say something, or end?  Then the meeting has failed. */
static hr_status trouble(const hri_meeting *m, int wait_ms, hri_prose *why) {
    if (m->rank == 0) {
        return hri_meeting_still_here(m, m->control, why);
    }
    struct pollfd p = {.fd = m->control[0], .events = POLLIN | POLLRDHUP};
    if (poll(&p, 1, wait_ms) <= 0) {
        return HR_OK;
    }
    return hri_meeting_first_lost(m, m->control[0], hri_clock_ns() + SECOND_NS, why);
}

static hr_status accept_link(hri_meeting *m, const hri_member *own, uint32_t *left,
                             uint64_t until_ns, hri_prose *why) {
    int fd = -1;
    hri_member peer;
    hri_prose ignored = {0};
    hr_status status = hri_socket_wait(m->listener, POLLIN, hri_clock_ns() + SLICE_MS * 1000000ull);
    status = status == HR_OK ? hri_socket_accept(m->listener, &fd) : status;
    if (status == HR_E_AGAIN) {
        if (hri_clock_ns() < until_ns) {
            return HR_OK;
        }
        uint32_t absent = m->rank + 1;
        while (absent < m->size && m->links[absent] >= 0) {
            absent++;
        }
        return hri_prose_set(why, HR_E_PEER, "%s did not connect", m->members[absent].name);
    }
    if (status != HR_OK) {
        return hri_prose_set(why, status, "accepting a rank failed");
    }
    status = hri_greet(fd, false, m, own, &peer, hri_clock_ns() + HELLO_S * SECOND_NS, &ignored);
    if (status != HR_OK || peer.rank <= m->rank || peer.rank >= m->size ||
        m->links[peer.rank] >= 0) {
        close(fd);
        return HR_OK;
    }
    m->links[peer.rank] = fd;
    --*left;
    return HR_OK;
}

static hr_status connect_links(hri_meeting *m, const hri_member *own, uint64_t until_ns,
                               hri_prose *why) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < m->rank && status == HR_OK; i++) {
        hri_prose said = {0};
        hri_member peer;
        status = hri_socket_connect(m->members[i].link, until_ns, &m->links[i], &said);
        status =
            status == HR_OK ? hri_greet(m->links[i], true, m, own, &peer, until_ns, &said) : status;
        if (status != HR_OK && trouble(m, 1000, why) == HR_OK) {
            hri_prose_set(why, status, "%s cannot be reached%s%s", m->members[i].name,
                          said.text[0] ? ": " : "", said.text);
        }
        status = status == HR_OK ? HR_OK : HR_E_PEER;
    }
    uint32_t left = m->size - 1 - m->rank;
    while (status == HR_OK && left) {
        status = accept_link(m, own, &left, until_ns, why);
        status = status == HR_OK ? trouble(m, 0, why) : status;
    }
    return status;
}

/* Nobody begins before everybody has all connections: what is said on the star means an end until then. */
static hr_status begin_together(hri_meeting *m, uint64_t until_ns, hri_prose *why) {
    hr_status status = HR_OK;
    hri_frame f = {.kind = HRI_FRAME_TABLE, .from = m->rank, .number = m->size};
    for (uint32_t i = 1; m->rank == 0 && i < m->size && status == HR_OK; i++) {
        status = hri_meeting_ready(m, i, until_ns, why);
    }
    for (uint32_t i = 1; m->rank == 0 && i < m->size && status == HR_OK; i++) {
        status = hri_frame_send(m->control[i], &f, NULL, until_ns);
        status = status == HR_OK ? HR_OK : hri_meeting_lost(m, m->control, i, why);
    }
    if (m->rank == 0) {
        return status;
    }
    status = hri_frame_send(m->control[0], &f, NULL, until_ns);
    unsigned char room[HRI_MEMBER_BYTES];
    hri_net_end end;
    status = status == HR_OK ? hri_frame_receive(m->control[0], &f, room, sizeof room, until_ns)
                             : status;
    if (status == HR_OK && !hri_end_of(&f, room, &end)) {
        return HR_OK;
    }
    return status == HR_OK
               ? hri_prose_set(why, HR_E_PEER, "%s", end.text)
               : hri_meeting_first_lost(m, m->control[0], hri_clock_ns() + SECOND_NS, why);
}

void hri_meeting_deinit(hri_meeting *m) {
    for (uint32_t i = 0; i < m->size; i++) {
        if (m->control && m->control[i] >= 0) {
            close(m->control[i]);
        }
        if (m->links && m->links[i] >= 0) {
            close(m->links[i]);
        }
    }
    if (m->listener >= 0) {
        close(m->listener);
    }
    hri_free(m->members);
    hri_free(m->control);
    hri_free(m->links);
    *m = (hri_meeting){.listener = -1};
}

hr_status hri_meeting_prepare(const hri_net_options *o, const char *wire, hri_meeting *out,
                              hri_member *own, char place[HRI_PLACE_BYTES], hri_prose *why) {
    hri_meeting m = {.rank = o->who.rank, .size = o->who.size, .listener = -1};
    if (m.size > HRI_MEETING_RANKS) {
        return hri_prose_set(why, HR_E_RANGE, "%u ranks: this wire connects %d at most", m.size,
                             HRI_MEETING_RANKS);
    }
    const uint64_t silence = o->deadline_ns ? o->deadline_ns : HRI_NET_DEADLINE_S * SECOND_NS;
    m.grace_ns = silence / 2 < SECOND_NS ? silence / 2 : SECOND_NS;
    meeting_place(o, place, &m.local);
    snprintf(m.run, sizeof m.run, "%s", o->who.run);
    hr_status status = take_key(o, &m, why);
    if (status == HR_OK && !m.local && strcmp(wire, "shm") == 0) {
        status =
            hri_prose_set(why, HR_E_INVALID,
                          "shm needs all ranks on one machine, and they meet at %s", o->who.meet);
    }
    m.members = hri_calloc(m.size, sizeof *m.members);
    m.control = hri_malloc(m.size * sizeof(int));
    m.links = hri_malloc(m.size * sizeof(int));
    status = status != HR_OK || (m.members && m.control && m.links) ? status : HR_E_NOMEM_HOST;
    for (uint32_t i = 0; m.control && m.links && i < m.size; i++) {
        m.control[i] = m.links[i] = -1;
    }
    describe(o, wire, own);
    if (status != HR_OK) {
        hri_meeting_deinit(&m);
        return status;
    }
    *out = m;
    return HR_OK;
}

hr_status hri_meeting_open(const hri_net_options *o, const char *wire, bool links, hri_meeting *out,
                           hri_prose *why) {
    hri_meeting m;
    hri_member own;
    char place[HRI_PLACE_BYTES];
    hr_status status = hri_meeting_prepare(o, wire, &m, &own, place, why);
    if (status != HR_OK) {
        return status;
    }
    const uint64_t now = hri_clock_ns();
    const uint64_t silence = o->deadline_ns ? o->deadline_ns : HRI_NET_DEADLINE_S * SECOND_NS;
    const uint64_t until = now + (o->meet_ns ? o->meet_ns : HRI_NET_MEET_TIMES * silence);
    status = m.rank == 0 ? host_meeting(&m, place, &own, now, until, why)
                         : attend(&m, place, &own, until, why);
    if (status == HR_OK && links) {
        status = connect_links(&m, &m.members[m.rank], hri_clock_ns() + silence, why);
        status = status == HR_OK ? begin_together(&m, hri_clock_ns() + silence, why) : status;
    }
    if (status != HR_OK) {
        for (uint32_t i = 0; i < m.size; i++) {
            if (m.control[i] >= 0) {
                hri_end_send(m.control[i], m.epoch, m.rank, status, why ? why->text : NULL);
            }
        }
        hri_end_leave(&m, m.control, m.size);
        hri_meeting_deinit(&m);
        return status;
    }
    close(m.listener);
    m.listener = -1;
    *out = m;
    return HR_OK;
}
