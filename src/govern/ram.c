/* See ram.h. */
#include "govern/ram.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "govern/ram_tree.h"

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- files of a cgroup ---- */

/* Writes a word into a file of the group; 0 or an errno. */
static int put(const char *group, const char *file, const char *word) {
    char path[HRI_RAM_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", group, file);
    const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno;
    }
    const ssize_t length = (ssize_t)strlen(word);
    const int failed = write(fd, word, (size_t)length) == length ? 0 : errno;
    close(fd);
    return failed;
}

static int get(const char *group, const char *file, char *out, size_t size) {
    char path[HRI_RAM_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", group, file);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, out, size - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    out[got > 0 ? got : 0] = '\0';
    return got > 0 ? 0 : -1;
}

static int put_self(const char *group) {
    char number[32];
    snprintf(number, sizeof number, "%d", (int)getpid());
    return put(group, "cgroup.procs", number);
}

/* ---- a group of our own ---- */

/* Where this process is; 0, or -1 where there is no second version of cgroups. */
static int find_home(char out[HRI_RAM_PATH]) {
    char text[4096];
    const char *root = getenv("HEADROOM_CGROUP_ROOT");
    root = root && *root ? root : "/sys/fs/cgroup";
    char path[64] = "";
    if (get(root, "cgroup.controllers", text, sizeof text) != 0 || !strstr(text, "memory")) {
        return -1;
    }
    snprintf(path, sizeof path, "/proc/self");
    if (get(path, "cgroup", text, sizeof text) != 0) {
        return -1;
    }
    char *line = strstr(text, "0::/");
    if (!line || (line != text && line[-1] != '\n')) {
        return -1;
    }
    line += strlen("0::");
    line[strcspn(line, "\n")] = '\0';
    const int length = snprintf(out, HRI_RAM_PATH, "%s%s", root, strcmp(line, "/") ? line : "");
    return length > 0 && length < HRI_RAM_PATH - 64 ? 0 : -1;
}

/* Makes a group below `parent` with the limit, and proves that we may go in and come back; 0 or an errno. */
static int try_below(hri_ram *ram, const char *parent) {
    char limit[32];
    char controllers[1024];
    if (get(parent, "cgroup.subtree_control", controllers, sizeof controllers) != 0 ||
        !strstr(controllers, "memory")) {
        const int refused = put(parent, "cgroup.subtree_control", "+memory");
        if (refused) {
            return refused;
        }
    }
    const int length =
        snprintf(ram->path, sizeof ram->path, "%s/headroom-%d", parent, (int)getpid());
    if (length < 0 || (size_t)length >= sizeof ram->path) {
        return ENAMETOOLONG;
    }
    if (mkdir(ram->path, 0700) != 0) {
        return errno;
    }
    snprintf(limit, sizeof limit, "%llu", (unsigned long long)ram->record.limit_bytes);
    int refused = put(ram->path, "memory.max", limit);
    (void)put(ram->path, "memory.swap.max", "0"); /* where there is swap, it is no RAM */
    if (!refused) {
        refused = put_self(ram->path);
    }
    if (!refused) {
        refused = put_self(ram->home);
    }
    if (refused) {
        (void)rmdir(ram->path);
        ram->path[0] = '\0';
    }
    return refused;
}

hr_status hri_ram_init(hri_ram *ram, uint64_t bytes, hri_prose *why) {
    *ram = (hri_ram){.record = {.magic = HRI_RAM_MAGIC, .limit_bytes = bytes}};
    if (!bytes) {
        return HR_OK;
    }
    int refused = ENOENT;
    if (find_home(ram->home) == 0) {
        /* Beside us or further up: a group with processes in it has no room for groups with limits. */
        char parent[HRI_RAM_PATH];
        const char *root = getenv("HEADROOM_CGROUP_ROOT");
        const size_t shortest = strlen(root && *root ? root : "/sys/fs/cgroup");
        memcpy(parent, ram->home, sizeof parent);
        for (;;) {
            const int answer = try_below(ram, parent);
            refused = answer == 0 || refused == ENOENT || refused == EBUSY ? answer : refused;
            char *slash = strrchr(parent, '/');
            if (answer == 0 || !slash || strlen(parent) <= shortest) {
                break;
            }
            *slash = '\0';
        }
    }
    ram->path[0] = refused ? '\0' : ram->path[0];
    ram->record.enforced = refused == 0;
    if (refused == ENOENT) {
        (void)hri_prose_set(why, HR_OK, "this machine has no cgroup v2 with a memory controller");
    } else if (refused) {
        (void)hri_prose_set(why, HR_OK, "this user may not make a cgroup (%s)", strerror(refused));
    }
    return HR_OK;
}

bool hri_ram_enforced(const hri_ram *ram) {
    return ram->path[0] != '\0';
}

void hri_ram_enter(hri_ram *ram) {
    if (hri_ram_enforced(ram)) {
        (void)put_self(ram->path); /* it worked a moment ago */
    }
}

void hri_ram_leave(hri_ram *ram) {
    if (hri_ram_enforced(ram)) {
        (void)put_self(ram->home);
    }
}

/* ---- looking ---- */

static uint64_t number_after(const char *text, const char *name) {
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* What the kernel says of the group. */
static void read_group(hri_ram *ram) {
    char text[1024];
    if (get(ram->path, "memory.peak", text, sizeof text) == 0 ||
        get(ram->path, "memory.current", text, sizeof text) == 0) {
        const uint64_t peak = strtoull(text, NULL, 10);
        ram->record.peak_bytes = peak > ram->record.peak_bytes ? peak : ram->record.peak_bytes;
    }
    if (get(ram->path, "memory.events", text, sizeof text) == 0) {
        ram->record.kills_count = number_after(text, "oom_kill ");
    }
}

void hri_ram_look(hri_ram *ram, pid_t pid) {
    hri_ram_record *r = &ram->record;
    if (!r->limit_bytes) {
        return;
    }
    if (hri_ram_enforced(ram)) {
        read_group(ram);
        return;
    }
    hri_ram_tree tree = {0};
    if (hri_ram_tree_read(pid, false, &tree) == HR_OK && tree.bytes > r->limit_bytes &&
        hri_ram_tree_read(pid, true, &tree) == HR_OK && tree.bytes > r->limit_bytes &&
        tree.largest > 1 && tree.largest != r->pid && /* which may take a while to go */
        kill(tree.largest, SIGKILL) == 0) {
        r->kills_count++;
        r->at_ns = now_ns();
        r->pid = tree.largest;
        memcpy(r->name, tree.name, sizeof r->name);
    }
    r->peak_bytes = tree.bytes > r->peak_bytes ? tree.bytes : r->peak_bytes;
}

/* ---- the record ---- */

void hri_ram_deinit(hri_ram *ram, const char *folder, uint64_t job) {
    hri_ram_record *r = &ram->record;
    if (!r->limit_bytes) {
        return;
    }
    if (hri_ram_enforced(ram)) {
        read_group(ram);
        (void)rmdir(ram->path); /* stays while something of the program lives on in it */
    }
    r->job = job;
    r->at_ns = r->at_ns ? r->at_ns : now_ns();
    if (!folder) {
        return;
    }
    char path[HRI_RAM_PATH];
    snprintf(path, sizeof path, "%s/ram-%llu", folder, (unsigned long long)job);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0) {
        if (write(fd, r, sizeof *r) != (ssize_t)sizeof *r) {
            (void)unlink(path);
        }
        close(fd);
    }
}

bool hri_ram_record_check(const void *bytes, size_t count) {
    hri_ram_record r;
    if (count != sizeof r) {
        return false;
    }
    memcpy(&r, bytes, sizeof r);
    return r.magic == HRI_RAM_MAGIC && memchr(r.name, '\0', sizeof r.name) != NULL;
}

bool hri_ram_record_load(const char *folder, uint64_t job, hri_ram_record *out) {
    char path[HRI_RAM_PATH];
    hri_ram_record r;
    char more;
    snprintf(path, sizeof path, "%s/ram-%llu", folder, (unsigned long long)job);
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    const bool whole = fd >= 0 && read(fd, &r, sizeof r) == (ssize_t)sizeof r &&
                       read(fd, &more, 1) == 0 && hri_ram_record_check(&r, sizeof r) &&
                       r.job == job;
    if (fd >= 0) {
        close(fd);
    }
    if (whole) {
        *out = r;
    }
    return whole;
}
