/* Building a problem, checking it from scratch, and the bound that needs no plan: the floor.
 *
 * Everything that the planner later takes for granted is refused here with a sentence, so a problem from a file is as
 * safe as one from a graph. */
#include "plan/problem.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/vector.h"

static const char *const role_names[] = {
#define HRI_ROLE_TEXT(NAME, TEXT) TEXT,
    HRI_ROLE_MAP(HRI_ROLE_TEXT)
#undef HRI_ROLE_TEXT
};
static const char *const phase_names[] = {
#define HRI_PHASE_TEXT(NAME, TEXT) TEXT,
    HRI_PHASE_MAP(HRI_PHASE_TEXT)
#undef HRI_PHASE_TEXT
};
static const uint64_t bytes_max = (uint64_t)1 << 62;

int hri_problem_has_company(const hri_problem *p) {
    for (uint32_t n = 0; n < p->op_count; n++) {
        if (p->ops[n].alone_ns > 0) {
            return 1;
        }
    }
    return 0;
}

int hri_problem_has_beside(const hri_problem *p) {
    for (uint32_t n = 0; n < p->op_count; n++) {
        if (p->ops[n].beside) {
            return 1;
        }
    }
    return 0;
}

int hri_problem_has_net(const hri_problem *p) {
    for (uint32_t n = 0; n < p->op_count; n++) {
        if (p->ops[n].net) {
            return 1;
        }
    }
    return 0;
}

const char *hri_role_name(uint32_t role) {
    return role < HRI_ROLE_COUNT ? role_names[role] : "?";
}

const char *hri_problem_phase_name(uint32_t phase) {
    return phase < HRI_PROBLEM_PHASE_COUNT ? phase_names[phase] : "?";
}

uint64_t hri_problem_room(const hri_problem *p, uint64_t bytes) {
    return (bytes + p->align - 1) & ~(p->align - 1);
}

void hri_problem_init(hri_problem *p, uint64_t align) {
    *p = (hri_problem){.align = align ? align : 1, .name = ""};
    hri_arena_init(&p->arena, 0);
}

void hri_problem_deinit(hri_problem *p) {
    hri_free(p->values);
    hri_free(p->ops);
    hri_free(p->uses);
    hri_arena_deinit(&p->arena);
    *p = (hri_problem){0};
}

uint64_t hri_problem_held_bytes(const hri_problem *p) {
    uint64_t uses = 0;
    for (uint32_t v = 0; v < p->value_count; v++) {
        uses += p->values[v].use_count;
    }
    return hri_arena_held_bytes(&p->arena) + p->value_space * sizeof *p->values +
           p->op_space * sizeof *p->ops + uses * sizeof *p->uses;
}

/* A name that lives as long as the problem. */
static const char *name_of(hri_problem *p, const char *name) {
    return !name || !*name ? "" : p->borrows ? name : hri_arena_strdup(&p->arena, name);
}

static hr_status grow(void **items, uint32_t *space, uint32_t count, size_t item_bytes) {
    size_t capacity = *space;
    if (count < *space) {
        return HR_OK;
    }
    const hr_status status = hri_vector_grow(items, &capacity, (size_t)count + 1, item_bytes);
    if (status == HR_OK) {
        *space = (uint32_t)capacity;
    }
    return status;
}

hr_status hri_problem_add_value(hri_problem *p, const hri_problem_value *value, uint32_t *out) {
    if (p->value_count >= HRI_PROBLEM_VALUES_MAX) {
        return HR_E_RANGE;
    }
    void *items = p->values;
    const hr_status status = grow(&items, &p->value_space, p->value_count, sizeof *p->values);
    p->values = items;
    const char *name = name_of(p, value->name);
    if (status != HR_OK || !name) {
        return HR_E_NOMEM_HOST;
    }
    p->values[p->value_count] = *value;
    p->values[p->value_count].name = name;
    p->finished = 0;
    *out = p->value_count++;
    return HR_OK;
}

