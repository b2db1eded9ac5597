/* Charts as SVG text. */
#include "base/svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/number.h"
#include "base/vector.h"
#include "base/visible.h"

static void grow(hri_svg *s, size_t wanted) {
    void *text = s->text;
    s->status = hri_vector_grow(&text, &s->room, wanted, 1);
    s->text = text;
}

void hri_svg_put(hri_svg *s, const char *format, ...) {
    for (int round = 0; round < 2 && s->status == HR_OK; round++) {
        va_list list;
        va_start(list, format);
        const int n = hri_vsnprintf(s->text + s->used, s->room - s->used, format, list);
        va_end(list);
        if (n < 0) {
            return; /* a character set that cannot say it; nothing of ours comes here */
        }
        if ((size_t)n < s->room - s->used) {
            s->used += (size_t)n;
            return;
        }
        grow(s, s->used + (size_t)n + 1);
    }
}

void hri_svg_escape(hri_svg *s, const char *text) {
    size_t taken;
    char shown[17];
    for (; *text; text += taken) {
        const size_t put = hri_visible_next(text, shown, &taken);
        switch (put == 1 ? shown[0] : 0) {
        case '<':
            hri_svg_put(s, "&lt;");
            break;
        case '>':
            hri_svg_put(s, "&gt;");
            break;
        case '&':
            hri_svg_put(s, "&amp;");
            break;
        case '"':
            hri_svg_put(s, "&quot;");
            break;
        default:
            hri_svg_put(s, "%.*s", (int)put, shown);
        }
    }
}

void hri_svg_label(hri_svg *s, double x, double y, int size, const char *color, const char *anchor,
                   const char *text) {
    hri_svg_put(s, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" fill=\"%s\" text-anchor=\"%s\">",
                x, y, size, color, anchor);
    hri_svg_escape(s, text);
    hri_svg_put(s, "</text>\n");
}

