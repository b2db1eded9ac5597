/* See launch.h. */
#include "net/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "net/net.h"

enum { LOOK_MS = 10 };

extern char **environ;

/* The environment of one rank: ours without the launchers' words, with HEADROOM_RANK, _SIZE, _RUN, _LAUNCHER. */
static char **rank_environment(uint32_t rank, uint32_t size, const char *run) {
    size_t count = 0;
    while (environ[count]) {
        count++;
    }
    char **out = hri_calloc(count + 5, sizeof(char *));
    char *own = hri_malloc(4 * 96);
    if (!out || !own) {
        hri_free(out);
        hri_free(own);
        return NULL;
    }
    snprintf(own, 96, "HEADROOM_RANK=%u", rank);
    snprintf(own + 96, 96, "HEADROOM_SIZE=%u", size);
    snprintf(own + 192, 96, "HEADROOM_RUN=%s", run);
    snprintf(own + 288, 96, "HEADROOM_LAUNCHER=%d", (int)getpid());
    out[0] = own;
    out[1] = own + 96;
    out[2] = own + 192;
    out[3] = own + 288;
    size_t used = 4;
    for (size_t i = 0; i < count; i++) {
        const char *e = environ[i];
        if (strncmp(e, "HEADROOM_RANK=", 14) && strncmp(e, "HEADROOM_SIZE=", 14) &&
            strncmp(e, "HEADROOM_RUN=", 13) && strncmp(e, "HEADROOM_MEET=", 14) &&
            strncmp(e, "HEADROOM_LAUNCHER=", 18)) {
            out[used++] = environ[i];
        }
    }
    return out;
}

/* The process, with no signal blocked and, unless it is the first, nothing to read; -1 with errno. */
static pid_t spawn(const char *program, char *const *argv, char *const *env, bool first) {
    posix_spawnattr_t how;
    posix_spawn_file_actions_t files;
    sigset_t none;
    pid_t pid = -1;
    sigemptyset(&none);
    errno = posix_spawnattr_init(&how);
    if (errno) {
        return -1;
    }
    errno = posix_spawn_file_actions_init(&files);
    if (errno == 0) {
        errno = posix_spawnattr_setsigmask(&how, &none);
        errno = errno ? errno : posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
        if (errno == 0 && !first) {
            errno =
                posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        }
        errno = errno ? errno : posix_spawn(&pid, program, &files, &how, argv, env);
        pid = errno ? -1 : pid;
        posix_spawn_file_actions_destroy(&files);
    }
    posix_spawnattr_destroy(&how);
    return pid;
}

static pid_t start(const char *program, char *const *argv, uint32_t rank, uint32_t count,
                   const char *run) {
    char **env = rank_environment(rank, count, run);
    if (!env) {
        return -1;
    }
    const pid_t pid = HRI_FAULT(THREAD) ? -1 : spawn(program, argv, env, rank == 0);
    hri_free(env[0]);
    hri_free(env);
    return pid;
}

bool hri_launch_follow(void) {
    const char *launcher = getenv("HEADROOM_LAUNCHER");
    if (!launcher) {
        return true;
    }
    const pid_t pid = (pid_t)strtol(launcher, NULL, 10);
    unsetenv("HEADROOM_LAUNCHER"); /* what a rank starts itself follows nobody */
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == pid;
}

/* All are stopped first: none may see another one die, and take that for the cause. */
static void kill_all(const pid_t *pids, uint32_t count) {
    static const int how[] = {SIGSTOP, SIGKILL};
    for (int k = 0; k < 2; k++) {
        for (uint32_t i = 0; i < count; i++) {
            if (pids[i] > 0) {
                kill(pids[i], how[k]);
            }
        }
    }
}

/* Until all have ended; `grace_ns` after the first failure the rest is killed. */
static void see_out(pid_t *pids, uint32_t count, uint64_t grace_ns, hri_launch_end *end) {
    uint64_t until_ns = UINT64_MAX;
    bool killed = false, first_killed = false;
    int codes[3] = {0}; /* of ranks 0 and 1 */
    for (uint32_t left = count; left;) {
        left = 0;
        for (uint32_t i = 0; i < count; i++) {
            int status;
            const pid_t ended = pids[i] > 0 ? waitpid(pids[i], &status, WNOHANG) : 0;
            if (ended > 0) {
                const int code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
                /* A signal is a cause; a code of the others is mostly what they answered to it. */
                codes[i < 2 ? i : 2] = code;
                if (code != 0 && !killed && (end->rank < 0 || (code < 0 && end->code > 0))) {
                    *end = (hri_launch_end){(int32_t)i, code, (int32_t)pids[i], false};
                    until_ns = until_ns < UINT64_MAX ? until_ns : hri_clock_ns() + grace_ns;
                }
                pids[i] = 0;
            }
            left += pids[i] > 0;
        }
        if (left && hri_clock_ns() > until_ns) {
            first_killed = first_killed || pids[0] > 0;
            kill_all(pids, count);
            killed = true;
        }
        if (left) {
            poll(NULL, 0, LOOK_MS);
        }
    }
    /* Rank 0 tells of the others, rank 1 of rank 0; a code without any signal before it was told by whoever had it. */
    end->told = codes[0] > 0 || end->code >= 0 || (codes[0] < 0 && !first_killed && codes[1] > 0);
}

hr_status hri_launch(uint32_t count, char *const *argv, uint64_t grace_ns, hri_launch_end *out,
                     hri_prose *why) {
    char program[4096], run[64];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0 || count == 0 || count > HRI_NET_MOST_RANKS) {
        return hri_prose_set(why, HR_E_INVALID, "%u replicas cannot be started", count);
    }
    program[length] = '\0';
    snprintf(run, sizeof run, "launch-%d-%llu", (int)getpid(), (unsigned long long)hri_clock_ns());
    pid_t *pids = hri_calloc(count, sizeof *pids);
    if (!pids) {
        return HR_E_NOMEM_HOST;
    }
    hri_launch_end end = {.rank = -1};
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < count && status == HR_OK; i++) {
        pids[i] = start(program, argv, i, count, run);
        if (pids[i] < 0) {
            status = hri_prose_set(why, HR_E_NOMEM_HOST, "replica %u of %u did not start: %s", i,
                                   count, strerror(errno));
            kill_all(pids, i);
        }
    }
    see_out(pids, count, grace_ns, &end);
    hri_free(pids);
    if (status == HR_OK) {
        *out = end;
    }
    return status;
}
