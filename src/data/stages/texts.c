/* texts:DIR  a folder of texts, each a sample with a class: each folder in it is a class, in the order of the names; the files in a
 * class (and in folders below it) are its elements.  "tokens" is the text, i32[length] (text/samples.h), "label" the number of the
 * class (i32), and with names=on, or without classes, "name" the path below DIR (u8[n]).
 *
 * texts:FILE,classes=off is one text, and texts:@LIST,classes=off those whose paths are the lines of LIST. */
#include <string.h>
#include <unistd.h>
#include "base/file.h"
#include "data/formats/imagelist.h"
#include "data/read.h"
#include "data/text/samples.h"

typedef struct options {
    const char *path;
    bool classes, names;
    hri_text_samples_options samples;
} options;

typedef struct own {
    hri_imagelist list;
    hri_text_samples samples;
} own;

static const hri_field fields[] = {
    {"path", "directory; with classes=off also a file, or @ and a list of files",
     offsetof(options, path), HRI_FIELD_STRING, .metavar = "DIR"},
    HRI_TEXT_SAMPLES_FIELDS(options, samples),
    {"classes", "folders are classes; off: no labels", offsetof(options, classes), HRI_FIELD_BOOL,
     "on"},
    {"names", "add a field with the path of each file; classes=off always does",
     offsetof(options, names), HRI_FIELD_BOOL, "off"},
    {0}};

static bool has_names(const hri_stage *s) {
    const options *o = s->options;
    return o->names || !o->classes;
}

static hr_status open_texts(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    if (!o->path) {
        return hri_prose_set(why, HR_E_INVALID, "path: missing directory");
    }
    w->list.texts = true;
    hr_status status = hri_imagelist_open(&w->list, s, o->path, o->classes, why);
    status = status == HR_OK ? hri_text_samples_open(&w->samples, s, &o->samples, why) : status;
    if (status == HR_OK && o->classes) {
        status = hri_spec_put(&s->spec, "label", (hr_meta){.type = HR_TYPE_I32});
    }
    if (status == HR_OK && has_names(s)) {
        status = hri_spec_put(&s->spec, "name",
                              (hr_meta){.type = HR_TYPE_U8, .shape = {.rank = 1, .dim = {-1}}});
    }
    if (status != HR_OK) {
        return status;
    }
    s->spec.count = w->list.files.count;
    s->spec.item_bytes = hri_bytes_add(hri_pool_round((uint64_t)o->samples.length * 4),
                                       has_names(s) ? 64 + HRI_IMAGELIST_PATH : 64);
    const uint64_t text = hri_pool_round(hri_text_samples_most(&w->samples) + 1);
    s->spec.load_bytes =
        hri_bytes_add(hri_bytes_add(s->spec.item_bytes, text), hri_text_samples_work(&w->samples));
    return HR_OK;
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    *out = (hri_item){.source = s, .a = i, .epoch = s->epoch, .index = i};
    return HR_OK;
}

/* The beginning of the file, as much as its tokens can come from. */
static hr_status read_text(own *w, const char *path, hr_emit *emit) {
    const uint64_t most = hri_text_samples_most(&w->samples);
    hri_prose why = {""};
    hri_buffer *text;
    uint64_t bytes;
    int fd;
    hr_status status = hri_file_open_regular(path, &fd, &bytes, &why);
    if (status != HR_OK) {
        hr_emit_explain(emit, why.text);
        return status;
    }
    bytes = bytes < most ? bytes : most;
    status = hri_memory_buffer(emit->memory, bytes + 1, &text);
    if (status == HR_OK) {
        status = hri_read_at(fd, path, 0, text->data, bytes, &why);
        if (status != HR_OK) {
            hr_emit_explain(emit, why.text);
        } else {
            ((char *)text->data)[bytes] = '\0';
            status = hri_text_samples_emit(&w->samples, text->data, bytes, emit);
        }
        hri_buffer_unref(text);
    }
    close(fd);
    return status;
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const options *o = s->options;
    own *w = s->own;
    char path[HRI_IMAGELIST_PATH];
    hr_status status = hri_imagelist_path(&w->list, item->a, path)
                           ? read_text(w, path, emit)
                           : hri_emit_fail(emit, HR_E_RANGE, "its path is too long");
    if (status == HR_OK && o->classes) {
        void *data;
        const hr_meta meta = {.type = HR_TYPE_I32};
        status = hr_emit_field(emit, "label", &meta, &data);
        if (status == HR_OK) {
            *(int32_t *)data = hri_imagelist_class(&w->list, item->a);
        }
    }
    return status == HR_OK && has_names(s) ? hri_imagelist_emit_name(&w->list, item->a, emit)
                                           : status;
}

static void name_of(hri_stage *s, const hri_item *item, char *buf, size_t size) {
    const own *w = s->own;
    hri_pathlist_print(&w->list.files, item->a, buf, size);
}

static const char *class_name(hri_stage *s, size_t index) {
    const own *w = s->own;
    return index < w->list.classes.count ? w->list.classes.items[index] : NULL;
}

static void fingerprint(hri_stage *s, hri_state *state) {
    const own *w = s->own;
    hri_imagelist_print_to(&w->list, state);
    hri_text_samples_fingerprint(&w->samples, state);
}

static int64_t newest(hri_stage *s, char *path, size_t size) {
    return hri_imagelist_newest(&((own *)s->own)->list, path, size);
}

static void close_texts(hri_stage *s) {
    own *w = s->own;
    hri_text_samples_close(&w->samples);
    hri_imagelist_close(&w->list);
}

const hri_stage_type hri_stage_type_texts = {
    .name = "texts",
    .help = "text files to classify, one folder per class",
    .main = "path",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .open = open_texts,
    .close = close_texts,
    .at = at,
    .load = load,
    .name_of = name_of,
    .class_name = class_name,
    .fingerprint = fingerprint,
    .newest = newest,
};
