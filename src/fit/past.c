/* The last searches and what came of them: see past.h.  The oldest makes room for the newest. */
#include "fit/past.h"

#include <string.h>

#include "base/alloc.h"

enum { MOST = 32 };

/* All that a plan depends on.  Offsets of shared values follow from the problem and where they end. */
typedef struct key {
    uint64_t problem, budget_bytes, other_budget_bytes, effort, fixed_bytes, flags;
} key;

typedef struct search {
    key key;
    hri_plan *plan; /* NULL: none was found */
    hri_prose why;
} search;

struct hri_past {
    search of[MOST];
    uint32_t count, next; /* those there are; the one to be written over */
};

hri_past *hri_past_create(void) {
    return hri_calloc(1, sizeof(hri_past));
}

void hri_past_destroy(hri_past *past) {
    for (uint32_t i = 0; past && i < past->count; i++) {
        hri_plan_destroy(past->of[i].plan);
    }
    hri_free(past);
}

static key key_of(const hri_problem *p, const hri_plan_options *o) {
    const int flags[] = {o->no_recompute, o->no_offload, o->keep_order,           o->no_overlap,
                         o->short_memory, o->any,        o->fixed_offsets != NULL};
    key k = {p->hash, o->budget_bytes, o->other_budget_bytes, o->effort, o->fixed_bytes, 0};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        k.flags = 2 * k.flags + (flags[i] != 0);
    }
    return k;
}

static const search *find(const hri_past *past, const key *k) {
    for (uint32_t i = 0; i < past->count; i++) {
        if (memcmp(&past->of[i].key, k, sizeof *k) == 0) {
            return &past->of[i];
        }
    }
    return NULL;
}

static void keep(hri_past *past, const key *k, const hri_plan *plan, const hri_prose *why) {
    hri_plan *copy = plan ? hri_plan_copy(plan) : NULL;
    if (plan && !copy) {
        return;
    }
    search *s = &past->of[past->next];
    hri_plan_destroy(s->plan);
    *s = (search){.key = *k, .plan = copy};
    s->why = why ? *why : s->why;
    past->next = (past->next + 1) % MOST;
    past->count += past->count < MOST;
}

hr_status hri_past_plan(hri_past *past, const hri_problem *p, const hri_plan_options *options,
                        hri_plan **out, hri_prose *why) {
    if (!past || options->memo || options->start) {
        return hri_plan_make(p, options, out, NULL, why);
    }
    const key k = key_of(p, options);
    const search *s = find(past, &k);
    hri_plan *copy = s && s->plan ? hri_plan_copy(s->plan) : NULL;
    if (copy) {
        *out = copy;
        return HR_OK;
    }
    if (s && !s->plan) {
        return hri_prose_set(why, HR_E_NO_PLAN, "%s", s->why.text);
    }
    const hr_status status = hri_plan_make(p, options, out, NULL, why);
    if (!s && (status == HR_OK || status == HR_E_NO_PLAN)) {
        keep(past, &k, status == HR_OK ? *out : NULL, why);
    }
    return status;
}
