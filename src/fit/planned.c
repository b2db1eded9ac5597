/* The loop over parts; see planned.h. */
#include "fit/planned_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "step/options.h"
#include "step/synthetic.h"

static void sort_pieces(hri_planned *p, const hri_fit_plans *plans) {
    for (uint32_t i = 0; i < plans->c->count; i++) {
        const hri_fit_piece *from = &plans->c->pieces[i];
        const int first = i == 0; /* the last part of a batch, or all of it */
        const int part = from->kind == HR_STEP_PART || from->kind == HR_STEP_ROUND;
        const int update = from->kind == HR_STEP_UPDATE;
        if (from->kind == HR_STEP_ROUND_LAST && !first) {
            continue; /* a member has it */
        }
        hri_planned_piece *to = update                           ? &p->update
                                : part && !first                 ? &p->part
                                : from->kind != HR_STEP_EVALUATE ? &p->last
                                : p->evaluation.exec             ? &p->single
                                                                 : &p->evaluation;
        const uint32_t index = p->o.first_piece + i;
        *to =
            (hri_planned_piece){hri_runner_exec(p->runner, index), from->samples, index, p->runner};
    }
}

/* Loss first, so that the names a step always has come first; what train.h adds for itself is none of the model's. */
static void find_metrics(hri_planned *p) {
    const hr_graph *g = hri_exec_graph(p->last.exec);
    for (uint32_t i = 0; i < g->result_count && p->metric_count < HRI_PLANNED_METRICS; i++) {
        const hri_value *v = &g->values[g->results[i].value];
        if (v->meta.shape.rank == 0 && v->meta.type == HR_TYPE_F32 &&
            strncmp(g->results[i].name, "train.", 6) != 0) {
            p->metric_names[p->metric_count++] = g->results[i].name;
        }
    }
}

hr_status hri_planned_open(const hri_planned_options *options, hri_planned **out, hri_prose *why) {
    hri_planned *p = hri_calloc(1, sizeof *p);
    if (!p) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of host memory to run the plan");
    }
    p->o = *options;
    hri_runner_options o = {.device = options->device,
                            .threads = options->threads,
                            .spill = {options->job->spill},
                            .seed = options->seed,
                            .init_mask = options->init_mask};
    hri_fit_runner(options->plans, &o);
    o.engine = options->job->engine;
    o.name = options->name;
    o.limit_bytes = options->limit_bytes;
    o.grow = options->grow;
    if (options->plans->budget_bytes) {
        o.runtime_bytes = options->plans->budget_bytes -
                          (uint64_t)options->plans->arenas * options->plans->arena_bytes;
    }
    p->runner = options->runner;
    p->owns_runner = !options->runner;
    const int shared = options->job->replicas > 1;
    const hr_status status = shared           ? hri_planned_open_members(p, &o, options->plans, why)
                             : p->owns_runner ? hri_runner_open(&o, &p->runner, why)
                                              : HR_OK;
    if (status != HR_OK) {
        hri_free(p);
        return status;
    }
    sort_pieces(p, options->plans);
    find_metrics(p);
    p->rate = NAN;
    p->o.plans = NULL; /* the caller frees them */
    hr_step_state_init(&options->job->options, &p->state);
    *out = p;
    return HR_OK;
}

hr_status hri_planned_take(hri_planned *p, hri_prose *why) {
    hr_status status = p->members ? HR_OK : hri_runner_take(p->runner, why);
    for (uint32_t i = 0; i < p->member_count && status == HR_OK; i++) {
        status = hri_runner_take(p->members[i].runner, why);
    }
    if (status == HR_OK && p->members && (status = hri_shards_begin(p)) != HR_OK) {
        return hri_prose_set(why, status, "initializing the parameters: %s",
                             hr_status_text(status));
    }
    return status;
}

void hri_planned_close(hri_planned *p) {
    if (p) {
        if (p->members) {
            hri_planned_close_members(p);
        } else if (p->owns_runner) {
            hri_runner_close(p->runner);
        }
        hri_free(p);
    }
}

/* Small inputs and results that a graph does without are left out. */
static hr_status put(const hri_planned_piece *x, const char *name, float number) {
    const hr_value v = hr_graph_find(hri_exec_graph(x->exec), name);
    return v != HR_NONE && hri_exec_holds(x->exec, v)
               ? hri_exec_put(x->exec, v, 0, &number, sizeof number)
               : HR_OK;
}

