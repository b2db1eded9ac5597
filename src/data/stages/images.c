/* images:DIR  a folder of pictures: each folder in it is a class, in the order of the names; the files in a class (and
 * in folders below it) are its elements, in the order of the names.  "image" is the file as it is (u8[n]: decode
 * comes next), "label" the number of the class (i32), and with names=on "name" the path below DIR (u8[n]).
 *
 * images:FILE,classes=off is one picture, and images:@LIST,classes=off those whose paths are the lines of LIST.
 *
 * Opening lists the names (about 50 bytes each, charged), and looks into up to 4096 files, spread evenly, for the
 * largest file and picture: that is what the working sets of loading and decoding are made from.  A larger one found
 * later is served when the budget has room for it, and a bad element when not. */
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
#include "base/vector.h"
#include "data/image/image.h"
#include "data/read.h"
#include "data/stage.h"

enum {
    SAMPLE = 4096,
    HEAD_BYTES = 256 << 10,
    DEPTH_MAX = 8,
    PATH_SIZE = 4096,
    LIST_MOST = 1 << 30
};

typedef struct options {
    const char *path;
    bool classes, names;
} options;

static const hri_field fields[] = {
    {"path", "the folder; with classes=off also a file, or @ and a list of files",
     offsetof(options, path), HRI_FIELD_STRING, .metavar = "DIR"},
    {"classes", "folders are classes; off: no labels", offsetof(options, classes), HRI_FIELD_BOOL,
     "on"},
    {"names", "with the path of each file", offsetof(options, names), HRI_FIELD_BOOL, "off"},
    {0}};

HRI_VECTOR(names, char *)

typedef struct own {
    hri_buffer *text_memory, *start_memory; /* charged */
    char *text;                             /* "roses/1.jpg" and a NUL, one after the other */
    uint64_t text_used, text_size;
    uint64_t *starts; /* where each begins */
    uint64_t count, start_size;
    uint64_t *class_first; /* the first element of each class; class_count + 1 of them */
    names classes;
    uint64_t largest_file;
    bool listed; /* the names are whole paths */
} own;

/* ---- listing ---- */

static hr_status grow(hri_stage *s, hri_buffer **memory, void **data, uint64_t used, uint64_t *size,
                      uint64_t wanted) {
    uint64_t next = *size ? *size : 32 << 10;
    while (next < wanted) {
        next += next / 2;
    }
    hri_memory m = hri_stage_memory(s);
    hri_buffer *b;
    const hr_status status = hri_memory_buffer(&m, next, &b);
    if (status != HR_OK) {
        return status;
    }
    if (used) {
        memcpy(b->data, *data, used);
    }
    hri_buffer_unref(*memory);
    *memory = b;
    *data = b->data;
    *size = next;
    return HR_OK;
}

static hr_status add_file(hri_stage *s, const char *path) {
    own *w = s->own;
    const uint64_t bytes = strlen(path) + 1;
    hr_status status = HR_OK;
    if (w->text_used + bytes > w->text_size) {
        void *data = w->text;
        status = grow(s, &w->text_memory, &data, w->text_used, &w->text_size, w->text_used + bytes);
        w->text = data;
    }
    if (status == HR_OK && (w->count + 1) * sizeof *w->starts > w->start_size) {
        void *data = w->starts;
        status = grow(s, &w->start_memory, &data, w->count * sizeof *w->starts, &w->start_size,
                      (w->count + 1) * sizeof *w->starts);
        w->starts = data;
    }
    if (status != HR_OK) {
        return status;
    }
    memcpy(w->text + w->text_used, path, bytes);
    w->starts[w->count++] = w->text_used;
    w->text_used += bytes;
    if (w->count % 16384 == 0) {
        hri_pipeline_progress(s->pipeline, s, w->count, 0);
    }
    return HR_OK;
}

static bool is_picture(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 ||
                   strcasecmp(dot, ".png") == 0);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_free(names *list) {
    for (size_t i = 0; i < list->count; i++) {
        hri_free(list->items[i]);
    }
    names_deinit(list);
}

static hr_status names_add(names *list, const char *name) {
    char *copy = hri_strdup(name);
    const hr_status status = copy ? names_push(list, copy) : HR_E_NOMEM_HOST;
    if (status != HR_OK) {
        hri_free(copy);
    }
    return status;
}

