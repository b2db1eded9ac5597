/* See shrink.h.  As in merge.c, the writer asks for the bytes of a value, and they are cut on the way out of the other file. */
#include "weights/shrink.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "passes/common/ema.h"
#include "passes/common/pass.h"

/* ---- reading ---- */

static hr_status take(void *user, hr_value v, uint64_t at, const void *from, uint64_t bytes) {
    (void)v;
    memcpy((unsigned char *)user + at, from, bytes);
    return HR_OK;
}

static const hri_tensor *find(const hri_shrinking *x, const char *name) {
    char full[512];
    const hri_tensor *t = NULL;
    if (x->averages) {
        snprintf(full, sizeof full, "optimizer/%s" HRI_EMA, name);
        t = hri_tensors_find(&x->checkpoint->file, full);
    }
    return t ? t : hri_tensors_find(&x->checkpoint->file, name);
}

hr_status hri_shrink_read(const hri_shrinking *x, hr_value v, void *to, hri_prose *why) {
    const hri_value *value = &x->g->values[v];
    const hri_tensor *t = find(x, value->name);
    const hr_meta meta = hri_file_meta(x->g, v);
    const hri_values values = {.put = take, .user = to};
    if (!t || !hr_shape_same(&t->shape, &meta.shape) || !hri_tensor_can_be(t, (hr_type)meta.type)) {
        return hri_prose_set(why, HR_E_NOT_FOUND, "%s: %s is missing or has another shape",
                             x->checkpoint->path, value->name);
    }
    return hri_tensor_load(&x->checkpoint->file, t, &values, v, &value->meta,
                           hri_graph_tags(x->g, v)->layout, why);
}

/* ---- making ---- */

static hr_status look_at_passes(hri_shrinking *x, hri_prose *why) {
    hri_passes passes = {0};
    const char *path = x->checkpoint->path;
    hr_status status = hri_passes_parse(x->checkpoint->about.passes, &passes, why);
    if (status == HR_OK && hri_passes_find(&passes, "quantize")) {
        status = hri_prose_set(why, HR_E_UNSUPPORTED,
                               "%s is quantized; shrink the run that it was made from", path);
    } else if (status == HR_OK && hri_passes_find(&passes, "lora")) {
        status = hri_prose_set(why, HR_E_UNSUPPORTED,
                               "%s has adapters; merge them first (headroom merge)", path);
    }
    x->averages = status == HR_OK && hri_passes_find(&passes, "ema") != NULL;
    hri_passes_deinit(&passes);
    return status;
}

static hr_status failed(const hr_graph *g, hr_status status, hri_prose *why) {
    return g && g->error.code != HR_OK ? hri_prose_set(why, g->error.code, "%s", g->error.message)
                                       : status;
}

static hr_status build(hri_shrinking *x, hri_prose *why) {
    hr_status status = hr_graph_create(&x->g);
    status = status == HR_OK ? hr_model_build(x->model, x->g, 1, 0) : status;
    return status == HR_OK ? HR_OK : failed(x->g, status, why);
}

/* What is tied in evaluation, and in training as well. */
static hr_status tie(hri_shrinking *x, hri_prose *why) {
    hr_graph *g = NULL;
    hri_channels training = {0};
    hr_status status = hri_channels_init(&x->c, x->g);
    status = status == HR_OK ? hr_graph_create(&g) : status;
    if (status == HR_OK && (status = hr_model_build(x->model, g, 1, 1)) != HR_OK) {
        status = failed(g, status, why);
    }
    status = status == HR_OK ? hri_channels_init(&training, g) : status;
    status = status == HR_OK ? hri_channels_join(&x->c, &training) : status;
    hri_channels_deinit(&training);
    hr_graph_destroy(g);
    return status;
}

hr_status hri_shrinking_init(hri_shrinking *out, const hri_checkpoint *c, hr_model *model,
                             const hri_shrink_options *o, hri_prose *why) {
    hri_shrinking x = {.checkpoint = c, .model = model};
    hr_status status = look_at_passes(&x, why);
    status = status == HR_OK ? build(&x, why) : status;
    status = status == HR_OK ? tie(&x, why) : status;
    if (status == HR_OK) {
        x.gone = hri_calloc((size_t)x.c.count + 1, 1);
        status = x.gone ? hri_shrink_choose(&x, o, why) : HR_E_NOMEM_HOST;
    }
    status = status == HR_OK ? hri_cuts_init(&x.cuts, &x.c, x.gone) : status;
    if (status != HR_OK) {
        hri_shrinking_deinit(&x);
        return status;
    }
    *out = x;
    return HR_OK;
}

