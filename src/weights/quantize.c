/* See quantize.h.
 *
 * As in merge.c, the writer asks for the bytes of a value, and they are made on the way out of the other file.  One layer is
 * in memory at a time.  Folding is done in double and rounded to f32 once:
 *
 *   k = gamma / sqrt(var + eps)     w' = w k     b' = beta + (b - mean) k
 *
 * Weights: scale = largest |w'| of an output / 127, codes -127 .. 127 to the nearest; of 8-bit floats / 448, codes of float8.h. */
#include "weights/quantize.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "ops/common/float8.h"
#include "passes/common/pass.h"

typedef struct making {
    const hri_checkpoint *c;
    const hri_quantizing *q;
    const hr_graph *to; /* of the quantized model */
    const hri_range *ranges;
    int f8;
    hri_prose *why;
    size_t site;   /* whose numbers these are; site_count: nobody's */
    float *weight; /* as in memory */
    int8_t *codes; /* the same */
    float *scale, *bias;
    hr_value turned; /* of q->g: another convolution, as it is in memory */
    unsigned char *whole;
} making;

static hr_status missing(const making *m, const char *name) {
    return hri_prose_set(m->why, HR_E_NOT_FOUND, "%s: %s is missing or has another shape",
                         m->c->path, name);
}

/* Value v of the model before, all of it. */
typedef struct taking {
    unsigned char *to;
} taking;

static hr_status take(void *user, hr_value v, uint64_t at, const void *from, uint64_t bytes) {
    const taking *t = user;
    (void)v;
    memcpy(t->to + at, from, bytes);
    return HR_OK;
}

static hr_status read_value(const making *m, hr_value v, void *to) {
    const hri_value *value = &m->q->g->values[v];
    const hri_tensor *t = hri_tensors_find(&m->c->file, value->name);
    const hr_meta meta = hri_file_meta(m->q->g, v);
    taking into = {to};
    const hri_values values = {.put = take, .user = &into};
    if (!t || !hr_shape_same(&t->shape, &meta.shape) || !hri_tensor_can_be(t, (hr_type)meta.type)) {
        return missing(m, value->name);
    }
    return hri_tensor_load(&m->c->file, t, &values, v, &value->meta,
                           hri_graph_tags(m->q->g, v)->layout, m->why);
}

/* ---- one layer ---- */

static void drop(making *m) {
    hri_free(m->weight);
    hri_free(m->codes);
    hri_free(m->scale);
    hri_free(m->bias);
    m->weight = m->scale = m->bias = NULL;
    m->codes = NULL;
    m->site = m->q->site_count;
}

/* Element i of the weights belongs to this output. */
static int64_t column_of(const hri_site *s, int64_t i) {
    return s->turned ? i / s->depth : i % s->columns;
}

static hr_status fold(making *m, const hri_site *s) {
    const hri_node_record *n = &m->q->g->nodes[s->norm];
    float *norm = hri_calloc((size_t)s->columns, 4 * sizeof *norm);
    hr_status status = norm ? HR_OK : HR_E_NOMEM_HOST;
    for (uint32_t i = 0; i < 4 && status == HR_OK; i++) { /* gamma, beta, mean, var */
        status = read_value(m, n->in[1 + i], norm + (int64_t)i * s->columns);
    }
    const float *gamma = norm, *beta = norm + s->columns, *mean = beta + s->columns,
                *var = mean + s->columns;
    for (int64_t i = 0; i < s->depth * s->columns && status == HR_OK; i++) {
        const int64_t o = column_of(s, i);
        m->weight[i] =
            (float)((double)m->weight[i] * (double)gamma[o] / sqrt((double)var[o] + s->eps));
    }
    for (int64_t o = 0; o < s->columns && status == HR_OK; o++) {
        const double k = (double)gamma[o] / sqrt((double)var[o] + s->eps);
        m->bias[o] = (float)((double)beta[o] + ((double)m->bias[o] - (double)mean[o]) * k);
    }
    hri_free(norm);
    return status;
}

