/* The JSON form of a problem (docs/problem-format.md): written whole, read with every field checked.
 *
 * A file may come from anywhere.  Shapes of the JSON are checked here, the meaning of the numbers by
 * hri_problem_finish; between the two nothing is trusted.  Unknown keys are refused, so that a misspelt one does not
 * silently plan something else. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "plan/problem.h"

/* ---- writing ---- */

static void print_value(hri_json *j, const hri_problem_value *value) {
    hri_json_object(j, NULL);
    hri_json_string(j, "name", value->name);
    hri_json_u64(j, "bytes", value->bytes);
    if (value->role != HRI_ROLE_MADE) {
        hri_json_string(j, "role", hri_role_name(value->role));
    }
    if (value->result) {
        hri_json_bool(j, "result", true);
    }
    hri_json_end(j);
}

static void print_output(hri_json *j, const hri_problem_output *out) {
    if (!out->updates && !out->overwrite) {
        hri_json_u64(j, NULL, out->value);
        return;
    }
    hri_json_object(j, NULL);
    hri_json_u64(j, "value", out->value);
    if (out->updates) {
        hri_json_u64(j, "updates", out->updates - 1);
    }
    if (out->overwrite) {
        hri_json_array(j, "overwrite");
        for (uint32_t i = 0; i < HRI_PROBLEM_OVERWRITE_MAX; i++) {
            if (out->overwrite >> i & 1) {
                hri_json_u64(j, NULL, i);
            }
        }
        hri_json_end(j);
    }
    hri_json_end(j);
}

static void print_op(hri_json *j, const hri_problem_op *op) {
    hri_json_object(j, NULL);
    hri_json_string(j, "name", op->name);
    hri_json_string(j, "kind", op->kind);
    hri_json_string(j, "phase", hri_problem_phase_name(op->phase));
    hri_json_array(j, "in");
    for (uint32_t i = 0; i < op->in_count; i++) {
        hri_json_u64(j, NULL, op->in[i]);
    }
    hri_json_end(j);
    hri_json_array(j, "out");
    for (uint32_t k = 0; k < op->out_count; k++) {
        print_output(j, &op->out[k]);
    }
    hri_json_end(j);
    hri_json_array(j, "variants");
    for (uint32_t i = 0; i < op->variant_count; i++) {
        hri_json_object(j, NULL);
        hri_json_string(j, "name", op->variants[i].name);
        hri_json_double(j, "time_ns", op->variants[i].time_ns);
        hri_json_u64(j, "workspace_bytes", op->variants[i].workspace_bytes);
        hri_json_end(j);
    }
    hri_json_end(j);
    if (op->once) {
        hri_json_bool(j, "once", true);
    }
    if (op->joins > 0) {
        hri_json_double(j, "joins", op->joins);
    }
    if (op->beside) {
        hri_json_u64(j, "beside_op", op->beside - 1);
        hri_json_double(j, "beside_share", op->beside_share);
    }
    if (op->alone_ns > 0) {
        hri_json_double(j, "alone_ns", op->alone_ns);
    }
    if (op->alone_ns > 0 && op->after) {
        hri_json_u64(j, "after_op", op->after - 1);
        hri_json_bool(j, "chain", op->chain);
        if (op->third) {
            hri_json_bool(j, "third", true);
        }
        if (op->apart) {
            hri_json_bool(j, "apart", true);
        }
    }
    if (op->alone_ns > 0 && op->many) {
        hri_json_u64(j, "many", op->many);
    }
    if (op->net) {
        hri_json_u64(j, "wire_bytes", op->wire_bytes);
    }
    if (op->coupled == HRI_COUPLED) {
        hri_json_bool(j, "coupled", true);
    }
    hri_json_end(j);
}

static void print_speeds(hri_json *j, const hri_problem_memory *m) {
    hri_json_double(j, "out_bytes_per_ns", m->out_bytes_per_ns);
    hri_json_double(j, "in_bytes_per_ns", m->in_bytes_per_ns);
    hri_json_double(j, "copy_latency_ns", m->latency_ns);
}

