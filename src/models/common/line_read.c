/* Reading a line into stages; see line.h. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/number.h"
#include "models/common/line.h"

enum { MOST_STAGES = 2048, MOST_DEPTH = 16, MOST_TEXT = 64 << 10 };

typedef struct reader {
    const char *text, *at;
    hri_line *line;
    double classes; /* 0: not known */
    int depth;
    hri_prose *why;
} reader;

int hri_line_is(const char *text) {
    const char *at = text + strspn(text, " \t\n");
    return !strncmp(at, "net:", 4);
}

static const char *body_of(const char *text) {
    const char *at = text + strspn(text, " \t\n") + 4;
    return at + strspn(at, " \t\n");
}

int hri_line_lacks_input(const char *text) {
    return hri_line_is(text) && strncmp(body_of(text), "input", 5) != 0;
}

static void skip(reader *r) {
    r->at += strspn(r->at, " \t\n\r");
}

static size_t place(const reader *r, const char *at) {
    return (size_t)(at - r->text) + 1;
}

/* A few of the words at a place, for messages. */
static void copy_near(char near[28], const char *at) {
    size_t n = 0;
    while (at[n] && n < 24 && isprint((unsigned char)at[n])) {
        near[n] = at[n];
        n++;
    }
    near[n] = '\0';
}

static hr_status wrong(const reader *r, const char *at, const char *text) {
    char near[28];
    copy_near(near, at);
    return hri_prose_set(r->why, HR_E_INVALID, "character %zu, at \"%s\": %s", place(r, at), near,
                         text);
}

static size_t word_length(const char *at) {
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_') {
        n++;
    }
    return n;
}

/* Words of other frameworks, in lower case. */
static const struct {
    const char *theirs, *ours;
} others[] = {
    {"linear", "; it is called dense here"},
    {"fc", "; it is called dense here"},
    {"conv2d", "; it is called conv here"},
    {"bn", "; it is called batch_norm here"},
    {"swish", "; it is called silu here"},
    {"softmax", ": it is part of the loss, so that the network ends with the layer before it"},
    {"log_softmax", ": it is part of the loss, so that the network ends with the layer before it"},
};

/* What goes on behind "unknown layer WORD". */
static void advise(const char *word, const char *const *names, size_t count, char *out,
                   size_t size) {
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (!strcasecmp(others[i].theirs, word)) {
            snprintf(out, size, "%s", others[i].ours);
            return;
        }
    }
    const char *like = hri_nearest(word, names, count, sizeof names[0]);
    size_t used = (size_t)snprintf(out, size, "; %s", like ? "did you mean " : "there are ");
    if (like) {
        snprintf(out + used, size - used, "%s?", like);
        return;
    }
    for (size_t i = 1; i < count && used + 40 < size; i++) { /* behind input */
        used += (size_t)snprintf(out + used, size - used, "%s%s", i > 1 ? ", " : "", names[i]);
    }
}

static hr_status find_layer(reader *r, const char *at, size_t n, const hri_line_layer **out) {
    const char *names[96];
    size_t count = 0;
    char word[40], advice[400];
    for (const hri_line_layer *l = hri_line_layers; l->name && count < 96; l++) {
        if (strlen(l->name) == n && !memcmp(l->name, at, n)) {
            *out = l;
            return HR_OK;
        }
        names[count++] = l->name;
    }
    if (!n) {
        return wrong(r, at, "expected the name of a layer");
    }
    snprintf(word, sizeof word, "%.*s", (int)(n < 36 ? n : 36), at);
    advise(word, names, count, advice, sizeof advice);
    char text[460];
    snprintf(text, sizeof text, "unknown layer %s%s", word, advice);
    return wrong(r, at, text);
}

static hri_line_stage *add_stage(reader *r) {
    if (r->line->count == MOST_STAGES) {
        return NULL;
    }
    return &r->line->all[r->line->count++];
}

/* ---- arguments ---- */

