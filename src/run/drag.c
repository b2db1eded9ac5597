/* Kernels alone and beside copies; see drag.h. */
#include "run/drag.h"

#include <string.h>

#include "graph/op.h"

enum { ALIGN = 256, TURNS = 5, MOST_LAUNCHES = 400, LEAST_LAUNCHES = 8 };
enum { COPIES = 2 };
static const uint64_t large_bytes = UINT64_C(32) << 20;
/* A sum of two such operands takes about 30 us on what this was tried on: the mean of a kernel of a step. */
static const uint64_t ordinary_bytes = UINT64_C(32) << 20;

/* A launch over this much, and how long it may take: what is slower is no device whose copies could matter. */
static const uint64_t probe_bytes = UINT64_C(1) << 20;
static const double probe_ns = 50e3;

typedef enum side { ALONE, AWAY, BACK, SIDES } side;

typedef struct drag {
    hri_engine *engine;
    hri_gpu *gpu;
    hr_queue *compute;
    hr_event *begin, *end, *fork, *join;
    void *host;
    hr_addr at; /* of the copies */
    hr_meta metas[3];
    hri_sig sig;
    hr_addr in[2], out;
    hri_gpu_call call;
    hri_gpu_graph *graphs[SIDES];
    uint64_t copy_bytes;
    uint32_t launches;
} drag;

static hr_status put_kernels(drag *d, uint32_t count) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < count && status == HR_OK; i++) {
        status = hri_op_launch(&d->call);
    }
    return status;
}

static hr_status put_copies(drag *d, side which, hr_queue *queue) {
    const hr_addr host = (hr_addr)(uintptr_t)d->host;
    hr_status status = HR_OK;
    for (int i = 0; i < COPIES && status == HR_OK; i++) {
        status = hr_copy(queue, which == AWAY ? host : d->at, which == AWAY ? d->at : host,
                         d->copy_bytes);
    }
    return status;
}

/* As steps do it: the copies fork from the kernels' queue and are waited for there. */
static hr_status put_all(drag *d, side which) {
    hr_queue *queue = hri_engine_copy_queue(d->engine, which == BACK);
    hr_status status = HR_OK;
    if (which != ALONE) {
        status = hr_event_mark(d->fork, d->compute);
        status = status == HR_OK ? hr_event_wait(d->fork, queue) : status;
        status = status == HR_OK ? put_copies(d, which, queue) : status;
        status = status == HR_OK ? hr_event_mark(d->join, queue) : status;
    }
    status = status == HR_OK ? put_kernels(d, d->launches) : status;
    return status == HR_OK && which != ALONE ? hr_event_wait(d->join, d->compute) : status;
}

/* HR_OK with no graph where the device captures none: it runs call by call, as its steps do. */
static hr_status capture(drag *d, side which) {
    hr_status status = hri_gpu_capture_begin(d->gpu);
    if (status == HR_E_UNSUPPORTED) {
        return HR_OK;
    }
    if (status == HR_OK) {
        status = put_all(d, which);
        if (status == HR_OK) {
            status = hri_gpu_capture_end(d->gpu, &d->graphs[which]);
        } else {
            hri_gpu_capture_drop(d->gpu);
        }
    }
    return status;
}

static hr_status settle(drag *d, hr_queue *queue, hr_status status, double *out_ns) {
    uint64_t ns = 0;
    status = status == HR_OK ? hr_event_mark(d->end, queue) : status;
    hri_engine_settle(d->engine);
    status = status == HR_OK ? hr_event_elapsed(d->begin, d->end, &ns) : status;
    *out_ns = (double)ns;
    return status;
}

static hr_status time_side(drag *d, side which, double *out_ns) {
    hr_status status = hr_event_mark(d->begin, d->compute);
    if (status == HR_OK) {
        status =
            d->graphs[which] ? hri_gpu_graph_launch(d->gpu, d->graphs[which]) : put_all(d, which);
    }
    return settle(d, d->compute, status, out_ns);
}

static hr_status time_copies(drag *d, side which, double *out_ns) {
    hr_queue *queue = hri_engine_copy_queue(d->engine, which == BACK);
    hr_status status = hr_event_mark(d->begin, queue);
    status = status == HR_OK ? put_copies(d, which, queue) : status;
    return settle(d, queue, status, out_ns);
}

/* ---- what it needs ---- */

static hr_status open_call(drag *d, uint64_t bytes, hr_addr at) {
    const hr_op *op = hri_op_find("add");
    for (int i = 0; i < 3; i++) {
        d->metas[i] = (hr_meta){.type = HR_TYPE_F32, .shape = hr_shape_1((int64_t)bytes / 4)};
    }
    d->sig =
        (hri_sig){.op = op, .in_count = 2, .out_count = 1, .in = d->metas, .out = d->metas + 2};
    d->in[0] = at + ALIGN;
    d->in[1] = d->in[0] + bytes;
    d->out = d->in[1] + bytes;
    d->at = d->out + bytes;
    const hri_kernel *kernel = op ? hri_kernel_for(hri_gpu_kernels(d->gpu), &d->sig) : NULL;
    d->call = (hri_gpu_call){.gpu = d->gpu,
                             .kernel = kernel,
                             .sig = &d->sig,
                             .in = d->in,
                             .out = &d->out,
                             .control = at};
    return kernel ? hr_fill(d->compute, at, 0, ALIGN + 2 * bytes) : HR_E_UNSUPPORTED;
}

