/* deal(batch=B,part=M,ranks=R,rank=K)  of each batch the samples that rank K of R trains on: parts K, K + R, ... of M samples.
 *
 * The order is everybody's: this stage only leaves out what others read, before it is loaded, and so needs an input with random
 * access.  It has no part in states or fingerprints: a place in it is saved as the place in its input, so that a run goes on
 * with another number of ranks, or one.  Batches begin where the epoch does, or where a saved place was. */
#include "data/stage.h"

typedef struct options {
    int64_t batch, part, ranks, rank;
} options;

#define COUNT(name, help, least)                                                                   \
    { #name, help, offsetof(options, name), HRI_FIELD_INT, #least, .min = least, .max = 1e9 }

static const hri_field fields[] = {COUNT(batch, "samples per step", 1),
                                   COUNT(part, "samples per micro-batch", 1),
                                   COUNT(ranks, "number of ranks", 1),
                                   COUNT(rank, "this rank, from 0", 0),
                                   {0}};

typedef struct own {
    uint64_t batch, part, ranks, rank;
    uint64_t each;  /* own samples of a batch */
    uint64_t first; /* of the first batch, in the input */
} own;

/* Own samples among the first `samples` of a batch. */
static uint64_t own_of(const own *w, uint64_t samples) {
    const uint64_t round = w->part * w->ranks, rest = samples % round, before = w->rank * w->part;
    const uint64_t more = rest > before ? rest - before : 0;
    return samples / round * w->part + (more < w->part ? more : w->part);
}

/* Where own sample i is in the input; of the first of a batch: where the batch begins. */
static uint64_t place_of(const own *w, uint64_t i, bool begin) {
    const uint64_t k = i % w->each, batch = w->first + i / w->each * w->batch;
    return k == 0 && begin ? batch
                           : batch + (k / w->part * w->ranks + w->rank) * w->part + k % w->part;
}

static void stop(hri_stage *s) {
    own *w = s->own;
    w->first = 0;
}

static hr_status open(hri_stage *s, hri_prose *why) {
    const options *o = s->options;
    own *w = s->own;
    *w = (own){(uint64_t)o->batch, (uint64_t)o->part, (uint64_t)o->ranks, (uint64_t)o->rank, 0, 0};
    if (w->rank >= w->ranks) {
        return hri_prose_set(why, HR_E_RANGE, "rank: %lld is not less than ranks (%lld)",
                             (long long)o->rank, (long long)o->ranks);
    }
    w->each = own_of(w, w->batch);
    if (!s->random || s->spec.count == HR_COUNT_UNKNOWN || w->each == 0) {
        return hri_prose_set(why, HR_E_UNSUPPORTED,
                             w->each ? "needs an input with random access"
                                     : "this rank has no part of a batch");
    }
    s->spec.count = s->spec.count / w->batch * w->each;
    return HR_OK;
}

static hr_status at(hri_stage *s, uint64_t i, hri_item *out) {
    const own *w = s->own;
    const uint64_t place = place_of(w, i, false);
    return place < s->inputs[0]->spec.count ? hri_stage_at(s->inputs[0], place, out) : HR_E_EOF;
}

static uint64_t to_input(const hri_stage *s) {
    return place_of(s->own, s->place, true);
}

static uint64_t from_input(hri_stage *s, uint64_t place) {
    own *w = s->own;
    w->first = place % w->batch;
    return place / w->batch * w->each;
}

const hri_stage_type hri_stage_type_deal = {
    .name = "deal",
    .help = "keep the samples of each batch that one of several ranks trains on",
    .main = "batch",
    .fields = fields,
    .options_bytes = sizeof(options),
    .own_bytes = sizeof(own),
    .inputs = 1,
    .open = open,
    .at = at,
    .stop = stop,
    .only_speed = true,
    .to_input = to_input,
    .from_input = from_input,
};
