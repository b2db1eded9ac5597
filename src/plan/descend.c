/* Limits above the one that is wanted, and steps down from there: see descend.h. */
#include "plan/descend.h"

#include <string.h>

#include "base/alloc.h"
#include "plan/search.h"

enum { STEP = 20, FINEST = 160 }; /* a step is this part of the limit */
enum { MOST = 10 };               /* times the effort of a step, for all of it */

typedef struct choice {
    uint8_t *gaps, *variant;
} choice;

static hr_status choice_init(const hri_schedule *s, choice *out) {
    choice c = {hri_malloc((size_t)s->gap_count + 1), hri_malloc((size_t)s->p->op_count + 1)};
    if (!c.gaps || !c.variant) {
        hri_free(c.gaps);
        hri_free(c.variant);
        return HR_E_NOMEM_HOST;
    }
    *out = c;
    return HR_OK;
}

static void choice_deinit(choice *c) {
    hri_free(c->gaps);
    hri_free(c->variant);
}

static void choice_save(const hri_schedule *s, choice *c) {
    memcpy(c->gaps, s->gaps, s->gap_count);
    memcpy(c->variant, s->variant, s->p->op_count);
}

static void choice_set(hri_schedule *s, const choice *c) {
    memcpy(s->gaps, c->gaps, s->gap_count);
    memcpy(s->variant, c->variant, s->p->op_count);
}

static hr_status fit_and_improve(hri_schedule *s, uint64_t limit, uint64_t effort) {
    const hr_status status = hri_search_fit(s, limit, effort);
    return status == HR_OK ? hri_search_improve(s, limit, effort) : status;
}

/* From a schedule that fits `from`.  After a step that fails, half a step from where it began. */
static hr_status go_down(hri_schedule *s, uint64_t from, uint64_t limit, uint64_t effort,
                         uint64_t stop, choice *good) {
    uint64_t part = STEP;
    while (from > limit) {
        if (s->work > stop) {
            return HR_E_NO_PLAN;
        }
        const uint64_t far = from - from / part, to = far > limit && far < from ? far : limit;
        choice_save(s, good);
        const hr_status status = fit_and_improve(s, to, effort);
        if (status == HR_OK) {
            from = to;
            part -= part > STEP ? part / 4 : 0;
        } else if (status == HR_E_NO_PLAN && part * 2 <= FINEST) {
            choice_set(s, good);
            part *= 2;
        } else {
            return status;
        }
    }
    return HR_OK;
}

hr_status hri_descend(hri_schedule *s, uint64_t limit, uint64_t effort) {
    static const uint32_t above[] = {12, 25, 50, 100}; /* percent */
    choice kept, good;
    hr_status status = choice_init(s, &kept);
    if (status != HR_OK) {
        return status;
    }
    choice_save(s, &kept);
    status = choice_init(s, &good);
    if (status != HR_OK) {
        choice_deinit(&kept);
        return status;
    }
    status = HR_E_NO_PLAN;
    const uint64_t stop = s->work + MOST * effort;
    for (size_t i = 0; i < sizeof above / sizeof *above && status == HR_E_NO_PLAN; i++) {
        if (s->work > stop) {
            break;
        }
        const uint64_t from = limit + limit / 100 * above[i];
        choice_set(s, &kept);
        status = fit_and_improve(s, from, effort);
        if (status == HR_OK) {
            status = go_down(s, from, limit, effort, stop, &good);
        }
    }
    choice_deinit(&good);
    choice_deinit(&kept);
    return status;
}
