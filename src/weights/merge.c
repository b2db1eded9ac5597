/* See merge.h.
 *
 * The one idea: the writer of checkpoints asks for the bytes of a value; here they come out of the other file, with the
 * product of the adapters added on the way.  Nothing is kept but the two adapters of the weight that is written, and one
 * convolution, which is turned, or one weight that was codes: those are decoded to f32 before the product is added. */
#include "weights/merge.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "passes/common/lora.h"
#include "passes/common/pass.h"
#include "weights/weight_codes.h"

typedef struct merging {
    const hri_checkpoint *c;
    const hr_graph *g; /* of the model as it was before adapters */
    double scale;
    hr_value at; /* whose adapters these are */
    float *a, *b;
    int64_t rank, in, out;
    int in_first;
    hr_value turned; /* whose contents these are */
    unsigned char *whole;
    hri_prose *why;
} merging;

static const hri_tensor *find(const merging *m, const char *name, const char *which) {
    char full[512];
    snprintf(full, sizeof full, "%.*s%s", (int)(*which ? hri_lora_layer(name) : strlen(name)), name,
             which);
    return hri_tensors_find(&m->c->file, full);
}

static hr_status wrong(const merging *m, const char *name, const char *what) {
    return hri_prose_set(m->why, HR_E_FORMAT, "%s: %s %s", m->c->path, name, what);
}

static hr_status read_all(const merging *m, const hri_tensor *t, float **out) {
    const uint64_t count = (uint64_t)hr_shape_count(&t->shape);
    float *to = hri_calloc(count ? (size_t)count : 1, sizeof *to);
    if (!to) {
        return hri_prose_set(m->why, HR_E_NOMEM_HOST, "out of memory for the adapters of %s",
                             t->name);
    }
    const hr_status status = hri_tensors_read(&m->c->file, t, 0, count, HR_TYPE_F32, to, m->why);
    if (status != HR_OK) {
        hri_free(to);
        return status;
    }
    hri_free(*out);
    *out = to;
    return HR_OK;
}

/* The adapters of value v, if it has some and they are not here yet. */
static hr_status open_adapters(merging *m, hr_value v) {
    const char *name = m->g->values[v].name;
    const hri_tensor *a = find(m, name, HRI_LORA_A), *b = find(m, name, HRI_LORA_B);
    if (!a || m->at == v) {
        return HR_OK;
    }
    hr_status status = read_all(m, a, &m->a);
    status = status == HR_OK ? read_all(m, b, &m->b) : status;
    if (status == HR_OK) {
        m->at = v;
        m->rank = a->shape.dim[0];
        m->in = a->shape.dim[1];
        m->out = b->shape.dim[0];
        m->in_first = hri_lora_in_first(m->g, v) > 0;
    }
    return status;
}

/* Elements first .. first + count of the weight. */
static void add_product(const merging *m, uint64_t first, uint64_t count, float *w) {
    const uint64_t row = (uint64_t)(m->in_first ? m->out : m->in);
    for (uint64_t q = 0; q < count; q++) {
        const int64_t i = (int64_t)((first + q) / row), j = (int64_t)((first + q) % row);
        const int64_t in = m->in_first ? i : j, out = m->in_first ? j : i;
        double sum = 0;
        for (int64_t k = 0; k < m->rank; k++) {
            sum += (double)m->b[out * m->rank + k] * (double)m->a[k * m->in + in];
        }
        w[q] = (float)((double)w[q] + m->scale * sum);
    }
}

static hr_status take_turned(void *user, hr_value v, uint64_t at, const void *from,
                             uint64_t bytes) {
    merging *m = user;
    (void)v;
    memcpy(m->whole + at, from, bytes);
    return HR_OK;
}

/* What lies otherwise in files is read whole. */
static hr_status open_turned(merging *m, hr_value v, const hri_tensor *t) {
    const hr_meta *meta = &m->g->values[v].meta;
    const hri_values to = {.put = take_turned, .user = m};
    if (m->turned == v) {
        return HR_OK;
    }
    hri_free(m->whole);
    m->turned = HR_NONE;
    m->whole = hri_malloc((size_t)hr_meta_bytes(meta) + 1);
    if (!m->whole) {
        return hri_prose_set(m->why, HR_E_NOMEM_HOST, "out of memory for %s", t->name);
    }
    const hr_status status =
        hri_tensor_load(&m->c->file, t, &to, v, meta, hri_graph_tags(m->g, v)->layout, m->why);
    m->turned = status == HR_OK ? v : HR_NONE;
    return status;
}

/* What is codes in the file is decoded whole. */
static hr_status open_codes(merging *m, hr_value v) {
    float *decoded = NULL;
    if (m->turned == v) {
        return HR_OK;
    }
    const hr_status status = hri_checkpoint_decode_weight(m->c, m->g, v, &decoded, m->why);
    if (status == HR_OK) {
        hri_free(m->whole);
        m->whole = (unsigned char *)decoded;
        m->turned = v;
    }
    return status;
}

static hr_status read_plain(merging *m, hr_value v, const hri_tensor *t, uint64_t at, void *to,
                            uint64_t bytes) {
    const hr_type type = (hr_type)m->g->values[v].meta.type;
    const uint64_t width = hr_type_bytes(type);
    if (t) {
        return hri_tensors_read(&m->c->file, t, at / width, bytes / width, type, to, m->why);
    }
    const hr_status status = open_codes(m, v);
    if (status == HR_OK) {
        memcpy(to, m->whole + at, bytes);
    }
    return status;
}

