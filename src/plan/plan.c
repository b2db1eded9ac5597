/* Plans as objects: freeing and the JSON form.
 *
 * The JSON is for people who compare plans and for runs that reuse one; what is read back is checked like any other
 * plan, so a file that was edited by hand is as safe as one of ours. */
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/json.h"

static const char *const step_names[] = {
#define HRI_STEP_TEXT(NAME, TEXT) TEXT,
    HRI_STEP_MAP(HRI_STEP_TEXT)
#undef HRI_STEP_TEXT
};

const char *hri_step_name(uint32_t kind) {
    return kind < HRI_STEP_KIND_COUNT ? step_names[kind] : "?";
}

void hri_plan_memo_deinit(hri_plan_memo *memo) {
    hri_free(memo->order);
    hri_free(memo->gaps);
    hri_free(memo->variant);
    *memo = (hri_plan_memo){0};
}

void hri_plan_destroy(hri_plan *plan) {
    if (plan) {
        hri_free(plan->steps);
        hri_free(plan->operands);
        hri_free(plan->buffers);
        hri_plan_memo_deinit(&plan->choices);
        hri_free(plan);
    }
}

/* A new block with the same bytes. */
static void *copy_of(const void *from, size_t bytes) {
    void *block = hri_malloc(bytes ? bytes : 1);
    if (block && bytes) {
        memcpy(block, from, bytes);
    }
    return block;
}

static hr_status copy_memo(const hri_plan_memo *from, hri_plan_memo *to) {
    *to = (hri_plan_memo){.op_count = from->op_count, .gap_count = from->gap_count};
    if (!from->order) {
        return HR_OK;
    }
    to->order = copy_of(from->order, from->op_count * sizeof *from->order);
    to->gaps = copy_of(from->gaps, from->gap_count);
    to->variant = copy_of(from->variant, from->op_count);
    return to->order && to->gaps && to->variant ? HR_OK : HR_E_NOMEM_HOST;
}

hri_plan *hri_plan_copy(const hri_plan *plan) {
    hri_plan *new = hri_malloc(sizeof *new);
    if (!new) {
        return NULL;
    }
    *new = *plan;
    new->steps = copy_of(plan->steps, plan->step_count * sizeof *plan->steps);
    new->operands = copy_of(plan->operands, plan->operand_count * sizeof *plan->operands);
    new->buffers = copy_of(plan->buffers, plan->buffer_count * sizeof *plan->buffers);
    const hr_status copied = copy_memo(&plan->choices, &new->choices);
    if (!new->steps || !new->operands || !new->buffers || copied != HR_OK) {
        hri_plan_destroy(new);
        return NULL;
    }
    return new;
}

/* ---- writing ---- */

static void print_head(hri_json *j, const hri_plan *plan) {
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)plan->problem_hash);
    hri_json_string(j, "headroom", "plan");
    hri_json_u64(j, "version", 1);
    hri_json_string(j, "problem", hash);
    hri_json_u64(j, "persistent_bytes", plan->persistent_bytes);
    hri_json_u64(j, "arena_bytes", plan->arena_bytes);
    hri_json_u64(j, "other_bytes", plan->other_bytes);
    if (plan->memory_bytes[0] != plan->other_bytes) {
        hri_json_array(j, "memory_bytes");
        for (uint32_t m = 0; m < HRI_PROBLEM_MEMORIES_MAX; m++) {
            hri_json_u64(j, NULL, plan->memory_bytes[m]);
        }
        hri_json_end(j);
    }
    hri_json_u64(j, "live_bytes", plan->live_bytes);
    hri_json_u64(j, "peak_step", plan->peak_step);
    hri_json_u64(j, "floor_bytes", plan->floor_bytes);
    hri_json_u64(j, "floor_op", plan->floor_op);
    hri_json_u64(j, "unplanned_bytes", plan->unplanned_bytes);
    hri_json_double(j, "time_ns", plan->time_ns);
    hri_json_double(j, "base_time_ns", plan->base_time_ns);
    hri_json_double(j, "bound_time_ns", plan->bound_time_ns);
    hri_json_u64(j, "again_count", plan->again_count);
    hri_json_double(j, "again_time_ns", plan->again_time_ns);
    hri_json_u64(j, "copied_bytes", plan->copied_bytes);
    if (plan->net_hash) {
        snprintf(hash, sizeof hash, "%016llx", (unsigned long long)plan->net_hash);
        hri_json_string(j, "net", hash);
    }
}