static hr_status get(const hri_planned_piece *x, const char *name, float *out) {
    const hr_value v = hr_graph_find(hri_exec_graph(x->exec), name);
    return v != HR_NONE && hri_exec_holds(x->exec, v)
               ? hri_exec_get(x->exec, v, 0, out, sizeof *out)
               : HR_OK;
}

/* One input by the rule of synthetic.h, through a buffer on the stack. */
static hr_status make_up(hri_planned *p, const hri_planned_run *run, hr_value v, uint32_t k) {
    const hr_meta *meta = &run->g->values[v].meta;
    const uint64_t width = hr_type_bytes(meta->type);
    const uint64_t samples = meta->shape.rank ? (uint64_t)meta->shape.dim[0] : 1;
    const uint64_t each = samples ? (uint64_t)hr_shape_count(&meta->shape) / samples : 0;
    uint64_t buf[HRI_SYNTHETIC_PIECE]; /* of the widest type */
    hr_status status = HR_OK;
    for (uint64_t n = 0; n < samples; n++) {
        for (uint64_t i = 0; i < each && status == HR_OK; i += HRI_SYNTHETIC_PIECE) {
            const uint64_t left = each - i;
            const uint32_t here =
                (uint32_t)(left < HRI_SYNTHETIC_PIECE ? left : HRI_SYNTHETIC_PIECE);
            hri_synthetic_piece(meta->type, p->o.seed, (uint32_t)run->step, k,
                                run->first_sample + (uint32_t)n, i, here, p->o.limit, buf);
            status = hri_exec_put(run->exec, v, (n * each + i) * width, buf, here * width);
        }
    }
    return status;
}

/* Labels of a piece: as many as its input has, or one a sample. */
static uint64_t labels_of(const hri_planned_piece *x) {
    const hr_graph *g = hri_exec_graph(x->exec);
    const hr_value label = hr_graph_find(g, "label");
    return label != HR_NONE && g->values[label].kind == HR_VALUE_INPUT
               ? (uint64_t)hr_shape_count(&g->values[label].meta.shape)
               : (uint64_t)x->samples;
}

/* The model's inputs, samples first_sample and on. */
static hr_status feed(hri_planned *p, const hri_planned_piece *x, uint64_t step,
                      int64_t first_sample, uint64_t *counted, hri_prose *why) {
    *counted = labels_of(x);
    const hri_planned_run run = {.exec = x->exec,
                                 .g = hri_exec_graph(x->exec),
                                 .step = p->o.cycle ? step % p->o.cycle : step,
                                 .first_sample = (uint32_t)first_sample,
                                 .samples = (uint32_t)x->samples,
                                 .evaluate = x == &p->evaluation || x == &p->single,
                                 .counted = counted};
    if (p->o.feed) {
        return p->o.feed(p->o.feed_user, &run, why);
    }
    uint32_t k = 0;
    hr_status status = HR_OK;
    for (hr_value v = 1; v < run.g->value_count && status == HR_OK; v++) {
        const hri_value *value = &run.g->values[v];
        if (value->kind != HR_VALUE_INPUT || !strncmp(value->name, "train.", 6)) {
            continue;
        }
        status = hri_exec_holds(x->exec, v) ? make_up(p, &run, v, k) : HR_OK;
        k++;
    }
    return status;
}

static hr_step_feed next_feed(const hri_planned *p) {
    hr_step_feed next = hr_step_next(&p->o.job->options, &p->state);
    next.rate = isnan(p->rate) ? next.rate : (float)p->rate;
    return next;
}

static hr_status put_small(hri_planned *p, const hri_planned_piece *x,
                           const hri_share_part *share) {
    const hr_step_feed next = next_feed(p);
    const struct {
        const char *name;
        float is;
    } small[] = {{"train.rate", next.rate},
                 {"train.update", next.update},
                 {"train.scale", next.scale},
                 {"train.weight", share->weight},
                 {"train.first", share->first}};
    hr_status status = HR_OK;
    for (size_t i = 0; i < sizeof small / sizeof small[0] && status == HR_OK; i++) {
        status = put(x, small[i].name, small[i].is);
    }
    return status;
}

hr_status hri_planned_read_part(hri_planned *p, const hri_planned_piece *x, hri_planned_part *out) {
    static const char *const names[] = {"loss", "accuracy", "top5"};
    hr_status status = HR_OK;
    for (int i = 0; i < 3 && status == HR_OK; i++) {
        out->numbers[i] = NAN;
        status = get(x, names[i], &out->numbers[i]);
    }
    for (uint32_t i = 0; i < p->metric_count && status == HR_OK; i++) {
        out->metrics[i] = NAN;
        status = get(x, p->metric_names[i], &out->metrics[i]);
    }
    out->busy_ns = status == HR_OK ? hri_exec_busy_ns(x->exec) : 0;
    return status;
}

