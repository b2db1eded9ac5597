/* Small tensors of a round travel together; see step_int.h.
 *
 * A message takes a while however short it is, and most tensors of a network are short: biases, and what belongs to norms.  So
 * tensors of up to SMALL bytes are put one behind the other, up to BUCKET bytes, and are exchanged or gathered as one.  Bytes are
 * moved and nothing else, so no bit depends on it.
 *
 *   not cut (graph/slices.h):  flat, one behind the other; every rank takes all of it
 *   cut:                       (ranks, slice) each, side by side: (ranks, all slices), whose slices are rows
 *
 * Slices of one GPU send no messages: what they give one another is copied in one launch (run/group.h), each tensor for itself.
 *
 * What counts is what travels, with the zeros behind the end: of very many ranks most have none of a short tensor, which then goes
 * alone. */
#include "step/step_int.h"

#include <stdio.h>
#include <headroom/ops.h>

#include "graph/dims.h"
#include "graph/slices.h"

enum { SMALL = 256 << 10, BUCKET = 1 << 20, MOST = 128 };

static int64_t count_of(const hr_graph *g, hr_value v) {
    return hr_shape_count(&g->values[v].meta.shape);
}

static hr_value reshape(hr_graph *g, hr_value v, hr_shape shape) {
    const hri_attr_dims to = {hri_dims_of(&shape)};
    return hr_shape_same(&g->values[v].meta.shape, &shape) ? v : HRI_NODE(g, "reshape", &to, v);
}

/* Columns first .. first + count of a matrix. */
static hr_value columns(hr_graph *g, hr_value v, int64_t first, int64_t count) {
    char text[96];
    snprintf(text, sizeof text, "begin=0x%lld,size=%lldx%lld", (long long)first,
             (long long)g->values[v].meta.shape.dim[0], (long long)count);
    return hr_graph_node(g, "slice", &v, 1, text);
}

/* ---- exchanges ---- */

static hr_value exchange(hri_step_maker *m, hr_value x, int whole) {
    char text[96];
    snprintf(text, sizeof text, "ranks=%u,rows=%u,whole=%s", m->shard->ranks, m->shard->rows,
             whole ? "true" : "false");
    return hr_graph_node(m->g, "exchange_parts", &x, 1, text);
}

static int64_t slice_of(const hri_step_maker *m, hr_value x, int whole) {
    const int64_t count = count_of(m->g, x);
    return whole ? count : hri_slice_count(count, m->shard->ranks);
}

/* Of one kind: all cut or none of them, all of one type. */
typedef struct bucket {
    hri_step_moved *of[MOST];
    size_t count;
    uint64_t bytes;
    int cut;
    hr_type type;
} bucket;

/* (slice), or (ranks, slice) with zeros behind the end. */
static hr_value spread_out(hri_step_maker *m, hr_value x, int cut) {
    const int64_t count = count_of(m->g, x), ranks = m->shard->ranks,
                  slice = hri_slice_count(count, ranks);
    hr_value flat = reshape(m->g, x, hr_shape_1(count));
    if (!cut) {
        return flat;
    }
    if (ranks * slice > count) {
        char text[48];
        snprintf(text, sizeof text, "after=%lld", (long long)(ranks * slice - count));
        flat = hr_graph_node(m->g, "pad", &flat, 1, text);
    }
    return reshape(m->g, flat, hr_shape_2(ranks, slice));
}

static void flush(hri_step_maker *m, bucket *b) {
    hr_value values[MOST] = {HR_NONE};
    for (size_t i = 0; i < b->count && m->g->error.code == HR_OK && b->count > 1; i++) {
        values[i] = spread_out(m, b->of[i]->value, b->cut);
    }
    if (b->count == 1) {
        b->of[0]->rows = exchange(m, b->of[0]->value, !b->cut);
    } else if (b->count && m->g->error.code == HR_OK) {
        const hr_value packed = hr_concat(m->g, values, b->count, b->cut ? 1 : 0);
        const hr_value rows = packed == HR_NONE ? HR_NONE : exchange(m, packed, !b->cut);
        int64_t at = 0;
        for (size_t i = 0; i < b->count && m->g->error.code == HR_OK; i++) {
            const int64_t slice = slice_of(m, b->of[i]->value, !b->cut);
            b->of[i]->rows = columns(m->g, rows, at, slice);
            at += slice;
        }
    }
    b->count = 0;
    b->bytes = 0;
}

