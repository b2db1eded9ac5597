/* The conversation with the broker; see govern.h and broker/wire.h.
 *
 * The socket belongs to the program as every descriptor does: the program may close it, and may then have another file
 * under its number.  So it is kept at a high number, closed on exec, and its inode is looked at before each use. */
#include "interpose/govern.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { HIGH_DESCRIPTOR = 640, SLICE_MS = 50, RETURN_MS = 3000, ANSWER_MS = 5000 };

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static void hang_up(bool ours) {
    if (ours) {
        close(hri_self.socket);
    }
    hri_self.socket = -1;
}

/* Is the descriptor still our socket? */
static bool intact(void) {
    struct stat s;
    if (hri_self.socket < 0) {
        return false;
    }
    if (fstat(hri_self.socket, &s) == 0 && s.st_ino == hri_self.socket_inode &&
        S_ISSOCK(s.st_mode)) {
        return true;
    }
    hang_up(false);
    return false;
}

static int dial(void) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int length = snprintf(at.sun_path, sizeof at.sun_path, "%s/broker", hri_self.folder);
    if (length < 0 || (size_t)length >= sizeof at.sun_path) {
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    const int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_DESCRIPTOR);
    if (high >= 0) {
        close(fd);
        fd = high;
    }
    struct stat s;
    struct ucred peer;
    socklen_t size = sizeof peer;
    int refused;
    do {
        refused = connect(fd, (const struct sockaddr *)&at, sizeof at);
    } while (refused && errno == EINTR);
    if (refused || fstat(fd, &s) != 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != getuid()) {
        close(fd);
        return -1;
    }
    hri_self.socket = fd;
    hri_self.socket_inode = s.st_ino;
    return 0;
}

