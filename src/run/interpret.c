/* Buffers for the values, a loop over the nodes. */
#include "run/interpret.h"

#include <string.h>

#include "base/alloc.h"

enum { ALIGN = 64 };

typedef struct buffer {
    void *owned;
    char *data; /* aligned */
    uint64_t bytes;
    uint32_t
        held; /* by how many values; more than one: views of one another, which nobody may write over */
} buffer;

struct hri_interp {
    const hr_graph *g;
    hri_interp_options o;
    uint32_t first_sample;
    void **data;      /* by value; versions of a persistent value share */
    uint32_t *holder; /* by value: index of its buffer + 1, 0: none or not to be reused */
    buffer *buffers;
    uint32_t buffer_count;
    buffer workspace; /* the largest of all nodes */
};

static hr_status fill_buffer(buffer *b, uint64_t bytes) {
    b->owned = hri_malloc(bytes + ALIGN);
    if (!b->owned) {
        return HR_E_NOMEM_HOST;
    }
    b->data = (char *)(((uintptr_t)b->owned + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
    b->bytes = bytes;
    return HR_OK;
}

/* A buffer for v: the tightest free one that is not much too large, or a new one. */
static hr_status give_buffer(hri_interp *it, hr_value v, uint64_t bytes) {
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < it->buffer_count; i++) {
        const buffer *b = &it->buffers[i];
        if (!b->held && b->bytes >= bytes && b->bytes - bytes <= bytes / 2 + 4096 &&
            (best == UINT32_MAX || b->bytes < it->buffers[best].bytes)) {
            best = i;
        }
    }
    if (best == UINT32_MAX) {
        const hr_status status = fill_buffer(&it->buffers[it->buffer_count], bytes);
        if (status != HR_OK) {
            return status;
        }
        best = it->buffer_count++;
    }
    it->buffers[best].held = 1;
    it->holder[v] = best + 1;
    it->data[v] = it->buffers[best].data;
    return HR_OK;
}

/* The memory of a persistent value that the base has too, or NULL. */
static hr_status shared_with_base(const hri_interp *it, hr_value v, void **out) {
    const hri_value *value = &it->g->values[v];
    const hri_interp *base = it->o.base;
    const hr_value there =
        base && value->origin == v ? hr_graph_find(base->g, value->name) : HR_NONE;
    *out = NULL;
    if (there == HR_NONE || base->g->values[there].origin != there) {
        return HR_OK;
    }
    const hr_meta *meta = &base->g->values[there].meta;
    if (meta->type != value->meta.type || !hr_shape_same(&meta->shape, &value->meta.shape)) {
        return HR_E_SHAPE;
    }
    *out = base->data[there];
    return HR_OK;
}

/* Inputs, constants and persistent values. */
static hr_status place_sources(hri_interp *it) {
    const hr_graph *g = it->g;
    for (hr_value v = 1; v < g->value_count; v++) {
        const uint64_t bytes = hr_meta_bytes(&g->values[v].meta);
        if (g->values[v].node != HRI_NO_NODE || !bytes) {
            continue;
        }
        hr_status status = shared_with_base(it, v, &it->data[v]);
        if (status == HR_OK && !it->data[v]) {
            status = give_buffer(it, v, bytes);
            if (status == HR_OK) {
                hri_graph_initial(g, v, it->o.seed, it->data[v]);
            }
        }
        if (status != HR_OK) {
            return status;
        }
    }
    return HR_OK;
}

/* last[v]: the last live node that reads or makes v; never for what must stay. */
static void mark_last(const hr_graph *g, uint32_t *last) {
    for (hr_value v = 1; v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        last[v] = value->node == HRI_NO_NODE || value->origin ? HRI_NO_NODE : value->node;
    }
    for (uint32_t n = 0; n < g->node_count; n++) {
        for (uint32_t i = 0; g->nodes[n].live && i < g->nodes[n].sig.in_count; i++) {
            const hr_value v = g->nodes[n].in[i];
            last[v] = last[v] == HRI_NO_NODE ? HRI_NO_NODE : n;
        }
    }
    for (uint32_t i = 0; i < g->result_count; i++) {
        last[g->results[i].value] = HRI_NO_NODE;
    }
}

/* 1 when output k of node n could be laid over an input that dies here, or is a view of one that lives on. */
static int place_over(hri_interp *it, uint32_t n, uint32_t k, const uint32_t *last) {
    const hri_node_record *node = &it->g->nodes[n];
    for (uint32_t i = 0; i < node->sig.in_count; i++) {
        const hr_value v = node->in[i];
        uint32_t uses = 0;
        for (uint32_t q = 0; q < node->sig.in_count; q++) {
            uses += node->in[q] == v;
        }
        if (!it->holder[v] || last[v] == HRI_NO_NODE) {
            continue;
        }
        const int view = node->sig.op->view && k == 0 && i == 0;
        buffer *const b = &it->buffers[it->holder[v] - 1];
        const int alone = last[v] == n && uses == 1 && b->held == 1;
        if (view || (alone && hri_op_may_overwrite(&node->sig, k, i))) {
            it->data[node->out + k] = it->data[v];
            it->holder[node->out + k] = it->holder[v];
            b->held++; /* free_dead lets go of what dies */
            return 1;
        }
    }
    return 0;
}

static void free_dead(hri_interp *it, hr_value v, uint32_t n, const uint32_t *last) {
    if (it->holder[v] && last[v] == n) {
        it->buffers[it->holder[v] - 1].held--;
        it->holder[v] = 0;
    }
}

static hr_status place_node(hri_interp *it, uint32_t n, const uint32_t *last) {
    const hr_graph *g = it->g;
    const hri_node_record *node = &g->nodes[n];
    for (uint32_t k = 0; k < node->sig.out_count; k++) {
        const hr_value v = node->out + k;
        const uint64_t bytes = hr_meta_bytes(&g->values[v].meta);
        if (g->values[v].origin != HR_NONE) {
            it->data[v] = it->data[g->values[v].origin];
        } else if (bytes && !(it->o.reuse && place_over(it, n, k, last))) {
            const hr_status status = give_buffer(it, v, bytes);
            if (status != HR_OK) {
                return status;
            }
        }
    }
    for (uint32_t i = 0; it->o.reuse && i < node->sig.in_count; i++) {
        free_dead(it, node->in[i], n, last);
    }
    for (uint32_t k = 0; it->o.reuse && k < node->sig.out_count; k++) {
        free_dead(it, node->out + k, n, last);
    }
    return HR_OK;
}

static hr_status place_nodes(hri_interp *it) {
    const hr_graph *g = it->g;
    uint32_t *last = hri_calloc(g->value_count, sizeof *last);
    if (!last) {
        return HR_E_NOMEM_HOST;
    }
    mark_last(g, last);
    hr_status status = HR_OK;
    uint64_t most = 0;
    for (uint32_t n = 0; n < g->node_count && status == HR_OK; n++) {
        if (g->nodes[n].live) {
            const uint64_t bytes =
                hri_op_workspace(&g->nodes[n].sig, 0, hri_threads_count(it->o.threads));
            most = bytes > most ? bytes : most;
            status = place_node(it, n, last);
        }
    }
    hri_free(last);
    return status == HR_OK && most ? fill_buffer(&it->workspace, most) : status;
}

hr_status hri_interp_open(const hr_graph *g, const hri_interp_options *options, hri_interp **out) {
    if (!g->frozen) {
        return HR_E_BUSY;
    }
    hri_interp *it = hri_calloc(1, sizeof *it);
    if (!it) {
        return HR_E_NOMEM_HOST;
    }
    it->g = g;
    it->o = *options;
    it->data = hri_calloc(g->value_count, sizeof *it->data);
    it->holder = hri_calloc(g->value_count, sizeof *it->holder);
    it->buffers = hri_calloc(g->value_count, sizeof *it->buffers);
    hr_status status = it->data && it->holder && it->buffers ? place_sources(it) : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        status = place_nodes(it);
    }
    if (status != HR_OK) {
        hri_interp_destroy(it);
        return status;
    }
    *out = it;
    return HR_OK;
}

