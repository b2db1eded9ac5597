/* The choices that are known: a map in memory, a file of lines in the cache folder; see gpu_tune.h. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "device/cuda/gpu_tune.h"

enum { CHOICES_BYTES = 8 << 20, DIGITS = 32 };

typedef struct choice {
    hri_hash128 digest; /* of the bits that it gives */
    int used;
    char tag[]; /* NUL behind it */
} choice;

typedef struct choices {
    hri_strmap all; /* key -> choice * */
} choices;

static choice *find(const choices *c, const char *key) {
    uint64_t at = 0;
    return hri_strmap_get(&c->all, key, &at) ? (choice *)(uintptr_t)at : NULL;
}

static void keep(choices *c, const char *key, const char *tag, hri_hash128 digest) {
    choice *old = find(c, key);
    choice *made = hri_calloc(1, sizeof *made + strlen(tag) + 1);
    if (!made) {
        return;
    }
    made->digest = digest;
    made->used = old ? old->used : 0;
    memcpy(made->tag, tag, strlen(tag) + 1);
    if (hri_strmap_put(&c->all, key, (uint64_t)(uintptr_t)made) != HR_OK) {
        hri_free(made);
        return;
    }
    hri_free(old);
}

static void close_choices(void *part) {
    choices *c = part;
    uint64_t at_choice;
    for (size_t at = 0; hri_strmap_next(&c->all, &at, NULL, &at_choice);) {
        hri_free((void *)(uintptr_t)at_choice);
    }
    hri_strmap_deinit(&c->all);
    hri_free(c);
}

/* ---- lines ---- */

/* The file of choices; NULL when nothing is kept.  hri_free() it. */
static char *choices_path(hri_gpu *gpu) {
    char *path = NULL;
    return gpu->cache && hri_path_join(gpu->cache, "choices-2", &path) == HR_OK ? path : NULL;
}

static int digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int read_digest(const char *text, hri_hash128 *out) {
    uint64_t word[2] = {0};
    for (int i = 0; i < DIGITS; i++) {
        const int d = digit(text[i]);
        if (d < 0) {
            return 0;
        }
        word[i / 16] = word[i / 16] << 4 | (uint64_t)d;
    }
    *out = (hri_hash128){.lo = word[1], .hi = word[0]};
    return text[DIGITS] == 0;
}

/* KEY tab TAG tab DIGEST; 0 when it is none. */
static int read_line(choices *c, char *line) {
    hri_hash128 digest;
    char *tag = strchr(line, '\t');
    char *text = tag ? strchr(tag + 1, '\t') : NULL;
    if (!text || tag == line || !read_digest(text + 1, &digest)) {
        return 0;
    }
    *tag = *text = 0;
    keep(c, line, tag + 1, digest);
    return 1;
}

static void read_choices(hri_gpu *gpu, choices *c) {
    char *path = choices_path(gpu), *text = NULL;
    if (path && hri_file_read(path, CHOICES_BYTES, &text, NULL, NULL) == HR_OK) {
        for (char *line = text, *next; line; line = next) {
            char *end = strchr(line, '\n');
            next = end ? end + 1 : NULL;
            if (end) {
                *end = 0;
                (void)!read_line(c, line);
            }
        }
    }
    hri_free(text);
    hri_free(path);
}

static void append(hri_gpu *gpu, const char *key, const char *tag, hri_hash128 digest) {
    char *path = choices_path(gpu);
    if (path && hri_path_make_folders(gpu->cache, NULL) == HR_OK) {
        char line[HRI_GPU_KEY + 512];
        const int bytes = snprintf(line, sizeof line, "%s\t%s\t%016llx%016llx\n", key, tag,
                                   (unsigned long long)digest.hi, (unsigned long long)digest.lo);
        /* One write at the end of the file: two processes do not cut into one another's lines. */
        const int fd =
            HRI_FAULT(OPEN)
                ? -1
                : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
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

/* ---- asked and told ---- */

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

/* What was chosen by time alone is none of the rule's business. */
static const char *full_key(const hri_gpu *gpu, const char *key, char *buf, size_t size) {
    snprintf(buf, size, "%s%s", gpu->options.fastest ? "fastest " : "", key);
    return buf;
}

const char *hri_gpu_choice_get(hri_gpu *gpu, const char *key) {
    char full[HRI_GPU_KEY + 16];
    choices *c = choices_of(gpu);
    choice *found = c ? find(c, full_key(gpu, key, full, sizeof full)) : NULL;
    return found ? found->tag : NULL;
}

void hri_gpu_choice_put(hri_gpu *gpu, const char *key, const char *tag, hri_hash128 digest) {
    char full[HRI_GPU_KEY + 16];
    choices *c = choices_of(gpu);
    if (c) {
        keep(c, full_key(gpu, key, full, sizeof full), tag, digest);
        append(gpu, full, tag, digest);
    }
}

void hri_gpu_choice_used(hri_gpu *gpu, const char *key) {
    char full[HRI_GPU_KEY + 16];
    if (gpu->options.report) {
        gpu->options.report(gpu->options.report_user, key, NULL, 0, 0);
    }
    choices *c = gpu->trial_at ? NULL : choices_of(gpu);
    choice *found = c ? find(c, full_key(gpu, key, full, sizeof full)) : NULL;
    if (found) {
        found->used = 1;
    }
}