void hri_step_exchange(hri_step_maker *m, hri_step_moved *list, size_t count, int whole) {
    bucket buckets[2] = {{.cut = 0}, {.cut = 1}};
    for (size_t i = 0; i < count && m->g->error.code == HR_OK; i++) {
        const hr_meta *meta = &m->g->values[list[i].value].meta;
        const hr_type type = (hr_type)meta->type;
        const int64_t slice = slice_of(m, list[i].value, whole);
        const int cut = slice < hr_shape_count(&meta->shape);
        const uint64_t bytes =
            (uint64_t)(slice * (cut ? m->shard->ranks : 1)) * hr_type_bytes(type);
        bucket *b = &buckets[cut];
        if (bytes > SMALL || bytes == 0 || m->shard->near) {
            list[i].rows = exchange(m, list[i].value, whole);
            continue;
        }
        if (b->count == MOST || (b->count && (b->type != type || b->bytes + bytes > BUCKET))) {
            flush(m, b);
        }
        b->type = type;
        b->bytes += bytes;
        b->of[b->count++] = &list[i];
    }
    flush(m, &buckets[0]);
    flush(m, &buckets[1]);
}

/* ---- gathers ---- */

static void gather_alone(hri_step_maker *m, hri_step_gathered *x) {
    char text[32];
    if (x->into == HR_NONE) {
        x->whole = hri_step_gather(m->g, x->slice, &x->shape, m->shard->ranks);
        return;
    }
    const hr_value in[] = {x->into, x->slice};
    snprintf(text, sizeof text, "ranks=%u", m->shard->ranks);
    x->whole = hr_graph_node(m->g, "gather_into", in, 2, text);
}

/* From (ranks, slice), the first elements of it, in the shape of the whole. */
static void take_whole(hri_step_maker *m, hri_step_gathered *x, hr_value rows) {
    const int64_t count = hr_shape_count(&x->shape), all = count_of(m->g, rows);
    char text[48];
    hr_value whole = reshape(m->g, rows, hr_shape_1(all));
    if (all > count) {
        snprintf(text, sizeof text, "size=%lld", (long long)count);
        whole = hr_graph_node(m->g, "slice", &whole, 1, text);
    }
    x->whole = whole == HR_NONE ? HR_NONE : reshape(m->g, whole, x->shape);
    if (x->into != HR_NONE && x->whole != HR_NONE) {
        const hr_value in[] = {x->into, x->whole};
        x->whole = hr_graph_node(m->g, "own_slice", in, 2, "ranks=1");
    }
}

static void gather_together(hri_step_maker *m, hri_step_gathered *const *of, size_t count) {
    const int64_t ranks = m->shard->ranks;
    hr_value values[MOST];
    int64_t at = 0;
    if (count == 1) {
        gather_alone(m, of[0]);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const int64_t slice = count_of(m->g, of[i]->slice);
        values[i] = reshape(m->g, of[i]->slice, hr_shape_1(slice));
        at += slice;
    }
    const hr_shape matrix = hr_shape_2(ranks, at);
    const hr_value packed = count ? hr_concat(m->g, values, count, 0) : HR_NONE;
    const hr_value rows =
        packed == HR_NONE ? HR_NONE : hri_step_gather(m->g, packed, &matrix, m->shard->ranks);
    at = 0;
    for (size_t i = 0; i < count && m->g->error.code == HR_OK; i++) {
        const int64_t slice = count_of(m->g, of[i]->slice);
        take_whole(m, of[i], columns(m->g, rows, at, slice));
        at += slice;
    }
}

void hri_step_gather_all(hri_step_maker *m, hri_step_gathered *list, size_t count) {
    hri_step_gathered *of[MOST];
    size_t n = 0;
    uint64_t held = 0;
    for (size_t i = 0; i < count && m->g->error.code == HR_OK; i++) {
        const hr_meta *slice = &m->g->values[list[i].slice].meta;
        const uint64_t bytes = m->shard->ranks * hr_meta_bytes(slice);
        if (bytes > SMALL || m->shard->near) {
            gather_alone(m, &list[i]);
            continue;
        }
        if (n == MOST ||
            (n && (held + bytes > BUCKET || m->g->values[of[0]->slice].meta.type != slice->type))) {
            gather_together(m, of, n);
            n = 0;
            held = 0;
        }
        held += bytes;
        of[n++] = &list[i];
    }
    if (n && m->g->error.code == HR_OK) {
        gather_together(m, of, n);
    }
}
