/* Folders of images as a list; see imagelist.h. */
#include "data/formats/imagelist.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/prose.h"
#include "data/image/image.h"
#include "data/pipeline.h"
#include "data/read.h"

enum {
    SAMPLE = HRI_IMAGELIST_SAMPLE,
    HEAD_BYTES = HRI_IMAGELIST_HEAD,
    PATH_SIZE = HRI_IMAGELIST_PATH
};

/* ---- listing ---- */

/* A walk through folders. */
typedef struct walk {
    hri_stage *s;
    hri_imagelist *list;
    char *path;  /* PATH_SIZE */
    size_t root; /* where the part below DIR begins */
    uint64_t others, loops;
    char first_other[256], first_loop[256];
} walk;

typedef struct above {
    dev_t device;
    ino_t inode;
    const struct above *next;
} above;

static const char *what(const hri_imagelist *w) {
    return w->texts ? "text" : "image";
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_free(hri_names *list) {
    for (size_t i = 0; i < list->count; i++) {
        hri_free(list->items[i]);
    }
    hri_names_deinit(list);
}

static hr_status names_add(hri_names *list, const char *name) {
    char *copy = hri_strdup(name);
    const hr_status status = copy ? hri_names_push(list, copy) : HR_E_NOMEM_HOST;
    if (status != HR_OK) {
        hri_free(copy);
    }
    return status;
}

static hr_status refused(const char *path, int error, hri_prose *why) {
    return error == ENOENT
               ? hri_prose_set(why, HR_E_NOT_FOUND, "%s: no such file or directory", path)
               : hri_prose_set(why, HR_E_IO, "%s: %s", path, strerror(error));
}

/* Puts what is known of a file into the fingerprint; one that cannot be looked at counts by its name. */
static void note_file(hri_imagelist *w, uint64_t i, const char *name, const struct stat *st) {
    hri_stage *s = w->files.stage;
    hri_hasher_add_string(&w->print, name);
    if (!st) {
        return;
    }
    const uint64_t size = (uint64_t)st->st_size;
    const struct timespec *t = &st->st_mtim, *newest = &w->newest_time;
    hri_hasher_add_u64(&w->print, size);
    hri_hasher_add_u64(&w->print, (uint64_t)t->tv_sec);
    hri_hasher_add_u64(&w->print, (uint64_t)t->tv_nsec);
    w->largest_file = size > w->largest_file ? size : w->largest_file;
    if (t->tv_sec > newest->tv_sec ||
        (t->tv_sec == newest->tv_sec && t->tv_nsec > newest->tv_nsec)) {
        w->newest = i;
        w->newest_time = *t;
    }
    if ((i + 1) % 16384 == 0) {
        hri_pipeline_progress(s->pipeline, s, i + 1, 0);
    }
}

/* One entry of a folder. */
static hr_status take_entry(walk *k, int folder, const struct dirent *entry, hri_names *folders) {
    hri_imagelist *w = k->list;
    bool is_folder = entry->d_type == DT_DIR;
    if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) {
        struct stat st;
        is_folder = fstatat(folder, entry->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
    }
    if (is_folder) {
        return names_add(folders, entry->d_name);
    }
    if (w->texts || hri_image_is_name(entry->d_name)) {
        return hri_pathlist_add(&w->files, entry->d_name);
    }
    if (k->others++ == 0) {
        snprintf(k->first_other, sizeof k->first_other, "%.180s%s%.64s", k->path + k->root,
                 k->path[k->root] ? "/" : "", entry->d_name);
    }
    return HR_OK;
}

/* The images of the folder at k->path go to the list, sorted; the folders in it to `folders`, sorted. */
static hr_status list_folder(walk *k, hri_names *folders, above *here, hri_prose *why) {
    hri_imagelist *w = k->list;
    const uint64_t first = w->files.count;
    DIR *dir = HRI_FAULT(OPEN) ? NULL : opendir(k->path);
    if (!dir) {
        return refused(k->path, errno, why);
    }
    struct stat st;
    if (fstat(dirfd(dir), &st) == 0) {
        here->device = st.st_dev;
        here->inode = st.st_ino;
    }
    for (const above *a = here->next; a; a = a->next) {
        if (a->device == here->device && a->inode == here->inode) {
            if (k->loops++ == 0) {
                snprintf(k->first_loop, sizeof k->first_loop, "%.255s", k->path + k->root);
            }
            closedir(dir);
            return HR_OK;
        }
    }
    hr_status status = hri_pathlist_enter(&w->files, k->path + k->root);
    struct dirent *entry;
    while (status == HR_OK && (entry = readdir(dir))) {
        if (entry->d_name[0] != '.') {
            status = take_entry(k, dirfd(dir), entry, folders);
        }
    }
    if (status == HR_OK) {
        hri_pathlist_sort(&w->files, first);
        hri_hasher_add_string(&w->print, k->path + k->root);
    }
    for (uint64_t i = first; status == HR_OK && !w->files.counting && i < w->files.count; i++) {
        const char *name = hri_pathlist_name(&w->files, i);
        note_file(w, i, name, fstatat(dirfd(dir), name, &st, 0) == 0 ? &st : NULL);
    }
    closedir(dir);
    if (folders->count) {
        qsort(folders->items, folders->count, sizeof(char *), by_name);
    }
    return status;
}

/* Goes down to a folder in the folder at k->path; *back is for going up again. */
static hr_status go_down(walk *k, const char *name, size_t *back, hri_prose *why) {
    *back = strlen(k->path);
    const size_t room = PATH_SIZE - *back;
    if ((size_t)snprintf(k->path + *back, room, "/%s", name) >= room) {
        k->path[*back] = '\0';
        return hri_prose_set(why, HR_E_RANGE, "%s: the path of a folder inside is too long",
                             k->path);
    }
    return HR_OK;
}

/* Adds the images of the folder at k->path and below. */
static hr_status scan(walk *k, const above *parent, hri_prose *why) {
    hri_names folders = {0};
    above here = {.next = parent};
    hr_status status = list_folder(k, &folders, &here, why);
    for (size_t i = 0; status == HR_OK && i < folders.count; i++) {
        size_t back;
        status = go_down(k, folders.items[i], &back, why);
        if (status == HR_OK) {
            status = scan(k, &here, why);
            k->path[back] = '\0';
        }
    }
    names_free(&folders);
    return status;
}

/* A class without images is a class all the same, but nobody wants one. */
static void note_class(walk *k, size_t i, uint64_t others_before) {
    const hri_imagelist *w = k->list;
    const uint64_t others = k->others - others_before;
    if (w->class_first[i] == w->files.count && others) {
        hri_pipeline_note(
            k->s->pipeline,
            "%s: class %s has no images: none of its %llu files is a " HRI_IMAGE_NAMES, k->s->name,
            w->classes.items[i], (unsigned long long)others);
    } else if (w->class_first[i] == w->files.count) {
        hri_pipeline_note(k->s->pipeline, "%s: class %s has no %ss: its folder is empty",
                          k->s->name, w->classes.items[i], what(w));
    }
}

static hr_status scan_classes(walk *k, hri_prose *why) {
    hri_imagelist *w = k->list;
    above here = {.next = NULL};
    hr_status status = list_folder(k, &w->classes, &here, why);
    const uint64_t loose = w->files.count;
    if (status == HR_OK && w->classes.count == 0) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "%s contains no class folders (it has %llu %s%s; classes=off "
                             "reads them without labels)",
                             k->path, (unsigned long long)loose, what(w), hri_plural(loose));
    }
    if (status == HR_OK && loose) {
        hri_pipeline_note(k->s->pipeline, "%s: skipping %llu %s%s outside the class folders",
                          k->s->name, (unsigned long long)loose, what(w), hri_plural(loose));
        hri_pathlist_deinit(&w->files);
        w->files.stage = k->s;
        w->largest_file = 0;
        w->newest = 0;
        w->newest_time = (struct timespec){0};
        hri_hasher_init(&w->print, 0);
    }
    k->others = 0; /* lists and read-me files of the whole set */
    w->class_first = status == HR_OK ? hri_calloc(w->classes.count + 1, sizeof(uint64_t)) : NULL;
    if (status == HR_OK && !w->class_first) {
        status = HR_E_NOMEM_HOST;
    }
    for (size_t i = 0; status == HR_OK && i < w->classes.count; i++) {
        size_t back;
        const uint64_t others = k->others;
        w->class_first[i] = w->files.count;
        status = go_down(k, w->classes.items[i], &back, why);
        if (status == HR_OK) {
            status = scan(k, &here, why);
            k->path[back] = '\0';
        }
        if (status == HR_OK) {
            note_class(k, i, others);
        }
    }
    if (status == HR_OK) {
        w->class_first[w->classes.count] = w->files.count;
    }
    return status;
}

