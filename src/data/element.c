/* Elements, items and emits; see element.h. */
#include "data/element.h"
#include "base/number.h"
#include "graph/half.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "data/stage.h"

hr_status hri_element_create(uint32_t capacity, hr_element **out) {
    hr_element *e = hri_calloc(1, sizeof *e);
    if (!e) {
        return HR_E_NOMEM_HOST;
    }
    atomic_init(&e->refs, 1);
    e->capacity = capacity;
    e->parts = hri_calloc(capacity ? capacity : 1, sizeof *e->parts);
    if (!e->parts) {
        hri_free(e);
        return HR_E_NOMEM_HOST;
    }
    *out = e;
    return HR_OK;
}

hr_element *hr_element_ref(hr_element *element) {
    atomic_fetch_add(&element->refs, 1);
    return element;
}

void hr_element_unref(hr_element *element) {
    if (!element || atomic_fetch_sub(&element->refs, 1) != 1) {
        return;
    }
    for (uint32_t i = 0; i < element->count; i++) {
        hri_buffer_unref(element->parts[i].buffer);
    }
    hri_free(element->parts);
    hri_free(element);
}

size_t hr_element_field_count(const hr_element *element) {
    return element->count;
}

const hr_field *hr_element_field(const hr_element *element, size_t index) {
    return index < element->count ? &element->parts[index].field : NULL;
}

const hr_field *hr_element_find(const hr_element *element, const char *name) {
    for (uint32_t i = 0; i < element->count; i++) {
        if (strcmp(element->parts[i].field.name, name) == 0) {
            return &element->parts[i].field;
        }
    }
    return NULL;
}

uint64_t hri_element_charged(const hr_element *element) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < element->count; i++) {
        sum += element->parts[i].buffer->bytes;
    }
    return sum;
}

uint64_t hri_element_bytes(const hr_element *element) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < element->count; i++) {
        sum += element->parts[i].field.bytes;
    }
    return sum;
}

/* A buffer in two elements (of a cache, of a zip) keeps its account: it is not the taker's alone. */
static bool is_private(const hr_element *e, uint32_t i) {
    return atomic_load(&e->refs) == 1 && atomic_load(&e->parts[i].buffer->refs) == 1;
}

void hri_element_charge_to(hr_element *element, hri_account *to, uint64_t claim) {
    for (uint32_t i = 0; i < element->count; i++) {
        hri_buffer *b = element->parts[i].buffer;
        if (b->account == to || !is_private(element, i)) {
            continue;
        }
        if (claim >= b->bytes) {
            hri_ledger_release(b->account, b->bytes);
            b->account = to;
            claim -= b->bytes;
        } else if (hri_ledger_move(b->account, to, b->bytes)) {
            b->account = to;
        }
    }
    if (claim > 0) {
        hri_ledger_release(to, claim);
    }
}

void hri_element_hand(hr_element *element, hri_account *user) {
    for (uint32_t i = 0; i < element->count; i++) {
        hri_buffer *b = element->parts[i].buffer;
        if (b->account != user && is_private(element, i)) {
            b->handed = true;
            hri_ledger_hand(b->account, (int64_t)b->bytes);
        }
    }
}

/* ---- emits ---- */

hr_status hri_emit_init(hr_emit *emit, hri_memory *memory, const hr_element *input, uint64_t seed,
                        uint64_t epoch, uint64_t index) {
    *emit = (hr_emit){.memory = memory, .input = input};
    const uint64_t key = seed + (index >> 32) * 0x9e3779b97f4a7c15u;
    emit->random = hri_random_at(key, (uint32_t)epoch, HRI_RANDOM_NODE_AUGMENT, (uint32_t)index);
    return hri_element_create(input ? input->count + 4 : 4, &emit->output);
}

hr_element *hri_emit_take(hr_emit *emit) {
    hr_element *e = emit->output;
    emit->output = NULL;
    return e;
}

void hri_emit_deinit(hr_emit *emit) {
    hr_element_unref(emit->output);
    emit->output = NULL;
}

static hr_status append_part(hr_element *e, const hr_field *field, hri_buffer *buffer) {
    if (e->count == HR_FIELD_MAX) {
        return HR_E_RANGE;
    }
    if (e->count == e->capacity) {
        hri_part *parts = hri_realloc(e->parts, 2 * (size_t)e->capacity * sizeof *parts);
        if (!parts) {
            return HR_E_NOMEM_HOST;
        }
        e->parts = parts;
        e->capacity *= 2;
    }
    e->parts[e->count].field = *field;
    e->parts[e->count].buffer = buffer;
    e->count++;
    return HR_OK;
}

hr_status hri_emit_share(hr_emit *emit, const hr_field *field, hri_buffer *buffer) {
    if (hr_element_find(emit->output, field->name)) {
        return hri_emit_fail(emit, HR_E_EXISTS, "two fields are named \"%s\"", field->name);
    }
    const hr_status status = append_part(emit->output, field, buffer);
    if (status == HR_OK) {
        hri_buffer_ref(buffer);
    }
    return status;
}