void hri_plan_hash(const hri_plan *plan, hri_hasher *hash) {
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const hri_plan_step *s = &plan->steps[i];
        const uint32_t words[] = {s->kind, s->again, s->variant, s->op};
        hri_hasher_add(hash, words, sizeof words);
    }
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const hri_plan_buffer *b = &plan->buffers[i];
        const uint64_t words[] = {b->offset, b->bytes, b->birth, b->death, b->value, b->memory};
        hri_hasher_add(hash, words, sizeof words);
    }
}

static uint32_t operands_of(const hri_plan *plan, uint32_t step) {
    const uint32_t next =
        step + 1 < plan->step_count ? plan->steps[step + 1].first : plan->operand_count;
    return next - plan->steps[step].first;
}

hr_status hri_plan_print(const hri_plan *plan, char **out) {
    hri_json j;
    hri_json_init(&j);
    print_head(&j, plan);
    hri_json_array(&j, "buffers"); /* [value or -1, offset, bytes, birth, death, memory] */
    for (uint32_t b = 0; b < plan->buffer_count; b++) {
        const hri_plan_buffer *x = &plan->buffers[b];
        hri_json_array(&j, NULL);
        hri_json_i64(&j, NULL, x->value == HRI_PROBLEM_NONE ? -1 : (int64_t)x->value);
        hri_json_u64(&j, NULL, x->offset);
        hri_json_u64(&j, NULL, x->bytes);
        hri_json_u64(&j, NULL, x->birth);
        hri_json_u64(&j, NULL, x->death);
        hri_json_u64(&j, NULL, x->memory);
        hri_json_end(&j);
    }
    hri_json_end(&j);
    hri_json_array(&j, "steps"); /* [kind, op or step, again, variant, operands ...] */
    for (uint32_t s = 0; s < plan->step_count; s++) {
        const hri_plan_step *x = &plan->steps[s];
        const uint32_t count = operands_of(plan, s);
        hri_json_array(&j, NULL);
        hri_json_string(&j, NULL, hri_step_name(x->kind));
        hri_json_u64(&j, NULL, x->op);
        hri_json_u64(&j, NULL, x->again);
        hri_json_u64(&j, NULL, x->variant);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t b = plan->operands[x->first + i];
            hri_json_i64(&j, NULL, b == HRI_PROBLEM_NONE ? -1 : (int64_t)b);
        }
        hri_json_end(&j);
    }
    hri_json_end(&j);
    const hr_status status = hri_json_print(&j, 0, out);
    hri_json_deinit(&j);
    return status;
}

/* ---- reading ---- */

/* Item i of a list: a whole number from -1 (NONE) to `most`. */
static hr_status item(const json_t *list, size_t i, uint64_t most, uint64_t *out, hri_prose *why) {
    const json_t *x = json_array_get(list, i);
    const json_int_t number = json_integer_value(x);
    if (!json_is_integer(x) || number < -1 || (number >= 0 && (uint64_t)number > most)) {
        return hri_prose_set(why, HR_E_FORMAT, "a step or buffer number is out of range");
    }
    *out = number < 0 ? HRI_PROBLEM_NONE : (uint64_t)number;
    return HR_OK;
}

