/* The report as text; see report.h. */
#include "see/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <headroom/bytes.h>

#include "base/number.h"
#include "base/table.h"
#include "see/alive.h"
#include "see/group.h"
#include "see/summary.h"

typedef struct printing {
    const hri_recording *r;
    hri_out *out;
    const hri_term *term;
    size_t rows;
    bool foreign; /* allocations are all that is known */
} printing;

const char *hri_see_span(double ns, char *buf, size_t size) {
    const double unit = ns >= 1e9 ? 1e9 : ns >= 1e6 ? 1e6 : ns >= 1e3 ? 1e3 : 1;
    const char *name = ns >= 1e9 ? "s" : ns >= 1e6 ? "ms" : ns >= 1e3 ? "us" : "ns";
    hri_snprintf(buf, size, "%.3g %s", ns / unit, name);
    return buf;
}

static void print_head(const printing *p) {
    const hri_see_head *h = &p->r->head;
    char peak[32], budget[32];
    hr_bytes_print(h->measured_peak_bytes ? h->measured_peak_bytes : h->peak_bytes, peak,
                   sizeof peak);
    hr_bytes_print(h->budget_bytes, budget, sizeof budget);
    const bool over = h->budget_bytes && h->measured_peak_bytes > h->budget_bytes;
    const char *word = h->measured_peak_bytes ? (over ? "exceeded" : "held")
                       : h->budget_bytes      ? (h->fits ? "fits" : "does not fit")
                                              : "peak";
    hri_out_printf(p->out, "%s: %s%s%s%s\n", word, peak, h->measured_peak_bytes ? " measured" : "",
                   h->budget_bytes ? " of " : "", h->budget_bytes ? budget : "");
    hri_out_printf(p->out, "%s of %s", h->source[0] ? h->source : "recording",
                   h->model[0] ? h->model : "a program");
    if (h->batch) {
        hri_out_printf(p->out, ", batch %llu", (unsigned long long)h->batch);
    }
    hri_out_printf(p->out, "%s%s%s%s%s%s\n", h->precision[0] ? ", " : "", h->precision,
                   h->optimizer[0] ? ", " : "", h->optimizer, h->device[0] ? " on " : "",
                   h->device);
    if (h->note[0]) {
        hri_out_printf(p->out, "note: %s\n", h->note);
    }
}

static hr_status print_parts(const printing *p) {
    static const char *const headings[] = {"PART", ">PLANNED", ">MEASURED", "WHAT"};
    const hri_see_part *part = hri_recording_parts(p->r);
    const size_t count = p->r->tables[HRI_SEE_PARTS].count;
    const bool seen = p->r->head.measured_peak_bytes != 0;
    uint64_t planned = 0, measured = 0;
    hri_table t;
    if (!count) {
        return HR_OK;
    }
    hri_table_init(&t, headings, 4);
    for (size_t i = 0; i < count; i++) {
        planned += part[i].planned_bytes;
        measured += part[i].measured_bytes;
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%s", hri_recording_get_text(p->r, part[i].name));
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%llu", (unsigned long long)part[i].planned_bytes);
        hri_table_cell(&t, HRI_STYLE_PLAIN, seen ? "%llu" : "",
                       (unsigned long long)part[i].measured_bytes);
        hri_table_cell(&t, HRI_STYLE_DIM, "%s", hri_recording_get_text(p->r, part[i].note));
    }
    hri_table_cell(&t, HRI_STYLE_BOLD, "peak");
    hri_table_cell(&t, HRI_STYLE_BOLD, "%llu", (unsigned long long)planned);
    hri_table_cell(&t, HRI_STYLE_BOLD, seen ? "%llu" : "", (unsigned long long)measured);
    hri_table_cell(&t, HRI_STYLE_DIM, "%s%s", seen ? "measured: " : "",
                   seen ? p->r->head.held_by : "");
    hri_out_printf(p->out, "\nbytes at the peak\n");
    const hr_status status = hri_table_print(&t, p->out, p->term, 2, 1);
    hri_table_deinit(&t);
    return status;
}