/* The first one stands at the top as well, for readers that know one. */
static void print_memories(hri_json *j, const hri_problem *p) {
    hri_json_array(j, "memories");
    for (uint32_t m = 0; m < p->memory_count; m++) {
        const hri_problem_memory *x = &p->memories[m];
        hri_json_object(j, NULL);
        hri_json_string(j, "name", x->name ? x->name : "");
        hri_json_u64(j, "capacity_bytes", x->capacity_bytes);
        print_speeds(j, x);
        hri_json_u64(j, "out_queue", x->out_queue);
        hri_json_u64(j, "in_queue", x->in_queue);
        hri_json_end(j);
    }
    hri_json_end(j);
}

hr_status hri_problem_print(const hri_problem *p, char **out) {
    hri_json j;
    hri_json_init(&j);
    hri_json_string(&j, "headroom", "problem");
    hri_json_u64(&j, "version", 1);
    hri_json_string(&j, "name", p->name);
    hri_json_u64(&j, "align", p->align);
    print_speeds(&j, &p->memories[0]);
    if (p->copies_block) {
        hri_json_bool(&j, "copies_block", true);
    }
    if (p->copy_drag > 0) {
        hri_json_double(&j, "copy_drag", p->copy_drag);
    }
    if (hri_problem_lists_memories(p)) {
        print_memories(&j, p);
    }
    hri_json_array(&j, "values");
    for (uint32_t v = 0; v < p->value_count; v++) {
        print_value(&j, &p->values[v]);
    }
    hri_json_end(&j);
    hri_json_array(&j, "ops");
    for (uint32_t n = 0; n < p->op_count; n++) {
        print_op(&j, &p->ops[n]);
    }
    hri_json_end(&j);
    const hr_status status = hri_json_print(&j, 0, out);
    hri_json_deinit(&j);
    return status;
}

/* ---- reading ---- */

typedef struct reader {
    hri_problem *p;
    hri_prose *why;
    char where[64];   /* "op 12" */
    uint32_t *number; /* file's value number -> ours, views already resolved */
    uint32_t number_count;
    uint32_t *list; /* room for inputs of one op */
    hri_problem_output *outputs;
    hri_problem_variant *variants;
} reader;

static hr_status bad(const reader *r, const char *what) {
    return hri_prose_set(r->why, HR_E_FORMAT, "%s%s%s", r->where, r->where[0] ? ": " : "", what);
}

/* Every key of the object is in the list (NULL at the end). */
static hr_status check_keys(const reader *r, json_t *object, const char *const *known) {
    const char *key;
    json_t *value;
    if (!json_is_object(object)) {
        return bad(r, "not an object");
    }
    json_object_foreach(object, key, value) {
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0) {
            i++;
        }
        if (!known[i]) {
            return hri_prose_set(r->why, HR_E_FORMAT, "%s%sunknown key \"%s\"", r->where,
                                 r->where[0] ? ": " : "", key);
        }
    }
    return HR_OK;
}

static hr_status get_u64(const reader *r, const json_t *object, const char *key, uint64_t fallback,
                         uint64_t *out) {
    const json_t *value = json_object_get(object, key);
    if (!value) {
        *out = fallback;
        return HR_OK;
    }
    if (!json_is_integer(value) || json_integer_value(value) < 0) {
        return hri_prose_set(r->why, HR_E_FORMAT, "%s%s%s is not an integer >= 0", r->where,
                             r->where[0] ? ": " : "", key);
    }
    *out = (uint64_t)json_integer_value(value);
    return HR_OK;
}

static hr_status get_double(const reader *r, const json_t *object, const char *key, double *out) {
    const json_t *value = json_object_get(object, key);
    *out = 0;
    if (value && !json_is_number(value)) {
        return hri_prose_set(r->why, HR_E_FORMAT, "%s%s%s is not a number", r->where,
                             r->where[0] ? ": " : "", key);
    }
    *out = value ? json_number_value(value) : 0;
    return HR_OK;
}

static hr_status get_text(const reader *r, const json_t *object, const char *key,
                          const char **out) {
    const json_t *value = json_object_get(object, key);
    *out = "";
    if (value && !json_is_string(value)) {
        return hri_prose_set(r->why, HR_E_FORMAT, "%s%s%s is not a string", r->where,
                             r->where[0] ? ": " : "", key);
    }
    *out = value ? json_string_value(value) : "";
    return HR_OK;
}

