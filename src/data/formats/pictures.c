/* See pictures.h. */
#include "data/formats/pictures.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "data/formats/imagelist.h"
#include "data/read.h"

enum { PATH_SIZE = HRI_IMAGELIST_PATH };

hr_status hri_pictures_open(hri_pictures *p, hri_stage *s, const char *folder, const char *file,
                            hri_prose *why) {
    const char *slash = strrchr(file, '/');
    const char *from = folder ? folder : file;
    const size_t n = folder ? strlen(folder) : slash ? (size_t)(slash + 1 - file) : 0;
    p->folder = hri_malloc(n + 2);
    p->head = hri_malloc(HRI_IMAGELIST_HEAD);
    if (!p->folder || !p->head) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for images");
    }
    snprintf(p->folder, n + 2, "%.*s%s", (int)n, from, n && from[n - 1] != '/' ? "/" : "");
    p->file = file;
    p->stage = s;
    p->newest_s = INT64_MIN;
    hri_hasher_init(&p->print, 0);
    return HR_OK;
}

/* False when there is none, or it is too long. */
static bool path_of(const hri_pictures *p, const char *cell, size_t bytes, char *path) {
    const char *folder = bytes && *cell == '/' ? "" : p->folder;
    return bytes && bytes < PATH_SIZE && !memchr(cell, '\0', bytes) &&
           (size_t)snprintf(path, PATH_SIZE, "%s%.*s", folder, (int)bytes, cell) < PATH_SIZE;
}

static hr_status note(hri_pictures *p, const char *path, const struct stat *st) {
    const uint64_t size = (uint64_t)st->st_size;
    p->found++;
    p->largest_file = size > p->largest_file ? size : p->largest_file;
    hri_hasher_add_u64(&p->print, size);
    hri_hasher_add_u64(&p->print, (uint64_t)st->st_mtim.tv_sec);
    hri_hasher_add_u64(&p->print, (uint64_t)st->st_mtim.tv_nsec);
    if ((int64_t)st->st_mtim.tv_sec <= p->newest_s) {
        return HR_OK;
    }
    char *newest = hri_strdup(path);
    if (newest) {
        hri_free(p->newest);
        p->newest = newest;
        p->newest_s = (int64_t)st->st_mtim.tv_sec;
    }
    return newest ? HR_OK : HR_E_NOMEM_HOST;
}

hr_status hri_pictures_look(hri_pictures *p, uint64_t row, uint64_t rows, const char *cell,
                            size_t bytes, hri_prose *why) {
    char path[PATH_SIZE];
    struct stat st;
    hr_status status = HR_OK;
    const bool named = path_of(p, cell, bytes, path);
    if (named && stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        status = note(p, path, &st);
        const uint64_t each = (rows + HRI_IMAGELIST_SAMPLE - 1) / HRI_IMAGELIST_SAMPLE;
        if (status == HR_OK && row % each == 0) {
            hri_imagelist_measure(&p->stage->spec, path, p->head);
        }
    }
    if (row + 1 < rows || status != HR_OK) {
        return status;
    }
    hri_free(p->head);
    p->head = NULL;
    return p->found ? HR_OK
                    : hri_prose_set(why, HR_E_NOT_FOUND,
                                    "%s: none of its images is there (the last one would be %s); "
                                    "folder=DIR says where their paths begin",
                                    p->file, named ? path : "without a name");
}

hr_status hri_pictures_emit(const hri_pictures *p, const char *cell, size_t bytes, hr_emit *emit) {
    char path[PATH_SIZE];
    if (!bytes) {
        return hri_emit_fail(emit, HR_E_FORMAT, "it names no image");
    }
    if (!path_of(p, cell, bytes, path)) {
        return hri_emit_fail(emit, HR_E_RANGE, "the path of its image is too long");
    }
    const int there = access(path, R_OK);
    return there == 0 ? hri_emit_file(emit, "image", path)
                      : hri_emit_fail(emit, HR_E_IO, "its image %s: %s", path,
                                      errno == ENOENT ? "no such file" : "it cannot be read");
}

void hri_pictures_fingerprint(const hri_pictures *p, hri_state *state) {
    const hri_hash128 print = hri_hasher_get(&p->print);
    hri_state_put(state, p->found);
    hri_state_put(state, print.lo);
    hri_state_put(state, print.hi);
}

int64_t hri_pictures_newest(const hri_pictures *p, char *path, size_t size) {
    snprintf(path, size, "%s", p->newest ? p->newest : "");
    return p->newest_s;
}

void hri_pictures_close(hri_pictures *p) {
    hri_free(p->folder);
    hri_free(p->newest);
    hri_free(p->head);
    *p = (hri_pictures){0};
}
