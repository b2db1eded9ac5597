/* Kernels between two events; see trial.h. */
#include "run/trial.h"

#include "base/alloc.h"
#include "base/hash.h"

enum { ALIGN = 256, HEAD = ALIGN + HRI_GPU_TRIAL_BYTES, MOST_RUNS = 20, MOST_SETS = 8 };
enum { MOST_TURNS = 1000 }; /* of all runs; times of 0 would have no end */
enum { IDS = 4096 };        /* that are made at a time */
/* Launches take turns over as many sets of operands as make up this much: in a step hardly anything is in a cache still. */
static const uint64_t cold_bytes = UINT64_C(192) << 20;
static const uint64_t many_bytes = UINT64_C(256) << 10;
/* Products draw as much power as the GPU is allowed, and after some 20 ms of them its clock sinks, by 6 to 18 % on an H200.  A step of
 * products runs so, and a short burst does not: what is dense is timed in the second half of so much of it.  After 60 ms of nothing
 * else the clock is lower than in a step, where other ops let the GPU cool: plans of ViT-B were 4 % too slow then, at 20 ms 3 % too
 * fast.  Attention over 1,024 tokens and a head over a vocabulary have some 250 operations a byte. */
static const double dense_ns = 35e6, dense_flops_per_byte = 240;
static const double long_ns = 20e6; /* all runs of one kernel together take about so long at most */

typedef struct trial {
    hri_engine *engine;
    hr_queue *queue;
    const hri_trial_op *ops;
    uint32_t count, variant;
    uint32_t operand_count;
    uint64_t *offsets;   /* by operand, of all ops one after another: inputs, outputs, work space */
    uint64_t bytes;      /* of one set of operands */
    hr_addr at;          /* the control block; sets lie HEAD behind it */
    hr_addr *addrs;      /* by set and operand */
    hri_gpu_call *calls; /* by set and op */
    uint32_t sets;
    int timed;
    hr_event *events[2];
    hri_gpu_graph *graph; /* NULL: launches one by one */
} trial;