static hr_status get_choice(const reader *r, const json_t *object, const char *key,
                            const char *(*name)(uint32_t), uint32_t count, uint8_t *out) {
    const char *text;
    const hr_status status = get_text(r, object, key, &text);
    *out = 0;
    if (status != HR_OK || !text[0]) {
        return status;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!strcmp(name(i), text)) {
            *out = (uint8_t)i;
            return HR_OK;
        }
    }
    return hri_prose_set(r->why, HR_E_FORMAT, "%s%s\"%s\" is not a valid %s", r->where,
                         r->where[0] ? ": " : "", text, key);
}

static hr_status read_value(reader *r, json_t *object, uint32_t at) {
    static const char *const keys[] = {"name", "bytes", "role", "result", "view_of", NULL};
    hri_problem_value value = {.id = at};
    uint64_t root = UINT64_MAX;
    hr_status status = check_keys(r, object, keys);
    if (status == HR_OK) {
        status = get_text(r, object, "name", &value.name);
    }
    if (status == HR_OK) {
        status = get_u64(r, object, "bytes", 0, &value.bytes);
    }
    if (status == HR_OK) {
        status = get_u64(r, object, "view_of", UINT64_MAX, &root);
    }
    if (status == HR_OK) {
        status = get_choice(r, object, "role", hri_role_name, HRI_ROLE_COUNT, &value.role);
    }
    if (status != HR_OK) {
        return status;
    }
    value.result = (uint8_t)json_is_true(json_object_get(object, "result"));
    if (root == UINT64_MAX) {
        return hri_problem_add_value(r->p, &value, &r->number[at]);
    }
    if (root >= at) {
        return bad(r, "view_of must name an earlier value");
    }
    r->number[at] = r->number[root];
    r->p->values[r->number[at]].result |= value.result;
    return HR_OK;
}

static hr_status read_number(const reader *r, const json_t *value, const char *what,
                             uint32_t *out) {
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) >= (json_int_t)r->number_count) {
        return hri_prose_set(r->why, HR_E_FORMAT, "%s: %s is not the index of a value", r->where,
                             what);
    }
    *out = r->number[json_integer_value(value)];
    return HR_OK;
}

static hr_status read_output(reader *r, json_t *item, hri_problem_output *out) {
    static const char *const keys[] = {"value", "updates", "overwrite", NULL};
    *out = (hri_problem_output){0};
    if (json_is_integer(item)) {
        return read_number(r, item, "an output", &out->value);
    }
    hr_status status = check_keys(r, item, keys);
    uint64_t updates = 0;
    if (status == HR_OK) {
        status = read_number(r, json_object_get(item, "value"), "an output", &out->value);
    }
    if (status == HR_OK) {
        status = get_u64(r, item, "updates", UINT64_MAX, &updates);
    }
    if (status != HR_OK) {
        return status;
    }
    if (updates != UINT64_MAX && updates >= HRI_PROBLEM_VALUES_MAX) {
        return bad(r, "updates is not an input");
    }
    out->updates = updates == UINT64_MAX ? 0 : (uint32_t)updates + 1;
    const json_t *list = json_object_get(item, "overwrite");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_int_t bit = json_integer_value(json_array_get(list, i));
        if (!json_is_integer(json_array_get(list, i)) || bit < 0 ||
            bit >= HRI_PROBLEM_OVERWRITE_MAX) {
            return bad(r, "overwrite must list input numbers below 64");
        }
        out->overwrite |= (uint64_t)1 << bit;
    }
    return HR_OK;
}

static hr_status read_variant(const reader *r, json_t *object, hri_problem_variant *out) {
    *out = (hri_problem_variant){0};
    hr_status status = get_text(r, object, "name", &out->name);
    if (status == HR_OK) {
        status = get_double(r, object, "time_ns", &out->time_ns);
    }
    if (status == HR_OK) {
        status = get_u64(r, object, "workspace_bytes", 0, &out->workspace_bytes);
    }
    return status;
}

