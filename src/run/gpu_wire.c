/* Ranges of an exchange, from the device or by way of pinned memory; see gpu_wire.h. */
#include "run/gpu_wire.h"

#include "base/alloc.h"
#include "net/net.h"

struct hri_gpu_wire {
    hri_lane *lane;
    hri_net *net;
    hri_net_queue *nets; /* NULL: the wire takes addresses of the device */
    hr_queue *queue;
    uint32_t rank, ranks;
    uint64_t piece;  /* by way of pinned memory: most bytes from one rank to another at a time */
    uint64_t ticket; /* of the last exchange of this run; 0: none */
    struct hri_move_range *to, *from; /* of one exchange, by rank */
    hri_net_range *give, *take;
};

/* ---- making one ---- */

/* Half of it is for what is sent, half for what comes. */
static uint64_t piece_of(uint32_t ranks) {
    return HRI_LANE_BOUNCE / 2 / ranks / HRI_LANE_ALIGN * HRI_LANE_ALIGN;
}

hr_status hri_gpu_wire_open(hri_lane *lane, hri_net *net, hri_net_queue *nets, hri_gpu_wire **out) {
    const uint32_t ranks = hri_net_size(net);
    hr_status status = hri_engine_need_net(lane->engine);
    if (status == HR_OK && nets && !piece_of(ranks)) {
        status = HR_E_UNSUPPORTED;
    }
    if (status != HR_OK) {
        return status;
    }
    hri_gpu_wire *w = hri_calloc(1, sizeof *w);
    struct hri_move_range *moves = hri_calloc(2 * (size_t)ranks, sizeof *moves);
    hri_net_range *ranges = hri_calloc(2 * (size_t)ranks, sizeof *ranges);
    if (!w || !moves || !ranges) {
        hri_free(ranges);
        hri_free(moves);
        hri_free(w);
        return HR_E_NOMEM_HOST;
    }
    *w = (hri_gpu_wire){.lane = lane,
                        .net = net,
                        .nets = nets,
                        .queue = hri_engine_net_queue(lane->engine),
                        .rank = hri_net_rank(net),
                        .ranks = ranks,
                        .piece = piece_of(ranks),
                        .to = moves,
                        .from = moves + ranks,
                        .give = ranges,
                        .take = ranges + ranks};
    *out = w;
    return HR_OK;
}

void hri_gpu_wire_close(hri_gpu_wire *w) {
    if (w) {
        hri_free(w->give);
        hri_free(w->to);
        hri_free(w);
    }
}

/* ---- one exchange ---- */

static hr_addr address(const void *pointer) {
    return (hr_addr)(uintptr_t)pointer;
}

/* Fills in w->to and w->from, and zeros where nothing will arrive. */
static hr_status find_moves(hri_gpu_wire *w, const hri_gpu_wire_call *call, hr_addr *in,
                            hr_addr *out) {
    const hri_sig *sig = call->sig;
    const uint64_t bytes = hr_meta_bytes(&sig->out[0]);
    hri_moves m = {.to = w->to, .from = w->from};
    uint64_t sum = 0;
    sig->op->moves(sig, w->rank, &m);
    if (m.ranks != w->ranks) {
        return HR_E_UNSUPPORTED;
    }
    for (uint32_t k = 0; k < w->ranks; k++) {
        sum += w->from[k].bytes;
    }
    *in = address(call->operands[m.from_input]);
    *out = address(call->operands[sig->in_count]);
    return sum == bytes ? HR_OK : hr_fill(w->queue, *out, 0, bytes);
}

/* From device to device, in the wire's order. */
static hr_status exchange_direct(hri_gpu_wire *w, const hri_gpu_wire_call *call) {
    hr_addr in, out;
    hr_status status = find_moves(w, call, &in, &out);
    for (uint32_t k = 0; k < w->ranks && status == HR_OK; k++) {
        const struct hri_move_range to = w->to[k], from = w->from[k];
        w->give[k] = (hri_net_range){to.bytes ? (void *)(uintptr_t)(in + to.at) : NULL, to.bytes};
        w->take[k] =
            (hri_net_range){from.bytes ? (void *)(uintptr_t)(out + from.at) : NULL, from.bytes};
    }
    return status == HR_OK ? hri_net_exchange(w->net, w->give, w->take, &w->ticket) : status;
}

/* How many bytes of [at, at + piece) there are. */
static uint64_t part_of(const hri_gpu_wire *w, uint64_t bytes, uint64_t at) {
    const uint64_t left = bytes > at ? bytes - at : 0;
    return left < w->piece ? left : w->piece;
}

/* A piece of what every other rank gets; what goes to all is copied once. */
static hr_status take_out(hri_gpu_wire *w, hr_addr in, uint64_t at) {
    const hri_net_range none = {NULL, 0};
    const struct hri_move_range *before = NULL;
    char *copied = NULL;
    hr_status status = HR_OK;
    for (uint32_t k = 0; k < w->ranks && status == HR_OK; k++) {
        const struct hri_move_range *to = &w->to[k];
        const uint64_t here = k == w->rank ? 0 : part_of(w, to->bytes, at);
        w->give[k] = none;
        if (!here) {
            continue;
        }
        if (!before || before->at != to->at || before->bytes != to->bytes) {
            copied = w->lane->bounce + k * w->piece;
            status = hr_copy(w->queue, address(copied), in + to->at + at, here);
            before = to;
        }
        w->give[k] = (hri_net_range){copied, here};
    }
    return status == HR_OK ? hr_queue_sync(w->queue) : status;
}

