/* The host's executor, and the way to the GPU's. */
#include "run/execute.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "graph/half.h"
#include "run/bind.h"
#include "net/net.h"
#include "run/execute_gpu.h"
#include "run/regroup.h"

struct hri_exec {
    hri_bound b;
    hri_threads *threads;
    hri_spill *const *spills; /* by memory; NULL: it is memory */
    hri_exec_gpu *gpu;        /* NULL: the host */
    uint64_t seed, init_mask;
    struct hri_net *net;
    hri_net_queue *nets; /* NULL: exchanges are made at once */
    uint32_t first_sample;
};

uint64_t hri_exec_record_bytes(uint64_t steps, uint64_t operands, uint64_t values) {
    return sizeof(hri_exec) + hri_bound_record_bytes(steps, operands, values);
}

/* The kernel of a call, for as many threads as its work space was planned for; more would write beyond it. */
static hr_status find_kernel(const hri_exec *e, const hri_kernels *kernels, hri_bound_call *c,
                             hri_prose *why) {
    const hri_node_record *node = &e->b.g->nodes[c->node];
    const hri_kernel *kernel = hri_kernel_for(kernels, &node->sig);
    const uint32_t threads = hri_threads_count(e->threads);
    if (!kernel || !kernel->run) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "%s: the device has no kernel for %s",
                             node->name, node->sig.op->name);
    }
    if (hri_kernel_workspace(kernel, &node->sig, c->variant, threads) >
        (hri_bound_workspace(&e->b, c) ? c->bytes : 0)) {
        return hri_prose_set(why, HR_E_INVALID, "%s was planned for fewer than %u threads",
                             node->name, threads);
    }
    c->run = hri_bound_is_name(&e->b, c) ? NULL : hri_kernel_run(kernel, c->variant);
    return HR_OK;
}

static hr_status find_kernels(const hri_exec *e, const hri_kernels *kernels, hri_prose *why) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < e->b.call_count && status == HR_OK; i++) {
        if (e->b.calls[i].kind == HRI_STEP_RUN || e->b.calls[i].kind == HRI_STEP_NET) {
            status = find_kernel(e, kernels ? kernels : &hri_kernels_host, &e->b.calls[i], why);
        }
    }
    return status;
}

hr_status hri_exec_create(const hri_exec_options *options, hri_exec **out, hri_prose *why) {
    hri_exec *e = hri_calloc(1, sizeof *e);
    if (!e) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of host memory to bind the plan");
    }
    hri_bind_options o = {.g = options->g,
                          .problem = options->problem,
                          .plan = options->plan,
                          .arena = options->arena};
    for (int m = 0; m < HRI_PROBLEM_MEMORIES_MAX; m++) {
        o.others[m] = options->spills && options->spills[m] ? NULL : options->others[m];
    }
    e->spills = options->spills;
    e->threads = options->threads;
    e->seed = options->seed;
    e->init_mask = options->init_mask;
    e->net = options->net;
    e->nets = options->nets;
    hr_status status = hri_bind(&o, &e->b, why);
    if (status == HR_OK && options->lane) {
        hri_bound_regroup(&e->b, hri_gpu_kernels(hri_engine_gpu(options->lane->engine)));
        status =
            hri_exec_gpu_create(options->lane, &e->b, e->seed, e->net ? hri_net_rank(e->net) : 0,
                                options->wire, &e->gpu, why);
    } else if (status == HR_OK) {
        status = find_kernels(e, options->kernels, why);
    }
    if (status != HR_OK) {
        hri_exec_destroy(e);
        return status;
    }
    *out = e;
    return HR_OK;
}

void hri_exec_destroy(hri_exec *e) {
    if (e) {
        hri_exec_gpu_destroy(e->gpu);
        hri_bound_deinit(&e->b);
        hri_free(e);
    }
}

hr_status hri_exec_prepare(hri_exec *e, hri_prose *why) {
    return e->gpu ? hri_exec_gpu_prepare(e->gpu, why) : HR_OK;
}

