/* Pinned memory, events and the copies of persistent values; see lane.h. */
#include "run/lane.h"

#include <string.h>

#include "base/alloc.h"

static uint64_t room(uint64_t bytes) {
    return (bytes + HRI_LANE_ALIGN - 1) / HRI_LANE_ALIGN * HRI_LANE_ALIGN;
}

/* Is every reader a rounding to bf16?  An input that nobody reads does not travel. */
static int is_rounded(const hr_graph *g, hr_value v) {
    uint32_t readers = 0;
    for (uint32_t n = 0; n < g->node_count; n++) {
        const hri_node_record *node = &g->nodes[n];
        for (uint32_t i = 0; node->live && i < node->sig.in_count; i++) {
            if (node->in[i] != v) {
                continue;
            }
            if (strcmp(node->sig.op->name, "cast") || node->sig.out[0].type != HR_TYPE_BF16) {
                return 0;
            }
            readers++;
        }
    }
    for (uint32_t i = 0; i < g->result_count; i++) {
        readers = g->results[i].value == v ? 0 : readers;
    }
    return readers > 0;
}

int hri_lane_widens(const hr_graph *g, hr_value v, hri_lane_widen *out) {
    const hri_value *value = &g->values[v];
    hri_prose ignored = {{0}};
    const hr_op *cast = hri_op_find("cast");
    if (value->kind != HR_VALUE_INPUT || value->carried || value->meta.type != HR_TYPE_F32 ||
        hr_meta_bytes(&value->meta) <= HRI_LANE_SMALL || !cast || !is_rounded(g, v)) {
        return 0;
    }
    if (out) {
        *out = (hri_lane_widen){.in = {HR_TYPE_BF16, value->meta.shape}, .out = value->meta};
        out->sig = (hri_sig){cast, out->attr.bytes, 1, 1, &out->in, &out->out};
        return hri_attr_parse(cast, "to=f32", &out->attr, &ignored) == HR_OK &&
               hri_attr_parse(cast, "to=bf16", &out->round_attr, &ignored) == HR_OK;
    }
    return 1;
}

/* By the host's op, which is there for every level of processor. */
hr_status hri_lane_round(const hri_lane_widen *w, const void *from, uint64_t count, void *to) {
    const hr_shape shape = {.rank = 1, .dim = {(int64_t)count}};
    const hr_meta wide = {HR_TYPE_F32, shape}, rounded = {HR_TYPE_BF16, shape};
    const hri_sig sig = {w->sig.op, w->round_attr.bytes, 1, 1, &wide, &rounded};
    const hri_call call = {.sig = &sig, .in = &from, .out = &to};
    return hri_op_run(&call);
}

void hri_lane_need(const hr_graph *g, hri_lane_sizes *sizes) {
    hri_lane_sizes need = {0};
    for (hr_value v = 1; v < g->value_count; v++) {
        const uint64_t bytes = hr_meta_bytes(&g->values[v].meta);
        if (g->values[v].kind == HR_VALUE_INPUT && !g->values[v].carried) {
            *(bytes <= HRI_LANE_SMALL ? &need.small : &need.large) += room(bytes);
            need.waiting += bytes <= HRI_LANE_SMALL       ? 0
                            : hri_lane_widens(g, v, NULL) ? room(bytes / 2)
                                                          : room(bytes);
        }
    }
    for (uint32_t i = 0; i < g->result_count; i++) {
        const uint64_t bytes = hr_meta_bytes(&g->values[g->results[i].value].meta);
        need.results += bytes <= HRI_LANE_SMALL ? room(bytes) : 0;
    }
    sizes->small = need.small > sizes->small ? need.small : sizes->small;
    sizes->large = need.large > sizes->large ? need.large : sizes->large;
    sizes->waiting = need.waiting > sizes->waiting ? need.waiting : sizes->waiting;
    sizes->results = need.results > sizes->results ? need.results : sizes->results;
}

uint64_t hri_lane_top_bytes(const hri_lane_sizes *sizes, int stage) {
    /* The control block twice: where kernels read it, and where the next run's arrives. */
    return 2 * HRI_LANE_ALIGN + sizes->small + (stage ? sizes->waiting : 0) + room(sizes->band);
}

uint64_t hri_lane_large(const hri_lane *lane) {
    return lane->stage ? lane->sizes.waiting : lane->sizes.large;
}

