/* mnist:DIR  MNIST and what has its form (Fashion-MNIST, KMNIST): train-images-idx3-ubyte and train-labels-idx1-ubyte,
 * or t10k-... with split=test.  "image" u8[rows,columns,1], "label" i32. */
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/file.h"
#include "data/formats/filelist.h"
#include "data/read.h"

enum { SIDE_MAX = 1 << 16 };

typedef struct options {
    const char *path;
    int split;
} options;

static const char *const splits[] = {"train", "test", NULL};

static const hri_field fields[] = {
    {"path", "directory", offsetof(options, path), HRI_FIELD_STRING, .metavar = "DIR"},
    {"split", "which split", offsetof(options, split), HRI_FIELD_ENUM, "train", .choices = splits},
    {0}};

typedef struct own {
    hri_filelist files; /* images, labels */
    int64_t rows, columns;
} own;

static uint64_t word_at(const unsigned char *p) {
    return (uint64_t)p[0] << 24 | (uint64_t)p[1] << 16 | (uint64_t)p[2] << 8 | p[3];
}

/* The count in an idx header of so many dimensions, checked against the file's size. */
static hr_status read_head(const hri_file *f, int dims, uint64_t sizes[3], hri_prose *why) {
    unsigned char head[16];
    const uint64_t bytes = 4 + 4 * (uint64_t)dims;
    if (f->bytes < bytes) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: truncated header", f->path);
    }
    const hr_status status = hri_filelist_read(f, 0, head, bytes, why);
    if (status != HR_OK) {
        return status;
    }
    if (word_at(head) != 0x800u + (uint64_t)dims) {
        return hri_prose_set(
            why, HR_E_FORMAT,
            "%s: not an idx file of bytes in %d dimensions (is it still compressed?)", f->path,
            dims);
    }
    uint64_t all = 1;
    for (int i = 0; i < dims; i++) {
        sizes[i] = word_at(head + 4 + 4 * i);
        all = hri_bytes_mul(all, sizes[i]);
    }
    return all <= f->bytes - bytes ? HR_OK
                                   : hri_prose_set(why, HR_E_FORMAT,
                                                   "%s: truncated: the header describes more data "
                                                   "than the file has",
                                                   f->path);
}

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    const char *half = o->split == 0 ? "train" : "t10k";
    const char *const folder = o->path ? o->path : ".";
    char files[2][48];
    snprintf(files[0], sizeof files[0], "%s-images-idx3-ubyte", half);
    snprintf(files[1], sizeof files[1], "%s-labels-idx1-ubyte", half);
    const char *const names[] = {files[0], files[1]};
    uint64_t images[3] = {0}, labels[3] = {0};
    hr_status status = hri_filelist_open_in(&w->files, folder, names, 2, why);
    for (int i = 0; status == HR_E_NOT_FOUND && i < 2; i++) {
        char packed[sizeof files[0] + 4], *plain_path = NULL, *packed_path = NULL;
        snprintf(packed, sizeof packed, "%s.gz", files[i]);
        const int made = hri_path_join(folder, packed, &packed_path) == HR_OK &&
                         hri_path_join(folder, files[i], &plain_path) == HR_OK;
        const int found = made && hri_file_exists(packed_path) && !hri_file_exists(plain_path);
        if (found) {
            hri_prose_set(why, status, "%s is compressed; gunzip it first", packed_path);
        }
        hri_free(plain_path);
        hri_free(packed_path);
        if (found) {
            break;
        }
    }
    if (status == HR_OK) {
        status = read_head(&w->files.files[0], 3, images, why);
    }
    if (status == HR_OK) {
        status = read_head(&w->files.files[1], 1, labels, why);
    }
    if (status != HR_OK) {
        return status;
    }
    if (images[0] != labels[0]) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: %llu images, but %llu labels",
                             w->files.files[0].path, (unsigned long long)images[0],
                             (unsigned long long)labels[0]);
    }
    if (images[1] == 0 || images[2] == 0 || images[1] > SIDE_MAX || images[2] > SIDE_MAX) {
        return hri_prose_set(why, HR_E_FORMAT, "%s: invalid image size %llu x %llu",
                             w->files.files[0].path, (unsigned long long)images[2],
                             (unsigned long long)images[1]);
    }
    w->rows = (int64_t)images[1];
    w->columns = (int64_t)images[2];
    s->spec.count = images[0];
    const hr_meta m = {.type = HR_TYPE_U8, .shape = {.rank = 3, .dim = {w->rows, w->columns, 1}}};
    status = hri_spec_put(&s->spec, "image", m);
    if (status == HR_OK) {
        status = hri_spec_put(&s->spec, "label", (hr_meta){.type = HR_TYPE_I32});
    }
    if (status == HR_OK && !hri_spec_exact(&s->spec, &s->spec.item_bytes)) {
        status = HR_E_INTERNAL;
    }
    s->spec.load_bytes = s->spec.item_bytes;
    return status;
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    *out = (hri_item){.source = s, .a = i, .epoch = s->epoch, .index = i};
    return HR_OK;
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const own *w = s->own;
    const hri_file *images = &w->files.files[0], *labels = &w->files.files[1];
    const uint64_t bytes = (uint64_t)(w->rows * w->columns);
    const hr_meta m = {.type = HR_TYPE_U8, .shape = {.rank = 3, .dim = {w->rows, w->columns, 1}}};
    const hr_meta scalar = {.type = HR_TYPE_I32};
    void *image, *label;
    uint8_t number = 0;
    hri_prose why = {{0}};
    hr_status status = hr_emit_field(emit, "image", &m, &image);
    if (status == HR_OK) {
        status = hr_emit_field(emit, "label", &scalar, &label);
    }
    if (status == HR_OK) {
        status = hri_filelist_read(images, 16 + item->a * bytes, image, bytes, &why);
        if (status == HR_OK) {
            status = hri_filelist_read(labels, 8 + item->a, &number, 1, &why);
        }
        if (status != HR_OK) {
            return hri_emit_fail(emit, status, "%s", why.text);
        }
        *(int32_t *)label = number;
    }
    return status;
}

