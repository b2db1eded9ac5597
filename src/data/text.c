/* The textual form of pipelines.
 *
 *   text   = stage { "|" stage }
 *   stage  = NAME [ ":" values | "(" values ")" ]
 *   values = value { "," value }            value = [OPTION "="] anything, or "{" text "}" (a pipeline inside)
 *
 * In the colon form only "|" ends the values, so a path may hold brackets; in both a backslash or "double quotes" take
 * what they cover as it is.  The values go to the stage's option table (base/options.h), the first one without a
 * name under the name of the stage's main option. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/alloc.h"
#include "base/nearest.h"
#include "data/pipeline.h"

enum { DEPTH_MAX = 8, INPUT_MAX = 64 };

typedef struct reader {
    hr_pipeline *pipeline;
    const char *text, *at;
    int depth;
} reader;

static hr_status parse_chain(reader *r, hri_stage *before, hri_stage **out);

static void skip_spaces(reader *r) {
    while (isspace((unsigned char)*r->at)) {
        r->at++;
    }
}

static const hri_stage_type *find_type(const char *name) {
    for (size_t i = 0; hri_stage_types[i]; i++) {
        if (strcmp(hri_stage_types[i]->name, name) == 0) {
            return hri_stage_types[i];
        }
    }
    return NULL;
}

/* A path in place of a source: what it may have meant, by what is there; NULL: nothing is. */
static const char *source_for(const char *path) {
    static const char *const sources[][2] = {
        {".csv", "csv"}, {".npy", "npy"}, {".txt", "text"}, {".tfrecord", "tfrecord"}};
    struct stat is;
    if (stat(path, &is) != 0) {
        return NULL;
    }
    if (S_ISDIR(is.st_mode)) {
        return "images";
    }
    const char *const end = strrchr(path, '.');
    for (size_t i = 0; end && i < sizeof sources / sizeof sources[0]; i++) {
        if (strcmp(end, sources[i][0]) == 0) {
            return sources[i][1];
        }
    }
    return NULL;
}

/* Of a text that does not begin with a source: says so where it begins with a path. */
static hr_status no_source(reader *r, hr_status otherwise) {
    char path[1024];
    const size_t length = strcspn(r->text, ",|");
    if (length >= sizeof path) {
        return otherwise;
    }
    memcpy(path, r->text, length);
    path[length] = '\0';
    while (path[0] && isspace((unsigned char)path[strlen(path) - 1])) {
        path[strlen(path) - 1] = '\0';
    }
    const char *const source = source_for(path);
    return !source ? otherwise
                   : hri_pipeline_fail(r->pipeline, HR_E_INVALID,
                                       "\"%.200s\" is a path without the name of a source; did you "
                                       "mean %s:%.200s?",
                                       path, source, path);
}

