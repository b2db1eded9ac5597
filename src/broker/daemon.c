/* See daemon.h. */
#include "broker/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "broker/process.h"
#include "broker/serve.h"

enum { CALLERS = 1000, BUSY_MS = 20, IDLE_MS = 1000, WRITE_MS = 50 };

typedef struct daemon {
    hri_broker broker;
    int listen_fd;
    const char *folder;
    uint64_t written_job, written_ms; /* the last refusal that was written down */
    hri_refusal refusal;
    int count;
    int fds[CALLERS];
    hri_caller *callers[CALLERS];
    struct pollfd polled[CALLERS + 1];
} daemon_state;

static uint64_t now_ms(void) {
    return hri_clock_ns() / 1000000;
}

/* ---- the folder ---- */

hr_status hri_daemon_folder(const char *folder, hri_prose *why) {
    struct stat s;
    if (mkdir(folder, 0700) != 0 && errno != EEXIST) {
        return hri_prose_set(why, HR_E_IO, "cannot create %s: %s", folder, strerror(errno));
    }
    if (lstat(folder, &s) != 0 || !S_ISDIR(s.st_mode) || s.st_uid != getuid() ||
        (s.st_mode & 022)) {
        return hri_prose_set(why, HR_E_INVALID, "%s is not a directory that only you can write to",
                             folder);
    }
    return HR_OK;
}

hr_status hri_daemon_lock(const char *folder, int *out_lock, hri_prose *why) {
    char path[HRI_WIRE_PATH + 32], text[32]; /* the text is for people who look for it */
    hr_status status = hri_daemon_folder(folder, why);
    if (status != HR_OK) {
        return status;
    }
    snprintf(path, sizeof path, "%s/lock", folder);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    const int length = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (fd < 0) {
        return hri_prose_set(why, HR_E_IO, "%s: %s", path, strerror(errno));
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        status = hri_prose_set(why, HR_E_EXISTS, "a broker is already running in %s", folder);
    } else if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)length, 0) != length) {
        status = hri_prose_set(why, HR_E_IO, "%s: %s", path, strerror(errno));
    }
    if (status != HR_OK) {
        close(fd);
        return status;
    }
    *out_lock = fd;
    return HR_OK;
}