static void encode(making *m, const hri_site *s) {
    const int64_t count = s->depth * s->columns;
    for (int64_t i = 0; i < count; i++) {
        const int64_t o = column_of(s, i);
        m->scale[o] = fmaxf(m->scale[o], fabsf(m->weight[i]));
    }
    for (int64_t o = 0; o < s->columns; o++) {
        const float scale = m->scale[o] / (m->f8 ? HRI_F8_MAX : 127.0f);
        m->scale[o] = scale >= 0x1p-126f && isfinite(scale) ? scale : 1.0f;
    }
    for (int64_t i = 0; i < count; i++) {
        const float real = m->weight[i] / m->scale[column_of(s, i)], code = rintf(real);
        if (m->f8) {
            m->codes[i] = (int8_t)hri_to_f8(real);
            continue;
        }
        m->codes[i] = (int8_t)(code > 127.0f ? 127.0f : code >= -127.0f ? code : -127.0f);
    }
}

static hr_status open_site(making *m, size_t number) {
    const hri_site *s = &m->q->sites[number];
    if (m->site == number) {
        return HR_OK;
    }
    drop(m);
    const size_t count = (size_t)(s->depth * s->columns), columns = (size_t)s->columns;
    m->weight = hri_calloc(count + 1, sizeof *m->weight);
    m->codes = hri_calloc(count + 1, sizeof *m->codes);
    m->scale = hri_calloc(columns + 1, sizeof *m->scale);
    m->bias = hri_calloc(columns + 1, sizeof *m->bias);
    if (!m->weight || !m->codes || !m->scale || !m->bias) {
        return hri_prose_set(m->why, HR_E_NOMEM_HOST, "out of memory for %s", s->weight_name);
    }
    hr_status status = read_value(m, s->weight, m->weight);
    status = status == HR_OK && s->bias != HR_NONE ? read_value(m, s->bias, m->bias) : status;
    status = status == HR_OK && s->norm != HRI_NO_NODE ? fold(m, s) : status;
    if (status == HR_OK) {
        encode(m, s);
        m->site = number;
    }
    return status;
}

/* ---- values of the quantized model ---- */

/* Number, or bytes, of a site under this name; NULL: it is no site's. */
static hr_status find_site(making *m, const char *name, hr_type type, const void **out) {
    for (size_t i = 0; i < m->q->site_count; i++) {
        const hri_site *s = &m->q->sites[i];
        const int weight = !strcmp(name, s->weight_name), scale = !strcmp(name, s->scale_name);
        if (weight || scale || !strcmp(name, s->bias_name)) {
            const hr_status status = open_site(m, i);
            *out = !weight               ? scale ? (const void *)m->scale : (const void *)m->bias
                   : type != HR_TYPE_F32 ? (const void *)m->codes
                                         : (const void *)m->weight;
            return status;
        }
    }
    return HR_OK;
}

static const void *find_range(const making *m, const char *name) {
    for (hr_value v = 1; m->ranges && v < m->q->g->value_count; v++) {
        const char *own = m->q->range[v] == v ? m->q->name[v] : NULL;
        const size_t n = own ? strlen(own) : 0;
        if (own && !strncmp(own, name, n) && !strcmp(name + n, HRI_RANGE_SCALE)) {
            return &m->ranges[v].scale;
        }
        if (own && !strncmp(own, name, n) && !strcmp(name + n, HRI_RANGE_ZERO)) {
            return &m->ranges[v].zero;
        }
    }
    return NULL;
}

/* A value that is as it was. */
static hr_status find_kept(making *m, const char *name, const void **out) {
    const hr_value v = hr_graph_find(m->q->g, name);
    if (v == HR_NONE) {
        return missing(m, name);
    }
    if (m->turned != v) {
        hri_free(m->whole);
        m->turned = HR_NONE;
        m->whole = hri_malloc((size_t)hr_meta_bytes(&m->q->g->values[v].meta) + 1);
        if (!m->whole) {
            return hri_prose_set(m->why, HR_E_NOMEM_HOST, "out of memory for %s", name);
        }
        const hr_status status = read_value(m, v, m->whole);
        if (status != HR_OK) {
            return status;
        }
        m->turned = v;
    }
    *out = m->whole;
    return HR_OK;
}

/* An hr_value_get. */
static hr_status get(void *user, hr_value v, uint64_t at, void *to, uint64_t bytes) {
    making *m = user;
    const hri_value *value = &m->to->values[v];
    const void *from = find_range(m, value->name);
    hr_status status = from ? HR_OK : find_site(m, value->name, (hr_type)value->meta.type, &from);
    if (status == HR_OK && !from) {
        status = find_kept(m, value->name, &from);
    }
    if (status == HR_OK) {
        memcpy(to, (const unsigned char *)from + at, bytes);
    }
    return status;
}

