/* A comparison for people and for scripts; see diff.h. */
#include <math.h>
#include <stdio.h>
#include <headroom/bytes.h>

#include "base/number.h"
#include "base/table.h"
#include "see/diff.h"
#include "see/group.h"
#include "see/report.h"

typedef const char *printer(double x, char *buf, size_t size);

static const char *bytes_text(double x, char *buf, size_t size) {
    return hr_bytes_print((uint64_t)x, buf, size);
}

static const char *growth_text(const hri_see_change *c, char *buf, size_t size) {
    const double growth = hri_see_growth(c);
    if (c->before <= 0 || c->after <= 0) {
        return c->before > 0 ? "gone" : c->after > 0 ? "new" : "";
    }
    hri_snprintf(buf, size, "%+.1f %%", 100 * growth);
    return fabs(growth) < 5e-4 ? "0 %" : buf;
}

static void add_row(hri_table *t, const hri_see_change *c, hri_style style, printer *print) {
    char text[32];
    hri_table_cell(t, style, "%s", c->name);
    hri_table_cell(t, style, "%s", print(c->before, text, sizeof text));
    hri_table_cell(t, style, "%s", print(c->after, text, sizeof text));
    hri_table_cell(t, style, "%s%s", c->after < c->before ? "-" : "+",
                   print(fabs(c->after - c->before), text, sizeof text));
    hri_table_cell(t, style, "%s", growth_text(c, text, sizeof text));
}

/* The rows that changed; `total` (may be NULL) stands below them. */
static hr_status print_changes(const char *title, const hri_see_changes *list,
                               const hri_see_change *total, size_t rows, printer *print,
                               hri_out *out, const hri_term *term) {
    static const char *const headings[] = {"", ">A", ">B", ">CHANGE", ">GROWTH"};
    size_t shown = 0, changed = 0;
    hri_table t;
    hri_table_init(&t, headings, 5);
    for (size_t i = 0; i < list->count; i++) {
        const hri_see_change *c = &list->items[i];
        const bool differs = total || c->after < c->before || c->after > c->before;
        changed += differs;
        if (differs && shown < rows) {
            add_row(&t, c, HRI_STYLE_PLAIN, print);
            shown++;
        }
    }
    if (total && shown) {
        add_row(&t, total, HRI_STYLE_BOLD, print);
    }
    hr_status status = HR_OK;
    if (shown) {
        hri_out_printf(out, "\n%s\n", title);
        status = hri_table_print(&t, out, term, 2, 1);
    }
    if (changed > shown) {
        hri_out_printf(out, "  and %zu more\n", changed - shown);
    }
    hri_table_deinit(&t);
    return status;
}

static const hri_recording *side_of(const hri_see_diff *d, const hri_see_buffer_change *c) {
    return c->after ? d->b : d->a;
}

static void add_buffer(const hri_see_diff *d, hri_table *t, const hri_see_buffer_change *c,
                       hri_text *name) {
    const hri_see_buffer *b = c->after ? c->after : c->before;
    char text[32];
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hri_see_buffer_name(side_of(d, c), b, name));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hri_see_category_name(b->category));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hri_see_fate_name(c->fate));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s",
                   c->before ? hr_bytes_print(c->before->bytes, text, sizeof text) : "");
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s",
                   c->after ? hr_bytes_print(c->after->bytes, text, sizeof text) : "");
}

static hr_status print_buffers(const hri_see_diff *d, size_t rows, hri_out *out,
                               const hri_term *term) {
    static const char *const headings[] = {"BUFFER", "CATEGORY", "", ">A", ">B"};
    hri_text name = {0};
    hri_table t;
    hri_out_printf(out, "\nbuffers:");
    for (int f = 0; f < HRI_SEE_FATES; f++) {
        hri_out_printf(out, "%s %llu %s", f ? "," : "", (unsigned long long)d->counts[f],
                       hri_see_fate_name((hri_see_fate)f));
    }
    hri_out_text(out, "\n");
    hri_table_init(&t, headings, 5);
    for (size_t i = 0; i < d->buffers.count && i < rows; i++) {
        add_buffer(d, &t, &d->buffers.items[i], &name);
    }
    hr_status status = hri_text_status(&name);
    if (status == HR_OK && d->buffers.count) {
        status = hri_table_print(&t, out, term, 2, 1);
    }
    if (d->buffers.count > rows) {
        hri_out_printf(out, "  and %zu more\n", d->buffers.count - rows);
    }
    hri_table_deinit(&t);
    hri_text_deinit(&name);
    return status;
}

static void print_side(const char *letter, const hri_recording *r, hri_out *out) {
    const hri_see_head *h = &r->head;
    hri_out_printf(out, "%s: %s of %s", letter, h->source[0] ? h->source : "recording",
                   h->model[0] ? h->model : "a program");
    if (h->batch) {
        hri_out_printf(out, ", batch %llu", (unsigned long long)h->batch);
    }
    hri_out_printf(out, "%s%s%s%s\n", h->device[0] ? " on " : "", h->device,
                   h->measured_peak_bytes ? ", measured" : "", r->truncated ? ", truncated" : "");
}