hr_status hr_emit_field(hr_emit *emit, const char *name, const hr_meta *meta, void **data) {
    hr_field field = {.meta = *meta};
    const size_t length = strlen(name);
    hr_status status = hr_meta_check(meta, &field.bytes);
    if (status != HR_OK) {
        return hri_emit_fail(emit, status, "field \"%s\" has an invalid shape", name);
    }
    if (length == 0 || length >= sizeof field.name) {
        return hri_emit_fail(emit, HR_E_INVALID, "\"%.40s\" is not a valid field name", name);
    }
    if (hr_element_find(emit->output, name)) {
        return hri_emit_fail(emit, HR_E_EXISTS, "two fields are named \"%s\"", name);
    }
    if (emit->output->count == HR_FIELD_MAX) {
        return hri_emit_fail(emit, HR_E_RANGE, "more than %d fields", HR_FIELD_MAX);
    }
    memcpy(field.name, name, length + 1);
    hri_buffer *buffer;
    status = hri_memory_buffer(emit->memory, field.bytes, &buffer);
    if (status != HR_OK) {
        return status;
    }
    field.data = buffer->data;
    status = append_part(emit->output, &field, buffer);
    if (status != HR_OK) {
        hri_buffer_unref(buffer);
        return status;
    }
    *data = field.data;
    return HR_OK;
}

hr_status hr_emit_keep(hr_emit *emit, const char *name) {
    const hr_element *input = emit->input;
    bool found = false;
    for (uint32_t i = 0; input && i < input->count; i++) {
        const hri_part *part = &input->parts[i];
        const bool meant = name ? strcmp(part->field.name, name) == 0
                                : !hr_element_find(emit->output, part->field.name);
        if (!meant) {
            continue;
        }
        found = true;
        const hr_status status = hri_emit_share(emit, &part->field, part->buffer);
        if (status != HR_OK) {
            return status;
        }
    }
    if (name && !found) {
        return hri_emit_fail(emit, HR_E_NOT_FOUND, "the element has no field \"%s\"", name);
    }
    return HR_OK;
}

uint64_t hr_emit_random(hr_emit *emit) {
    return hri_random_u64(&emit->random);
}

void hr_emit_explain(hr_emit *emit, const char *reason) {
    snprintf(emit->reason, sizeof emit->reason, "%s", reason);
}

hr_status hri_emit_fail(hr_emit *emit, hr_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    hri_vsnprintf(emit->reason, sizeof emit->reason, format, args);
    va_end(args);
    return status;
}

/* ---- items ---- */

hr_status hri_item_load(const hri_item *item, hri_memory *memory, hr_element **out, char *reason,
                        size_t reason_size) {
    if (item->element) {
        *out = hr_element_ref(item->element);
        return HR_OK;
    }
    hr_emit emit;
    hr_status status =
        hri_emit_init(&emit, memory, NULL, item->source->seed, item->epoch, item->index);
    if (status == HR_OK) {
        status = item->source->type->load(item->source, item, &emit);
        if (status == HR_OK) {
            *out = hri_emit_take(&emit);
        } else {
            snprintf(reason, reason_size, "%s", emit.reason);
        }
        hri_emit_deinit(&emit);
    }
    return status;
}

void hri_item_name(const hri_item *item, char *buf, size_t size) {
    if (item->source && item->source->type->name_of) {
        item->source->type->name_of(item->source, item, buf, size);
    } else {
        snprintf(buf, size, "element %llu", (unsigned long long)item->index);
    }
}

void hri_item_drop(hri_item *item) {
    hr_element_unref(item->element);
    item->element = NULL;
}

double hri_field_number(const hr_field *f, uint64_t i) {
    uint32_t bits;
    float real;
    hri_f16 half;
    switch (f->meta.type) {
    case HR_TYPE_F32:
        return (double)((const float *)f->data)[i];
    case HR_TYPE_BF16:
        bits = (uint32_t)((const uint16_t *)f->data)[i] << 16;
        memcpy(&real, &bits, 4);
        return (double)real;
    case HR_TYPE_F16:
        memcpy(&half, (const uint16_t *)f->data + i, 2);
        return (double)hri_from_f16(half);
    case HR_TYPE_I32:
        return ((const int32_t *)f->data)[i];
    case HR_TYPE_I64:
        return (double)((const int64_t *)f->data)[i];
    default:
        return ((const uint8_t *)f->data)[i];
    }
}

int hri_field_whole(const hr_field *f, uint64_t i, int64_t *out) {
    switch (f->meta.type) {
    case HR_TYPE_I32:
        *out = ((const int32_t *)f->data)[i];
        return 1;
    case HR_TYPE_I64:
        *out = ((const int64_t *)f->data)[i];
        return 1;
    case HR_TYPE_U8:
        *out = ((const uint8_t *)f->data)[i];
        return 1;
    case HR_TYPE_F32: { /* files of arrays often keep labels so */
        const float x = ((const float *)f->data)[i];
        *out = (int64_t)x;
        return x >= -1e9f && x <= 1e9f && (float)*out == x;
    }
    default:
        return 0;
    }
}
