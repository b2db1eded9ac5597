/* The history of a training and its two charts. */
#include "records/picture.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <headroom/bytes.h>

#include "base/svg.h"

enum { WIDTH = 760, LEFT = 76, RIGHT = 732 };
static const char blue[] = "#1f5fa8", orange[] = "#c55a11", green[] = "#2e7d32", red[] = "#a83232";

/* ---- history ---- */

static double larger(double a, double b) {
    return isnan(a) || b > a ? b : a;
}

static void halve(hri_picture_curve *c) {
    for (size_t i = 0; i < c->count / 2; i++) {
        c->step[i] = c->step[2 * i + 1];
        c->mean[i] = (c->mean[2 * i] + c->mean[2 * i + 1]) / 2;
        c->most[i] = larger(c->most[2 * i], c->most[2 * i + 1]);
    }
    c->count /= 2;
    c->each *= 2;
}

static void add(hri_picture_curve *c, uint64_t step, double mean, double most) {
    c->each = c->each ? c->each : 1;
    if (c->count == 0 || c->taken == c->each) {
        if (c->count == HRI_PICTURE_POINTS) {
            halve(c);
        }
        c->mean[c->count] = 0;
        c->most[c->count] = NAN;
        c->count++;
        c->taken = 0;
    }
    const size_t last = c->count - 1;
    c->taken++;
    c->step[last] = (double)step;
    c->mean[last] += (mean - c->mean[last]) / (double)c->taken;
    c->most[last] = larger(c->most[last], most);
}

void hri_picture_step(hri_picture *p, uint64_t step, double loss, double memory_bytes) {
    add(&p->train, step, loss, memory_bytes);
}

void hri_picture_validation(hri_picture *p, uint64_t step, double loss) {
    add(&p->validation, step, loss, NAN);
}

/* ---- drawing ---- */

typedef struct span {
    double low, high;
} span;

static void include(span *s, const double *x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (isfinite(x[i])) {
            s->low = fmin(s->low, x[i]);
            s->high = fmax(s->high, x[i]);
        }
    }
}

/* With some air above and below; a line that is flat, or none at all, gets a span too. */
static span widened(span s, double lowest) {
    if (s.high < s.low) {
        return (span){.low = lowest, .high = lowest + 1};
    }
    const double room = fmax((s.high - s.low) * 0.06, fmax(fabs(s.high) * 1e-3, 1e-9));
    return (span){.low = fmax(lowest, s.low - room), .high = s.high + room};
}

static hri_chart chart_at(const hri_picture *p, double top, double bottom) {
    span steps = {.low = INFINITY, .high = -INFINITY};
    include(&steps, p->train.step, p->train.count);
    include(&steps, p->validation.step, p->validation.count);
    if (steps.high < steps.low) {
        steps = (span){.low = 0, .high = 1};
    }
    return (hri_chart){.left = LEFT,
                       .right = RIGHT,
                       .top = top,
                       .bottom = bottom,
                       .low_x = steps.low - 1,
                       .high_x = steps.high > steps.low ? steps.high : steps.low + 1};
}

static void draw_key(hri_svg *s, double x, double y, const char *color, const char *name) {
    hri_svg_put(s,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                "stroke-width=\"2\"/>\n",
                x, y - 4, x + 22, y - 4, color);
    hri_svg_label(s, x + 28, y, 12, "#333333", "start", name);
}

static void draw_loss(hri_svg *s, const hri_picture *p) {
    hri_chart c = chart_at(p, 64, 280);
    span loss = {.low = INFINITY, .high = -INFINITY};
    include(&loss, p->train.mean, p->train.count);
    include(&loss, p->validation.mean, p->validation.count);
    loss = widened(loss, -INFINITY);
    if (!isfinite(loss.low)) {
        loss = (span){.low = 0, .high = 1};
    }
    c.low_y = loss.low;
    c.high_y = loss.high;
    c.y_name = "loss";
    hri_chart_axes(s, &c);
    hri_chart_line(s, &c, p->train.step, p->train.mean, p->train.count, blue, 1.5);
    hri_chart_line(s, &c, p->validation.step, p->validation.mean, p->validation.count, orange, 2);
    hri_svg_put(s, "<g fill=\"%s\">\n", orange);
    for (size_t i = 0; i < p->validation.count; i++) {
        if (isfinite(p->validation.mean[i])) {
            hri_svg_put(s, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n",
                        hri_chart_x(&c, p->validation.step[i]),
                        hri_chart_y(&c, p->validation.mean[i]));
        }
    }
    hri_svg_put(s, "</g>\n");
    draw_key(s, RIGHT - 220, 54, blue, "training");
    if (p->validation.count > 0) {
        draw_key(s, RIGHT - 110, 54, orange, "validation");
    }
    hri_chart_frame(s, &c);
}

static void draw_memory(hri_svg *s, const hri_picture *p, const hri_picture_text *t) {
    hri_chart c = chart_at(p, 320, 460);
    span memory = {.low = INFINITY, .high = -INFINITY};
    const double planned = t->planned_bytes ? (double)t->planned_bytes : NAN;
    const double budget = t->budget_bytes ? (double)t->budget_bytes : NAN;
    include(&memory, p->train.most, p->train.count);
    include(&memory, &planned, 1);
    include(&memory, &budget, 1);
    memory.low = fmin(memory.low, memory.high * 0.9);
    memory = widened(memory, 0);
    c.low_y = memory.low;
    c.high_y = memory.high + (memory.high - memory.low) * 0.12; /* room for the names */
    c.unit_y = c.high_y > 4e9 ? 1073741824.0 : 1048576.0;
    c.y_name = c.high_y > 4e9 ? "memory in GiB" : "memory in MiB";
    c.x_name = "step";
    hri_chart_axes(s, &c);
    hri_chart_line(s, &c, p->train.step, p->train.most, p->train.count, blue, 2);
    char size[32], name[64];
    snprintf(name, sizeof name, "planned peak%s %s",
             t->budget_bytes == t->planned_bytes ? " and budget" : "",
             hr_bytes_print(t->planned_bytes, size, sizeof size));
    hri_chart_mark_y(s, &c, planned, name, green);
    if (t->budget_bytes != t->planned_bytes) {
        const double apart = hri_chart_y(&c, planned) - hri_chart_y(&c, budget);
        snprintf(name, sizeof name, "budget %s",
                 hr_bytes_print(t->budget_bytes, size, sizeof size));
        /* Two names over one another could not be read. */
        hri_chart_mark_y(s, &c, budget, fabs(apart) < 15 ? "" : name, red);
    }
    draw_key(s, RIGHT - 220, 312, blue, "measured");
    hri_chart_frame(s, &c);
}

hr_status hri_picture_draw(const hri_picture *p, const hri_picture_text *text, char **out) {
    hri_svg s;
    hri_svg_begin(&s, WIDTH, 524);
    const char *title = text->title ? text->title : "training";
    hri_svg_label(&s, LEFT, 30, strlen(title) > 64 ? 12 : 17, "#111111", "start", title);
    draw_loss(&s, p);
    draw_memory(&s, p, text);
    return hri_svg_end(&s, out);
}
