/* Ends of the meeting: what a rank says that will not go on, and whose words are told.
 *
 * A rank that fails tells its reason and closes.  Others may learn of that first in any other way: a write fails, a connection
 * between two of them ends, a third rank says that it cannot reach it.  So whoever loses a rank first reads what that rank has
 * still said, and waits grace_ns for it: a reason of its own comes before a rank that has left without a word, and that one before
 * what others saw of it. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/meeting.h"

#define MS UINT64_C(1000000)

enum { SEND_MS = 200, SLICE_MS = 200 };

/* In the order in which they count. */
typedef enum heard { NOTHING, SEEN_BY_OTHERS, SILENT, OWN_REASON } heard;

typedef struct finding {
    heard kind;
    char text[256];
} finding;

void hri_end_pack(const hri_net_end *end, unsigned char out[HRI_END_BYTES]) {
    memset(out, 0, HRI_END_BYTES);
    memcpy(out, &end->rank, 4);
    const int32_t status = end->status;
    memcpy(out + 4, &status, 4);
    memcpy(out + 8, end->text, sizeof end->text);
    out[HRI_END_BYTES - 1] = '\0';
}

bool hri_end_of(const hri_frame *f, const unsigned char *payload, hri_net_end *end) {
    int32_t status;
    if ((f->kind != HRI_FRAME_END && f->kind != HRI_FRAME_CAUSE) || f->bytes != HRI_END_BYTES) {
        return false;
    }
    memcpy(&end->rank, payload, 4);
    memcpy(&status, payload + 4, 4);
    end->status = status < 0 && status >= HR_E_PEER ? (hr_status)status : HR_E_PEER;
    for (size_t i = 0; i < sizeof end->text; i++) {
        const unsigned char c = payload[8 + i];
        end->text[i] = (char)(c == 0 || (c >= 32 && c < 127) ? c : '?');
    }
    end->text[sizeof end->text - 1] = '\0';
    return true;
}

void hri_end_send(int fd, uint32_t epoch, uint32_t from, hr_status status, const char *text) {
    unsigned char packed[HRI_END_BYTES];
    hri_net_end end = {.rank = (int32_t)from, .status = status};
    snprintf(end.text, sizeof end.text, "%s", text && *text ? text : hr_status_text(status));
    hri_end_pack(&end, packed);
    const hri_frame f = {.kind = from ? HRI_FRAME_CAUSE : HRI_FRAME_END,
                         .from = from,
                         .epoch = epoch,
                         .bytes = sizeof packed};
    (void)!hri_frame_send(fd, &f, packed, hri_clock_ns() + SEND_MS * MS);
}