static hr_status open_events(drag *d) {
    hr_device *device = hri_engine_device(d->engine);
    hr_event **events[] = {&d->begin, &d->end, &d->fork, &d->join};
    hr_status status = HR_OK;
    for (size_t i = 0; i < sizeof events / sizeof events[0] && status == HR_OK; i++) {
        status = hr_event_create(device, events[i]);
    }
    hri_gpu_use(d->gpu, d->compute);
    return status;
}

/* HR_E_UNSUPPORTED for what is no GPU but plays one. */
static hr_status probe(drag *d) {
    hr_addr at;
    double ns = 0;
    hr_status status = hri_engine_scratch(d->engine, ALIGN + 3 * probe_bytes, &at);
    status = status == HR_OK ? open_call(d, probe_bytes, at) : status;
    d->launches = 1; /* compiles and loads */
    status = status == HR_OK ? time_side(d, ALONE, &ns) : status;
    d->launches = LEAST_LAUNCHES;
    status = status == HR_OK ? time_side(d, ALONE, &ns) : status;
    return status == HR_OK && ns > probe_ns * LEAST_LAUNCHES ? HR_E_UNSUPPORTED : status;
}

static hr_status open_all(drag *d, uint64_t bytes) {
    hr_device *device = hri_engine_device(d->engine);
    hr_addr at;
    hr_status status = hri_engine_scratch(d->engine, ALIGN + 3 * bytes + d->copy_bytes, &at);
    status = status == HR_OK ? hr_pinned_create(device, d->copy_bytes, &d->host) : status;
    if (status == HR_OK) {
        memset(d->host, 0, d->copy_bytes);
        status = open_call(d, bytes, at);
    }
    return status;
}

static void close_all(drag *d) {
    hri_engine_settle(d->engine);
    for (int i = 0; i < SIDES; i++) {
        if (d->graphs[i]) {
            hri_gpu_graph_destroy(d->gpu, d->graphs[i]);
        }
    }
    hr_event_destroy(d->begin);
    hr_event_destroy(d->end);
    hr_event_destroy(d->fork);
    hr_event_destroy(d->join);
    hr_pinned_destroy(hri_engine_device(d->engine), d->host);
    hri_engine_scratch_drop(d->engine);
}

/* ---- measuring ---- */

/* So many launches that they last longer than the copies beside them. */
static hr_status choose_launches(drag *d, hri_drag *out) {
    double few = 0;
    hr_status status = HR_OK;
    d->launches = LEAST_LAUNCHES;
    for (int turn = 0; turn < 2 && status == HR_OK; turn++) { /* the first one warms up */
        status = time_copies(d, AWAY, &out->copy_ns[0]);
        status = status == HR_OK ? time_copies(d, BACK, &out->copy_ns[1]) : status;
        status = status == HR_OK ? time_side(d, ALONE, &few) : status;
    }
    const double longest = out->copy_ns[0] > out->copy_ns[1] ? out->copy_ns[0] : out->copy_ns[1];
    const double wanted = few > 0 ? 2 * longest / few * LEAST_LAUNCHES : MOST_LAUNCHES;
    d->launches = wanted < LEAST_LAUNCHES  ? LEAST_LAUNCHES
                  : wanted > MOST_LAUNCHES ? MOST_LAUNCHES
                                           : (uint32_t)wanted;
    out->launches = d->launches;
    return status;
}

/* By turns, so that what changes meanwhile changes all of them; the least of each, which nothing else disturbed. */
static hr_status time_sides(drag *d, double *least) {
    hr_status status = HR_OK;
    for (int which = ALONE; which < SIDES && status == HR_OK; which++) {
        status = capture(d, (side)which);
        least[which] = 0;
    }
    for (int turn = 0; turn < TURNS; turn++) {
        for (int which = ALONE; which < SIDES && status == HR_OK; which++) {
            double ns;
            status = time_side(d, (side)which, &ns);
            const int first = turn <= 1; /* the very first one warms up */
            least[which] = first || ns < least[which] ? ns : least[which];
        }
    }
    return status;
}

static double share(double with, double alone, double copy) {
    const double x = copy > 0 ? (with - alone) / copy : 0;
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

hr_status hri_drag_measure(hri_engine *e, uint64_t bytes, hri_drag *out) {
    drag d = {
        .engine = e, .gpu = hri_engine_gpu(e), .compute = hri_engine_queue(e, HRI_ENGINE_COMPUTE)};
    hri_drag m = {0};
    double least[SIDES] = {0};
    hr_status status = open_events(&d);
    status = status == HR_OK && !bytes ? probe(&d) : status;
    bytes = (bytes ? bytes : ordinary_bytes) / ALIGN * ALIGN;
    d.copy_bytes = bytes < probe_bytes ? bytes : large_bytes;
    status = status == HR_OK ? open_all(&d, bytes) : status;
    status = status == HR_OK ? choose_launches(&d, &m) : status;
    status = status == HR_OK ? time_sides(&d, least) : status;
    close_all(&d);
    if (status != HR_OK || m.copy_ns[0] <= 0 || m.copy_ns[1] <= 0 || least[ALONE] <= 0) {
        return status != HR_OK ? status : HR_E_UNSUPPORTED;
    }
    m.alone_ns = least[ALONE];
    m.out_ns = least[AWAY];
    m.in_ns = least[BACK];
    m.out = share(m.out_ns, m.alone_ns, m.copy_ns[0]);
    m.in = share(m.in_ns, m.alone_ns, m.copy_ns[1]);
    *out = m;
    return HR_OK;
}

double hri_drag_share(const hri_drag *d) {
    const double share = HRI_ENGINE_COPY_LATE + (d->out + d->in) / 2 * 1.1;
    return share < 1 ? share : 1;
}