hr_status hri_interp_create(const hr_graph *g, hri_threads *threads, uint64_t seed,
                            hri_interp **out) {
    const hri_interp_options options = {.threads = threads, .seed = seed};
    return hri_interp_open(g, &options, out);
}

void hri_interp_destroy(hri_interp *it) {
    if (!it) {
        return;
    }
    for (uint32_t i = 0; i < it->buffer_count; i++) {
        hri_free(it->buffers[i].owned);
    }
    hri_free(it->workspace.owned);
    hri_free(it->buffers);
    hri_free(it->holder);
    hri_free(it->data);
    hri_free(it);
}

void *hri_interp_data(hri_interp *it, hr_value v) {
    return v < it->g->value_count ? it->data[v] : NULL;
}

static hr_status find_bytes(hri_interp *it, hr_value v, uint64_t at, uint64_t bytes, char **out) {
    char *data = hri_interp_data(it, v);
    const uint64_t has = data ? hr_meta_bytes(&it->g->values[v].meta) : 0;
    if (!data) {
        return HR_E_NOT_FOUND;
    }
    if (at > has || bytes > has - at) {
        return HR_E_RANGE;
    }
    *out = data + at;
    return HR_OK;
}

hr_status hri_interp_put(void *interp, hr_value v, uint64_t at, const void *from, uint64_t bytes) {
    char *to;
    const hr_status status = find_bytes(interp, v, at, bytes, &to);
    if (status == HR_OK && bytes) {
        memcpy(to, from, bytes);
    }
    return status;
}

