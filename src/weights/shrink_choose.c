/* Which channels are removed; see shrink.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "weights/shrink.h"

typedef struct unit {
    uint32_t unit, group;
    double score;
    uint8_t unread;
} unit;

typedef struct choosing {
    hri_shrinking *x;
    const hri_shrink_options *o;
    double *score;   /* by unit: sums over the layers that make it, then means */
    uint32_t *made;  /* by unit: how many of a layer's outputs it is */
    uint32_t *group; /* by unit: another one of its group, or itself */
    uint8_t *read;   /* by unit */
    uint32_t *stay;  /* by group: units of it that are fixed */
    unit *units;     /* of all groups that are not, in their order */
    size_t count;
    hri_prose *why;
} choosing;

/* ---- scores ---- */

static uint32_t group_of(const choosing *k, uint32_t u) {
    while (k->group[u] != u) {
        u = k->group[u] = k->group[k->group[u]];
    }
    return u;
}

static void join(choosing *k, uint32_t a, uint32_t b) {
    a = group_of(k, a);
    b = group_of(k, b);
    k->group[a > b ? a : b] = a < b ? a : b;
}

static void add_scores(choosing *k, const hri_channel_layer *l, const double *norm) {
    double mean = 0;
    for (int64_t o = 0; o < l->outs; o++) {
        mean += norm[o] / (double)l->outs;
    }
    for (int64_t o = 0; o < l->outs; o++) {
        const uint32_t u = hri_channels_unit(&k->x->c, l->out_first + (uint32_t)o);
        k->score[u] += mean > 0 ? norm[o] / mean : 0.0;
        k->made[u]++;
        join(k, u, hri_channels_unit(&k->x->c, l->out_first));
    }
}

static hr_status score_layer(choosing *k, const hri_channel_layer *l) {
    const hr_meta *meta = &k->x->g->values[l->weight].meta;
    const int64_t count = hr_shape_count(&meta->shape);
    if (meta->type != HR_TYPE_F32) {
        return hri_prose_set(k->why, HR_E_UNSUPPORTED, "%s is not f32",
                             k->x->g->values[l->weight].name);
    }
    float *weight = hri_calloc((size_t)count + 1, sizeof *weight);
    double *norm = hri_calloc((size_t)l->outs + 1, sizeof *norm);
    hr_status status =
        weight && norm ? hri_shrink_read(k->x, l->weight, weight, k->why) : HR_E_NOMEM_HOST;
    for (int64_t q = 0; q < count && status == HR_OK; q++) {
        const double w = fabs((double)weight[q]);
        norm[l->turned ? q / l->ins : q % l->outs] += k->o->l1 ? w : w * w;
    }
    for (int64_t o = 0; o < l->outs && status == HR_OK && !k->o->l1; o++) {
        norm[o] = sqrt(norm[o]);
    }
    if (status == HR_OK) {
        add_scores(k, l, norm);
    }
    hri_free(weight);
    hri_free(norm);
    return status;
}

/* ---- choosing ---- */

/* By group, then from what goes first to what goes last. */
static int compare(const void *a, const void *b) {
    const unit *p = a, *q = b;
    if (p->group != q->group) {
        return p->group < q->group ? -1 : 1;
    }
    if (p->unread != q->unread) {
        return p->unread ? -1 : 1;
    }
    if (p->score != q->score) {
        return p->score < q->score ? -1 : 1;
    }
    return p->unit > q->unit ? -1 : p->unit < q->unit;
}

static void list_units(choosing *k) {
    const hri_channels *c = &k->x->c;
    for (uint32_t u = 0; u < c->count; u++) {
        if (c->up[u] == u && k->made[u] && c->fixed[u]) {
            k->stay[group_of(k, u)]++;
        } else if (c->up[u] == u && k->made[u]) {
            k->units[k->count++] = (unit){.unit = u,
                                          .group = group_of(k, u),
                                          .score = k->score[u] / k->made[u],
                                          .unread = !k->read[u]};
        }
    }
    qsort(k->units, k->count, sizeof *k->units, compare);
}

/* How many of n units of a group go, the first ones; those that must stay are counted with what is kept. */
static size_t goes(const choosing *k, const unit *of, size_t n) {
    const hri_shrink_options *o = k->o;
    const size_t stay = k->stay[of->group];
    const size_t multiple = o->multiple > 0 ? (size_t)o->multiple : 1;
    size_t keep = 0;
    if (o->by == HRI_SHRINK_KEEP) {
        keep = (size_t)ceil(o->keep * (double)(n + stay) - 1e-9);
    } else {
        keep = stay;
        for (size_t i = 0; i < n; i++) {
            keep += !of[i].unread && (o->by == HRI_SHRINK_ZEROS || of[i].score >= o->threshold);
        }
    }
    keep = (keep + multiple - 1) / multiple * multiple;
    keep = keep < multiple ? multiple : keep;
    keep = keep > stay ? keep - stay : 0;
    return keep < n ? n - keep : 0;
}

static void choose(choosing *k) {
    hri_shrink_report *r = &k->x->report;
    for (size_t begin = 0, end; begin < k->count; begin = end) {
        for (end = begin; end < k->count && k->units[end].group == k->units[begin].group; end++) {
        }
        const size_t gone = goes(k, &k->units[begin], end - begin);
        for (size_t i = begin; i < begin + gone; i++) {
            k->x->gone[k->units[i].unit] = 1;
            r->unread += k->units[i].unread;
        }
        r->groups++;
        r->units += end - begin;
        r->units_gone += gone;
    }
}

/* Groups in which everything must stay. */
static void count_fixed(choosing *k) {
    for (size_t i = 0; i < k->count; i++) {
        k->stay[k->units[i].group] = 0;
    }
    for (uint32_t u = 0; u < k->x->c.count; u++) {
        k->x->report.fixed += k->stay[u] > 0;
    }
}

hr_status hri_shrink_choose(hri_shrinking *x, const hri_shrink_options *o, hri_prose *why) {
    const size_t n = (size_t)x->c.count + 1;
    choosing k = {.x = x, .o = o, .why = why};
    k.score = hri_calloc(n, sizeof *k.score);
    k.made = hri_calloc(n, sizeof *k.made);
    k.group = hri_calloc(n, sizeof *k.group);
    k.stay = hri_calloc(n, sizeof *k.stay);
    k.read = hri_calloc(n, 1);
    k.units = hri_calloc(n, sizeof *k.units);
    hr_status status =
        k.score && k.made && k.group && k.stay && k.read && k.units ? HR_OK : HR_E_NOMEM_HOST;
    for (uint32_t i = 0; i < n && status == HR_OK; i++) {
        k.group[i] = i;
    }
    status = status == HR_OK ? hri_shrink_find_read(x, k.read, why) : status;
    for (uint32_t i = 0; i < x->c.layer_count && status == HR_OK; i++) {
        status = score_layer(&k, &x->c.layers[i]);
    }
    if (status == HR_OK) {
        list_units(&k);
        choose(&k);
        count_fixed(&k);
    }
    hri_free(k.score);
    hri_free(k.made);
    hri_free(k.group);
    hri_free(k.stay);
    hri_free(k.read);
    hri_free(k.units);
    return status;
}
