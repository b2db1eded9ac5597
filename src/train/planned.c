/* The loop over parts; see planned.h. */
#include "train/planned.h"

#include <string.h>

#include "base/alloc.h"
#include "train/synthetic.h"

typedef struct piece {
    hri_exec *exec;
    int64_t samples;
} piece;

struct hri_planned {
    hri_planned_options o;
    hri_runner *runner;
    piece part, last; /* part.exec is NULL when the batch is trained whole */
    hr_step_state state;
};

static void sort_pieces(hri_planned *p, const hri_fit_plans *plans) {
    for (uint32_t i = 0; i < plans->c->count; i++) {
        const hri_fit_piece *from = &plans->c->pieces[i];
        piece *to = from->kind == HR_STEP_PART ? &p->part : &p->last;
        if (from->kind != HR_STEP_EVALUATE) {
            *to = (piece){hri_runner_exec(p->runner, i), from->samples};
        }
    }
}

hr_status hri_planned_open(const hri_planned_options *options, hri_planned **out, hri_prose *why) {
    hri_planned *p = hri_calloc(1, sizeof *p);
    if (!p) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "no host memory to run the plan");
    }
    p->o = *options;
    hri_runner_options o = {
        .device = options->device, .threads = options->threads, .seed = options->seed};
    hri_fit_runner(options->plans, &o);
    const hr_status status = hri_runner_open(&o, &p->runner, why);
    if (status != HR_OK) {
        hri_free(p);
        return status;
    }
    sort_pieces(p, options->plans);
    p->o.plans = NULL; /* the caller frees them */
    hr_step_state_init(&options->job->options, &p->state);
    *out = p;
    return HR_OK;
}

hr_status hri_planned_take(hri_planned *p, hri_prose *why) {
    return hri_runner_take(p->runner, why);
}

void hri_planned_close(hri_planned *p) {
    if (p) {
        hri_runner_close(p->runner);
        hri_free(p);
    }
}

static void put(const piece *x, const char *name, float number) {
    const hr_value v = hr_graph_find(hri_exec_graph(x->exec), name);
    void *data = v != HR_NONE ? hri_exec_data(x->exec, v) : NULL;
    if (data) {
        memcpy(data, &number, sizeof number);
    }
}

static float get(const piece *x, const char *name, float otherwise) {
    const hr_value v = hr_graph_find(hri_exec_graph(x->exec), name);
    const void *data = v != HR_NONE ? hri_exec_data(x->exec, v) : NULL;
    if (data) {
        memcpy(&otherwise, data, sizeof otherwise);
    }
    return otherwise;
}

/* The model's inputs, samples first_sample and on. */
static void feed(hri_planned *p, const piece *x, int64_t first_sample) {
    const hr_graph *g = hri_exec_graph(x->exec);
    const uint64_t step = p->o.cycle ? p->state.step % p->o.cycle : p->state.step;
    uint32_t k = 0;
    for (hr_value v = 1; v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        if (value->kind != HR_VALUE_INPUT || !strncmp(value->name, "train.", 6)) {
            continue;
        }
        void *data = hri_exec_data(x->exec, v);
        const int done = data && p->o.fill &&
                         p->o.fill(p->o.fill_user, value->name, &value->meta, step,
                                   (uint32_t)first_sample, data);
        if (data && !done) {
            hri_synthetic_fill(&value->meta, p->o.seed, (uint32_t)step, k, (uint32_t)first_sample,
                               p->o.limit, data);
        }
        k++;
    }
}

static hr_status run_piece(hri_planned *p, const piece *x, int64_t first_sample, double *loss,
                           hri_prose *why) {
    const hr_step_feed next = hr_step_next(&p->o.job->options, &p->state);
    const double share = (double)x->samples / (double)p->o.job->batch;
    put(x, "train.rate", next.rate);
    put(x, "train.update", next.update);
    put(x, "train.scale", next.scale);
    put(x, "train.weight", (float)x->samples / (float)p->o.job->batch);
    put(x, "train.first", first_sample == 0 ? 1.0f : 0.0f);
    feed(p, x, first_sample);
    hri_exec_sample(x->exec, (uint32_t)first_sample);
    uint32_t node = 0;
    const hr_status status = hri_exec_run(x->exec, (uint32_t)p->state.step, &node);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "step %llu, %s: %s", (unsigned long long)p->state.step,
                             hri_exec_graph(x->exec)->nodes[node].name, hr_status_text(status));
    }
    *loss += (double)get(x, "loss", 0.0f) * (p->part.exec ? share : 1.0);
    return HR_OK;
}

hr_status hri_planned_step(hri_planned *p, float *loss, hri_prose *why) {
    const int64_t all = p->o.job->batch;
    double sum = 0.0;
    hr_status status = HR_OK;
    int64_t at = 0;
    for (; at < all - p->last.samples && status == HR_OK; at += p->part.samples) {
        status = run_piece(p, &p->part, at, &sum, why);
    }
    if (status == HR_OK) {
        status = run_piece(p, &p->last, at, &sum, why);
    }
    if (status == HR_OK) {
        *loss = (float)sum;
        hr_step_done(&p->o.job->options, &p->state, get(&p->last, "train.factor", 1.0f), p->o.log,
                     p->o.log_user);
    }
    return status;
}

void hri_planned_measure(hri_planned *p, hri_measured *out) {
    hri_runner_measure(p->runner, out);
}

const hr_graph *hri_planned_graph(const hri_planned *p) {
    return hri_exec_graph(p->last.exec);
}

void *hri_planned_memory(void *planned, hr_value value) {
    return hri_exec_data(((hri_planned *)planned)->last.exec, value);
}