void hri_planned_add_part(hri_planned *p, const hri_planned_part *part, const hri_share_part *share,
                          double sum[3], int fresh) {
    for (int i = 0; i < 3; i++) {
        sum[i] = share->keep * sum[i] + (double)part->numbers[i] * share->share;
    }
    for (uint32_t i = 0; i < p->metric_count; i++) {
        const double before = fresh ? 0.0 : share->keep * p->metrics[i];
        p->metrics[i] = before + (double)part->metrics[i] * share->share;
    }
    p->busy_ns += part->busy_ns;
}

hr_status hri_planned_feed(hri_planned *p, const hri_planned_piece *x, uint64_t step,
                           int64_t first_sample, uint64_t *counted, hri_prose *why) {
    hri_prose reason = {""};
    hr_status status = hri_runner_need(x->runner, x->index);
    if (status == HR_OK) {
        status = feed(p, x, step, first_sample, counted, &reason);
    }
    if (status == HR_OK) {
        status = hri_exec_flush(x->exec);
    }
    return status == HR_OK
               ? HR_OK
               : hri_prose_set(why, status, "inputs of step %llu: %s", (unsigned long long)step,
                               reason.text[0] ? reason.text : hr_status_text(status));
}

/* Of replicas, only the first is, and not what it folds. */
static int is_timed(const hri_planned *p, const hri_planned_piece *x) {
    return hri_planned_is_probed(p) && (x->exec == p->part.exec || x->exec == p->last.exec);
}

static hr_status run_timed(hri_planned *p, const hri_planned_piece *x) {
    const hri_planned_probe *probe = p->probe;
    probe->run(probe->user, x->exec == p->part.exec ? HRI_PLANNED_PART : HRI_PLANNED_LAST);
    const hr_status status =
        hri_exec_profile(x->exec, (uint32_t)p->state.step, probe->each, probe->user);
    if (status == HR_OK && probe->touch) {
        hri_exec_touch(x->exec, probe->touch, probe->user);
    }
    if (status == HR_OK && probe->end) {
        probe->end(probe->user);
    }
    return status;
}

hr_status hri_planned_put_piece(hri_planned *p, const hri_planned_piece *x, int64_t first_sample,
                                const hri_share_part *share, hri_prose *why) {
    const hr_status status = put_small(p, x, share);
    hri_exec_sample(x->exec, (uint32_t)first_sample);
    return status == HR_OK
               ? HR_OK
               : hri_prose_set(why, status, "inputs of step %llu: %s",
                               (unsigned long long)p->state.step, hr_status_text(status));
}

hr_status hri_planned_run_piece(hri_planned *p, const hri_planned_piece *x, int64_t first_sample,
                                const hri_share_part *share, hri_prose *why) {
    const unsigned long long step = p->state.step;
    uint32_t node = 0;
    hr_status status = hri_planned_put_piece(p, x, first_sample, share, why);
    if (status != HR_OK) {
        return status;
    }
    status =
        is_timed(p, x) ? run_timed(p, x) : hri_exec_run(x->exec, (uint32_t)p->state.step, &node);
    return status == HR_OK
               ? HR_OK
               : hri_prose_set(why, status, "%s %llu, %s: %s",
                               x == &p->evaluation || x == &p->single ? "evaluation at" : "step",
                               step, hri_exec_graph(x->exec)->nodes[node].name,
                               hr_status_text(status));
}

/* What a run gave, once it is over. */
static hr_status end_piece(hri_planned *p, const hri_planned_piece *x, const hri_share_part *share,
                           double sum[3], int fresh, hri_prose *why) {
    hri_planned_part part;
    const hr_status status = hri_planned_read_part(p, x, &part);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "step %llu failed: %s", (unsigned long long)p->state.step,
                             hr_status_text(status));
    }
    hri_planned_add_part(p, &part, share, sum, fresh);
    return HR_OK;
}

/* The first part of the next step, while the last one of this runs. */
static void feed_ahead(hri_planned *p) {
    const hri_planned_piece *x = p->part.exec ? &p->part : &p->last;
    if (p->may_ahead && p->owns_runner && !p->update.exec && hri_exec_overlaps(x->exec) &&
        p->may_ahead(p->ahead_user)) {
        p->fed = 1;
        p->fed_status = hri_planned_feed(p, x, p->state.step + 1, 0, &p->fed_counted, &p->fed_why);
    }
}