static hr_status read_number(reader *r, const hri_line_arg *arg, double *out) {
    char *end;
    const char *at = r->at;
    if (!strncmp(at, "classes", 7) && word_length(at) == 7) {
        r->at += 7;
        *out = r->classes;
        return r->classes > 0 ? HR_OK
                              : wrong(r, at,
                                      "the number of classes is unknown: write it, or give it as "
                                      "input(..., classes=10)");
    }
    const double x = hri_strtod(at, &end);
    if (end == at || isnan(x)) {
        return wrong(r, at, "expected a number");
    }
    r->at = end;
    char text[160];
    if (!(x >= arg->least && x <= arg->most) || (!arg->real && x != floor(x))) {
        hri_snprintf(text, sizeof text, "%s must be %s from %.10g to %.10g", arg->name,
                     arg->real ? "a number" : "an integer", arg->least, arg->most);
        return wrong(r, at, text);
    }
    *out = x;
    return HR_OK;
}

/* "28x28x1", "64x3", "784" */
static hr_status read_dims(reader *r, hri_line_stage *s) {
    const char *at = r->at;
    do {
        char *end;
        r->at += s->rank > 0; /* the x */
        const long n = isdigit((unsigned char)*r->at) ? strtol(r->at, &end, 10) : 0;
        if (s->rank == HRI_LINE_DIMS || n < 1 || n > 1 << 24) {
            return wrong(r, at,
                         "expected the size of a sample: 28x28x1 (an image), 64x3 (a sequence), or "
                         "one number");
        }
        s->dims[s->rank++] = n;
        r->at = end;
    } while (*r->at == 'x');
    return HR_OK;
}

static hr_status name_arg(reader *r, const hri_line_layer *l, const char *at, size_t n, int *out) {
    char text[200];
    size_t used = 0;
    for (int i = 0; i < HRI_LINE_ARGS && l->args[i].name; i++) {
        if (strlen(l->args[i].name) == n && !memcmp(l->args[i].name, at, n)) {
            *out = i;
            return HR_OK;
        }
    }
    used = (size_t)snprintf(text, sizeof text, "%s takes%s", l->name,
                            l->args[0].name ? "" : " no arguments");
    for (int i = 0; i < HRI_LINE_ARGS && l->args[i].name && used < sizeof text; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s", i ? "," : "",
                                 l->args[i].name);
    }
    return wrong(r, at, text);
}

static hr_status read_chain(reader *r, hri_line_stage **out);

/* One argument: dims, name=number, a number, or, at the end, layers. */
static hr_status read_arg(reader *r, hri_line_stage *s, int *next, int *done) {
    const hri_line_layer *l = s->layer;
    const char *at = r->at;
    const size_t n = word_length(at);
    const char *after = at + n + strspn(at + n, " \t");
    const int named = n > 0 && *after == '=' && !isdigit((unsigned char)*at);
    const int counts = isdigit((unsigned char)*at) || *at == '-' || *at == '.' || *at == '+' ||
                       (n == 7 && !strncmp(at, "classes", 7));
    if (l->has_dims && !s->rank && !named) {
        return read_dims(r, s);
    }
    if (l->has_inner && !named && !counts) {
        *done = 1;
        return s->inner ? wrong(r, at, "expected )") : read_chain(r, &s->inner);
    }
    int i = *next;
    hr_status status = HR_OK;
    if (named) {
        status = name_arg(r, l, at, n, &i);
        r->at = after + 1;
        skip(r);
    } else if (i >= HRI_LINE_ARGS || !l->args[i].name) {
        return wrong(r, at, "one argument too many");
    }
    *next = i + 1;
    return status == HR_OK ? read_number(r, &l->args[i], &s->arg[i]) : status;
}

static hr_status read_args(reader *r, hri_line_stage *s) {
    int next = 0, done = 0;
    hr_status status = HR_OK;
    r->at++;
    skip(r);
    while (status == HR_OK && *r->at != ')') {
        if (done) {
            return wrong(r, r->at, "expected )");
        }
        status = read_arg(r, s, &next, &done);
        skip(r);
        if (status == HR_OK && *r->at == ',') {
            r->at++;
            skip(r);
        } else if (status == HR_OK && *r->at != ')') {
            return wrong(r, r->at, "expected , or )");
        }
    }
    r->at += status == HR_OK;
    return status;
}

