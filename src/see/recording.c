/* The tables of a recording, and filling them; see recording.h. */
#include "see/recording.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define OP(M)     offsetof(hri_see_op, M)
#define BUFFER(M) offsetof(hri_see_buffer, M)
#define PART(M)   offsetof(hri_see_part, M)
#define CHOICE(M) offsetof(hri_see_choice, M)
#define STEP(M)   offsetof(hri_see_step, M)
#define HEAD(M)   offsetof(hri_see_head, M)
#define COUNT(A)  (sizeof(A) / sizeof(A)[0])

static const hri_see_column ops[] = {
    {"name", HRI_SEE_TEXT, OP(name)},
    {"kind", HRI_SEE_TEXT, OP(kind)},
    {"layer", HRI_SEE_TEXT, OP(layer)},
    {"phase", HRI_SEE_U8, OP(phase)},
    {"what", HRI_SEE_U8, OP(what)},
    {"again", HRI_SEE_U8, OP(again)},
    {"graph", HRI_SEE_U8, OP(graph)},
    {"begin_ns", HRI_SEE_F64, OP(begin_ns)},
    {"end_ns", HRI_SEE_F64, OP(end_ns)},
    {"measured_begin", HRI_SEE_F64, OP(measured_begin_ns)},
    {"measured_end", HRI_SEE_F64, OP(measured_end_ns)},
    {"flops", HRI_SEE_F64, OP(flops)},
    {"bytes", HRI_SEE_U64, OP(bytes)},
    {"held_bytes", HRI_SEE_U64, OP(held_bytes)},
    {"live_bytes", HRI_SEE_U64, OP(live_bytes), .optional = true},
};

static const hri_see_column buffers[] = {
    {"name", HRI_SEE_TEXT, BUFFER(name)},
    {"shape", HRI_SEE_TEXT, BUFFER(shape)},
    {"value", HRI_SEE_U32, BUFFER(value)},
    {"source", HRI_SEE_TEXT, BUFFER(source)},
    {"category", HRI_SEE_U8, BUFFER(category)},
    {"flags", HRI_SEE_U8, BUFFER(flags)},
    {"birth", HRI_SEE_U32, BUFFER(birth)},
    {"death", HRI_SEE_U32, BUFFER(death)},
    {"offset", HRI_SEE_U64, BUFFER(offset)},
    {"bytes", HRI_SEE_U64, BUFFER(bytes)},
    {"asked_bytes", HRI_SEE_U64, BUFFER(asked_bytes)},
};

static const hri_see_column parts[] = {
    {"name", HRI_SEE_TEXT, PART(name)},
    {"note", HRI_SEE_TEXT, PART(note)},
    {"category", HRI_SEE_U8, PART(category)},
    {"planned_bytes", HRI_SEE_U64, PART(planned_bytes)},
    {"measured_bytes", HRI_SEE_U64, PART(measured_bytes)},
};

static const hri_see_column choices[] = {
    {"budget_bytes", HRI_SEE_U64, CHOICE(budget_bytes)},
    {"peak_bytes", HRI_SEE_U64, CHOICE(peak_bytes)},
    {"recomputed_ops", HRI_SEE_U64, CHOICE(recomputed_ops)},
    {"offloaded_bytes", HRI_SEE_U64, CHOICE(offloaded_bytes)},
    {"time_ratio", HRI_SEE_F64, CHOICE(time_ratio)},
    {"micro_batches", HRI_SEE_U32, CHOICE(micro_batches)},
};

static const hri_see_column steps[] = {
    {"number", HRI_SEE_U64, STEP(number)},         {"begin_ns", HRI_SEE_F64, STEP(begin_ns)},
    {"end_ns", HRI_SEE_F64, STEP(end_ns)},         {"wait_ns", HRI_SEE_F64, STEP(wait_ns)},
    {"device_ns", HRI_SEE_F64, STEP(device_ns)},   {"loss", HRI_SEE_F64, STEP(loss)},
    {"held_bytes", HRI_SEE_U64, STEP(held_bytes)},
};