hr_status hri_planned_skip(hri_planned *p, int64_t samples, uint64_t step, int64_t first_sample,
                           hri_prose *why) {
    const hri_planned_run run = {
        .step = step, .first_sample = (uint32_t)first_sample, .samples = (uint32_t)samples};
    return p->o.feed ? p->o.feed(p->o.feed_user, &run, why) : HR_OK;
}

static hr_status feed_first(hri_planned *p, const hri_planned_piece *x, uint64_t *counted,
                            hri_prose *why) {
    if (!p->fed) {
        return hri_planned_feed(p, x, p->state.step, 0, counted, why);
    }
    p->fed = 0;
    *counted = p->fed_counted;
    return p->fed_status == HR_OK ? HR_OK
                                  : hri_prose_set(why, p->fed_status, "%s", p->fed_why.text);
}

hr_status hri_planned_check_even(const hri_planned *p, const hri_share_part *share,
                                 hri_prose *why) {
    return share->even || p->o.job->keep_gradients || !hri_train_feeds_velocity(&p->o.job->options)
               ? HR_OK
               : hri_prose_set(why, HR_E_UNSUPPORTED,
                               "step %llu: its micro-batches ignore different numbers of labels, "
                               "but the plan was made for data without ignored labels",
                               (unsigned long long)p->state.step);
}

/* The share that a whole batch has of an update, and whether others came before it. */
static hr_status weigh(const hri_planned *p, hri_share_part *part, double share, int fresh,
                       hri_prose *why) {
    if (share == 1.0 && fresh) {
        return hri_planned_check_even(p, part, why);
    }
    if (!part->even && !fresh) {
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             "micro-batches that ignore different numbers of labels cannot be "
                             "added to other gradients");
    }
    part->weight = (float)((double)part->weight * share);
    part->first = fresh ? part->first : 0.0f;
    return HR_OK;
}

/* The inputs of a part travel while the part before it runs, where the device can do both at once. */
static hr_status run_parts(hri_planned *p, double whole_share, int fresh, double sum[3],
                           uint64_t *labels, hri_prose *why) {
    const int64_t all = p->o.job->batch;
    int64_t at = 0;
    uint64_t counted = 0;
    hri_share so_far = {0};
    const hri_planned_piece *x = p->part.exec ? &p->part : &p->last;
    hr_status status = feed_first(p, x, &counted, why);
    while (x && status == HR_OK) {
        const int64_t next_at = at + x->samples;
        const hri_planned_piece *next = next_at >= all                    ? NULL
                                        : next_at < all - p->last.samples ? &p->part
                                                                          : &p->last;
        const int ahead = next && hri_exec_overlaps(next->exec);
        hri_share_part share = hri_share_add(&so_far, (uint64_t)all, (uint64_t)x->samples, counted);
        status = weigh(p, &share, whole_share, fresh, why);
        if (status == HR_OK) {
            status = hri_planned_run_piece(p, x, at, &share, why);
        }
        if (status == HR_OK && ahead) {
            status = hri_planned_feed(p, next, p->state.step, next_at, &counted, why);
        } else if (status == HR_OK && !next) {
            feed_ahead(p);
        }
        if (status == HR_OK) {
            status = end_piece(p, x, &share, sum, at == 0, why);
        }
        if (status == HR_OK && next && p->tick) {
            status = p->tick(p->tick_user);
        }
        if (status == HR_OK && next && !ahead) {
            status = hri_planned_feed(p, next, p->state.step, next_at, &counted, why);
        }
        x = next;
        at = next_at;
    }
    *labels = so_far.counted;
    return status;
}

/* What the run that updated the parameters says, and what the host counts. */
static hr_status end_step(hri_planned *p, const hri_planned_piece *x, hri_numbers *out) {
    float factor = 1.0f;
    out->rate = next_feed(p).rate;
    hr_status status = get(x, "train.factor", &factor);
    if (status == HR_OK) {
        status = get(x, "train.norm", &out->norm);
    }
    if (status == HR_OK) {
        out->skipped = hr_step_done(&p->o.job->options, &p->state, factor, p->o.log, p->o.log_user);
    }
    return status;
}