/* ---- values from outside ---- */

static int begins(const hri_exec *e, hr_value v, const hri_exec *done) {
    const hri_value *value = &e->b.g->values[v];
    if (!e->b.data[v] || (value->kind != HR_VALUE_PARAM && value->kind != HR_VALUE_STATE &&
                          value->kind != HR_VALUE_CONSTANT)) {
        return 0;
    }
    const hr_value there = done && value->kind != HR_VALUE_CONSTANT && value->name
                               ? hr_graph_find(done->b.g, value->name)
                               : HR_NONE;
    return there == HR_NONE || done->b.data[there] != e->b.data[v];
}

/* Elements first .. first + count of a value, made by all threads. */
typedef struct filling {
    const hri_exec *e;
    hr_value v;
    int64_t first, count;
    char *to;
} filling;

enum { FILL_BLOCKS = 256, FILL_ALONE = 1 << 18 };

static void fill_blocks(void *arg, uint64_t begin, uint64_t end, uint32_t worker) {
    const filling *f = arg;
    const hr_graph *g = f->e->b.g;
    const int64_t from = (int64_t)begin * HRI_INITIAL_BLOCK;
    const int64_t to = (int64_t)end * HRI_INITIAL_BLOCK;
    (void)worker;
    hri_graph_initial_part(g, f->v, f->e->seed ^ f->e->init_mask, f->first + from,
                           (to < f->count ? to : f->count) - from,
                           f->to + (uint64_t)from * hr_type_bytes(g->values[f->v].meta.type));
}

static void fill(const hri_exec *e, hri_threads *pool, hr_value v, int64_t first, int64_t count,
                 void *to) {
    filling f = {e, v, first, count, to};
    hri_threads_range(pool, hri_chunk_count((uint64_t)count, HRI_INITIAL_BLOCK), FILL_BLOCKS,
                      fill_blocks, &f);
}

/* A piece of what goes to the GPU, made in the memory that it is copied from. */
typedef struct making {
    const hri_exec *e;
    hri_threads *pool;
    hr_value v;
} making;

static void make_piece(void *user, uint64_t at, uint64_t bytes, void *to) {
    const making *m = user;
    const uint64_t width = hr_type_bytes(m->e->b.g->values[m->v].meta.type);
    fill(m->e, m->pool, m->v, (int64_t)(at / width), (int64_t)(bytes / width), to);
}

static hr_status begin_value(hri_exec *e, hri_threads *pool, hr_value v) {
    const hr_meta *meta = &e->b.g->values[v].meta;
    if (!e->gpu) {
        fill(e, pool, v, 0, hr_shape_count(&meta->shape), e->b.data[v]);
        return HR_OK;
    }
    const uint64_t bytes = hr_meta_bytes(meta);
    making m = {e, pool, v};
    return hri_graph_begins_zero(e->b.g, v) ? hri_exec_gpu_clear(e->gpu, v, bytes)
                                            : hri_exec_gpu_make(e->gpu, v, bytes, make_piece, &m);
}

hr_status hri_exec_begin(hri_exec *e, const hri_exec *done) {
    int64_t numbers = 0;
    for (hr_value v = 1; v < e->b.g->value_count; v++) {
        if (begins(e, v, done) && !hri_graph_begins_zero(e->b.g, v)) {
            numbers += hr_shape_count(&e->b.g->values[v].meta.shape);
        }
    }
    /* Beside a GPU nobody has threads; without them one fills alone. */
    hri_threads *own = NULL;
    if (!e->threads && e->gpu && numbers > FILL_ALONE && hri_threads_create(0, &own) != HR_OK) {
        own = NULL;
    }
    hr_status status = HR_OK;
    for (hr_value v = 1; v < e->b.g->value_count && status == HR_OK; v++) {
        if (begins(e, v, done)) {
            status = begin_value(e, own ? own : e->threads, v);
        }
    }
    hri_threads_destroy(own);
    return status;
}

