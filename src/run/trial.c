/* Operands in scratch memory, captured launches between two events; see trial.h. */
#include "run/trial.h"

enum { ALIGN = 256, HEAD = ALIGN + HRI_GPU_TRIAL_BYTES, MOST_RUNS = 20, MOST_SETS = 8 };
/* Launches take turns over as many sets of operands as make up this much: in a step hardly anything is in a cache still. */
static const uint64_t cold_bytes = UINT64_C(192) << 20;
static const uint64_t many_bytes = UINT64_C(256) << 10;
static const double long_ns = 20e6; /* all runs of one kernel together take about so long at most */

typedef struct trial {
    hri_engine *engine;
    hr_queue *queue;
    const hri_sig *sig;
    const hri_kernel *kernel; /* NULL: its launch is refused */
    hr_addr in[MOST_SETS][HRI_IN_MAX], out[MOST_SETS][HRI_OUT_MAX];
    hri_gpu_call calls[MOST_SETS];
    uint32_t sets;
    int timed;
    hr_event *events[2];
    hri_gpu_graph *graph; /* NULL: launches one by one */
} trial;

static uint64_t room(uint64_t bytes) {
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Of one set of operands, with its workspace. */
static uint64_t set_bytes(const hri_sig *s, uint64_t workspace) {
    uint64_t bytes = room(workspace);
    for (uint32_t i = 0; i < s->in_count; i++) {
        bytes += room(hr_meta_bytes(&s->in[i]));
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        bytes += s->op->updates[k] ? 0 : room(hr_meta_bytes(&s->out[k]));
    }
    return bytes;
}

/* Reals differ where they are many and times are wanted; else they are bytes of 0x3c: 0.0115 in f32 and bf16, 1.06 in f16.
 * Ids are zero, which is always one. */
static hr_status fill_input(const trial *t, const hr_meta *meta, hr_addr at) {
    const int real =
        meta->type == HR_TYPE_F32 || meta->type == HR_TYPE_BF16 || meta->type == HR_TYPE_F16;
    if (real && t->timed && hr_meta_bytes(meta) >= many_bytes) {
        return hri_gpu_make_up(hri_engine_gpu(t->engine), at, meta->type,
                               (int64_t)(hr_meta_bytes(meta) / hr_type_bytes(meta->type)));
    }
    return hr_fill(t->queue, at, real ? 0x3c : 0, hr_meta_bytes(meta));
}

static hr_status lay_out_set(trial *t, uint32_t set, hr_addr control, hr_addr at, uint32_t variant,
                             uint64_t workspace) {
    const hri_sig *s = t->sig;
    hr_addr *in = t->in[set], *out = t->out[set];
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < s->in_count && status == HR_OK; i++) {
        in[i] = at;
        at += room(hr_meta_bytes(&s->in[i]));
        status = fill_input(t, &s->in[i], in[i]);
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
        out[k] = s->op->updates[k] ? in[s->op->updates[k] - 1] : at;
        at += s->op->updates[k] ? 0 : room(hr_meta_bytes(&s->out[k]));
    }
    t->calls[set] = (hri_gpu_call){.gpu = hri_engine_gpu(t->engine),
                                   .kernel = t->kernel,
                                   .sig = s,
                                   .in = in,
                                   .out = out,
                                   .workspace = workspace ? at : 0,
                                   .workspace_bytes = workspace,
                                   .control = control,
                                   .variant = variant};
    return status;
}

/* The control block and room for digests come first. */
static hr_status lay_out(trial *t, hr_addr at, uint32_t variant, uint64_t workspace) {
    const uint64_t bytes = set_bytes(t->sig, workspace);
    hr_status status = hr_fill(t->queue, at, 0, sizeof(hri_gpu_control));
    for (uint32_t i = 0; i < t->sets && status == HR_OK; i++) {
        status = lay_out_set(t, i, at, at + HEAD + i * bytes, variant, workspace);
    }
    return status;
}

static hr_status launch(trial *t, uint32_t count) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < count && status == HR_OK; i++) {
        status = hri_op_launch(&t->calls[i % t->sets]);
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

static hr_status time_many(trial *t, uint32_t count, double *out_ns) {
    capture(t, count);
    hr_status status = run(t, count, out_ns);
    if (t->graph) {
        status = status == HR_OK ? run(t, count, out_ns) : status; /* the first one warms up */
        hri_gpu_graph_destroy(hri_engine_gpu(t->engine), t->graph);
        t->graph = NULL;
    }
    *out_ns /= count;
    return status;
}

static double time_it(trial *t, int once) {
    hr_device *device = hri_engine_device(t->engine);
    double ns = 0;
    hr_status status = hr_event_create(device, &t->events[0]);
    status = status == HR_OK ? hr_event_create(device, &t->events[1]) : status;
    status = status == HR_OK ? run(t, 1, &ns) : status; /* compiles, loads and chooses */
    if (!once && status == HR_OK) {
        status = run(t, 1, &ns);
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

double hri_trial_time(hri_engine *engine, const hri_sig *s, uint32_t variant, uint64_t most_bytes,
                      int once) {
    hri_gpu *gpu = hri_engine_gpu(engine);
    const hri_kernel *kernel = hri_kernel_for(hri_gpu_kernels(gpu), s);
    const uint64_t workspace = hri_kernel_launch_workspace(kernel, s, gpu, variant);
    const uint64_t set = set_bytes(s, workspace), left = most_bytes > HEAD ? most_bytes - HEAD : 0;
    trial t = {.engine = engine,
               .queue = hri_engine_queue(engine, HRI_ENGINE_COMPUTE),
               .sig = s,
               .kernel = kernel,
               .sets = once ? 1 : sets_of(set, left),
               .timed = !once};
    hr_addr at;
    if (set > left || hri_engine_scratch(engine, HEAD + t.sets * set, &at) != HR_OK) {
        return -1;
    }
    hri_gpu_use(gpu, t.queue);
    if (lay_out(&t, at, variant, workspace) != HR_OK) {
        return -1;
    }
    hri_gpu_trial(gpu, at + ALIGN);
    const double ns = time_it(&t, once);
    hri_gpu_trial(gpu, 0);
    return ns;
}