void hri_svg_begin(hri_svg *s, int width, int height) {
    *s = (hri_svg){.status = HR_OK};
    grow(s, 4096);
    hri_svg_put(s,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                "viewBox=\"0 0 %d %d\" font-family=\"sans-serif\">\n"
                "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                width, height, width, height);
}

hr_status hri_svg_end(hri_svg *s, char **out) {
    hri_svg_put(s, "</svg>\n");
    const hr_status status = s->status;
    if (status == HR_OK) {
        *out = s->text;
    } else {
        hri_free(s->text);
    }
    *s = (hri_svg){.status = HR_E_INVALID};
    return status;
}

/* ---- charts ---- */

double hri_chart_x(const hri_chart *c, double x) {
    return c->left + (x - c->low_x) / (c->high_x - c->low_x) * (c->right - c->left);
}

double hri_chart_y(const hri_chart *c, double y) {
    return c->bottom - (y - c->low_y) / (c->high_y - c->low_y) * (c->bottom - c->top);
}

/* Round numbers in a span: 1, 2 or 5 times a power of ten apart, about `wanted` of them. */
typedef struct marks {
    double first, step, unit;
    int count;
} marks;

static marks marks_of(double low, double high, double unit, int wanted) {
    unit = unit > 0 ? unit : 1;
    const double rough = (high - low) / unit / wanted, power = pow(10, floor(log10(rough)));
    const double lead = rough / power;
    const double step = (lead < 1.5 ? 1 : lead < 3.5 ? 2 : lead < 7.5 ? 5 : 10) * power;
    const double first = ceil(low / unit / step - 1e-9) * step;
    const int count = (int)floor((high / unit - first) / step + 1e-9) + 1;
    return (marks){.first = first, .step = step, .unit = unit, .count = count > 0 ? count : 0};
}

static double mark_at(const marks *m, int i) {
    const double at = m->first + i * m->step;
    return fabs(at) < m->step * 1e-9 ? 0 : at;
}

static void draw_names(hri_svg *s, const hri_chart *c) {
    if (c->x_name) {
        hri_svg_label(s, (c->left + c->right) / 2, c->bottom + 46, 13, "#333333", "middle",
                      c->x_name);
    }
    if (c->y_name) {
        hri_svg_put(s,
                    "<text transform=\"translate(%.1f %.1f) rotate(-90)\" fill=\"#333333\" "
                    "font-size=\"13\" text-anchor=\"middle\">",
                    c->left - 56, (c->top + c->bottom) / 2);
        hri_svg_escape(s, c->y_name);
        hri_svg_put(s, "</text>\n");
    }
}

void hri_chart_axes(hri_svg *s, const hri_chart *c) {
    const marks across = marks_of(c->low_x, c->high_x, c->unit_x, 6);
    const marks up = marks_of(c->low_y, c->high_y, c->unit_y, c->bottom - c->top > 200 ? 6 : 4);
    hri_svg_put(s, "<g stroke=\"#dddddd\" stroke-width=\"1\">\n");
    for (int i = 0; i < across.count; i++) {
        const double x = hri_chart_x(c, mark_at(&across, i) * across.unit);
        hri_svg_put(s, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x, c->top, x,
                    c->bottom);
    }
    for (int i = 0; i < up.count; i++) {
        const double y = hri_chart_y(c, mark_at(&up, i) * up.unit);
        hri_svg_put(s, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", c->left, y,
                    c->right, y);
    }
    hri_svg_put(s, "</g>\n<g fill=\"#333333\" font-size=\"12\" text-anchor=\"middle\">\n");
    for (int i = 0; i < across.count; i++) {
        hri_svg_put(s, "<text x=\"%.1f\" y=\"%.1f\">%.10g</text>\n",
                    hri_chart_x(c, mark_at(&across, i) * across.unit), c->bottom + 18,
                    mark_at(&across, i));
    }
    hri_svg_put(s, "</g>\n<g fill=\"#333333\" font-size=\"12\" text-anchor=\"end\">\n");
    for (int i = 0; i < up.count; i++) {
        hri_svg_put(s, "<text x=\"%.1f\" y=\"%.1f\">%.4g</text>\n", c->left - 8,
                    hri_chart_y(c, mark_at(&up, i) * up.unit) + 4, mark_at(&up, i));
    }
    hri_svg_put(s, "</g>\n");
    draw_names(s, c);
}

void hri_chart_line(hri_svg *s, const hri_chart *c, const double *x, const double *y, size_t count,
                    const char *color, double width) {
    bool open = false;
    for (size_t i = 0; i < count; i++) {
        const bool in = isfinite(x[i]) && isfinite(y[i]) && x[i] >= c->low_x && x[i] <= c->high_x &&
                        y[i] >= c->low_y && y[i] <= c->high_y;
        if (in && !open) {
            hri_svg_put(s,
                        "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%g\" "
                        "stroke-linejoin=\"round\" points=\"",
                        color, width);
        }
        if (in) {
            hri_svg_put(s, "%.1f,%.1f ", hri_chart_x(c, x[i]), hri_chart_y(c, y[i]));
        } else if (open) {
            hri_svg_put(s, "\"/>\n");
        }
        open = in;
    }
    if (open) {
        hri_svg_put(s, "\"/>\n");
    }
}

void hri_chart_mark_x(hri_svg *s, const hri_chart *c, double x, const char *name, const char *color,
                      int row) {
    if (!(x >= c->low_x && x <= c->high_x)) {
        return;
    }
    const double at = hri_chart_x(c, x);
    const bool left = at > (c->left + c->right) / 2;
    hri_svg_put(s,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                "stroke-dasharray=\"5 4\"/>\n",
                at, c->top, at, c->bottom, color);
    hri_svg_label(s, at + (left ? -6 : 6), c->top + 14 + 16 * row, 12, color,
                  left ? "end" : "start", name);
}

void hri_chart_mark_y(hri_svg *s, const hri_chart *c, double y, const char *name,
                      const char *color) {
    if (!(y >= c->low_y && y <= c->high_y)) {
        return;
    }
    const double at = hri_chart_y(c, y);
    hri_svg_put(s,
                "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" "
                "stroke-dasharray=\"5 4\"/>\n",
                c->left, at, c->right, at, color);
    hri_svg_label(s, c->right - 6, at - 5, 12, color, "end", name);
}

void hri_chart_frame(hri_svg *s, const hri_chart *c) {
    hri_svg_put(s,
                "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
                "stroke=\"#333333\"/>\n",
                c->left, c->top, c->right - c->left, c->bottom - c->top);
}