static hri_numbers numbers_of(const hri_planned *p, const double sum[3], uint64_t counted) {
    return (hri_numbers){.loss = (float)sum[0],
                         .accuracy = (float)sum[1],
                         .top5 = (float)sum[2],
                         .norm = NAN,
                         .rate = NAN,
                         .counted = counted,
                         .busy_ns = p->busy_ns};
}

hr_status hri_planned_backward(hri_planned *p, double share, int fresh, hri_numbers *out,
                               hri_prose *why) {
    double sum[3] = {0};
    uint64_t counted = 0;
    p->busy_ns = 0;
    const hr_status status = run_parts(p, share, fresh, sum, &counted, why);
    if (status == HR_OK) {
        *out = numbers_of(p, sum, counted);
    }
    return status;
}

hr_status hri_planned_apply(hri_planned *p, hri_numbers *out, hri_prose *why) {
    const hri_share_part whole = {.share = 1.0, .keep = 1.0, .weight = 1.0f, .first = 1.0f};
    hr_status status = hri_runner_need(p->runner, p->update.index);
    if (status == HR_OK) {
        status = hri_planned_run_piece(p, &p->update, 0, &whole, why);
    }
    return status == HR_OK ? end_step(p, &p->update, out) : status;
}

static hr_status run_shared(hri_planned *p, hri_numbers *out, hri_prose *why) {
    double sum[3] = {0};
    uint64_t counted = 0;
    p->busy_ns = 0;
    const hri_planned_piece *end = NULL;
    const hr_status status = hri_shards_run(p, sum, &counted, &end, why);
    if (status != HR_OK) { /* all ranks see the end of the data, or that one of them has ended */
        if (p->o.net && status != HR_E_EOF && status != HR_E_PEER) {
            hri_net_stop(p->o.net, status, "rank %u failed in step %llu: %s", p->rank,
                         (unsigned long long)p->state.step, why->text);
        }
        return status;
    }
    *out = numbers_of(p, sum, counted);
    return end_step(p, end, out);
}

static void keep_time(hri_planned *p, uint64_t ns) {
    if (p->steps_seen >= HRI_PLANNED_WARM) {
        p->steps_ns[(p->steps_seen - HRI_PLANNED_WARM) % HRI_PLANNED_STEPS] = ns;
    }
    p->steps_seen++;
}

static int by_time(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

uint64_t hri_planned_step_ns(const hri_planned *p) {
    uint64_t sorted[HRI_PLANNED_STEPS];
    const uint64_t kept = p->steps_seen > HRI_PLANNED_WARM ? p->steps_seen - HRI_PLANNED_WARM : 0;
    const size_t count = kept < HRI_PLANNED_STEPS ? (size_t)kept : HRI_PLANNED_STEPS;
    if (count < HRI_PLANNED_ENOUGH || p->members) {
        return 0;
    }
    memcpy(sorted, p->steps_ns, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_time);
    return sorted[count / 2];
}

hr_status hri_planned_step(hri_planned *p, hri_numbers *out, hri_prose *why) {
    hri_numbers n;
    const int probed = hri_planned_is_probed(p);
    hr_status status =
        p->members ? run_shared(p, &n, why) : hri_planned_backward(p, 1.0, 1, &n, why);
    if (status == HR_OK && !p->members) {
        status = p->update.exec ? hri_planned_apply(p, &n, why) : end_step(p, &p->last, &n);
    }
    if (status == HR_OK) {
        *out = n;
    }
    if (status == HR_OK && !probed) {
        keep_time(p, n.busy_ns);
    }
    return status;
}

hr_status hri_planned_evaluate(hri_planned *p, hri_numbers *out, hri_prose *why) {
    double sum[3] = {0};
    uint64_t counted = 0;
    const hri_share_part whole = {.share = 1.0, .keep = 1.0, .weight = 1.0f, .first = 1.0f};
    if (!p->evaluation.exec) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "evaluation was not planned");
    }
    const hri_planned_piece *x = &p->evaluation;
    const int gathers = p->shard == HRI_SHARD_WEIGHTS;
    hr_status status = gathers ? hri_shards_meet(p, why) : hri_planned_all_here(p, why);
    if (status == HR_OK) {
        status = hri_planned_feed(p, x, p->state.step, 0, &counted, why);
    }
    if (status == HR_E_AGAIN && p->single.exec) {
        x = &p->single;
        status = hri_planned_feed(p, x, p->state.step, 0, &counted, why);
    }
    if (status == HR_OK) {
        status =
            gathers ? hri_shards_evaluate(p, x, why) : hri_planned_run_piece(p, x, 0, &whole, why);
    }
    if (status == HR_OK) {
        p->evaluated = x;
        status = end_piece(p, x, &whole, sum, 1, why);
    }
    if (status == HR_OK) {
        *out = (hri_numbers){.loss = (float)sum[0],
                             .accuracy = (float)sum[1],
                             .top5 = (float)sum[2],
                             .norm = NAN,
                             .rate = NAN,
                             .counted = counted};
    }
    return status;
}