hr_status hri_problem_add_op(hri_problem *p, const hri_problem_op *op, uint32_t *out) {
    if (p->op_count >= HRI_PROBLEM_OPS_MAX) {
        return HR_E_RANGE;
    }
    void *items = p->ops;
    const hr_status status = grow(&items, &p->op_space, p->op_count, sizeof *p->ops);
    p->ops = items;
    hri_problem_op new = *op;
    new.name = name_of(p, op->name);
    new.kind = name_of(p, op->kind);
    new.in = hri_arena_copy(&p->arena, op->in, op->in_count * sizeof *op->in, _Alignof(uint32_t));
    new.out = hri_arena_copy(&p->arena, op->out, op->out_count * sizeof *op->out,
                             _Alignof(hri_problem_output));
    hri_problem_variant *variants = hri_arena_copy(
        &p->arena, op->variants, op->variant_count * sizeof *variants, _Alignof(max_align_t));
    new.variants = variants;
    if (status != HR_OK || !new.name || !new.kind || !new.in || !new.out || !variants) {
        return HR_E_NOMEM_HOST;
    }
    for (uint32_t i = 0; i < op->variant_count; i++) {
        variants[i].name = name_of(p, op->variants[i].name);
        if (!variants[i].name) {
            return HR_E_NOMEM_HOST;
        }
    }
    p->ops[p->op_count] = new;
    p->finished = 0;
    *out = p->op_count++;
    return HR_OK;
}

/* ---- finish ---- */

static int has_speeds(const hri_problem_memory *m) {
    return m->out_bytes_per_ns > 0 && m->in_bytes_per_ns > 0;
}

static hr_status check_memory(const hri_problem_memory *m, hri_prose *why) {
    const double numbers[] = {m->out_bytes_per_ns, m->in_bytes_per_ns, m->latency_ns};
    for (int i = 0; i < 3; i++) {
        if (!isfinite(numbers[i]) || numbers[i] < 0 || numbers[i] > 1e15) {
            return hri_prose_set(why, HR_E_INVALID, "copies: speeds and latency must be >= 0");
        }
    }
    return HR_OK;
}

static hr_status check_head(const hri_problem *p, hri_prose *why) {
    if (p->align == 0 || (p->align & (p->align - 1)) || p->align > HRI_PROBLEM_ALIGN_MAX) {
        return hri_prose_set(why, HR_E_INVALID, "align: %llu is not a power of two up to 2 MiB",
                             (unsigned long long)p->align);
    }
    if (p->memory_count > HRI_PROBLEM_MEMORIES_MAX) {
        return hri_prose_set(why, HR_E_RANGE, "%u memories, more than the %d allowed",
                             p->memory_count, HRI_PROBLEM_MEMORIES_MAX);
    }
    hr_status status = check_memory(&p->memories[0], why);
    for (uint32_t m = 0; m < p->memory_count && p->memory_count > 1 && status == HR_OK; m++) {
        const hri_problem_memory *x = &p->memories[m];
        status = check_memory(x, why);
        if (status == HR_OK &&
            (!has_speeds(x) || x->out_queue >= HRI_PROBLEM_QUEUES_MAX ||
             x->in_queue >= HRI_PROBLEM_QUEUES_MAX || x->capacity_bytes > bytes_max)) {
            status = hri_prose_set(why, HR_E_INVALID,
                                   "memory %u: a speed is missing, or a queue or size is too large",
                                   m + 1);
        }
    }
    return status;
}

/* One memory alone is what problems had before there were several: no queues of its own. */
static void settle_memories(hri_problem *p) {
    if (p->memory_count <= 1) {
        p->memory_count = has_speeds(&p->memories[0]) ? 1 : 0;
        p->memories[0].out_queue = 0;
        p->memories[0].in_queue = 1;
    }
}

double hri_problem_copy_ns(const hri_problem *p, uint32_t memory, int in, uint64_t bytes) {
    const hri_problem_memory *m = &p->memories[memory - 1];
    return m->latency_ns + (double)bytes / (in ? m->in_bytes_per_ns : m->out_bytes_per_ns);
}

uint32_t hri_problem_queue(const hri_problem *p, uint32_t memory, int in) {
    const hri_problem_memory *m = &p->memories[memory - 1];
    return in ? m->in_queue : m->out_queue;
}

static hr_status check_values(hri_problem *p, hri_prose *why) {
    uint64_t sum = 0, persistent = 0;
    for (uint32_t v = 0; v < p->value_count; v++) {
        hri_problem_value *value = &p->values[v];
        if (value->role >= HRI_ROLE_COUNT) {
            return hri_prose_set(why, HR_E_INVALID, "value %u: unknown role", v);
        }
        if (value->bytes > bytes_max || bytes_max - value->bytes < p->align ||
            sum > bytes_max - hri_problem_room(p, value->bytes)) {
            return hri_prose_set(why, HR_E_RANGE, "value %u (%s): sizes add up to more than 2^62",
                                 v, value->name);
        }
        value->room_bytes = hri_problem_room(p, value->bytes);
        sum += value->room_bytes;
        value->producer = value->updater = HRI_PROBLEM_NONE;
        value->root = v;
        value->use_first = value->use_count = 0;
        if (value->role == HRI_ROLE_PERSISTENT || value->role == HRI_ROLE_CONSTANT) {
            persistent += value->room_bytes;
        }
    }
    p->persistent_bytes = persistent;
    return HR_OK;
}

