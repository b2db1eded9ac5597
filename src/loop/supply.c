/* From elements to inputs; see supply.h. */
#include "loop/supply.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "data/pipeline.h"
#include "graph/half.h"

enum { PIECE = 1024 }; /* numbers converted at a time */

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

/* ---- one field ---- */

/* Element i of a field as a number of the wanted kind. */
static float real_at(const hr_field *f, uint64_t i) {
    switch (f->meta.type) {
    case HR_TYPE_F32:
        return ((const float *)f->data)[i];
    case HR_TYPE_BF16:
        return hri_from_bf16(((const hri_bf16 *)f->data)[i]);
    case HR_TYPE_F16:
        return hri_from_f16(((const hri_f16 *)f->data)[i]);
    case HR_TYPE_U8:
        return (float)((const uint8_t *)f->data)[i] / 255.0f;
    case HR_TYPE_I32:
        return (float)((const int32_t *)f->data)[i];
    default:
        return (float)((const int64_t *)f->data)[i];
    }
}

/* Where a sample goes. */
typedef struct place {
    hri_exec *exec;
    hr_value value;
    hr_type type;
    uint64_t count;    /* numbers of one sample */
    uint64_t index;    /* of the sample in the run */
    uint64_t *counted; /* of labels: gets those that count; NULL: it is no label */
    int numbers;       /* 1: targets of a loss over numbers: as they are, and NaN does not count */
    const char *data;  /* what the user calls the data */
} place;

static void count_labels(const place *p, const int32_t *labels, uint64_t n) {
    for (uint64_t i = 0; p->counted && i < n; i++) {
        *p->counted += labels[i] >= 0;
    }
}

static void count_reals(const place *p, const float *targets, uint64_t n) {
    for (uint64_t i = 0; p->counted && i < n; i++) {
        *p->counted += targets[i] == targets[i]; /* NaN is not */
    }
}

static hr_status put(const place *p, uint64_t first, const void *data, uint64_t n) {
    const uint64_t width = hr_type_bytes(p->type);
    return hri_exec_put(p->exec, p->value, (p->index * p->count + first) * width, data, n * width);
}

/* Bytes that stay bytes: the graph normalises them. */
static hr_status put_bytes(const place *p, const hr_field *f, hri_prose *why) {
    return f->meta.type == HR_TYPE_U8 ? put(p, 0, f->data, p->count)
                                      : hri_prose_set(why, HR_E_SHAPE, "field %s is %s, not u8",
                                                      f->name, hr_type_name(f->meta.type));
}

static hr_status put_reals(const place *p, const hr_field *f) {
    float piece[PIECE];
    hr_status status = HR_OK;
    if (p->counted && !p->numbers) {
        *p->counted += p->count; /* every target is one */
    }
    if (p->counted && p->numbers && f->meta.type == HR_TYPE_F32) {
        count_reals(p, f->data, p->count);
    }
    if (f->meta.type == HR_TYPE_F32) {
        return put(p, 0, f->data, p->count);
    }
    for (uint64_t at = 0; at < p->count && status == HR_OK; at += PIECE) {
        const uint64_t n = p->count - at < PIECE ? p->count - at : PIECE;
        for (uint64_t i = 0; i < n; i++) {
            piece[i] = p->numbers && f->meta.type == HR_TYPE_U8
                           ? (float)((const uint8_t *)f->data)[at + i]
                           : real_at(f, at + i);
        }
        if (p->numbers) {
            count_reals(p, piece, n);
        }
        status = put(p, at, piece, n);
    }
    return status;
}

/* Whole numbers as they are: what they mean is the model's business. */
static hr_status put_numbers(const place *p, const hr_field *f, hri_prose *why) {
    int32_t piece[PIECE];
    hr_status status = HR_OK;
    if (p->counted) {
        *p->counted += p->count; /* labels that are no classes: every one */
    }
    for (uint64_t at = 0; at < p->count && status == HR_OK; at += PIECE) {
        const uint64_t n = p->count - at < PIECE ? p->count - at : PIECE;
        for (uint64_t i = 0; i < n; i++) {
            int64_t x;
            if (!hri_field_whole(f, at + i, &x) || x < INT32_MIN || x > INT32_MAX) {
                return hri_prose_set(why, HR_E_SHAPE,
                                     "field %s has values that are not 32-bit integers", f->name);
            }
            piece[i] = (int32_t)x;
        }
        status = put(p, at, piece, n);
    }
    return status;
}

