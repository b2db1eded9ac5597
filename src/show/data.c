/* See data.h. */
#include "show/data.h"

#include <headroom/bytes.h>
#include <string.h>
#include "base/prose.h"
#include "base/table.h"
#include "base/text.h"
#include "data/element.h"

enum { NUMBERS = 6, BAD_SHOWN = 20 };

/* ---- elements ---- */

static void add_number(hri_text *text, const hr_field *f, uint64_t i) {
    if (f->meta.type == HR_TYPE_I64) {
        hri_text_add(text, "%lld", (long long)((const int64_t *)f->data)[i]);
    } else if (f->meta.type == HR_TYPE_I32 || f->meta.type == HR_TYPE_U8) {
        hri_text_add(text, "%.0f", hri_field_number(f, i));
    } else {
        hri_text_add(text, "%.4g", hri_field_number(f, i));
    }
}

/* The first numbers of a field: "0 3 3 1 ...", a label with its class. */
static void add_values(const hr_pipeline *p, const hr_field *f, hri_text *text) {
    const uint64_t n = f->bytes / hr_type_bytes(f->meta.type);
    for (uint64_t i = 0; i < n && i < NUMBERS; i++) {
        hri_text_add(text, "%s", i ? " " : "");
        add_number(text, f, i);
    }
    hri_text_add(text, "%s", n > NUMBERS ? " ..." : "");
    const double label = n == 1 && !strcmp(f->name, "label") ? hri_field_number(f, 0) : -1;
    const char *name = label >= 0 ? hr_pipeline_class(p, (size_t)label) : NULL;
    if (name) {
        hri_text_add(text, " (%s)", name);
    }
}

void hri_data_show_element(const hr_pipeline *p, const hr_element *e, uint64_t number,
                           hri_out *out) {
    char meta[256], size[32];
    hri_out_printf(out, "element %llu\n", (unsigned long long)number);
    for (size_t i = 0; i < hr_element_field_count(e); i++) {
        const hr_field *f = hr_element_field(e, i);
        hri_text values = {0};
        add_values(p, f, &values);
        hri_out_printf(out, "  %-10s %-22s %10s   %s\n", f->name,
                       hr_meta_print(&f->meta, meta, sizeof meta),
                       hr_bytes_print(f->bytes, size, sizeof size), hri_text_get(&values));
        hri_text_deinit(&values);
    }
}

void hri_data_element_json(const hr_pipeline *p, const hr_element *e, hri_json *json) {
    char meta[256];
    hri_json_object(json, NULL);
    hri_json_array(json, "fields");
    for (size_t i = 0; i < hr_element_field_count(e); i++) {
        const hr_field *f = hr_element_field(e, i);
        hri_text values = {0};
        add_values(p, f, &values);
        hri_json_object(json, NULL);
        hri_json_string(json, "name", f->name);
        hri_json_string(json, "type", hr_meta_print(&f->meta, meta, sizeof meta));
        hri_json_u64(json, "bytes", f->bytes);
        hri_json_string(json, "values", hri_text_get(&values));
        hri_json_end(json);
        hri_text_deinit(&values);
    }
    hri_json_end(json);
    hri_json_end(json);
}

/* ---- stages ---- */

static void put_stage(hri_table *table, const hr_stage_stats *s) {
    char bytes[32];
    hri_table_cell(table, HRI_STYLE_BOLD, "%s", s->name);
    hri_table_cell(table, HRI_STYLE_PLAIN, "%llu", (unsigned long long)s->elements);
    hri_table_cell(table, HRI_STYLE_PLAIN, "%.3f s", (double)s->busy_ns / 1e9);
    hri_table_cell(table, HRI_STYLE_PLAIN, "%.1f us",
                   s->elements ? (double)s->busy_ns / 1e3 / (double)s->elements : 0.0);
    hri_table_cell(table, HRI_STYLE_PLAIN, "%s",
                   hr_bytes_print(s->smallest_bytes, bytes, sizeof bytes));
    hri_table_cell(table, HRI_STYLE_PLAIN, "%s",
                   hr_bytes_print(s->peak_bytes, bytes, sizeof bytes));
    if (s->parallel) {
        hri_table_cell(table, HRI_STYLE_PLAIN, "%u threads%s", s->parallel,
                       s->shrunk ? ", shrunk" : "");
    } else if (s->depth) {
        hri_table_cell(table, HRI_STYLE_PLAIN, "%u ahead%s", s->depth, s->shrunk ? ", shrunk" : "");
    } else {
        hri_table_cell(table, HRI_STYLE_PLAIN, "-");
    }
}

hr_status hri_data_show_stages(hr_pipeline *p, hri_out *out, const hri_term *term) {
    static const char *const headings[] = {"STAGE",     ">ELEMENTS", ">BUSY", ">EACH",
                                           ">SMALLEST", ">PEAK",     "TUNED"};
    hr_stage_stats s = {.size = sizeof s};
    hri_table table;
    hri_table_init(&table, headings, sizeof headings / sizeof headings[0]);
    for (size_t i = 0; hr_pipeline_get_stage_stats(p, i, &s) == HR_OK; i++) {
        put_stage(&table, &s);
    }
    const hr_status status = hri_table_print(&table, out, term, 0, 1);
    hri_table_deinit(&table);
    return status;
}

