/* Reading safetensors: the header is checked whole before any number is believed.
 *
 * Offsets are checked by sorting: tensors in the order of their data must touch one another from 0 to the end.  That one
 * pass finds holes, overlaps and a file that is longer or shorter than it says. */
#include "train/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "train/tensor_types.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "the format is little-endian, and so are we");

/* ---- one tensor of the header ---- */

static hr_status wrong(hri_prose *why, const char *path, const char *name, const char *what) {
    return hri_prose_set(why, HR_E_FORMAT, "%s: tensor %s: %s", path, name, what);
}

static hr_status read_shape(const char *path, const char *name, const json_t *list, hr_shape *out,
                            hri_prose *why) {
    const size_t rank = json_array_size(list);
    if (!json_is_array(list)) {
        return wrong(why, path, name, "it has no shape");
    }
    if (rank > HR_RANK_MAX) {
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             "%s: tensor %s has %zu dimensions, more than %d", path, name, rank,
                             HR_RANK_MAX);
    }
    int64_t dims[HR_RANK_MAX] = {0};
    for (size_t i = 0; i < rank; i++) {
        const json_t *dim = json_array_get(list, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) {
            return wrong(why, path, name, "a dimension is not a whole number of 0 or more");
        }
        dims[i] = json_integer_value(dim);
    }
    *out = hr_shape_from((int)rank, dims);
    return HR_OK;
}

/* bytes of the shape; 0 on overflow of 63 bits. */
static int shape_bytes(const hr_shape *shape, uint64_t item, uint64_t *out) {
    uint64_t bytes = item;
    for (int d = 0; d < shape->rank; d++) {
        if (shape->dim[d] == 0) {
            *out = 0;
            return 1;
        }
    }
    for (int d = 0; d < shape->rank; d++) {
        if (__builtin_mul_overflow(bytes, (uint64_t)shape->dim[d], &bytes) || bytes > INT64_MAX) {
            return 0;
        }
    }
    *out = bytes;
    return 1;
}

static hr_status read_tensor(const char *path, const char *name, const json_t *entry,
                             uint64_t data_bytes, hri_tensor *out, hri_prose *why) {
    hri_tensor t = {.name = name};
    const json_t *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_object(entry) || json_object_size(entry) != 3) {
        return wrong(why, path, name, "it is not an object of dtype, shape and data_offsets");
    }
    t.dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!t.dtype || !hri_dtype_find(t.dtype, &t.kind)) {
        return hri_prose_set(why, t.dtype ? HR_E_UNSUPPORTED : HR_E_FORMAT,
                             "%s: tensor %s has the type %s, which is not known", path, name,
                             t.dtype ? t.dtype : "(none)");
    }
    const hr_status status = read_shape(path, name, json_object_get(entry, "shape"), &t.shape, why);
    if (status != HR_OK) {
        return status;
    }
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin)) {
        return wrong(why, path, name, "its offsets are not a beginning and an end");
    }
    t.begin = (uint64_t)json_integer_value(begin);
    t.end = (uint64_t)json_integer_value(end);
    uint64_t bytes = 0;
    char shape[256];
    const hr_meta meta = {HR_TYPE_U8, t.shape}; /* only the brackets are shown */
    const char *dims = strchr(hr_meta_print(&meta, shape, sizeof shape), '[');
    if (!shape_bytes(&t.shape, hri_dtypes[t.kind].bytes, &bytes) || bytes != t.end - t.begin) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "%s: tensor %s: its offsets span %llu bytes, which is not %s%s", path,
                             name, (unsigned long long)(t.end - t.begin), t.dtype, dims);
    }
    if (t.end > data_bytes) {
        return hri_prose_set(
            why, HR_E_FORMAT,
            "%s: tensor %s ends at byte %llu of the data, but the file has %llu: it "
            "is cut short or lies about its size",
            path, name, (unsigned long long)t.end, (unsigned long long)data_bytes);
    }
    *out = t;
    return HR_OK;
}

/* ---- the header ---- */