/* Whole numbers from `shift` on; behind the last one stands -1.  All must be below `limit`. */
static hr_status put_wholes(const place *p, const hr_field *f, uint64_t shift, int64_t limit,
                            hri_prose *why) {
    int32_t piece[PIECE];
    hr_status status = HR_OK;
    for (uint64_t at = 0; at < p->count && status == HR_OK; at += PIECE) {
        const uint64_t n = p->count - at < PIECE ? p->count - at : PIECE;
        for (uint64_t i = 0; i < n; i++) {
            int64_t x = -1;
            if (at + i + shift < p->count && !hri_field_whole(f, at + i + shift, &x)) {
                return hri_prose_set(why, HR_E_SHAPE, "field %s is %s, not an integer type",
                                     f->name, hr_type_name(f->meta.type));
            }
            if (x >= limit) {
                const int token = !strcmp(f->name, "tokens") || !strcmp(f->name, "targets");
                return hri_prose_set(why, HR_E_INVALID,
                                     "%s: %s %lld, number %llu of a sample, is out of range: the "
                                     "model has %lld %s (0-%lld)",
                                     p->data, token ? "token" : "label", (long long)x,
                                     (unsigned long long)(at + i + shift), (long long)limit,
                                     token ? "tokens" : "classes", (long long)limit - 1);
            }
            piece[i] = x < 0 ? -1 : (int32_t)x;
        }
        count_labels(p, piece, n);
        status = put(p, at, piece, n);
    }
    return status;
}

/* limit 0: whole numbers are no numbers of classes. */
static hr_status put_field(const place *p, const hr_field *f, int64_t limit, hri_prose *why) {
    if (f->bytes / hr_type_bytes(f->meta.type) != p->count) {
        char is[256];
        return hri_prose_set(why, HR_E_SHAPE,
                             "the %s of a sample is %s, but the model expects "
                             "%llu elements",
                             f->name, hr_meta_print(&f->meta, is, sizeof is),
                             (unsigned long long)p->count);
    }
    return p->type == HR_TYPE_U8    ? put_bytes(p, f, why)
           : p->type == HR_TYPE_F32 ? put_reals(p, f)
           : limit > 0              ? put_wholes(p, f, 0, limit, why)
                                    : put_numbers(p, f, why);
}

/* A number of the data's classes as the model numbers them. */
static hr_status put_mapped(const hri_supply *s, const place *p, const hr_field *f,
                            hri_prose *why) {
    int64_t x = -1;
    if (p->count != 1 || !hri_field_whole(f, 0, &x) || x >= (int64_t)s->label_count) {
        return hri_prose_set(why, HR_E_RANGE, "the %s of a sample is not one of %zu classes",
                             f->name, s->label_count);
    }
    const int32_t label = x < 0 ? -1 : s->label_map[x];
    count_labels(p, &label, 1);
    return put(p, 0, &label, 1);
}

/* ---- one sample ---- */

static place place_of(const char *data, const hri_planned_run *run, const char *name,
                      const hr_meta *sample, uint64_t index) {
    const hr_value value = hr_graph_find(run->g, name);
    return (place){.exec = run->exec,
                   .value = value,
                   .type = value == HR_NONE ? sample->type : run->g->values[value].meta.type,
                   .count = (uint64_t)hr_shape_count(&sample->shape),
                   .index = index,
                   .data = data};
}

static place label_place(const hri_supply *s, const hri_planned_run *run, uint32_t index) {
    if (!s->want.label_name[0]) {
        return (place){.value = HR_NONE};
    }
    place p = place_of(s->data, run, s->want.label_name, &s->want.label, index);
    p.numbers = s->want.masks && p.type == HR_TYPE_F32;
    return p;
}

/* The same byte everywhere: 0 is zero in every type, 0xff is -1 in whole numbers and NaN in real ones. */
static hr_status put_same(const place *p, int byte) {
    int32_t piece[PIECE];
    hr_status status = HR_OK;
    memset(piece, byte, sizeof piece);
    for (uint64_t at = 0; at < p->count && status == HR_OK; at += PIECE) {
        status = put(p, at, piece, p->count - at < PIECE ? p->count - at : PIECE);
    }
    return status;
}

static hr_status put_no_label(const place *p) {
    return put_same(p, p->type == HR_TYPE_I32 || p->numbers ? 0xff : 0);
}

/* The inputs beside the first and the label; e NULL: zeros. */
static hr_status put_others(const hri_supply *s, const hri_planned_run *run, uint32_t index,
                            const hr_element *e, hri_prose *why) {
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < s->want.other_count && status == HR_OK; i++) {
        const hri_other_input *x = &s->want.others[i];
        const place to = place_of(s->data, run, x->name, &x->sample, index);
        const hr_field *f = e ? hr_element_find(e, x->name) : NULL;
        if (to.value == HR_NONE) {
            continue; /* this graph does without it */
        }
        status = !e  ? put_same(&to, 0)
                 : f ? put_field(&to, f, 0, why)
                     : hri_prose_set(why, HR_E_NOT_FOUND, "a sample has no field %s", x->name);
    }
    return status;
}

static hr_status put_sample(hri_supply *s, const hri_planned_run *run, uint32_t index,
                            const hr_element *e, uint64_t *counted, hri_prose *why) {
    const hr_field *renamed = hr_element_find(e, s->want.name);
    const hr_field *input = renamed ? renamed : hr_element_find(e, s->input);
    const hr_field *label = s->label[0] ? hr_element_find(e, s->label) : NULL;
    const place to = place_of(s->data, run, s->want.name, &s->want.sample, index);
    place beside = label_place(s, run, index);
    beside.counted = counted;
    if (!input || (s->label[0] && !label && !s->no_labels)) {
        return hri_prose_set(why, HR_E_NOT_FOUND, "a sample has no field %s",
                             input ? s->label : s->input);
    }
    /* Where labels are a field of their own (a tag for each word), the classes are theirs alone. */
    const int64_t limit = hri_model_input_is_sequence(&s->want) && !label ? s->want.classes : 0;
    hr_status status = put_field(&to, input, limit, why);
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
        return put_field(&beside, label, s->want.classes, why);
    }
    if (to.type != HR_TYPE_I32 || beside.count != to.count) {
        return hri_prose_set(why, HR_E_INVALID, "the data has no labels");
    }
    return put_wholes(&beside, input, 1, s->want.classes, why);
}

