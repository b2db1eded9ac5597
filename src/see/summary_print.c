/* A summary for people and as JSON; see summary.h. */
#include "see/summary.h"

#include <stdio.h>
#include <headroom/bytes.h>

#include "base/number.h"
#include "base/table.h"

const char *hri_see_count(double count, char *buf, size_t size) {
    static const char *const units[] = {"", " k", " M", " G", " T", " P"};
    size_t unit = 0;
    while (count >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        count /= 1000;
        unit++;
    }
    hri_snprintf(buf, size, "%.*f%s",
                 unit == 0 || count >= 99.95 ? 0
                 : count >= 9.995            ? 1
                                             : 2,
                 count, units[unit]);
    return buf;
}

static void add_row(hri_table *t, hri_style style, const hri_see_layer *l, const char *name,
                    const char *kind, const char *shape) {
    char count[32], bytes[32];
    hri_table_cell(t, style, "%s", name);
    hri_table_cell(t, style, "%s", kind);
    hri_table_cell(t, style, "%s", shape);
    hri_table_cell(t, style, "%llu", (unsigned long long)l->parameters);
    hri_table_cell(t, style, "%s", hri_see_count(l->flops, count, sizeof count));
    hri_table_cell(t, style, "%s", hr_bytes_print(l->kept_bytes, bytes, sizeof bytes));
}

hr_status hri_see_summary_text(const hri_see_summary *s, hri_out *out, const hri_term *term) {
    static const char *const headings[] = {"LAYER",       "OP",     "OUTPUT",
                                           ">PARAMETERS", ">FLOPS", ">KEPT"};
    char shape[80 + 21 * HR_RANK_MAX], a[32], b[32], c[32];
    hri_table t;
    hri_out_printf(out, "%s, batch %lld\n\n", hr_model_text(s->model), (long long)s->batch);
    hri_table_init(&t, headings, sizeof headings / sizeof headings[0]);
    for (size_t i = 0; i < s->layers.count; i++) {
        const hri_see_layer *l = &s->layers.items[i];
        add_row(&t, HRI_STYLE_PLAIN, l, l->name, l->kind,
                l->kind[0] ? hr_meta_print(&l->output, shape, sizeof shape) : "");
    }
    add_row(&t, HRI_STYLE_BOLD, &s->total, "total", "", "");
    const hr_status status = hri_table_print(&t, out, term, 0, 1);
    hri_table_deinit(&t);
    hri_out_printf(
        out,
        "\nparameters  %llu (%llu trained), %s\nstate       %s (optimizer state, running "
        "statistics)\n",
        (unsigned long long)s->total.parameters, (unsigned long long)s->trained_parameters,
        hr_bytes_print(s->total.parameter_bytes, a, sizeof a),
        hr_bytes_print(s->state_bytes, b, sizeof b));
    hri_out_printf(out, "kept        %s for the backward pass if nothing is recomputed\n",
                   hr_bytes_print(s->total.kept_bytes, a, sizeof a));
    hri_out_printf(out, "arithmetic  %sFLOP forward, %sFLOP per training step\n",
                   hri_see_count(s->total.flops, b, sizeof b),
                   hri_see_count(s->step_flops, c, sizeof c));
    return status;
}

static void put_layer(hri_json *json, const hri_see_layer *l) {
    hri_json_u64(json, "parameters", l->parameters);
    hri_json_u64(json, "parameter_bytes", l->parameter_bytes);
    hri_json_double(json, "flops", l->flops);
    hri_json_u64(json, "kept_bytes", l->kept_bytes);
}

void hri_see_summary_json(const hri_see_summary *s, hri_json *json) {
    hri_json_string(json, "model", hr_model_text(s->model));
    hri_json_i64(json, "batch", s->batch);
    put_layer(json, &s->total);
    hri_json_u64(json, "trained_parameters", s->trained_parameters);
    hri_json_u64(json, "state_bytes", s->state_bytes);
    hri_json_double(json, "step_flops", s->step_flops);
    hri_json_array(json, "layers");
    for (size_t i = 0; i < s->layers.count; i++) {
        const hri_see_layer *l = &s->layers.items[i];
        hri_json_object(json, NULL);
        hri_json_string(json, "name", l->name);
        hri_json_string(json, "op", l->kind);
        hri_json_string(json, "type", l->kind[0] ? hr_type_name(l->output.type) : "");
        hri_json_array(json, "shape");
        for (int32_t d = 0; l->kind[0] && d < l->output.shape.rank; d++) {
            hri_json_i64(json, NULL, l->output.shape.dim[d]);
        }
        hri_json_end(json);
        put_layer(json, l);
        hri_json_end(json);
    }
    hri_json_end(json);
}