static uint64_t room(uint64_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* ---- where operands lie ---- */

static const hri_kernel *kernel_of(const trial *t, uint32_t i) {
    return hri_kernel_for(hri_gpu_kernels(hri_engine_gpu(t->engine)), t->ops[i].sig);
}

static uint64_t workspace_of(const trial *t, uint32_t i) {
    return hri_kernel_launch_workspace(kernel_of(t, i), t->ops[i].sig, hri_engine_gpu(t->engine),
                                       t->variant);
}

static uint32_t operands_of(const hri_sig *s) {
    return s->in_count + s->out_count + 1;
}

static const hr_meta *meta_of(const hri_sig *s, uint32_t k) {
    return k < s->in_count ? &s->in[k] : &s->out[k - s->in_count];
}

/* An operand before operand `k` of op `i` that is the same memory; NULL: there is none. */
static const uint64_t *find_same(const trial *t, uint32_t i, uint32_t k) {
    const hri_sig *s = t->ops[i].sig;
    const uint64_t *at = t->offsets;
    for (uint32_t j = 0; j <= i && t->ops[i].in; at += operands_of(t->ops[j++].sig)) {
        const hri_sig *of = t->ops[j].sig;
        const uint32_t end = j == i ? k : of->in_count + of->out_count;
        for (uint32_t m = 0; m < end; m++) {
            if (hri_trial_number(&t->ops[j], m) == hri_trial_number(&t->ops[i], k) &&
                hr_meta_bytes(meta_of(of, m)) == hr_meta_bytes(meta_of(s, k))) {
                return &at[m];
            }
        }
    }
    return NULL;
}

static hr_status place(trial *t) {
    for (uint32_t i = 0; i < t->count; i++) {
        t->operand_count += operands_of(t->ops[i].sig);
    }
    t->offsets = hri_calloc(t->operand_count, sizeof *t->offsets);
    uint64_t *at = t->offsets;
    for (uint32_t i = 0; i < t->count && at; at += operands_of(t->ops[i++].sig)) {
        const hri_sig *s = t->ops[i].sig;
        for (uint32_t k = 0; k < s->in_count + s->out_count; k++) {
            const uint32_t updates = k < s->in_count ? 0 : s->op->updates[k - s->in_count];
            const uint64_t *same = updates ? &at[updates - 1] : find_same(t, i, k);
            at[k] = same ? *same : t->bytes;
            t->bytes += same ? 0 : room(hr_meta_bytes(meta_of(s, k)));
        }
        at[s->in_count + s->out_count] = t->bytes;
        t->bytes += room(workspace_of(t, i));
    }
    return at ? HR_OK : HR_E_NOMEM_HOST;
}

/* ---- what lies there ---- */

/* Spread over all there are, as a step has them: one id alone would be a single row that all others wait for. */
static hr_status fill_ids(const trial *t, const hr_meta *meta, hr_addr at, int64_t limit) {
    const uint64_t size = hr_type_bytes(meta->type), count = hr_meta_bytes(meta) / size;
    int64_t *ids = hri_malloc(IDS * sizeof *ids);
    hr_status status = ids ? HR_OK : HR_E_NOMEM_HOST;
    for (uint64_t first = 0; first < count && status == HR_OK; first += IDS) {
        const uint64_t n = count - first < IDS ? count - first : IDS;
        for (uint64_t i = 0; i < n; i++) {
            const int64_t id = (int64_t)(hri_hash_u64(first + i + 1) % (uint64_t)limit);
            if (size == sizeof(int64_t)) {
                ids[i] = id;
            } else {
                ((int32_t *)ids)[i] = (int32_t)id;
            }
        }
        status = hr_copy(t->queue, at + first * size, (hr_addr)(uintptr_t)ids, n * size);
        const hr_status synced = hr_queue_sync(t->queue);
        status = status == HR_OK ? synced : status;
    }
    hri_free(ids);
    return status;
}

/* Reals differ where they are many and times are wanted; else they are bytes of 0x3c: 0.0115 in f32 and bf16, 1.06 in f16.
 * Ids are zero, which is always one, unless the op says how many there are. */
static hr_status fill_input(const trial *t, const hri_sig *s, const hr_meta *meta, hr_addr at) {
    const int real =
        meta->type == HR_TYPE_F32 || meta->type == HR_TYPE_BF16 || meta->type == HR_TYPE_F16;
    const int id = meta->type == HR_TYPE_I32 || meta->type == HR_TYPE_I64;
    const int64_t limit = id && t->timed && s->op->ids ? s->op->ids(s) : 0;
    if (real && t->timed && hr_meta_bytes(meta) >= many_bytes) {
        return hri_gpu_make_up(hri_engine_gpu(t->engine), at, meta->type,
                               (int64_t)(hr_meta_bytes(meta) / hr_type_bytes(meta->type)));
    }
    return limit > 1 ? fill_ids(t, meta, at, limit)
                     : hr_fill(t->queue, at, real ? 0x3c : 0, hr_meta_bytes(meta));
}

static hr_status lay_out_set(trial *t, uint32_t set) {
    const hr_addr at = t->at + HEAD + set * t->bytes;
    hr_addr *addr = t->addrs + (size_t)set * t->operand_count;
    hri_gpu_call *calls = t->calls + (size_t)set * t->count;
    uint64_t filled = 0; /* what lies below has its numbers */
    hr_status status = HR_OK;
    const uint64_t *offset = t->offsets;
    for (uint32_t i = 0; i < t->count && status == HR_OK; i++) {
        const hri_sig *s = t->ops[i].sig;
        const uint64_t workspace = workspace_of(t, i);
        for (uint32_t k = 0; k < operands_of(s); k++) {
            addr[k] = at + offset[k];
            const int takes = k + 1 < operands_of(s) && hr_meta_bytes(meta_of(s, k)) > 0;
            if (!takes || offset[k] < filled) {
                continue;
            }
            filled = offset[k] + 1;
            if (k < s->in_count && status == HR_OK) {
                status = fill_input(t, s, &s->in[k], addr[k]);
            }
        }
        calls[i] = (hri_gpu_call){.gpu = hri_engine_gpu(t->engine),
                                  .kernel = kernel_of(t, i),
                                  .sig = s,
                                  .in = addr,
                                  .out = addr + s->in_count,
                                  .workspace = workspace ? addr[operands_of(s) - 1] : 0,
                                  .workspace_bytes = workspace,
                                  .control = t->at,
                                  .variant = t->variant};
        addr += operands_of(s);
        offset += operands_of(s);
    }
    return status;
}

/* The control block and room for digests come first. */
static hr_status lay_out(trial *t) {
    t->addrs = hri_calloc((size_t)t->sets * t->operand_count, sizeof *t->addrs);
    t->calls = hri_calloc((size_t)t->sets * t->count, sizeof *t->calls);
    hr_status status = t->addrs && t->calls ? HR_OK : HR_E_NOMEM_HOST;
    status = status == HR_OK ? hr_fill(t->queue, t->at, 0, sizeof(hri_gpu_control)) : status;
    for (uint32_t i = 0; i < t->sets && status == HR_OK; i++) {
        status = lay_out_set(t, i);
    }
    return status;
}

/* ---- running ---- */

static hr_status launch(trial *t, uint32_t count) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < count && status == HR_OK; i++) {
        status = hri_op_launch_many(t->calls + (size_t)(i % t->sets) * t->count, t->count);
    }
    return status;
}