/* Nothing, with a label that does not count. */
static hr_status put_nothing(hri_supply *s, const hri_planned_run *run, uint32_t index) {
    const place to = place_of(s->data, run, s->want.name, &s->want.sample, index);
    const place beside = label_place(s, run, index);
    hr_status status = put_same(&to, 0);
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
    const place to = place_of(s->data, run, s->want.name, &s->want.sample, index);
    place beside = label_place(s, run, index);
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
        status = put_field(&to, &f, 0, why);
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
    return put(&beside, 0, s->target, beside.count);
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
    return stats.left_over ? hri_prose_set(why, HR_E_INVALID,
                                           "the data set has %llu samples, fewer than one batch",
                                           (unsigned long long)stats.left_over)
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

/* ---- a batch of somebody's own ---- */

/* Input number i of the model: the first, the label where there is one, the others; NULL at the end. */
static const char *input_at(const hri_model_input *want, uint32_t i, const hr_meta **sample) {
    const uint32_t label = want->label_name[0] != '\0';
    if (i == 0) {
        *sample = &want->sample;
        return want->name;
    }
    if (i == 1 && label) {
        *sample = &want->label;
        return want->label_name;
    }
    i -= 1 + label;
    if (i >= want->other_count) {
        return NULL;
    }
    *sample = &want->others[i].sample;
    return want->others[i].name;
}

static const hr_field *find_field(const hr_field *fields, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(fields[i].name, name)) {
            return &fields[i];
        }
    }
    return NULL;
}

hr_status hri_fields_check(const hr_field *fields, size_t count, const hri_model_input *want,
                           uint64_t samples, hri_prose *why) {
    const hr_meta *sample;
    const char *name;
    for (uint32_t i = 0; (name = input_at(want, i, &sample)); i++) {
        const hr_field *f = find_field(fields, count, name);
        if (!f) {
            return hri_prose_set(why, HR_E_NOT_FOUND, "the batch has no field %s", name);
        }
        if (f->meta.type != sample->type || f->bytes != samples * hr_meta_bytes(sample)) {
            char is[256];
            return hri_prose_set(why, HR_E_SHAPE,
                                 "the field %s has %llu bytes of %s; %llu samples of %s are needed",
                                 name, (unsigned long long)f->bytes, hr_type_name(f->meta.type),
                                 (unsigned long long)samples, hr_meta_print(sample, is, sizeof is));
        }
    }
    return HR_OK;
}

static hr_status feed_fields(const hri_feeds *f, const hri_planned_run *run, hri_prose *why) {
    const hr_meta *sample;
    const char *name;
    uint64_t counted = f->want->label_name[0] ? 0 : run->samples;
    hr_status status = HR_OK;
    for (uint32_t i = 0; status == HR_OK && (name = input_at(f->want, i, &sample)); i++) {
        const hr_field *field = find_field(f->fields, f->field_count, name);
        place to = place_of("the batch", run, name, sample, 0);
        const uint64_t first = run->first_sample * to.count, n = run->samples * to.count;
        if ((int32_t)to.type != sample->type) { /* images that the job's data has as bytes */
            return hri_prose_set(why, HR_E_SHAPE, "this graph expects %s as %s", name,
                                 hr_type_name(to.type));
        }
        const char *data = (const char *)field->data + first * hr_type_bytes(to.type);
        if (!strcmp(name, f->want->label_name)) {
            to.counted = &counted;
            if (to.type == HR_TYPE_I32) {
                count_labels(&to, (const int32_t *)(const void *)data, n);
            } else if (f->want->masks && to.type == HR_TYPE_F32) {
                count_reals(&to, (const float *)(const void *)data, n);
            } else {
                counted += n;
            }
        }
        status = to.value == HR_NONE ? HR_OK : put(&to, 0, data, n);
    }
    if (status == HR_OK && run->counted) {
        *run->counted = counted;
    }
    return status;
}

hr_status hri_feeds_feed(void *feeds, const hri_planned_run *run, hri_prose *why) {
    hri_feeds *f = feeds;
    if (f->fields && run->evaluate) { /* whole batches, else one sample after the other */
        hri_planned_run from = *run;
        from.first_sample = f->field_first;
        if (f->field_samples - f->field_first < run->samples) {
            return HR_E_AGAIN;
        }
        f->fed = run->samples;
        return feed_fields(f, &from, why);
    }
    if (f->fields) {
        return run->exec ? feed_fields(f, run, why) : HR_OK;
    }
    return hri_supply_feed(run->evaluate ? f->validation : f->train, run, &f->fed, why);
}
