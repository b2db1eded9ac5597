/* Files that torch.save wrote (.pth, .pt, .bin): a zip container with a pickle of names and one file a storage.
 *
 *   NAME/data.pkl        {"fc.weight": _rebuild_tensor_v2(storage 0, offset, size, stride, ...), ...}
 *   NAME/data/0          the bytes of storage 0
 *   NAME/byteorder       "little"
 *
 * The pickle may speak of the names in the table below and of nothing else (base/pickle.h), so a file that holds more than
 * tensors is refused by the first name that is none.  Of a checkpoint of somebody's training the dictionary of weights is
 * taken: what it calls state_dict, model_state_dict or model.  Members that are no tensors (an epoch, a text) are looked
 * past.  A tensor is a window into its storage: several may share one, and its rows need not follow one another. */
#include <string.h>

#include "base/alloc.h"
#include "base/pickle.h"
#include "weights/tensor_types.h"
#include "weights/tensors_int.h"
#include "weights/zip.h"

enum {
    PICKLE_MAX = 32 << 20, /* bytes of data.pkl */
    VALUES_MAX = 1 << 22
};

enum { DICT, TENSOR, PARAMETER, SIZE, STORAGES };

static const hri_pickle_name names[] = {
    [DICT] = {"collections", "OrderedDict", true},
    [TENSOR] = {"torch._utils", "_rebuild_tensor_v2", false},
    [PARAMETER] = {"torch._utils", "_rebuild_parameter", false},
    [SIZE] = {"torch", "Size", false},
    [STORAGES] = {"torch", "FloatStorage", false},
    {"torch", "DoubleStorage", false},
    {"torch", "HalfStorage", false},
    {"torch", "BFloat16Storage", false},
    {"torch", "LongStorage", false},
    {"torch", "IntStorage", false},
    {"torch", "ShortStorage", false},
    {"torch", "CharStorage", false},
    {"torch", "ByteStorage", false},
    {"torch", "BoolStorage", false},
    {NULL, NULL, false},
};
/* Of the storages, in the order above. */
static const char *const types[] = {"F32", "F64", "F16", "BF16", "I64",
                                    "I32", "I16", "I8",  "U8",   "BOOL"};

typedef struct reading {
    const char *path;
    int fd;
    uint64_t size;
    hri_zip zip;
    char folder[HRI_ZIP_NAME_MAX + 1]; /* "archive/": where data.pkl lies */
    char *bytes;                       /* of data.pkl */
    size_t pickle_bytes;
    hri_pickle pickle;
    hri_tensors t;
    hri_prose *why;
} reading;

static hr_status no_memory(const reading *r) {
    return hri_prose_set(r->why, HR_E_NOMEM_HOST, "%s: out of memory for its list", r->path);
}

static hr_status wrong(const reading *r, const char *name, const char *what) {
    return hri_prose_set(r->why, HR_E_FORMAT, "%s: tensor %s: %s", r->path, name, what);
}

/* ---- the container ---- */

static const hri_zip_entry *find(const reading *r, const char *name) {
    char full[2 * HRI_ZIP_NAME_MAX];
    snprintf(full, sizeof full, "%s%s", r->folder, name);
    return hri_zip_find(&r->zip, full);
}

static hr_status find_folder(reading *r, const hri_zip_entry **out) {
    static const char last[] = "data.pkl";
    for (size_t i = 0; i < r->zip.count; i++) {
        const char *name = r->zip.items[i].name;
        const size_t n = strlen(name), k = strlen(last);
        if (n >= k && !strcmp(name + n - k, last) && (n == k || name[n - k - 1] == '/')) {
            snprintf(r->folder, sizeof r->folder, "%.*s", (int)(n - k), name);
            *out = &r->zip.items[i];
            return HR_OK;
        }
    }
    return hri_prose_set(r->why, HR_E_FORMAT,
                         "%s: a zip file without data.pkl: not a file of torch.save", r->path);
}

