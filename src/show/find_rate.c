/* See find_rate.h. */
#include "show/find_rate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/number.h"
#include "base/svg.h"

/* What is shown of losses: those beyond three times the range of the average are cut off. */
static void limits(const hri_found_rate *f, double *low, double *high) {
    *low = f->lowest;
    *high = f->smooth[0];
    for (size_t i = 0; i < f->count; i++) {
        *low = f->losses[i] < *low ? f->losses[i] : *low;
    }
    const double range = *high > *low ? *high - *low : 1;
    *high += 0.5 * range;
    *low -= 0.1 * range;
}

hr_status hri_show_rates_svg(const hri_found_rate *f, const char *model, char **out) {
    hri_svg s;
    char text[200];
    double *x = hri_calloc(f->count ? f->count : 1, sizeof *x);
    if (!x) {
        return HR_E_NOMEM_HOST;
    }
    for (size_t i = 0; i < f->count; i++) {
        x[i] = log10(f->rates[i]);
    }
    hri_chart c = {.left = 76, .right = 732, .top = 64, .bottom = 376};
    c.low_x = f->count ? x[0] : 0;
    c.high_x = f->count > 1 ? x[f->count - 1] : c.low_x + 1;
    c.x_name = "learning rate, as a power of ten";
    c.y_name = "loss";
    if (f->count) {
        limits(f, &c.low_y, &c.high_y);
    } else {
        c.high_y = 1;
    }
    hri_svg_begin(&s, 760, 440);
    snprintf(text, sizeof text, "%.120s: learning-rate range test", model);
    hri_svg_label(&s, 76, 30, 16, "#222222", "start", text);
    hri_chart_axes(&s, &c);
    hri_chart_line(&s, &c, x, f->losses, f->count, "#b8c7dc", 1);
    hri_chart_line(&s, &c, x, f->smooth, f->count, "#1f5fa8", 2);
    if (!isnan(f->rate)) {
        hri_snprintf(text, sizeof text, "steepest: %.2g", f->rate);
        hri_chart_mark_x(&s, &c, log10(f->rate), text, "#a33a1f", 0);
    }
    if (f->count) {
        hri_snprintf(text, sizeof text, "lowest: %.2g", f->lowest_rate);
        hri_chart_mark_x(&s, &c, log10(f->lowest_rate), text, "#777777", 1);
    }
    hri_chart_frame(&s, &c);
    hri_free(x);
    return hri_svg_end(&s, out);
}

hr_status hri_show_rates_write(const hri_found_rate *f, const char *model, const char *path,
                               hri_prose *why) {
    char *svg = NULL;
    hr_status status = path ? hri_show_rates_svg(f, model, &svg) : HR_OK;
    if (status == HR_OK && svg) {
        status = hri_file_write(path, svg, strlen(svg), why);
    }
    hri_free(svg);
    return status;
}

void hri_show_rates_json(const hri_found_rate *f, hri_json *json) {
    if (isnan(f->rate)) {
        hri_json_null(json, "rate");
    } else {
        hri_json_double(json, "rate", f->rate);
    }
    hri_json_double(json, "lowest_rate", f->lowest_rate);
    hri_json_double(json, "lowest_loss", f->lowest);
    hri_json_bool(json, "diverged", f->diverged != 0);
    hri_json_array(json, "steps");
    for (size_t i = 0; i < f->count; i++) {
        hri_json_object(json, NULL);
        hri_json_double(json, "rate", f->rates[i]);
        hri_json_double(json, "loss", f->losses[i]);
        hri_json_double(json, "smooth", f->smooth[i]);
        hri_json_end(json);
    }
    hri_json_end(json);
}

void hri_show_rates_text(const hri_found_rate *f, hri_out *out) {
    double next = -INFINITY;
    hri_out_text(out, "learning rate      loss\n");
    for (size_t i = 0; i < f->count; i++) {
        const double at = log10(f->rates[i]);
        if (at >= next || i + 1 == f->count) {
            hri_out_printf(out, "%13.2e  %8.4f\n", f->rates[i], f->smooth[i]);
            next = floor(at + 1e-9) + 1;
        }
    }
    if (f->diverged) {
        hri_out_printf(out, "stopped at %.2e, where the loss grew\n", f->rates[f->count - 1]);
    }
    hri_out_printf(out, "the average loss is lowest, %.4f, at %.2e\n", f->lowest, f->lowest_rate);
    if (isnan(f->rate)) {
        hri_out_text(out, "the loss did not fall: try a higher range, or more steps\n");
    } else {
        hri_out_printf(out, "it falls fastest at %.2e: a learning rate to begin with\n", f->rate);
    }
}
