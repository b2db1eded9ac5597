/* Lines to events and buffers; see allocations.h. */
#include "see/allocations.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/text.h"
#include "see/places.h"

static const char magic[] = "headroom allocations 1\t";

enum { WHAT, TIME, THREAD, DEVICE, ADDRESS, BYTES, CALL, PYTHON, NATIVE, FIELDS };

typedef struct field {
    const char *at;
    size_t length;
} field;

typedef struct reading {
    hri_recording r;
    hri_intmap open; /* by address: number of its buffer, and one */
    hri_see_places places;
    hri_text text;
    uint64_t first_ns;
} reading;

bool hri_allocations_is(const void *bytes, size_t count) {
    return count >= sizeof magic - 1 && !memcmp(bytes, magic, sizeof magic - 1);
}

/* The line's fields, those that are missing empty; returns how many there are. */
static int cut(const char *line, const char *end, field *out) {
    int count = 0;
    memset(out, 0, FIELDS * sizeof *out);
    while (count < FIELDS) {
        const char *tab = memchr(line, '\t', (size_t)(end - line));
        out[count++] = (field){line, (size_t)((tab ? tab : end) - line)};
        if (!tab) {
            break;
        }
        line = tab + 1;
    }
    return count;
}

static bool number(const field *f, unsigned base, uint64_t *out) {
    uint64_t x = 0;
    if (!f->length || f->length > (base == 16 ? 16 : 19)) {
        return false;
    }
    for (size_t i = 0; i < f->length; i++) {
        const char c = f->at[i];
        const unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                               : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                      : 99;
        if (digit >= base) {
            return false;
        }
        x = x * base + digit;
    }
    *out = x;
    return true;
}

/* A text of the file; what a terminal would obey becomes '?'. */
static hr_status put_text(reading *d, const field *f, const field *more, uint32_t *out) {
    hri_text_clear(&d->text);
    for (const field *x = f; x; x = x == more ? NULL : more) {
        for (size_t i = 0; i < x->length; i++) {
            const char c = x->at[i];
            const char shown = c == ';' ? '\n' : (unsigned char)c < ' ' || c == 127 ? '?' : c;
            hri_text_bytes(&d->text, &shown, 1);
        }
        if (x != more && more && f->length && more->length) {
            hri_text_add(&d->text, "\n");
        }
    }
    const hr_status status = hri_text_status(&d->text);
    return status == HR_OK ? hri_recording_text(&d->r, hri_text_get(&d->text), out) : status;
}

/* The innermost line: Python's where there is one. */
static field innermost(const field *f) {
    const field *from = f[PYTHON].length ? &f[PYTHON] : f[NATIVE].length ? &f[NATIVE] : &f[CALL];
    const char *mark = from->length ? memchr(from->at, ';', from->length) : NULL;
    return (field){from->at, mark ? (size_t)(mark - from->at) : from->length};
}

static hri_see_buffer *buffer_at(reading *d, uint64_t number) {
    return (hri_see_buffer *)d->r.tables[HRI_SEE_BUFFERS].items + number;
}

static hr_status end(reading *d, uint64_t address) {
    uint64_t number;
    if (hri_intmap_get(&d->open, address, &number)) {
        buffer_at(d, number - 1)->death = (uint32_t)d->r.tables[HRI_SEE_OPS].count;
        (void)hri_intmap_remove(&d->open, address);
    }
    return HR_OK;
}

static hr_status begin(reading *d, const field *f, uint64_t address, uint64_t bytes,
                       uint32_t name) {
    hri_see_buffer b = {.name = name,
                        .category = HRI_SEE_OTHER,
                        .offset = address,
                        .bytes = bytes,
                        .birth = (uint32_t)d->r.tables[HRI_SEE_OPS].count,
                        .death = UINT32_MAX};
    hr_status status = end(d, address); /* it was freed by a call that nobody saw */
    if (status == HR_OK) {
        status = put_text(d, &f[PYTHON], &f[NATIVE], &b.source);
    }
    if (status == HR_OK) {
        status = hri_see_places_add(&d->places, address, bytes);
    }
    if (status == HR_OK) {
        status = hri_recording_add(&d->r, HRI_SEE_BUFFERS, &b);
    }
    return status == HR_OK ? hri_intmap_put(&d->open, address, d->r.tables[HRI_SEE_BUFFERS].count)
                           : status;
}