/* Variants as a list, or the one way as time_ns and workspace_bytes of the op itself. */
static hr_status read_variants(reader *r, json_t *object, hri_problem_op *op) {
    static const char *const keys[] = {"name", "time_ns", "workspace_bytes", NULL};
    const json_t *list = json_object_get(object, "variants");
    op->variants = r->variants;
    op->variant_count = 1;
    if (!list) {
        const hr_status status = read_variant(r, object, &r->variants[0]);
        r->variants[0].name = "";
        return status;
    }
    op->variant_count = (uint32_t)json_array_size(list);
    if (!json_is_array(list) || json_array_size(list) > 64) {
        return bad(r, "variants must be a list of 1 to 64 items");
    }
    for (uint32_t i = 0; i < op->variant_count; i++) {
        json_t *item = json_array_get(list, i);
        hr_status status = check_keys(r, item, keys);
        if (status == HR_OK) {
            status = read_variant(r, item, &r->variants[i]);
        }
        if (status != HR_OK) {
            return status;
        }
    }
    return HR_OK;
}

static hr_status read_beside(const reader *r, const json_t *object, uint32_t at,
                             hri_problem_op *op) {
    uint64_t beside = UINT64_MAX;
    hr_status status = get_u64(r, object, "beside_op", UINT64_MAX, &beside);
    if (status == HR_OK && beside != UINT64_MAX) {
        op->beside = (uint32_t)beside + 1;
        status = beside < at ? HR_OK : bad(r, "beside_op is not the index of an op before it");
    }
    return status == HR_OK ? get_double(r, object, "beside_share", &op->beside_share) : status;
}

/* What it does together with others. */
static hr_status read_company(const reader *r, const json_t *object, uint32_t at,
                              hri_problem_op *op) {
    uint64_t after = UINT64_MAX, many = 0;
    hr_status status = get_u64(r, object, "after_op", UINT64_MAX, &after);
    if (status == HR_OK && after != UINT64_MAX) {
        op->after = (uint32_t)after + 1;
        status = after < at ? HR_OK : bad(r, "after_op is not the index of an op before it");
    }
    status = status == HR_OK ? get_u64(r, object, "many", 0, &many) : status;
    if (status == HR_OK && many > HRI_PROBLEM_OPS_MAX) {
        status = bad(r, "many is too large");
    }
    op->many = (uint32_t)many;
    op->chain = (uint8_t)json_is_true(json_object_get(object, "chain"));
    op->third = (uint8_t)json_is_true(json_object_get(object, "third"));
    op->apart = (uint8_t)json_is_true(json_object_get(object, "apart"));
    return status == HR_OK ? get_double(r, object, "alone_ns", &op->alone_ns) : status;
}

static hr_status read_op(reader *r, json_t *object, uint32_t at) {
    static const char *const keys[] = {
        "name",       "kind",  "phase",     "in",           "out",
        "variants",   "once",  "coupled",   "time_ns",      "workspace_bytes",
        "wire_bytes", "joins", "beside_op", "beside_share", "alone_ns",
        "after_op",   "many",  "chain",     "third",        "apart",
        NULL};
    hri_problem_op op = {.id = at, .in = r->list, .out = r->outputs};
    hr_status status = check_keys(r, object, keys);
    if (status == HR_OK) {
        status = get_text(r, object, "name", &op.name);
    }
    if (status == HR_OK) {
        status = get_text(r, object, "kind", &op.kind);
    }
    if (status == HR_OK) {
        status = get_choice(r, object, "phase", hri_problem_phase_name, HRI_PROBLEM_PHASE_COUNT,
                            &op.phase);
    }
    if (status == HR_OK) {
        status = read_variants(r, object, &op);
    }
    const json_t *in = json_object_get(object, "in"), *out = json_object_get(object, "out");
    if (status == HR_OK && ((in && !json_is_array(in)) || (out && !json_is_array(out)))) {
        status = bad(r, "in and out must be lists");
    }
    op.in_count = (uint32_t)json_array_size(in);
    op.out_count = (uint32_t)json_array_size(out);
    for (uint32_t i = 0; i < op.in_count && status == HR_OK; i++) {
        status = read_number(r, json_array_get(in, i), "an input", &r->list[i]);
    }
    for (uint32_t k = 0; k < op.out_count && status == HR_OK; k++) {
        status = read_output(r, json_array_get(out, k), &r->outputs[k]);
    }
    op.once = (uint8_t)json_is_true(json_object_get(object, "once"));
    op.coupled = (uint8_t)json_is_true(json_object_get(object, "coupled"));
    if (status == HR_OK) {
        status = get_double(r, object, "joins", &op.joins);
    }
    status = status == HR_OK ? read_beside(r, object, at, &op) : status;
    status = status == HR_OK ? read_company(r, object, at, &op) : status;
    if (status == HR_OK && json_object_get(object, "wire_bytes")) {
        op.net = 1;
        status = hri_json_get_u64(object, "wire_bytes", &op.wire_bytes, r->why);
    }
    uint32_t number;
    return status == HR_OK ? hri_problem_add_op(r->p, &op, &number) : status;
}