const hri_see_table_info hri_see_tables[HRI_SEE_TABLES] = {
    {"ops", "ops ", ops, COUNT(ops), sizeof(hri_see_op)},
    {"buffers", "bufs", buffers, COUNT(buffers), sizeof(hri_see_buffer)},
    {"parts", "part", parts, COUNT(parts), sizeof(hri_see_part)},
    {"choices", "curv", choices, COUNT(choices), sizeof(hri_see_choice)},
    {"steps", "step", steps, COUNT(steps), sizeof(hri_see_step)},
};

const hri_see_column hri_see_head_fields[] = {
    {"source", HRI_SEE_TEXT, HEAD(source)},
    {"model", HRI_SEE_TEXT, HEAD(model)},
    {"device", HRI_SEE_TEXT, HEAD(device)},
    {"precision", HRI_SEE_TEXT, HEAD(precision)},
    {"optimizer", HRI_SEE_TEXT, HEAD(optimizer)},
    {"program", HRI_SEE_TEXT, HEAD(program)},
    {"created", HRI_SEE_TEXT, HEAD(created)},
    {"minimum_op", HRI_SEE_TEXT, HEAD(minimum_op)},
    {"held_by", HRI_SEE_TEXT, HEAD(held_by)},
    {"graphs", HRI_SEE_TEXT, HEAD(graphs)},
    {"note", HRI_SEE_TEXT, HEAD(note)},
    {"fits", HRI_SEE_U64, HEAD(fits)},
    {"batch", HRI_SEE_U64, HEAD(batch)},
    {"micro_batches", HRI_SEE_U64, HEAD(micro_batches)},
    {"largest_batch", HRI_SEE_U64, HEAD(largest_batch)},
    {"recomputed_ops", HRI_SEE_U64, HEAD(recomputed_ops)},
    {"budget_bytes", HRI_SEE_U64, HEAD(budget_bytes)},
    {"peak_bytes", HRI_SEE_U64, HEAD(peak_bytes)},
    {"minimum_bytes", HRI_SEE_U64, HEAD(minimum_bytes)},
    {"unconstrained_bytes", HRI_SEE_U64, HEAD(unconstrained_bytes)},
    {"runtime_bytes", HRI_SEE_U64, HEAD(runtime_bytes)},
    {"arena_bytes", HRI_SEE_U64, HEAD(arena_bytes)},
    {"measured_peak_bytes", HRI_SEE_U64, HEAD(measured_peak_bytes)},
    {"peak_op", HRI_SEE_U64, HEAD(peak_op)},
    {"step_ns", HRI_SEE_F64, HEAD(step_ns)},
    {"time_ratio", HRI_SEE_F64, HEAD(time_ratio)},
    {"measured_step_ns", HRI_SEE_F64, HEAD(measured_step_ns)},
    {"flops_per_ns", HRI_SEE_F64, HEAD(flops_per_ns)},
    {"bytes_per_ns", HRI_SEE_F64, HEAD(bytes_per_ns)},
};
const size_t hri_see_head_field_count = COUNT(hri_see_head_fields);

const char *hri_see_category_name(uint32_t category) {
    static const char *const names[] = {
#define CATEGORY_TEXT(NAME, TEXT) TEXT,
        HRI_SEE_CATEGORY_MAP(CATEGORY_TEXT)
#undef CATEGORY_TEXT
    };
    return names[category < HRI_SEE_CATEGORIES ? category : HRI_SEE_OTHER];
}

const char *hri_see_what_name(uint32_t what) {
    static const char *const names[HRI_SEE_WHATS] = {"run",  "copy out", "copy in",
                                                     "wait", "alloc",    "free"};
    return names[what < HRI_SEE_WHATS ? what : HRI_SEE_RUN];
}

/* ---- filling ---- */

void hri_recording_deinit(hri_recording *r) {
    for (int t = 0; t < HRI_SEE_TABLES; t++) {
        hri_free(r->tables[t].items);
    }
    hri_see_texts_deinit(&r->texts);
    hri_strmap_deinit(&r->numbers);
    hri_arena_deinit(&r->arena);
    *r = (hri_recording){.truncated = false};
}

static hr_status push_text(hri_recording *r, const char *text, uint32_t *out) {
    const char *copy = hri_arena_strdup(&r->arena, text);
    const uint32_t number = (uint32_t)r->texts.count;
    hr_status status = copy ? hri_see_texts_push(&r->texts, copy) : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        status = hri_strmap_put(&r->numbers, text, number);
        r->texts.count -= status != HR_OK;
    }
    if (status == HR_OK) {
        *out = number;
    }
    return status;
}