int64_t hri_planned_evaluate_samples(const hri_planned *p) {
    return p->evaluation.exec ? p->evaluation.samples : 0;
}

int hri_planned_has_single(const hri_planned *p) {
    return p->single.exec != NULL;
}

const char *hri_planned_metric(const hri_planned *p, size_t index, double *out) {
    if (index >= p->metric_count) {
        return NULL;
    }
    *out = p->metrics[index];
    return p->metric_names[index];
}

void hri_planned_set_rate(hri_planned *p, double rate) {
    p->rate = rate;
}

void hri_planned_set_tick(hri_planned *p, hri_planned_tick_fn *tick, void *user) {
    p->tick = tick;
    p->tick_user = user;
}

hr_step_state hri_planned_state(const hri_planned *p) {
    return p->state;
}

const hr_train_options *hri_planned_training(const hri_planned *p) {
    return &p->o.job->options;
}

void hri_planned_resume(hri_planned *p, const hr_step_state *state) {
    p->state = *state;
}

void hri_planned_set_probe(hri_planned *p, const hri_planned_probe *probe) {
    p->probe = probe;
}

void hri_planned_set_ahead(hri_planned *p, hri_planned_ahead_fn *may, void *user) {
    p->may_ahead = may;
    p->ahead_user = user;
}

int hri_planned_is_fed(const hri_planned *p) {
    return p->fed;
}

hri_exec *hri_planned_exec(hri_planned *p) {
    return p->last.exec;
}

/* Budgets are of each device, so of several the fullest counts; the first has as many replicas as any. */
void hri_planned_measure(hri_planned *p, hri_measured *out) {
    const uint32_t devices = p->o.engine_count ? p->o.engine_count : 1;
    hri_runner_measure(p->runner, out);
    for (uint32_t i = 1; i < p->member_count; i++) {
        hri_measured one;
        hri_runner_measure(p->members[i].runner, &one);
        out->other_bytes += one.other_bytes;
        if (i % devices == 0) {
            out->planned_bytes += one.planned_bytes;
            out->arena_bytes += one.arena_bytes;
        } else if (one.peak_bytes > out->peak_bytes) {
            out->peak_bytes = one.peak_bytes;
            out->process_bytes = one.process_bytes;
            out->runtime_bytes = one.runtime_bytes;
        }
    }
}

const hr_graph *hri_planned_graph(const hri_planned *p) {
    if (p->face) {
        return p->face;
    }
    return hri_exec_graph(p->update.exec ? p->update.exec : p->last.exec);
}

/* Where a value of that graph lies: an update alone does without what is not trained. */
static hri_exec *place_of(const hri_planned_piece *update, const hri_planned_piece *last,
                          hr_value *value) {
    if (!update->exec || hri_exec_holds(update->exec, *value)) {
        return update->exec ? update->exec : last->exec;
    }
    const hr_graph *g = hri_exec_graph(update->exec);
    *value = hr_graph_find(hri_exec_graph(last->exec), hr_graph_name(g, *value));
    return last->exec;
}

uint64_t hri_planned_band_bytes(const hri_planned *p) {
    return p->o.job->engine ? UINT64_C(64) << 20 : 0;
}

hr_status hri_planned_put(void *planned, hr_value value, uint64_t at, const void *from,
                          uint64_t bytes) {
    const hri_planned *p = planned;
    if (p->face) {
        return hri_shards_put(planned, value, at, from, bytes);
    }
    hri_exec *exec = place_of(&p->update, &p->last, &value);
    return value == HR_NONE ? HR_E_NOT_FOUND : hri_exec_put(exec, value, at, from, bytes);
}

hr_status hri_planned_get(void *planned, hr_value value, uint64_t at, void *to, uint64_t bytes) {
    const hri_planned *p = planned;
    if (p->face) {
        return hri_shards_get(planned, value, at, to, bytes);
    }
    hri_exec *exec = place_of(&p->update, &p->last, &value);
    return value == HR_NONE ? HR_E_NOT_FOUND : hri_exec_get(exec, value, at, to, bytes);
}
