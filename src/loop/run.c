/* The small trainer: one graph for the whole batch, or two or three for its parts, over shared memory. */
#include "loop/run.h"

#include <stdio.h>
#include <string.h>

#include "step/options.h"
#include "step/share.h"
#include "step/synthetic.h"

typedef struct piece {
    hr_graph *g;
    hri_interp *it;
    int64_t samples;
} piece;

typedef struct trainer {
    const hri_interp_job *job;
    piece part, last; /* part.g is NULL when the batch is trained whole */
    hr_step_state state;
} trainer;

static hr_status open_piece(trainer *t, piece *p, hr_step_kind kind, int64_t samples,
                            hri_interp *base, hr_error *why) {
    const hri_interp_job *job = t->job;
    hr_status status =
        hr_step_build(&job->options, job->build, job->user, kind, samples, &p->g, why);
    if (status == HR_OK) {
        p->samples = samples;
        const hri_interp_options options = {
            .threads = job->threads, .seed = job->seed, .base = base, .reuse = 1};
        status = hri_interp_open(p->g, &options, &p->it);
        if (status != HR_OK && why) {
            *why = (hr_error){.code = status};
            snprintf(why->message, sizeof why->message, "out of host memory to run the graph");
        }
    }
    return status;
}

static void close_piece(piece *p) {
    hri_interp_destroy(p->it);
    hr_graph_destroy(p->g);
}

static void put(piece *p, const char *name, float x) {
    const hr_value v = hr_graph_find(p->g, name);
    if (v != HR_NONE) {
        memcpy(hri_interp_data(p->it, v), &x, sizeof x);
    }
}

static float get(piece *p, const char *name, float otherwise) {
    const hr_value v = hr_graph_find(p->g, name);
    if (v != HR_NONE && hri_interp_data(p->it, v)) {
        memcpy(&otherwise, hri_interp_data(p->it, v), sizeof otherwise);
    }
    return otherwise;
}

/* The model's inputs, samples first_sample and on. */
static void feed(trainer *t, piece *p, int64_t first_sample) {
    const hri_interp_job *job = t->job;
    const uint64_t step = job->cycle ? t->state.step % job->cycle : t->state.step;
    uint32_t k = 0;
    for (hr_value v = 1; v <= hr_graph_value_count(p->g); v++) {
        const char *name = hr_graph_name(p->g, v);
        void *data = hri_interp_data(p->it, v);
        if (hr_graph_kind(p->g, v) != HR_VALUE_INPUT || !strncmp(name, "train.", 6)) {
            continue;
        }
        const hr_meta meta = hr_graph_meta(p->g, v);
        const int done =
            job->fill && job->fill(job->user, name, &meta, step, (uint32_t)first_sample, data);
        if (!done && data) {
            hri_synthetic_fill(&meta, job->seed, (uint32_t)step, k, (uint32_t)first_sample,
                               job->limit, data);
        }
        k++;
    }
}

/* Labels that count: of the input "label", or one a sample. */
static uint64_t count_labels(piece *p) {
    const hr_value v = hr_graph_find(p->g, "label");
    const void *data = v == HR_NONE ? NULL : hri_interp_data(p->it, v);
    if (!data || hr_type_is_real(hr_graph_meta(p->g, v).type)) {
        return (uint64_t)p->samples;
    }
    const hr_meta meta = hr_graph_meta(p->g, v);
    const int64_t n = hr_shape_count(&meta.shape);
    uint64_t counted = 0;
    for (int64_t i = 0; i < n; i++) {
        counted += meta.type == HR_TYPE_I64   ? ((const int64_t *)data)[i] >= 0
                   : meta.type == HR_TYPE_I32 ? ((const int32_t *)data)[i] >= 0
                                              : 1;
    }
    return counted;
}

static hr_status run_piece(trainer *t, piece *p, int64_t first_sample, hri_share *so_far,
                           double *loss, hr_error *why) {
    const hri_interp_job *job = t->job;
    const hr_step_feed next = hr_step_next(&job->options, &t->state);
    feed(t, p, first_sample);
    const hri_share_part share =
        hri_share_add(so_far, (uint64_t)job->batch, (uint64_t)p->samples, count_labels(p));
    if (!share.even && hri_train_feeds_velocity(&job->options)) {
        if (why) {
            *why = (hr_error){.code = HR_E_UNSUPPORTED};
            snprintf(why->message, sizeof why->message,
                     "micro-batches ignore different numbers of labels; set the option `ignored`");
        }
        return HR_E_UNSUPPORTED;
    }
    put(p, "train.rate", next.rate);
    put(p, "train.update", next.update);
    put(p, "train.scale", next.scale);
    put(p, "train.weight", share.weight);
    put(p, "train.first", share.first);
    hri_interp_sample(p->it, (uint32_t)first_sample);
    uint32_t node = 0;
    const hr_status status = hri_interp_run(p->it, (uint32_t)t->state.step, &node);
    if (status != HR_OK) {
        if (why) {
            *why = (hr_error){.code = status};
            snprintf(why->message, sizeof why->message, "step %llu, %s: %s",
                     (unsigned long long)t->state.step, p->g->nodes[node].name,
                     hr_status_text(status));
        }
        return status;
    }
    const hr_value v = hr_graph_find(p->g, "loss");
    const double is = hr_graph_meta(p->g, v).type == HR_TYPE_F32 ? (double)get(p, "loss", 0) : 0.0;
    *loss = share.keep * *loss + is * share.share;
    return HR_OK;
}

static hr_status run_step(trainer *t, float *loss, hr_error *why) {
    const int64_t all = t->job->batch;
    double sum = 0.0;
    hri_share so_far = {0};
    hr_status status = HR_OK;
    int64_t at = 0;
    for (; at < all - t->last.samples && status == HR_OK; at += t->part.samples) {
        status = run_piece(t, &t->part, at, &so_far, &sum, why);
    }
    if (status == HR_OK) {
        status = run_piece(t, &t->last, at, &so_far, &sum, why);
    }
    if (status == HR_OK) {
        *loss = (float)sum;
        hr_step_done(&t->job->options, &t->state, get(&t->last, "train.factor", 1.0f), t->job->log,
                     t->job->log_user);
    }
    return status;
}

static hr_status run_all(trainer *t, float *losses, hr_error *why) {
    const hri_interp_job *job = t->job;
    const int64_t part = job->part > 0 && job->part < job->batch ? job->part : job->batch;
    const int whole = part == job->batch;
    const int64_t last = job->batch - (job->batch - 1) / part * part;
    hr_status status =
        open_piece(t, &t->last, whole ? HR_STEP_WHOLE : HR_STEP_LAST, last, NULL, why);
    if (status == HR_OK && !whole) {
        status = open_piece(t, &t->part, HR_STEP_PART, part, t->last.it, why);
    }
    if (status == HR_OK && job->begin) {
        status = job->begin(job->user, t->last.g, t->last.it);
    }
    for (uint64_t s = 0; s < job->steps && status == HR_OK; s++) {
        status = run_step(t, &losses[s], why);
    }
    if (status == HR_OK && job->end) {
        status = job->end(job->user, t->last.g, t->last.it);
    }
    return status;
}

hr_status hri_train_run(const hri_interp_job *job, float *losses, hr_error *why) {
    trainer t = {.job = job};
    hr_step_state_init(&job->options, &t.state);
    const hr_status status = run_all(&t, losses, why);
    close_piece(&t.part); /* before what it shares */
    close_piece(&t.last);
    return status;
}
