/* Buffers from instances, offsets from the packer. */
#include "plan/place.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/pack.h"

typedef struct placer {
    const hri_schedule *s;
    hri_plan *plan;
    uint32_t *buffer; /* by instance; versions of a persistent value share one */
    uint32_t *other;  /* by OUT entry: its buffer in another memory */
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

/* The work space of an exchange is there until the wait for it. */
static void end_net(placer *x, uint32_t e) {
    const hri_entry *entry = &x->s->entries[e];
    const hri_problem_op *op = &x->s->p->ops[entry->op];
    hri_plan *plan = x->plan;
    const uint32_t work =
        plan->operands[plan->steps[entry->pair].first + op->in_count + op->out_count];
    plan->steps[e] = (hri_plan_step){HRI_STEP_WAIT, 0, 0, entry->pair, plan->operand_count};
    if (work != HRI_PROBLEM_NONE) {
        plan->buffers[work].death = e + 1;
    }
}

/* A copy away takes a place in another memory, which its way back gives up again. */
static void make_copy(placer *x, uint32_t e) {
    const hri_entry *entry = &x->s->entries[e];
    hri_plan *plan = x->plan;
    const uint32_t here = x->buffer[x->s->touches[entry->first].instance];
    plan->steps[e] = (hri_plan_step){entry->kind, 0, 0, entry->op, plan->operand_count};
    if (entry->kind == HRI_STEP_WAIT) {
        plan->steps[e].op = entry->pair;
        const hri_entry *copy = &x->s->entries[entry->pair];
        if (copy->kind == HRI_STEP_IN) {
            plan->buffers[x->other[copy->pair]].death = e + 1;
        }
        return;
    }
    const uint64_t bytes = x->s->p->values[entry->op].room_bytes;
    if (entry->kind == HRI_STEP_OUT) {
        x->other[e] = new_buffer(plan, bytes, e, plan->step_count, entry->op);
        plan->buffers[x->other[e]].memory = entry->memory;
        plan->operands[plan->operand_count++] = here;
        plan->operands[plan->operand_count++] = x->other[e];
    } else {
        plan->operands[plan->operand_count++] = x->other[entry->pair];
        plan->operands[plan->operand_count++] = here;
    }
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
        if (hri_entry_ends_net(s, e)) {
            end_net(x, e);
            continue;
        }
        if (!hri_entry_runs(s, e)) {
            make_copy(x, e);
            continue;
        }
        const hri_problem_op *op = &s->p->ops[entry->op];
        const hri_touch *t = s->touches + entry->first;
        const uint8_t variant = s->variant[entry->op];
        const uint64_t workspace = hri_problem_room(s->p, op->variants[variant].workspace_bytes);
        plan->steps[e] =
            (hri_plan_step){entry->kind, entry->again > 0, variant, entry->op, plan->operand_count};
        for (uint32_t i = 0; i < op->in_count + op->out_count; i++) {
            plan->operands[plan->operand_count++] = root_buffer(x, by_root, t[i].instance);
        }
        plan->operands[plan->operand_count++] =
            workspace ? new_buffer(plan, workspace, e, e + 1, HRI_PROBLEM_NONE) : HRI_PROBLEM_NONE;
    }
}

static int is_packed(const hri_problem *p, const hri_plan_buffer *b, uint32_t memory) {
    return b->bytes && b->memory == memory &&
           (memory || b->value == HRI_PROBLEM_NONE || !hri_is_fixed(p, b->value));
}

/* Packs one of the memories from `bottom` up. */
static hr_status pack(placer *x, uint32_t memory, uint64_t bottom, uint64_t capacity,
                      uint64_t effort, hri_pack_result *result) {
    hri_plan *plan = x->plan;
    const size_t count = (size_t)plan->buffer_count + 1;
    hri_pack_buffer *list = hri_malloc(count * sizeof *list);
    uint64_t *offsets = hri_malloc(count * sizeof *offsets);
    hr_status status = list && offsets ? HR_OK : HR_E_NOMEM_HOST;
    size_t n = 0;
    for (uint32_t b = 0; b < plan->buffer_count && status == HR_OK; b++) {
        if (is_packed(x->s->p, &plan->buffers[b], memory)) {
            const hri_plan_buffer *y = &plan->buffers[b];
            list[n++] = (hri_pack_buffer){y->birth, y->death, y->bytes};
        }
    }
    const hri_pack_options o = {
        .align = x->s->p->align, .capacity = capacity, .effort = memory ? 1 : effort};
    if (status == HR_OK) {
        status = hri_pack(list, n, &o, offsets, result);
    }
    n = 0;
    for (uint32_t b = 0; b < plan->buffer_count && status == HR_OK; b++) {
        if (is_packed(x->s->p, &plan->buffers[b], memory)) {
            plan->buffers[b].offset = bottom + offsets[n++];
        } else if (plan->buffers[b].bytes == 0) {
            plan->buffers[b].offset = plan->buffers[b].memory ? 0 : plan->persistent_bytes;
        }
    }
    hri_free(list);
    hri_free(offsets);
    return status;
}

