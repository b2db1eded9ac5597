/* Planning an evaluation, loading its weights, feeding it; see predictor.h. */
#include "loop/predictor.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/graph.h"
#include "fit/run_int.h"
#include "step/objective.h"

/* One graph of the run. */
typedef struct piece {
    hr_graph *g;
    hri_exec *exec;
    int64_t batch;
    hr_value logits; /* HR_NONE: there are none a sample */
    hr_meta sample;  /* of them, in f32 */
} piece;

struct hri_predictor {
    hri_supply *supply;
    hr_run *run;
    piece of[2];     /* a batch; one sample, where batch is not 0 */
    int64_t classes; /* 0: a sample is not of one class */
    int64_t row;     /* elements of the scores of one sample */
    float *scores;   /* (batch, row), or NULL */
    uint32_t fed;
    uint64_t counted; /* labels of the batch */
    uint64_t data_bytes;
    hri_numbers numbers;
};

/* ---- opening ---- */

static hr_status explain(hri_prose *why, hr_status status, const hr_error *error) {
    return hri_prose_set(why, status, "%s",
                         error->message[0] ? error->message : hr_status_text(status));
}

static hr_status build(const hri_predictor_options *o, int64_t batch, hr_graph **out,
                       hri_prose *why) {
    hr_train_options options = {.size = sizeof options};
    hr_error error = {0};
    char text[64];
    const hri_objective objective = {.build = hr_model_build,
                                     .user = o->model,
                                     .passes = o->passes,
                                     .eval_pixels = o->pixels,
                                     .loss = o->checkpoint->about.loss,
                                     .wide = strcmp(o->checkpoint->about.precision, "f32") != 0};
    snprintf(text, sizeof text, "precision=%s", o->checkpoint->about.precision);
    hr_status status = hr_train_options_parse(text, &options, &error);
    if (status == HR_OK) {
        status = hr_step_build(&options, hri_objective_build, (void *)(uintptr_t)&objective,
                               HR_STEP_EVALUATE, batch, out, &error);
    }
    return status == HR_OK ? HR_OK : explain(why, status, &error);
}

/* Scores that can be read: one row a sample, or a block of any shape where outputs are asked for. */
static void find_scores(piece *x, int outputs) {
    x->logits = hr_graph_find(x->g, "logits");
    const hr_meta *meta = &x->g->values[x->logits].meta;
    const int32_t rank = meta->shape.rank;
    if (x->logits != HR_NONE && (!hr_type_is_real(meta->type) || rank < 1 ||
                                 (rank != 2 && !outputs) || meta->shape.dim[0] != x->batch)) {
        x->logits = HR_NONE;
    }
    if (x->logits != HR_NONE) {
        x->sample = (hr_meta){HR_TYPE_F32, hr_shape_from(rank - 1, meta->shape.dim + 1)};
    }
}

static hr_status make_scores(hri_predictor *i, hri_prose *why) {
    const piece *x = &i->of[0];
    if (x->logits == HR_NONE) {
        return HR_OK;
    }
    i->row = hr_shape_count(&x->sample.shape);
    i->classes = x->sample.shape.rank == 1 ? i->row : 0;
    const size_t count = (size_t)(x->batch * i->row);
    i->scores = hri_calloc(count ? count : 1, sizeof *i->scores);
    if (!i->scores) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for the scores");
    }
    memset(i->scores, 1, count * sizeof *i->scores); /* resident before the run measures what is */
    return HR_OK;
}

static hr_status open_run(hri_predictor *i, const hri_predictor_options *o, hri_prose *why) {
    const hr_graph *graphs[] = {i->of[0].g, i->of[1].g};
    hr_error error = {0};
    const hr_run_options options = {.size = sizeof options,
                                    .device = o->device,
                                    .graphs = graphs,
                                    .graph_count = i->of[1].g ? 2 : 1,
                                    .budget_bytes = o->budget_bytes,
                                    .threads = o->threads,
                                    .budget = o->ledger,
                                    .wait_ms = o->wait_ms,
                                    .name = o->name};
    const hr_status status = hri_run_open_beside(&options, o->data_bytes, &i->run, &error);
    if (status == HR_E_NO_PLAN && o->minimum_bytes) {
        *o->minimum_bytes = error.wanted_bytes;
    }
    if (status != HR_OK) {
        return explain(why, status, &error);
    }
    i->of[0].exec = hri_run_exec(i->run, 0);
    i->of[1].exec = hri_run_exec(i->run, 1);
    const piece *x = &i->of[0];
    if (x->logits != HR_NONE && !hri_exec_holds(x->exec, x->logits)) {
        hri_free(i->scores); /* a model that makes its loss without whole scores */
        i->scores = NULL;
    }
    return HR_OK;
}

static hr_status put(void *predictor, hr_value v, uint64_t at, const void *from, uint64_t bytes) {
    return hri_exec_put(((hri_predictor *)predictor)->of[0].exec, v, at, from, bytes);
}