/* What op n reads: was it made before, is its memory still its own? */
static hr_status check_inputs(hri_problem *p, uint32_t n, hri_prose *why) {
    const hri_problem_op *op = &p->ops[n];
    for (uint32_t i = 0; i < op->in_count; i++) {
        const uint32_t v = op->in[i];
        if (v >= p->value_count) {
            return hri_prose_set(why, HR_E_INVALID, "op %u (%s): input %u is not a value", n,
                                 op->name, i);
        }
        const hri_problem_value *value = &p->values[v];
        if (value->role == HRI_ROLE_MADE && value->producer == HRI_PROBLEM_NONE) {
            return hri_prose_set(why, HR_E_INVALID,
                                 "op %u (%s) reads value %u (%s) before it is computed", n,
                                 op->name, v, value->name);
        }
        if (value->updater != HRI_PROBLEM_NONE && value->updater != n) {
            return hri_prose_set(why, HR_E_INVALID,
                                 "op %u (%s) reads value %u (%s) after op %u has overwritten it", n,
                                 op->name, v, value->name, value->updater);
        }
    }
    return HR_OK;
}

static hr_status check_update(hri_problem *p, uint32_t n, const hri_problem_output *out,
                              hri_prose *why) {
    const hri_problem_op *op = &p->ops[n];
    if (out->updates > op->in_count) {
        return hri_prose_set(why, HR_E_INVALID,
                             "op %u (%s) updates an input that it does not "
                             "have",
                             n, op->name);
    }
    hri_problem_value *old = &p->values[op->in[out->updates - 1]];
    hri_problem_value *new = &p->values[out->value];
    if (p->values[old->root].role != HRI_ROLE_PERSISTENT || old->bytes != new->bytes) {
        return hri_prose_set(why, HR_E_INVALID,
                             "op %u (%s) updates %s, which is not persistent or has another size",
                             n, op->name, old->name);
    }
    if (old->updater != HRI_PROBLEM_NONE) {
        return hri_prose_set(why, HR_E_INVALID, "op %u (%s) updates %s twice", n, op->name,
                             old->name);
    }
    old->updater = n;
    new->root = old->root;
    return HR_OK;
}

static hr_status check_outputs(hri_problem *p, uint32_t n, hri_prose *why) {
    hri_problem_op *op = &p->ops[n];
    for (uint32_t k = 0; k < op->out_count; k++) {
        const hri_problem_output *out = &op->out[k];
        if (out->value >= p->value_count) {
            return hri_prose_set(why, HR_E_INVALID, "op %u (%s): output %u is not a value", n,
                                 op->name, k);
        }
        hri_problem_value *value = &p->values[out->value];
        if (value->role != HRI_ROLE_MADE || value->producer != HRI_PROBLEM_NONE) {
            return hri_prose_set(why, HR_E_INVALID,
                                 "op %u (%s): value %u (%s) is computed twice or exists from the "
                                 "start",
                                 n, op->name, out->value, value->name);
        }
        value->producer = n;
        for (uint32_t i = 0; i < HRI_PROBLEM_OVERWRITE_MAX; i++) {
            if ((out->overwrite >> i & 1) &&
                (i >= op->in_count || p->values[op->in[i]].bytes != value->bytes)) {
                return hri_prose_set(why, HR_E_INVALID,
                                     "op %u (%s): output %u cannot overwrite input %u", n, op->name,
                                     k, i);
            }
        }
        if (out->updates) {
            const hr_status status = check_update(p, n, out, why);
            if (status != HR_OK) {
                return status;
            }
            op->once = 1;
        }
    }
    return HR_OK;
}

