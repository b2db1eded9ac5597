/* Looking through labels; see labels.h. */
#include "train/labels.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "data/formats/npy.h"

enum { PIECE = 8192 };
#define MOST_BYTES (UINT64_C(1) << 30) /* more than that is not looked through */

/* Is none of these n numbers, as they lie in the file, negative? */
static int none_negative(const hri_npy *a, const void *from, uint64_t n) {
    int64_t room[PIECE];
    const void *data = from;
    if (a->kind != HRI_NPY_SAME) {
        hri_npy_convert(a->kind, from, room, n);
        data = room;
    }
    int ok = 1;
    for (uint64_t i = 0; i < n; i++) {
        ok &= a->meta.type == HR_TYPE_I32   ? ((const int32_t *)data)[i] >= 0
              : a->meta.type == HR_TYPE_I64 ? ((const int64_t *)data)[i] >= 0
              : a->meta.type == HR_TYPE_F32 ? ((const float *)data)[i] >= 0
                                            : a->meta.type == HR_TYPE_U8;
    }
    return ok;
}

static int scan(int fd, uint64_t bytes) {
    const size_t room = PIECE * sizeof(int64_t);
    hri_npy a;
    hri_prose why = {""};
    char *piece = hri_malloc(room);
    ssize_t got = piece ? pread(fd, piece, HRI_NPY_HEAD_MAX, 0) : -1;
    int ok = got > 0 && hri_npy_parse(piece, (size_t)got, &a, &why) == HR_OK && a.unit_bytes;
    const uint64_t all = ok ? (uint64_t)hr_shape_count(&a.meta.shape) : 0;
    ok = ok && bytes <= MOST_BYTES && all <= bytes / a.unit_bytes;
    for (uint64_t at = 0; ok && at < all; at += PIECE) {
        const uint64_t n = all - at < PIECE ? all - at : PIECE;
        const size_t want = (size_t)(n * a.unit_bytes);
        got = pread(fd, piece, want, (off_t)(a.data_start + at * a.unit_bytes));
        ok = got == (ssize_t)want && none_negative(&a, piece, n);
    }
    hri_free(piece);
    return ok;
}

/* The second file of "npy:X.npy,Y.npy", whose fields have their usual names. */
static char *label_file(const char *text) {
    const char *from = text + strspn(text, " ");
    const char *end = strchr(from, '|');
    const size_t length = end ? (size_t)(end - from) : strlen(from);
    if (strncmp(from, "npy:", 4) != 0 || memchr(from, '=', length) || memchr(from, '"', length) ||
        memchr(from, '(', length)) {
        return NULL;
    }
    const char *comma = memchr(from, ',', length);
    if (!comma) {
        return NULL;
    }
    const char *begin = comma + 1 + strspn(comma + 1, " ");
    size_t n = strcspn(begin, ",|");
    while (n && begin[n - 1] == ' ') {
        n--;
    }
    char *path = hri_malloc(n + 1);
    if (path) {
        memcpy(path, begin, n);
        path[n] = '\0';
    }
    return path;
}

static int npy_all_count(const hri_source *s) {
    char *path = strcmp(s->label.name, "y") ? NULL : label_file(s->text);
    hri_prose why = {""};
    int fd = -1, ok = 0;
    uint64_t bytes = 0;
    if (path && hri_file_open_regular(path, &fd, &bytes, &why) == HR_OK) {
        ok = scan(fd, bytes);
        close(fd);
    }
    hri_free(path);
    return ok;
}

int hri_labels_all_count(const hri_source *s) {
    static const char *const kinds[] = {"images", "mnist", "cifar10", "synthetic", "tokens"};
    if (strstr(s->text, "rename")) {
        return 0; /* any field may have become the label */
    }
    if (!s->label.name[0]) {
        return 1; /* the next token: all but the last of each sample */
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!strcmp(s->kind, kinds[i])) {
            return 1;
        }
    }
    return !strcmp(s->kind, "npy") && npy_all_count(s);
}