hr_status hri_interp_get(void *interp, hr_value v, uint64_t at, void *to, uint64_t bytes) {
    char *from;
    const hr_status status = find_bytes(interp, v, at, bytes, &from);
    if (status == HR_OK && bytes) {
        memcpy(to, from, bytes);
    }
    return status;
}

uint64_t hri_interp_bytes(const hri_interp *it) {
    uint64_t bytes = it->workspace.bytes;
    for (uint32_t i = 0; i < it->buffer_count; i++) {
        bytes += it->buffers[i].bytes;
    }
    return bytes;
}

void hri_interp_sample(hri_interp *it, uint32_t first_sample) {
    it->first_sample = first_sample;
}

static hr_status run_node(hri_interp *it, uint32_t n, uint32_t step) {
    const hri_node_record *record = &it->g->nodes[n];
    const void *in[HRI_IN_MAX];
    void *out[HRI_OUT_MAX];
    for (uint32_t i = 0; i < record->sig.in_count; i++) {
        in[i] = it->data[record->in[i]];
    }
    for (uint32_t k = 0; k < record->sig.out_count; k++) {
        out[k] = it->data[record->out + k];
    }
    if (record->sig.op->view && out[0] == in[0]) {
        return HR_OK;
    }
    const hri_call c = {.sig = &record->sig,
                        .in = in,
                        .out = out,
                        .workspace = it->workspace.data,
                        .threads = it->o.threads,
                        .node = it->g->nodes[n].counter,
                        .step = step,
                        .first_sample = it->first_sample,
                        .seed = it->o.seed};
    return hri_op_run(&c);
}

hr_status hri_interp_run(hri_interp *it, uint32_t step, uint32_t *node) {
    for (uint32_t n = 0; n < it->g->node_count; n++) {
        if (!it->g->nodes[n].live) {
            continue;
        }
        if (it->o.watch) {
            it->o.watch(it->o.watch_user, n, 0);
        }
        const hr_status status = run_node(it, n, step);
        if (status != HR_OK) {
            if (node) {
                *node = n;
            }
            return status;
        }
        if (it->o.watch) {
            it->o.watch(it->o.watch_user, n, 1);
        }
    }
    return HR_OK;
}