static hr_status open_with(hri_predictor *i, const hri_predictor_options *o, int64_t batch,
                           hri_prose *why) {
    hr_status status = HR_OK;
    i->supply = o->supply;
    i->data_bytes = o->data_bytes;
    for (int k = 0; k < (o->single && batch > 1 ? 2 : 1) && status == HR_OK; k++) {
        i->of[k].batch = k ? 1 : batch;
        status = build(o, i->of[k].batch, &i->of[k].g, why);
        if (status == HR_OK) {
            find_scores(&i->of[k], o->outputs);
        }
    }
    if (status == HR_OK) {
        status = make_scores(i, why);
    }
    if (status == HR_OK) {
        status = open_run(i, o, why);
    }
    if (status == HR_OK) {
        const hri_values to = {.put = put,
                               .user = i,
                               .buffer_bytes =
                                   hri_exec_overlaps(i->of[0].exec) ? UINT64_C(64) << 20 : 0};
        status = hri_checkpoint_load(o->checkpoint, i->of[0].g, &to, HRI_CHECKPOINT_WEIGHTS, why);
    }
    return status;
}

hr_status hri_predictor_open(const hri_predictor_options *o, hri_predictor **out, hri_prose *why) {
    int64_t batch = o->batch ? o->batch : HRI_PREDICTOR_BATCH;
    while (!o->batch && batch > 1 && (uint64_t)batch / 2 >= o->count) {
        batch /= 2;
    }
    for (;; batch /= 2) {
        hri_predictor *i = hri_calloc(1, sizeof *i);
        if (!i) {
            return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for inference");
        }
        const hr_status status = open_with(i, o, batch, why);
        if (status == HR_OK) {
            *out = i;
            return HR_OK;
        }
        hri_predictor_close(i);
        if (status != HR_E_NO_PLAN || batch == 1) {
            return status;
        }
    }
}

void hri_predictor_close(hri_predictor *i) {
    if (i) {
        hr_run_close(i->run);
        hr_graph_destroy(i->of[0].g);
        hr_graph_destroy(i->of[1].g);
        hri_free(i->scores);
        hri_free(i);
    }
}

/* ---- running ---- */

void hri_predictor_set_supply(hri_predictor *i, hri_supply *supply) {
    i->supply = supply;
}

static hr_status read_number(const piece *x, const char *name, float *out) {
    const hr_value v = hr_graph_find(x->g, name);
    *out = NAN;
    return v != HR_NONE && hri_exec_holds(x->exec, v)
               ? hri_exec_get(x->exec, v, 0, out, sizeof *out)
               : HR_OK;
}

static hr_status read_scores(hri_predictor *i, const piece *x) {
    return hri_exec_get_reals(x->exec, x->logits, i->scores, (uint64_t)(x->batch * i->row));
}

static hr_status read_results(hri_predictor *i, const piece *x) {
    i->numbers = (hri_numbers){.norm = NAN, .rate = NAN, .counted = i->counted};
    hr_status status = read_number(x, "loss", &i->numbers.loss);
    if (status == HR_OK) {
        status = read_number(x, "accuracy", &i->numbers.accuracy);
    }
    if (status == HR_OK) {
        status = read_number(x, "top5", &i->numbers.top5);
    }
    if (status == HR_OK && i->scores) {
        status = read_scores(i, x);
    }
    return status;
}

static hr_status feed(hri_predictor *i, const piece *x, hri_prose *why) {
    const hri_planned_run run = {.exec = x->exec,
                                 .g = x->g,
                                 .samples = (uint32_t)x->batch,
                                 .evaluate = 1,
                                 .counted = &i->counted};
    return hri_supply_feed(i->supply, &run, &i->fed, why);
}

hr_status hri_predictor_next(hri_predictor *i, hri_prose *why) {
    size_t which = 0;
    hr_status status = feed(i, &i->of[0], why);
    if (status == HR_E_AGAIN && i->of[1].g) {
        which = 1;
        status = feed(i, &i->of[1], why);
    }
    if (status != HR_OK) {
        return status;
    }
    status = hri_run_fed(i->run, which);
    if (status != HR_OK) {
        hr_error error;
        hr_run_error(i->run, &error);
        return explain(why, status, &error);
    }
    status = read_results(i, &i->of[which]);
    return status == HR_OK ? HR_OK
                           : hri_prose_set(why, status, "reading the results failed: %s",
                                           hr_status_text(status));
}

uint32_t hri_predictor_fed(const hri_predictor *i) {
    return i->fed;
}

const float *hri_predictor_scores(const hri_predictor *i) {
    return i->classes ? i->scores : NULL;
}

const float *hri_predictor_output(const hri_predictor *i, hr_meta *meta) {
    *meta = i->of[0].sample;
    return i->scores;
}

int64_t hri_predictor_classes(const hri_predictor *i) {
    return i->classes;
}

hri_numbers hri_predictor_numbers(const hri_predictor *i) {
    return i->numbers;
}

hr_status hri_predictor_get(hri_predictor *i, const char *name, void *to, uint64_t bytes) {
    return hr_run_get(i->run, 0, name, to, bytes);
}

int64_t hri_predictor_batch(const hri_predictor *i) {
    return i->of[0].batch;
}

void hri_predictor_report(const hri_predictor *i, hr_run_report *out) {
    hr_run_get_report(i->run, out);
    out->budget_bytes += out->budget_bytes ? i->data_bytes : 0;
    out->runtime_bytes += i->data_bytes;
    out->peak_bytes += i->data_bytes;
    out->floor_bytes += i->data_bytes;
    out->unplanned_bytes += i->data_bytes;
}