static hr_status check_order(const reading *r) {
    const hri_zip_entry *e = find(r, "byteorder");
    char order[8] = "little";
    uint64_t at;
    if (!e) {
        return HR_OK;
    }
    hr_status status = hri_zip_data(r->path, r->fd, r->size, e, &at, r->why);
    if (status == HR_OK && e->bytes < sizeof order) {
        memset(order, 0, sizeof order);
        status = hri_tensors_read_at(r->fd, r->path, order, (size_t)e->bytes, at, r->why);
    }
    return status == HR_OK && strcmp(order, "little") != 0
               ? hri_prose_set(r->why, HR_E_UNSUPPORTED,
                               "%s: its numbers are big-endian; only little-endian is read",
                               r->path)
               : status;
}

static hr_status read_pickle(reading *r) {
    const hri_zip_entry *e = NULL;
    uint64_t at = 0;
    hr_status status = find_folder(r, &e);
    if (status == HR_OK) {
        status = hri_zip_data(r->path, r->fd, r->size, e, &at, r->why);
    }
    if (status == HR_OK && e->bytes > PICKLE_MAX) {
        return hri_prose_set(r->why, HR_E_RANGE,
                             "%s: data.pkl has %llu bytes, more than the %d allowed", r->path,
                             (unsigned long long)e->bytes, PICKLE_MAX);
    }
    if (status == HR_OK) {
        r->bytes = hri_malloc((size_t)e->bytes + 1);
        status = r->bytes
                     ? hri_tensors_read_at(r->fd, r->path, r->bytes, (size_t)e->bytes, at, r->why)
                     : no_memory(r);
    }
    if (status == HR_OK) {
        hri_prose inner = {""};
        r->pickle_bytes = (size_t)e->bytes;
        status = hri_pickle_read_names(r->bytes, (size_t)e->bytes, names, VALUES_MAX, &r->pickle,
                                       &inner);
        if (status == HR_E_NOMEM_HOST) {
            return no_memory(r);
        }
        if (status != HR_OK) {
            return hri_prose_set(r->why, status, "%s: data.pkl: %s", r->path, inner.text);
        }
    }
    return status;
}

/* ---- one tensor ---- */

/* The tensor itself of what may be a parameter around it; NULL: neither. */
static const hri_pickled *tensor_of(const reading *r, const hri_pickled *v) {
    for (int depth = 0; v && v->kind == HRI_PICKLE_CALL && depth < 2; depth++) {
        const hri_pickle_items call = hri_pickle_list(&r->pickle, v);
        const hri_pickle_items args = hri_pickle_list(&r->pickle, &call.items[1]);
        if (call.items[0].as.number == TENSOR) {
            return &call.items[1];
        }
        v = call.items[0].as.number == PARAMETER && args.count ? &args.items[0] : NULL;
    }
    return NULL;
}

/* Whole numbers of 0 or more, as a tuple or as torch.Size; -1: something else. */
static int read_numbers(const reading *r, const hri_pickled *v, int64_t *out) {
    if (v->kind == HRI_PICKLE_CALL) {
        const hri_pickle_items call = hri_pickle_list(&r->pickle, v);
        const hri_pickle_items args = hri_pickle_list(&r->pickle, &call.items[1]);
        if (call.items[0].as.number != SIZE || args.count != 1) {
            return -1;
        }
        v = &args.items[0];
    }
    const hri_pickle_items items = hri_pickle_list(&r->pickle, v);
    if (v->kind != HRI_PICKLE_LIST || items.count > HR_RANK_MAX) {
        return -1;
    }
    for (size_t i = 0; i < items.count; i++) {
        if (items.items[i].kind != HRI_PICKLE_INT || items.items[i].as.integer < 0) {
            return -1;
        }
        out[i] = items.items[i].as.integer;
    }
    return (int)items.count;
}