int hri_exec_holds(const hri_exec *e, hr_value v) {
    return v < e->b.g->value_count && e->b.data[v] != NULL;
}

hr_status hri_exec_put(hri_exec *e, hr_value v, uint64_t at, const void *from, uint64_t bytes) {
    void *to;
    const hr_status status = hri_bound_find(&e->b, v, at, bytes, &to);
    if (status != HR_OK || !bytes) {
        return status;
    }
    if (e->gpu) {
        return hri_exec_gpu_put(e->gpu, v, at, from, bytes);
    }
    memcpy(to, from, bytes);
    return HR_OK;
}

hr_status hri_exec_get(const hri_exec *e, hr_value v, uint64_t at, void *to, uint64_t bytes) {
    void *from;
    const hr_status status = hri_bound_find(&e->b, v, at, bytes, &from);
    if (status != HR_OK || !bytes) {
        return status;
    }
    if (e->gpu) {
        return hri_exec_gpu_get(e->gpu, v, at, to, bytes);
    }
    memcpy(to, from, bytes);
    return HR_OK;
}

hr_addr hri_exec_address(const hri_exec *e, hr_value v) {
    return hri_exec_holds(e, v) ? (hr_addr)(uintptr_t)e->b.data[v] : 0;
}

hr_addr hri_exec_band(const hri_exec *e) {
    const hri_lane *lane = e->gpu ? hri_exec_gpu_lane(e->gpu) : NULL;
    return lane && lane->sizes.band ? lane->band : 0;
}

/* Numbers of a 2-byte type come into the upper half of their room and are widened from below: each is read before anything
 * is written over it. */
hr_status hri_exec_get_reals(const hri_exec *e, hr_value v, float *to, uint64_t count) {
    const hr_type type = (hr_type)e->b.g->values[v].meta.type;
    const uint64_t bytes = count * hr_type_bytes(type);
    char *from = (char *)to + (count * sizeof *to - bytes);
    const hr_status status = hri_exec_get(e, v, 0, from, bytes);
    for (uint64_t k = 0; status == HR_OK && type != HR_TYPE_F32 && k < count; k++) {
        hri_bf16 b;
        hri_f16 h;
        memcpy(&b, from + 2 * k, sizeof b);
        memcpy(&h, from + 2 * k, sizeof h);
        to[k] = type == HR_TYPE_BF16 ? hri_from_bf16(b) : hri_from_f16(h);
    }
    return status;
}

hr_status hri_exec_get_band(const hri_exec *e, void *to, uint64_t bytes) {
    hri_lane *lane = e->gpu ? hri_exec_gpu_lane(e->gpu) : NULL;
    if (!lane || bytes > lane->sizes.band) {
        return HR_E_RANGE;
    }
    return hri_lane_get(lane, to, lane->band, bytes);
}

hr_status hri_exec_flush(hri_exec *e) {
    return e->gpu ? hri_exec_gpu_flush(e->gpu) : HR_OK;
}

int hri_exec_overlaps(const hri_exec *e) {
    return e->gpu != NULL;
}

const hr_graph *hri_exec_graph(const hri_exec *e) {
    return e->b.g;
}

void hri_exec_sample(hri_exec *e, uint32_t first_sample) {
    e->first_sample = first_sample;
}

/* ---- running ---- */

hri_exec_gpu *hri_exec_of_gpu(hri_exec *e, uint32_t *first_sample) {
    *first_sample = e->first_sample;
    return e->gpu;
}

/* `beside`: it goes on until the wait for it, and has no threads of its own. */
static hr_status run_kernel(const hri_exec *e, const hri_bound_call *c, uint32_t step, int beside) {
    const hri_sig *sig = &e->b.g->nodes[c->node].sig;
    void **pointers = e->b.pointers + c->first;
    if (!c->run) { /* its bytes have two names */
        return HR_OK;
    }
    const hri_call kernel = {.sig = sig,
                             .in = (const void *const *)pointers,
                             .out = pointers + sig->in_count,
                             .workspace = pointers[sig->in_count + sig->out_count],
                             .threads = beside ? NULL : e->threads,
                             .variant = c->variant,
                             .node = e->b.g->nodes[c->node].counter,
                             .step = step,
                             .first_sample = e->first_sample,
                             .seed = e->seed,
                             .net = e->net};
    if (beside) {
        hri_net_queue_start(e->nets, &kernel, c->run);
        return HR_OK;
    }
    return c->run(&kernel);
}

