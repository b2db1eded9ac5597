/* Arguments to the text of a source; see given.h. */
#include "cli/common/given.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/common/cli.h"

/* A path as a value in the text of a pipeline: a backslash takes every meaning away. */
static int quote(const char *path, char *out, size_t size) {
    size_t used = 0;
    for (; *path; path++) {
        if (used + 3 > size) {
            return -1;
        }
        if (strchr("|,()\"\\{}=: ", *path)) {
            out[used++] = '\\';
        }
        out[used++] = *path;
    }
    out[used] = '\0';
    return 0;
}

static int set_text(hri_given *g, const char *mark, const char *path) {
    char quoted[1800];
    if (quote(path, quoted, sizeof quoted) != 0) {
        hri_say_error(g->cli, "%s: the path is too long", path);
        return HRI_EXIT_USAGE;
    }
    snprintf(g->text, sizeof g->text, "images:%s%s,classes=off,names=on", mark, quoted);
    g->pictures = 1;
    return HRI_EXIT_YES;
}

static int refused(const hri_given *g, const char *what) {
    char text[128];
    hri_say_error(g->cli, "%s: %s", what, strerror_r(errno, text, sizeof text));
    return HRI_EXIT_FAULT;
}

/* ---- files without a name ---- */

static int make_file(hri_given *g) {
    g->fd = memfd_create("given", MFD_CLOEXEC);
    return g->fd < 0 ? refused(g, "a list in memory") : HRI_EXIT_YES;
}

static int put_bytes(const hri_given *g, const char *data, size_t bytes) {
    while (bytes > 0) {
        const ssize_t n = write(g->fd, data, bytes);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return refused(g, "a list in memory");
        }
        data += n;
        bytes -= (size_t)n;
    }
    return HRI_EXIT_YES;
}

static int use_file(hri_given *g, const char *mark) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", g->fd);
    return set_text(g, mark, path);
}

static int is_picture(const unsigned char *p, size_t n) {
    return (n >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff) ||
           (n >= 4 && !memcmp(p, "\x89PNG", 4));
}

/* All of standard input.  The first bytes say what it is. */
static int open_stdin(hri_given *g) {
    unsigned char piece[16384];
    size_t first = 0, all = 0;
    int picture = 0;
    int code = HRI_EXIT_YES;
    while (code == HRI_EXIT_YES) {
        const ssize_t n = read(STDIN_FILENO, piece, sizeof piece);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) { /* closed, or a folder: bad input like any other */
            (void)refused(g, "standard input");
            return HRI_EXIT_USAGE;
        }
        if (n == 0) {
            break;
        }
        first = all ? first : (size_t)n;
        picture = all ? picture : is_picture(piece, first);
        code = all ? HRI_EXIT_YES : make_file(g); /* what is empty needs none */
        all += (size_t)n;
        code = code == HRI_EXIT_YES ? put_bytes(g, (const char *)piece, (size_t)n) : code;
    }
    if (code == HRI_EXIT_YES && all == 0) {
        hri_say_error(g->cli, "standard input is empty; expected an image, or one path per line");
        return HRI_EXIT_USAGE;
    }
    g->only = picture ? "-" : NULL;
    return code == HRI_EXIT_YES ? use_file(g, picture ? "" : "@") : code;
}

/* Several files: a list of them. */
static int open_files(hri_given *g, int count, const char *const *arguments) {
    int code = make_file(g);
    for (int i = 0; i < count && code == HRI_EXIT_YES; i++) {
        struct stat st;
        if (stat(arguments[i], &st) != 0 || S_ISDIR(st.st_mode)) {
            hri_say_error(g->cli, "%s: %s", arguments[i],
                          S_ISDIR(st.st_mode) ? "a folder cannot be combined with other paths"
                                              : "no such file");
            return HRI_EXIT_USAGE;
        }
        code = put_bytes(g, arguments[i], strlen(arguments[i]));
        code = code == HRI_EXIT_YES ? put_bytes(g, "\n", 1) : code;
    }
    return code == HRI_EXIT_YES ? use_file(g, "@") : code;
}

int hri_given_open(hri_cli *cli, int count, const char *const *arguments, hri_given *out) {
    struct stat st;
    *out = (hri_given){.cli = cli, .fd = -1};
    if (count > 1) {
        return open_files(out, count, arguments);
    }
    if (!strcmp(arguments[0], "-")) {
        return open_stdin(out);
    }
    if (stat(arguments[0], &st) != 0) {
        if (!strchr(arguments[0], ':') && !strchr(arguments[0], '|')) {
            hri_say_error(cli, "%s: no such file or directory", arguments[0]);
            return HRI_EXIT_USAGE;
        }
        snprintf(out->text, sizeof out->text, "%s", arguments[0]);
        return HRI_EXIT_YES;
    }
    if (S_ISDIR(st.st_mode)) {
        const size_t n = strlen(arguments[0]);
        snprintf(out->prefix, sizeof out->prefix, "%s%s", arguments[0],
                 n && arguments[0][n - 1] == '/' ? "" : "/");
    }
    return set_text(out, "", arguments[0]);
}

void hri_given_close(hri_given *g) {
    if (g->fd >= 0) {
        close(g->fd);
    }
    *g = (hri_given){.fd = -1};
}