/* ---- lists ---- */

static hr_status add_path(hri_imagelist *w, const char *path) {
    struct stat st;
    const hr_status status = hri_pathlist_add(&w->files, path);
    if (status == HR_OK && !w->files.counting) {
        note_file(w, w->files.count - 1, path, stat(path, &st) == 0 ? &st : NULL);
    }
    return status;
}

/* One line, without its end; empty ones are nothing. */
static hr_status add_line(hri_imagelist *w, char *line, size_t length) {
    length -= length && line[length - 1] == '\r';
    line[length] = '\0';
    return length ? add_path(w, line) : HR_OK;
}

/* The lines of a file, through a buffer of one path. */
static hr_status read_list(hri_imagelist *w, const char *path, char *line, hri_prose *why) {
    int fd;
    uint64_t bytes, at = 0;
    size_t used = 0;
    hr_status status = hri_file_open_regular(path, &fd, &bytes, why);
    if (status != HR_OK) {
        return status;
    }
    while (status == HR_OK && (at < bytes || used)) {
        const uint64_t room = PATH_SIZE - 1 - used, left = bytes - at;
        const uint64_t n = left < room ? left : room;
        status = hri_read_at(fd, path, at, line + used, n, why);
        at += n;
        used += (size_t)n;
        size_t from = 0;
        for (char *end; status == HR_OK && (end = memchr(line + from, '\n', used - from));) {
            const size_t length = (size_t)(end - line) - from;
            status = add_line(w, line + from, length);
            from += length + 1;
        }
        if (status == HR_OK && from == 0 && at < bytes) {
            status = hri_prose_set(why, HR_E_RANGE, "%s: a path inside is too long", path);
        }
        memmove(line, line + from, used - from);
        used -= from;
        if (status == HR_OK && at == bytes) {
            status = add_line(w, line, used);
            used = 0;
        }
    }
    close(fd);
    return status;
}