static int by_place(const void *a, const void *b) {
    const hri_tensor *x = a, *y = b;
    if (x->begin != y->begin) {
        return x->begin < y->begin ? -1 : 1;
    }
    if (x->end != y->end) {
        return x->end < y->end ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

static hr_status check_places(const hri_tensors *t, hri_prose *why) {
    uint64_t at = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->items[i].begin != at) {
            return hri_prose_set(why, HR_E_FORMAT, "%s: tensor %s begins at byte %llu, %s %llu",
                                 t->path, t->items[i].name, (unsigned long long)t->items[i].begin,
                                 t->items[i].begin < at ? "inside the one that ends at"
                                                        : "behind a hole that begins at",
                                 (unsigned long long)at);
        }
        at = t->items[i].end;
    }
    if (at != t->data_bytes) {
        return hri_prose_set(
            why, HR_E_FORMAT,
            "%s: the tensors end at byte %llu, but the file has %llu bytes of data", t->path,
            (unsigned long long)at, (unsigned long long)t->data_bytes);
    }
    return HR_OK;
}

static hr_status read_metadata(const hri_tensors *t, const json_t *entry, hri_prose *why) {
    const char *key;
    json_t *value;
    if (!json_is_object(entry)) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: __metadata__ is not an object", t->path);
    }
    json_object_foreach((json_t *)(uintptr_t)entry, key, value) {
        if (!json_is_string(value)) {
            return hri_prose_set(why, HR_E_FORMAT, "%s: __metadata__: %s is not a text", t->path,
                                 key);
        }
    }
    return HR_OK;
}

static hr_status read_header(hri_tensors *t, hri_prose *why) {
    const char *name;
    json_t *entry;
    if (!json_is_object(t->header)) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: the header is not an object", t->path);
    }
    t->items = hri_calloc(json_object_size(t->header) + 1, sizeof *t->items);
    if (!t->items) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "%s: no memory for the header", t->path);
    }
    json_object_foreach(t->header, name, entry) {
        const hr_status status =
            !strcmp(name, "__metadata__")
                ? read_metadata(t, entry, why)
                : read_tensor(t->path, name, entry, t->data_bytes, &t->items[t->count++], why);
        if (status != HR_OK) {
            return status;
        }
    }
    qsort(t->items, t->count, sizeof *t->items, by_place);
    for (size_t i = 0; i < t->count; i++) {
        if (hri_strmap_put(&t->names, t->items[i].name, i) != HR_OK) {
            return hri_prose_set(why, HR_E_NOMEM_HOST, "%s: no memory for the header", t->path);
        }
    }
    return check_places(t, why);
}

hr_status hri_tensors_parse(const char *path, const char *header, size_t bytes, uint64_t data_bytes,
                            hri_tensors *out, hri_prose *why) {
    hri_tensors t = {.fd = -1, .data_begin = 8 + bytes, .data_bytes = data_bytes};
    const hri_json_limits limits = {.max_bytes = HRI_TENSORS_HEADER_MAX, .max_depth = 4};
    hri_prose inner = {""};
    t.path = hri_strdup(path);
    if (!t.path) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "%s: no memory for the header", path);
    }
    hr_status status = hri_json_parse(header, bytes, &limits, &t.header, &inner);
    if (status != HR_OK) {
        hri_prose_set(why, status, "%s: the header: %s", path, inner.text);
    } else {
        status = read_header(&t, why);
    }
    if (status != HR_OK) {
        hri_tensors_close(&t);
        return status;
    }
    *out = t;
    return HR_OK;
}

void hri_tensors_close(hri_tensors *t) {
    if (t->fd >= 0) {
        close(t->fd);
    }
    hri_free(t->path);
    hri_free(t->items);
    hri_strmap_deinit(&t->names);
    json_decref(t->header);
    *t = (hri_tensors){.fd = -1};
}

/* ---- the file ---- */

static hr_status refused(hri_prose *why, const char *path, const char *doing, int error) {
    char text[128];
    return hri_prose_set(why, error == ENOENT || error == ENOTDIR ? HR_E_NOT_FOUND : HR_E_IO,
                         "%s: %s: %s", path, doing, strerror_r(error, text, sizeof text));
}

/* All of `bytes` from `at`, or a failure. */
static hr_status read_at(int fd, const char *path, void *to, size_t bytes, uint64_t at,
                         hri_prose *why) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got = -1;
        errno = EIO;
        if (!HRI_FAULT(READ)) {
            do {
                got = pread(fd, (char *)to + done, bytes - done, (off_t)(at + done));
            } while (got < 0 && errno == EINTR);
        }
        if (got < 0) {
            return refused(why, path, "read", errno);
        }
        if (got == 0) {
            return hri_prose_set(why, HR_E_FORMAT, "%s: the file ends at byte %llu, too early",
                                 path, (unsigned long long)(at + done));
        }
        done += (size_t)got;
    }
    return HR_OK;
}

