/* cifar10:DIR  CIFAR-10 in its binary form: data_batch_1.bin ... data_batch_5.bin, or test_batch.bin with split=test.
 * "image" u8[32,32,3] (turned from planes to pixels), "label" i32. */
#include <stdio.h>
#include <string.h>
#include "data/formats/filelist.h"
#include "data/read.h"

enum { SIDE = 32, PLANE = SIDE * SIDE, RECORD = 1 + 3 * PLANE };

typedef struct options {
    const char *path;
    int split;
} options;

static const char *const splits[] = {"train", "test", NULL};
static const char *const classes[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                      "dog",      "frog",       "horse", "ship", "truck"};
static const hr_meta picture = {.type = HR_TYPE_U8, .shape = {.rank = 3, .dim = {SIDE, SIDE, 3}}};

static const hri_field fields[] = {
    {"path", "directory", offsetof(options, path), HRI_FIELD_STRING, .metavar = "DIR"},
    {"split", "which split", offsetof(options, split), HRI_FIELD_ENUM, "train", .choices = splits},
    {0}};

typedef struct own {
    hri_filelist files;
} own;

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    char files[5][32];
    const char *names[5];
    const size_t count = o->split == 0 ? 5 : 1;
    for (size_t i = 0; i < count; i++) {
        if (o->split == 0) {
            snprintf(files[i], sizeof files[i], "data_batch_%zu.bin", i + 1);
        } else {
            snprintf(files[i], sizeof files[i], "test_batch.bin");
        }
        names[i] = files[i];
    }
    hr_status status = hri_filelist_open_in(&w->files, o->path ? o->path : ".", names, count, why);
    if (status != HR_OK) {
        return status;
    }
    s->spec.count = 0;
    for (size_t i = 0; i < count; i++) {
        if (w->files.files[i].bytes % RECORD) {
            return hri_prose_set(why, HR_E_FORMAT,
                                 "%s: the size of %llu bytes is not a multiple of the record "
                                 "size %d",
                                 w->files.files[i].path,
                                 (unsigned long long)w->files.files[i].bytes, RECORD);
        }
        s->spec.count += w->files.files[i].bytes / RECORD;
    }
    status = hri_spec_put(&s->spec, "image", picture);
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
    size_t file = 0;
    uint64_t record = item->a;
    while (record >= w->files.files[file].bytes / RECORD) {
        record -= w->files.files[file++].bytes / RECORD;
    }
    const hri_file *f = &w->files.files[file];
    const hr_meta scalar = {.type = HR_TYPE_I32};
    uint8_t raw[RECORD];
    void *image, *label;
    hri_prose why = {{0}};
    hr_status status = hr_emit_field(emit, "image", &picture, &image);
    if (status == HR_OK) {
        status = hr_emit_field(emit, "label", &scalar, &label);
    }
    if (status != HR_OK) {
        return status;
    }
    status = hri_filelist_read(f, record * RECORD, raw, RECORD, &why);
    if (status != HR_OK) {
        return hri_emit_fail(emit, status, "%s", why.text);
    }
    if (raw[0] > 9) {
        return hri_emit_fail(emit, HR_E_FORMAT, "label %u is out of range (0-9)", raw[0]);
    }
    *(int32_t *)label = raw[0];
    for (int i = 0; i < PLANE; i++) {
        for (int c = 0; c < 3; c++) {
            ((uint8_t *)image)[3 * i + c] = raw[1 + c * PLANE + i];
        }
    }
    return HR_OK;
}

static const char *class_name(hri_stage *s, size_t index) {
    (void)s;
    return index < 10 ? classes[index] : NULL;
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

const hri_stage_type hri_stage_type_cifar10 = {
    .name = "cifar10",
    .help = "CIFAR-10 in binary form",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .open = open,
    .close = close,
    .at = at,
    .load = load,
    .class_name = class_name,
    .fingerprint = fingerprint,
    .newest = newest,
};
