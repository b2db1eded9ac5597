/* See alone.h. */
#include "govern/alone.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "broker/daemon.h"
#include "broker/wire.h"
#include "govern/story.h"
#include "govern/watch.h"

extern char **environ;

/* The number behind the last one that left a file. */
static uint64_t next_job(const char *folder) {
    DIR *dir = opendir(folder);
    const struct dirent *entry;
    uint64_t last = 0;
    while (dir && (entry = readdir(dir))) {
        unsigned long long of = 0;
        if (sscanf(entry->d_name, "job-%llu", &of) == 1 && of > last) {
            last = of;
        }
    }
    if (dir) {
        closedir(dir);
    }
    return last + 1;
}

/* The file of the job is made here, so that nobody else takes the number. */
static uint64_t take_number(const char *folder) {
    enum { TRIES = 1000 };
    char path[HRI_RAM_PATH + 32];
    uint64_t job = next_job(folder);
    for (int i = 0; i < TRIES; i++, job++) {
        snprintf(path, sizeof path, "%s/job-%llu", folder, (unsigned long long)job);
        const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0) {
            close(fd);
            return job;
        }
        if (errno != EEXIST) {
            return 0;
        }
    }
    return 0;
}

hr_status hri_alone_init(hri_alone *a, uint64_t ram_bytes, char *const *argv, hri_prose *why) {
    hri_prose ignored = {""}; /* what cannot be kept is not there to be read later */
    *a = (hri_alone){0};
    if (hri_wire_folder(a->folder, sizeof a->folder) == 0 &&
        hri_daemon_folder(a->folder, &ignored) == HR_OK) {
        a->job = take_number(a->folder);
    }
    if (a->job) {
        hri_story_begin(a->folder, a->job, argv);
        hri_story_forget(a->folder, a->job);
    }
    return hri_ram_init(&a->ram, ram_bytes, why);
}

hr_status hri_alone_run(hri_alone *a, char *const *argv, int *out_status, hri_prose *why) {
    const hr_status status = hri_run_watch(NULL, NULL, &a->ram, argv, environ, out_status, why);
    hri_ram_deinit(&a->ram, a->job ? a->folder : NULL, a->job);
    if (a->job && status == HR_OK) {
        hri_story_end(a->folder, a->job, argv, *out_status);
    }
    return status;
}
