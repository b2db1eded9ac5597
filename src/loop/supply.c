/* From elements to inputs; see supply.h. */
#include "loop/supply.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/prose.h"
#include "data/pipeline.h"
#include "loop/seat.h"

struct hri_supply {
    hr_pipeline *pipeline;
    int borrowed; /* the pipeline is somebody else's */
    int fills_up, dealt;
    uint64_t given; /* samples of this pass that went into whole runs */
    int one_by_one; /* what is left of this pass */
    hri_model_input want;
    char input[HR_FIELD_NAME_SIZE], label[HR_FIELD_NAME_SIZE];
    char data[128]; /* the beginning of the source's text */
    uint64_t epoch, wait_ns;
    int ended; /* the epoch before, when `begun`, else this one */
    int begun; /* this epoch began in the middle of a batch */
    int any;   /* it has given a sample */
    int no_labels;
    int until_bad;
    hr_status bad; /* of the sample behind those that the last run had */
    hri_prose bad_why;
    const int32_t *label_map;
    size_t label_count;
    void (*seen)(void *user, uint32_t index, const hr_element *sample);
    void *seen_user;
    hri_mix_options mix;
    uint64_t mix_batch;  /* 0: nothing is mixed */
    hr_element *pair[2]; /* that is mixed now; [1] NULL: the first is alone */
    hri_mix how;
    char *mixed;   /* one sample */
    float *target; /* one, (classes) */
};

static void drop_pair(hri_supply *s) {
    for (int i = 0; i < 2; i++) {
        if (s->pair[i]) {
            hr_element_unref(s->pair[i]);
        }
        s->pair[i] = NULL;
    }
}

static hr_status open_mix(hri_supply *s, const hri_supply_options *o) {
    s->mix = *o->mix;
    s->mix_batch = o->mix_batch;
    s->mixed = hri_calloc((size_t)hr_shape_count(&o->want->sample.shape), sizeof(float));
    s->target = hri_calloc((size_t)o->mix->classes, sizeof *s->target);
    return s->mixed && s->target ? HR_OK : HR_E_NOMEM_HOST;
}

hr_status hri_supply_open(const hri_supply_options *o, hri_supply **out, hri_prose *why) {
    hri_supply *s = hri_calloc(1, sizeof *s);
    hr_error error = {0};
    if (!s) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for the input");
    }
    s->want = *o->want;
    s->no_labels = o->no_labels;
    s->fills_up = o->fills_up;
    s->dealt = o->dealt;
    s->until_bad = o->until_bad;
    s->label_map = o->label_map;
    s->label_count = o->label_count;
    s->seen = o->seen;
    s->seen_user = o->seen_user;
    snprintf(s->input, sizeof s->input, "%s", o->source->input.name);
    snprintf(s->label, sizeof s->label, "%s", o->source->label.name);
    snprintf(s->data, sizeof s->data, "%s", o->source->text);
    s->borrowed = o->built != NULL;
    hr_status status = o->mix ? open_mix(s, o) : HR_OK;
    if (status != HR_OK) {
        hri_supply_close(s);
        return hri_prose_set(why, status, "out of memory for the input");
    }
    s->pipeline = o->built;
    status = o->built ? HR_OK
                      : hri_pipeline_open_with(&o->pipeline_options, o->pipeline, o->table, &error,
                                               &s->pipeline);
    if (status != HR_OK) {
        hri_supply_close(s);
        return hri_prose_set(why, status, "%s", error.message);
    }
    *out = s;
    return HR_OK;
}

void hri_supply_close(hri_supply *s) {
    if (s) {
        drop_pair(s);
        if (!s->borrowed) {
            hr_pipeline_destroy(s->pipeline);
        }
        hri_free(s->mixed);
        hri_free(s->target);
        hri_free(s);
    }
}

hr_pipeline *hri_supply_pipeline(hri_supply *s) {
    return s->pipeline;
}

int hri_supply_ended(const hri_supply *s) {
    return s->ended;
}

uint64_t hri_supply_wait_ns(const hri_supply *s) {
    return s->wait_ns;
}

static hr_status pipeline_failed(hri_supply *s, hr_status status, hri_prose *why) {
    hr_error error = {0};
    hr_pipeline_error(s->pipeline, &error);
    return hri_prose_set(why, status, "%s",
                         error.message[0] ? error.message : hr_status_text(status));
}