/* ---- the file ---- */

static hr_status build(const hri_checkpoint *c, hr_model *model, const char *text, hr_graph **out,
                       hri_prose *why) {
    hri_passes passes = {0};
    hr_graph *g = NULL;
    hr_status status = hri_passes_parse(text, &passes, why);
    if (status == HR_OK) {
        status = hr_graph_create(&g);
        status = status == HR_OK ? hr_model_build(model, g, 1, 0) : status;
        status = status == HR_OK ? hri_passes_apply(&passes, 0, &g) : status;
        if (status != HR_OK) {
            hri_prose_set(why, status, "%s: %s", c->path,
                          g && g->error.code != HR_OK ? g->error.message : hr_status_text(status));
        }
    }
    hri_passes_deinit(&passes);
    if (status != HR_OK) {
        hr_graph_destroy(g);
        return status;
    }
    *out = g;
    return HR_OK;
}

/* "lora:...;quantize"; fake quantization and averages of parameters were for training. */
static hr_status join(const hri_checkpoint *c, const char *more, hri_text *out, hri_prose *why) {
    hri_text rest = {0};
    hr_status status = hri_passes_add_others(c->about.passes, "qat", &rest, why);
    status = status == HR_OK ? hri_passes_add_others(hri_text_get(&rest), "ema", out, why) : status;
    hri_text_deinit(&rest);
    hri_text_add(out, "%s%s", out->used && *more ? ";" : "", more);
    return status == HR_OK ? hri_text_status(out) : status;
}

hr_status hri_quantize_graph(const hri_checkpoint *c, const char *more, hr_graph **out,
                             hri_prose *why) {
    hr_model *model = NULL;
    hri_text text = {0};
    hr_status status = join(c, more, &text, why);
    if (status == HR_OK) {
        status = hri_checkpoint_model(c, &model, why);
    }
    if (status == HR_OK) {
        status = build(c, model, hri_text_get(&text), out, why);
    }
    hr_model_close(model);
    hri_text_deinit(&text);
    return status;
}

static const char *pass_of(hri_quantize_to to) {
    return to == HRI_QUANTIZE_FOLD ? "quantize:to=fold"
           : to == HRI_QUANTIZE_F8 ? "quantize:to=f8"
                                   : "quantize";
}

static hr_status write(making *m, hri_quantize_to to, const char *path, hri_quantize_report *r) {
    hri_text text = {0};
    hr_status status = join(m->c, pass_of(to), &text, m->why);
    if (status == HR_OK) {
        hri_about about = m->c->about;
        about.passes = hri_text_get(&text);
        about.precision = "f32";
        const hri_values from = {.get = get, .user = m};
        const hri_checkpoint_write w = {.g = m->to, .from = &from, .about = &about};
        status = hri_checkpoint_save(path, &w, m->why);
        r->bytes = hri_checkpoint_bytes(m->to, HRI_CHECKPOINT_WEIGHTS);
        r->bytes_before = hri_checkpoint_bytes(m->q->g, HRI_CHECKPOINT_WEIGHTS);
        r->layers = m->q->site_count;
        r->real_layers = m->q->left_out;
    }
    hri_text_deinit(&text);
    return status;
}

hr_status hri_checkpoint_quantize(const hri_checkpoint *c, const hri_quantizing *q,
                                  hri_quantize_to to, const hri_range *ranges, const char *path,
                                  hri_quantize_report *out, hri_prose *why) {
    hr_graph *g = NULL;
    hri_quantize_report report = {0};
    making m = {.c = c,
                .q = q,
                .ranges = ranges,
                .f8 = to == HRI_QUANTIZE_F8,
                .why = why,
                .site = q->site_count};
    hr_status status = hri_quantize_graph(c, pass_of(to), &g, why);
    if (status == HR_OK) {
        m.to = g;
        status = write(&m, to, path, &report);
    }
    if (status == HR_OK) {
        *out = report;
    }
    drop(&m);
    hri_free(m.whole);
    hr_graph_destroy(g);
    return status;
}
