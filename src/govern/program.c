/* See program.h. */
#include "govern/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/text.h"

#ifndef HEADROOM_LIBDIR
#define HEADROOM_LIBDIR "lib"
#endif

/* ---- finding ---- */

static int runnable(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode) && access(path, X_OK) == 0;
}

/* The path of the program; hri_free() it.  NULL: none. */
static char *find_program(const char *name) {
    if (strchr(name, '/')) {
        return runnable(name) ? hri_strdup(name) : NULL;
    }
    const char *path = getenv("PATH");
    path = path ? path : "/usr/local/bin:/usr/bin:/bin";
    while (*path) {
        const size_t length = strcspn(path, ":");
        hri_text at = {0};
        hri_text_add(&at, "%.*s/%s", length ? (int)length : 1, length ? path : ".", name);
        char *found = hri_text_status(&at) == HR_OK && runnable(hri_text_get(&at))
                          ? hri_strdup(hri_text_get(&at))
                          : NULL;
        hri_text_deinit(&at);
        if (found) {
            return found;
        }
        path += length + (path[length] == ':');
    }
    return NULL;
}

/* ---- looking into it ---- */

static uint16_t own_machine(void) {
#if defined(__x86_64__)
    return EM_X86_64;
#else
    return EM_AARCH64;
#endif
}

static hr_status check_elf(int fd, const char *path, const Elf64_Ehdr *head, hri_prose *why) {
    if (head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_machine != own_machine()) {
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             "%s is built for another processor, so its memory cannot be limited",
                             path);
    }
    for (int i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr segment;
        char name[256];
        if (pread(fd, &segment, sizeof segment,
                  (off_t)(head->e_phoff + (uint64_t)i * sizeof segment)) !=
            (ssize_t)sizeof segment) {
            break;
        }
        if (segment.p_type != PT_INTERP) {
            continue;
        }
        const size_t bytes =
            segment.p_filesz < sizeof name - 1 ? segment.p_filesz : sizeof name - 1;
        const ssize_t got = pread(fd, name, bytes, (off_t)segment.p_offset);
        name[got > 0 ? got : 0] = '\0';
        if (strstr(name, "musl")) {
            return hri_prose_set(why, HR_E_UNSUPPORTED,
                                 "%s uses musl as its C library; headroom run needs glibc", path);
        }
        return HR_OK;
    }
    return hri_prose_set(why, HR_E_UNSUPPORTED,
                         "%s is linked statically: no library can be loaded into it, so its memory "
                         "cannot be limited",
                         path);
}

/* 0: no script; 1: *out is its interpreter, with no arguments. */
static int script(const char *head, ssize_t bytes, char *out, size_t size) {
    if (bytes < 3 || head[0] != '#' || head[1] != '!') {
        return 0;
    }
    const char *at = head + 2;
    const char *end = head + bytes;
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    size_t length = 0;
    while (at + length < end && !strchr(" \t\n", at[length])) {
        length++;
    }
    if (!length || length >= size) {
        return 0;
    }
    memcpy(out, at, length);
    out[length] = '\0';
    return 1;
}

static hr_status check_file(const char *path, int depth, hri_prose *why) {
    char head[512] = {0}, interpreter[512];
    struct stat s;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return HR_OK; /* runnable, not readable: the kernel will say what it thinks of it */
    }
    hr_status status = HR_OK;
    const ssize_t bytes = pread(fd, head, sizeof head - 1, 0);
    if (fstat(fd, &s) == 0 && (s.st_mode & (S_ISUID | S_ISGID)) && s.st_uid != getuid()) {
        status = hri_prose_set(why, HR_E_UNSUPPORTED,
                               "%s runs as another user (setuid), so its memory cannot be limited",
                               path);
    } else if (bytes >= (ssize_t)sizeof(Elf64_Ehdr) && memcmp(head, ELFMAG, SELFMAG) == 0) {
        Elf64_Ehdr elf;
        memcpy(&elf, head, sizeof elf);
        status = check_elf(fd, path, &elf, why);
    } else if (depth < 4 && script(head, bytes, interpreter, sizeof interpreter)) {
        status = check_file(interpreter, depth + 1, why);
    }
    close(fd);
    return status;
}

hr_status hri_run_program_check(const char *name, hri_prose *why) {
    char *path = find_program(name);
    if (!path) {
        const bool there = strchr(name, '/') && access(name, F_OK) == 0;
        return hri_prose_set(why, HR_E_NOT_FOUND,
                             there ? "%s is not an executable file" : "%s: no such program", name);
    }
    const hr_status status = check_file(path, 0, why);
    hri_free(path);
    return status;
}

/* ---- the library ---- */

hr_status hri_run_library_find(char **out, hri_prose *why) {
    static const char file[] = "libheadroom-run.so";
    static const char *const places[] = {".", "../" HEADROOM_LIBDIR, "../lib", "../lib64"};
    const char *given = getenv("HEADROOM_RUN_LIBRARY");
    char self[4096], path[4224];
    if (given && *given) {
        *out = access(given, R_OK) == 0 ? hri_strdup(given) : NULL;
        return *out ? HR_OK
                    : hri_prose_set(why, HR_E_NOT_FOUND, "HEADROOM_RUN_LIBRARY: %s cannot be read",
                                    given);
    }
    const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (slash) {
        *slash = '\0';
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const int written = snprintf(path, sizeof path, "%s/%s/%s", self, places[i], file);
        if (written > 0 && (size_t)written < sizeof path && access(path, R_OK) == 0) {
            *out = hri_strdup(path);
            return *out ? HR_OK : HR_E_NOMEM_HOST;
        }
    }
    return hri_prose_set(why, HR_E_NOT_FOUND,
                         "%s is neither next to the program nor in ../%s: the installation is "
                         "incomplete",
                         file, HEADROOM_LIBDIR);
}