hr_status hri_supply_start(hri_supply *s, uint64_t epoch, hri_prose *why) {
    const hr_status status = hr_pipeline_seek(s->pipeline, epoch);
    if (status != HR_OK) {
        return pipeline_failed(s, status, why);
    }
    s->epoch = epoch;
    s->ended = s->begun = s->any = s->one_by_one = 0;
    s->given = 0;
    return HR_OK;
}

hr_status hri_supply_go_on(hri_supply *s, uint64_t epoch, hri_prose *why) {
    if (!s->begun || s->epoch != epoch) {
        return hri_supply_start(s, epoch, why);
    }
    s->ended = s->begun = 0;
    return HR_OK;
}

hr_status hri_supply_restore(hri_supply *s, const void *place, size_t bytes, uint64_t epoch,
                             hri_prose *why) {
    const hr_status status = hr_pipeline_restore(s->pipeline, place, bytes);
    if (status != HR_OK) {
        return pipeline_failed(s, status, why);
    }
    s->epoch = epoch;
    s->ended = s->begun = 0;
    s->any = 1;
    return HR_OK;
}

/* A number of the data's classes as the model numbers them. */
static hr_status put_mapped(const hri_supply *s, const hri_seat *p, const hr_field *f,
                            hri_prose *why) {
    int64_t x = -1;
    if (p->count != 1 || !hri_field_whole(f, 0, &x) || x >= (int64_t)s->label_count) {
        return hri_prose_set(why, HR_E_RANGE, "the %s of a sample is not one of %zu classes",
                             f->name, s->label_count);
    }
    const int32_t label = x < 0 ? -1 : s->label_map[x];
    hri_seat_count_labels(p, 0, &label, 1);
    return hri_seat_put(p, 0, &label, 1);
}

/* ---- one sample ---- */

static hri_seat label_seat(const hri_supply *s, const hri_planned_run *run, uint32_t index) {
    if (!s->want.label_name[0]) {
        return (hri_seat){.value = HR_NONE};
    }
    hri_seat p = hri_seat_of(s->data, run, s->want.label_name, &s->want.label, index);
    p.numbers = s->want.counts && p.type == HR_TYPE_F32;
    return p;
}

static hr_status put_no_label(const hri_seat *p) {
    return hri_seat_put_same(p, p->type == HR_TYPE_I32 || p->numbers ? 0xff : 0);
}

/* The inputs beside the first and the label; e NULL: zeros. */
static hr_status put_others(const hri_supply *s, const hri_planned_run *run, uint32_t index,
                            const hr_element *e, hri_prose *why) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < s->want.other_count && status == HR_OK; i++) {
        const hri_other_input *x = &s->want.others[i];
        hri_seat to = hri_seat_of(s->data, run, x->name, &x->sample, index);
        to.table = x->table;
        const hr_field *f = e ? hr_element_find(e, x->name) : NULL;
        if (to.value == HR_NONE) {
            continue; /* this graph does without it */
        }
        status = !e  ? hri_seat_put_same(&to, 0)
                 : f ? hri_seat_put_field(&to, f, 0, why)
                     : hri_prose_set(why, HR_E_NOT_FOUND, "a sample has no field %s", x->name);
    }
    return status;
}

static hr_status put_sample(hri_supply *s, const hri_planned_run *run, uint32_t index,
                            const hr_element *e, uint64_t *counted, hri_prose *why) {
    const hr_field *renamed = hr_element_find(e, s->want.name);
    const hr_field *input = renamed ? renamed : hr_element_find(e, s->input);
    const hr_field *label = s->label[0] ? hr_element_find(e, s->label) : NULL;
    hri_seat to = hri_seat_of(s->data, run, s->want.name, &s->want.sample, index);
    to.table = s->want.table;
    hri_seat beside = label_seat(s, run, index);
    hri_seat_counts(&beside, &s->want, counted);
    if (!input || (s->label[0] && !label && !s->no_labels)) {
        return hri_prose_set(why, HR_E_NOT_FOUND, "a sample has no field %s",
                             input ? s->label : s->input);
    }
    /* Where labels are a field of their own (a tag for each word), the classes are theirs alone. */
    const int64_t limit = hri_model_input_is_sequence(&s->want) && !label ? s->want.classes : 0;
    hr_status status = hri_seat_put_field(&to, input, limit, why);
    if (status == HR_OK) {
        status = put_others(s, run, index, e, why);
    }
    if (status != HR_OK || beside.value == HR_NONE) {
        *counted += status == HR_OK;
        return status;
    }
    if (s->no_labels) {
        return put_no_label(&beside);
    }
    if (label && s->label_map) {
        return put_mapped(s, &beside, label, why);
    }
    if (label) {
        return hri_seat_put_field(&beside, label, s->want.classes, why);
    }
    if (to.type != HR_TYPE_I32 || beside.count != to.count) {
        return hri_prose_set(why, HR_E_INVALID, "the data has no labels");
    }
    return hri_seat_put_wholes(&beside, input, 1, s->want.classes, why);
}

