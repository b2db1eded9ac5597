/* Lines of XLA's dumps; see xla.h.
 *
 *   allocation 2: size 20480, preallocated-temp:
 *    value: <5 dot.3 @0> (size=4096,offset=0): f32[32,32]{1,0}
 *   Total bytes used: 24704 (24.1KiB)
 *   HloLiveRange (max 12):
 *     InstructionSequence:
 *       0:dot.3
 *     BufferLiveRange:
 *       dot.3{}:1-4
 *
 * What is not known is read over.  Allocations lie one behind another; values lie in them at their offsets. */
#include "see/xla.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

typedef struct line {
    const char *at;
    size_t bytes;
} line;

typedef struct reading {
    hri_recording r;
    hri_strmap values; /* "name{index}" -> number of its last buffer + 1 */
    hri_text text;
    uint64_t base, size; /* of the allocation that is being read */
    uint8_t category;
    bool ours, lived, ended; /* not thread-local; a lifetime was read; the total stands in it */
    bool sequence, live;     /* the part of the live ranges */
} reading;

static bool next_line(const char **at, const char *end, line *out) {
    if (*at >= end) {
        return false;
    }
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    *out = (line){*at, (size_t)((stop ? stop : end) - *at)};
    *at = stop ? stop + 1 : end;
    if (out->bytes && out->at[out->bytes - 1] == '\r') {
        out->bytes--;
    }
    return true;
}

/* Reads over `text`; false when the line does not go on with it. */
static bool skip(line *l, const char *text) {
    const size_t bytes = strlen(text);
    if (l->bytes < bytes || memcmp(l->at, text, bytes) != 0) {
        return false;
    }
    l->at += bytes;
    l->bytes -= bytes;
    return true;
}

static bool number(line *l, uint64_t *out) {
    uint64_t x = 0;
    size_t digits = 0;
    while (l->bytes && *l->at >= '0' && *l->at <= '9' && digits < 18) {
        x = 10 * x + (uint64_t)(*l->at - '0');
        l->at++;
        l->bytes--;
        digits++;
    }
    *out = x;
    return digits > 0;
}

static bool has(const line *l, const char *text) {
    return memmem(l->at, l->bytes, text, strlen(text)) != NULL;
}

static void indent(line *l) {
    while (l->bytes && *l->at == ' ') {
        l->at++;
        l->bytes--;
    }
}

static hr_status text_of(reading *d, const char *at, size_t bytes, uint32_t *out) {
    hri_text_clear(&d->text);
    hri_text_bytes(&d->text, at, bytes);
    const hr_status status = hri_text_status(&d->text);
    return status == HR_OK ? hri_recording_text(&d->r, hri_text_get(&d->text), out) : status;
}

bool hri_xla_is(const void *bytes, size_t count) {
    const size_t some = count < 4096 ? count : 4096;
    return memmem(bytes, some, "BufferAssignment:", 17) != NULL ||
           memmem(bytes, some, "allocation 0: size ", 19) != NULL;
}

/* ---- allocations and values ---- */

static bool read_allocation(reading *d, line l) {
    uint64_t which, size;
    if (!skip(&l, "allocation ") || !number(&l, &which) || !skip(&l, ": size ") ||
        !number(&l, &size)) {
        return false;
    }
    d->base += d->size;
    d->ours = !has(&l, "thread-local"); /* each thread has its own: no part of the total */
    d->size = d->ours ? size : 0;
    d->category = (uint8_t)(has(&l, "parameter ")       ? HRI_SEE_PARAMETERS
                            : has(&l, "constant")       ? HRI_SEE_PARAMETERS
                            : has(&l, "maybe-live-out") ? HRI_SEE_OTHER
                            : has(&l, "temp")           ? HRI_SEE_ACTIVATIONS
                                                        : HRI_SEE_OTHER);
    return true;
}

