/* The curve as a picture: budget across, time up, one marked point a plan; no script, no font of its own, readable on
 * white and when printed in grey. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/common/plan_show.h"

enum { WIDTH = 760, HEIGHT = 440, LEFT = 76, RIGHT = 28, TOP = 64, BOTTOM = 64, TEXT_MOST = 65536 };

typedef struct drawing {
    char *text;
    size_t used;
    double low_x, high_x, low_y, high_y;
    double unit;
} drawing;

static void put(drawing *d, const char *format, ...) HR_PRINTF(2, 3);
static void put(drawing *d, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(d->text + d->used, TEXT_MOST - d->used, format, list);
    va_end(list);
    d->used += n > 0 && (size_t)n < TEXT_MOST - d->used ? (size_t)n : 0;
}

static double x_of(const drawing *d, double bytes) {
    return LEFT + (bytes - d->low_x) / (d->high_x - d->low_x) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const drawing *d, double ratio) {
    return HEIGHT - BOTTOM - (ratio - d->low_y) / (d->high_y - d->low_y) * (HEIGHT - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten: about six marks over the span. */
static double mark_step(double span) {
    const double rough = span / 6, power = pow(10, floor(log10(rough)));
    const double lead = rough / power;
    return (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10) * power;
}

static void put_escaped(drawing *d, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '<':
            put(d, "&lt;");
            break;
        case '>':
            put(d, "&gt;");
            break;
        case '&':
            put(d, "&amp;");
            break;
        default:
            put(d, "%c", (unsigned char)*text < 32 ? '?' : *text);
        }
    }
}