static hr_status put_in(const hri_gpu_wire *w, hr_addr out, uint64_t at) {
    hr_status status = HR_OK;
    for (uint32_t k = 0; k < w->ranks && status == HR_OK; k++) {
        status =
            hr_copy(w->queue, out + w->from[k].at + at, address(w->take[k].at), w->take[k].bytes);
    }
    return status == HR_OK ? hr_queue_sync(w->queue) : status;
}

static hr_status exchange_piece(hri_gpu_wire *w, hr_addr in, hr_addr out, uint64_t at) {
    const hri_net_range none = {NULL, 0};
    char *coming = w->lane->bounce + HRI_LANE_BOUNCE / 2;
    hr_status status = take_out(w, in, at);
    for (uint32_t k = 0; k < w->ranks; k++) {
        const uint64_t here = k == w->rank ? 0 : part_of(w, w->from[k].bytes, at);
        w->take[k] = here ? (hri_net_range){coming + k * w->piece, here} : none;
    }
    uint64_t ticket = 0;
    status = status == HR_OK ? hri_net_exchange(w->net, w->give, w->take, &ticket) : status;
    status = status == HR_OK ? hri_net_wait(w->net, ticket, 0) : status;
    return status == HR_OK ? put_in(w, out, at) : status;
}

/* The longest range of any rank, so that all of them cut as often: no slice has more elements than the first. */
static uint64_t longest(const hri_gpu_wire *w, const hri_sig *sig) {
    hri_moves m = {.to = w->to, .from = w->from};
    uint64_t most = 0;
    sig->op->moves(sig, 0, &m);
    for (uint32_t k = 0; k < w->ranks; k++) {
        most = w->to[k].bytes > most ? w->to[k].bytes : most;
        most = w->from[k].bytes > most ? w->from[k].bytes : most;
    }
    return most;
}

/* By way of pinned memory; in the thread of w->nets, or in its place. */
static hr_status bounce(const hri_call *c) {
    const hri_gpu_wire_call *call = c->workspace;
    hri_gpu_wire *w = call->wire;
    const uint64_t most = longest(w, call->sig);
    hr_addr in = 0, out = 0;
    hr_status status = hr_event_wait(call->ready, w->queue);
    status = status == HR_OK ? find_moves(w, call, &in, &out) : status;
    if (status == HR_OK && w->from[w->rank].bytes) {
        status = hr_copy(w->queue, out + w->from[w->rank].at, in + w->to[w->rank].at,
                         w->from[w->rank].bytes);
    }
    for (uint64_t at = 0; at < most && status == HR_OK; at += w->piece) {
        status = exchange_piece(w, in, out, at);
    }
    if (status != HR_OK) {
        (void)!hr_queue_sync(w->queue); /* nothing of it may run on */
    }
    return status;
}

/* ---- a run ---- */

static hr_status mark_ready(hri_gpu_wire *w, hri_gpu_wire_call *call) {
    call->wire = w;
    return hr_event_mark(call->ready, hri_engine_queue(w->lane->engine, HRI_ENGINE_COMPUTE));
}

void hri_gpu_wire_begin(hri_gpu_wire *w) {
    w->ticket = 0;
    if (w->nets) {
        hri_net_queue_begin(w->nets);
    }
}

hr_status hri_gpu_wire_start(hri_gpu_wire *w, hri_gpu_wire_call *call) {
    hr_status status = mark_ready(w, call);
    if (status == HR_OK && w->nets) {
        hri_net_queue_start(w->nets, &(hri_call){.sig = call->sig, .workspace = call}, bounce);
        return HR_OK;
    }
    status = status == HR_OK ? hr_event_wait(call->ready, w->queue) : status;
    status = status == HR_OK ? exchange_direct(w, call) : status;
    return status == HR_OK ? hr_event_mark(call->over, w->queue) : status;
}

hr_status hri_gpu_wire_wait(hri_gpu_wire *w, uint32_t number, hr_event *over) {
    return w->nets ? hri_net_queue_wait(w->nets, (uint64_t)number + 1)
                   : hr_event_wait(over, hri_engine_queue(w->lane->engine, HRI_ENGINE_COMPUTE));
}

hr_status hri_gpu_wire_make(hri_gpu_wire *w, hri_gpu_wire_call *call) {
    if (!w->nets) {
        const hr_status status = hri_gpu_wire_start(w, call);
        return status == HR_OK ? hri_gpu_wire_wait(w, 0, call->over) : status;
    }
    hri_net_queue_drain(w->nets); /* the wire's calls come from one thread at a time */
    const hr_status status = mark_ready(w, call);
    return status == HR_OK ? bounce(&(hri_call){.sig = call->sig, .workspace = call}) : status;
}

hr_status hri_gpu_wire_end(hri_gpu_wire *w, hr_status status) {
    if (w->nets) {
        hri_net_queue_drain(w->nets);
        return status;
    }
    return status == HR_OK && w->ticket ? hri_net_wait(w->net, w->ticket, 0) : status;
}

void hri_gpu_wire_drop(hri_gpu_wire *w) {
    if (!w->nets && w->ticket) {
        (void)!hri_net_wait(w->net, w->ticket, 0);
    }
}
