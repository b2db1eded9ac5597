/* See weight_codes.h.  As in quantize.c, the writer asks for the bytes of a value, and they are made on the way out of the
 * other file. */
#include "weights/weight_codes.h"

#include <string.h>

#include "base/alloc.h"
#include "ops/common/weight_codes.h"
#include "passes/common/lora.h"
#include "passes/common/pass.h"
#include "passes/common/weights.h"

typedef struct making {
    const hri_checkpoint *c;
    const hr_graph *g, *to; /* before and after */
    const hri_weights_options *o;
    hri_prose *why;
    hr_value at;          /* of g: whose numbers these are */
    unsigned char *whole; /* as in memory */
    unsigned char *codes, *scales, *zero;
} making;

typedef struct taking {
    unsigned char *to;
} taking;

static hr_status take(void *user, hr_value v, uint64_t at, const void *from, uint64_t bytes) {
    const taking *t = user;
    (void)v;
    memcpy(t->to + at, from, bytes);
    return HR_OK;
}

static void drop(making *m) {
    hri_free(m->whole);
    hri_free(m->codes);
    hri_free(m->scales);
    hri_free(m->zero);
    m->whole = m->codes = m->scales = m->zero = NULL;
    m->at = HR_NONE;
}

static hr_status out_of_memory(const making *m, const char *name) {
    return hri_prose_set(m->why, HR_E_NOMEM_HOST, "out of memory for %s", name);
}

/* Value v of the model before, all of it. */
static hr_status read_value(making *m, hr_value v) {
    const hri_value *value = &m->g->values[v];
    const hri_tensor *t = hri_tensors_find(&m->c->file, value->name);
    const hr_meta meta = hri_file_meta(m->g, v);
    if (!t || !hr_shape_same(&t->shape, &meta.shape) || !hri_tensor_can_be(t, (hr_type)meta.type)) {
        return hri_prose_set(m->why, HR_E_NOT_FOUND, "%s: %s is missing or has another shape",
                             m->c->path, value->name);
    }
    drop(m);
    m->whole = hri_malloc((size_t)hr_meta_bytes(&value->meta) + 1);
    if (!m->whole) {
        return out_of_memory(m, value->name);
    }
    taking into = {m->whole};
    const hri_values values = {.put = take, .user = &into};
    return hri_tensor_load(&m->c->file, t, &values, v, &value->meta,
                           hri_graph_tags(m->g, v)->layout, m->why);
}

/* Rows of outputs, whichever way the weight lies. */
static hr_status encode(making *m, hr_value v) {
    const int bits = (int)m->o->bits;
    int64_t out, in;
    hri_weights_sizes(m->g, v, &out, &in);
    const int64_t group = hri_weight_group(bits, m->o->group, in);
    const int64_t groups = hri_weight_groups(in, group), bytes = hri_weight_row_bytes(bits, in);
    const size_t scale = hr_type_bytes(hri_weight_scale_type(bits));
    const int turned = hri_lora_in_first(m->g, v) > 0;
    m->codes = hri_calloc((size_t)out, (size_t)bytes);
    m->scales = hri_calloc((size_t)(out * groups), scale);
    m->zero = hri_calloc((size_t)out, (size_t)((groups + 1) / 2));
    float *row = hri_calloc((size_t)in, sizeof *row);
    const hr_status status =
        m->codes && m->scales && m->zero && row ? HR_OK : out_of_memory(m, m->g->values[v].name);
    const float *w = (const float *)(const void *)m->whole;
    const int64_t step = m->g->values[v].meta.shape.dim[1];
    for (int64_t o = 0; o < out && status == HR_OK; o++) {
        for (int64_t i = 0; i < in; i++) {
            row[i] = turned ? w[i * step + o] : w[o * step + i];
        }
        hri_weight_encode(bits, group, in, row, m->codes + o * bytes,
                          m->scales + (size_t)(o * groups) * scale,
                          m->zero + o * ((groups + 1) / 2));
    }
    hri_free(row);
    return status;
}