static hr_status unknown_stage(reader *r, const char *name) {
    const char *names[128];
    size_t count = 0;
    for (size_t i = 0; hri_stage_types[i] && count < 128; i++) {
        names[count++] = hri_stage_types[i]->name;
    }
    const char *near = hri_nearest(name, names, count, sizeof names[0]);
    return hri_pipeline_fail(r->pipeline, HR_E_INVALID, "unknown stage \"%s\"%s%s%s", name,
                             near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

static hr_status wrong(reader *r, const char *what) {
    return hri_pipeline_fail(r->pipeline, HR_E_INVALID, "%s at column %d of \"%.200s\"", what,
                             (int)(r->at - r->text) + 1, r->text);
}

/* The values of a stage while they are read. */
typedef struct values {
    char text[4096]; /* for hri_options_set_text */
    size_t length;
    hri_stage *inputs[INPUT_MAX];
    uint32_t input_count;
    bool any;
} values;

static bool append(values *v, char c) {
    if (v->length + 1 >= sizeof v->text) {
        return false;
    }
    v->text[v->length++] = c;
    v->text[v->length] = 0;
    return true;
}

static bool append_text(values *v, const char *text) {
    while (*text) {
        if (!append(v, *text++)) {
            return false;
        }
    }
    return true;
}

/* Does the value that starts here have an option's name and "=" in front? */
static bool is_named(const hri_stage_type *type, const char *at) {
    for (const hri_field *f = type->fields; f && f->name; f++) {
        const size_t n = strlen(f->name);
        if (strncmp(at, f->name, n) != 0) {
            continue;
        }
        const char *after = at + n;
        while (*after == ' ') {
            after++;
        }
        if (*after == '=' || (f->type == HRI_FIELD_BOOL && (*after == ',' || *after == ')'))) {
            return true;
        }
    }
    return false;
}

/* A piece up to "," or the end of the values; quotes become backslashes, spaces around it go. */
static hr_status parse_piece(reader *r, values *v, bool brackets) {
    skip_spaces(r);
    int depth = 0;
    size_t kept = v->length;
    bool good = true, quoted = false;
    for (; good && *r->at; r->at++) {
        const char c = *r->at;
        if (quoted) {
            if (c == '"') {
                quoted = false;
                continue;
            }
            good = append(v, '\\') && append(v, c);
            kept = v->length;
            continue;
        }
        if (c == '"') {
            quoted = true;
            continue;
        }
        if (c == '\\' && r->at[1]) {
            good = append(v, c) && append(v, *++r->at);
            kept = v->length;
            continue;
        }
        if (c == ',' && depth == 0) {
            break;
        }
        if (brackets && c == ')' && depth == 0) {
            break;
        }
        if (!brackets && (c == '|' || (c == '}' && r->depth > 1))) {
            break;
        }
        depth += brackets && c == '(';
        depth -= brackets && c == ')';
        good = append(v, c);
        kept = isspace((unsigned char)c) ? kept : v->length;
    }
    v->length = kept;
    v->text[kept] = 0;
    if (quoted) {
        return wrong(r, "missing quotation mark");
    }
    return good ? HR_OK : wrong(r, "options are too long");
}

static hr_status parse_inner(reader *r, values *v) {
    if (v->input_count == INPUT_MAX) {
        return wrong(r, "too many pipelines inside one stage");
    }
    r->at++; /* { */
    hri_stage *inner = NULL;
    const hr_status status = parse_chain(r, NULL, &inner);
    if (status != HR_OK) {
        return status;
    }
    if (*r->at != '}') {
        return wrong(r, "missing closing brace");
    }
    r->at++;
    v->inputs[v->input_count++] = inner;
    return HR_OK;
}

static hr_status parse_values(reader *r, const hri_stage_type *type, bool brackets, values *v) {
    bool main_done = false;
    for (;;) {
        skip_spaces(r);
        if (brackets && *r->at == ')') {
            break;
        }
        hr_status status;
        if (*r->at == '{') {
            status = parse_inner(r, v);
        } else {
            bool good = !v->any || append(v, ',');
            if (good && !main_done && !is_named(type, r->at)) {
                if (!type->main) {
                    return wrong(r, "the options of this stage need names");
                }
                good = append_text(v, type->main) && append(v, '=');
            }
            main_done = true;
            v->any = true;
            status = good ? parse_piece(r, v, brackets) : wrong(r, "options are too long");
        }
        if (status != HR_OK) {
            return status;
        }
        skip_spaces(r);
        if (*r->at != ',') {
            break;
        }
        r->at++;
    }
    if (brackets) {
        if (*r->at != ')') {
            return wrong(r, "missing closing parenthesis");
        }
        r->at++;
    }
    return HR_OK;
}

static hr_status check_inputs(reader *r, const hri_stage_type *type, const hri_stage *before,
                              const values *v) {
    if (type->inputs == UINT32_MAX) {
        if (v->input_count + (before != NULL) < 1) {
            return hri_pipeline_fail(r->pipeline, HR_E_INVALID,
                                     "%s needs pipelines in braces: %s({...},{...})", type->name,
                                     type->name);
        }
        return HR_OK;
    }
    if (v->input_count) {
        return hri_pipeline_fail(r->pipeline, HR_E_INVALID, "%s does not take pipelines in braces",
                                 type->name);
    }
    if (type->inputs == 0 && before) {
        return hri_pipeline_fail(r->pipeline, HR_E_INVALID, "%s is a source and must come first",
                                 type->name);
    }
    if (type->inputs == 1 && !before) {
        return hri_pipeline_fail(r->pipeline, HR_E_INVALID,
                                 "%s is not a source; a source must come before it", type->name);
    }
    return HR_OK;
}

static hr_status parse_stage(reader *r, hri_stage *before, hri_stage **out) {
    skip_spaces(r);
    char name[HR_FIELD_NAME_SIZE];
    size_t n = 0;
    while (isalnum((unsigned char)*r->at) || *r->at == '_' || *r->at == '-') {
        if (n + 1 == sizeof name) {
            return wrong(r, "not a stage name");
        }
        name[n++] = *r->at++;
    }
    name[n] = 0;
    const hri_stage_type *type = n ? find_type(name) : NULL;
    if (!type) {
        const hr_status status = n ? unknown_stage(r, name) : wrong(r, "missing stage name");
        return before || r->depth > 1 ? status : no_source(r, status);
    }
    skip_spaces(r);
    values *v = hri_calloc(1, sizeof *v);
    if (!v) {
        return HR_E_NOMEM_HOST;
    }
    hr_status status = HR_OK;
    if (*r->at == ':' || *r->at == '(') {
        const bool brackets = *r->at++ == '(';
        status = parse_values(r, type, brackets, v);
    }
    if (status == HR_OK) {
        status = check_inputs(r, type, before, v);
    }
    if (status == HR_OK && before) {
        memmove(v->inputs + 1, v->inputs, (INPUT_MAX - 1) * sizeof v->inputs[0]);
        v->inputs[0] = before;
        v->input_count++;
    }
    if (status == HR_OK) {
        status = hri_pipeline_append(r->pipeline, type, v->text, v->inputs, v->input_count, out);
    }
    hri_free(v);
    return status;
}

static hr_status parse_chain(reader *r, hri_stage *before, hri_stage **out) {
    if (r->depth++ == DEPTH_MAX) {
        return wrong(r, "braces are nested too deeply");
    }
    hri_stage *last = before;
    for (;;) {
        hri_stage *s = NULL;
        const hr_status status = parse_stage(r, last, &s);
        if (status != HR_OK) {
            return status;
        }
        last = s;
        skip_spaces(r);
        if (*r->at != '|') {
            break;
        }
        r->at++;
    }
    r->depth--;
    *out = last;
    return HR_OK;
}

hr_status hr_pipeline_add(hr_pipeline *p, const char *text) {
    if (p->built) {
        return hri_pipeline_fail(p, HR_E_BUSY,
                                 "the pipeline is already built; no more stages can be added");
    }
    reader r = {.pipeline = p, .text = text, .at = text};
    const uint32_t count = p->stage_count;
    hri_stage *last = NULL;
    hr_status status = parse_chain(&r, p->last, &last);
    if (status == HR_OK && *r.at) {
        status = wrong(&r, "missing \"|\"");
    }
    if (status != HR_OK) {
        hri_pipeline_cut(p, count);
        return status;
    }
    p->last = last;
    return HR_OK;
}
