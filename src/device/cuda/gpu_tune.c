/* See gpu_tune.h.  Times are the device's own, between two events of the queue; the least of three runs of a few
 * launches each counts, because whatever disturbs a run makes it longer. */
#include "device/cuda/gpu_tune.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"

enum { CHOICES_BYTES = 8 << 20, ROUNDS = 3 };

typedef struct choices {
    hri_strmap tags; /* key -> char *, ours */
} choices;

static void keep(choices *c, const char *key, const char *tag) {
    uint64_t old = 0;
    char *copy = hri_strdup(tag);
    const bool had = hri_strmap_get(&c->tags, key, &old);
    if (!copy || hri_strmap_put(&c->tags, key, (uint64_t)(uintptr_t)copy) != HR_OK) {
        hri_free(copy);
        return;
    }
    if (had) {
        hri_free((void *)(uintptr_t)old);
    }
}

static void close_choices(void *part) {
    choices *c = part;
    uint64_t tag;
    for (size_t at = 0; hri_strmap_next(&c->tags, &at, NULL, &tag);) {
        hri_free((void *)(uintptr_t)tag);
    }
    hri_strmap_deinit(&c->tags);
    hri_free(c);
}

/* The file of choices; NULL when nothing is kept.  hri_free() it. */
static char *choices_path(hri_gpu *gpu) {
    char *path = NULL;
    return gpu->cache && hri_path_join(gpu->cache, "choices", &path) == HR_OK ? path : NULL;
}

static void read_choices(hri_gpu *gpu, choices *c) {
    char *path = choices_path(gpu), *text = NULL;
    if (path && hri_file_read(path, CHOICES_BYTES, &text, NULL, NULL) == HR_OK) {
        for (char *line = text, *next; line; line = next) {
            char *end = strchr(line, '\n');
            next = end ? end + 1 : NULL;
            char *tab = strchr(line, '\t');
            if (end && tab && tab < end && tab > line) {
                *end = *tab = 0;
                keep(c, line, tab + 1);
            }
        }
    }
    hri_free(text);
    hri_free(path);
}

static choices *choices_of(hri_gpu *gpu) {
    if (!gpu->libs->part[HRI_GPU_PART_CHOICES]) {
        choices *c = hri_calloc(1, sizeof *c);
        if (!c) {
            return NULL;
        }
        read_choices(gpu, c);
        gpu->libs->part[HRI_GPU_PART_CHOICES] = c;
        gpu->libs->close[HRI_GPU_PART_CHOICES] = close_choices;
    }
    return gpu->libs->part[HRI_GPU_PART_CHOICES];
}

const char *hri_gpu_choice_get(hri_gpu *gpu, const char *key) {
    choices *c = choices_of(gpu);
    uint64_t tag = 0;
    return c && hri_strmap_get(&c->tags, key, &tag) ? (const char *)(uintptr_t)tag : NULL;
}

void hri_gpu_choice_put(hri_gpu *gpu, const char *key, const char *tag) {
    choices *c = choices_of(gpu);
    if (!c) {
        return;
    }
    keep(c, key, tag);
    char *path = choices_path(gpu);
    if (path && hri_path_make_folders(gpu->cache, NULL) == HR_OK) {
        char line[HRI_GPU_KEY + 256];
        const int bytes = snprintf(line, sizeof line, "%s\t%s\n", key, tag);
        /* One write at the end of the file: two processes do not cut into one another's lines. */
        const int fd =
            HRI_FAULT(OPEN) ? -1 : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        if (fd >= 0) {
            if (bytes > 0 && (size_t)bytes < sizeof line && !HRI_FAULT(WRITE)) {
                const ssize_t done = write(fd, line, (size_t)bytes);
                (void)done; /* half a line is passed over by who reads it */
            }
            close(fd);
        }
    }
    hri_free(path);
}

/* ---- times ---- */

