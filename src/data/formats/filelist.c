/* The files of a source: see filelist.h. */
#include "data/formats/filelist.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/file.h"
#include "data/read.h"

enum { FILES_MAX = 1 << 16, KEPT_OPEN = 256, DEPTH_MAX = 16 };

/* Takes size and time of the last change. */
static hr_status look(int fd, const char *path, hri_file *f, hri_prose *why) {
    struct stat st;
    if (fstat(fd, &st) != 0) {
        return hri_prose_set(why, HR_E_IO, "%s: %s", path, strerror(errno));
    }
    f->bytes = (uint64_t)st.st_size;
    f->changed_s = (int64_t)st.st_mtim.tv_sec;
    f->changed_ns = (int64_t)st.st_mtim.tv_nsec;
    return HR_OK;
}

static hr_status add(hri_filelist *list, const char *path, hri_prose *why) {
    if (list->count == FILES_MAX) {
        return hri_prose_set(why, HR_E_RANGE, "more than %d files", FILES_MAX);
    }
    if (list->count % 64 == 0) {
        hri_file *grown = hri_realloc(list->files, (list->count + 64) * sizeof *grown);
        if (!grown) {
            return HR_E_NOMEM_HOST;
        }
        list->files = grown;
    }
    hri_file f = {.path = hri_strdup(path)};
    if (!f.path) {
        return HR_E_NOMEM_HOST;
    }
    hr_status status = hri_file_open_regular(path, &f.fd, &f.bytes, why);
    if (status != HR_OK) {
        hri_free(f.path);
        return status;
    }
    status = look(f.fd, path, &f, why);
    if (status != HR_OK || list->count >= KEPT_OPEN) {
        close(f.fd);
        f.fd = -1;
    }
    if (status != HR_OK) {
        hri_free(f.path);
        return status;
    }
    list->files[list->count++] = f;
    return HR_OK;
}