static void print_verdict(const hri_see_diff *d, hri_out *out) {
    const hri_see_change *c = &d->peak;
    char before[32], after[32], growth[32];
    hri_out_printf(out, "peak %s: %s -> %s",
                   c->after > c->before   ? "grew"
                   : c->after < c->before ? "shrank"
                                          : "is the same",
                   bytes_text(c->before, before, sizeof before),
                   bytes_text(c->after, after, sizeof after));
    if (c->after < c->before || c->after > c->before) {
        hri_out_printf(out, ", %s", growth_text(c, growth, sizeof growth));
    }
    if (d->step.before > 0 && d->step.after > 0) {
        hri_out_printf(out, "; step %s -> %s, %s",
                       hri_see_span(d->step.before, before, sizeof before),
                       hri_see_span(d->step.after, after, sizeof after),
                       growth_text(&d->step, growth, sizeof growth));
    }
    hri_out_text(out, "\n");
}

hr_status hri_see_diff_text(const hri_see_diff *d, size_t rows, hri_out *out,
                            const hri_term *term) {
    print_verdict(d, out);
    print_side("A", d->a, out);
    print_side("B", d->b, out);
    hr_status status =
        print_changes("bytes at the peak", &d->parts, &d->peak, SIZE_MAX, bytes_text, out, term);
    if (status == HR_OK) {
        status = print_changes("bytes alive at the peak, by layer", &d->layer_bytes, NULL, rows,
                               bytes_text, out, term);
    }
    if (status == HR_OK) {
        status = print_changes("time by layer", &d->layers, NULL, rows, hri_see_span, out, term);
    }
    if (status == HR_OK) {
        status =
            print_changes("time by kind of op", &d->kinds, NULL, rows, hri_see_span, out, term);
    }
    return status == HR_OK ? print_buffers(d, rows, out, term) : status;
}

/* ---- JSON ---- */

static void put_change(hri_json *json, const char *key, const hri_see_change *c, bool bytes) {
    const double growth = hri_see_growth(c);
    hri_json_object(json, key);
    if (!key) {
        hri_json_string(json, "name", c->name);
    }
    if (bytes) {
        hri_json_i64(json, "a", (int64_t)c->before);
        hri_json_i64(json, "b", (int64_t)c->after);
        hri_json_i64(json, "change", (int64_t)(c->after - c->before));
    } else {
        hri_json_double(json, "a", c->before);
        hri_json_double(json, "b", c->after);
        hri_json_double(json, "change", c->after - c->before);
    }
    hri_json_double(json, "growth", growth); /* infinity is null */
    hri_json_end(json);
}

static void put_changes(hri_json *json, const char *key, const hri_see_changes *list, bool bytes) {
    hri_json_array(json, key);
    for (size_t i = 0; i < list->count; i++) {
        put_change(json, NULL, &list->items[i], bytes);
    }
    hri_json_end(json);
}

static void put_place(hri_json *json, const char *key, const hri_see_buffer *b) {
    if (!b) {
        hri_json_null(json, key);
        return;
    }
    hri_json_object(json, key);
    hri_json_u64(json, "bytes", b->bytes);
    hri_json_u64(json, "offset", b->offset);
    hri_json_u64(json, "birth", b->birth);
    hri_json_u64(json, "death", b->death);
    hri_json_end(json);
}

void hri_see_diff_json(const hri_see_diff *d, hri_json *json) {
    hri_json_bool(json, "truncated", d->a->truncated || d->b->truncated);
    put_change(json, "peak_bytes", &d->peak, true);
    put_change(json, "step_ns", &d->step, false);
    put_changes(json, "parts", &d->parts, true);
    put_changes(json, "layer_bytes", &d->layer_bytes, true);
    put_changes(json, "layer_ns", &d->layers, false);
    put_changes(json, "kind_ns", &d->kinds, false);
    hri_json_object(json, "counts");
    for (int f = 0; f < HRI_SEE_FATES; f++) {
        hri_json_u64(json, hri_see_fate_name((hri_see_fate)f), d->counts[f]);
    }
    hri_json_end(json);
    hri_json_array(json, "buffers");
    for (size_t i = 0; i < d->buffers.count; i++) {
        const hri_see_buffer_change *c = &d->buffers.items[i];
        const hri_see_buffer *b = c->after ? c->after : c->before;
        hri_json_object(json, NULL);
        hri_json_string(json, "name", hri_recording_get_text(side_of(d, c), b->name));
        hri_json_string(json, "category", hri_see_category_name(b->category));
        hri_json_string(json, "what", hri_see_fate_name(c->fate));
        put_place(json, "a", c->before);
        put_place(json, "b", c->after);
        hri_json_end(json);
    }
    hri_json_end(json);
}