static hr_status read_head(const json_t *root, hri_plan *plan, hri_prose *why) {
    const char *hash;
    uint64_t small[3] = {0};
    const struct {
        const char *key;
        uint64_t *to;
    } numbers[] = {{"persistent_bytes", &plan->persistent_bytes},
                   {"arena_bytes", &plan->arena_bytes},
                   {"other_bytes", &plan->other_bytes},
                   {"live_bytes", &plan->live_bytes},
                   {"floor_bytes", &plan->floor_bytes},
                   {"unplanned_bytes", &plan->unplanned_bytes},
                   {"copied_bytes", &plan->copied_bytes},
                   {"peak_step", &small[0]},
                   {"floor_op", &small[1]},
                   {"again_count", &small[2]}};
    const struct {
        const char *key;
        double *to;
    } times[] = {{"time_ns", &plan->time_ns},
                 {"base_time_ns", &plan->base_time_ns},
                 {"bound_time_ns", &plan->bound_time_ns},
                 {"again_time_ns", &plan->again_time_ns}};
    hr_status status = hri_json_get_string(root, "problem", &hash, why);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && status == HR_OK; i++) {
        status = hri_json_get_u64(root, numbers[i].key, numbers[i].to, why);
    }
    for (size_t i = 0; i < sizeof times / sizeof *times && status == HR_OK; i++) {
        status = hri_json_get_double(root, times[i].key, times[i].to, why);
    }
    if (status == HR_OK) {
        char is[20];
        snprintf(is, sizeof is, "%016llx", (unsigned long long)plan->problem_hash);
        if (strcmp(is, hash) != 0) {
            return hri_prose_set(why, HR_E_INVALID, "the plan was made for problem %s, not for %s",
                                 hash, is);
        }
        plan->peak_step = (uint32_t)small[0];
        plan->floor_op = (uint32_t)small[1];
        plan->again_count = (uint32_t)small[2];
        plan->packing = "read";
        const char *net = json_string_value(json_object_get(root, "net"));
        plan->net_hash = net ? strtoull(net, NULL, 16) : 0; /* the checker knows better */
    }
    return status;
}

/* All of it is of the first memory, unless the plan says how much is of which. */
static hr_status read_memories(const json_t *root, hri_plan *plan, hri_prose *why) {
    const json_t *list = json_object_get(root, "memory_bytes");
    hr_status status = HR_OK;
    plan->memory_bytes[0] = plan->other_bytes;
    if (list && json_array_size(list) != HRI_PROBLEM_MEMORIES_MAX) {
        return hri_prose_set(why, HR_E_FORMAT, "memory_bytes does not have %d numbers",
                             HRI_PROBLEM_MEMORIES_MAX);
    }
    for (uint32_t m = 0; list && m < HRI_PROBLEM_MEMORIES_MAX && status == HR_OK; m++) {
        status = item(list, m, INT64_MAX, &plan->memory_bytes[m], why);
    }
    return status;
}

static hr_status read_buffers(const json_t *list, hri_plan *plan, hri_prose *why) {
    plan->buffer_count = (uint32_t)json_array_size(list);
    plan->buffers = hri_calloc((size_t)plan->buffer_count + 1, sizeof *plan->buffers);
    hr_status status = plan->buffers ? HR_OK : HR_E_NOMEM_HOST;
    for (uint32_t b = 0; b < plan->buffer_count && status == HR_OK; b++) {
        static const uint64_t most[6] = {HRI_PROBLEM_NONE, INT64_MAX,  INT64_MAX,
                                         UINT32_MAX,       UINT32_MAX, HRI_PROBLEM_MEMORIES_MAX};
        const json_t *x = json_array_get(list, b);
        uint64_t n[6] = {0};
        for (size_t i = 0; i < 6 && status == HR_OK; i++) {
            status = item(x, i, most[i], &n[i], why);
        }
        plan->buffers[b] = (hri_plan_buffer){n[1],           n[2],           (uint32_t)n[3],
                                             (uint32_t)n[4], (uint32_t)n[0], (uint8_t)n[5]};
    }
    return status;
}

static hr_status read_step(const json_t *x, hri_plan *plan, uint32_t s, hri_prose *why) {
    const char *kind = json_string_value(json_array_get(x, 0));
    uint64_t n[3] = {0};
    hr_status status = kind ? HR_OK : hri_prose_set(why, HR_E_FORMAT, "step %u has no kind", s);
    uint8_t k = 0;
    while (status == HR_OK && k < HRI_STEP_KIND_COUNT && strcmp(step_names[k], kind) != 0) {
        k++;
    }
    for (size_t i = 0; i < 3 && status == HR_OK; i++) {
        status = item(x, i + 1, i == 0 ? UINT32_MAX : 64, &n[i], why);
    }
    plan->steps[s] =
        (hri_plan_step){k, (uint8_t)n[1], (uint8_t)n[2], (uint32_t)n[0], plan->operand_count};
    for (size_t i = 4; i < json_array_size(x) && status == HR_OK; i++) {
        uint64_t operand = 0;
        status = item(x, i, HRI_PROBLEM_NONE, &operand, why);
        plan->operands[plan->operand_count++] = (uint32_t)operand;
    }
    return status;
}