/* In a file an address is a distance from NULL. */
static hr_status run_call(const hri_exec *e, const hri_bound_call *c, uint32_t step, int beside) {
    void *const *pointers = e->b.pointers + c->first;
    hri_spill *spill = c->memory && e->spills ? e->spills[c->memory - 1] : NULL;
    switch ((hri_step_kind)c->kind) {
    case HRI_STEP_RUN:
        return run_kernel(e, c, step, 0);
    case HRI_STEP_NET:
        return run_kernel(e, c, step, beside);
    case HRI_STEP_WAIT:
        return c->net && beside ? hri_net_queue_wait(e->nets, (uint64_t)c->copy + 1) : HR_OK;
    case HRI_STEP_OUT:
    case HRI_STEP_IN:
        if (!spill) {
            memcpy(pointers[0], pointers[1], c->bytes);
            return HR_OK;
        }
        return c->kind == HRI_STEP_OUT
                   ? hri_spill_write(spill, (uintptr_t)pointers[0], pointers[1], c->bytes)
                   : hri_spill_read(spill, (uintptr_t)pointers[1], pointers[0], c->bytes);
    default:
        return HR_OK;
    }
}

hr_status hri_exec_run(hri_exec *e, uint32_t step, uint32_t *node) {
    if (e->gpu) {
        return hri_exec_gpu_run(e->gpu, step, e->first_sample, node);
    }
    uint32_t last = 0; /* a copy has no node: the one before it stands for it */
    hr_status status = HR_OK;
    if (e->nets) {
        hri_net_queue_begin(e->nets);
    }
    for (uint32_t i = 0; i < e->b.call_count && status == HR_OK; i++) {
        const hri_bound_call *c = &e->b.calls[i];
        last = c->kind == HRI_STEP_RUN || c->kind == HRI_STEP_NET ? c->node : last;
        status = run_call(e, c, step, e->nets != NULL);
    }
    if (status != HR_OK) {
        if (e->nets) { /* what was started still works on the arena; all ranks have started it */
            hri_net_queue_drain(e->nets);
        }
        if (node) {
            *node = last;
        }
    }
    return status;
}

hr_status hri_exec_wait(hri_exec *e) {
    return e->gpu ? hri_exec_gpu_wait(e->gpu) : HR_OK;
}

void hri_exec_drop(hri_exec *e) {
    if (e->gpu) {
        hri_exec_gpu_drop(e->gpu);
    }
}

uint64_t hri_exec_busy_ns(hri_exec *e) {
    return e->gpu ? hri_exec_gpu_busy_ns(e->gpu) : 0;
}

hr_status hri_exec_profile(hri_exec *e, uint32_t step, hri_exec_time_fn *each, void *user) {
    if (e->gpu) {
        return hri_exec_gpu_profile(e->gpu, step, e->first_sample, each, user);
    }
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < e->b.call_count && status == HR_OK; i++) {
        const hri_bound_call *c = &e->b.calls[i];
        const uint64_t begin = hri_clock_ns();
        status = run_call(e, c, step, 0);
        if (c->kind != HRI_STEP_WAIT) {
            const int runs = c->kind == HRI_STEP_RUN || c->kind == HRI_STEP_NET;
            each(user, runs ? c->node : HRI_NO_NODE, c->bytes, (double)(hri_clock_ns() - begin), 1);
        }
    }
    return status;
}

void hri_exec_touch(const hri_exec *e, hri_touch_fn *each, void *user) {
    hri_bound_touch(&e->b, each, user);
}
