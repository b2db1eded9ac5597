/* The helper of golden.h. */
#include "golden.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <headroom/context.h>

#define NEED(X)                                                                                    \
    do {                                                                                           \
        if (!(X)) {                                                                                \
            test_fail(__FILE__, __LINE__, "%s: %s", #X, strerror(errno));                          \
        }                                                                                          \
    } while (0)

enum { ARGS_MAX = 32, ENV_MAX = 64 };

typedef struct buffer {
    char *bytes;
    size_t used;
} buffer;

static void append(buffer *t, const char *bytes, size_t count) {
    t->bytes = realloc(t->bytes, t->used + count + 1);
    NEED(t->bytes);
    memcpy(t->bytes + t->used, bytes, count);
    t->used += count;
    t->bytes[t->used] = 0;
}

/* Results live as long as the case; a leak checker must still find somebody who points at them. */
static char *keep(buffer *t) {
    static char *kept[512];
    static size_t count;
    NEED(count < sizeof kept / sizeof kept[0]);
    kept[count++] = t->bytes;
    return t->bytes;
}

/* A terminal that changes nothing of what is written to it. */
static void open_terminal(unsigned columns, int *master, int *slave) {
    *master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*master < 0 || grantpt(*master) != 0 || unlockpt(*master) != 0) {
        test_skip("no pseudo-terminal can be made here");
    }
    *slave = open(ptsname(*master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (*slave < 0) { /* a bare root: /dev/ptmx without /dev/pts */
        test_skip("no pseudo-terminal can be opened here");
    }
    struct termios mode;
    NEED(tcgetattr(*slave, &mode) == 0);
    cfmakeraw(&mode);
    NEED(tcsetattr(*slave, TCSANOW, &mode) == 0);
    const struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = 24};
    NEED(ioctl(*slave, TIOCSWINSZ, &size) == 0);
}

static void split_args(const golden_spec *spec, char *const program, char **args) {
    size_t count = 0;
    args[count++] = program;
    char *copy = strdup(spec->args ? spec->args : ""), *save = NULL;
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        NEED(count + 2 < ARGS_MAX);
        args[count++] = word;
    }
    if (spec->last_arg) {
        args[count++] = (char *)spec->last_arg;
    }
    args[count] = NULL;
}

/* What the case asks for comes first, for the first of a name is the one that counts; then what the shell's search and
 * sanitizers need.  Looking for leaks at every exit takes seconds on some machines: one case does it (commands.c). */
static void make_env(const golden_spec *spec, char **env) {
    extern char **environ;
    size_t count = 0;
    for (size_t i = 0; i < GOLDEN_ENV && spec->env[i]; i++) {
        env[count++] = (char *)spec->env[i];
    }
    env[count++] = (char *)"HOME=/nonexistent";
    env[count++] = (char *)"LANG=C.UTF-8";
    env[count++] = (char *)"TERM=xterm-256color";
    env[count++] = (char *)"HEADROOM_BROKER=off";
    env[count++] = (char *)"ASAN_OPTIONS=detect_leaks=0";
    for (char **e = environ; *e && count + 1 < ENV_MAX; e++) {
        if (!strncmp(*e, "PATH=", 5) || strstr(*e, "SAN_OPTIONS=")) {
            env[count++] = *e;
        }
    }
    env[count] = NULL;
}

static void become(const golden_spec *spec, int out, int err) {
    char *args[ARGS_MAX], *env[ENV_MAX];
    const char *program = spec->program ? spec->program : HEADROOM_PROGRAM;
    split_args(spec, (char *)program, args);
    make_env(spec, env);
    dup2(spec->merge ? out : err, STDERR_FILENO);
    dup2(out, STDOUT_FILENO);
    if (spec->stdout_to && !strcmp(spec->stdout_to, "close")) {
        close(STDOUT_FILENO);
    }
    execvpe(program, args, env);
    _exit(127);
}