/* Room for the longest lists of any op. */
static hr_status make_room(reader *r, const json_t *values, const json_t *ops) {
    size_t most_in = 0, most_out = 0;
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *op = json_array_get(ops, i);
        const size_t in = json_array_size(json_object_get(op, "in"));
        const size_t out = json_array_size(json_object_get(op, "out"));
        most_in = in > most_in ? in : most_in;
        most_out = out > most_out ? out : most_out;
    }
    r->number_count = (uint32_t)json_array_size(values);
    r->number = hri_calloc((size_t)r->number_count + 1, sizeof *r->number);
    r->list = hri_calloc(most_in + 1, sizeof *r->list);
    r->outputs = hri_calloc(most_out + 1, sizeof *r->outputs);
    r->variants = hri_calloc(64, sizeof *r->variants);
    return r->number && r->list && r->outputs && r->variants ? HR_OK : HR_E_NOMEM_HOST;
}

static hr_status read_speeds(reader *r, const json_t *object, hri_problem_memory *m) {
    hr_status status = get_double(r, object, "out_bytes_per_ns", &m->out_bytes_per_ns);
    if (status == HR_OK) {
        status = get_double(r, object, "in_bytes_per_ns", &m->in_bytes_per_ns);
    }
    return status == HR_OK ? get_double(r, object, "copy_latency_ns", &m->latency_ns) : status;
}

static hr_status read_memory(reader *r, json_t *object, hri_problem_memory *m) {
    static const char *const keys[] = {"name",
                                       "capacity_bytes",
                                       "out_bytes_per_ns",
                                       "in_bytes_per_ns",
                                       "copy_latency_ns",
                                       "out_queue",
                                       "in_queue",
                                       NULL};
    uint64_t queue[2] = {0, 0};
    const char *name;
    hr_status status = check_keys(r, object, keys);
    status = status == HR_OK ? get_text(r, object, "name", &name) : status;
    status = status == HR_OK ? get_u64(r, object, "capacity_bytes", 0, &m->capacity_bytes) : status;
    status = status == HR_OK ? read_speeds(r, object, m) : status;
    status = status == HR_OK ? get_u64(r, object, "out_queue", 0, &queue[0]) : status;
    status = status == HR_OK ? get_u64(r, object, "in_queue", 0, &queue[1]) : status;
    if (status == HR_OK &&
        (queue[0] >= HRI_PROBLEM_QUEUES_MAX || queue[1] >= HRI_PROBLEM_QUEUES_MAX)) {
        status = bad(r, "a queue's number is too large");
    }
    if (status == HR_OK) {
        m->out_queue = (uint8_t)queue[0];
        m->in_queue = (uint8_t)queue[1];
        m->name = hri_arena_strdup(&r->p->arena, name);
        status = m->name ? HR_OK : HR_E_NOMEM_HOST;
    }
    return status;
}

/* Instead of the one memory whose speeds stand at the top. */
static hr_status read_memories(reader *r, const json_t *root) {
    const json_t *list = json_object_get(root, "memories");
    hr_status status = HR_OK;
    if (!list) {
        return HR_OK;
    }
    if (!json_is_array(list) || json_array_size(list) == 0 ||
        json_array_size(list) > HRI_PROBLEM_MEMORIES_MAX) {
        return bad(r, "memories must be a list of 1 to 6");
    }
    r->p->memory_count = (uint32_t)json_array_size(list);
    for (uint32_t m = 0; m < r->p->memory_count && status == HR_OK; m++) {
        snprintf(r->where, sizeof r->where, "memory %u", m + 1);
        status = read_memory(r, json_array_get(list, m), &r->p->memories[m]);
    }
    r->where[0] = '\0';
    return status;
}