/* Shares of the time of other ops. */
static hr_status check_shares(const hri_problem *p, uint32_t n, hri_prose *why) {
    const hri_problem_op *op = &p->ops[n];
    const char *wrong = !(op->joins >= 0 && op->joins <= 1)                 ? "joins"
                        : !(op->beside_share >= 0 && op->beside_share <= 1) ? "beside_share"
                                                                            : NULL;
    if (!wrong && !(op->alone_ns >= 0 && op->alone_ns <= 1e15)) {
        return hri_prose_set(why, HR_E_RANGE, "%s: alone_ns must be from 0 to 1e15", op->name);
    }
    if (!wrong && op->after > n) {
        return hri_prose_set(why, HR_E_INVALID, "op %u (%s): after_op is not an op before it", n,
                             op->name);
    }
    return wrong ? hri_prose_set(why, HR_E_RANGE, "%s: %s must be from 0 to 1", op->name, wrong)
                 : HR_OK;
}

/* What stands beside op n may run again, and op n does not read the first value that it makes. */
static hr_status check_beside(hri_problem *p, uint32_t n, hri_prose *why) {
    hri_problem_op *op = &p->ops[n];
    op->beside_of = 0;
    if (!op->beside) {
        return HR_OK;
    }
    if (op->beside > n) {
        return hri_prose_set(why, HR_E_INVALID, "op %u (%s): beside_op is not an op before it", n,
                             op->name);
    }
    hri_problem_op *f = &p->ops[op->beside - 1];
    f->beside_of = n + 1;
    int good = !op->net && !f->once && !f->net && f->out_count > 0;
    for (uint32_t i = 0; i < op->in_count && good; i++) {
        good = op->in[i] != f->out[0].value;
    }
    return good ? HR_OK
                : hri_prose_set(
                      why, HR_E_INVALID,
                      "op %u (%s): %s cannot be its beside_op: that must be able to run again, "
                      "and its first output is not read by %s",
                      n, op->name, f->name, op->name);
}

static hr_status check_op(hri_problem *p, uint32_t n, hri_prose *why) {
    const hri_problem_op *op = &p->ops[n];
    if (op->phase >= HRI_PROBLEM_PHASE_COUNT || op->variant_count == 0 || op->variant_count > 64) {
        return hri_prose_set(why, HR_E_INVALID, "op %u (%s): invalid phase or variants", n,
                             op->name);
    }
    for (uint32_t i = 0; i < op->variant_count; i++) {
        const hri_problem_variant *x = &op->variants[i];
        if (!isfinite(x->time_ns) || x->time_ns < 0 || x->time_ns > 1e15 ||
            x->workspace_bytes > bytes_max / 4) {
            return hri_prose_set(why, HR_E_RANGE, "op %u (%s): time or workspace out of range", n,
                                 op->name);
        }
    }
    hr_status status = check_inputs(p, n, why);
    status = status == HR_OK ? check_outputs(p, n, why) : status;
    return status == HR_OK ? check_beside(p, n, why) : status;
}

/* The list of readers of each value. */
static hr_status list_uses(hri_problem *p) {
    size_t total = 0;
    uint32_t *last = hri_malloc(((size_t)p->value_count + 1) * sizeof *last);
    if (!last) {
        return HR_E_NOMEM_HOST;
    }
    memset(last, 0xff, ((size_t)p->value_count + 1) * sizeof *last);
    for (uint32_t n = 0; n < p->op_count; n++) {
        total += p->ops[n].in_count;
    }
    uint32_t *uses = hri_malloc((total + 1) * sizeof *uses);
    if (!uses || total > UINT32_MAX) {
        hri_free(last);
        hri_free(uses);
        return HR_E_NOMEM_HOST;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t n = 0; n < p->op_count; n++) {
            for (uint32_t i = 0; i < p->ops[n].in_count; i++) {
                hri_problem_value *value = &p->values[p->ops[n].in[i]];
                uint32_t *seen = &last[p->ops[n].in[i]];
                if (*seen != n + (uint32_t)pass * p->op_count) {
                    *seen = n + (uint32_t)pass * p->op_count;
                    if (pass) {
                        uses[value->use_first + value->use_count] = n;
                    }
                    value->use_count++;
                }
            }
        }
        uint32_t first = 0;
        for (uint32_t v = 0; v < p->value_count && pass == 0; v++) {
            p->values[v].use_first = first;
            first += p->values[v].use_count;
            p->values[v].use_count = 0;
        }
    }
    hri_free(last);
    hri_free(p->uses);
    p->uses = uses;
    return HR_OK;
}

static void add_double(hri_hasher *h, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    hri_hasher_add_u64(h, bits);
}

static void add_memory(hri_hasher *h, const hri_problem_memory *m) {
    add_double(h, m->out_bytes_per_ns);
    add_double(h, m->in_bytes_per_ns);
    add_double(h, m->latency_ns);
}