hr_status hri_recording_text(hri_recording *r, const char *text, uint32_t *out) {
    uint64_t number;
    uint32_t none;
    if (r->texts.count == 0) {
        const hr_status status = push_text(r, "", &none);
        if (status != HR_OK) {
            return status;
        }
    }
    if (hri_strmap_get(&r->numbers, text, &number)) {
        *out = (uint32_t)number;
        return HR_OK;
    }
    return r->texts.count < UINT32_MAX ? push_text(r, text, out) : HR_E_RANGE;
}

hr_status hri_recording_keep(hri_recording *r, const char *text, const char **out) {
    const char *copy = text && text[0] ? hri_arena_strdup(&r->arena, text) : "";
    *out = copy ? copy : *out;
    return copy ? HR_OK : HR_E_NOMEM_HOST;
}

hr_status hri_recording_add(hri_recording *r, hri_see_table table, const void *row) {
    hri_see_rows *rows = &r->tables[table];
    const size_t bytes = hri_see_tables[table].row_bytes;
    if (rows->count == rows->capacity) {
        const hr_status status =
            hri_vector_grow(&rows->items, &rows->capacity, rows->count + 1, bytes);
        if (status != HR_OK) {
            return status;
        }
    }
    memcpy((char *)rows->items + rows->count++ * bytes, row, bytes);
    return HR_OK;
}

const char *hri_recording_get_text(const hri_recording *r, uint32_t number) {
    return number < r->texts.count ? r->texts.items[number] : "";
}

double hri_see_op_ns(const hri_see_op *op) {
    return op->measured_end_ns > 0 ? op->measured_end_ns - op->measured_begin_ns
                                   : op->end_ns - op->begin_ns;
}

/* ---- what readers may trust ---- */

static int by_birth(const void *a, const void *b) {
    const hri_see_buffer *x = a, *y = b;
    return x->birth != y->birth     ? (x->birth < y->birth ? -1 : 1)
           : x->offset != y->offset ? (x->offset < y->offset ? -1 : 1)
                                    : 0;
}

static bool is_sorted(const hri_see_buffer *b, size_t count) {
    for (size_t i = 1; i < count; i++) {
        if (b[i - 1].birth > b[i].birth) {
            return false;
        }
    }
    return true;
}

/* Numbers of texts that are not there become 0, times that are no numbers 0. */
static void mend_row(const hri_recording *r, const hri_see_table_info *t, char *row) {
    for (size_t c = 0; c < t->column_count; c++) {
        const hri_see_column *column = &t->columns[c];
        char *at = row + column->offset;
        if (column->type == HRI_SEE_TEXT && *(uint32_t *)(void *)at >= r->texts.count) {
            *(uint32_t *)(void *)at = 0;
        }
        double *number = (double *)(void *)at;
        if (column->type == HRI_SEE_F64 && !(*number >= -1e300 && *number <= 1e300)) {
            *number = 0;
        }
    }
}

static void mend_buffer(hri_see_buffer *b, uint32_t ops_count) {
    const uint64_t most = UINT64_C(1) << 62;
    b->category = b->category < HRI_SEE_CATEGORIES ? b->category : HRI_SEE_OTHER;
    b->death = b->death < ops_count ? b->death : ops_count;
    b->birth = b->birth < b->death ? b->birth : b->death;
    b->bytes = b->bytes < most ? b->bytes : most;
    b->offset = b->offset < most ? b->offset : most;
    b->asked_bytes = b->asked_bytes < b->bytes ? b->asked_bytes : 0;
}

