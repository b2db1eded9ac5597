/* A buffer for each value, a loop over the nodes. */
#include "run/interpret.h"

#include "base/alloc.h"

enum { ALIGN = 64 };

struct hri_interp {
    const hr_graph *g;
    hri_threads *threads;
    uint64_t seed;
    hri_interp *base;
    uint32_t first_sample;
    void **data;     /* by value; versions of a persistent value share */
    void **owned;    /* what was allocated, by value */
    char *workspace; /* the largest of all nodes, aligned */
    void *workspace_owned;
};

static char *aligned(void *p) {
    return (char *)(((uintptr_t)p + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
}

/* Persistent values, inputs and constants always have memory; a node's values only when it runs. */
static int is_used(const hr_graph *g, hr_value v) {
    const uint32_t node = g->values[v].node;
    return node == HRI_NO_NODE || g->nodes[node].live;
}

/* The memory of a persistent value that the base has too, or NULL. */
static hr_status shared_with_base(const hri_interp *it, hr_value v, void **out) {
    const hri_value *value = &it->g->values[v];
    const hr_value there =
        it->base && value->origin == v ? hr_graph_find(it->base->g, value->name) : HR_NONE;
    *out = NULL;
    if (there == HR_NONE || it->base->g->values[there].origin != there) {
        return HR_OK;
    }
    const hr_meta *meta = &it->base->g->values[there].meta;
    if (meta->type != value->meta.type || !hr_shape_same(&meta->shape, &value->meta.shape)) {
        return HR_E_SHAPE;
    }
    *out = it->base->data[there];
    return HR_OK;
}

static hr_status allocate_values(hri_interp *it) {
    const hr_graph *g = it->g;
    for (hr_value v = 1; v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        const uint64_t bytes = hr_meta_bytes(&value->meta);
        const hr_status status = shared_with_base(it, v, &it->data[v]);
        if (status != HR_OK) {
            return status;
        }
        if (it->data[v]) {
            continue;
        }
        if (value->origin != HR_NONE && value->origin != v) {
            it->data[v] = it->data[value->origin];
        } else if (is_used(g, v) && bytes) {
            it->owned[v] = hri_malloc(bytes + ALIGN);
            if (!it->owned[v]) {
                return HR_E_NOMEM_HOST;
            }
            it->data[v] = aligned(it->owned[v]);
            if (value->node == HRI_NO_NODE) {
                hri_graph_initial(g, v, it->seed, it->data[v]);
            }
        }
    }
    return HR_OK;
}

static hr_status allocate_workspace(hri_interp *it) {
    const hr_graph *g = it->g;
    const uint32_t threads = hri_threads_count(it->threads);
    uint64_t most = 0;
    for (uint32_t n = 0; n < g->node_count; n++) {
        const uint64_t bytes =
            g->nodes[n].live ? hri_op_workspace(&g->nodes[n].sig, 0, threads) : 0;
        most = bytes > most ? bytes : most;
    }
    if (most) {
        it->workspace_owned = hri_malloc(most + ALIGN);
        if (!it->workspace_owned) {
            return HR_E_NOMEM_HOST;
        }
        it->workspace = aligned(it->workspace_owned);
    }
    return HR_OK;
}

hr_status hri_interp_create(const hr_graph *g, hri_threads *threads, uint64_t seed,
                            hri_interp **out) {
    return hri_interp_create_beside(g, threads, seed, NULL, out);
}

hr_status hri_interp_create_beside(const hr_graph *g, hri_threads *threads, uint64_t seed,
                                   hri_interp *base, hri_interp **out) {
    if (!g->frozen) {
        return HR_E_BUSY;
    }
    hri_interp *it = hri_calloc(1, sizeof *it);
    if (!it) {
        return HR_E_NOMEM_HOST;
    }
    it->g = g;
    it->threads = threads;
    it->seed = seed;
    it->base = base;
    it->data = hri_calloc(g->value_count, sizeof *it->data);
    it->owned = hri_calloc(g->value_count, sizeof *it->owned);
    hr_status status = it->data && it->owned ? allocate_values(it) : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        status = allocate_workspace(it);
    }
    if (status != HR_OK) {
        hri_interp_destroy(it);
        return status;
    }
    *out = it;
    return HR_OK;
}

void hri_interp_destroy(hri_interp *it) {
    if (!it) {
        return;
    }
    for (hr_value v = 0; it->owned && v < it->g->value_count; v++) {
        hri_free(it->owned[v]);
    }
    hri_free(it->workspace_owned);
    hri_free(it->data);
    hri_free(it->owned);
    hri_free(it);
}

void *hri_interp_data(hri_interp *it, hr_value v) {
    return v < it->g->value_count ? it->data[v] : NULL;
}

void hri_interp_sample(hri_interp *it, uint32_t first_sample) {
    it->first_sample = first_sample;
}

hr_status hri_interp_run(hri_interp *it, uint32_t step, uint32_t *node) {
    const hr_graph *g = it->g;
    for (uint32_t n = 0; n < g->node_count; n++) {
        const hri_node_record *record = &g->nodes[n];
        const void *in[HRI_IN_MAX];
        void *out[HRI_OUT_MAX];
        if (!record->live) {
            continue;
        }
        for (uint32_t i = 0; i < record->sig.in_count; i++) {
            in[i] = it->data[record->in[i]];
        }
        for (uint32_t k = 0; k < record->sig.out_count; k++) {
            out[k] = it->data[record->out + k];
        }
        const hri_call c = {.sig = &record->sig,
                            .in = in,
                            .out = out,
                            .workspace = it->workspace,
                            .threads = it->threads,
                            .node = n,
                            .step = step,
                            .first_sample = it->first_sample,
                            .seed = it->seed};
        const hr_status status = hri_op_run(&c);
        if (status != HR_OK) {
            if (node) {
                *node = n;
            }
            return status;
        }
    }
    return HR_OK;
}
