/* Counting labels and reading weights; see class_weights.h. */
#include "loop/class_weights.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/number.h"
#include "data/element.h"
#include "loop/survey.h"

enum { LINE_MOST = 1200 };

/* ---- from the data ---- */

typedef struct counting {
    const hri_source *source;
    int64_t classes;
    uint64_t *counts;
    hri_prose *why;
} counting;

static hr_status count_sample(void *user, hr_element *e) {
    const counting *c = user;
    const hri_source *s = c->source;
    const hr_field *f = hr_element_find(e, s->label.name);
    if (!f) {
        return hri_prose_set(c->why, HR_E_NOT_FOUND, "%s: a sample has no field %s", s->text,
                             s->label.name);
    }
    const uint64_t n = f->bytes / hr_type_bytes(f->meta.type);
    for (uint64_t i = 0; i < n; i++) {
        int64_t id;
        if (!hri_field_whole(f, i, &id)) {
            return hri_prose_set(c->why, HR_E_INVALID, "%s: label %g is not a class (an integer)",
                                 s->text, hri_field_number(f, i));
        }
        if (id >= c->classes) {
            return hri_prose_set(c->why, HR_E_INVALID,
                                 "%s: label %lld is out of range: the model has %lld classes",
                                 s->text, (long long)id, (long long)c->classes);
        }
        if (id >= 0) {
            c->counts[id]++;
        }
    }
    return HR_OK;
}

static hr_status weigh(const hri_source *s, int64_t classes, const uint64_t *counts, float *out,
                       hri_prose *why) {
    uint64_t all = 0;
    for (int64_t c = 0; c < classes; c++) {
        all += counts[c];
    }
    for (int64_t c = 0; c < classes; c++) {
        if (!counts[c]) {
            const char *name = s->classes && (size_t)c < s->class_count ? s->classes[c] : "";
            return hri_prose_set(why, HR_E_INVALID,
                                 "%s: class %lld%s%s%s has no training samples, so it has no "
                                 "weight; name weights in a file, or leave the class out",
                                 s->text, (long long)c, *name ? " (" : "", name, *name ? ")" : "");
        }
        out[c] = (float)((double)all / ((double)classes * (double)counts[c]));
    }
    return HR_OK;
}

hr_status hri_class_weights_count(const char *text, const hri_source *s, int64_t classes,
                                  float *out, hri_prose *why) {
    if (!s->label.name[0]) {
        return hri_prose_set(why, HR_E_INVALID, "%s has no labels to count", s->text);
    }
    counting c = {s, classes, hri_calloc((size_t)classes, sizeof *c.counts), why};
    if (!c.counts) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for weights");
    }
    hr_status status = hri_survey_each(text, s->table, count_sample, &c, why);
    if (status == HR_OK) {
        status = weigh(s, classes, c.counts, out, why);
    }
    hri_free(c.counts);
    return status;
}

/* ---- from a file ---- */

static int64_t class_of(const hri_source *s, const char *name, int64_t classes) {
    for (size_t c = 0; s->classes && c < s->class_count && (int64_t)c < classes; c++) {
        if (!strcmp(s->classes[c], name)) {
            return (int64_t)c;
        }
    }
    return -1;
}

/* "0.5" or "rose,0.5"; *next is the class of a line without a name. */
static hr_status read_line(const char *path, uint64_t number, char *line, const hri_source *s,
                           int64_t classes, int64_t *next, float *out, hri_prose *why) {
    char *comma = strrchr(line, ','), *end;
    const char *weight = comma ? comma + 1 : line;
    int64_t c = *next;
    if (comma) {
        *comma = '\0';
        c = class_of(s, line, classes);
    }
    errno = 0;
    const double x = hri_strtod(weight, &end);
    if (end == weight || *end || errno || !(x >= 0) || x > 1e6) {
        return hri_prose_set(why, HR_E_FORMAT,
                             "%s, line %llu: \"%.40s\" is not a weight (0 to 1e6)", path,
                             (unsigned long long)number, weight);
    }
    if (c < 0 || c >= classes || (comma && !isnan(out[c]))) {
        return comma ? hri_prose_set(why, HR_E_FORMAT, "%s, line %llu: class \"%.60s\" is %s", path,
                                     (unsigned long long)number, line,
                                     c < 0 ? "not in the data" : "named twice")
                     : hri_prose_set(why, HR_E_FORMAT,
                                     "%s, line %llu: the model has only %lld classes", path,
                                     (unsigned long long)number, (long long)classes);
    }
    out[c] = (float)x;
    *next += !comma;
    return HR_OK;
}

static hr_status read_lines(FILE *file, const char *path, const hri_source *s, int64_t classes,
                            float *out, hri_prose *why) {
    char line[LINE_MOST];
    int64_t next = 0;
    hr_status status = HR_OK;
    for (uint64_t n = 1; status == HR_OK && fgets(line, sizeof line, file); n++) {
        const size_t length = strcspn(line, "\r\n");
        if (!line[length] && length + 1 == sizeof line) {
            return hri_prose_set(why, HR_E_FORMAT, "%s, line %llu: the line is too long", path,
                                 (unsigned long long)n);
        }
        line[length] = '\0';
        if (length) {
            status = read_line(path, n, line, s, classes, &next, out, why);
        }
    }
    for (int64_t c = 0; status == HR_OK && c < classes; c++) {
        if (isnan(out[c])) {
            const char *name = s->classes && (size_t)c < s->class_count ? s->classes[c] : "";
            status = hri_prose_set(why, HR_E_FORMAT, "%s has no weight for class %lld%s%s%s", path,
                                   (long long)c, *name ? " (" : "", name, *name ? ")" : "");
        }
    }
    return status;
}

hr_status hri_class_weights_read(const char *path, const hri_source *s, int64_t classes, float *out,
                                 hri_prose *why) {
    FILE *file = fopen(path, "r");
    if (!file) {
        return hri_prose_set(why, HR_E_NOT_FOUND, "%s: %s", path, strerror(errno));
    }
    for (int64_t c = 0; c < classes; c++) {
        out[c] = NAN;
    }
    const hr_status status = read_lines(file, path, s, classes, out, why);
    fclose(file);
    return status;
}