static void mend_rows(hri_recording *r) {
    for (int t = 0; t < HRI_SEE_TABLES; t++) {
        for (size_t i = 0; i < r->tables[t].count; i++) {
            mend_row(r, &hri_see_tables[t],
                     (char *)r->tables[t].items + i * hri_see_tables[t].row_bytes);
        }
    }
    hri_see_op *op = r->tables[HRI_SEE_OPS].items;
    for (size_t i = 0; i < r->tables[HRI_SEE_OPS].count; i++) {
        op[i].phase = op[i].phase < 3 ? op[i].phase : 2;
        op[i].what = op[i].what < HRI_SEE_WHATS ? op[i].what : HRI_SEE_RUN;
        op[i].end_ns = op[i].end_ns > op[i].begin_ns ? op[i].end_ns : op[i].begin_ns;
    }
    hri_see_part *part = r->tables[HRI_SEE_PARTS].items;
    for (size_t i = 0; i < r->tables[HRI_SEE_PARTS].count; i++) {
        part[i].category = part[i].category < HRI_SEE_CATEGORIES ? part[i].category : HRI_SEE_OTHER;
    }
    hri_see_buffer *buffer = r->tables[HRI_SEE_BUFFERS].items;
    for (size_t i = 0; i < r->tables[HRI_SEE_BUFFERS].count; i++) {
        mend_buffer(&buffer[i], (uint32_t)r->tables[HRI_SEE_OPS].count);
    }
}

static void mend_head(hri_recording *r) {
    for (size_t i = 0; i < hri_see_head_field_count; i++) {
        const hri_see_column *f = &hri_see_head_fields[i];
        char *at = (char *)&r->head + f->offset;
        if (f->type == HRI_SEE_TEXT && !*(const char **)(void *)at) {
            *(const char **)(void *)at = "";
        }
        double *number = (double *)(void *)at;
        if (f->type == HRI_SEE_F64 && !(*number >= -1e300 && *number <= 1e300)) {
            *number = 0;
        }
    }
}

hr_status hri_recording_live(const hri_recording *r, uint64_t **out) {
    const size_t count = r->tables[HRI_SEE_OPS].count;
    uint64_t *live = hri_calloc(count + 1, HRI_SEE_CATEGORIES * sizeof *live);
    if (!live) {
        return HR_E_NOMEM_HOST;
    }
    const hri_see_buffer *b = hri_recording_buffers(r);
    for (size_t i = 0; i < r->tables[HRI_SEE_BUFFERS].count; i++) {
        live[(size_t)b[i].birth * HRI_SEE_CATEGORIES + b[i].category] += b[i].bytes;
        live[(size_t)b[i].death * HRI_SEE_CATEGORIES + b[i].category] -=
            b[i].bytes; /* wraps back */
    }
    for (size_t i = HRI_SEE_CATEGORIES; i < count * HRI_SEE_CATEGORIES; i++) {
        live[i] += live[i - HRI_SEE_CATEGORIES];
    }
    *out = live;
    return HR_OK;
}

/* The op with the most bytes alive, and the end of the highest buffer. */
static hr_status find_peak(hri_recording *r) {
    uint64_t *live, best = 0;
    const hr_status status = hri_recording_live(r, &live);
    r->head.peak_op = 0;
    if (status != HR_OK) {
        return status;
    }
    const size_t count = r->tables[HRI_SEE_OPS].count;
    for (size_t i = 0; i < count; i++) {
        uint64_t sum = 0;
        for (int c = 0; c < HRI_SEE_CATEGORIES; c++) {
            sum += live[i * HRI_SEE_CATEGORIES + (size_t)c];
        }
        if (sum > best) {
            best = sum;
            r->head.peak_op = i;
        }
    }
    hri_free(live);
    const hri_see_buffer *b = hri_recording_buffers(r);
    for (size_t i = 0; i < r->tables[HRI_SEE_BUFFERS].count; i++) {
        const uint64_t end = b[i].offset + b[i].bytes;
        r->head.arena_bytes = end > r->head.arena_bytes ? end : r->head.arena_bytes;
    }
    const uint64_t least = r->head.runtime_bytes + best;
    r->head.peak_bytes = r->head.peak_bytes > least ? r->head.peak_bytes : least;
    return HR_OK;
}

hr_status hri_recording_finish(hri_recording *r) {
    uint32_t none;
    const hr_status status = r->texts.count ? HR_OK : hri_recording_text(r, "", &none);
    if (status != HR_OK) {
        return status;
    }
    if (r->tables[HRI_SEE_OPS].count > UINT32_MAX - 1) {
        return HR_E_RANGE;
    }
    mend_head(r);
    mend_rows(r);
    hri_see_rows *rows = &r->tables[HRI_SEE_BUFFERS];
    if (rows->count && !is_sorted(rows->items, rows->count)) {
        qsort(rows->items, rows->count, sizeof(hri_see_buffer), by_birth);
    }
    return find_peak(r);
}