static hr_status check_stage(const reader *r, const hri_line_stage *s) {
    const char *at = r->text + s->at - 1;
    char text[120];
    for (int i = 0; i < HRI_LINE_ARGS && s->layer->args[i].name; i++) {
        if (isnan(s->arg[i])) {
            snprintf(text, sizeof text, "%s is missing: %s(%s)", s->layer->args[i].name,
                     s->layer->name, s->layer->args[i].name);
            return wrong(r, at, text);
        }
    }
    if (s->layer->has_inner && !s->inner) {
        return wrong(r, at, "there are no layers in its brackets");
    }
    return s->layer->has_dims && !s->rank ? wrong(r, at, "its size is missing: input(28x28x1)")
                                          : HR_OK;
}

/* ---- layers ---- */

static hr_status read_stage(reader *r, hri_line_stage **out) {
    const hri_line_layer *layer = NULL;
    const char *at = r->at;
    const size_t n = word_length(at);
    hr_status status = find_layer(r, at, n, &layer);
    hri_line_stage *s = status == HR_OK ? add_stage(r) : NULL;
    if (!s) {
        return status == HR_OK ? wrong(r, at, "too many layers") : status;
    }
    *s = (hri_line_stage){.layer = layer, .at = place(r, at)};
    copy_near(s->near, at);
    for (int i = 0; i < HRI_LINE_ARGS; i++) {
        s->arg[i] = layer->args[i].name ? layer->args[i].open : 0.0;
    }
    r->at += n;
    skip(r);
    if (*r->at == '(') {
        status = read_args(r, s);
    }
    *out = s;
    return status == HR_OK ? check_stage(r, s) : status;
}

static hr_status read_chain(reader *r, hri_line_stage **out) {
    hri_line_stage **to = out;
    hr_status status = HR_OK;
    if (++r->depth > MOST_DEPTH) {
        return wrong(r, r->at, "brackets are nested too deeply");
    }
    for (;;) {
        skip(r);
        const char *at = r->at;
        hri_line_stage *s = NULL;
        status = read_stage(r, &s);
        if (status == HR_OK && s->layer->has_dims && (r->depth > 1 || to != out)) {
            status = wrong(r, at, "input can only come first");
        }
        if (status != HR_OK) {
            break;
        }
        r->classes = s->layer->has_dims && s->arg[0] > 0 ? s->arg[0] : r->classes;
        *to = s;
        to = &s->next;
        skip(r);
        if (*r->at != '|') {
            break;
        }
        r->at++;
    }
    r->depth--;
    return status;
}

hr_status hri_line_read(const char *text, hri_line **out, hri_prose *why) {
    if (strlen(text) > MOST_TEXT) {
        return hri_prose_set(why, HR_E_RANGE, "the network is longer than %d bytes", MOST_TEXT);
    }
    hri_line *line = hri_calloc(1, sizeof *line);
    if (line) {
        line->all = hri_calloc(MOST_STAGES, sizeof *line->all);
    }
    if (!line || !line->all) {
        hri_line_free(line);
        return HR_E_NOMEM_HOST;
    }
    reader r = {.text = text, .at = body_of(text), .line = line, .why = why};
    hr_status status = HR_OK;
    if (hri_line_lacks_input(text)) {
        status = wrong(&r, r.at,
                       "the input size is unknown: start with input(28x28x1), or use data whose "
                       "images all have the same size");
    }
    status = status == HR_OK ? read_chain(&r, &line->first) : status;
    if (status == HR_OK && *r.at) {
        status = wrong(&r, r.at, "expected | or the end");
    }
    if (status == HR_OK && !line->first->next) {
        status = wrong(&r, r.at, "the network has no layers");
    }
    if (status != HR_OK) {
        hri_line_free(line);
        return status;
    }
    *out = line;
    return HR_OK;
}

void hri_line_free(hri_line *line) {
    if (line) {
        hri_free(line->all);
    }
    hri_free(line);
}
