/* Files of tensors, whatever wrote them: which kind it is, the list by name, and reading elements out of it.
 *
 * The first bytes say what a file is; an index of shards is JSON and has that in its name.  Elements are read in pieces
 * through a small buffer.  Those of a tensor whose rows do not follow one another are picked out of the bytes between
 * them, a run of the last dimension at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "weights/tensor_types.h"
#include "weights/tensors_int.h"

enum { PIECE_BYTES = 8192 };

/* ---- bytes ---- */

static hr_status refused(hri_prose *why, const char *path, const char *doing, int error) {
    char text[128];
    return hri_prose_set(why, error == ENOENT || error == ENOTDIR ? HR_E_NOT_FOUND : HR_E_IO,
                         "%s: %s: %s", path, doing, strerror_r(error, text, sizeof text));
}

hr_status hri_tensors_read_at(int fd, const char *path, void *to, size_t bytes, uint64_t at,
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
            return hri_prose_set(why, HR_E_FORMAT, "%s: truncated at byte %llu", path,
                                 (unsigned long long)(at + done));
        }
        done += (size_t)got;
    }
    return HR_OK;
}

/* ---- opening ---- */

static int ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

static hr_status open_fd(const char *path, int fd, uint64_t size, hri_tensors *out,
                         hri_prose *why) {
    static const char old[4] = {'\x80', '\x02', '\x8a', '\x0a'}; /* torch before 1.6 */
    char first[4] = "";
    hr_status status =
        size >= sizeof first ? hri_tensors_read_at(fd, path, first, sizeof first, 0, why) : HR_OK;
    if (status != HR_OK) {
        return status;
    }
    if (!memcmp(first, "PK\x03\x04", sizeof first)) {
        return hri_pth_open(path, fd, size, out, why);
    }
    if (!memcmp(first, old, sizeof first)) {
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             "%s: written by torch.save before 1.6; load and save it once with a "
                             "newer torch",
                             path);
    }
    return ends_with(path, ".json") ? hri_sharded_open(path, fd, size, out, why)
                                    : hri_safetensors_open(path, fd, size, out, why);
}

hr_status hri_tensors_open(const char *path, hri_tensors *out, hri_prose *why) {
    int fd = -1;
    uint64_t size = 0;
    hr_status status = hri_file_open_regular(path, &fd, &size, why);
    if (status == HR_OK) {
        status = open_fd(path, fd, size, out, why);
        if (status != HR_OK) {
            close(fd);
        } else {
            out->fd = fd;
        }
    }
    return status;
}

void hri_tensors_close(hri_tensors *t) {
    for (size_t i = 0; i < t->part_count; i++) {
        hri_tensors_close(&t->parts[i]);
    }
    hri_free(t->parts);
    if (t->fd >= 0) {
        close(t->fd);
    }
    hri_free(t->path);
    hri_free(t->items);
    hri_free(t->by_name);
    hri_free(t->notes);
    hri_arena_deinit(&t->texts);
    *t = (hri_tensors){.fd = -1};
}

/* ---- the list ---- */

static int by_name(const void *a, const void *b, void *items) {
    const hri_tensor *all = items;
    return strcmp(all[*(const uint32_t *)a].name, all[*(const uint32_t *)b].name);
}

hr_status hri_tensors_sort(hri_tensors *t, hri_prose *why) {
    t->by_name = hri_calloc(t->count + 1, sizeof *t->by_name);
    if (!t->by_name) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "%s: out of memory for the header", t->path);
    }
    for (size_t i = 0; i < t->count; i++) {
        t->by_name[i] = (uint32_t)i;
    }
    if (t->count) {
        qsort_r(t->by_name, t->count, sizeof *t->by_name, by_name, t->items);
    }
    for (size_t i = 1; i < t->count; i++) {
        if (!by_name(&t->by_name[i - 1], &t->by_name[i], t->items)) {
            return hri_prose_set(why, HR_E_FORMAT, "%s: tensor %s: duplicate name", t->path,
                                 t->items[t->by_name[i]].name);
        }
    }
    return HR_OK;
}