/* The weight that value `name` of the model afterwards belongs to, and which of its three it is. */
static hr_value owner_of(const making *m, const char *name, int *which) {
    static const char *const ends[] = {HRI_WEIGHTS_CODES, HRI_WEIGHTS_SCALE, HRI_WEIGHTS_ZERO};
    char own[340];
    for (hr_value v = 1; v < m->g->value_count; v++) {
        for (int k = 0; k < 3 && m->g->values[v].kind == HR_VALUE_PARAM; k++) {
            if (hri_weights_name(m->g->values[v].name, ends[k], own, sizeof own) &&
                !strcmp(own, name) && hri_weights_takes(m->g, v)) {
                *which = k;
                return v;
            }
        }
    }
    return HR_NONE;
}

/* An hr_value_get. */
static hr_status get(void *user, hr_value v, uint64_t at, void *to, uint64_t bytes) {
    making *m = user;
    const char *name = m->to->values[v].name;
    int which = -1;
    const hr_value own = owner_of(m, name, &which);
    const hr_value from = own != HR_NONE ? own : hr_graph_find(m->g, name);
    hr_status status = HR_OK;
    if (from == HR_NONE) {
        return hri_prose_set(m->why, HR_E_NOT_FOUND, "%s: %s is missing", m->c->path, name);
    }
    if (m->at != from) {
        status = read_value(m, from);
        status = status == HR_OK && own != HR_NONE ? encode(m, own) : status;
        m->at = status == HR_OK ? from : HR_NONE;
    }
    if (status == HR_OK) {
        memcpy(to,
               (which == 0   ? m->codes
                : which == 1 ? m->scales
                : which == 2 ? m->zero
                             : m->whole) +
                   at,
               bytes);
    }
    return status;
}

static hr_status write(making *m, const char *passes, const char *path, hri_quantize_report *out) {
    hri_quantize_report r = {.bytes = hri_checkpoint_bytes(m->to, HRI_CHECKPOINT_WEIGHTS),
                             .bytes_before = hri_checkpoint_bytes(m->g, HRI_CHECKPOINT_WEIGHTS)};
    for (hr_value v = 1; v < m->g->value_count; v++) {
        r.layers += (uint64_t)hri_weights_takes(m->g, v);
    }
    hri_about about = m->c->about;
    about.passes = passes;
    about.precision = "f32";
    const hri_values from = {.get = get, .user = m};
    const hri_checkpoint_write w = {.g = m->to, .from = &from, .about = &about};
    const hr_status status = hri_checkpoint_save(path, &w, m->why);
    if (status == HR_OK) {
        *out = r;
    }
    return status;
}

hr_status hri_checkpoint_weight_codes(const hri_checkpoint *c, const hr_graph *g, const char *text,
                                      const char *path, hri_quantize_report *out, hri_prose *why) {
    hr_graph *to = NULL;
    hri_passes passes = {0};
    hri_text all = {0};
    hr_status status = hri_passes_parse(text, &passes, why);
    if (status == HR_OK) {
        status = hri_passes_add_others(c->about.passes, "qat", &all, why);
    }
    if (status == HR_OK) {
        hri_text_add(&all, "%s%s", all.used ? ";" : "", text);
        status = hri_text_status(&all);
    }
    status = status == HR_OK ? hri_quantize_graph(c, text, &to, why) : status;
    if (status == HR_OK) {
        making m = {.c = c, .g = g, .to = to, .o = hri_passes_find(&passes, "weights"), .why = why};
        status = write(&m, hri_text_get(&all), path, out);
        drop(&m);
    }
    hri_text_deinit(&all);
    hri_passes_deinit(&passes);
    hr_graph_destroy(to);
    return status;
}

/* ---- back to f32 ---- */

typedef struct packed {
    const hri_tensor *codes, *scales, *zero;
    int64_t out, in, group;
    int bits;
} packed;

static const hri_tensor *find_of(const hri_checkpoint *c, const char *weight, const char *end) {
    char name[340];
    return hri_weights_name(weight, end, name, sizeof name) ? hri_tensors_find(&c->file, name)
                                                            : NULL;
}

static int has_form(const hri_tensor *t, hr_type type, int64_t rows, int64_t columns) {
    return t && t->shape.rank == 2 && t->shape.dim[0] == rows && t->shape.dim[1] == columns &&
           hri_tensor_can_be(t, type);
}