/* "<5 dot.3 @0> (size=4096,offset=0): f32[32,32]{1,0}" */
static hr_status read_value(reading *d, line l, bool *known) {
    uint64_t id, size, offset;
    indent(&l);
    *known = skip(&l, "value: <") && number(&l, &id) && skip(&l, " ");
    const char *end = *known ? memmem(l.at, l.bytes, " @", 2) : NULL;
    *known = end != NULL;
    if (!end || !d->ours) {
        return HR_OK;
    }
    const line name = {l.at, (size_t)(end - l.at)};
    const char *open = memmem(l.at, l.bytes, "(size=", 6);
    line rest = {open, open ? l.bytes - (size_t)(open - l.at) : 0};
    if (!open || !skip(&rest, "(size=") || !number(&rest, &size) || !skip(&rest, ",offset=") ||
        !number(&rest, &offset) || !skip(&rest, ")") || size == 0) {
        return HR_OK;
    }
    (void)(skip(&rest, ":") && skip(&rest, " "));
    hri_see_buffer b = {
        .category = d->category, .offset = d->base + offset, .bytes = size, .death = UINT32_MAX};
    hr_status status = text_of(d, name.at, name.bytes, &b.name);
    if (status == HR_OK && !memchr(name.at, '{', name.bytes)) {
        hri_text_add(&d->text, "{}");
    }
    if (status == HR_OK) {
        status = hri_text_status(&d->text);
    }
    if (status == HR_OK) { /* `value` links those of one name until lifetimes are known */
        uint64_t last = 0;
        (void)hri_strmap_get(&d->values, hri_text_get(&d->text), &last);
        b.value = (uint32_t)last;
        status = hri_strmap_put(&d->values, hri_text_get(&d->text),
                                d->r.tables[HRI_SEE_BUFFERS].count + 1);
    }
    if (status == HR_OK) {
        status = text_of(d, rest.at, rest.bytes, &b.shape);
    }
    return status == HR_OK ? hri_recording_add(&d->r, HRI_SEE_BUFFERS, &b) : status;
}

/* ---- lifetimes ---- */

static hr_status read_instruction(reading *d, line l) {
    uint64_t place;
    indent(&l);
    if (!number(&l, &place) || !skip(&l, ":") || place != d->r.tables[HRI_SEE_OPS].count ||
        place >= UINT32_MAX - 1) {
        return HR_OK;
    }
    hri_see_op op = {.what = HRI_SEE_RUN};
    hr_status status = text_of(d, l.at, l.bytes, &op.name);
    size_t kind = 0; /* "fusion.12" is a fusion */
    while (kind < l.bytes && l.at[kind] != '.') {
        kind++;
    }
    if (status == HR_OK) {
        status = text_of(d, l.at, kind, &op.kind);
    }
    op.layer = op.kind;
    return status == HR_OK ? hri_recording_add(&d->r, HRI_SEE_OPS, &op) : status;
}

/* "dot.3{}:1-4", both ends included */
static hr_status read_range(reading *d, line l) {
    uint64_t from, to, at = 0;
    indent(&l);
    const char *colon = l.bytes ? memrchr(l.at, ':', l.bytes) : NULL;
    if (!colon) {
        return HR_OK;
    }
    line rest = {colon + 1, l.bytes - (size_t)(colon + 1 - l.at)};
    if (!number(&rest, &from) || !skip(&rest, "-") || !number(&rest, &to) || rest.bytes ||
        to < from || to >= UINT32_MAX - 1) {
        return HR_OK;
    }
    hri_text_clear(&d->text);
    hri_text_bytes(&d->text, l.at, (size_t)(colon - l.at));
    const hr_status status = hri_text_status(&d->text);
    if (status == HR_OK && hri_strmap_get(&d->values, hri_text_get(&d->text), &at)) {
        while (at) { /* numbers go down: the loop ends */
            hri_see_buffer *b = &((hri_see_buffer *)d->r.tables[HRI_SEE_BUFFERS].items)[at - 1];
            b->birth = (uint32_t)from;
            b->death = (uint32_t)to + 1;
            at = b->value;
        }
        d->lived = true;
    }
    return status;
}

static hr_status read_line(reading *d, line l) {
    bool known = false;
    if (has(&l, "InstructionSequence:") || has(&l, "BufferLiveRange:")) {
        d->sequence = has(&l, "InstructionSequence:");
        d->live = !d->sequence;
        return HR_OK;
    }
    if (has(&l, "Live ranges at ") || (l.bytes && *l.at != ' ')) {
        d->sequence = d->live = false;
    }
    d->ended |= l.bytes > 11 && !memcmp(l.at, "Total bytes", 11);
    if (d->sequence) {
        return read_instruction(d, l);
    }
    if (d->live) {
        return read_range(d, l);
    }
    return read_allocation(d, l) ? HR_OK : read_value(d, l, &known);
}