/* One character a column: the most that is in use in its share of the ops. */
static hr_status print_line(const printing *p) {
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const plain[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
    const size_t count = p->r->tables[HRI_SEE_OPS].count;
    const size_t columns = count < 64 ? count : 64;
    uint64_t *live;
    const hr_status status = hri_recording_live(p->r, &live);
    if (status != HR_OK) {
        return status;
    }
    const double most = (double)p->r->head.peak_bytes;
    hri_out_printf(
        p->out, "\nmemory in use over %zu %s, the peak at %s %llu (%s)\n  ", count,
        p->foreign ? "events" : "ops", p->foreign ? "event" : "op",
        (unsigned long long)p->r->head.peak_op,
        count ? hri_recording_get_text(p->r, hri_recording_ops(p->r)[p->r->head.peak_op].name)
              : "");
    for (size_t c = 0; c < columns; c++) {
        uint64_t high = 0;
        for (size_t i = c * count / columns; i < (c + 1) * count / columns; i++) {
            uint64_t sum = p->r->head.runtime_bytes;
            for (size_t k = 0; k < HRI_SEE_CATEGORIES; k++) {
                sum += live[i * HRI_SEE_CATEGORIES + k];
            }
            high = sum > high ? sum : high;
        }
        const double level = most > 0 ? (double)high / most * 7.999 : 0;
        const size_t which = level > 7 ? 7 : (size_t)level;
        hri_out_text(p->out, p->term->utf8 ? blocks[which] : plain[which]);
    }
    hri_out_text(p->out, "\n");
    hri_free(live);
    return HR_OK;
}

/* Whether what was in use is what was planned, op by op. */
static hr_status print_agreement(const printing *p) {
    hri_see_agreement a;
    const hr_status status = hri_see_agree(p->r, &a);
    if (status != HR_OK || !a.ops) {
        return status;
    }
    if (a.equal == a.ops) {
        hri_out_printf(p->out, "  measured in the arena: as planned at all %zu ops, to the byte\n",
                       a.ops);
        return HR_OK;
    }
    hri_out_printf(
        p->out,
        "  measured in the arena: as planned at %zu of %zu ops; first at op %zu (%s) %llu bytes "
        "instead of %llu\n",
        a.equal, a.ops, a.first_different,
        hri_recording_get_text(p->r, hri_recording_ops(p->r)[a.first_different].name),
        (unsigned long long)a.measured_bytes, (unsigned long long)a.planned_bytes);
    return HR_OK;
}

static int by_bytes(const void *a, const void *b) {
    const hri_see_buffer *x = *(const hri_see_buffer *const *)a,
                         *y = *(const hri_see_buffer *const *)b;
    return x->bytes != y->bytes    ? (x->bytes > y->bytes ? -1 : 1)
           : x->offset < y->offset ? -1
                                   : x->offset > y->offset;
}

static void add_buffer(const printing *p, hri_table *t, const hri_see_buffer *b, hri_text *name) {
    char bytes[32];
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hri_see_buffer_name(p->r, b, name));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s%s", hri_see_category_name(b->category),
                   b->flags & HRI_SEE_RECOMPUTED ? ", recomputed" : "");
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hri_recording_get_text(p->r, b->shape));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hr_bytes_print(b->bytes, bytes, sizeof bytes));
    if (b->birth == 0 && b->death >= p->r->tables[HRI_SEE_OPS].count) {
        hri_table_cell(t, HRI_STYLE_PLAIN, "always");
    } else {
        hri_table_cell(t, HRI_STYLE_PLAIN, "%u - %u", b->birth, b->death - 1);
    }
}

