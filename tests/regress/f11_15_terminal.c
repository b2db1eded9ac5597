/* What a person sees: planning that takes long shows that it works, lines keep to the terminal, memory stays in the bar. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "pictures.h"
#include "program.h"
#include "test.h"

/* Runs the program on a terminal of so many columns; all that it wrote there.  free() it. */
static char *on_terminal(int columns, const char *arguments, int *code) {
    const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    const int good = master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0;
    const int slave = good ? open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC) : -1;
    if (slave < 0) {
        test_skip("no pseudo-terminal can be made here");
    }
    struct termios mode;
    CHECK(tcgetattr(slave, &mode) == 0);
    cfmakeraw(&mode);
    CHECK(tcsetattr(slave, TCSANOW, &mode) == 0);
    const struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = 24};
    CHECK(ioctl(slave, TIOCSWINSZ, &size) == 0);
    char command[4096];
    snprintf(command, sizeof command, "cd '%s' && exec env TERM=xterm NO_COLOR=1 '%s' %s",
             test_folder(), HEADROOM_PROGRAM, arguments);
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(slave, 1);
        dup2(slave, 2);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    close(slave);
    size_t used = 0, room = 1 << 20;
    char *text = malloc(room);
    CHECK(text);
    for (;;) {
        const ssize_t n = read(master, text + used, room - used - 1);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0 || used + (size_t)n + 1 >= room) {
            break;
        }
        used += (size_t)n;
    }
    text[used] = '\0';
    close(master);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return text;
}

/* The widest line, redrawn ones each alone. */
static size_t widest(const char *text) {
    size_t most = 0;
    for (const char *p = text; *p;) {
        const size_t n = strcspn(p, "\n\r");
        size_t columns = 0;
        for (size_t i = 0; i < n; i++) {
            columns += ((unsigned char)p[i] & 0xc0) != 0x80;
        }
        columns -= n > 3 && !strncmp(p, "\033[K", 3) ? 3 : 0;
        most = columns > most ? columns : most;
        p += n + (p[n] != '\0');
    }
    return most;
}

TEST(f11_15, lines_keep_to_the_terminal) {
    static const char *const commands[] = {
        "plan mlp --batch 64 --budget 18MiB --no-measure --no-choices",
        "plan mlp --batch 64 --budget 9MiB --no-measure --no-choices",
        "plan mlp --batch 64 --no-measure",
        "train mlp --data synthetic:count=128 --epochs 2 --batch 64 --budget 64MiB --no-measure "
        "--no-save --val-split 0.5",
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        for (int columns = 40; columns <= 80; columns += 40) {
            int code;
            char *text = on_terminal(columns, commands[i], &code);
            CHECK(code == 0 || code == 1);
            if (widest(text) > (size_t)columns) {
                test_fail(__FILE__, __LINE__, "%s: %zu columns on %d: %.2000s", commands[i],
                          widest(text), columns, text);
            }
            free(text);
        }
    }
}

TEST(f11_15, the_bar_keeps_the_memory) {
    for (int columns = 40; columns <= 120; columns += 40) {
        int code;
        char *text = on_terminal(columns,
                                 "train mlp --data synthetic:count=1280 --epochs 1 --batch 64 "
                                 "--budget 96MiB --no-measure --no-save",
                                 &code);
        CHECK_EQ(code, 0);
        const char *bar = strstr(text, "20/20");
        CHECK(bar);
        const size_t line = strcspn(bar, "\n");
        const char *memory = strstr(bar, "/96 MiB");
        CHECK(memory && memory < bar + line);
        free(text);
    }
}

TEST_TIMEOUT(f11_15, planning_that_takes_long_shows_that_it_works, 120) {
    PROGRAM_NEED_SPEED();
    int code;
    char *text = on_terminal(
        80, "plan resnet18:size=64 --batch 64 --budget 40% --device null:1GiB --threads 1", &code);
    CHECK(code == 0 || code == 1);
    if (!strstr(text, "planning resnet18:size=64 ... 1 s")) {
        free(text); /* a machine that plans this in a second */
        test_skip("it took less than a second");
    }
    CHECK(strstr(text, "\r\033[K"));
    free(text);
    program_outcome o = program_run(NULL, "plan mlp --no-measure");
    CHECK(!strchr(o.words, '\r') && !strchr(o.out, '\r'));
    program_end(&o);
}
