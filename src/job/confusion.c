/* The confusion matrix as a file: CSV, or a picture; see headroom/predictor.h. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/svg.h"
#include "base/text.h"
#include "base/visible.h"
#include "job/infer.h"

enum { PICTURE_MOST = 64, CELL = 34, MARGIN = 130 };

static const char *name_of(const hr_predictor *p, uint64_t c, char *buf, size_t size) {
    const char *name = hr_predictor_class_name(p, c);
    if (name) {
        return hri_visible(name, buf, size);
    }
    snprintf(buf, size, "%llu", (unsigned long long)c);
    return buf;
}

/* A name as a cell of RFC 4180. */
static void add_cell(hri_text *t, const char *name) {
    const int quoted = strpbrk(name, ",\"") != NULL;
    hri_text_add(t, "%s", quoted ? "\"" : "");
    for (; *name; name++) {
        hri_text_add(t, "%s%c", *name == '"' ? "\"" : "", *name);
    }
    hri_text_add(t, "%s", quoted ? "\"" : "");
}

static hr_status write_csv(const hr_predictor *p, const char *path, hri_prose *why) {
    hri_text t = {0};
    char name[1024];
    const uint64_t n = (uint64_t)p->classes;
    hri_text_add(&t, "label");
    for (uint64_t c = 0; c < n; c++) {
        hri_text_add(&t, ",");
        add_cell(&t, name_of(p, c, name, sizeof name));
    }
    for (uint64_t r = 0; r < n; r++) {
        hri_text_add(&t, "\n");
        add_cell(&t, name_of(p, r, name, sizeof name));
        for (uint64_t c = 0; c < n; c++) {
            hri_text_add(&t, ",%llu", (unsigned long long)hr_predictor_confusion(p, r, c));
        }
    }
    hri_text_add(&t, "\n");
    hr_status status = hri_text_status(&t);
    if (status == HR_OK) {
        status = hri_file_write(path, hri_text_get(&t), t.used, why);
    }
    hri_text_deinit(&t);
    return status;
}

/* One cell: the darker, the larger its share of the row. */
static void draw_cell(hri_svg *s, const hr_predictor *p, uint64_t r, uint64_t c, uint64_t all) {
    const uint64_t count = hr_predictor_confusion(p, r, c);
    const double share = all ? (double)count / (double)all : 0;
    const double x = MARGIN + (double)c * CELL, y = MARGIN + (double)r * CELL;
    char text[32];
    hri_svg_put(
        s, "<rect x=\"%.0f\" y=\"%.0f\" width=\"%d\" height=\"%d\" fill=\"rgb(%.0f,%.0f,%.0f)\"/>",
        x, y, CELL - 1, CELL - 1, 245 - 214 * share, 247 - 152 * share, 250 - 82 * share);
    if (count) {
        snprintf(text, sizeof text, "%llu", (unsigned long long)count);
        hri_svg_label(s, x + CELL / 2.0, y + CELL / 2.0 + 4, 10,
                      share > 0.5 ? "#ffffff" : "#222222", "middle", text);
    }
}

static hr_status write_svg(const hr_predictor *p, const char *path, hri_prose *why) {
    const uint64_t n = (uint64_t)p->classes;
    char name[1024], *text;
    hri_svg s;
    if (n > PICTURE_MOST) {
        return hri_prose_set(why, HR_E_RANGE, "%llu classes are too many for a chart; use a .csv",
                             (unsigned long long)n);
    }
    hri_svg_begin(&s, MARGIN + (int)n * CELL + 20, MARGIN + (int)n * CELL + 20);
    hri_svg_label(&s, 10, 20, 12, "#222222", "start", "rows: labels, columns: predictions");
    for (uint64_t r = 0; r < n; r++) {
        uint64_t all = 0;
        name_of(p, r, name, sizeof name);
        name[name[0] ? strnlen(name, 18) : 0] = '\0';
        hri_svg_label(&s, MARGIN - 6, MARGIN + (double)r * CELL + CELL / 2.0 + 4, 11, "#222222",
                      "end", name);
        hri_svg_put(&s, "<g transform=\"rotate(-50 %d %d)\">", MARGIN + (int)r * CELL + CELL / 2,
                    MARGIN - 6);
        hri_svg_label(&s, MARGIN + (double)r * CELL + CELL / 2.0, MARGIN - 6, 11, "#222222",
                      "start", name);
        hri_svg_put(&s, "</g>");
        for (uint64_t c = 0; c < n; c++) {
            all += hr_predictor_confusion(p, r, c);
        }
        for (uint64_t c = 0; c < n; c++) {
            draw_cell(&s, p, r, c, all);
        }
    }
    hr_status status = hri_svg_end(&s, &text);
    if (status == HR_OK) {
        status = hri_file_write(path, text, strlen(text), why);
        hri_free(text);
    }
    return status;
}

hr_status hr_predictor_save_confusion(hr_predictor *p, const char *path, hr_error *error) {
    hri_prose prose = {""};
    hri_why why = {0};
    const size_t length = strlen(path);
    const int picture = length > 4 && !strcmp(path + length - 4, ".svg");
    hr_status status = HR_OK;
    if (!p->classes || p->target != HRI_TARGET_CLASSES) {
        status =
            hri_prose_set(&prose, HR_E_NOT_FOUND,
                          "%s does not tell up to %d classes apart: it has no confusion matrix",
                          p->of.checkpoint.about.model, HRI_METRICS_CLASSES);
    } else {
        status = picture ? write_svg(p, path, &prose) : write_csv(p, path, &prose);
    }
    if (status != HR_OK) {
        (void)hri_why_prose(&why, hri_cause_of(status), status, NULL, &prose);
        hri_why_give(&why, status, error);
    }
    return status;
}