/* The names in a folder, sorted: folders and pictures apart. */
static hr_status list_folder(const char *path, names *folders, names *files, hri_prose *why) {
    DIR *dir = HRI_FAULT(OPEN) ? NULL : opendir(path);
    if (!dir) {
        return hri_prose_set(why, errno == ENOENT ? HR_E_NOT_FOUND : HR_E_IO, "%s: %s", path,
                             strerror(errno));
    }
    hr_status status = HR_OK;
    struct dirent *entry;
    while (status == HR_OK && (entry = readdir(dir))) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        bool folder = entry->d_type == DT_DIR;
        if (entry->d_type == DT_LNK || entry->d_type == DT_UNKNOWN) {
            struct stat st;
            folder = fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode);
        }
        if (folder) {
            status = names_add(folders, entry->d_name);
        } else if (is_picture(entry->d_name)) {
            status = names_add(files, entry->d_name);
        }
    }
    closedir(dir);
    if (folders->count) {
        qsort(folders->items, folders->count, sizeof(char *), by_name);
    }
    if (files->count) {
        qsort(files->items, files->count, sizeof(char *), by_name);
    }
    return status;
}

/* Adds the pictures of DIR/inside and below. */
static hr_status scan(hri_stage *s, const char *inside, int depth, hri_prose *why) {
    const options *o = s->options;
    char path[PATH_SIZE];
    names folders = {0}, files = {0};
    const int n = snprintf(path, sizeof path, "%s/%s", o->path, inside);
    hr_status status = n < 0 || (size_t)n >= sizeof path
                           ? hri_prose_set(why, HR_E_RANGE, "%s: the path is too long", inside)
                           : list_folder(path, &folders, &files, why);
    const char *slash = inside[0] ? "/" : "";
    for (size_t i = 0; status == HR_OK && i < files.count; i++) {
        snprintf(path, sizeof path, "%s%s%s", inside, slash, files.items[i]);
        status = add_file(s, path);
    }
    for (size_t i = 0; status == HR_OK && i < folders.count && depth < DEPTH_MAX; i++) {
        snprintf(path, sizeof path, "%s%s%s", inside, slash, folders.items[i]);
        status = scan(s, path, depth + 1, why);
    }
    names_free(&folders);
    names_free(&files);
    return status;
}

static hr_status scan_classes(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    names files = {0};
    hr_status status = list_folder(o->path, &w->classes, &files, why);
    const size_t loose = files.count;
    names_free(&files);
    if (status == HR_OK && w->classes.count == 0) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "%s has no folders, so there are no classes (%zu pictures lie in it; "
                             "classes=off takes them without labels)",
                             o->path, loose);
    }
    w->class_first = status == HR_OK ? hri_calloc(w->classes.count + 1, sizeof(uint64_t)) : NULL;
    if (status == HR_OK && !w->class_first) {
        status = HR_E_NOMEM_HOST;
    }
    for (size_t i = 0; status == HR_OK && i < w->classes.count; i++) {
        w->class_first[i] = w->count;
        status = scan(s, w->classes.items[i], 1, why);
    }
    if (status == HR_OK) {
        w->class_first[w->classes.count] = w->count;
    }
    return status;
}

/* The lines of a file, as they are; empty ones are nothing. */
static hr_status read_list(hri_stage *s, const char *path, hri_prose *why) {
    char *text;
    hr_status status = hri_file_read(path, LIST_MOST, &text, NULL, why);
    if (status != HR_OK) {
        return status;
    }
    for (char *line = text, *next; status == HR_OK && line; line = next) {
        next = strchr(line, '\n');
        if (next) {
            *next++ = '\0';
        }
        const size_t length = strlen(line);
        if (length && line[length - 1] == '\r') {
            line[length - 1] = '\0';
        }
        if (strlen(line) >= PATH_SIZE) {
            status = hri_prose_set(why, HR_E_RANGE, "%s: a path in it is too long", path);
        } else if (line[0]) {
            status = add_file(s, line);
        }
    }
    hri_free(text);
    return status;
}

/* Without classes: a folder with all below it, one file, or a list of files. */
static hr_status scan_any(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    struct stat st;
    if (o->path[0] == '@') {
        w->listed = true;
        return read_list(s, o->path + 1, why);
    }
    if (stat(o->path, &st) == 0 && !S_ISDIR(st.st_mode)) {
        w->listed = true;
        return add_file(s, o->path);
    }
    return scan(s, "", 0, why);
}

/* ---- sizes ---- */

static void full_path(const hri_stage *s, uint64_t i, char *path) {
    const own *w = s->own;
    const char *folder = w->listed ? "" : ((const options *)s->options)->path;
    snprintf(path, PATH_SIZE, "%s%s%s", folder, w->listed ? "" : "/", w->text + w->starts[i]);
}

