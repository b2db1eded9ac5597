/* See link.h. */
#include "govern/link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum {
    START_MS = 5000,
    ANSWER_MS = 10000,
    NO_GPU = 2, /* exit codes of `headroom broker` */
    FAULT = 3,
    TRIES = 2
};

hr_status hri_link_find(hri_link *link, hri_prose *why) {
    link->client.fd = -1;
    if (hri_wire_folder(link->folder, sizeof link->folder) != 0) {
        return hri_prose_set(why, HR_E_RANGE,
                             "the path of the runtime directory is too long for a socket; set "
                             "HEADROOM_RUNTIME_DIR to a shorter one");
    }
    return hri_client_open(link->folder, &link->client, why);
}

/* Is this program the command, or one that uses the library? */
static int is_headroom(void) {
    char self[4096];
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(self, '/');
    return slash && (strcmp(slash, "/headroom") == 0 || strcmp(slash, "/headroom (deleted)") == 0);
}

/* `headroom broker` in a session of its own, with nothing of ours open. */
static int start_broker(pid_t *out) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char name[] = "headroom", command[] = "broker", detach[] = "--detach";
    char *const argv[] = {name, command, detach, NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
#if __GLIBC_PREREQ(2, 34)
    /* A pipe that it inherited would not end before it does. */
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
#endif
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
    const int failed =
        is_headroom() ? posix_spawn(out, "/proc/self/exe", &actions, &attributes, argv, environ)
                      : posix_spawnp(out, name, &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return failed;
}

/* What was started ends as soon as the broker, which goes on without it, answers, or has found another one. */
static void forget_child(pid_t pid) {
    const struct timespec moment = {.tv_nsec = 2000000};
    for (int i = 0; pid > 0 && i < 500 && waitpid(pid, NULL, WNOHANG) == 0; i++) {
        nanosleep(&moment, NULL);
    }
}

/* Connects to one that answers: a socket may take connections a moment longer than its owner lives. */
static hr_status reach(hri_link *link, hri_prose *why) {
    hri_wire row;
    hr_status status = hri_link_find(link, why);
    if (status == HR_OK) {
        status = hri_link_row(link, 0, &row);
        status = status == HR_E_EOF ? HR_OK : status;
        if (status != HR_OK) {
            hri_link_close(link);
            status = hri_prose_set(why, HR_E_NOT_FOUND, "the broker does not respond");
        }
    }
    return status;
}

hr_status hri_link_open(hri_link *link, hri_prose *why) {
    const char *wanted = getenv("HEADROOM_BROKER");
    if (wanted && strcmp(wanted, "off") == 0) {
        link->client.fd = -1;
        return hri_prose_set(why, HR_E_UNSUPPORTED, "the broker is switched off (HEADROOM_BROKER)");
    }
    hr_status status = reach(link, why);
    pid_t pid = 0;
    int faults = 0;
    for (int waited = 0; status == HR_E_NOT_FOUND && waited < START_MS; waited += 5) {
        int ended = 0;
        if (pid < 0 && waited % 100 == 0) {
            pid = 0; /* and theirs has ended as well, perhaps */
        }
        if (!pid) {
            const int failed = start_broker(&pid);
            if (failed == ENOENT) {
                return hri_prose_set(why, HR_E_UNSUPPORTED,
                                     "the program headroom is not in PATH, so there is no broker");
            }
            if (failed) {
                return hri_prose_set(why, HR_E_IO, "the broker cannot be started: %s",
                                     strerror(failed));
            }
        } else if (pid > 0 && waitpid(pid, &ended, WNOHANG) == pid) {
            /* Somebody else's may have been faster; then this one ended, and theirs answers. */
            pid = -1;
            if (WIFEXITED(ended) && WEXITSTATUS(ended) == NO_GPU) {
                return hri_prose_set(why, HR_E_UNSUPPORTED, "no NVIDIA GPU was found");
            }
            faults += WIFEXITED(ended) && WEXITSTATUS(ended) == FAULT;
            if (faults == TRIES) {
                return hri_prose_set(why, HR_E_IO,
                                     "the broker cannot run in %s; \"headroom broker\" says why",
                                     link->folder);
            }
        }
        const struct timespec moment = {.tv_nsec = 5000000};
        nanosleep(&moment, NULL);
        status = reach(link, why);
    }
    forget_child(pid);
    return status;
}

void hri_link_close(hri_link *link) {
    hri_client_close(&link->client);
}

hr_status hri_link_row(hri_link *link, uint32_t row, hri_wire *out) {
    hri_wire w = hri_wire_make(HRI_VERB_LIST);
    w.row = row;
    const hr_status status = hri_client_ask(&link->client, &w, ANSWER_MS);
    if (status != HR_OK) {
        return status;
    }
    if (w.said != HRI_SAID_OK) {
        return HR_E_EOF;
    }
    *out = w;
    return HR_OK;
}

void hri_link_uuid_text(const unsigned char uuid[16], char out[48]) {
    const unsigned char *b = uuid;
    snprintf(out, 48, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
             b[14], b[15]);
}