int hri_problem_lists_memories(const hri_problem *p) {
    return p->memory_count > 1 || (p->memory_count == 1 && p->memories[0].capacity_bytes);
}

static uint64_t hash_of(const hri_problem *p) {
    hri_hasher h;
    hri_hasher_init(&h, 1);
    hri_hasher_add_u64(&h, p->align);
    add_memory(&h, &p->memories[0]);
    if (p->copies_block) {
        hri_hasher_add_u64(&h, 1);
    }
    if (p->copy_drag > 0) {
        add_double(&h, p->copy_drag);
    }
    /* One memory without a bound has the hash that it always had. */
    for (uint32_t m = 0; m < p->memory_count && hri_problem_lists_memories(p); m++) {
        const hri_problem_memory *x = &p->memories[m];
        add_memory(&h, x);
        hri_hasher_add_u64(&h, x->capacity_bytes);
        hri_hasher_add_u64(&h, (uint64_t)x->out_queue << 8 | x->in_queue);
    }
    for (uint32_t v = 0; v < p->value_count; v++) {
        hri_hasher_add_u64(&h, p->values[v].bytes);
        hri_hasher_add_u64(&h, (uint64_t)p->values[v].role * 2 + p->values[v].result);
    }
    for (uint32_t n = 0; n < p->op_count; n++) {
        const hri_problem_op *op = &p->ops[n];
        hri_hasher_add_u64(&h, (uint64_t)op->phase * 2 + op->once);
        hri_hasher_add_u64(&h, (uint64_t)op->in_count << 32 | op->out_count);
        if (op->joins > 0) {
            hri_hasher_add_u64(&h, n);
            add_double(&h, op->joins);
        }
        if (op->beside) {
            hri_hasher_add_u64(&h, (uint64_t)n << 32 | op->beside);
            add_double(&h, op->beside_share);
        }
        if (op->alone_ns > 0) {
            hri_hasher_add_u64(&h, (uint64_t)n << 32 | op->after);
            hri_hasher_add_u64(&h, (uint64_t)op->third << 41 | (uint64_t)op->apart << 40 |
                                       (uint64_t)op->many << 1 | op->chain);
            add_double(&h, op->alone_ns);
        }
        if (op->net) { /* what needs no other rank has the hash that it always had */
            hri_hasher_add_u64(&h, op->wire_bytes + 1);
        }
        for (uint32_t i = 0; i < op->in_count; i++) {
            hri_hasher_add_u64(&h, op->in[i]);
        }
        for (uint32_t k = 0; k < op->out_count; k++) {
            hri_hasher_add_u64(&h, (uint64_t)op->out[k].updates << 32 | op->out[k].value);
            hri_hasher_add_u64(&h, op->out[k].overwrite);
        }
        for (uint32_t i = 0; i < op->variant_count; i++) {
            add_double(&h, op->variants[i].time_ns);
            hri_hasher_add_u64(&h, op->variants[i].workspace_bytes);
        }
    }
    return hri_hasher_get(&h).lo;
}

/* Room for more is seldom needed after this.  That it stays is no failure. */
static void shrink(hri_problem *p) {
    hri_problem_value *values =
        p->value_count ? hri_realloc(p->values, p->value_count * sizeof *values) : NULL;
    p->values = values ? values : p->values;
    p->value_space = values ? p->value_count : p->value_space;
    hri_problem_op *ops = p->op_count ? hri_realloc(p->ops, p->op_count * sizeof *ops) : NULL;
    p->ops = ops ? ops : p->ops;
    p->op_space = ops ? p->op_count : p->op_space;
}

hr_status hri_problem_finish(hri_problem *p, hri_prose *why) {
    hr_status status = check_head(p, why);
    if (status == HR_OK) {
        settle_memories(p);
    }
    if (status == HR_OK && p->op_count == 0) {
        status = hri_prose_set(why, HR_E_INVALID, "the problem has no ops");
    }
    if (status == HR_OK && !(p->copy_drag >= 0 && p->copy_drag <= 1)) {
        status = hri_prose_set(why, HR_E_RANGE, "copy_drag must be from 0 to 1");
    }
    for (uint32_t n = 0; n < p->op_count && status == HR_OK; n++) {
        status = check_shares(p, n, why);
    }
    if (status == HR_OK) {
        status = check_values(p, why);
    }
    for (uint32_t n = 0; n < p->op_count && status == HR_OK; n++) {
        status = check_op(p, n, why);
    }
    for (uint32_t v = 0; v < p->value_count && status == HR_OK; v++) {
        const hri_problem_value *value = &p->values[v];
        if (value->role == HRI_ROLE_MADE && value->producer == HRI_PROBLEM_NONE) {
            status = hri_prose_set(why, HR_E_INVALID, "value %u (%s) is not the output of any op",
                                   v, value->name);
        } else if (value->result && value->updater != HRI_PROBLEM_NONE) {
            status = hri_prose_set(why, HR_E_INVALID,
                                   "value %u (%s) is a result, but op %u overwrites it", v,
                                   value->name, value->updater);
        }
    }
    if (status == HR_OK) {
        status = list_uses(p);
    }
    if (status == HR_OK) {
        p->hash = hash_of(p);
        p->finished = 1;
        shrink(p);
    }
    return status;
}

