/* batch(N)  N elements as one: every field gets a first dimension.  The last batch of an epoch is shorter, or dropped
 * with drop=on.  With pad=on the elements' shapes may differ: each field is as large as the largest in its batch, the
 * rest filled with `value`.
 *
 * The batch's memory is taken when its first element is there, so that shapes need not be known before.  Plain
 * batches copy each element in as it comes and hold one at a time; padded ones hold all N until the sizes are known. */
#include <string.h>
#include "base/alloc.h"
#include "base/clock.h"
#include "data/stage.h"
#include "graph/half.h"

typedef struct options {
    int64_t size;
    bool drop, pad;
    double value;
} options;

static const hri_field fields[] = {
    {"size", "elements per batch", offsetof(options, size), HRI_FIELD_INT, "32", .min = 1,
     .max = 1e7, .metavar = "N"},
    {"drop", "drop a short last batch", offsetof(options, drop), HRI_FIELD_BOOL, "off"},
    {"pad", "pad elements of different shapes to one shape", offsetof(options, pad), HRI_FIELD_BOOL,
     "off"},
    {"value", "padding value", offsetof(options, value), HRI_FIELD_DOUBLE, "0"},
    {0}};

typedef struct own {
    hr_element **held; /* padded: the elements of the batch; size pointers */
} own;

static hr_status open(hri_stage *s, hri_prose *why) {
    own *w = s->own;
    const options *o = s->options;
    const uint64_t n = (uint64_t)o->size;
    const hri_spec in = s->spec;
    if (s->spec.count != HR_COUNT_UNKNOWN) {
        s->spec.count = o->drop ? in.count / n : in.count / n + (in.count % n != 0);
    }
    const bool whole =
        o->drop || in.count % n == 0; /* HR_COUNT_UNKNOWN % n may be 0: checked below */
    const bool fixed = o->drop || (in.count != HR_COUNT_UNKNOWN && whole);
    uint64_t exact = 0;
    for (uint32_t i = 0; i < in.field_count; i++) {
        hr_meta m = in.fields[i].meta;
        if (m.shape.rank == HR_RANK_MAX) {
            return hri_prose_set(why, HR_E_SHAPE, "field \"%s\" already has %d dimensions",
                                 in.fields[i].name, HR_RANK_MAX);
        }
        memmove(m.shape.dim + 1, m.shape.dim, (size_t)m.shape.rank * sizeof m.shape.dim[0]);
        m.shape.rank++;
        m.shape.dim[0] = o->size;
        for (int d = 1; o->pad && d < m.shape.rank; d++) {
            m.shape.dim[d] = -1;
        }
        s->spec.fields[i].meta = m;
    }
    if (o->pad || !hri_spec_exact(&s->spec, &exact)) {
        exact = hri_bytes_mul(n, hri_bytes_add(in.item_bytes, in.item_bytes / 7 + 64));
    }
    for (uint32_t i = 0; !fixed && i < in.field_count; i++) {
        s->spec.fields[i].meta.shape.dim[0] = -1;
    }
    s->spec.item_bytes = exact;
    s->spec.load_bytes = 0;
    const uint64_t loaded = in.load_bytes; /* what comes as a ticket is loaded in this account */
    const uint64_t once = hri_bytes_add(exact, loaded);
    s->smallest_bytes = o->pad ? hri_bytes_add(once, hri_bytes_mul(n, in.item_bytes)) : once;
    if (o->pad) {
        w->held = hri_calloc(n, sizeof(hr_element *));
        if (!w->held) {
            return HR_E_NOMEM_HOST;
        }
    }
    return HR_OK;
}

/* The next element of the input, loaded; bad ones are passed over. */
static hr_status pull(hri_stage *s, hr_element **out) {
    for (;;) {
        hri_item item = {0};
        hr_status status = hri_stage_next(s->inputs[0], &item);
        if (status == HR_OK) {
            status = hri_stage_take(s, &item, out);
        }
        if (status != HR_E_AGAIN) {
            return status;
        }
    }
}

/* An empty batch for elements like `e`. */
static hr_status begin(hri_stage *s, const hr_element *e, hr_emit *emit) {
    const options *o = s->options;
    hr_status status = HR_OK;
    for (uint32_t i = 0; status == HR_OK && i < e->count; i++) {
        hr_meta m = e->parts[i].field.meta;
        if (m.shape.rank == HR_RANK_MAX) {
            return hri_emit_fail(emit, HR_E_SHAPE, "field \"%s\" has too many dimensions",
                                 e->parts[i].field.name);
        }
        memmove(m.shape.dim + 1, m.shape.dim, (size_t)m.shape.rank * sizeof m.shape.dim[0]);
        m.shape.rank++;
        m.shape.dim[0] = o->size;
        void *data;
        status = hr_emit_field(emit, e->parts[i].field.name, &m, &data);
    }
    return status;
}