static hr_status open_all(hri_lane *lane) {
    hr_device *device = hri_engine_device(lane->engine);
    void *memory = NULL;
    hr_status status = hr_pinned_create(
        device, HRI_LANE_ALIGN + lane->sizes.small + hri_lane_large(lane), &memory);
    lane->pinned = memory;
    if (status == HR_OK) {
        memory = NULL;
        status = hr_pinned_create(device, lane->sizes.results + HRI_LANE_ALIGN, &memory);
        lane->back = memory;
    }
    if (status == HR_OK) {
        memory = NULL;
        status = hr_pinned_create(device, HRI_LANE_BOUNCE, &memory);
        lane->bounce = memory;
    }
    status = status == HR_OK ? hr_event_create(device, &lane->staged) : status;
    status = status == HR_OK ? hr_event_create(device, &lane->taken) : status;
    status = status == HR_OK ? hr_event_create(device, &lane->ready) : status;
    status = status == HR_OK ? hr_event_create(device, &lane->begun) : status;
    status = status == HR_OK ? hr_event_create(device, &lane->over) : status;
    return status;
}

hr_status hri_lane_open(hri_lane *lane, hri_engine *engine, const hri_lane_sizes *sizes, int stage,
                        hr_addr top, hri_prose *why) {
    hri_lane made = {.engine = engine, .sizes = *sizes, .stage = stage, .control = top};
    made.band = top + hri_lane_top_bytes(sizes, stage) - room(sizes->band);
    const hr_status status = open_all(&made);
    if (status != HR_OK) {
        hri_lane_close(&made);
        return hri_prose_set(why, status, "allocating staging buffers: %s", hr_status_text(status));
    }
    memset(made.pinned, 0, HRI_LANE_ALIGN + sizes->small + hri_lane_large(&made));
    memset(made.back, 0, sizes->results + HRI_LANE_ALIGN);
    memset(made.bounce, 0, HRI_LANE_BOUNCE);
    *lane = made;
    return HR_OK;
}

void hri_lane_close(hri_lane *lane) {
    if (lane->engine) {
        hr_device *device = hri_engine_device(lane->engine);
        hri_engine_settle(lane->engine); /* nobody copies from or to it any more */
        hr_pinned_destroy(device, lane->pinned);
        hr_pinned_destroy(device, lane->back);
        hr_pinned_destroy(device, lane->bounce);
        hr_event_destroy(lane->staged);
        hr_event_destroy(lane->taken);
        hr_event_destroy(lane->ready);
        hr_event_destroy(lane->begun);
        hr_event_destroy(lane->over);
    }
    *lane = (hri_lane){0};
}

hr_status hri_lane_settle(hri_lane *lane) {
    hr_queue *feed = hri_engine_queue(lane->engine, HRI_ENGINE_FEED);
    hr_status status = HR_OK;
    if (lane->direct) { /* no longer than the copies take: the run behind them goes on */
        status = hr_event_wait(lane->taken, feed);
    }
    if (status == HR_OK && (lane->feeding || lane->direct)) {
        status = hr_queue_sync(feed);
        lane->feeding = lane->direct = status != HR_OK;
    }
    return status;
}

/* While a half is made the other one is copied; that copy is over before the next begins, so the half that is made next is
 * free again. */
hr_status hri_lane_make(hri_lane *lane, hr_addr to, uint64_t bytes, hri_lane_make_fn *make,
                        void *user) {
    enum { HALF = HRI_LANE_BOUNCE / 2 };
    hr_queue *queue = hri_engine_queue(lane->engine, HRI_ENGINE_COMPUTE);
    hr_status status = HR_OK;
    int flying = 0;
    for (uint64_t at = 0, k = 0; at < bytes && status == HR_OK; at += HALF, k++) {
        const uint64_t left = bytes - at, here = left < HALF ? left : HALF;
        char *piece = lane->bounce + (k % 2) * HALF;
        make(user, at, here, piece);
        status = flying ? hr_queue_sync(queue) : HR_OK;
        status =
            status == HR_OK ? hr_copy(queue, to + at, (hr_addr)(uintptr_t)piece, here) : status;
        flying = 1;
    }
    const hr_status over = flying ? hr_queue_sync(queue) : HR_OK;
    return status == HR_OK ? over : status;
}

static void copy_piece(void *user, uint64_t at, uint64_t bytes, void *to) {
    memcpy(to, (const char *)user + at, bytes);
}

hr_status hri_lane_put(hri_lane *lane, hr_addr to, const void *from, uint64_t bytes) {
    return hri_lane_make(lane, to, bytes, copy_piece, (void *)(uintptr_t)from);
}

hr_status hri_lane_get(hri_lane *lane, void *to, hr_addr from, uint64_t bytes) {
    hr_queue *queue = hri_engine_queue(lane->engine, HRI_ENGINE_COMPUTE);
    hr_status status = HR_OK;
    for (uint64_t at = 0; at < bytes && status == HR_OK; at += HRI_LANE_BOUNCE) {
        const uint64_t left = bytes - at, here = left < HRI_LANE_BOUNCE ? left : HRI_LANE_BOUNCE;
        status = hr_copy(queue, (hr_addr)(uintptr_t)lane->bounce, from + at, here);
        status = status == HR_OK ? hr_queue_sync(queue) : status;
        if (status == HR_OK) {
            memcpy((char *)to + at, lane->bounce, here);
        }
    }
    return status;
}