static hr_status read_lines(reading *d, const char *at, size_t count) {
    const char *end = at + count;
    hr_status status = HR_OK;
    line l;
    while (status == HR_OK && next_line(&at, end, &l)) {
        status = read_line(d, l);
    }
    return status;
}

/* ---- the whole ---- */

static hr_status add_moment(reading *d) {
    hri_see_op op = {.what = HRI_SEE_RUN};
    const hr_status status = hri_recording_text(&d->r, "program", &op.name);
    return status == HR_OK && !d->r.tables[HRI_SEE_OPS].count
               ? hri_recording_add(&d->r, HRI_SEE_OPS, &op)
               : status;
}

static int by_place(const void *a, const void *b) {
    const hri_see_buffer *x = a, *y = b;
    return x->offset != y->offset ? (x->offset < y->offset ? -1 : 1)
           : x->birth != y->birth ? (x->birth < y->birth ? -1 : 1)
           : x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1)
                                  : 0;
}

/* Values at one offset whose lives touch (a loop's state, what is updated in place) are one buffer: it counts once. */
static void merge(hri_recording *r) {
    hri_see_rows *rows = &r->tables[HRI_SEE_BUFFERS];
    hri_see_buffer *b = rows->items;
    size_t used = 0;
    if (rows->count) {
        qsort(b, rows->count, sizeof *b, by_place);
    }
    for (size_t i = 0; i < rows->count; i++) {
        hri_see_buffer *last = used ? &b[used - 1] : NULL;
        if (last && last->offset == b[i].offset && b[i].birth < last->death) {
            last->death = b[i].death > last->death ? b[i].death : last->death;
            last->bytes = b[i].bytes > last->bytes ? b[i].bytes : last->bytes;
        } else {
            b[used] = b[i];
            b[used++].value = 0;
        }
    }
    rows->count = used;
}

static hr_status put_all(reading *d) {
    hri_see_part live = {.category = HRI_SEE_ACTIVATIONS}, rest = {.category = HRI_SEE_OTHER};
    const uint64_t total = d->base + d->size;
    hr_status status = add_moment(d);
    if (status != HR_OK) {
        return status;
    }
    merge(&d->r);
    d->r.truncated = !d->ended;
    d->r.head.source = "xla";
    d->r.head.peak_bytes = total;
    d->r.head.note = !d->ended ? "The file was truncated: this is what it has."
                     : d->lived
                         ? "An XLA buffer assignment; x is the order of instructions."
                         : "An XLA buffer assignment without lifetimes: every value is shown for "
                           "the whole program. Put the live-range.txt of the same dump next to it.";
    status = hri_recording_finish(&d->r);
    uint64_t *bytes, sum = 0;
    if (status == HR_OK) {
        status = hri_recording_live(&d->r, &bytes);
    }
    if (status != HR_OK) {
        return status;
    }
    for (int c = 0; c < HRI_SEE_CATEGORIES; c++) {
        sum += bytes[d->r.head.peak_op * HRI_SEE_CATEGORIES + (size_t)c];
    }
    hri_free(bytes);
    live.planned_bytes = sum;
    rest.planned_bytes = d->r.head.peak_bytes > sum ? d->r.head.peak_bytes - sum : 0;
    status = hri_recording_text(&d->r, "values alive at the peak", &live.name);
    if (status == HR_OK) {
        status = hri_recording_add(&d->r, HRI_SEE_PARTS, &live);
    }
    if (status == HR_OK) {
        status = hri_recording_text(&d->r, "not in use at the peak", &rest.name);
    }
    return status == HR_OK ? hri_recording_add(&d->r, HRI_SEE_PARTS, &rest) : status;
}

hr_status hri_xla_decode(const char *bytes, size_t count, const char *ranges, size_t range_count,
                         hri_recording *out, hri_prose *why) {
    reading d = {.base = 0};
    hr_status status = read_lines(&d, bytes, count);
    if (status == HR_OK && ranges) {
        d.sequence = d.live = false;
        status = read_lines(&d, ranges, range_count);
    }
    if (status == HR_OK && !d.r.tables[HRI_SEE_BUFFERS].count) {
        status = hri_prose_set(why, HR_E_FORMAT, "an XLA buffer assignment without values");
    }
    if (status == HR_OK) {
        status = put_all(&d);
    }
    hri_strmap_deinit(&d.values);
    hri_text_deinit(&d.text);
    if (status != HR_OK) {
        hri_recording_deinit(&d.r);
        return status;
    }
    *out = d.r;
    return HR_OK;
}
