/* synthetic[:count=N,shape=HxWxC,type=u8,classes=K]  random data, the same for a seed: to measure everything but the
 * input.  "image" (any shape and type) and "label", one class or with label=HxW as many, as real numbers 0 and 1 with
 * label_type=f32; with classes=0 no label.  With vocab=V the elements are "tokens" (i32, numbers below V) of the given
 * shape instead, and have a label only with labels=on. */
#include <string.h>
#include "data/stage.h"
#include "graph/half.h"

typedef struct options {
    int64_t count, classes, vocab, seed;
    hri_dims shape, label;
    const char *type;
    int label_type;
    bool labels;
} options;

static const char *const label_types[] = {"i32", "f32", NULL};

static const hri_field fields[] = {
    {"count", "elements per epoch", offsetof(options, count), HRI_FIELD_INT, "1024", .min = 0,
     .max = 9e15, .metavar = "N"},
    {"shape", "shape of an element", offsetof(options, shape), HRI_FIELD_DIMS, "224x224x3"},
    {"type", "u8, f32, bf16, f16, i32 or i64", offsetof(options, type), HRI_FIELD_STRING, "u8"},
    {"classes", "number of classes; 0: no label", offsetof(options, classes), HRI_FIELD_INT, "1000",
     .min = 0, .max = 2e9},
    {"label", "shape of a label; none: one number", offsetof(options, label), HRI_FIELD_DIMS},
    {"label_type", "label type: i32 for classes, f32 for random 0 and 1",
     offsetof(options, label_type), HRI_FIELD_ENUM, "i32", .choices = label_types},
    {"vocab", "vocabulary size, for tokens instead of an image", offsetof(options, vocab),
     HRI_FIELD_INT, "0", .min = 0, .max = 2e9},
    {"labels", "a label next to tokens, too", offsetof(options, labels), HRI_FIELD_BOOL, "off"},
    {"seed", "random seed", offsetof(options, seed), HRI_FIELD_INT},
    {0}};

typedef struct own {
    hr_meta meta, label;
    const char *name;
} own;

static bool has_label(const options *o) {
    return o->classes && (!o->vocab || o->labels);
}

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    w->name = o->vocab ? "tokens" : "image";
    if (hr_type_find(o->vocab ? "i32" : o->type, &w->meta.type) != HR_OK) {
        return hri_prose_set(why, HR_E_INVALID, "type: unknown type \"%s\"", o->type);
    }
    w->meta.shape.rank = (int32_t)o->shape.count;
    for (int64_t i = 0; i < o->shape.count; i++) {
        w->meta.shape.dim[i] = o->shape.at[i];
    }
    w->label.type = o->label_type == 0 ? HR_TYPE_I32 : HR_TYPE_F32;
    w->label.shape.rank = (int32_t)o->label.count;
    for (int64_t i = 0; i < o->label.count; i++) {
        w->label.shape.dim[i] = o->label.at[i];
    }
    hr_status status = hr_meta_check(&w->meta, NULL);
    if (status == HR_OK) {
        status = hr_meta_check(&w->label, NULL);
    }
    if (status != HR_OK) {
        return hri_prose_set(why, status, "shape: invalid");
    }
    s->spec.count = (uint64_t)o->count;
    status = hri_spec_put(&s->spec, w->name, w->meta);
    if (status == HR_OK && has_label(o)) {
        status = hri_spec_put(&s->spec, "label", w->label);
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

/* Real numbers are multiples of 1/128 in [-1, 1): exact in every type. */
static void fill(hri_stage *s, const own *w, uint64_t index, void *data, uint64_t count) {
    enum { PIECE = 1024 };
    const options *o = s->options;
    uint32_t words[PIECE];
    for (uint64_t i = 0; i < count;) {
        const uint64_t n = count - i < PIECE ? count - i : PIECE;
        hri_random_fill_u32(s->seed, (uint32_t)(index >> 32), HRI_RANDOM_NODE_SYNTHETIC,
                            (uint32_t)index, i, words, n);
        for (uint64_t k = 0; w->meta.type == HR_TYPE_U8 && k < n; k++) {
            ((uint8_t *)data)[i + k] = (uint8_t)words[k];
        }
        for (uint64_t k = 0; w->meta.type != HR_TYPE_U8 && k < n; k++) {
            const uint32_t word = words[k];
            const float real = (float)((int32_t)(word & 255) - 128) / 128.0f;
            uint32_t bits;
            memcpy(&bits, &real, sizeof bits);
            switch (w->meta.type) {
            case HR_TYPE_F32:
                ((float *)data)[i + k] = real;
                break;
            case HR_TYPE_BF16:
                ((uint16_t *)data)[i + k] = (uint16_t)(bits >> 16);
                break;
            case HR_TYPE_F16: {
                const hri_f16 half = hri_to_f16(real);
                memcpy((uint16_t *)data + i + k, &half, 2);
                break;
            }
            case HR_TYPE_I32:
                ((int32_t *)data)[i + k] = (int32_t)(word % (o->vocab ? (uint32_t)o->vocab : 256u));
                break;
            default:
                ((int64_t *)data)[i + k] = (int64_t)(word & 255);
                break;
            }
        }
        i += n;
    }
}

static void fill_label(hri_stage *s, const own *w, uint64_t index, void *data) {
    const uint32_t classes = (uint32_t)((const options *)s->options)->classes;
    const uint64_t count = (uint64_t)hr_shape_count(&w->label.shape);
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t word = hri_random_u32_of(s->seed, (uint32_t)(index >> 32),
                                                HRI_RANDOM_NODE_SYNTHETIC + 1, (uint32_t)index, i);
        if (w->label.type == HR_TYPE_I32) {
            ((int32_t *)data)[i] = (int32_t)(word % classes);
        } else {
            ((float *)data)[i] = (float)(word & 1);
        }
    }
}

static hr_status load(hri_stage *s, const hri_item *item, hr_emit *emit) {
    const options *o = s->options;
    const own *w = s->own;
    void *data;
    hr_status status = hr_emit_field(emit, w->name, &w->meta, &data);
    if (status == HR_OK) {
        fill(s, w, item->a, data, (uint64_t)hr_shape_count(&w->meta.shape));
    }
    if (status == HR_OK && has_label(o)) {
        status = hr_emit_field(emit, "label", &w->label, &data);
        if (status == HR_OK) {
            fill_label(s, w, item->a, data);
        }
    }
    return status;
}

const hri_stage_type hri_stage_type_synthetic = {
    .name = "synthetic",
    .help = "random elements, for benchmarks without input",
    .main = "count",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .open = open,
    .at = at,
    .load = load,
};