/* ---- the floor ---- */

static int is_fixed(const hri_problem *p, uint32_t v) {
    const uint8_t role = p->values[p->values[v].root].role;
    return role == HRI_ROLE_PERSISTENT || role == HRI_ROLE_CONSTANT;
}

uint64_t hri_problem_op_floor(const hri_problem *p, uint32_t n) {
    const hri_problem_op *op = &p->ops[n];
    uint64_t bytes = 0, least = UINT64_MAX;
    for (uint32_t i = 0; i < op->in_count; i++) {
        int seen = is_fixed(p, op->in[i]);
        for (uint32_t j = 0; j < i && !seen; j++) {
            seen = op->in[j] == op->in[i];
        }
        bytes += seen ? 0 : p->values[op->in[i]].room_bytes;
    }
    for (uint32_t k = 0; k < op->out_count; k++) {
        /* An output that might lie over an input may cost nothing: a bound must not count it. */
        uint64_t mask = op->out[k].overwrite;
        int free = is_fixed(p, op->out[k].value);
        for (uint32_t i = 0; i < op->in_count && i < HRI_PROBLEM_OVERWRITE_MAX && !free; i++) {
            free = (int)(mask >> i & 1) && !is_fixed(p, op->in[i]);
        }
        bytes += free ? 0 : p->values[op->out[k].value].room_bytes;
    }
    for (uint32_t i = 0; i < op->variant_count; i++) {
        const uint64_t room = hri_problem_room(p, op->variants[i].workspace_bytes);
        least = room < least ? room : least;
    }
    return bytes + least;
}

uint64_t hri_problem_floor(const hri_problem *p, uint32_t *op) {
    uint64_t inputs = 0, results = 0;
    for (uint32_t v = 0; v < p->value_count; v++) {
        inputs += p->values[v].role == HRI_ROLE_INPUT ? p->values[v].room_bytes : 0;
        results += p->values[v].result && !is_fixed(p, v) ? p->values[v].room_bytes : 0;
    }
    uint64_t most = inputs > results ? inputs : results;
    *op = HRI_PROBLEM_NONE;
    for (uint32_t n = 0; n < p->op_count; n++) {
        const uint64_t bytes = hri_problem_op_floor(p, n);
        if (bytes > most) {
            most = bytes;
            *op = n;
        }
    }
    return p->persistent_bytes + most;
}

void hri_problem_retime(hri_problem *p, hri_problem_time_fn *time_ns, void *user) {
    for (uint32_t n = 0; n < p->op_count; n++) {
        for (uint32_t i = 0; i < p->ops[n].variant_count; i++) {
            const double time = time_ns(user, &p->ops[n], i);
            if (time >= 0) { /* the list is ours, const only for readers */
                ((hri_problem_variant *)(uintptr_t)p->ops[n].variants)[i].time_ns = time;
            }
        }
    }
    p->hash = hash_of(p);
}

/* Only numbers that a file could have, too. */
void hri_problem_recompany(hri_problem *p, hri_problem_company_fn *change, void *user) {
    for (uint32_t n = 0; n < p->op_count; n++) {
        hri_problem_op *op = &p->ops[n];
        hri_problem_company c = {op->alone_ns, op->joins, op->beside_share};
        change(user, n, &c);
        op->alone_ns = c.alone_ns >= 0 && c.alone_ns <= 1e15 ? c.alone_ns : op->alone_ns;
        op->joins = c.joins >= 0 && c.joins <= 1 ? c.joins : op->joins;
        op->beside_share =
            c.beside_share >= 0 && c.beside_share <= 1 ? c.beside_share : op->beside_share;
    }
    p->hash = hash_of(p);
}