static hr_status labels(hri_stage *s, const char *field, hr_label_range *out) {
    const own *w = s->own;
    unsigned char piece[4096];
    hr_label_range r = {.min = 255};
    hr_status status = strcmp(field, "label") == 0 ? HR_OK : HR_E_NOT_FOUND;
    while (status == HR_OK && r.count < s->spec.count) {
        const uint64_t left = s->spec.count - r.count;
        const uint64_t n = left < sizeof piece ? left : sizeof piece;
        status = hri_filelist_read(&w->files.files[1], 8 + r.count, piece, n, NULL);
        for (uint64_t i = 0; status == HR_OK && i < n; i++, r.count++) {
            r.min = piece[i] < r.min ? piece[i] : r.min;
            r.max = piece[i] > r.max ? piece[i] : r.max;
        }
    }
    if (status == HR_OK && r.count) {
        *out = r;
        return HR_OK;
    }
    return status == HR_OK ? HR_E_NOT_FOUND : status;
}

static void fingerprint(hri_stage *s, hri_state *w) {
    hri_filelist_fingerprint(&((own *)s->own)->files, w);
}

static int64_t newest(hri_stage *s, char *path, size_t size) {
    return hri_filelist_newest(&((own *)s->own)->files, path, size);
}

static void close(hri_stage *s) {
    hri_filelist_close(&((own *)s->own)->files);
}

const hri_stage_type hri_stage_type_mnist = {
    .name = "mnist",
    .help = "MNIST idx files",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .open = open,
    .close = close,
    .at = at,
    .load = load,
    .fingerprint = fingerprint,
    .labels = labels,
    .newest = newest,
};
