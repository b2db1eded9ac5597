/* What planning itself may take of the host's memory, and what is said when that is not enough; see plan_job.h.
 *
 * The one idea: a refusal takes no more memory than the budget that it refuses.  While a job is planned, the thread has a
 * bound (base/alloc.h) that ends planning where the process would outgrow the budget.  Nothing that fits is lost by it: a
 * plan whose planning needs more than the budget is no plan for that budget (fit/fit.h).  What is lost is the exact
 * answer to "what would fit?"; then the refusal has a bound from below in its place. */
#include "base/alloc.h"
#include "graph/graph.h"
#include "job/answer.h"
#include "memory/resident.h"

#define MIB (UINT64_C(1) << 20)

/* Pages that come in later: search, checker, printing, stack.  How many depends on where the program was loaded, because the
 * kernel maps aligned windows of files: 1.0 to 1.9 MiB of a debug build on x86-64. */
#ifdef __x86_64__
enum { CODE = 2 << 20 };
#else
enum { CODE = 1 << 20 };
#endif

/* Holes between blocks. */
static uint64_t without_holes(uint64_t bytes) {
    const uint64_t holes = bytes / 8;
    return bytes - (holes < 2 * MIB ? holes : 2 * MIB);
}

static uint64_t room_bytes(const hri_plan_job *j, bool decides) {
    uint64_t now = 0;
    hri_trim();
    hri_resident_read(&now, NULL);
    /* a plan that this one replaces is still there, and will not be when this one runs */
    now = j->known_base_bytes && j->known_base_bytes < now ? j->known_base_bytes : now;
    const uint64_t budget = j->budget_bytes, runtime = j->job.runtime_bytes;
    const uint64_t left = budget > now + CODE ? without_holes(budget - now - CODE) : 0;
    /* what fits takes no more: the runtime is rounded up by more than this */
    const uint64_t planned = decides && budget > runtime ? budget - runtime + MIB : 0;
    const uint64_t room = left > planned ? left : planned;
    return room > HRI_PLANNING_LEAST ? room : HRI_PLANNING_LEAST;
}

void hri_plan_job_bound(const hri_plan_job *j, bool decides, hri_alloc_bound *out) {
    const bool bounded = j->threads && j->budget_bytes && j->job.count_records;
    hri_alloc_bound_open(out, bounded ? room_bytes(j, decides) : 0);
}

/* ---- too large to be planned ---- */

/* States that the optimizer keeps of each parameter, at least. */
static uint64_t states_of(const hri_plan_job *j) {
    const hr_train_options *o = &j->job.options;
    if (j->o.passes && *j->o.passes) {
        return 0; /* some may be frozen */
    }
    switch (o->optimizer) {
    case HR_OPTIMIZER_SGD:
        return o->momentum > 0;
    case HR_OPTIMIZER_ADAM:
    case HR_OPTIMIZER_ADAMW:
        return 2;
    case HR_OPTIMIZER_ADAFACTOR:
        return 0; /* rows and columns of it */
    default:
        return 1;
    }
}

uint64_t hri_plan_job_persistent(const hri_plan_job *j) {
    hr_graph *g = NULL;
    uint64_t bytes = 0;
    if (j->fit.fact_count) {
        return j->fit.facts[0].own_bytes;
    }
    if (hr_graph_create(&g) != HR_OK) {
        return 0;
    }
    if (j->job.build && j->job.build(j->job.user, g, 1, 0) == HR_OK) {
        for (hr_value v = 1; v < g->value_count; v++) {
            bytes += g->values[v].kind == HR_VALUE_PARAM ? hr_meta_bytes(&g->values[v].meta) : 0;
        }
    }
    hr_graph_destroy(g);
    return bytes * (1 + states_of(j));
}

uint64_t hri_plan_job_least(const hri_plan_job *j) {
    const hri_fit *f = &j->fit;
    uint64_t least = 0;
    if (!f->fact_count) {
        least = j->job.runtime_bytes + hri_plan_job_persistent(j);
    } else if (f->too_large) {
        const hri_fit_fact *whole = &f->facts[0];
        const uint64_t floor = whole->runtime_bytes + whole->own_bytes;
        least = floor > whole->planning_bytes ? floor : whole->planning_bytes;
    } else {
        for (uint32_t i = 0; i < f->fact_count; i++) {
            const hri_fit_fact *x = &f->facts[i];
            const uint64_t one =
                x->floor_bytes > x->planning_bytes ? x->floor_bytes : x->planning_bytes;
            least = !least || one < least ? one : least;
        }
    }
    return least > j->budget_bytes ? least : j->budget_bytes + 1;
}
