/* Buffers from instances, offsets from the packer. */
#include "plan/place.h"

#include <string.h>

#include "base/alloc.h"
#include "plan/pack.h"

typedef struct placer {
    const hri_schedule *s;
    hri_plan *plan;
    uint32_t *buffer; /* by instance; versions of a persistent value share one */
} placer;

uint64_t hri_place_fixed(const hri_problem *p, uint64_t *offsets) {
    uint64_t end = 0;
    for (uint32_t v = 0; v < p->value_count; v++) {
        if (p->values[v].role == HRI_ROLE_PERSISTENT || p->values[v].role == HRI_ROLE_CONSTANT) {
            offsets[v] = end;
            end += p->values[v].room_bytes;
        }
    }
    return end;
}

static uint32_t new_buffer(hri_plan *plan, uint64_t bytes, uint32_t birth, uint32_t death,
                           uint32_t value) {
    plan->buffers[plan->buffer_count] = (hri_plan_buffer){0, bytes, birth, death, value, 0};
    return plan->buffer_count++;
}

/* Instances in order: one that took over a place, or a new version, joins the buffer that is there. */
static void make_buffers(placer *x) {
    const hri_problem *p = x->s->p;
    hri_plan *plan = x->plan;
    for (uint32_t i = 0; i < x->s->instance_count; i++) {
        const hri_instance *in = &x->s->instances[i];
        const uint32_t end = in->last + 1 > plan->step_count ? plan->step_count : in->last + 1;
        const uint32_t root = p->values[in->value].root;
        if (hri_is_fixed(p, in->value)) {
            /* Instances of what is there from the start come first, so the root's buffer exists. */
            x->buffer[i] = root == in->value ? new_buffer(plan, p->values[root].room_bytes, 0,
                                                          plan->step_count, root)
                                             : HRI_PROBLEM_NONE;
        } else if (in->place != i) {
            x->buffer[i] = x->buffer[in->place];
            hri_plan_buffer *b = &plan->buffers[x->buffer[i]];
            b->death = end > b->death ? end : b->death;
        } else {
            x->buffer[i] =
                new_buffer(plan, p->values[in->value].room_bytes, in->birth, end, in->value);
        }
    }
}

/* The buffer of a value's root, for versions of persistent values. */
static uint32_t root_buffer(const placer *x, const uint32_t *by_root, uint32_t instance) {
    const uint32_t v = x->s->instances[instance].value;
    return hri_is_fixed(x->s->p, v) ? by_root[x->s->p->values[v].root] : x->buffer[instance];
}

static void make_steps(placer *x, const uint32_t *by_root) {
    const hri_schedule *s = x->s;
    hri_plan *plan = x->plan;
    for (uint32_t e = 0; e < s->entry_count; e++) {
        const hri_entry *entry = &s->entries[e];
        const hri_problem_op *op = &s->p->ops[entry->op];
        const hri_touch *t = s->touches + entry->first;
        const uint8_t variant = s->variant[entry->op];
        const uint64_t workspace = hri_problem_room(s->p, op->variants[variant].workspace_bytes);
        plan->steps[e] =
            (hri_plan_step){HRI_STEP_RUN, entry->again, variant, entry->op, plan->operand_count};
        for (uint32_t i = 0; i < op->in_count + op->out_count; i++) {
            plan->operands[plan->operand_count++] = root_buffer(x, by_root, t[i].instance);
        }
        plan->operands[plan->operand_count++] =
            workspace ? new_buffer(plan, workspace, e, e + 1, HRI_PROBLEM_NONE) : HRI_PROBLEM_NONE;
    }
}