static void collect(int out, int err, golden_result *result) {
    buffer texts[2] = {{0}};
    append(&texts[0], "", 0);
    append(&texts[1], "", 0);
    struct pollfd polls[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    while (polls[0].fd >= 0 || polls[1].fd >= 0) {
        NEED(poll(polls, 2, -1) > 0 || errno == EINTR);
        for (int i = 0; i < 2; i++) {
            char piece[4096];
            if (polls[i].fd < 0 || !polls[i].revents) {
                continue;
            }
            const ssize_t count = read(polls[i].fd, piece, sizeof piece);
            if (count <= 0) { /* EIO is how a terminal ends */
                polls[i].fd = -1;
            } else {
                append(&texts[i], piece, (size_t)count);
            }
        }
    }
    result->out = keep(&texts[0]);
    result->out_bytes = texts[0].used;
    result->err = keep(&texts[1]);
    result->err_bytes = texts[1].used;
}

golden_result golden_run(const golden_spec *spec) {
    golden_result result = {0};
    int out[2] = {-1, -1}, err[2];
    NEED(pipe2(err, O_CLOEXEC) == 0);
    if (spec->columns) {
        open_terminal(spec->columns, &out[0], &out[1]);
    } else {
        NEED(pipe2(out, O_CLOEXEC) == 0);
    }
    if (spec->stdout_to && spec->stdout_to[0] == '/') {
        close(out[1]);
        out[1] = open(spec->stdout_to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        NEED(out[1] >= 0);
    } else if (spec->stdout_to && !strcmp(spec->stdout_to, "early")) {
        close(out[0]);
        out[0] = -1;
    }
    const pid_t child = fork();
    NEED(child >= 0);
    if (child == 0) {
        become(spec, out[1], err[1]);
    }
    close(out[1]);
    close(err[1]);
    collect(out[0], err[0], &result);
    close(err[0]);
    if (out[0] >= 0) {
        close(out[0]);
    }
    int status = 0;
    NEED(waitpid(child, &status, 0) == child);
    result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return result;
}

char *golden_replace(const char *from_text, const char *from, const char *to) {
    buffer t = {0};
    append(&t, "", 0);
    for (const char *at; (at = strstr(from_text, from)); from_text = at + strlen(from)) {
        append(&t, from_text, (size_t)(at - from_text));
        append(&t, to, strlen(to));
    }
    append(&t, from_text, strlen(from_text));
    return keep(&t);
}

static char *read_file(const char *path) {
    buffer t = {0};
    append(&t, "", 0);
    FILE *f = fopen(path, "r");
    char piece[4096];
    for (size_t count; f && (count = fread(piece, 1, sizeof piece, f)) > 0;) {
        append(&t, piece, count);
    }
    if (f) {
        fclose(f);
    }
    keep(&t);
    return f ? t.bytes : NULL;
}

/* The first line that differs, for the message. */
static void show_difference(const char *path, const char *is, const char *wanted) {
    int line = 1;
    while (*is && *wanted) {
        const size_t a = strcspn(is, "\n"), b = strcspn(wanted, "\n");
        if (a != b || memcmp(is, wanted, a) != 0 || is[a] != wanted[b]) {
            break;
        }
        is += a + (is[a] == '\n');
        wanted += b + (wanted[b] == '\n');
        line++;
    }
    test_fail(path, line, "\n    is:     %.*s\n    wanted: %.*s", (int)strcspn(is, "\n"), is,
              (int)strcspn(wanted, "\n"), wanted);
}

static void compare(const char *path, const char *text) {
    const char *mode = getenv("HEADROOM_GOLDEN");
    test_count_check();
    if (mode && !strcmp(mode, "write")) {
        FILE *f = fopen(path, "w");
        NEED(f && fputs(text, f) >= 0 && fclose(f) == 0);
        return;
    }
    const char *wanted = read_file(path);
    if (!wanted) {
        test_fail(path, 0, "cannot be read: %s", strerror(errno));
    }
    if (strcmp(text, wanted) != 0) {
        show_difference(path, text, wanted);
    }
}

void golden_compare_file(const char *path, const char *text) {
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", HEADROOM_SOURCE, path);
    compare(full, text);
}

void golden_compare(const char *name, const char *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/golden/%s.txt", HEADROOM_SOURCE, name);
    compare(path, golden_replace(text, hr_version(), "VERSION"));
}

int golden_has_control(const char *text) {
    for (; *text; text++) {
        if (((unsigned char)*text < 0x20 && *text != '\n') || *text == 0x7f) {
            return 1;
        }
    }
    return 0;
}

int golden_has_program(const char *name) {
    return GOLDEN_RUN("-c", .program = "sh",
                      .last_arg = golden_replace("command -v X >/dev/null", "X", name))
               .code == 0;
}