static hr_status open_fd(const char *path, int fd, hri_tensors *out, hri_prose *why) {
    struct stat info;
    uint64_t bytes = 0;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        return hri_prose_set(why, HR_E_INVALID, "%s: it is not a regular file", path);
    }
    const uint64_t size = (uint64_t)info.st_size;
    if (size < 8) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: %llu bytes are no safetensors file", path,
                             (unsigned long long)size);
    }
    hr_status status = read_at(fd, path, &bytes, sizeof bytes, 0, why);
    if (status != HR_OK) {
        return status;
    }
    if (bytes > size - 8 || bytes > HRI_TENSORS_HEADER_MAX) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "%s: a header of %llu bytes in a file of %llu: cut short, or no "
                             "safetensors file",
                             path, (unsigned long long)bytes, (unsigned long long)size);
    }
    char *header = hri_malloc((size_t)bytes + 1);
    if (!header) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "%s: no memory for the header", path);
    }
    status = read_at(fd, path, header, (size_t)bytes, 8, why);
    if (status == HR_OK && (bytes == 0 || header[0] != '{')) {
        status = hri_prose_set(why, HR_E_FORMAT, "%s: the header does not begin with '{'", path);
    }
    if (status == HR_OK) {
        status = hri_tensors_parse(path, header, (size_t)bytes, size - 8 - bytes, out, why);
    }
    hri_free(header);
    return status;
}

hr_status hri_tensors_open(const char *path, hri_tensors *out, hri_prose *why) {
    int fd = -1;
    errno = EIO;
    if (!HRI_FAULT(OPEN)) {
        do {
            fd = open(path, O_RDONLY | O_CLOEXEC);
        } while (fd < 0 && errno == EINTR);
    }
    if (fd < 0) {
        return refused(why, path, "open", errno);
    }
    const hr_status status = open_fd(path, fd, out, why);
    if (status != HR_OK) {
        close(fd);
        return status;
    }
    out->fd = fd;
    return HR_OK;
}

const hri_tensor *hri_tensors_find(const hri_tensors *t, const char *name) {
    uint64_t at;
    return hri_strmap_get(&t->names, name, &at) ? &t->items[at] : NULL;
}

const char *hri_tensors_metadata(const hri_tensors *t, const char *key) {
    return json_string_value(json_object_get(json_object_get(t->header, "__metadata__"), key));
}

/* ---- data ---- */

int hri_tensor_can_be(const hri_tensor *tensor, hr_type to) {
    return hri_dtype_converts(tensor->kind, to);
}

hr_status hri_tensors_read(const hri_tensors *t, const hri_tensor *tensor, uint64_t first,
                           uint64_t count, hr_type to, void *out, hri_prose *why) {
    const uint64_t item = hri_dtypes[tensor->kind].bytes;
    const uint64_t all = (tensor->end - tensor->begin) / item;
    if (first > all || count > all - first) {
        return hri_prose_set(why, HR_E_RANGE, "%s: tensor %s has %llu elements", t->path,
                             tensor->name, (unsigned long long)all);
    }
    if (!hri_tensor_can_be(tensor, to)) {
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             "%s: tensor %s is %s, which cannot be read as %s", t->path,
                             tensor->name, tensor->dtype, hr_type_name(to));
    }
    const uint64_t begin = t->data_begin + tensor->begin + first * item;
    if (hri_dtypes[tensor->kind].type == (int)to) {
        return read_at(t->fd, t->path, out, (size_t)(count * item), begin, why);
    }
    unsigned char piece[8192];
    for (uint64_t done = 0; done < count;) {
        const uint64_t room = sizeof piece / item;
        const uint64_t n = count - done < room ? count - done : room;
        const hr_status status =
            read_at(t->fd, t->path, piece, (size_t)(n * item), begin + done * item, why);
        if (status != HR_OK) {
            return status;
        }
        hri_dtype_convert(tensor->kind, piece, to, (char *)out + done * hr_type_bytes(to), n);
        done += n;
    }
    return HR_OK;
}