static hr_status print_alive(const printing *p) {
    static const char *const headings[] = {"NAME", "CATEGORY", "SHAPE", ">SIZE", ">BORN - DIES"};
    const size_t all = p->r->tables[HRI_SEE_BUFFERS].count;
    const hri_see_buffer *b = hri_recording_buffers(p->r), **alive;
    size_t count = 0;
    uint64_t rest = 0;
    char bytes[32];
    hri_text name = {0};
    hri_table t;
    alive = hri_malloc((all + 1) * sizeof *alive);
    if (!alive) {
        return HR_E_NOMEM_HOST;
    }
    for (size_t i = 0; i < all; i++) {
        if (b[i].birth <= p->r->head.peak_op && p->r->head.peak_op < b[i].death) {
            alive[count++] = &b[i];
        }
    }
    qsort(alive, count, sizeof *alive, by_bytes);
    hri_table_init(&t, headings, 5);
    for (size_t i = 0; i < count; i++) {
        if (i < p->rows) {
            add_buffer(p, &t, alive[i], &name);
        } else {
            rest += alive[i]->bytes;
        }
    }
    hri_free(alive);
    hri_out_printf(p->out, "\nalive at the peak\n");
    hr_status status = hri_text_status(&name);
    if (status == HR_OK) {
        status = hri_table_print(&t, p->out, p->term, 2, 1);
    }
    if (count > p->rows) {
        hri_out_printf(p->out, "  and %zu more, %s\n", count - p->rows,
                       hr_bytes_print(rest, bytes, sizeof bytes));
    }
    hri_table_deinit(&t);
    hri_text_deinit(&name);
    return status;
}

static int by_ns(const void *a, const void *b) {
    const hri_see_group *x = a, *y = b;
    return x->ns != y->ns ? (x->ns > y->ns ? -1 : 1) : strcmp(x->name, y->name);
}

static void add_group(const printing *p, hri_table *t, hri_see_by by, const hri_see_group *g,
                      double total) {
    const hri_see_head *h = &p->r->head;
    char text[32];
    const double flops = g->ns > 0 ? g->flops / g->ns : 0, bytes = g->ns > 0 ? g->bytes / g->ns : 0;
    const double of_flops = h->flops_per_ns > 0 ? flops / h->flops_per_ns : 0;
    const double of_bytes = h->bytes_per_ns > 0 ? bytes / h->bytes_per_ns : 0;
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", g->name);
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hri_see_span(g->ns, text, sizeof text));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%.1f %%", total > 0 ? 100 * g->ns / total : 0);
    hri_table_cell(t, HRI_STYLE_PLAIN, "%llu", (unsigned long long)g->ops);
    hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hri_see_count(flops * 1e9, text, sizeof text));
    hri_table_cell(t, HRI_STYLE_PLAIN, "%.0f %%",
                   100 * (of_flops > of_bytes ? of_flops : of_bytes));
    if (by == HRI_SEE_BY_LAYER) {
        hri_table_cell(t, HRI_STYLE_PLAIN, "%s", hr_bytes_print(g->alive_bytes, text, sizeof text));
    }
}

static hr_status print_groups(const printing *p, hri_see_by by) {
    static const char *const headings[] = {"",        ">TIME",    ">SHARE", ">OPS",
                                           ">FLOP/S", ">CEILING", ">ALIVE"};
    hri_see_groups g = {.list = {0}};
    double total = 0, rest = 0;
    char text[32];
    hri_table t;
    hr_status status = hri_see_groups_open(p->r, by, &g);
    if (status != HR_OK) {
        return status;
    }
    qsort(g.list.items, g.list.count, sizeof *g.list.items, by_ns);
    for (size_t i = 0; i < g.list.count; i++) {
        total += g.list.items[i].ns;
        rest += i < p->rows ? 0 : g.list.items[i].ns;
    }
    hri_table_init(&t, headings, by == HRI_SEE_BY_LAYER ? 7 : 6);
    for (size_t i = 0; i < g.list.count && i < p->rows; i++) {
        add_group(p, &t, by, &g.list.items[i], total);
    }
    hri_out_printf(p->out, "\ntime by %s\n", by == HRI_SEE_BY_LAYER ? "layer" : "kind of op");
    status = hri_table_print(&t, p->out, p->term, 2, 1);
    if (g.list.count > p->rows) {
        hri_out_printf(p->out, "  and %zu more, %s\n", g.list.count - p->rows,
                       hri_see_span(rest, text, sizeof text));
    }
    hri_table_deinit(&t);
    hri_see_groups_close(&g);
    return status;
}