/* The largest file and picture among a sample; files that cannot be read are left for later. */
static hr_status sample(hri_stage *s) {
    own *w = s->own;
    char *head = hri_malloc(HEAD_BYTES);
    if (!head) {
        return HR_E_NOMEM_HOST;
    }
    const uint64_t n = w->count < SAMPLE ? w->count : SAMPLE;
    char path[PATH_SIZE];
    for (uint64_t i = 0; i < n; i++) {
        int fd = -1;
        uint64_t size;
        full_path(s, n == w->count ? i : i * (w->count / n), path);
        if (hri_file_open_regular(path, &fd, &size, NULL) == HR_OK) {
            w->largest_file = size > w->largest_file ? size : w->largest_file;
            const ssize_t got = read(fd, head, HEAD_BYTES);
            hri_image_info info;
            hri_spec *spec = &s->spec;
            if (got > 0 && hri_image_probe(head, (size_t)got, &info, NULL) == HR_OK &&
                (uint64_t)info.width * info.height < (uint64_t)1 << 28) {
                spec->image_width = info.width > spec->image_width ? info.width : spec->image_width;
                spec->image_height =
                    info.height > spec->image_height ? info.height : spec->image_height;
                spec->image_whole_bytes = info.whole_bytes > spec->image_whole_bytes
                                              ? info.whole_bytes
                                              : spec->image_whole_bytes;
            }
        }
        if (fd >= 0) {
            close(fd);
        }
        if (i % 256 == 255) {
            hri_pipeline_progress(s->pipeline, s, i + 1, n);
        }
    }
    hri_free(head);
    return HR_OK;
}

static hr_status open_images(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    if (!o->path) {
        return hri_prose_set(why, HR_E_INVALID, "path: which folder?");
    }
    hr_status status = o->classes ? scan_classes(s, why) : scan_any(s, why);
    if (status == HR_OK && w->count == 0) {
        status = hri_prose_set(why, HR_E_NOT_FOUND, "%s: there is no .jpg, .jpeg or .png in it",
                               o->path);
    }
    if (status == HR_OK) {
        status = sample(s);
    }
    if (status != HR_OK) {
        return status == HR_E_LIMIT || (status == HR_E_RANGE && !why->text[0])
                   ? hri_prose_set(why, HR_E_LIMIT,
                                   "the budget has no room for the names of %llu files",
                                   (unsigned long long)w->count)
                   : status;
    }
    s->spec.count = w->count;
    status = hri_spec_put(&s->spec, "image",
                          (hr_meta){.type = HR_TYPE_U8, .shape = {.rank = 1, .dim = {-1}}});
    if (status == HR_OK && o->classes) {
        status = hri_spec_put(&s->spec, "label", (hr_meta){.type = HR_TYPE_I32});
    }
    if (status == HR_OK && o->names) {
        status = hri_spec_put(&s->spec, "name",
                              (hr_meta){.type = HR_TYPE_U8, .shape = {.rank = 1, .dim = {-1}}});
    }
    s->spec.item_bytes = s->spec.load_bytes =
        hri_bytes_add(hri_pool_round(w->largest_file + 1), o->names ? 64 + PATH_SIZE : 64);
    return status;
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    *out = (hri_item){.source = s, .a = i, .epoch = s->epoch, .index = i};
    return HR_OK;
}

static int32_t label_of(const own *w, uint64_t i) {
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

static hr_status load_name(const own *w, uint64_t i, hr_emit *emit) {
    const char *name = w->text + w->starts[i];
    const size_t bytes = strlen(name);
    const hr_meta meta = {.type = HR_TYPE_U8, .shape = {.rank = 1, .dim = {(int64_t)bytes}}};
    void *data;
    const hr_status status = hr_emit_field(emit, "name", &meta, &data);
    if (status == HR_OK) {
        memcpy(data, name, bytes);
    }
    return status;
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const options *o = s->options;
    char path[PATH_SIZE];
    full_path(s, item->a, path);
    hr_status status = hri_emit_file(emit, "image", path);
    if (status == HR_OK && o->classes) {
        void *data;
        const hr_meta meta = {.type = HR_TYPE_I32};
        status = hr_emit_field(emit, "label", &meta, &data);
        if (status == HR_OK) {
            *(int32_t *)data = label_of(s->own, item->a);
        }
    }
    return status == HR_OK && o->names ? load_name(s->own, item->a, emit) : status;
}

static void name_of(hri_stage *s, const hri_item *item, char *buf, size_t size) {
    const own *w = s->own;
    snprintf(buf, size, "%s", w->text + w->starts[item->a]);
}

static const char *class_name(hri_stage *s, size_t index) {
    const own *w = s->own;
    return index < w->classes.count ? w->classes.items[index] : NULL;
}

static void fingerprint(hri_stage *s, hri_state *state) {
    const own *w = s->own;
    hri_state_put(state, w->count);
    hri_state_put_blob(state, w->text, w->text_used);
}

static void close_images(hri_stage *s) {
    own *w = s->own;
    hri_buffer_unref(w->text_memory);
    hri_buffer_unref(w->start_memory);
    hri_free(w->class_first);
    names_free(&w->classes);
}

const hri_stage_type hri_stage_type_images = {
    .name = "images",
    .help = "a folder of JPEG and PNG files, one folder a class",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .open = open_images,
    .close = close_images,
    .at = at,
    .load = load,
    .name_of = name_of,
    .class_name = class_name,
    .fingerprint = fingerprint,
};