static hr_status give_offsets(placer *x, const hri_plan_options *options, uint64_t effort) {
    const hri_problem *p = x->s->p;
    hri_plan *plan = x->plan;
    hri_pack_result here = {0};
    uint64_t *fixed = hri_calloc((size_t)p->value_count + 1, sizeof *fixed);
    if (!fixed) {
        return HR_E_NOMEM_HOST;
    }
    const uint64_t end = hri_place_fixed(p, fixed), budget = options->budget_bytes;
    plan->persistent_bytes = options->fixed_offsets ? options->fixed_bytes : end;
    const uint64_t bottom = plan->persistent_bytes;
    hr_status status = pack(x, 0, bottom, budget > bottom ? budget - bottom : 0, effort, &here);
    plan->other_bytes = 0;
    for (uint32_t m = 0; m < p->memory_count && status == HR_OK; m++) {
        hri_pack_result there = {0};
        status = pack(x, m + 1, 0, 0, 1, &there);
        plan->memory_bytes[m] = there.height;
        plan->other_bytes += there.height;
    }
    for (uint32_t b = 0; b < plan->buffer_count && status == HR_OK; b++) {
        hri_plan_buffer *y = &plan->buffers[b];
        if (!y->memory && y->value != HRI_PROBLEM_NONE && hri_is_fixed(p, y->value)) {
            y->offset = options->fixed_offsets ? options->fixed_offsets[y->value] : fixed[y->value];
        }
    }
    plan->arena_bytes = bottom + here.height;
    plan->live_bytes = bottom + here.lower_bound;
    plan->packing = here.method ? here.method : "none";
    hri_free(fixed);
    return status;
}

static hr_status fill(placer *x, const hri_plan_options *options, uint64_t effort) {
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
    plan->time_ns = hri_schedule_joined_time(s);
    plan->again_count = s->again_count;
    plan->again_time_ns = s->again_ns;
    plan->copied_bytes = s->copied_bytes;
    plan->net_hash = hri_plan_net_of(s->p, plan).hash;
    hr_status status = give_offsets(x, options, effort);
    if (status == HR_OK) {
        hri_place_apart(s->p, plan);
    }
    if (status == HR_OK && (hri_problem_has_company(s->p) || s->copy_count || s->net_count)) {
        plan->time_ns = hri_plan_makespan(s->p, plan); /* waiting hides some of what is saved */
        status = isnan(plan->time_ns) ? HR_E_NOMEM_HOST : HR_OK;
    }
    return status;
}

/* Plans are kept beside searches for others.  That the room stays is no failure. */
static void shrink(hri_plan *plan) {
    hri_plan_buffer *buffers =
        plan->buffer_count ? hri_realloc(plan->buffers, plan->buffer_count * sizeof *buffers)
                           : NULL;
    plan->buffers = buffers ? buffers : plan->buffers;
    uint32_t *operands = plan->operand_count
                             ? hri_realloc(plan->operands, plan->operand_count * sizeof *operands)
                             : NULL;
    plan->operands = operands ? operands : plan->operands;
}

hr_status hri_place(const hri_schedule *s, const hri_plan_options *options, uint64_t effort,
                    hri_plan **out) {
    placer x = {.s = s, .plan = hri_calloc(1, sizeof *x.plan)};
    if (!x.plan) {
        return HR_E_NOMEM_HOST;
    }
    const size_t entries = (size_t)s->entry_count + 1;
    x.other = hri_malloc(entries * sizeof *x.other);
    x.buffer = hri_malloc(((size_t)s->instance_count + 1) * sizeof *x.buffer);
    x.plan->steps = hri_calloc(entries, sizeof *x.plan->steps);
    x.plan->operands =
        hri_malloc(((size_t)s->touch_count + 2 * entries) * sizeof *x.plan->operands);
    x.plan->buffers = hri_calloc((size_t)s->instance_count + entries, sizeof *x.plan->buffers);
    hr_status status = HR_E_NOMEM_HOST;
    if (x.buffer && x.other && x.plan->steps && x.plan->operands && x.plan->buffers) {
        status = fill(&x, options, effort);
    }
    hri_free(x.buffer);
    hri_free(x.other);
    if (status == HR_OK) {
        shrink(x.plan);
        *out = x.plan;
    } else {
        hri_plan_destroy(x.plan);
    }
    return status;
}