static hr_status print_choices(const printing *p) {
    static const char *const headings[] = {">BUDGET", ">PEAK", ">TIME", ">MICRO-BATCHES",
                                           ">RECOMPUTED"};
    const hri_see_choice *c = hri_recording_choices(p->r);
    const size_t count = p->r->tables[HRI_SEE_CHOICES].count;
    char bytes[32];
    hri_table t;
    if (!count) {
        return HR_OK;
    }
    hri_table_init(&t, headings, 5);
    for (size_t i = 0; i < count; i++) {
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%s",
                       hr_bytes_print(c[i].budget_bytes, bytes, sizeof bytes));
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%s",
                       hr_bytes_print(c[i].peak_bytes, bytes, sizeof bytes));
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%.3f", c[i].time_ratio);
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%u", c[i].micro_batches);
        hri_table_cell(&t, HRI_STYLE_PLAIN, "%llu", (unsigned long long)c[i].recomputed_ops);
    }
    hri_out_printf(p->out, "\nother budgets\n");
    const hr_status status = hri_table_print(&t, p->out, p->term, 2, 1);
    hri_table_deinit(&t);
    return status;
}

hr_status hri_see_report_text(const hri_recording *r, size_t rows, hri_out *out,
                              const hri_term *term) {
    const size_t ops = r->tables[HRI_SEE_OPS].count;
    const printing p = {.r = r,
                        .out = out,
                        .term = term,
                        .rows = rows,
                        .foreign = ops && hri_recording_ops(r)[0].what >= HRI_SEE_ALLOC};
    print_head(&p);
    hr_status status = print_parts(&p);
    if (status == HR_OK && ops) {
        status = print_line(&p);
    }
    if (status == HR_OK && ops) {
        status = print_agreement(&p);
    }
    if (status == HR_OK && ops) {
        status = print_alive(&p);
    }
    if (status == HR_OK && ops && !p.foreign) {
        status = print_groups(&p, HRI_SEE_BY_LAYER);
    }
    if (status == HR_OK && ops && !p.foreign) {
        status = print_groups(&p, HRI_SEE_BY_KIND);
    }
    return status == HR_OK ? print_choices(&p) : status;
}

/* ---- JSON ---- */

static void put_cell(const hri_recording *r, hri_json *json, const hri_see_column *c,
                     const char *at) {
    const void *cell = at;
    if (c->type == HRI_SEE_TEXT) {
        hri_json_string(json, c->name, hri_recording_get_text(r, *(const uint32_t *)cell));
    } else if (c->type == HRI_SEE_F64) {
        hri_json_double(json, c->name, *(const double *)cell);
    } else {
        const uint64_t x = c->type == HRI_SEE_U8    ? *(const uint8_t *)cell
                           : c->type == HRI_SEE_U32 ? *(const uint32_t *)cell
                                                    : *(const uint64_t *)cell;
        hri_json_u64(json, c->name, x < INT64_MAX ? x : INT64_MAX);
    }
}

hr_status hri_see_report_json(const hri_recording *r, hri_json *json) {
    for (size_t i = 0; i < hri_see_head_field_count; i++) {
        const hri_see_column *f = &hri_see_head_fields[i];
        const void *at = (const char *)&r->head + f->offset;
        if (f->type == HRI_SEE_TEXT) {
            hri_json_string(json, f->name, *(const char *const *)at);
        } else {
            put_cell(r, json, f, at);
        }
    }
    hri_json_bool(json, "truncated", r->truncated);
    hri_see_agreement a;
    const hr_status status = hri_see_agree(r, &a);
    if (status != HR_OK) {
        return status;
    }
    if (a.ops) { /* planned and measured bytes in use */
        hri_json_object(json, "agreement");
        hri_json_u64(json, "ops", a.ops);
        hri_json_u64(json, "equal", a.equal);
        hri_json_end(json);
    }
    for (int t = 0; t < HRI_SEE_TABLES; t++) {
        const hri_see_table_info *info = &hri_see_tables[t];
        hri_json_array(json, info->name);
        for (size_t i = 0; i < r->tables[t].count; i++) {
            hri_json_object(json, NULL);
            for (size_t c = 0; c < info->column_count; c++) {
                put_cell(r, json, &info->columns[c],
                         (const char *)r->tables[t].items + i * info->row_bytes +
                             info->columns[c].offset);
            }
            hri_json_end(json);
        }
        hri_json_end(json);
    }
    return hri_json_status(json);
}