/* Milliseconds of `launches` runs of a candidate; negative when it failed. */
static float time_one(hri_gpu *gpu, hri_gpu_try_fn *run, void *user, uint32_t index, int launches,
                      CUevent from, CUevent to) {
    const hri_cuda_driver *cu = gpu->cu;
    float ms = -1.0f;
    hr_status status = cu->cuEventRecord(from, gpu->stream) == CUDA_SUCCESS ? HR_OK : HR_E_DEVICE;
    for (int i = 0; i < launches && status == HR_OK; i++) {
        status = run(user, index);
    }
    if (status != HR_OK || cu->cuEventRecord(to, gpu->stream) != CUDA_SUCCESS ||
        cu->cuStreamSynchronize(gpu->stream) != CUDA_SUCCESS ||
        cu->cuEventElapsedTime(&ms, from, to) != CUDA_SUCCESS) {
        return -1.0f;
    }
    return ms / (float)launches;
}

hr_status hri_gpu_fastest(hri_gpu *gpu, uint32_t count, hri_gpu_try_fn *run, void *user,
                          uint32_t *out) {
    const hri_cuda_driver *cu = gpu->cu;
    CUevent from = NULL, to = NULL;
    int pushed, found = 0;
    float best = 0.0f;
    uint32_t chosen = 0;
    if (gpu->capturing) {
        return HR_E_BUSY;
    }
    hr_status status = hri_cuda_enter(gpu->dev, &pushed);
    if (status != HR_OK) {
        return status;
    }
    if (cu->cuEventElapsedTime && cu->cuEventCreate(&from, CU_EVENT_DEFAULT) == CUDA_SUCCESS &&
        cu->cuEventCreate(&to, CU_EVENT_DEFAULT) == CUDA_SUCCESS) {
        for (uint32_t i = 0; i < count; i++) {
            float least = time_one(gpu, run, user, i, 1, from, to); /* loads it, too */
            const int launches = least < 0.2f ? 4 : 1;
            for (int round = 0; round < ROUNDS && least >= 0.0f; round++) {
                const float ms = time_one(gpu, run, user, i, launches, from, to);
                least = ms < 0.0f || ms < least ? ms : least;
            }
            if (least >= 0.0f && (!found || least < best)) {
                best = least;
                chosen = i;
                found = 1;
            }
        }
    }
    if (from) {
        hri_cuda_must(gpu->dev, "cuEventDestroy", cu->cuEventDestroy_v2(from));
    }
    if (to) {
        hri_cuda_must(gpu->dev, "cuEventDestroy", cu->cuEventDestroy_v2(to));
    }
    hri_cuda_leave(gpu->dev, pushed);
    if (!found) {
        return HR_E_UNSUPPORTED;
    }
    *out = chosen;
    return HR_OK;
}

/* ---- ways ---- */

static const char *way_key(hri_gpu *gpu, const char *key, char *buf) {
    snprintf(buf, HRI_GPU_KEY, "way %s %s", gpu->dev->description, key);
    return buf;
}

int hri_gpu_chosen(hri_gpu *gpu, const char *key) {
    char full[HRI_GPU_KEY];
    const char *tag = hri_gpu_choice_get(gpu, way_key(gpu, key, full));
    return tag && tag[0] >= '0' && tag[0] <= '9' && !tag[1] ? tag[0] - '0' : -1;
}

hr_status hri_gpu_choose(hri_gpu *gpu, const char *key, uint32_t count, hri_gpu_try_fn *run,
                         void *user, uint32_t *out) {
    char full[HRI_GPU_KEY];
    const int known = hri_gpu_chosen(gpu, key);
    if (known >= 0 && (uint32_t)known < count) {
        *out = (uint32_t)known;
        return HR_OK;
    }
    uint32_t best = 0;
    const hr_status status = hri_gpu_fastest(gpu, count, run, user, &best);
    if (status == HR_OK) {
        const char tag[2] = {(char)('0' + best), 0};
        hri_gpu_choice_put(gpu, way_key(gpu, key, full), tag);
        *out = best;
    }
    return status;
}