static hr_status read_steps(const json_t *list, hri_plan *plan, hri_prose *why) {
    size_t total = 0;
    plan->step_count = (uint32_t)json_array_size(list);
    for (uint32_t s = 0; s < plan->step_count; s++) {
        total += json_array_size(json_array_get(list, s));
    }
    plan->steps = hri_calloc((size_t)plan->step_count + 1, sizeof *plan->steps);
    plan->operands = hri_calloc(total + 1, sizeof *plan->operands);
    hr_status status = plan->steps && plan->operands ? HR_OK : HR_E_NOMEM_HOST;
    for (uint32_t s = 0; s < plan->step_count && status == HR_OK; s++) {
        status = read_step(json_array_get(list, s), plan, s, why);
    }
    return status;
}

hr_status hri_plan_parse(const char *text, size_t bytes, const hri_problem *p, hri_plan **out,
                         hri_prose *why) {
    const hri_json_limits limits = {
        .max_bytes = HRI_PROBLEM_FILE_BYTES, .max_depth = 8, .max_values = HRI_PROBLEM_FILE_VALUES};
    json_t *root = NULL;
    hr_status status = hri_json_parse(text, bytes, &limits, &root, why);
    if (status != HR_OK) {
        return status;
    }
    hri_plan *plan = hri_calloc(1, sizeof *plan);
    const char *kind = json_string_value(json_object_get(root, "headroom"));
    if (!plan) {
        status = HR_E_NOMEM_HOST;
    } else if (!kind || strcmp(kind, "plan") != 0) {
        status = hri_prose_set(why, HR_E_FORMAT, "not a plan file (\"headroom\" is not \"plan\")");
    } else {
        plan->problem_hash = p->hash;
        status = read_head(root, plan, why);
    }
    if (status == HR_OK) {
        status = read_memories(root, plan, why);
    }
    if (status == HR_OK) {
        status = read_buffers(json_object_get(root, "buffers"), plan, why);
    }
    if (status == HR_OK) {
        status = read_steps(json_object_get(root, "steps"), plan, why);
    }
    if (status == HR_OK) {
        status = hri_plan_check(p, plan, UINT64_MAX, why);
    }
    json_decref(root);
    if (status == HR_OK) {
        *out = plan;
    } else {
        hri_plan_destroy(plan);
    }
    return status;
}

/* What computing waits for exchanges. */
static double exposed(const hri_problem *p, const hri_plan *plan) {
    const size_t count = (size_t)plan->step_count + 1;
    double *begin = hri_calloc(2 * count, sizeof *begin), *end = begin + count, sum = 0;
    if (!begin) {
        return NAN;
    }
    hri_plan_times(p, plan, begin, end);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const hri_plan_step *s = &plan->steps[i];
        const int waits = s->kind == HRI_STEP_WAIT && plan->steps[s->op].kind == HRI_STEP_NET;
        if (waits || (s->kind == HRI_STEP_RUN && p->ops[s->op].net)) {
            sum += end[i] - begin[i];
        }
    }
    hri_free(begin);
    return sum;
}

hri_plan_net hri_plan_net_of(const hri_problem *p, const hri_plan *plan) {
    hri_plan_net net = {0};
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const hri_plan_step *step = &plan->steps[i];
        const hri_problem_op *op = hri_step_runs(step) ? &p->ops[step->op] : NULL;
        if (op && op->net) {
            net.bytes += op->wire_bytes;
            net.time_ns += op->variants[step->variant].time_ns;
            net.hash = (net.hash ^ (step->op + 1)) * UINT64_C(0x100000001b3);
            net.hash = (net.hash ^ op->wire_bytes) * UINT64_C(0x100000001b3);
            net.count++;
        }
    }
    net.exposed_ns = net.count ? exposed(p, plan) : 0;
    return net;
}

hr_status hri_plan_carry(const hri_plan *plan, const hri_problem *to, hri_plan **out,
                         hri_prose *why) {
    hri_plan *copy = hri_plan_copy(plan);
    if (!copy) {
        return HR_E_NOMEM_HOST;
    }
    copy->problem_hash = to->hash;
    const hr_status status = hri_plan_check(to, copy, copy->arena_bytes, why);
    if (status == HR_OK) {
        copy->time_ns = hri_plan_makespan(to, copy);
        *out = copy;
    } else {
        hri_plan_destroy(copy);
    }
    return status;
}
