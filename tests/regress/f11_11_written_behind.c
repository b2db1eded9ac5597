/* Of a large file that is written, no more than a few pieces wait in memory for the disk: they count in the container, and
 * the kernel can take none of them back when it is full.  A training was killed while it wrote a checkpoint. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "program.h"
#include "test.h"

enum { PIECE = 256 << 10, PIECES = 160 };
#define MIB (1ull << 20)

/* A row of memory.stat, by its name in version 1 or 2. */
static uint64_t row(const char *group, const char *one, const char *two) {
    char path[256], name[64];
    unsigned long long value, got = 0;
    snprintf(path, sizeof path, "%s/memory.stat", group);
    FILE *f = fopen(path, "r");
    while (f && fscanf(f, "%63s %llu", name, &value) == 2) {
        got = !strcmp(name, one) || !strcmp(name, two) ? value : got;
    }
    if (f) {
        fclose(f);
    }
    return got;
}

static void enter(const char *group) {
    char path[256], text[32];
    snprintf(path, sizeof path, "%s/cgroup.procs", group);
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const int bytes = snprintf(text, sizeof text, "%d", (int)getpid());
    if (fd < 0 || write(fd, text, (size_t)bytes) != bytes) {
        _exit(2);
    }
    close(fd);
}

/* The most MiB that were dirty while 40 MiB were written; 255: it failed. */
static int write_all(const char *group, const char *path) {
    hri_writer w;
    uint64_t most = 0;
    char *piece = calloc(1, PIECE);
    enter(group);
    if (!piece || hri_writer_open(&w, path, NULL) != HR_OK) {
        return 255;
    }
    for (int i = 0; i < PIECES; i++) {
        memset(piece, i, PIECE);
        if (hri_writer_write(&w, piece, PIECE, NULL) != HR_OK) {
            return 255;
        }
        const uint64_t dirty = row(group, "dirty", "file_dirty");
        most = dirty > most ? dirty : most;
    }
    hri_writer_abandon(&w);
    free(piece);
    return (int)(most / MIB);
}

TEST(f11_11_written_behind, few_pieces_wait_for_the_disk) {
    static const long memory_only[] = {0x01021994, (long)0x858458f6}; /* tmpfs, ramfs */
    PROGRAM_NEED_CGROUP();
    char group[128], path[64] = "/tmp/headroom-behind-XXXXXX";
    struct statfs fs;
    CHECK(mkdtemp(path) && statfs(path, &fs) == 0);
    CHECK_EQ(rmdir(path), 0);
    if (fs.f_type == memory_only[0] || fs.f_type == memory_only[1]) {
        test_skip("/tmp is not on a disk");
    }
    CHECK(program_make_cgroup(group, sizeof group, 256 * MIB));
    const pid_t child = fork();
    if (child == 0) {
        _exit(write_all(group, path));
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    program_drop_cgroup(group);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) <= 8);
}