/* The time of `count` launches together, or of one of the graph. */
static hr_status run(trial *t, uint32_t count, double *out_ns) {
    uint64_t ns = 0;
    hr_status status = hr_event_mark(t->events[0], t->queue);
    if (status == HR_OK) {
        status =
            t->graph ? hri_gpu_graph_launch(hri_engine_gpu(t->engine), t->graph) : launch(t, count);
    }
    status = status == HR_OK ? hr_event_mark(t->events[1], t->queue) : status;
    const hr_status synced = hr_queue_sync(t->queue);
    status = status == HR_OK ? synced : status;
    status = status == HR_OK ? hr_event_elapsed(t->events[0], t->events[1], &ns) : status;
    *out_ns = (double)ns;
    return status;
}

/* Launches as a step has them, captured: between those made one by one there are gaps that no step has.  Where that cannot be
 * done they are made one by one. */
static void capture(trial *t, uint32_t count) {
    hri_gpu *gpu = hri_engine_gpu(t->engine);
    if (hri_gpu_capture_begin(gpu) != HR_OK) {
        return;
    }
    if (launch(t, count) != HR_OK) {
        hri_gpu_capture_drop(gpu);
    } else if (hri_gpu_capture_end(gpu, &t->graph) != HR_OK) {
        t->graph = NULL;
    }
}

/* Do its operations take longer than its bytes? */
static int is_dense(const trial *t) {
    const hri_cost cost = hri_op_cost(t->ops[0].sig);
    return t->count == 1 && cost.flops > dense_flops_per_byte * cost.bytes;
}

static hr_status time_many(trial *t, uint32_t count, double *out_ns) {
    capture(t, count);
    hr_status status = run(t, count, out_ns);
    double spent = *out_ns, sum = 0; /* of the runs in the second half */
    uint32_t runs = 0;
    while (t->graph && status == HR_OK && runs < MOST_TURNS &&
           (!runs || (spent < dense_ns && is_dense(t)))) {
        status = run(t, count, out_ns); /* the first one has warmed up */
        spent += *out_ns;
        if (spent >= dense_ns / 2 || !is_dense(t) || *out_ns <= 0) {
            sum += *out_ns;
            runs++;
        }
    }
    if (t->graph) {
        hri_gpu_graph_destroy(hri_engine_gpu(t->engine), t->graph);
        t->graph = NULL;
    }
    *out_ns = (runs ? sum / runs : *out_ns) / count;
    return status;
}