void hri_shrinking_deinit(hri_shrinking *x) {
    hri_cuts_deinit(&x->cuts);
    hri_channels_deinit(&x->c);
    hri_free(x->gone);
    hr_graph_destroy(x->g);
    *x = (hri_shrinking){.checkpoint = NULL};
}

hr_status hri_shrink_build(void *shrinking, hr_graph *g, int64_t batch, int training) {
    const hri_shrinking *x = shrinking;
    hr_graph *whole;
    hr_status status = hr_graph_create(&whole);
    if (status != HR_OK) {
        return status;
    }
    whole->keep_scores = g->keep_scores;
    whole->pixels = g->pixels;
    status = hr_model_build(x->model, whole, batch, training);
    if (status == HR_OK) {
        status = hri_shrink_graph(&x->cuts, whole, g);
    } else if (whole->error.code != HR_OK) {
        hri_graph_fail(g, whole->error.code, "%s", whole->error.message);
    }
    hr_graph_destroy(whole);
    return status;
}

/* ---- the file ---- */

typedef struct cutting {
    const hri_shrinking *x;
    const hr_graph *to; /* of the smaller model */
    hr_value at;        /* of it: whose bytes these are */
    unsigned char *bytes;
    hri_prose *why;
} cutting;

/* The places that stay of `from`, behind one another.  Seen as (outer, before, last) elements of `width` bytes. */
static void gather(const hri_cut *cut, const hr_shape *shape, uint64_t width,
                   const unsigned char *from, unsigned char *to) {
    const uint64_t last = cut->last_count, before = cut->before_count ? cut->before_count : 1;
    uint64_t outer = 1;
    for (int d = 0; d < shape->rank - (cut->before_count ? 2 : 1); d++) {
        outer *= (uint64_t)shape->dim[d];
    }
    for (uint64_t row = 0; row < outer * before; row++) {
        if (cut->before_count && cut->before[row % before]) {
            continue;
        }
        for (uint64_t i = 0; i < last; i++) {
            if (!cut->last[i]) {
                memcpy(to, from + (row * last + i) * width, width);
                to += width;
            }
        }
    }
}

static hr_status open_value(cutting *k, hr_value v) {
    const char *name = k->to->values[v].name;
    const hr_value of = hr_graph_find(k->x->g, name);
    const hri_cut *cut = hri_cuts_find(&k->x->cuts, name);
    if (of == HR_NONE) {
        return hri_prose_set(k->why, HR_E_INTERNAL, "%s is not part of the model", name);
    }
    const hr_meta *meta = &k->x->g->values[of].meta;
    unsigned char *whole = hri_malloc((size_t)hr_meta_bytes(meta) + 1);
    hr_status status = whole ? hri_shrink_read(k->x, of, whole, k->why) : HR_E_NOMEM_HOST;
    if (status == HR_OK && cut) {
        unsigned char *part = hri_malloc((size_t)hr_meta_bytes(&k->to->values[v].meta) + 1);
        if (part) {
            gather(cut, &meta->shape, hr_type_bytes((hr_type)meta->type), whole, part);
        }
        hri_free(whole);
        whole = part;
        status = whole ? HR_OK : HR_E_NOMEM_HOST;
    }
    if (status != HR_OK) {
        hri_free(whole);
        return status;
    }
    hri_free(k->bytes);
    k->bytes = whole;
    k->at = v;
    return HR_OK;
}

static hr_status get(void *user, hr_value v, uint64_t at, void *to, uint64_t bytes) {
    cutting *k = user;
    const hr_status status = k->at == v ? HR_OK : open_value(k, v);
    if (status == HR_OK) {
        memcpy(to, k->bytes + at, bytes);
    }
    return status;
}

hr_status hri_shrinking_save(const hri_shrinking *x, const char *path, const hri_about *about,
                             hri_prose *why) {
    hr_graph *g = NULL;
    hr_status status = hr_graph_create(&g);
    status = status == HR_OK ? hri_shrink_build((void *)(uintptr_t)x, g, 1, 0) : status;
    if (status != HR_OK) {
        status = failed(g, status, why);
    } else {
        cutting k = {.x = x, .to = g, .why = why};
        const hri_values from = {.get = get, .user = &k};
        const hri_checkpoint_write w = {.g = g,
                                        .from = &from,
                                        .about = about,
                                        .updates = hri_checkpoint_updates(x->checkpoint)};
        status = hri_checkpoint_save(path, &w, why);
        hri_free(k.bytes);
    }
    hr_graph_destroy(g);
    return status;
}
