/* See watch.h. */
#include "govern/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* ---- the door ---- */

/* Whether the job is in the ledger: a broker that was started anew has those that were in, and none of those who waited. */
static bool is_known(hri_link *link, uint64_t job) {
    hri_wire row;
    for (uint32_t r = 0; job && hri_link_row(link, r, &row) == HR_OK; r++) {
        if ((row.flags & HRI_WIRE_ROW_JOB) && row.job == job) {
            return true;
        }
    }
    return false;
}

hr_status hri_run_enter(hri_link *link, hri_door_job *job, uint64_t wait_ms, hr_wait_fn *on_wait,
                        void *user) {
    enum { TRIES = 3 };
    const uint64_t until = hri_clock_ns() / 1000000 + wait_ms;
    hr_status status = hri_door_enter(&link->client, job, wait_ms, on_wait, user);
    for (int i = 0; i < TRIES && status == HR_E_IO; i++) {
        hri_prose why = {0};
        hri_link_close(link);
        if (hri_link_open(link, &why) != HR_OK) {
            return HR_E_IO;
        }
        const uint64_t now = hri_clock_ns() / 1000000;
        job->id = is_known(link, job->id) ? job->id : 0;
        status = hri_door_enter(&link->client, job, until > now ? until - now : 0, on_wait, user);
    }
    return status;
}

/* ---- the program ---- */

static int start(char *const *argv, char *const *environment, const sigset_t *mask, pid_t *out) {
    posix_spawnattr_t attributes;
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE); /* which this program ignores, and the other need not */
    sigaddset(&defaults, SIGXFSZ);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setsigmask(&attributes, mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    const int failed = posix_spawnp(out, argv[0], NULL, &attributes, argv, environment);
    posix_spawnattr_destroy(&attributes);
    return failed;
}

/* The broker has gone: another one is started, and told what it should know.  The program runs on meanwhile. */
static void find_broker(hri_link *link, hri_door_job *job) {
    hri_prose why = {0};
    hri_link_close(link);
    if (hri_link_open(link, &why) == HR_OK &&
        hri_door_enter(&link->client, job, 0, NULL, NULL) != HR_OK) {
        hri_link_close(link);
    }
}

/* Signals that came: those for the program are passed on.  A terminal's own go to the whole group anyway. */
static void pass_signals(int fd, pid_t pid) {
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo != SIGCHLD &&
            info.ssi_code <= 0) { /* sent by a process, not by a terminal */
            kill(pid, (int)info.ssi_signo);
        }
    }
}

/* Processes that detach from the program become children of this one, where they are counted, and not of the machine's first. */
static void adopt(bool orphans) {
    (void)prctl(PR_SET_CHILD_SUBREAPER, orphans ? 1UL : 0UL, 0UL, 0UL, 0UL);
}

/* Whether the program has ended; orphans that have are buried. */
static bool has_ended(pid_t pid, int *status) {
    pid_t ended;
    while ((ended = waitpid(-1, status, WNOHANG)) > 0) {
        if (ended == pid) {
            return true;
        }
    }
    return false;
}

static int watch(hri_link *link, hri_door_job *job, hri_ram *ram, pid_t pid, int signals) {
    const bool looks = ram->record.limit_bytes && !hri_ram_enforced(ram);
    int status = 0;
    for (;;) {
        const int broker = link ? link->client.fd : -1;
        struct pollfd polled[2] = {{.fd = signals, .events = POLLIN},
                                   {.fd = broker, .events = POLLIN}};
        /* Without a broker it is looked for again every second. */
        (void)poll(polled, 2, looks ? HRI_RAM_LOOK_MS : link && broker < 0 ? 1000 : -1);
        pass_signals(signals, pid);
        if (has_ended(pid, &status)) {
            return status;
        }
        if (looks) {
            hri_ram_look(ram, getpid());
        }
        hri_wire w;
        if (link && (broker < 0 || polled[1].revents) &&
            (broker < 0 || hri_client_hear(&link->client, &w, 0) == HR_E_IO)) {
            adopt(false); /* a broker is nobody's child */
            find_broker(link, job);
            adopt(looks);
        }
    }
}

hr_status hri_run_watch(hri_link *link, hri_door_job *job, hri_ram *ram, char *const *argv,
                        char *const *environment, int *out_status, hri_prose *why) {
    static const int passed[] = {SIGCHLD, SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2};
    sigset_t set, before;
    pid_t pid;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        sigaddset(&set, passed[i]);
    }
    sigprocmask(SIG_BLOCK, &set, &before);
    const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0) {
        return hri_prose_set(why, HR_E_IO, "no signalfd: %s", strerror(errno));
    }
    adopt(ram->record.limit_bytes && !hri_ram_enforced(ram));
    hri_ram_enter(ram);
    const int failed = start(argv, environment, &before, &pid);
    hri_ram_leave(ram);
    if (failed) {
        close(signals);
        return hri_prose_set(why, HR_E_NOT_FOUND, "%s cannot be started: %s", argv[0],
                             strerror(failed));
    }
    *out_status = watch(link, job, ram, pid, signals);
    close(signals);
    return HR_OK;
}
