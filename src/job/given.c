/* Paths to the text of a source; see given.h. */
#include "job/given.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/image/image.h"

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

static hr_status set_text(hri_given *g, const char *mark, const char *path, hri_why *why) {
    char quoted[1800];
    if (quote(path, quoted, sizeof quoted) != 0) {
        return hri_why_set(why, HR_CAUSE_USAGE, HR_E_RANGE, "%s: the path is too long", path);
    }
    snprintf(g->text, sizeof g->text, "images:%s%s,classes=off,names=on", mark, quoted);
    g->pictures = 1;
    return HR_OK;
}

static hr_status refused(hri_why *why, hr_cause cause, const char *what) {
    char text[128];
    return hri_why_set(why, cause, HR_E_IO, "%s: %s", what, strerror_r(errno, text, sizeof text));
}

/* ---- files without a name ---- */

static hr_status make_file(hri_given *g, hri_why *why) {
    g->fd = memfd_create("given", MFD_CLOEXEC);
    return g->fd < 0 ? refused(why, HR_CAUSE_MACHINE, "a list in memory") : HR_OK;
}

static hr_status put_bytes(const hri_given *g, const char *data, size_t bytes, hri_why *why) {
    while (bytes > 0) {
        const ssize_t n = write(g->fd, data, bytes);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return refused(why, HR_CAUSE_MACHINE, "a list in memory");
        }
        data += n;
        bytes -= (size_t)n;
    }
    return HR_OK;
}

static hr_status use_file(hri_given *g, const char *mark, hri_why *why) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", g->fd);
    return set_text(g, mark, path, why);
}

/* All of standard input.  The first bytes say what it is. */
static hr_status open_stdin(hri_given *g, hri_why *why) {
    unsigned char piece[16384];
    size_t first = 0, all = 0;
    int picture = 0;
    hr_status status = HR_OK;
    while (status == HR_OK) {
        const ssize_t n = read(STDIN_FILENO, piece, sizeof piece);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) { /* closed, or a folder: bad input like any other */
            return refused(why, HR_CAUSE_USAGE, "standard input");
        }
        if (n == 0) {
            break;
        }
        first = all ? first : (size_t)n;
        picture = all ? picture : hri_image_is(piece, first);
        status = all ? HR_OK : make_file(g, why); /* what is empty needs none */
        all += (size_t)n;
        status = status == HR_OK ? put_bytes(g, (const char *)piece, (size_t)n, why) : status;
    }
    if (status == HR_OK && all == 0) {
        return hri_why_set(why, HR_CAUSE_USAGE, HR_E_EOF,
                           "standard input is empty; expected an image, or one path per line");
    }
    g->only = picture ? "-" : NULL;
    return status == HR_OK ? use_file(g, picture ? "" : "@", why) : status;
}

/* Several files: a list of them. */
static hr_status open_files(hri_given *g, int count, const char *const *paths, hri_why *why) {
    hr_status status = make_file(g, why);
    for (int i = 0; i < count && status == HR_OK; i++) {
        struct stat st;
        if (stat(paths[i], &st) != 0 || S_ISDIR(st.st_mode)) {
            return hri_why_set(why, HR_CAUSE_USAGE, HR_E_NOT_FOUND, "%s: %s", paths[i],
                               S_ISDIR(st.st_mode) ? "a folder cannot be combined with other paths"
                                                   : "no such file");
        }
        status = put_bytes(g, paths[i], strlen(paths[i]), why);
        status = status == HR_OK ? put_bytes(g, "\n", 1, why) : status;
    }
    return status == HR_OK ? use_file(g, "@", why) : status;
}

hr_status hri_given_open(int count, const char *const *paths, hri_given *out, hri_why *why) {
    struct stat st;
    *out = (hri_given){.fd = -1};
    if (count > 1) {
        return open_files(out, count, paths, why);
    }
    if (!strcmp(paths[0], "-")) {
        return open_stdin(out, why);
    }
    if (stat(paths[0], &st) != 0) {
        if (!strchr(paths[0], ':') && !strchr(paths[0], '|')) {
            return hri_why_set(why, HR_CAUSE_USAGE, HR_E_NOT_FOUND, "%s: no such file or directory",
                               paths[0]);
        }
        snprintf(out->text, sizeof out->text, "%s", paths[0]);
        return HR_OK;
    }
    const size_t length = strlen(paths[0]);
    const char *end = length > 4 && !S_ISDIR(st.st_mode) ? paths[0] + length - 4 : "";
    if (!strcmp(end, ".csv") || !strcmp(end, ".txt")) {
        char quoted[1800];
        if (quote(paths[0], quoted, sizeof quoted) != 0) {
            return hri_why_set(why, HR_CAUSE_USAGE, HR_E_RANGE, "%s: the path is too long",
                               paths[0]);
        }
        snprintf(out->text, sizeof out->text,
                 !strcmp(end, ".csv") ? "csv:%s" : "texts:%s,classes=off", quoted);
        return HR_OK;
    }
    if (S_ISDIR(st.st_mode)) {
        const size_t n = strlen(paths[0]);
        snprintf(out->prefix, sizeof out->prefix, "%s%s", paths[0],
                 n && paths[0][n - 1] == '/' ? "" : "/");
    }
    return set_text(out, "", paths[0], why);
}

void hri_given_close(hri_given *g) {
    if (g->fd >= 0) {
        close(g->fd);
    }
    *g = (hri_given){.fd = -1};
}