/* ("storage", torch.FloatStorage, "0", "cpu", elements): its type, where it begins, how many elements it has. */
static hr_status read_storage(reading *r, const hri_pickled *v, hri_tensor *t, uint64_t *elements) {
    const hri_pickle_items outside = hri_pickle_list(&r->pickle, v);
    const hri_pickle_items five =
        hri_pickle_list(&r->pickle, outside.count ? &outside.items[0] : NULL);
    char name[HRI_ZIP_NAME_MAX + 1];
    if (v->kind != HRI_PICKLE_OUTSIDE || five.count != 5 ||
        !hri_pickle_is(&five.items[0], "storage") || five.items[1].kind != HRI_PICKLE_NAME ||
        five.items[1].as.number < STORAGES || five.items[2].kind != HRI_PICKLE_TEXT ||
        five.items[2].count > 64 || memchr(five.items[2].as.text, 0, five.items[2].count) ||
        five.items[4].kind != HRI_PICKLE_INT || five.items[4].as.integer < 0) {
        return wrong(r, t->name, "its storage is not described as torch does");
    }
    if (!hri_dtype_find(types[five.items[1].as.number - STORAGES], &t->kind)) {
        return HR_E_INTERNAL;
    }
    t->dtype = hri_dtypes[t->kind].name;
    *elements = (uint64_t)five.items[4].as.integer;
    snprintf(name, sizeof name, "data/%.*s", (int)five.items[2].count, five.items[2].as.text);
    const hri_zip_entry *e = find(r, name);
    if (!e) {
        return hri_prose_set(r->why, HR_E_FORMAT, "%s: tensor %s: %s is missing", r->path, t->name,
                             name);
    }
    if (*elements > INT64_MAX / 8 || *elements * hri_dtypes[t->kind].bytes > e->bytes) {
        return hri_prose_set(r->why, HR_E_FORMAT,
                             "%s: tensor %s: %s has %llu bytes, fewer than its %llu elements of %s",
                             r->path, t->name, name, (unsigned long long)e->bytes,
                             (unsigned long long)*elements, t->dtype);
    }
    return hri_zip_data(r->path, r->fd, r->size, e, &t->begin, r->why);
}

/* Shape and strides; the last element must lie inside the storage. */
static hr_status read_window(reading *r, const hri_pickled *args, uint64_t elements,
                             hri_tensor *t) {
    int64_t dims[HR_RANK_MAX] = {0}, strides[HR_RANK_MAX] = {0};
    const int rank = read_numbers(r, &args[2], dims);
    uint64_t count = 1, last = (uint64_t)args[1].as.integer, step;
    int dense = 1;
    if (args[1].kind != HRI_PICKLE_INT || args[1].as.integer < 0 || rank < 0 ||
        read_numbers(r, &args[3], strides) != rank) {
        return wrong(r, t->name, "its offset, size and stride are not numbers as torch has them");
    }
    for (int d = rank - 1; d >= 0; d--) {
        dense &= dims[d] == 1 || (uint64_t)strides[d] == count;
        if (__builtin_mul_overflow(count, (uint64_t)dims[d], &count) || count > INT64_MAX / 8) {
            return wrong(r, t->name, "it is larger than its storage");
        }
        if (dims[d] > 1 &&
            (__builtin_mul_overflow((uint64_t)strides[d], (uint64_t)dims[d] - 1, &step) ||
             __builtin_add_overflow(last, step, &last))) {
            return wrong(r, t->name, "it is larger than its storage");
        }
    }
    if (count && last >= elements) {
        return wrong(r, t->name, "it is larger than its storage");
    }
    t->shape = hr_shape_from(rank, dims);
    if (!dense && count) {
        t->strides = hri_arena_copy(&r->t.texts, strides, sizeof strides, _Alignof(int64_t));
        if (!t->strides) {
            return no_memory(r);
        }
    }
    const uint64_t item = hri_dtypes[t->kind].bytes;
    t->begin += count ? (uint64_t)args[1].as.integer * item : 0;
    t->end = t->begin + count * item;
    return HR_OK;
}

