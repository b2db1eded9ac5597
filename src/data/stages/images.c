/* images:DIR  a folder of images: each folder in it is a class, in the order of the names; the files in a class (and
 * in folders below it, at any depth) are its elements, in the order of the names.  "image" is the file as it is (u8[n]:
 * decode comes next), "label" the number of the class (i32), and with names=on "name" the path below DIR (u8[n]).
 *
 * images:FILE,classes=off is one image, and images:@LIST,classes=off those whose paths are the lines of LIST.
 *
 * Opening lists the files (formats/imagelist.h).  The largest image that it finds is what the working sets of loading and
 * decoding are made from; a larger one found later is served when the budget has room for it, and a bad element when
 * not. */
#include <string.h>
#include "data/formats/imagelist.h"
#include "data/pipeline.h"
#include "data/read.h"

typedef struct options {
    const char *path;
    bool classes, names;
} options;

static const hri_field fields[] = {
    {"path", "directory; with classes=off also a file, or @ and a list of files",
     offsetof(options, path), HRI_FIELD_STRING, .metavar = "DIR"},
    {"classes", "folders are classes; off: no labels", offsetof(options, classes), HRI_FIELD_BOOL,
     "on"},
    {"names", "add a field with the path of each file", offsetof(options, names), HRI_FIELD_BOOL,
     "off"},
    {0}};

static hr_status open_images(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    hri_imagelist *w = s->own;
    if (!o->path) {
        return hri_prose_set(why, HR_E_INVALID, "path: missing directory");
    }
    hr_status status = hri_imagelist_open(w, s, o->path, o->classes, why);
    if (status != HR_OK) {
        return status;
    }
    s->spec.count = w->files.count;
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
        hri_bytes_add(hri_pool_round(w->largest_file + 1), o->names ? 64 + HRI_IMAGELIST_PATH : 64);
    return status;
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    *out = (hri_item){.source = s, .a = i, .epoch = s->epoch, .index = i};
    return HR_OK;
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const options *o = s->options;
    char path[HRI_IMAGELIST_PATH];
    hr_status status = hri_imagelist_path(s->own, item->a, path)
                           ? hri_emit_file(emit, "image", path)
                           : hri_emit_fail(emit, HR_E_RANGE, "its path is too long");
    if (status == HR_OK && o->classes) {
        void *data;
        const hr_meta meta = {.type = HR_TYPE_I32};
        status = hr_emit_field(emit, "label", &meta, &data);
        if (status == HR_OK) {
            *(int32_t *)data = hri_imagelist_class(s->own, item->a);
        }
    }
    return status == HR_OK && o->names ? hri_imagelist_emit_name(s->own, item->a, emit) : status;
}

static void name_of(hri_stage *s, const hri_item *item, char *buf, size_t size) {
    const hri_imagelist *w = s->own;
    hri_pathlist_print(&w->files, item->a, buf, size);
}

static const char *class_name(hri_stage *s, size_t index) {
    const hri_imagelist *w = s->own;
    return index < w->classes.count ? w->classes.items[index] : NULL;
}

static void fingerprint(hri_stage *s, hri_state *state) {
    hri_imagelist_print_to(s->own, state);
}

static int64_t newest(hri_stage *s, char *path, size_t size) {
    return hri_imagelist_newest(s->own, path, size);
}

static void close_images(hri_stage *s) {
    hri_imagelist_close(s->own);
}

const hri_stage_type hri_stage_type_images = {
    .name = "images",
    .help = "JPEG, PNG, BMP, WebP, TIFF and AVIF files, one folder per class",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(hri_imagelist),
    .open = open_images,
    .close = close_images,
    .at = at,
    .load = load,
    .name_of = name_of,
    .class_name = class_name,
    .fingerprint = fingerprint,
    .newest = newest,
};