static int tell(const hri_wire *w) {
    ssize_t sent;
    do {
        sent = send(hri_self.socket, w, sizeof *w, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *w ? 0 : -1;
}

/* 1: a packet; 0: nothing within timeout_ms; -1: the broker is gone. */
static int hear(hri_wire *out, int timeout_ms) {
    struct pollfd p = {.fd = hri_self.socket, .events = POLLIN};
    const int ready = poll(&p, 1, timeout_ms);
    if (ready <= 0) {
        return ready == 0 || errno == EINTR ? 0 : -1;
    }
    hri_wire w;
    const ssize_t got = recv(hri_self.socket, &w, sizeof w, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (got <= 0 || !hri_wire_check(&w, (size_t)got)) {
        return -1;
    }
    *out = w;
    return 1;
}

static uint64_t asked[HRI_RUN_DEVICES]; /* size to shrink to, plus one; 0: not asked.  Under talk */

static void note_ask(const hri_wire *w) {
    for (int i = 0; i < HRI_RUN_DEVICES; i++) {
        if (hri_self.device[i].known && !memcmp(hri_self.device[i].uuid, w->uuid, 16)) {
            asked[i] = w->granted_bytes + 1;
        }
    }
}

/* Would the request fit into the lease as it is now? */
static bool fits_now(int device, uint64_t need) {
    hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.lock);
    const uint64_t held = hri_held_bytes(d) + d->ahead_bytes;
    const bool fits = need && held <= d->granted_bytes && need <= d->granted_bytes - held;
    pthread_mutex_unlock(&hri_self.lock);
    return fits;
}

/* Sends and waits for the answer.  A wait that has become needless is cancelled. */
static int ask(hri_wire *w, uint64_t wait_ms, int device, uint64_t need) {
    const uint64_t until = now_ms() + wait_ms + ANSWER_MS;
    bool cancelled = false;
    w->id = ++hri_self.next_id;
    if (tell(w) != 0) {
        return -1;
    }
    for (;;) {
        hri_wire got;
        const int heard = hear(&got, SLICE_MS);
        if (heard < 0 || (heard == 0 && now_ms() > until)) {
            return -1;
        }
        if (heard && got.verb == HRI_VERB_ASK) {
            note_ask(&got);
        } else if (heard && got.id == w->id && got.verb == w->verb) {
            *w = got;
            return 0;
        }
        if (!cancelled && fits_now(device, need)) {
            hri_wire end = hri_wire_make(HRI_VERB_CANCEL);
            cancelled = tell(&end) == 0;
        }
    }
}

/* The remainder is what NVML shows beyond the bytes that were told with the question.  When another thread took or gave some
 * meanwhile, the difference is in it.  So it becomes smaller only when nobody did, and larger by what is sure to be: bytes are
 * taken before the driver takes them and given after it gave them, so what was taken since the question is not remainder.
 * Under lock. */
static uint64_t remainder_now(const hri_run_device *d, const hri_wire *w) {
    if (hri_self.moment != UINT64_MAX && hri_moment() == hri_self.moment) {
        return w->remainder_bytes;
    }
    const uint64_t since = d->tracked_bytes > w->held_bytes ? d->tracked_bytes - w->held_bytes : 0;
    const uint64_t sure = w->remainder_bytes > since ? w->remainder_bytes - since : 0;
    return sure > d->remainder_bytes ? sure : d->remainder_bytes;
}

/* What an answer says about a device. */
static void learn(int device, const hri_wire *w) {
    hri_run_device *d = &hri_self.device[device];
    pthread_mutex_lock(&hri_self.lock);
    d->granted_bytes = w->granted_bytes;
    d->limit_bytes = w->limit_bytes;
    d->free_bytes = w->free_bytes;
    d->slack_bytes = w->slack_bytes;
    if (!(w->flags & HRI_WIRE_NO_PIDS)) {
        d->remainder_bytes = remainder_now(d, w);
    }
    d->unsure_bytes =
        d->remainder_bytes > w->remainder_bytes ? d->remainder_bytes - w->remainder_bytes : 0;
    pthread_mutex_unlock(&hri_self.lock);
}

int hri_talk_open(void) {
    if (intact()) {
        return 0;
    }
    if (dial() != 0) {
        return -1;
    }
    hri_wire w = hri_wire_make(HRI_VERB_PROCESS);
    w.job = hri_self.job;
    hri_wire_name(&w, program_invocation_short_name);
    if (ask(&w, 0, 0, 0) != 0 || w.said != HRI_SAID_OK) {
        hang_up(true);
        return -1;
    }
    hri_self.flags = w.flags;
    for (int i = 0; i < HRI_RUN_DEVICES; i++) {
        hri_run_device *d = &hri_self.device[i];
        if (d->known) { /* a broker that was started anew learns what we have */
            w = hri_wire_make(HRI_VERB_DEVICE);
            memcpy(w.uuid, d->uuid, sizeof w.uuid);
            hri_self.moment = hri_moment();
            pthread_mutex_lock(&hri_self.lock);
            w.held_bytes = d->tracked_bytes;
            w.granted_bytes = d->granted_bytes;
            w.remainder_bytes = d->remainder_bytes;
            w.total_bytes = d->total_bytes;
            w.spilled_bytes = d->spilled_bytes;
            memcpy(w.cause_bytes, d->cause_bytes, sizeof w.cause_bytes);
            pthread_mutex_unlock(&hri_self.lock);
            if (ask(&w, 0, i, 0) != 0 || w.said != HRI_SAID_OK) {
                hang_up(true);
                return -1;
            }
            learn(i, &w);
        }
    }
    return 0;
}

/* While the broker is away `headroom run` starts another one: a growing program gives it a moment. */
static int find_broker(bool patient) {
    const uint64_t until = now_ms() + RETURN_MS;
    while (hri_talk_open() != 0) {
        if (!patient || now_ms() >= until) {
            return -1;
        }
        const struct timespec moment = {.tv_nsec = 20000000};
        nanosleep(&moment, NULL);
    }
    return 0;
}

int hri_talk(hri_wire *w, uint64_t wait_ms, int device, uint64_t need) {
    const hri_wire question = *w;
    for (int attempt = 0; attempt < 3; attempt++) {
        if (find_broker(!hri_self.captures) != 0) {
            return -1;
        }
        *w = question;
        if (ask(w, wait_ms, device, need) == 0) {
            if ((w->verb == HRI_VERB_DEVICE && w->said == HRI_SAID_OK) ||
                w->verb == HRI_VERB_LEASE) {
                learn(device, w);
            }
            return w->said == HRI_SAID_OK || w->verb == HRI_VERB_LEASE ? 0 : -1;
        }
        hang_up(intact());
    }
    return -1;
}

uint64_t hri_talk_asked(int device) {
    uint64_t size = UINT64_MAX;
    if (pthread_mutex_trylock(&hri_self.talk) != 0) {
        return size; /* somebody talks: the next call will see it */
    }
    hri_wire w;
    int heard = intact() ? hear(&w, 0) : 0;
    while (heard > 0) {
        if (w.verb == HRI_VERB_ASK) {
            note_ask(&w);
        }
        heard = hear(&w, 0);
    }
    if (heard < 0) {
        hang_up(true);
    }
    if (asked[device]) {
        size = asked[device] - 1;
        asked[device] = 0;
    }
    pthread_mutex_unlock(&hri_self.talk);
    return size;
}