static hr_status open_ledger(daemon_state *d, const char *folder, hri_prose *why) {
    char path[HRI_WIRE_PATH + 32];
    snprintf(path, sizeof path, "%s/ledger", folder);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat s;
    void *memory = MAP_FAILED;
    if (fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == getuid() &&
        posix_fallocate(fd, 0, sizeof(hri_grants)) == 0) {
        memory = mmap(NULL, sizeof(hri_grants), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (memory == MAP_FAILED) {
        return hri_prose_set(why, HR_E_IO, "%s cannot be used: %s", path, strerror(errno));
    }
    d->broker.grants = memory;
    if (!hri_grants_restore(d->broker.grants)) {
        hri_grants_init(d->broker.grants);
    }
    return HR_OK;
}

static hr_status open_socket(daemon_state *d, const char *folder, hri_prose *why) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int length = snprintf(at.sun_path, sizeof at.sun_path, "%s/broker", folder);
    if (length < 0 || (size_t)length >= sizeof at.sun_path) {
        return hri_prose_set(why, HR_E_RANGE, "%s is too long for a socket path", folder);
    }
    d->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink(at.sun_path); /* ours: the lock is held */
    if (d->listen_fd < 0 || bind(d->listen_fd, (const struct sockaddr *)&at, sizeof at) != 0 ||
        chmod(at.sun_path, 0600) != 0 || listen(d->listen_fd, 512) != 0) {
        return hri_prose_set(why, HR_E_IO, "%s: %s", at.sun_path, strerror(errno));
    }
    return HR_OK;
}

/* ---- callers ---- */

static void end_caller(daemon_state *d, int i) {
    hri_serve_end(&d->broker, d->callers[i]);
    hri_free(d->callers[i]);
    close(d->fds[i]);
    d->count--;
    d->callers[i] = d->callers[d->count];
    d->fds[i] = d->fds[d->count];
}

static void accept_callers(daemon_state *d) {
    for (;;) {
        const int fd = accept4(d->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        struct ucred peer = {0};
        socklen_t size = sizeof peer;
        if (fd < 0) {
            return;
        }
        hri_caller *caller = NULL;
        if (d->count < CALLERS && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
            peer.uid == getuid()) {
            caller = hri_calloc(1, sizeof *caller);
        }
        if (!caller) {
            close(fd);
            continue;
        }
        caller->pid = peer.pid;
        caller->started = hri_process_started(peer.pid);
        d->fds[d->count] = fd;
        d->callers[d->count++] = caller;
    }
}

/* What was refused is written beside the socket, for headroom why; a program that asks all the time does not make us write all
 * the time. */
static void write_refusal(daemon_state *d, const hri_caller *caller, const hri_wire *answer) {
    const uint64_t now = now_ms();
    if (caller->job == d->written_job && now - d->written_ms < WRITE_MS) {
        return;
    }
    if (!hri_serve_refusal(&d->broker, caller, answer, now, &d->refusal)) {
        return;
    }
    char path[HRI_WIRE_PATH + 64];
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    d->refusal.at_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    snprintf(path, sizeof path, "%s/refused-%llu", d->folder, (unsigned long long)d->refusal.job);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) { /* without it there is less to tell, and nothing else changes */
        if (pwrite(fd, &d->refusal, sizeof d->refusal, 0) == (ssize_t)sizeof d->refusal) {
            d->written_job = caller->job;
            d->written_ms = now;
        }
        close(fd);
    }
}

/* A caller that does not take its answer is a dead one. */
static int give(int fd, const hri_wire *w) {
    return send(fd, w, sizeof *w, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *w ? 0 : -1;
}

/* Neighbours that have idle memory are asked to give it back; those that do not listen are found out elsewhere. */
static void ask_others(daemon_state *d, int asker) {
    for (int i = 0; i < d->count; i++) {
        hri_wire ask;
        if (hri_serve_ask(&d->broker, d->callers[asker], d->callers[i], &ask)) {
            (void)give(d->fds[i], &ask);
        }
    }
}

/* Reads what a caller has sent; -1: its connection ends. */
static int listen_to(daemon_state *d, int i) {
    for (;;) {
        hri_wire w;
        const ssize_t got = recv(d->fds[i], &w, sizeof w, MSG_DONTWAIT | MSG_TRUNC);
        if (got < 0) {
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        }
        if (!hri_wire_check(&w, (size_t)got)) {
            return -1;
        }
        const int say = hri_serve_question(&d->broker, d->callers[i], &w, now_ms());
        if (say > 0) {
            write_refusal(d, d->callers[i], &w);
        }
        if (say < 0 || (say > 0 && give(d->fds[i], &w) != 0)) {
            return -1;
        }
        if (d->callers[i]->waiting) {
            ask_others(d, i);
        }
    }
}

static void take_turns(daemon_state *d) {
    hri_wire w;
    int i;
    while ((i = hri_serve_turn(&d->broker, d->callers, d->count, &w, now_ms())) >= 0) {
        write_refusal(d, d->callers[i], &w);
        if (give(d->fds[i], &w) != 0) {
            end_caller(d, i);
        }
    }
}

static int idle(const daemon_state *d) {
    for (int i = 0; i < HRI_GRANTS_JOBS; i++) {
        if (d->broker.grants->jobs[i].state) {
            return 0;
        }
    }
    return d->count == 0;
}

/* One that was just started is about to be called, however short it lingers afterwards. */
enum { FIRST_MS = 500 };

static void loop(daemon_state *d, uint64_t linger_ms) {
    uint64_t idle_since = now_ms(), patience = linger_ms > FIRST_MS ? linger_ms : FIRST_MS;
    for (;;) {
        const int under_way = hri_serve_look(&d->broker, now_ms());
        take_turns(d);
        d->polled[d->count] = (struct pollfd){.fd = d->listen_fd, .events = POLLIN};
        for (int i = 0; i < d->count; i++) {
            d->polled[i] = (struct pollfd){.fd = d->fds[i], .events = POLLIN};
        }
        const int polled = d->count;
        const int timeout = under_way ? BUSY_MS : patience < IDLE_MS ? (int)patience : IDLE_MS;
        (void)poll(d->polled, (nfds_t)polled + 1, timeout);
        for (int i = polled - 1; i >= 0; i--) { /* backwards: ending one moves the last here */
            if (d->polled[i].revents && listen_to(d, i) != 0) {
                end_caller(d, i);
            }
        }
        if (d->polled[polled].revents) {
            accept_callers(d);
        }
        if (!idle(d)) {
            idle_since = now_ms();
            patience = linger_ms;
        } else if (now_ms() - idle_since >= patience) {
            return;
        }
    }
}

bool hri_daemon_detach(int *out_ready, int *out_code) {
    int ends[2], status = 0;
    char byte;
    *out_ready = -1;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return true; /* as a child then */
    }
    const pid_t pid = fork();
    if (pid <= 0) {
        close(ends[0]);
        *out_ready = ends[1];
        return true;
    }
    close(ends[1]);
    ssize_t got;
    do {
        got = read(ends[0], &byte, 1);
    } while (got < 0 && errno == EINTR);
    close(ends[0]);
    *out_code = 0;
    if (got != 1 && waitpid(pid, &status, 0) == pid) {
        *out_code = WIFEXITED(status) ? WEXITSTATUS(status) : 3;
    }
    return false;
}

static void tell_ready(int ready) {
    if (ready >= 0) {
        ssize_t sent;
        do {
            sent = write(ready, "1", 1);
        } while (sent < 0 && errno == EINTR);
        close(ready);
    }
}

hr_status hri_daemon_run(int lock, const char *folder, const hri_observer *observer,
                         uint64_t linger_ms, int ready, hri_prose *why) {
    daemon_state *d = hri_calloc(1, sizeof *d);
    if (!d) {
        close(lock);
        return HR_E_NOMEM_HOST;
    }
    d->listen_fd = -1;
    d->folder = folder;
    d->broker.observer = observer;
    hr_status status = open_ledger(d, folder, why);
    if (status == HR_OK) {
        status = open_socket(d, folder, why);
    }
    if (status == HR_OK) {
        tell_ready(ready);
        loop(d, linger_ms);
    }
    while (d->count) {
        end_caller(d, d->count - 1);
    }
    if (d->broker.grants) {
        munmap(d->broker.grants, sizeof *d->broker.grants);
    }
    if (d->listen_fd >= 0) {
        close(d->listen_fd);
    }
    close(lock);
    hri_free(d);
    return status;
}
