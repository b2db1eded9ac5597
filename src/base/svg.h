/* Pictures as SVG: text that grows, and charts on it.
 *
 *   hri_svg s;
 *   hri_svg_begin(&s, 760, 440);
 *   const hri_chart c = {.left = 76, .right = 732, .top = 64, .bottom = 376, .high_x = 10, .high_y = 1};
 *   hri_chart_axes(&s, &c);
 *   hri_chart_line(&s, &c, xs, ys, count, "#1f5fa8", 2);
 *   hri_chart_frame(&s, &c);
 *   status = hri_svg_end(&s, &text);            the first failure of any call above
 *
 * No script, no style sheet, no font of its own; readable on white and when printed in grey.  After a failure (there
 * is only one: no memory) all calls do nothing.  Threads: one at a time. */
#ifndef HRI_BASE_SVG_H
#define HRI_BASE_SVG_H

#include <stddef.h>
#include <headroom/status.h>

typedef struct hri_svg {
    char *text;
    size_t used, room;
    hr_status status;
} hri_svg;

/* Opens a picture with a white ground. */
void hri_svg_begin(hri_svg *s, int width, int height);
/* Closes it.  The text has a NUL; hri_free() it.  On failure everything is freed.  s is spent in any case. */
HR_MUST_CHECK hr_status hri_svg_end(hri_svg *s, char **out);

void hri_svg_put(hri_svg *s, const char *format, ...) HR_PRINTF(2, 3);
/* `text` with what means something in XML escaped; control characters are shown as '?'. */
void hri_svg_escape(hri_svg *s, const char *text);
/* anchor: "start", "middle" or "end". */
void hri_svg_label(hri_svg *s, double x, double y, int size, const char *color, const char *anchor,
                   const char *text);

/* A frame in the picture and the numbers that its edges stand for.  high must be above low. */
typedef struct hri_chart {
    double left, right, top, bottom; /* in the picture; top is above bottom, so smaller */
    double low_x, high_x, low_y, high_y;
    double unit_x, unit_y;       /* marks are written in these; 0: 1 */
    const char *x_name, *y_name; /* NULL: none */
} hri_chart;

double hri_chart_x(const hri_chart *c, double x);
double hri_chart_y(const hri_chart *c, double y);
/* Grid, numbers at round marks, the names of the axes. */
void hri_chart_axes(hri_svg *s, const hri_chart *c);
/* One line through the points; a point that is not finite, or outside, leaves a gap. */
void hri_chart_line(hri_svg *s, const hri_chart *c, const double *x, const double *y, size_t count,
                    const char *color, double width);
/* A dashed line with its name at a number that means something; outside of the frame nothing is drawn.  Names of
 * row 0, 1, ... stand below one another (x), and above the line (y). */
void hri_chart_mark_x(hri_svg *s, const hri_chart *c, double x, const char *name, const char *color,
                      int row);
void hri_chart_mark_y(hri_svg *s, const hri_chart *c, double y, const char *name,
                      const char *color);
/* Last, so that it lies over the lines. */
void hri_chart_frame(hri_svg *s, const hri_chart *c);

#endif