static bool is_folder(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

typedef struct entries {
    char **items;
    size_t count;
} entries;

static void entries_deinit(entries *n) {
    for (size_t i = 0; i < n->count; i++) {
        hri_free(n->items[i]);
    }
    hri_free(n->items);
}

static hr_status entries_add(entries *n, const char *name) {
    if (n->count % 64 == 0) {
        char **grown = hri_realloc(n->items, (n->count + 64) * sizeof *grown);
        if (!grown) {
            return HR_E_NOMEM_HOST;
        }
        n->items = grown;
    }
    n->items[n->count] = hri_strdup(name);
    return n->items[n->count] ? (n->count++, HR_OK) : HR_E_NOMEM_HOST;
}

/* What a folder holds, by name, without what is hidden. */
static hr_status entries_read(entries *n, const char *folder, hri_prose *why) {
    hr_status status = HR_OK;
    DIR *dir = opendir(folder);
    if (!dir) {
        return hri_prose_set(why, HR_E_IO, "%s: %s", folder, strerror(errno));
    }
    for (const struct dirent *e = readdir(dir); e && status == HR_OK; e = readdir(dir)) {
        status = e->d_name[0] != '.' ? entries_add(n, e->d_name) : HR_OK;
    }
    closedir(dir);
    if (n->count > 0) {
        qsort(n->items, n->count, sizeof *n->items, by_name);
    }
    return status;
}

static hr_status add_folder(hri_filelist *list, const char *folder, int depth, hri_prose *why) {
    entries found = {0};
    hr_status status = entries_read(&found, folder, why);
    for (size_t i = 0; i < found.count && status == HR_OK; i++) {
        char *path = NULL;
        status = hri_path_join(folder, found.items[i], &path);
        if (status == HR_OK && is_folder(path)) {
            status =
                depth < DEPTH_MAX
                    ? add_folder(list, path, depth + 1, why)
                    : hri_prose_set(why, HR_E_RANGE, "%s: more than %d folders inside one another",
                                    path, DEPTH_MAX);
        } else if (status == HR_OK) {
            status = add(list, path, why);
        }
        hri_free(path);
    }
    entries_deinit(&found);
    return status;
}

static hr_status add_name(hri_filelist *list, const char *name, bool folders, hri_prose *why) {
    const size_t before = list->count;
    if (!folders || !is_folder(name)) {
        return add(list, name, why);
    }
    const hr_status status = add_folder(list, name, 0, why);
    return status == HR_OK && list->count == before
               ? hri_prose_set(why, HR_E_NOT_FOUND, "%s: no files in this folder", name)
               : status;
}

static hr_status open_names(hri_filelist *list, const hri_list *names, bool folders,
                            hri_prose *why) {
    *list = (hri_filelist){0};
    if (names->count == 0) {
        return hri_prose_set(why, HR_E_INVALID, "path: missing file name");
    }
    hr_status status = HR_OK;
    for (size_t i = 0; status == HR_OK && i < names->count; i++) {
        if (!strpbrk(names->items[i], "*?[")) {
            status = add_name(list, names->items[i], folders, why);
            continue;
        }
        glob_t found;
        if (glob(names->items[i], 0, NULL, &found) != 0) {
            status = hri_prose_set(why, HR_E_NOT_FOUND, "%s: no file matches", names->items[i]);
            continue;
        }
        for (size_t k = 0; status == HR_OK && k < found.gl_pathc; k++) {
            status = add_name(list, found.gl_pathv[k], folders, why);
        }
        globfree(&found);
    }
    if (status != HR_OK) {
        hri_filelist_close(list);
    }
    return status;
}

hr_status hri_filelist_open(hri_filelist *list, const hri_list *names, hri_prose *why) {
    return open_names(list, names, false, why);
}

hr_status hri_filelist_open_folders(hri_filelist *list, const hri_list *names, hri_prose *why) {
    return open_names(list, names, true, why);
}

hr_status hri_filelist_open_in(hri_filelist *list, const char *folder, const char *const *names,
                               size_t count, hri_prose *why) {
    hr_status status = HR_OK;
    *list = (hri_filelist){0};
    for (size_t i = 0; status == HR_OK && i < count; i++) {
        char *path = NULL;
        status = hri_path_join(folder, names[i], &path);
        if (status == HR_OK) {
            status = add(list, path, why);
        }
        hri_free(path);
    }
    if (status != HR_OK) {
        hri_filelist_close(list);
    }
    return status;
}

void hri_filelist_close(hri_filelist *list) {
    for (size_t i = 0; i < list->count; i++) {
        if (list->files[i].fd >= 0) {
            close(list->files[i].fd);
        }
        hri_free(list->files[i].path);
    }
    hri_free(list->files);
    *list = (hri_filelist){0};
}

void hri_filelist_fingerprint(const hri_filelist *list, hri_state *w) {
    for (size_t i = 0; i < list->count; i++) {
        hri_state_put_blob(w, list->files[i].path, strlen(list->files[i].path));
        hri_state_put(w, list->files[i].bytes);
        hri_state_put(w, (uint64_t)list->files[i].changed_s);
        hri_state_put(w, (uint64_t)list->files[i].changed_ns);
    }
}

int64_t hri_filelist_newest(const hri_filelist *list, char *path, size_t size) {
    int64_t newest = INT64_MIN;
    for (size_t i = 0; i < list->count; i++) {
        if (list->files[i].changed_s > newest) {
            newest = list->files[i].changed_s;
            snprintf(path, size, "%s", list->files[i].path);
        }
    }
    return newest;
}

hr_status hri_filelist_read(const hri_file *f, uint64_t offset, void *to, uint64_t bytes,
                            hri_prose *why) {
    int fd = f->fd;
    uint64_t size;
    hr_status status = HR_OK;
    if (fd < 0) {
        status = hri_file_open_regular(f->path, &fd, &size, why);
        if (status != HR_OK) {
            return status;
        }
    }
    status = hri_read_at(fd, f->path, offset, to, bytes, why);
    hri_file now = {0};
    /* Looked at after reading: a change before or during it shows. */
    if ((status == HR_OK || status == HR_E_FORMAT) &&
        (look(fd, f->path, &now, why) != HR_OK || now.bytes != f->bytes ||
         now.changed_s != f->changed_s || now.changed_ns != f->changed_ns)) {
        status = hri_prose_set(why, HR_E_IO,
                               "%s: the file was changed after it was opened (noticed at byte "
                               "%llu)",
                               f->path, (unsigned long long)offset);
    }
    if (f->fd < 0) {
        close(fd);
    }
    return status;
}