void hri_end_leave(const hri_meeting *m, int *fds, uint32_t count) {
    char unread[512];
    const uint64_t until = hri_clock_ns() + m->grace_ns / 2;
    for (uint32_t i = 0; i < count; i++) {
        if (fds[i] >= 0) {
            (void)!shutdown(fds[i], SHUT_WR);
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        int64_t n = fds[i] < 0 ? HRI_SOCKET_GONE : 0;
        while (n >= 0 && hri_socket_wait(fds[i], POLLIN, until) == HR_OK) {
            n = hri_socket_receive(fds[i], unread, sizeof unread);
        }
        if (fds[i] >= 0) {
            close(fds[i]);
            fds[i] = -1;
        }
    }
}

/* ---- rank 0 ---- */

static finding silent(const hri_meeting *m, uint32_t rank) {
    finding f = {.kind = SILENT};
    snprintf(f.text, sizeof f.text, "%s ended while the ranks met", m->members[rank].name);
    return f;
}

static finding said(const hri_net_end *end) {
    finding f = {.kind = end->status == HR_E_PEER ? SEEN_BY_OTHERS : OWN_REASON};
    memcpy(f.text, end->text, sizeof f.text);
    return f;
}

/* The next frame of a rank, as far as it says something of an end. */
static finding hear_one(const hri_meeting *m, uint32_t rank, int fd, uint64_t until_ns) {
    unsigned char room[HRI_MEMBER_BYTES];
    hri_frame f;
    hri_net_end end;
    const hr_status status = hri_frame_receive(fd, &f, room, sizeof room, until_ns);
    return status == HR_E_AGAIN         ? (finding){.kind = NOTHING}
           : status != HR_OK            ? silent(m, rank)
           : hri_end_of(&f, room, &end) ? said(&end)
                                        : (finding){.kind = NOTHING};
}

/* Everybody's words, until one counts. */
static void collect(const hri_meeting *m, const int *control, finding *best) {
    struct pollfd polls[HRI_MEETING_RANKS];
    const uint64_t until = hri_clock_ns() + m->grace_ns;
    for (uint32_t i = 0; i < m->size; i++) {
        polls[i] = (struct pollfd){.fd = i ? control[i] : -1, .events = POLLIN | POLLRDHUP};
    }
    for (uint64_t now = hri_clock_ns(); best->kind < SILENT && now < until; now = hri_clock_ns()) {
        if (poll(polls, m->size, (int)((until - now) / MS) + 1) < 0 && errno != EINTR) {
            return;
        }
        for (uint32_t i = 1; i < m->size; i++) {
            if (polls[i].fd < 0 || !polls[i].revents) {
                continue;
            }
            const finding f = hear_one(m, i, polls[i].fd, until);
            polls[i].fd = f.kind == NOTHING ? polls[i].fd : -1;
            *best = f.kind > best->kind ? f : *best;
        }
    }
}

hr_status hri_meeting_lost(const hri_meeting *m, const int *control, uint32_t rank,
                           hri_prose *why) {
    finding best = silent(m, rank);
    best.kind = NOTHING;
    collect(m, control, &best);
    return hri_prose_set(why, HR_E_PEER, "%s", best.text);
}

hr_status hri_meeting_still_here(const hri_meeting *m, const int *control, hri_prose *why) {
    for (uint32_t i = 1; i < m->size; i++) {
        struct pollfd p = {.fd = control[i], .events = POLLRDHUP};
        if (control[i] >= 0 && poll(&p, 1, 0) > 0) {
            return hri_meeting_lost(m, control, i, why);
        }
    }
    return HR_OK;
}

hr_status hri_meeting_ready(const hri_meeting *m, uint32_t rank, uint64_t until_ns,
                            hri_prose *why) {
    hr_status status = HR_E_AGAIN;
    while (status == HR_E_AGAIN && hri_clock_ns() < until_ns) {
        status = hri_meeting_still_here(m, m->control, why);
        if (status != HR_OK) {
            return status;
        }
        status = hri_socket_wait(m->control[rank], POLLIN, hri_clock_ns() + SLICE_MS * MS);
    }
    finding best = {.kind = NOTHING};
    if (status == HR_OK) {
        best = hear_one(m, rank, m->control[rank], until_ns);
    }
    if (status == HR_OK && best.kind == NOTHING) {
        return HR_OK;
    }
    if (best.kind == NOTHING) {
        return hri_prose_set(why, HR_E_PEER, "%s did not connect to the others in time",
                             m->members[rank].name);
    }
    if (best.kind != OWN_REASON) {
        best.kind = SEEN_BY_OTHERS; /* another's reason counts more */
        collect(m, m->control, &best);
    }
    return hri_prose_set(why, HR_E_PEER, "%s", best.text);
}

/* ---- the others ---- */

hr_status hri_meeting_first_lost(const hri_meeting *m, int fd, uint64_t until_ns, hri_prose *why) {
    unsigned char room[HRI_MEMBER_BYTES];
    hri_frame f;
    hri_net_end end;
    while (hri_frame_receive(fd, &f, room, sizeof room, until_ns) == HR_OK) {
        if (hri_end_of(&f, room, &end)) {
            return hri_prose_set(why, HR_E_PEER, "%s", end.text);
        }
    }
    return hri_prose_set(why, HR_E_PEER, HRI_FIRST_GONE "%s ended while the ranks met",
                         m->members[0].name);
}