/* Without classes: a folder with all below it, one file, or a list of files. */
static hr_status scan_any(walk *k, hri_prose *why) {
    hri_imagelist *w = k->list;
    struct stat st;
    const bool list = w->path[0] == '@';
    if (!list && (stat(w->path, &st) != 0 || S_ISDIR(st.st_mode))) {
        return scan(k, NULL, why);
    }
    w->listed = true;
    hr_status status = hri_pathlist_enter(&w->files, "");
    if (status == HR_OK) {
        status = list ? read_list(w, w->path + 1, k->path, why) : add_path(w, w->path);
    }
    return status;
}

static hr_status scan_all(hri_imagelist *w, bool classes, hri_prose *why) {
    hri_stage *s = w->files.stage;
    walk k = {.s = s, .list = w, .path = hri_malloc(PATH_SIZE), .root = strlen(w->path) + 1};
    if (!k.path) {
        return HR_E_NOMEM_HOST;
    }
    if (k.root + 1 >= PATH_SIZE) {
        hri_free(k.path);
        return hri_prose_set(why, HR_E_RANGE, "%s: the path is too long", w->path);
    }
    memset(k.path + k.root - 1, 0, 2); /* "DIR" and, behind its end, "" as the part below it */
    memcpy(k.path, w->path, k.root - 1);
    hri_hasher_init(&w->print, 0);
    hr_status status = classes ? scan_classes(&k, why) : scan_any(&k, why);
    if (status == HR_OK) {
        status = hri_pathlist_check(&w->files, why);
    }
    if (status == HR_OK && classes && w->classes.count == 1) {
        hri_pipeline_note(s->pipeline,
                          "%s: all %ss are of the only class, %s, so there is nothing to learn",
                          s->name, what(w), w->classes.items[0]);
    }
    if (status == HR_OK && w->files.count && k.others) {
        hri_pipeline_note(s->pipeline,
                          "%s: skipping %llu file%s that %s not " HRI_IMAGE_NAMES " (the first is "
                          "%s)",
                          s->name, (unsigned long long)k.others, hri_plural(k.others),
                          k.others == 1 ? "is" : "are", k.first_other);
    }
    if (status == HR_OK && k.loops) {
        hri_pipeline_note(s->pipeline,
                          "%s: skipping %llu folder%s that link%s to a parent folder (the first is "
                          "%s)",
                          s->name, (unsigned long long)k.loops, hri_plural(k.loops),
                          k.loops == 1 ? "s" : "", k.first_loop);
    }
    if (status == HR_E_RANGE && !why->text[0]) {
        hri_prose_set(why, status, "%s: a path inside is too long, or there are too many", w->path);
    }
    hri_free(k.path);
    return status;
}

/* ---- sizes ---- */

/* False when it is too long. */
bool hri_imagelist_path(const hri_imagelist *w, uint64_t i, char *path) {
    size_t used = 0;
    if (!w->listed) {
        used = (size_t)snprintf(path, PATH_SIZE, "%s/", w->path);
    }
    return used < PATH_SIZE &&
           hri_pathlist_print(&w->files, i, path + used, PATH_SIZE - used) < PATH_SIZE - used;
}