static hr_status put(hr_emit *emit, const hr_element *e, uint64_t at) {
    hr_element *batch = emit->output;
    if (e->count != batch->count) {
        return hri_emit_fail(emit, HR_E_SHAPE, "elements of one batch have different fields");
    }
    for (uint32_t i = 0; i < e->count; i++) {
        const hr_field *from = &e->parts[i].field;
        const hr_field *to = &batch->parts[i].field;
        hr_shape rest = {.rank = to->meta.shape.rank - 1};
        memcpy(rest.dim, to->meta.shape.dim + 1, (size_t)rest.rank * sizeof rest.dim[0]);
        if (strcmp(from->name, to->name) != 0 || from->meta.type != to->meta.type ||
            !hr_shape_same(&from->meta.shape, &rest)) {
            char a[256], b[256];
            const hr_meta other = {to->meta.type, rest};
            return hri_emit_fail(emit, HR_E_SHAPE,
                                 "\"%s\" is %s in one element of the batch and %s in another "
                                 "(decode to one size, or use pad=on)",
                                 from->name, hr_meta_print(&other, a, sizeof a),
                                 hr_meta_print(&from->meta, b, sizeof b));
        }
        memcpy((char *)to->data + at * from->bytes, from->data, from->bytes);
    }
    return HR_OK;
}

/* Cuts the batch to `count` elements. */
static void finish(hr_element *batch, uint64_t count) {
    for (uint32_t i = 0; i < batch->count; i++) {
        hr_field *f = &batch->parts[i].field;
        if (f->meta.shape.dim[0] > 0) {
            f->bytes = f->bytes / (uint64_t)f->meta.shape.dim[0] * count;
        }
        f->meta.shape.dim[0] = (int64_t)count;
    }
}

static hr_status next_plain(hri_stage *s, hr_emit *emit, uint64_t *count) {
    const options *o = s->options;
    while (*count < (uint64_t)o->size) {
        hr_element *e;
        hr_status status = pull(s, &e);
        if (status == HR_E_EOF && *count > 0) {
            return HR_OK;
        }
        if (status != HR_OK) {
            return status;
        }
        const uint64_t began = hri_clock_ns();
        status = *count == 0 ? begin(s, e, emit) : HR_OK;
        if (status == HR_OK) {
            status = put(emit, e, *count);
        }
        hr_element_unref(e);
        s->busy_ns += hri_clock_ns() - began;
        if (status != HR_OK) {
            return status;
        }
        ++*count;
    }
    return HR_OK;
}

/* ---- padding ---- */

static void fill_value(void *data, uint64_t bytes, hr_type type, double value) {
    if (value == 0) {
        memset(data, 0, bytes);
        return;
    }
    const uint64_t n = bytes / hr_type_bytes(type);
    uint32_t bits;
    const float real = (float)value;
    memcpy(&bits, &real, 4);
    const hri_f16 half = hri_to_f16((float)value);
    for (uint64_t i = 0; i < n; i++) {
        switch (type) {
        case HR_TYPE_F32:
            ((float *)data)[i] = real;
            break;
        case HR_TYPE_BF16:
            ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
            break;
        case HR_TYPE_F16:
            memcpy((uint16_t *)data + i, &half, 2);
            break;
        case HR_TYPE_I32:
            ((int32_t *)data)[i] = (int32_t)value;
            break;
        case HR_TYPE_I64:
            ((int64_t *)data)[i] = (int64_t)value;
            break;
        default:
            ((uint8_t *)data)[i] = (uint8_t)value;
            break;
        }
    }
}

/* Copies a dense array into the corner of a larger one of the same rank. */
static void copy_corner(char *to, const hr_shape *big, const char *from, const hr_shape *small,
                        size_t unit, int d) {
    if (d == small->rank) {
        memcpy(to, from, unit);
        return;
    }
    uint64_t big_step = unit, small_step = unit;
    for (int k = d + 1; k < small->rank; k++) {
        big_step *= (uint64_t)big->dim[k];
        small_step *= (uint64_t)small->dim[k];
    }
    if (big_step == small_step) {
        memcpy(to, from, small_step * (uint64_t)small->dim[d]);
        return;
    }
    for (int64_t i = 0; i < small->dim[d]; i++) {
        copy_corner(to + (uint64_t)i * big_step, big, from + (uint64_t)i * small_step, small, unit,
                    d + 1);
    }
}