static hr_status put_op(reading *d, const field *f, bool alloc, uint64_t ns, uint64_t bytes,
                        uint32_t name) {
    char thread[48];
    hri_see_op op = {.name = name, .what = alloc ? HRI_SEE_ALLOC : HRI_SEE_FREE, .bytes = bytes};
    snprintf(thread, sizeof thread, "thread %.*s", (int)(f[THREAD].length & 31), f[THREAD].at);
    const field whole = {thread, strlen(thread)};
    hr_status status = put_text(d, &f[CALL], NULL, &op.kind);
    if (status == HR_OK) {
        status = put_text(d, &whole, NULL, &op.layer);
    }
    d->first_ns = d->first_ns ? d->first_ns : ns;
    op.begin_ns = ns > d->first_ns ? (double)(ns - d->first_ns) : 0;
    op.end_ns = op.begin_ns;
    d->r.head.step_ns = op.end_ns > d->r.head.step_ns ? op.end_ns : d->r.head.step_ns;
    return status == HR_OK ? hri_recording_add(&d->r, HRI_SEE_OPS, &op) : status;
}

static hr_status read_line(reading *d, const char *line, const char *line_end) {
    field f[FIELDS];
    uint64_t ns, address, bytes;
    uint32_t name = 0;
    const bool whole = cut(line, line_end, f) > CALL;
    const bool alloc = whole && f[WHAT].length == 1 && f[WHAT].at[0] == 'A';
    if (!whole || f[WHAT].length != 1 || (!alloc && f[WHAT].at[0] != 'F') ||
        !number(&f[TIME], 10, &ns) || !number(&f[ADDRESS], 16, &address) ||
        !number(&f[BYTES], 10, &bytes) || (alloc && (!bytes || bytes > UINT64_C(1) << 50)) ||
        address > UINT64_MAX - (UINT64_C(1) << 51)) {
        return HR_OK;
    }
    if (d->r.tables[HRI_SEE_OPS].count >= UINT32_MAX - 2) {
        return HR_E_RANGE;
    }
    const field shown = alloc ? innermost(f) : f[CALL];
    hr_status status = put_text(d, &shown, NULL, &name);
    if (status == HR_OK) {
        status = alloc ? begin(d, f, address, bytes, name) : end(d, address);
    }
    return status == HR_OK ? put_op(d, f, alloc, ns, bytes, name) : status;
}

static hr_status put_head(reading *d, const char *line, const char *line_end) {
    field f[FIELDS];
    uint32_t model = 0;
    const int count = cut(line, line_end, f);
    hr_status status = count > 2 ? put_text(d, &f[2], NULL, &model) : HR_OK;
    if (status == HR_OK) {
        status = hri_recording_keep(&d->r, hri_recording_get_text(&d->r, model), &d->r.head.model);
    }
    d->r.head.source = "program";
    d->r.head.device = "GPU";
    d->r.head.note = d->r.truncated
                         ? "The file was truncated: this is what it has. Allocations of "
                           "the program; contexts and loaded code are not in it."
                         : "Allocations of the program, as it asked the driver for them; "
                           "contexts and loaded code are not in it.";
    return status;
}

static hr_status put_part(reading *d) {
    hri_see_part part = {.category = HRI_SEE_OTHER, .planned_bytes = d->r.head.peak_bytes};
    const hr_status status = hri_recording_text(&d->r, "allocated", &part.name);
    return status == HR_OK ? hri_recording_add(&d->r, HRI_SEE_PARTS, &part) : status;
}

static hr_status read_all(reading *d, const char *text, size_t count) {
    const char *at = text, *stop = text + count, *first = memchr(text, '\n', count);
    hr_status status = HR_OK;
    d->r.truncated = count && stop[-1] != '\n';
    while (at < stop && status == HR_OK) {
        const char *line_end = memchr(at, '\n', (size_t)(stop - at));
        if (!line_end) {
            break;
        }
        status = at == text ? HR_OK : read_line(d, at, line_end);
        at = line_end + 1;
    }
    if (status == HR_OK) {
        status = put_head(d, text, first ? first : stop);
    }
    hri_see_places_pack(&d->places);
    for (size_t i = 0; i < d->r.tables[HRI_SEE_BUFFERS].count; i++) {
        buffer_at(d, i)->offset = hri_see_places_find(&d->places, buffer_at(d, i)->offset);
    }
    if (status == HR_OK) {
        status = hri_recording_finish(&d->r);
    }
    return status == HR_OK ? put_part(d) : status;
}

hr_status hri_allocations_decode(const char *text, size_t count, hri_recording *out,
                                 hri_prose *why) {
    reading d = {.first_ns = 0};
    hr_status status = hri_allocations_is(text, count) ? read_all(&d, text, count) : HR_E_FORMAT;
    if (status == HR_OK && !d.r.tables[HRI_SEE_BUFFERS].count) {
        status = HR_E_FORMAT;
    }
    hri_intmap_deinit(&d.open);
    hri_see_places_deinit(&d.places);
    hri_text_deinit(&d.text);
    if (status != HR_OK) {
        hri_recording_deinit(&d.r);
        return status == HR_E_FORMAT
                   ? hri_prose_set(why, status, "a recording of `headroom run` without allocations")
                   : status;
    }
    *out = d.r;
    return HR_OK;
}
