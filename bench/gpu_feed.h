/* The inputs of bench/gpu: one batch, made once, that serves every step and, where it is cut alike, the next budget too. */
#ifndef HRI_BENCH_GPU_FEED_H
#define HRI_BENCH_GPU_FEED_H

#include <stdlib.h>
#include <string.h>

#include "fit/planned.h"
#include "gpu_stop.h"
#include "step/synthetic.h"

typedef struct batch {
    hri_exec *exec; /* that has it; NULL: of a budget before */
    hr_value value;
    uint32_t first, number;
    uint64_t bytes;
    void *data;
} batch;

typedef struct feeder {
    batch batches[1024]; /* of each part, each input */
    uint32_t count, limit;
    int again;  /* --feed */
    int parted; /* the batch is cut: every part is fed every time */
} feeder;

static void *find_batch(feeder *f, const hri_planned_run *run, hr_value v, uint32_t k, int *known) {
    const hr_meta *meta = &run->g->values[v].meta;
    const batch this = {run->exec, v, run->first_sample, k, hr_meta_bytes(meta), NULL};
    for (uint32_t i = 0; i < f->count; i++) {
        batch *b = &f->batches[i];
        const int here = b->exec == run->exec && b->value == v && b->first == run->first_sample;
        if (here ||
            (!b->exec && b->first == this.first && b->number == k && b->bytes == this.bytes)) {
            b->exec = run->exec;
            b->value = v;
            *known = here;
            return b->data;
        }
    }
    void *data = malloc(this.bytes);
    if (!data || f->count == sizeof f->batches / sizeof f->batches[0]) {
        stop("inputs", HR_E_NOMEM_HOST, NULL);
    }
    hri_synthetic_fill(meta, 1, 0, k, run->first_sample, f->limit, data);
    f->batches[f->count] = this;
    f->batches[f->count++].data = data;
    *known = 0;
    return data;
}

/* For the next budget: what was made serves again where the batch is cut alike. */
static void feed_anew(feeder *f) {
    const int many = f->count > sizeof f->batches / sizeof f->batches[0] / 2;
    for (uint32_t i = 0; i < f->count; i++) {
        f->batches[i].exec = NULL;
        if (many) {
            free(f->batches[i].data);
        }
    }
    f->count = many ? 0 : f->count;
}

static hr_status feed(void *user, const hri_planned_run *run, hri_prose *why) {
    feeder *f = user;
    uint32_t k = 0;
    (void)why;
    for (hr_value v = 1; v < run->g->value_count; v++) {
        const hri_value *value = &run->g->values[v];
        if (value->kind != HR_VALUE_INPUT || !strncmp(value->name, "train.", 6)) {
            continue;
        }
        if (hri_exec_holds(run->exec, v)) {
            int known;
            void *data = find_batch(f, run, v, k, &known);
            const hr_status status =
                known && !f->again && !f->parted
                    ? HR_OK
                    : hri_exec_put(run->exec, v, 0, data, hr_meta_bytes(&value->meta));
            if (status != HR_OK) {
                return status;
            }
        }
        k++;
    }
    return HR_OK;
}

#endif