/* Nothing, with a label that does not count. */
static hr_status put_nothing(hri_supply *s, const hri_planned_run *run, uint32_t index) {
    const hri_seat to = hri_seat_of(s->data, run, s->want.name, &s->want.sample, index);
    const hri_seat beside = label_seat(s, run, index);
    hr_status status = hri_seat_put_same(&to, 0);
    if (status == HR_OK) {
        status = put_others(s, run, index, NULL, NULL);
    }
    return status == HR_OK && beside.value != HR_NONE ? put_no_label(&beside) : status;
}

/* ---- two samples mixed ---- */

static hr_status pull(hri_supply *s, hr_element **out, hri_prose *why) {
    const uint64_t begin = hri_clock_ns();
    const hr_status status = hr_pipeline_next(s->pipeline, out);
    s->wait_ns += hri_clock_ns() - begin;
    s->ended |= status == HR_E_EOF;
    s->any |= status == HR_OK;
    return status == HR_OK || status == HR_E_EOF ? status : pipeline_failed(s, status, why);
}

static hr_status class_of(const hri_supply *s, const hr_element *e, int64_t *out, hri_prose *why) {
    const hr_field *f = hr_element_find(e, s->label);
    return f && hri_field_whole(f, 0, out) && *out >= 0 && *out < s->mix.classes
               ? HR_OK
               : hri_prose_set(why, HR_E_INVALID,
                               "%s: samples that are mixed need labels from 0 to %lld", s->data,
                               (long long)s->mix.classes - 1);
}

/* The one of the pair that is `own`, with the other in it. */
static hr_status put_mixed(hri_supply *s, const hri_planned_run *run, uint32_t index, int own,
                           uint64_t *counted, hri_prose *why) {
    const hr_element *a = s->pair[own], *b = s->pair[1] ? s->pair[!own] : a;
    const char *name = hr_element_find(a, s->want.name) ? s->want.name : s->input;
    const hr_field *x = hr_element_find(a, name), *y = hr_element_find(b, name);
    const hri_seat to = hri_seat_of(s->data, run, s->want.name, &s->want.sample, index);
    hri_seat beside = label_seat(s, run, index);
    int64_t ids[2] = {0, 0};
    hr_status status = class_of(s, a, &ids[0], why);
    status = status == HR_OK ? class_of(s, b, &ids[1], why) : status;
    if (status == HR_OK && (!x || !y || x->bytes / hr_type_bytes(x->meta.type) != to.count)) {
        status =
            hri_prose_set(why, HR_E_SHAPE, "%s: a sample is not what the model expects", s->data);
    }
    if (status == HR_OK) {
        status = hri_mix_field(&s->how, x, y, s->mixed, why);
    }
    if (status == HR_OK) {
        hr_field f = *x;
        f.data = s->mixed;
        status = hri_seat_put_field(&to, &f, 0, why);
    }
    if (status == HR_OK) {
        status = put_others(s, run, index, a, why);
    }
    if (status != HR_OK || beside.value == HR_NONE) {
        return status;
    }
    hri_mix_target(&s->how, ids[0], ids[1], s->mix.classes, s->target);
    beside.count = (uint64_t)s->mix.classes;
    *counted += 1;
    return hri_seat_put(&beside, 0, s->target, beside.count);
}

/* Both samples of a pair are there before the first is put. */
static hr_status next_mixed(hri_supply *s, const hri_planned_run *run, uint32_t index,
                            uint64_t *counted, hri_prose *why) {
    const uint64_t at = run->first_sample + index;
    const hr_shape *shape = &s->want.sample.shape;
    const int own = (int)(at % 2) && s->pair[1];
    hr_status status = HR_OK;
    if (!own) {
        drop_pair(s);
        status = pull(s, &s->pair[0], why);
        if (status == HR_OK && at % 2 == 0 && at + 1 < s->mix_batch) {
            status = pull(s, &s->pair[1], why);
            status = status == HR_E_EOF ? HR_OK : status; /* the first is alone */
        }
        hri_mix_draw(&s->mix, (uint32_t)run->step, (uint32_t)(at / 2),
                     shape->rank == 3 ? shape->dim[0] : 1, shape->rank == 3 ? shape->dim[1] : 1,
                     &s->how);
        s->how = s->pair[1] ? s->how : (hri_mix){.share = 1};
    }
    return status == HR_OK && run->exec ? put_mixed(s, run, index, own, counted, why) : status;
}