uint64_t hri_tensors_held_bytes(const hri_tensors *t) {
    const uint64_t each = sizeof *t->items + sizeof *t->by_name;
    uint64_t bytes = t->reading_bytes + hri_arena_held_bytes(&t->texts) +
                     (t->count + t->count / 2 + 64) * each; /* room to grow */
    for (size_t i = 0; i < t->part_count; i++) {
        bytes += hri_tensors_held_bytes(&t->parts[i]);
    }
    return bytes;
}

const hri_tensor *hri_tensors_find(const hri_tensors *t, const char *name) {
    for (size_t low = 0, high = t->count; low < high;) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(name, t->items[t->by_name[middle]].name);
        if (!order) {
            return &t->items[t->by_name[middle]];
        }
        low = order > 0 ? middle + 1 : low;
        high = order > 0 ? high : middle;
    }
    return NULL;
}

const char *hri_tensors_metadata(const hri_tensors *t, const char *key) {
    for (size_t i = 0; i < t->note_count; i++) {
        if (!strcmp(t->notes[2 * i], key)) {
            return t->notes[2 * i + 1];
        }
    }
    return NULL;
}

/* ---- data ---- */

int hri_tensor_can_be(const hri_tensor *tensor, hr_type to) {
    return hri_dtype_converts(tensor->kind, to);
}

/* A run of elements `stride` apart, picked out of a window. */
static hr_status pick(const hri_tensors *t, uint64_t at, uint64_t stride, uint64_t n, uint64_t item,
                      unsigned char *out, hri_prose *why) {
    unsigned char window[PIECE_BYTES];
    const uint64_t room = sizeof window / item;
    while (n) {
        const uint64_t fit = stride ? (room - 1) / stride + 1 : n, take = n < fit ? n : fit;
        const uint64_t span = (take - 1) * stride + 1;
        const hr_status status =
            hri_tensors_read_at(t->fd, t->path, window, (size_t)(span * item), at, why);
        if (status != HR_OK) {
            return status;
        }
        for (uint64_t i = 0; i < take; i++) {
            memcpy(out + i * item, window + i * stride * item, (size_t)item);
        }
        at += take * stride * item;
        out += take * item;
        n -= take;
    }
    return HR_OK;
}

/* Elements as they are in the file. */
static hr_status read_raw(const hri_tensors *t, const hri_tensor *tensor, uint64_t first,
                          uint64_t count, unsigned char *out, hri_prose *why) {
    const uint64_t item = hri_dtypes[tensor->kind].bytes, begin = t->data_begin + tensor->begin;
    if (!tensor->strides) {
        return hri_tensors_read_at(t->fd, t->path, out, (size_t)(count * item),
                                   begin + first * item, why);
    }
    const int last = tensor->shape.rank - 1;
    while (count) {
        uint64_t left = first, at = 0, run = 0;
        for (int d = last; d >= 0; d--) {
            const uint64_t dim = (uint64_t)tensor->shape.dim[d], place = left % dim;
            run = d == last ? dim - place : run;
            at += place * (uint64_t)tensor->strides[d];
            left /= dim;
        }
        run = count < run ? count : run;
        const hr_status status =
            pick(t, begin + at * item, (uint64_t)tensor->strides[last], run, item, out, why);
        if (status != HR_OK) {
            return status;
        }
        first += run;
        count -= run;
        out += run * item;
    }
    return HR_OK;
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
                             "%s: tensor %s is %s, which cannot be converted to %s", t->path,
                             tensor->name, tensor->dtype, hr_type_name(to));
    }
    const hri_tensors *file = t->part_count ? &t->parts[tensor->part] : t;
    if (hri_dtypes[tensor->kind].type == (int)to) {
        return read_raw(file, tensor, first, count, out, why);
    }
    unsigned char piece[PIECE_BYTES];
    for (uint64_t done = 0; done < count;) {
        const uint64_t room = sizeof piece / item;
        const uint64_t n = count - done < room ? count - done : room;
        const hr_status status = read_raw(file, tensor, first + done, n, piece, why);
        if (status != HR_OK) {
            return status;
        }
        hri_dtype_convert(tensor->kind, piece, to, (char *)out + done * hr_type_bytes(to), n);
        done += n;
    }
    return HR_OK;
}
