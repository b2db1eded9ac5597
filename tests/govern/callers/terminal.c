/* A person at a terminal: terminal STEP... -- PROGRAM [ARGUMENT...]
 *
 *   wait:TEXT   until TEXT was drawn since the last key, at most ten seconds
 *   key:TEXT    types it; DOWN, UP, ENTER and ESC are keys
 *   size:COLxROW
 *   shell:TEXT  a command beside it
 *
 * Prints "missing TEXT" for what did not come, and "exit N" at the end. */
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static char seen[1 << 20];
static size_t used;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Reads what was drawn; 0: the other end has gone. */
static int read_some(int master, int timeout_ms) {
    struct pollfd p = {.fd = master, .events = POLLIN};
    if (poll(&p, 1, timeout_ms) <= 0) {
        return 1;
    }
    if (used > sizeof seen / 2) {
        used = 0;
    }
    const ssize_t got = read(master, seen + used, sizeof seen - used - 1);
    if (got <= 0) {
        return 0;
    }
    for (ssize_t i = 0; i < got; i++) {
        seen[used + (size_t)i] = seen[used + (size_t)i] ? seen[used + (size_t)i] : ' ';
    }
    used += (size_t)got;
    seen[used] = '\0';
    return 1;
}

static void wait_for(int master, const char *text) {
    const double until = now() + 10;
    while (!strstr(seen, text)) {
        if (now() > until || !read_some(master, 50)) {
            printf("missing %s\n", text);
            return;
        }
    }
    printf("seen %s\n", text);
}

static void type(int master, const char *text) {
    static const struct {
        const char *name, *keys;
    } named[] = {{"DOWN", "\033OB"}, {"UP", "\033OA"}, {"ENTER", "\r"}, {"ESC", "\033"}};
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        text = strcmp(text, named[i].name) ? text : named[i].keys;
    }
    used = 0;
    seen[0] = '\0';
    if (write(master, text, strlen(text)) < 0) {
        printf("cannot type\n");
    }
}

static void step(int master, const char *text) {
    unsigned columns, rows;
    if (!strncmp(text, "wait:", 5)) {
        wait_for(master, text + 5);
    } else if (!strncmp(text, "key:", 4)) {
        type(master, text + 4);
    } else if (!strncmp(text, "shell:", 6)) {
        if (system(text + 6) != 0) {
            printf("failed %s\n", text);
        }
    } else if (sscanf(text, "size:%ux%u", &columns, &rows) == 2) {
        const struct winsize size = {.ws_col = (unsigned short)columns,
                                     .ws_row = (unsigned short)rows};
        ioctl(master, TIOCSWINSZ, &size);
    }
}

int main(int argc, char **argv) {
    int program = 1, status = 0;
    while (program < argc && strcmp(argv[program], "--")) {
        program++;
    }
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (program + 1 >= argc || master < 0 || grantpt(master) || unlockpt(master)) {
        printf("no terminal\n");
        return 3;
    }
    const struct winsize size = {.ws_col = 100, .ws_row = 24};
    ioctl(master, TIOCSWINSZ, &size);
    const pid_t pid = fork();
    if (pid == 0) {
        setsid();
        const int slave = open(ptsname(master), O_RDWR); /* the terminal of this session */
        if (slave < 0) {
            _exit(126);
        }
        ioctl(slave, TIOCSCTTY, 0);
        dup2(slave, 0);
        dup2(slave, 1);
        dup2(slave, 2);
        execvp(argv[program + 1], argv + program + 1);
        _exit(127);
    }
    for (int i = 1; i < program; i++) {
        step(master, argv[i]);
    }
    const double until = now() + 10;
    while (now() < until && waitpid(pid, &status, WNOHANG) == 0) {
        (void)read_some(master, 50);
    }
    printf("exit %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return 0;
}