static void draw_axes(drawing *d) {
    const double step_x = mark_step((d->high_x - d->low_x) / d->unit);
    const double step_y = mark_step(d->high_y - d->low_y);
    const char *name = d->unit > 1e9 ? "GiB" : "MiB";
    put(d, "<g stroke=\"#dddddd\" stroke-width=\"1\">\n");
    for (double x = ceil(d->low_x / d->unit / step_x) * step_x; x * d->unit <= d->high_x;
         x += step_x) {
        put(d, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n", x_of(d, x * d->unit), TOP,
            x_of(d, x * d->unit), HEIGHT - BOTTOM);
    }
    for (double y = ceil(d->low_y / step_y) * step_y; y <= d->high_y + 1e-9; y += step_y) {
        put(d, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n", LEFT, y_of(d, y),
            WIDTH - RIGHT, y_of(d, y));
    }
    put(d, "</g>\n<g fill=\"#333333\" font-size=\"12\" text-anchor=\"middle\">\n");
    for (double x = ceil(d->low_x / d->unit / step_x) * step_x; x * d->unit <= d->high_x;
         x += step_x) {
        put(d, "<text x=\"%.1f\" y=\"%d\">%g</text>\n", x_of(d, x * d->unit), HEIGHT - BOTTOM + 18,
            x);
    }
    put(d, "<text x=\"%d\" y=\"%d\" font-size=\"13\">budget in %s</text>\n",
        (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, name);
    put(d, "</g>\n<g fill=\"#333333\" font-size=\"12\" text-anchor=\"end\">\n");
    for (double y = ceil(d->low_y / step_y) * step_y; y <= d->high_y + 1e-9; y += step_y) {
        put(d, "<text x=\"%d\" y=\"%.1f\">%.4g</text>\n", LEFT - 8, y_of(d, y) + 4, y);
    }
    put(d,
        "</g>\n<text transform=\"translate(20 %d) rotate(-90)\" fill=\"#333333\" "
        "font-size=\"13\" text-anchor=\"middle\">time of a step, times that without a "
        "budget</text>\n",
        (TOP + HEIGHT - BOTTOM) / 2);
}

/* A line down from the top at a budget that means something. */
static void draw_mark(drawing *d, uint64_t bytes, const char *name, const char *color, int row) {
    const double x = x_of(d, (double)bytes);
    if ((double)bytes < d->low_x || (double)bytes > d->high_x) {
        return;
    }
    const int left = x > (LEFT + WIDTH - RIGHT) / 2.0;
    put(d,
        "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"%s\" "
        "stroke-dasharray=\"5 4\"/>\n",
        x, TOP, x, HEIGHT - BOTTOM, color);
    put(d, "<text x=\"%.1f\" y=\"%d\" fill=\"%s\" font-size=\"12\" text-anchor=\"%s\">%s</text>\n",
        x + (left ? -6 : 6), TOP + 14 + 16 * row, color, left ? "end" : "start", name);
}

static void draw_curve(drawing *d, const hri_plan_answer *a) {
    put(d, "<polyline fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"2\" points=\"");
    for (uint32_t i = 0; i < a->point_count; i++) {
        put(d, "%.1f,%.1f ", x_of(d, (double)a->points[i].budget_bytes),
            y_of(d, a->points[i].time_ratio));
    }
    put(d, "\"/>\n<g fill=\"#1f5fa8\">\n");
    for (uint32_t i = 0; i < a->point_count; i++) {
        char budget[32];
        put(d, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>%s: x %.3f</title></circle>\n",
            x_of(d, (double)a->points[i].budget_bytes), y_of(d, a->points[i].time_ratio),
            hr_bytes_print(a->points[i].budget_bytes, budget, sizeof budget),
            a->points[i].time_ratio);
    }
    put(d, "</g>\n");
}

static void set_scale(drawing *d, const hri_plan_job *j, const hri_plan_answer *a) {
    d->low_x = d->high_x = (double)j->floor_bytes;
    d->low_y = d->high_y = 1;
    for (uint32_t i = 0; i < a->point_count; i++) {
        const double x = (double)a->points[i].budget_bytes, y = a->points[i].time_ratio;
        d->high_x = x > d->high_x ? x : d->high_x;
        d->low_y = y < d->low_y ? y : d->low_y;
        d->high_y = y > d->high_y ? y : d->high_y;
    }
    if ((double)j->unplanned_bytes < d->high_x * 2) {
        d->high_x = fmax(d->high_x, (double)j->unplanned_bytes);
    }
    const double room = fmax((d->high_x - d->low_x) * 0.06, 1);
    d->low_x = fmax(0, d->low_x - room);
    d->high_x += room;
    d->high_y = fmax(d->high_y + (d->high_y - d->low_y) * 0.1, d->low_y + 0.1);
    d->unit = d->high_x > 4e9 ? 1073741824.0 : 1048576.0;
}

char *hri_plan_show_svg(const hri_plan_job *j, const hri_plan_answer *a) {
    drawing d = {.text = hri_malloc(TEXT_MOST)};
    if (!d.text) {
        return NULL;
    }
    set_scale(&d, j, a);
    put(&d,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
        "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
        "<text x=\"%d\" y=\"30\" font-size=\"17\" fill=\"#111111\">",
        WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    put_escaped(&d, j->what);
    if (j->model) {
        put(&d, ", batch %lld", (long long)j->job.batch);
    }
    put(&d,
        "</text>\n<text x=\"%d\" y=\"50\" font-size=\"12\" fill=\"#555555\">what a smaller "
        "budget costs, on ",
        LEFT);
    put_escaped(&d, j->device_name[0] ? j->device_name : "any device");
    put(&d, "</text>\n");
    draw_axes(&d);
    draw_mark(&d, j->floor_bytes, "floor", "#a83232", 0);
    draw_mark(&d, j->unplanned_bytes, "plain training", "#555555", 0);
    if (j->budget_bytes) {
        draw_mark(&d, j->budget_bytes, "this budget", "#2e7d32", 1);
    }
    draw_curve(&d, a);
    put(&d,
        "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" "
        "stroke=\"#333333\"/>\n</svg>\n",
        LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM);
    return d.text;
}