static int is_whole(const packed *p) {
    const int64_t groups = hri_weight_groups(p->in, p->group);
    return has_form(p->codes, hri_weight_code_type(p->bits), p->out,
                    hri_weight_row_bytes(p->bits, p->in)) &&
           has_form(p->scales, hri_weight_scale_type(p->bits), p->out, groups) &&
           (p->bits == 8 || has_form(p->zero, HR_TYPE_U8, p->out, (groups + 1) / 2));
}

static hr_status find_packed(const hri_checkpoint *c, const hr_graph *g, hr_value v, packed *out,
                             hri_prose *why) {
    const char *name = g->values[v].name;
    hri_passes passes = {0};
    packed p = {.codes = find_of(c, name, HRI_WEIGHTS_CODES),
                .scales = find_of(c, name, HRI_WEIGHTS_SCALE),
                .zero = find_of(c, name, HRI_WEIGHTS_ZERO)};
    if (!p.codes || !hri_weights_takes(g, v)) {
        return HR_E_NOT_FOUND;
    }
    hr_status status = hri_passes_parse(c->about.passes, &passes, why);
    const hri_weights_options *o = status == HR_OK ? hri_passes_find(&passes, "weights") : NULL;
    if (o) {
        p.bits = (int)o->bits;
        hri_weights_sizes(g, v, &p.out, &p.in);
        p.group = hri_weight_group(p.bits, o->group, p.in);
    }
    if (status == HR_OK && (!o || !is_whole(&p))) {
        status = hri_prose_set(why, HR_E_FORMAT,
                               "%s: the codes of %s have another shape or type than the model",
                               c->path, name);
    }
    hri_passes_deinit(&passes);
    *out = p;
    return status;
}

hr_status hri_checkpoint_check_codes(const hri_checkpoint *c, const hr_graph *g, hr_value v,
                                     hri_prose *why) {
    packed p;
    return find_packed(c, g, v, &p, why);
}

static void *read_all(const hri_checkpoint *c, const hri_tensor *t, hr_type type, hr_status *status,
                      hri_prose *why) {
    const uint64_t count = (uint64_t)hr_shape_count(&t->shape);
    void *to = *status == HR_OK ? hri_calloc((size_t)count + 1, hr_type_bytes(type)) : NULL;
    if (*status == HR_OK) {
        *status = to ? hri_tensors_read(&c->file, t, 0, count, type, to, why)
                     : hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for %s", t->name);
    }
    return to;
}

/* Rows of outputs into w, whichever way that lies. */
static hr_status decode(const hri_weight_codes *of, int in_first, float *w) {
    float *row = hri_calloc((size_t)of->in, sizeof *row);
    for (int64_t o = 0; row && o < of->out; o++) {
        hri_weight_decode(of, o, 0, of->in, row);
        for (int64_t i = 0; i < of->in; i++) {
            w[in_first ? i * of->out + o : o * of->in + i] = row[i];
        }
    }
    hri_free(row);
    return row ? HR_OK : HR_E_NOMEM_HOST;
}

hr_status hri_checkpoint_decode_weight(const hri_checkpoint *c, const hr_graph *g, hr_value v,
                                       float **out, hri_prose *why) {
    packed p;
    hr_status status = find_packed(c, g, v, &p, why);
    if (status != HR_OK) {
        return status;
    }
    void *codes = read_all(c, p.codes, hri_weight_code_type(p.bits), &status, why);
    void *scales = read_all(c, p.scales, hri_weight_scale_type(p.bits), &status, why);
    void *zero = p.bits == 4 ? read_all(c, p.zero, HR_TYPE_U8, &status, why) : NULL;
    float *w = status == HR_OK ? hri_calloc((size_t)(p.out * p.in), sizeof *w) : NULL;
    const hri_weight_codes of = {.out = p.out,
                                 .in = p.in,
                                 .group = p.group,
                                 .bits = p.bits,
                                 .codes = codes,
                                 .scales = scales,
                                 .zero = zero};
    if (status == HR_OK && (!w || decode(&of, hri_lora_in_first(g, v) > 0, w) != HR_OK)) {
        status = hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for %s", g->values[v].name);
    }
    hri_free(codes);
    hri_free(scales);
    hri_free(zero);
    if (status != HR_OK) {
        hri_free(w);
        return status;
    }
    *out = w;
    return HR_OK;
}