static hr_status pad_field(hri_stage *s, hr_emit *emit, uint32_t field, uint64_t count) {
    const own *w = s->own;
    const options *o = s->options;
    const hr_field *first = &w->held[0]->parts[field].field;
    hr_shape most = first->meta.shape;
    for (uint64_t i = 1; i < count; i++) {
        const hr_field *f = field < w->held[i]->count ? &w->held[i]->parts[field].field : NULL;
        if (!f || strcmp(f->name, first->name) != 0 || f->meta.type != first->meta.type ||
            f->meta.shape.rank != most.rank) {
            return hri_emit_fail(emit, HR_E_SHAPE,
                                 "elements of one batch have different fields, types or ranks");
        }
        for (int d = 0; d < most.rank; d++) {
            most.dim[d] = f->meta.shape.dim[d] > most.dim[d] ? f->meta.shape.dim[d] : most.dim[d];
        }
    }
    if (most.rank == HR_RANK_MAX) {
        return hri_emit_fail(emit, HR_E_SHAPE, "\"%s\" has too many dimensions", first->name);
    }
    hr_meta m = {.type = first->meta.type, .shape = {.rank = most.rank + 1}};
    m.shape.dim[0] = (int64_t)count;
    memcpy(m.shape.dim + 1, most.dim, (size_t)most.rank * sizeof most.dim[0]);
    void *data;
    const hr_status status = hr_emit_field(emit, first->name, &m, &data);
    if (status != HR_OK) {
        return status;
    }
    const uint64_t bytes = hr_meta_bytes(&m);
    fill_value(data, bytes, m.type, o->value);
    for (uint64_t i = 0; bytes > 0 && i < count; i++) {
        const hr_field *f = &w->held[i]->parts[field].field;
        if (f->bytes > 0) {
            copy_corner((char *)data + i * (bytes / count), &most, f->data, &f->meta.shape,
                        hr_type_bytes(m.type), 0);
        }
    }
    return HR_OK;
}

static hr_status next_padded(hri_stage *s, hr_emit *emit, uint64_t *count) {
    own *w = s->own;
    const options *o = s->options;
    hr_status status = HR_OK;
    uint64_t n = 0;
    while (status == HR_OK && n < (uint64_t)o->size) {
        hr_element *e;
        status = pull(s, &e);
        if (status == HR_OK) {
            hri_element_charge_to(e, s->account, 0);
            w->held[n++] = e;
        }
    }
    if (status == HR_E_EOF && n > 0) {
        status = HR_OK;
    }
    for (uint32_t i = 0; status == HR_OK && i < w->held[0]->count; i++) {
        status = pad_field(s, emit, i, n);
    }
    for (uint64_t i = 0; i < n; i++) {
        hr_element_unref(w->held[i]);
    }
    *count = n;
    return status;
}

/* place counts batches: a batch's random identity. */
static hr_status next(hri_stage *s, hri_item *out) {
    const options *o = s->options;
    hri_memory memory = hri_stage_memory(s);
    hr_emit emit;
    hr_status status = hri_emit_init(&emit, &memory, NULL, s->seed, s->epoch, s->place);
    uint64_t count = 0;
    if (status == HR_OK) {
        status = o->pad ? next_padded(s, &emit, &count) : next_plain(s, &emit, &count);
        if (status == HR_OK && count < (uint64_t)o->size && o->drop) {
            status = HR_E_EOF;
        }
        if (status == HR_OK) {
            if (!o->pad) {
                finish(emit.output, count);
            }
            *out =
                (hri_item){.element = hri_emit_take(&emit), .epoch = s->epoch, .index = s->place++};
        } else if (status == HR_E_SHAPE || emit.reason[0] || status == HR_E_LIMIT ||
                   status == HR_E_RANGE) {
            const hri_item item = {.epoch = s->epoch, .index = s->place};
            if (emit.reason[0] || count == 0) {
                status = hri_pipeline_bad_item(s->pipeline, status, s, &item, emit.reason);
                status = status == HR_E_AGAIN ? HR_E_SHAPE : status;
            }
        }
        hri_emit_deinit(&emit);
    }
    return status;
}

static void close(hri_stage *s) {
    hri_free(((own *)s->own)->held);
}

const hri_stage_type hri_stage_type_batch = {
    .name = "batch",
    .help = "combine elements into batches",
    .main = "size",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .inputs = 1,
    .open = open,
    .close = close,
    .next = next,
};
