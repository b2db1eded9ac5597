/* The curve as a picture: budget across, time up, one marked point a plan. */
#include <math.h>
#include <stdio.h>

#include <headroom/bytes.h>
#include "base/svg.h"
#include "show/plan.h"

enum { WIDTH = 760, HEIGHT = 440 };
static const char blue[] = "#1f5fa8";

static hri_chart chart_of(const hri_plan_job *j, const hri_plan_answer *a) {
    hri_chart c = {.left = 76,
                   .right = WIDTH - 28,
                   .top = 64,
                   .bottom = HEIGHT - 64,
                   .low_x = (double)j->floor_bytes,
                   .high_x = (double)j->floor_bytes,
                   .low_y = 1,
                   .high_y = 1,
                   .y_name = "step time relative to unconstrained"};
    for (uint32_t i = 0; i < a->point_count; i++) {
        c.high_x = fmax(c.high_x, (double)a->points[i].budget_bytes);
        c.low_y = fmin(c.low_y, a->points[i].time_ratio);
        c.high_y = fmax(c.high_y, a->points[i].time_ratio);
    }
    if ((double)j->unplanned_bytes < c.high_x * 2) {
        c.high_x = fmax(c.high_x, (double)j->unplanned_bytes);
    }
    const double room = fmax((c.high_x - c.low_x) * 0.06, 1);
    c.low_x = fmax(0, c.low_x - room);
    c.high_x += room;
    c.high_y = fmax(c.high_y + (c.high_y - c.low_y) * 0.1, c.low_y + 0.1);
    c.unit_x = c.high_x > 4e9 ? 1073741824.0 : 1048576.0;
    c.x_name = c.high_x > 4e9 ? "budget in GiB" : "budget in MiB";
    return c;
}

static void draw_points(hri_svg *s, const hri_chart *c, const hri_plan_answer *a) {
    double x[HRI_PLAN_POINTS], y[HRI_PLAN_POINTS];
    for (uint32_t i = 0; i < a->point_count; i++) {
        x[i] = (double)a->points[i].budget_bytes;
        y[i] = a->points[i].time_ratio;
    }
    hri_chart_line(s, c, x, y, a->point_count, blue, 2);
    hri_svg_put(s, "<g fill=\"%s\">\n", blue);
    for (uint32_t i = 0; i < a->point_count; i++) {
        char budget[32];
        hri_svg_put(s,
                    "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"><title>%s: x %.3f</title>"
                    "</circle>\n",
                    hri_chart_x(c, x[i]), hri_chart_y(c, y[i]),
                    hr_bytes_print(a->points[i].budget_bytes, budget, sizeof budget), y[i]);
    }
    hri_svg_put(s, "</g>\n");
}

char *hri_plan_print_svg(const hri_plan_job *j, const hri_plan_answer *a) {
    const hri_chart c = chart_of(j, a);
    hri_svg s;
    hri_svg_begin(&s, WIDTH, HEIGHT);
    hri_svg_put(&s, "<text x=\"%.0f\" y=\"30\" font-size=\"17\" fill=\"#111111\">", c.left);
    hri_svg_escape(&s, j->what);
    if (j->model) {
        hri_svg_put(&s, ", batch %lld", (long long)j->job.batch);
    }
    hri_svg_put(&s, "</text>\n<text x=\"%.0f\" y=\"50\" font-size=\"12\" fill=\"#555555\">",
                c.left);
    hri_svg_put(&s, "step time against budget, on ");
    hri_svg_escape(&s, j->device_name[0] ? j->device_name : "any device");
    hri_svg_put(&s, "</text>\n");
    hri_chart_axes(&s, &c);
    hri_chart_mark_x(&s, &c, (double)j->floor_bytes, "floor", "#a83232", 0);
    hri_chart_mark_x(&s, &c, (double)j->unplanned_bytes, "unconstrained", "#555555", 0);
    if (j->budget_bytes) {
        hri_chart_mark_x(&s, &c, (double)j->budget_bytes, "this budget", "#2e7d32", 1);
    }
    draw_points(&s, &c, a);
    hri_chart_frame(&s, &c);
    char *text = NULL;
    return hri_svg_end(&s, &text) == HR_OK ? text : NULL;
}