static hr_status give_offsets(placer *x, const hri_plan_options *options) {
    const hri_problem *p = x->s->p;
    hri_plan *plan = x->plan;
    const size_t count = (size_t)plan->buffer_count + 1;
    hri_pack_buffer *list = hri_malloc(count * sizeof *list);
    uint64_t *offsets = hri_malloc(count * sizeof *offsets);
    uint64_t *fixed = hri_calloc((size_t)p->value_count + 1, sizeof *fixed);
    hr_status status = list && offsets && fixed ? HR_OK : HR_E_NOMEM_HOST;
    size_t n = 0;
    if (status == HR_OK) {
        const uint64_t end = hri_place_fixed(p, fixed);
        plan->persistent_bytes = options->fixed_offsets ? options->fixed_bytes : end;
        for (uint32_t b = 0; b < plan->buffer_count; b++) {
            const hri_plan_buffer *y = &plan->buffers[b];
            if (y->bytes && (y->value == HRI_PROBLEM_NONE || !hri_is_fixed(p, y->value))) {
                list[n++] = (hri_pack_buffer){y->birth, y->death, y->bytes};
            }
        }
        const uint64_t budget = options->budget_bytes;
        const hri_pack_options o = {
            .align = p->align,
            .capacity = budget > plan->persistent_bytes ? budget - plan->persistent_bytes : 0,
            .effort = 500};
        hri_pack_result result = {0};
        status = hri_pack(list, n, &o, offsets, &result);
        plan->arena_bytes = plan->persistent_bytes + result.height;
        plan->live_bytes = plan->persistent_bytes + result.lower_bound;
        plan->packing = result.method ? result.method : "none";
    }
    n = 0;
    for (uint32_t b = 0; b < plan->buffer_count && status == HR_OK; b++) {
        hri_plan_buffer *y = &plan->buffers[b];
        if (y->value != HRI_PROBLEM_NONE && hri_is_fixed(p, y->value)) {
            y->offset = options->fixed_offsets ? options->fixed_offsets[y->value] : fixed[y->value];
        } else {
            y->offset = plan->persistent_bytes + (y->bytes ? offsets[n++] : 0);
        }
    }
    hri_free(list);
    hri_free(offsets);
    hri_free(fixed);
    return status;
}

static hr_status fill(placer *x, const hri_plan_options *options) {
    const hri_schedule *s = x->s;
    hri_plan *plan = x->plan;
    uint32_t *by_root = hri_malloc(((size_t)s->p->value_count + 1) * sizeof *by_root);
    if (!by_root) {
        return HR_E_NOMEM_HOST;
    }
    plan->step_count = s->entry_count;
    make_buffers(x);
    for (uint32_t b = 0; b < plan->buffer_count; b++) {
        const uint32_t v = plan->buffers[b].value;
        if (hri_is_fixed(s->p, v)) {
            by_root[v] = b;
        }
    }
    make_steps(x, by_root);
    hri_free(by_root);
    plan->problem_hash = s->p->hash;
    plan->peak_step = s->peak_entry;
    plan->time_ns = s->time_ns;
    plan->again_count = s->again_count;
    plan->again_time_ns = s->again_ns;
    return give_offsets(x, options);
}

hr_status hri_place(const hri_schedule *s, const hri_plan_options *options, hri_plan **out) {
    placer x = {.s = s, .plan = hri_calloc(1, sizeof *x.plan)};
    if (!x.plan) {
        return HR_E_NOMEM_HOST;
    }
    const size_t entries = (size_t)s->entry_count + 1;
    x.buffer = hri_malloc(((size_t)s->instance_count + 1) * sizeof *x.buffer);
    x.plan->steps = hri_calloc(entries, sizeof *x.plan->steps);
    x.plan->operands = hri_malloc(((size_t)s->touch_count + entries) * sizeof *x.plan->operands);
    x.plan->buffers = hri_calloc((size_t)s->instance_count + entries, sizeof *x.plan->buffers);
    hr_status status = HR_E_NOMEM_HOST;
    if (x.buffer && x.plan->steps && x.plan->operands && x.plan->buffers) {
        status = fill(&x, options);
    }
    hri_free(x.buffer);
    if (status == HR_OK) {
        *out = x.plan;
    } else {
        hri_plan_destroy(x.plan);
    }
    return status;
}