static hr_status add_tensor(reading *r, const hri_pickled *key, const hri_pickled *value) {
    const hri_pickle_items args = hri_pickle_list(&r->pickle, value);
    hri_tensor t = {.name = ""};
    uint64_t elements = 0;
    if (key->kind != HRI_PICKLE_TEXT || key->count > HRI_TENSORS_NAME_MAX ||
        memchr(key->as.text, 0, key->count)) {
        return hri_prose_set(r->why, HR_E_FORMAT,
                             "%s: a tensor's name is not a text of at most %d bytes", r->path,
                             HRI_TENSORS_NAME_MAX);
    }
    if (r->t.count == HRI_TENSORS_COUNT_MAX) {
        return hri_prose_set(r->why, HR_E_RANGE, "%s: more than %d tensors", r->path,
                             HRI_TENSORS_COUNT_MAX);
    }
    t.name = hri_arena_strndup(&r->t.texts, key->as.text, key->count);
    if (!t.name) {
        return no_memory(r);
    }
    if (args.count < 4) {
        return wrong(r, t.name, "it is not described as torch does");
    }
    hr_status status = read_storage(r, &args.items[0], &t, &elements);
    if (status == HR_OK) {
        status = read_window(r, args.items, elements, &t);
    }
    if (status == HR_OK) {
        r->t.items[r->t.count++] = t;
    }
    return status;
}

/* ---- the dictionary ---- */

static size_t count_tensors(const reading *r, const hri_pickled *dict) {
    const hri_pickle_items items = hri_pickle_list(&r->pickle, dict);
    size_t count = 0;
    for (size_t i = 0; dict && dict->kind == HRI_PICKLE_DICT && i + 1 < items.count; i += 2) {
        count += tensor_of(r, &items.items[i + 1]) != NULL;
    }
    return count;
}

static const hri_pickled *find_dict(const reading *r) {
    static const char *const inner[] = {"state_dict", "model_state_dict", "model"};
    const hri_pickled *found = count_tensors(r, &r->pickle.root) ? &r->pickle.root : NULL;
    for (size_t i = 0; i < sizeof inner / sizeof inner[0] && !found; i++) {
        const hri_pickled *v = hri_pickle_get(&r->pickle, &r->pickle.root, inner[i]);
        found = count_tensors(r, v) ? v : NULL;
    }
    return found;
}

static hr_status read_dict(reading *r) {
    const hri_pickled *dict = find_dict(r);
    if (!dict) {
        return hri_prose_set(r->why, HR_E_FORMAT,
                             "%s: no dictionary of tensors, neither itself nor its state_dict",
                             r->path);
    }
    const hri_pickle_items items = hri_pickle_list(&r->pickle, dict);
    r->t.items = hri_calloc(count_tensors(r, dict) + 1, sizeof *r->t.items);
    hr_status status = r->t.items ? HR_OK : no_memory(r);
    for (size_t i = 0; status == HR_OK && i + 1 < items.count; i += 2) {
        const hri_pickled *tensor = tensor_of(r, &items.items[i + 1]);
        status = tensor ? add_tensor(r, &items.items[i], tensor) : HR_OK;
    }
    return status == HR_OK ? hri_tensors_sort(&r->t, r->why) : status;
}

hr_status hri_pth_open(const char *path, int fd, uint64_t size, hri_tensors *out, hri_prose *why) {
    reading r = {.path = path, .fd = fd, .size = size, .t = {.fd = -1}, .why = why};
    r.t.path = hri_strdup(path);
    hr_status status = r.t.path ? hri_zip_open(path, fd, size, &r.zip, why) : no_memory(&r);
    if (status == HR_OK) {
        status = read_pickle(&r);
    }
    if (status == HR_OK) {
        status = check_order(&r);
    }
    if (status == HR_OK) {
        status = read_dict(&r);
    }
    r.t.reading_bytes = r.pickle_bytes + r.pickle.values * 3 * sizeof(hri_pickled) +
                        r.pickle.containers.capacity * sizeof(hri_pickle_items) +
                        hri_arena_held_bytes(&r.zip.names) + r.zip.count * sizeof(hri_zip_entry);
    hri_pickle_deinit(&r.pickle);
    hri_free(r.bytes);
    hri_zip_close(&r.zip);
    if (status != HR_OK) {
        hri_tensors_close(&r.t);
        return status;
    }
    r.t.data_bytes = size;
    *out = r.t;
    return HR_OK;
}