/* From the first bytes, or from the directory of a TIFF that has it elsewhere. */
static hr_status probe(int fd, char *head, size_t got, hri_image_info *out) {
    uint64_t at;
    const hr_status status = hri_image_probe(head, got, out, NULL);
    if (status != HR_E_EOF || !hri_tiff_directory(head, got, &at) || at > INT64_MAX) {
        return status;
    }
    const ssize_t more = pread(fd, head + 16, HEAD_BYTES - 16, (off_t)at);
    return more > 0 ? hri_tiff_probe_at(head, head + 16, (size_t)more, out, NULL) : status;
}

static uint32_t least(uint32_t so_far, uint32_t other) {
    return !so_far || other < so_far ? other : so_far;
}

void hri_imagelist_measure(hri_spec *spec, const char *path, char *head) {
    int fd = -1;
    uint64_t size;
    if (hri_file_open_regular(path, &fd, &size, NULL) != HR_OK) {
        return;
    }
    const ssize_t got = read(fd, head, HEAD_BYTES);
    hri_image_info info;
    if (got > 0 && probe(fd, head, (size_t)got, &info) == HR_OK &&
        (uint64_t)info.width * info.height < (uint64_t)1 << 28) {
        spec->image_width = info.width > spec->image_width ? info.width : spec->image_width;
        spec->image_height = info.height > spec->image_height ? info.height : spec->image_height;
        spec->image_least_width = least(spec->image_least_width, info.width);
        spec->image_least_height = least(spec->image_least_height, info.height);
        spec->image_whole_bytes =
            info.whole_bytes > spec->image_whole_bytes ? info.whole_bytes : spec->image_whole_bytes;
    }
    close(fd);
}

/* The largest image among a sample. */
static hr_status sample(hri_imagelist *w) {
    hri_stage *s = w->files.stage;
    char *head = hri_malloc(HEAD_BYTES);
    if (!head) {
        return HR_E_NOMEM_HOST;
    }
    const uint64_t count = w->files.count, n = count < SAMPLE ? count : SAMPLE;
    char path[PATH_SIZE];
    for (uint64_t i = 0; i < n; i++) {
        if (hri_imagelist_path(w, n == count ? i : i * (count / n), path)) {
            hri_imagelist_measure(&s->spec, path, head);
        }
        if (i % 256 == 255) {
            hri_pipeline_progress(s->pipeline, s, i + 1, n);
        }
    }
    hri_free(head);
    return HR_OK;
}

hr_status hri_imagelist_open(hri_imagelist *w, hri_stage *s, const char *path, bool classes,
                             hri_prose *why) {
    w->path = path;
    w->files.stage = s;
    hr_status status = scan_all(w, classes, why);
    if (status == HR_OK && w->files.count == 0) {
        status = hri_prose_set(why, HR_E_NOT_FOUND, "%s: contains no %s files", path,
                               w->texts ? "text" : HRI_IMAGE_NAMES);
    }
    return status == HR_OK && !w->texts ? sample(w) : status;
}

void hri_imagelist_close(hri_imagelist *w) {
    hri_pathlist_deinit(&w->files);
    hri_free(w->class_first);
    names_free(&w->classes);
}

int32_t hri_imagelist_class(const hri_imagelist *w, uint64_t i) {
    size_t low = 0, high = w->classes.count; /* class_first[low] <= i < class_first[high] */
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;
        if (w->class_first[middle] <= i) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return (int32_t)low;
}

hr_status hri_imagelist_emit_name(const hri_imagelist *w, uint64_t i, hr_emit *emit) {
    char name[PATH_SIZE];
    const size_t printed = hri_pathlist_print(&w->files, i, name, sizeof name);
    const size_t bytes = printed < sizeof name ? printed : sizeof name - 1;
    const hr_meta meta = {.type = HR_TYPE_U8, .shape = {.rank = 1, .dim = {(int64_t)bytes}}};
    void *data;
    const hr_status status = hr_emit_field(emit, "name", &meta, &data);
    if (status == HR_OK) {
        memcpy(data, name, bytes);
    }
    return status;
}

void hri_imagelist_print_to(const hri_imagelist *w, hri_state *state) {
    const hri_hash128 print = hri_hasher_get(&w->print);
    hri_state_put(state, w->files.count);
    hri_state_put(state, print.lo);
    hri_state_put(state, print.hi);
}

int64_t hri_imagelist_newest(const hri_imagelist *w, char *path, size_t size) {
    char whole[PATH_SIZE];
    if (!w->files.count || !hri_imagelist_path(w, w->newest, whole)) {
        return INT64_MIN;
    }
    snprintf(path, size, "%s", whole);
    return (int64_t)w->newest_time.tv_sec;
}