static hr_status read_head(reader *r, json_t *root) {
    static const char *const keys[] = {"headroom",
                                       "version",
                                       "name",
                                       "align",
                                       "out_bytes_per_ns",
                                       "in_bytes_per_ns",
                                       "copy_latency_ns",
                                       "copies_block",
                                       "copy_drag",
                                       "memories",
                                       "values",
                                       "ops",
                                       NULL};
    const char *text;
    uint64_t version = 0;
    hr_status status = check_keys(r, root, keys);
    if (status == HR_OK) {
        status = get_text(r, root, "headroom", &text);
    }
    if (status == HR_OK && strcmp(text, "problem") != 0) {
        status = bad(r, "not a planner problem (\"headroom\" is not \"problem\")");
    }
    if (status == HR_OK) {
        status = get_u64(r, root, "version", 0, &version);
    }
    if (status == HR_OK && version != 1) {
        status = bad(r, "version is not 1");
    }
    if (status == HR_OK) {
        status = get_u64(r, root, "align", 256, &r->p->align);
    }
    if (status == HR_OK) {
        status = read_speeds(r, root, &r->p->memories[0]);
    }
    if (status == HR_OK) {
        status = read_memories(r, root);
    }
    const json_t *block = json_object_get(root, "copies_block");
    if (status == HR_OK && block && !json_is_boolean(block)) {
        status = bad(r, "copies_block must be true or false");
    }
    r->p->copies_block = json_is_true(block);
    if (status == HR_OK) {
        status = get_double(r, root, "copy_drag", &r->p->copy_drag);
    }
    if (status == HR_OK) {
        status = get_text(r, root, "name", &text);
    }
    if (status == HR_OK) {
        r->p->name = hri_arena_strdup(&r->p->arena, text);
        status = r->p->name ? HR_OK : HR_E_NOMEM_HOST;
    }
    return status;
}

static hr_status read_root(reader *r, json_t *root) {
    hr_status status = read_head(r, root);
    if (status != HR_OK) {
        return status;
    }
    const json_t *values = json_object_get(root, "values"), *ops = json_object_get(root, "ops");
    if (!json_is_array(values) || !json_is_array(ops)) {
        return bad(r, "values and ops must be lists");
    }
    if (json_array_size(values) > HRI_PROBLEM_VALUES_MAX ||
        json_array_size(ops) > HRI_PROBLEM_OPS_MAX) {
        return hri_prose_set(r->why, HR_E_RANGE, "too many values or ops");
    }
    status = make_room(r, values, ops);
    for (uint32_t i = 0; i < json_array_size(values) && status == HR_OK; i++) {
        snprintf(r->where, sizeof r->where, "value %u", i);
        status = read_value(r, json_array_get(values, i), i);
    }
    for (uint32_t i = 0; i < json_array_size(ops) && status == HR_OK; i++) {
        snprintf(r->where, sizeof r->where, "op %u", i);
        status = read_op(r, json_array_get(ops, i), i);
    }
    return status == HR_OK ? hri_problem_finish(r->p, r->why) : status;
}

hr_status hri_problem_parse(const char *text, size_t bytes, hri_problem *out, hri_prose *why) {
    const hri_json_limits limits = {
        .max_bytes = HRI_PROBLEM_FILE_BYTES, .max_depth = 8, .max_values = HRI_PROBLEM_FILE_VALUES};
    json_t *root = NULL;
    hr_status status = hri_json_parse(text, bytes, &limits, &root, why);
    if (status != HR_OK) {
        return status;
    }
    hri_problem p;
    hri_problem_init(&p, 256);
    reader r = {.p = &p, .why = why};
    status = read_root(&r, root);
    json_decref(root);
    hri_free(r.number);
    hri_free(r.list);
    hri_free(r.outputs);
    hri_free(r.variants);
    if (status == HR_OK) {
        *out = p;
    } else {
        hri_problem_deinit(&p);
    }
    return status;
}