static double time_it(trial *t, int once) {
    hr_device *device = hri_engine_device(t->engine);
    double ns = 0;
    hr_status status = hr_event_create(device, &t->events[0]);
    status = status == HR_OK ? hr_event_create(device, &t->events[1]) : status;
    status = status == HR_OK ? run(t, 1, &ns) : status; /* compiles, loads and chooses */
    if (!once && status == HR_OK) {
        status = lay_out_set(t, 0); /* choosing has left other numbers there */
        status = status == HR_OK ? run(t, 1, &ns) : status;
        const double fit = ns > 0 ? long_ns / ns : MOST_RUNS;
        const uint32_t count = fit >= MOST_RUNS ? MOST_RUNS : (uint32_t)fit;
        if (status == HR_OK && count > 1) {
            status = time_many(t, count, &ns);
        }
    }
    hr_event_destroy(t->events[0]);
    hr_event_destroy(t->events[1]);
    return status != HR_OK ? -1 : once ? 0 : ns;
}

static uint32_t sets_of(uint64_t bytes, uint64_t most_bytes) {
    const uint64_t few = bytes ? cold_bytes / bytes + 1 : 1, most = bytes ? most_bytes / bytes : 1;
    const uint64_t sets = few < most ? few : most;
    return sets < 1 ? 1 : sets > MOST_SETS ? MOST_SETS : (uint32_t)sets;
}

static double try_it(trial *t, uint64_t most_bytes, int once) {
    hri_gpu *gpu = hri_engine_gpu(t->engine);
    const uint64_t left = most_bytes > HEAD ? most_bytes - HEAD : 0;
    if (place(t) != HR_OK || t->bytes > left) {
        return -1;
    }
    t->sets = once ? 1 : sets_of(t->bytes, left);
    if (hri_engine_scratch(t->engine, HEAD + t->sets * t->bytes, &t->at) != HR_OK) {
        return -1;
    }
    hri_gpu_use(gpu, t->queue);
    if (lay_out(t) != HR_OK) {
        return -1;
    }
    hri_gpu_trial(gpu, t->at + ALIGN);
    const double ns = time_it(t, once);
    hri_gpu_trial(gpu, 0);
    return ns;
}

static double try_all(hri_engine *engine, const hri_trial_op *ops, uint32_t count, uint32_t variant,
                      uint64_t most_bytes, int once) {
    trial t = {.engine = engine,
               .queue = hri_engine_queue(engine, HRI_ENGINE_COMPUTE),
               .ops = ops,
               .count = count,
               .variant = variant,
               .timed = !once};
    const double ns = try_it(&t, most_bytes, once);
    hri_free(t.offsets);
    hri_free(t.addrs);
    hri_free(t.calls);
    return ns;
}

double hri_trial_time(hri_engine *engine, const hri_sig *s, uint32_t variant, uint64_t most_bytes,
                      int once) {
    const hri_trial_op op = {.sig = s};
    return try_all(engine, &op, 1, variant, most_bytes, once);
}

double hri_trial_together(hri_engine *engine, const hri_trial_op *ops, uint32_t count,
                          uint64_t most_bytes, int once) {
    return try_all(engine, ops, count, 0, most_bytes, once);
}

uint64_t hri_trial_bytes(hri_engine *engine, const hri_trial_op *ops, uint32_t count) {
    trial t = {.engine = engine, .ops = ops, .count = count};
    const uint64_t bytes = place(&t) == HR_OK ? HEAD + t.bytes : UINT64_MAX;
    hri_free(t.offsets);
    return bytes;
}
