/* The files of a source: see filelist.h. */
#include "data/formats/filelist.h"

#include <glob.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/alloc.h"
#include "data/read.h"

enum { FILES_MAX = 1 << 16 };

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
    const hr_status status = hri_read_open(path, &f.fd, &f.bytes, why);
    if (status != HR_OK) {
        hri_free(f.path);
        return status;
    }
    list->files[list->count++] = f;
    return HR_OK;
}

hr_status hri_filelist_open(hri_filelist *list, const hri_list *names, hri_prose *why) {
    *list = (hri_filelist){0};
    if (names->count == 0) {
        return hri_prose_set(why, HR_E_INVALID, "path: which file?");
    }
    hr_status status = HR_OK;
    for (size_t i = 0; status == HR_OK && i < names->count; i++) {
        if (!strpbrk(names->items[i], "*?[")) {
            status = add(list, names->items[i], why);
            continue;
        }
        glob_t found;
        if (glob(names->items[i], 0, NULL, &found) != 0) {
            status =
                hri_prose_set(why, HR_E_NOT_FOUND, "%s: no file has such a name", names->items[i]);
            continue;
        }
        for (size_t k = 0; status == HR_OK && k < found.gl_pathc; k++) {
            status = add(list, found.gl_pathv[k], why);
        }
        globfree(&found);
    }
    if (status != HR_OK) {
        hri_filelist_close(list);
    }
    return status;
}

void hri_filelist_close(hri_filelist *list) {
    for (size_t i = 0; i < list->count; i++) {
        close(list->files[i].fd);
        hri_free(list->files[i].path);
    }
    hri_free(list->files);
    *list = (hri_filelist){0};
}

void hri_filelist_fingerprint(const hri_filelist *list, hri_state *w) {
    for (size_t i = 0; i < list->count; i++) {
        struct stat st;
        hri_state_put_blob(w, list->files[i].path, strlen(list->files[i].path));
        hri_state_put(w, list->files[i].bytes);
        hri_state_put(w, fstat(list->files[i].fd, &st) == 0 ? (uint64_t)st.st_mtime : 0);
    }
}