/* The next sample; HR_E_EOF at the end of the epoch. */
static hr_status next_sample(hri_supply *s, const hri_planned_run *run, uint32_t index,
                             uint64_t *counted, hri_prose *why) {
    hr_element *e = NULL;
    if (s->mix_batch && !run->evaluate) {
        return next_mixed(s, run, index, counted, why);
    }
    hr_status status = pull(s, &e, why);
    if (status != HR_OK) {
        return status;
    }
    if (run->exec) {
        status = put_sample(s, run, index, e, counted, why);
    }
    if (status == HR_OK && run->exec && s->seen) {
        s->seen(s->seen_user, index, e);
    }
    hr_element_unref(e);
    return status;
}

static hr_status nothing_to_train_on(hri_supply *s, hri_prose *why) {
    hr_pipeline_stats stats = {.size = sizeof stats};
    hr_pipeline_get_stats(s->pipeline, &stats);
    return stats.left_over
               ? hri_prose_set(why, HR_E_INVALID,
                               "the data set has %llu sample%s, fewer than one batch",
                               (unsigned long long)stats.left_over, hri_plural(stats.left_over))
               : hri_prose_set(why, HR_E_INVALID, "the data set is empty");
}

/* Would the last samples of this pass, or those that a run of it would have, have to be filled up? */
static int is_short(const hri_supply *s, const hri_planned_run *run) {
    const uint64_t all = hr_pipeline_count(s->pipeline);
    const int known = all != HR_COUNT_UNKNOWN && s->given < all;
    return run->evaluate && run->samples > 1 && !s->want.masks && !s->fills_up &&
           (s->one_by_one || (known && all - s->given < run->samples));
}

/* A pass that ended in the middle of a run that cannot be filled up: back to the first sample of that run. */
static hr_status begin_again(hri_supply *s, hri_prose *why) {
    const uint64_t given = s->given;
    hr_status status = hri_supply_start(s, s->epoch, why);
    for (uint64_t i = 0; i < given && status == HR_OK; i++) {
        hr_element *e = NULL;
        status = hr_pipeline_next(s->pipeline, &e);
        status = status == HR_OK ? HR_OK : pipeline_failed(s, status, why);
        hr_element_unref(e);
    }
    s->given = given;
    s->one_by_one = s->any = 1;
    return status == HR_OK ? HR_E_AGAIN : status;
}

hr_status hri_supply_feed(hri_supply *s, const hri_planned_run *run, uint32_t *fed,
                          hri_prose *why) {
    uint32_t n = 0;
    uint64_t counted = 0;
    hr_status status = HR_OK;
    if (is_short(s, run)) {
        return HR_E_AGAIN;
    }
    if (s->dealt && !run->exec) {
        return HR_OK; /* nothing of theirs comes */
    }
    if (s->bad != HR_OK) {
        return hri_prose_set(why, s->bad, "%s", s->bad_why.text);
    }
    while (n < run->samples && status == HR_OK) {
        status = next_sample(s, run, n, &counted, why);
        n += status == HR_OK;
        if (status == HR_E_EOF && !run->evaluate && !s->any) {
            return nothing_to_train_on(s, why);
        }
        if (status == HR_E_EOF && !run->evaluate && (n || run->first_sample)) {
            status = hri_supply_start(s, s->epoch + 1, why);
            s->ended = s->begun = 1;
        }
    }
    if (status == HR_E_EOF && n == 0) {
        return status;
    }
    if (status != HR_OK && status != HR_E_EOF && s->until_bad && run->evaluate && n > 0) {
        s->bad = status;
        s->bad_why = why ? *why : (hri_prose){""};
        status = HR_E_EOF;
    }
    if (status == HR_E_EOF && run->evaluate && !s->want.masks && !s->fills_up) {
        return begin_again(s, why);
    }
    status = status == HR_E_EOF ? HR_OK : status;
    s->given += status == HR_OK ? n : 0;
    for (uint32_t i = n; i < run->samples && status == HR_OK; i++) {
        status = put_nothing(s, run, i);
    }
    if (status == HR_OK && fed) {
        *fed = n;
    }
    if (status == HR_OK && run->counted) {
        *run->counted = counted;
    }
    return status;
}