void hri_data_stages_json(hr_pipeline *p, hri_json *json) {
    hr_stage_stats s = {.size = sizeof s};
    hri_json_array(json, "stages");
    for (size_t i = 0; hr_pipeline_get_stage_stats(p, i, &s) == HR_OK; i++) {
        hri_json_object(json, NULL);
        hri_json_string(json, "name", s.name);
        hri_json_u64(json, "elements", s.elements);
        hri_json_u64(json, "bytes", s.bytes);
        hri_json_double(json, "busy_seconds", (double)s.busy_ns / 1e9);
        hri_json_double(json, "wait_seconds", (double)s.wait_ns / 1e9);
        hri_json_u64(json, "held_bytes", s.held_bytes);
        hri_json_u64(json, "peak_bytes", s.peak_bytes);
        hri_json_u64(json, "smallest_bytes", s.smallest_bytes);
        hri_json_u64(json, "threads", s.parallel);
        hri_json_u64(json, "depth", s.depth);
        hri_json_u64(json, "shrunk", s.shrunk);
        hri_json_end(json);
    }
    hri_json_end(json);
}

/* ---- what was skipped ---- */

void hri_data_show_bad(hr_pipeline *p, hri_out *out) {
    hr_pipeline_stats s = {.size = sizeof s};
    hr_pipeline_get_stats(p, &s);
    if (!s.bad) {
        return;
    }
    hri_out_printf(out, "%llu bad element%s skipped:\n", (unsigned long long)s.bad,
                   s.bad == 1 ? " was" : "s were");
    for (size_t i = 0; i < BAD_SHOWN && hr_pipeline_bad(p, i); i++) {
        hri_out_printf(out, "  %s\n", hr_pipeline_bad(p, i));
    }
    if (s.bad > BAD_SHOWN) {
        hri_out_printf(out, "  and %llu more\n", (unsigned long long)s.bad - BAD_SHOWN);
    }
}

void hri_data_bad_json(hr_pipeline *p, hri_json *json) {
    hri_json_array(json, "bad_names");
    for (size_t i = 0; hr_pipeline_bad(p, i); i++) {
        hri_json_string(json, NULL, hr_pipeline_bad(p, i));
    }
    hri_json_end(json);
}

/* ---- in sum ---- */

void hri_data_json(const hri_data_sheet *s, hri_json *j) {
    const hr_pipeline_run_result *n = s->result;
    const uint64_t count = hr_pipeline_count(s->pipeline);
    if (count == HR_COUNT_UNKNOWN) {
        hri_json_null(j, "count");
    } else {
        hri_json_u64(j, "count", count);
    }
    hri_json_u64(j, "elements", n->elements);
    hri_json_u64(j, "samples", n->samples);
    hri_json_u64(j, "bytes", n->bytes);
    hri_json_double(j, "seconds", n->seconds);
    hri_json_u64(j, "epochs", n->epochs);
    hri_json_u64(j, "budget_bytes", s->stats->budget_bytes);
    hri_json_u64(j, "smallest_bytes", s->stats->smallest_bytes);
    hri_json_u64(j, "peak_bytes", s->stats->peak_bytes);
    hri_json_u64(j, "bad", s->stats->bad);
    hri_data_stages_json(s->pipeline, j);
    hri_data_bad_json(s->pipeline, j);
}

static hr_status show_measured(const hri_data_sheet *s, hri_out *out, const hri_term *term) {
    const hr_pipeline_run_result *n = s->result;
    char peak[32], budget[32];
    hri_show_title(out, term, "%.1f elements/s, %.1f samples/s, %.1f MB/s over %.2f s",
                   (double)n->elements / n->seconds, (double)n->samples / n->seconds,
                   (double)n->bytes / 1e6 / n->seconds, n->seconds);
    const hr_status status = hri_data_show_stages(s->pipeline, out, term);
    hri_out_printf(out, "peak %s of %s\n", hr_bytes_print(s->stats->peak_bytes, peak, sizeof peak),
                   hr_bytes_print(s->stats->budget_bytes, budget, sizeof budget));
    return status;
}

hr_status hri_data_show(const hri_data_sheet *s, hri_out *out, const hri_term *term) {
    const hr_pipeline_run_result *n = s->result;
    const uint64_t count = hr_pipeline_count(s->pipeline);
    char first[32], second[32];
    hr_status status = HR_OK;
    if (count == HR_COUNT_UNKNOWN) {
        hri_out_printf(out, "the number of elements per epoch is unknown\n");
    } else {
        hri_out_printf(out, "%llu element%s per epoch\n", (unsigned long long)count,
                       hri_plural(count));
    }
    if (s->epochs) {
        hri_out_printf(out, "%llu element%s, %llu sample%s, %s in %llu epoch%s\n",
                       (unsigned long long)n->elements, hri_plural(n->elements),
                       (unsigned long long)n->samples, hri_plural(n->samples),
                       hr_bytes_print(n->bytes, first, sizeof first), (unsigned long long)n->epochs,
                       hri_plural(n->epochs));
    }
    if (s->bench) {
        status = show_measured(s, out, term);
    } else {
        hri_out_printf(out, "needs at least %s; the budget is %s\n",
                       hr_bytes_print(s->stats->smallest_bytes, first, sizeof first),
                       hr_bytes_print(s->stats->budget_bytes, second, sizeof second));
    }
    hri_data_show_bad(s->pipeline, out);
    return status;
}