/* An hr_value_get: whole elements, as the writer asks for them. */
static hr_status get(void *user, hr_value v, uint64_t at, void *to, uint64_t bytes) {
    merging *m = user;
    const hri_value *value = &m->g->values[v];
    const uint64_t width = hr_type_bytes((hr_type)value->meta.type);
    const hri_tensor *t = find(m, value->name, "");
    if (hri_graph_tags(m->g, v)->layout != HR_LAYOUT_SAME) {
        const hr_status status = open_turned(m, v, t);
        if (status == HR_OK) {
            memcpy(to, m->whole + at, bytes);
        }
        return status;
    }
    hr_status status = read_plain(m, v, t, at, to, bytes);
    status = status == HR_OK ? open_adapters(m, v) : status;
    if (status == HR_OK && m->at == v) {
        add_product(m, at / width, bytes / width, to);
    }
    return status;
}

/* Before anything is written: is everything there, and does it go together? */
static hr_status check_value(const merging *m, hr_value v, hri_merge_report *r) {
    const hri_value *value = &m->g->values[v];
    const hri_tensor *t = find(m, value->name, "");
    const hri_tensor *a = find(m, value->name, HRI_LORA_A), *b = find(m, value->name, HRI_LORA_B);
    const hr_meta meta = hri_file_meta(m->g, v);
    if (!t) {
        const hr_status status = hri_checkpoint_check_codes(m->c, m->g, v, m->why);
        if (status != HR_OK) {
            return status == HR_E_NOT_FOUND ? wrong(m, value->name, "is missing") : status;
        }
    } else if (!hr_shape_same(&t->shape, &meta.shape) ||
               !hri_tensor_can_be(t, (hr_type)meta.type)) {
        return wrong(m, value->name, "has another shape or type than the model");
    }
    if (value->kind == HR_VALUE_PARAM) {
        r->parameters += (uint64_t)hr_shape_count(&meta.shape);
    }
    r->bytes += hr_meta_bytes(&meta);
    if (value->kind != HR_VALUE_PARAM || (!a && !b)) {
        return HR_OK;
    }
    const int in_first = hri_lora_in_first(m->g, v);
    const int64_t *dim = meta.shape.dim;
    if (!a || !b || in_first < 0 || a->shape.rank != 2 || b->shape.rank != 2 ||
        a->shape.dim[0] != b->shape.dim[1] || a->shape.dim[1] != dim[in_first ? 0 : 1] ||
        b->shape.dim[0] != dim[in_first ? 1 : 0] || !hri_tensor_can_be(a, HR_TYPE_F32) ||
        !hri_tensor_can_be(b, HR_TYPE_F32)) {
        return wrong(m, value->name, "has adapters that do not fit it");
    }
    r->layers++;
    return HR_OK;
}

static hr_status check_all(const merging *m, hri_merge_report *r) {
    hr_status status = HR_OK;
    for (hr_value v = 1; v < m->g->value_count && status == HR_OK; v++) {
        status = hri_keep_of(m->g, v) == HR_KEEP_MODEL ? check_value(m, v, r) : HR_OK;
    }
    return status == HR_OK && !r->layers ? wrong(m, "the run", "has no adapters") : status;
}

static hr_status write(merging *m, const char *path, hri_merge_report *out) {
    hri_merge_report report = {0};
    hr_status status = check_all(m, &report);
    if (status != HR_OK) {
        return status;
    }
    hri_about about = m->c->about;
    about.passes = NULL;
    const hri_values from = {.get = get, .user = m};
    const hri_checkpoint_write w = {
        .g = m->g, .from = &from, .about = &about, .updates = hri_checkpoint_updates(m->c)};
    status = hri_checkpoint_save(path, &w, m->why);
    if (status == HR_OK) {
        *out = report;
    }
    return status;
}

hr_status hri_checkpoint_merge(const hri_checkpoint *c, const char *path, hri_merge_report *out,
                               hri_prose *why) {
    hri_passes passes = {0};
    hr_model *model = NULL;
    hr_graph *g = NULL;
    merging m = {.c = c, .why = why};
    hr_status status = hri_passes_parse(c->about.passes, &passes, why);
    const hri_lora *lora = status == HR_OK ? hri_passes_find(&passes, "lora") : NULL;
    if (status == HR_OK && !lora) {
        status = hri_prose_set(why, HR_E_INVALID,
                               "%s has no adapters to merge: it was trained without LoRA", c->path);
    }
    if (status == HR_OK) {
        m.scale = hri_lora_scale(lora);
        status = hri_checkpoint_model(c, &model, why);
    }
    if (status == HR_OK) {
        status = hr_graph_create(&g);
        status = status == HR_OK ? hr_model_build(model, g, 1, 0) : status;
        if (status != HR_OK) {
            hri_prose_set(why, status, "%s: the model cannot be built: %s", c->path,
                          hr_status_text(status));
        }
    }
    if (status == HR_OK) {
        m.g = g;
        status = write(&m, path, out);
    }
    hri_free(m.a);
    hri_free(m.b);
    hri_free(m.whole);
    hr_graph_destroy(g);
    hr_model_close(model);
    hri_passes_deinit(&passes);
    return status;
}
