/* See ram_tree.h. */
#include "govern/ram_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

typedef struct process {
    pid_t pid, parent;
    uint64_t own_bytes, shared_bytes;
    char name[64];
    bool inside;
} process;

static int read_file(pid_t pid, const char *file, char *out, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, file);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, out, size - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    out[got > 0 ? got : 0] = '\0';
    return got > 0 ? 0 : -1;
}

/* Who it is and what it has; false: it has gone. */
static bool read_process(pid_t pid, process *out) {
    char text[1024];
    *out = (process){.pid = pid};
    if (read_file(pid, "stat", text, sizeof text) != 0) {
        return false;
    }
    /* "pid (name) state parent ...": the name may have anything in it. */
    const char *open_at = strchr(text, '('), *close_at = strrchr(text, ')');
    if (!open_at || !close_at || close_at < open_at || strlen(close_at) < 5) {
        return false;
    }
    snprintf(out->name, sizeof out->name, "%.*s", (int)(close_at - open_at - 1), open_at + 1);
    out->parent = (pid_t)strtol(close_at + 4, NULL, 10);
    if (read_file(pid, "statm", text, sizeof text) == 0) {
        char *at = text;
        (void)strtoull(at, &at, 10);
        const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
        const uint64_t resident = strtoull(at, &at, 10), shared = strtoull(at, &at, 10);
        out->own_bytes = (resident > shared ? resident - shared : 0) * page;
        out->shared_bytes = shared * page;
    }
    return true;
}

static uint64_t proportional(pid_t pid, uint64_t otherwise) {
    char text[2048];
    const char *at =
        read_file(pid, "smaps_rollup", text, sizeof text) == 0 ? strstr(text, "\nPss:") : NULL;
    return at ? strtoull(at + 5, NULL, 10) * 1024 : otherwise;
}

static hr_status list_all(process **out, size_t *count) {
    size_t room = 0;
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    *out = NULL;
    *count = 0;
    while (dir && (entry = readdir(dir))) {
        char *end;
        const long pid = strtol(entry->d_name, &end, 10);
        if (*end || pid <= 0) {
            continue;
        }
        if (*count == room) {
            room = room ? 2 * room : 256;
            process *larger = hri_realloc(*out, room * sizeof **out);
            if (!larger) {
                hri_free(*out);
                *out = NULL;
                closedir(dir);
                return HR_E_NOMEM_HOST;
            }
            *out = larger;
        }
        *count += read_process((pid_t)pid, &(*out)[*count]);
    }
    if (dir) {
        closedir(dir);
    }
    return HR_OK;
}

hr_status hri_ram_tree_read(pid_t root, bool exact, hri_ram_tree *out) {
    process *all;
    size_t count;
    const hr_status status = list_all(&all, &count);
    if (status != HR_OK) {
        return status;
    }
    hri_ram_tree tree = {0};
    uint64_t shared = 0;
    for (bool more = true; more;) { /* parents may come behind their children in the list */
        more = false;
        for (size_t i = 0; i < count; i++) {
            bool inside = all[i].pid == root;
            for (size_t j = 0; j < count && !inside; j++) {
                inside = all[j].inside && all[j].pid == all[i].parent;
            }
            more |= inside && !all[i].inside;
            all[i].inside = inside;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const process *p = &all[i];
        if (!p->inside || p->pid == getpid()) {
            continue;
        }
        const uint64_t bytes = exact ? proportional(p->pid, p->own_bytes) : p->own_bytes;
        tree.bytes += bytes;
        shared = p->shared_bytes > shared ? p->shared_bytes : shared;
        if (bytes >= tree.largest_bytes) {
            tree.largest_bytes = bytes;
            tree.largest = p->pid;
            memcpy(tree.name, p->name, sizeof tree.name);
        }
    }
    tree.bytes += exact ? 0 : shared;
    hri_free(all);
    *out = tree;
    return HR_OK;
}
