/* Reading and writing model files; see file.h. */
#include "models/common/file.h"

#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/hash.h"
#include "graph/text.h"
#include "passes/common/pass.h"

enum { DERIVED_MAX = 8 };

/* One form: where its lines are, and the number of the first. */
typedef struct form {
    const char *at;
    size_t bytes, line;
} form;

struct hri_model_file {
    char *text;
    form forms[2]; /* evaluation, training */
    char *strings[DERIVED_MAX + 1];
    size_t string_count;
    const char *derived[DERIVED_MAX + 1];
    const hr_custom **customs;
    size_t custom_count;
    int customs_named; /* in the head */
};

static const char first_line[] = "headroom model 1";
static const char *const form_names[] = {"form eval", "form train"};

int hri_model_file_is(const char *text) {
    const size_t n = strlen(text);
    const char *colon = strchr(text, ':'), *slash = strchr(text, '/');
    return (n > 3 && !strcmp(text + n - 3, ".hr")) || (slash && (!colon || slash < colon));
}

/* ---- writing ---- */

static hr_status add_text(hri_chars *out, const char *text) {
    return hri_chars_append(out, text, strlen(text));
}

static hr_status write_graph(const hr_model *m, int64_t batch, int training, hri_chars *out,
                             hri_prose *why) {
    hr_graph *g;
    hr_status status = hr_graph_create(&g);
    if (status != HR_OK) {
        return status;
    }
    g->keep_scores = 1; /* what a step may still switch off, see hri_model_file_build */
    status = hr_model_build((void *)(uintptr_t)m, g, batch, training);
    if (status != HR_OK) {
        hri_prose_set(why, status, "%s",
                      *g->error.message ? g->error.message : "it cannot be built");
    } else {
        status = hri_graph_text_write(g, out, why);
    }
    hr_graph_destroy(g);
    return status;
}

/* The form in terms of N, from two batches; a third shows that it is true. */
static hr_status write_form(const hr_model *m, int training, hri_chars *out, hri_prose *why) {
    static const int64_t batches[] = {5, 11, 7};
    hri_chars texts[3] = {{0}}, again = {0};
    const size_t begin = out->count;
    hr_status status = HR_OK;
    for (int i = 0; i < 3 && status == HR_OK; i++) {
        status = write_graph(m, batches[i], training, &texts[i], why);
    }
    if (status == HR_OK) {
        status = hri_graph_text_join(&texts[0], batches[0], &texts[1], batches[1], out, why);
    }
    hri_graph_text t;
    hri_graph_text_open(&t, out->items ? out->items + begin : NULL, out->count - begin);
    hr_status line = HR_OK;
    while (status == HR_OK && (line = hri_graph_text_next(&t, batches[2], why)) == HR_OK) {
        t.copy.items[t.copy.count - 1] = '\n'; /* in place of its NUL */
        status = hri_chars_append(&again, t.copy.items, t.copy.count);
    }
    status = status == HR_OK && line != HR_E_EOF ? line : status;
    if (status == HR_OK &&
        (again.count != texts[2].count || memcmp(again.items, texts[2].items, again.count) != 0)) {
        status =
            hri_prose_set(why, HR_E_UNSUPPORTED, "its sizes are not proportional to the batch");
    }
    hri_graph_text_close(&t);
    hri_chars_deinit(&again);
    for (int i = 0; i < 3; i++) {
        hri_chars_deinit(&texts[i]);
    }
    return status;
}

static hr_status write_string(hri_chars *out, const char *word, const char *text) {
    hr_status status = add_text(out, word);
    status = status == HR_OK ? hri_graph_text_quote(out, text) : status;
    return status == HR_OK ? add_text(out, "\n") : status;
}

static hr_status write_model(const hr_model *m, hri_chars *out, hri_prose *why) {
    char number[48];
    hr_status status = add_text(out, first_line);
    status = status == HR_OK ? write_string(out, "\nname ", m->name) : status;
    snprintf(number, sizeof number, "classes %lld\n", (long long)m->classes);
    status = status == HR_OK ? add_text(out, number) : status;
    if (status == HR_OK && m->prefix) {
        status = write_string(out, "prefix ", m->prefix);
    }
    for (const char *const *d = m->derived; d && *d && status == HR_OK; d++) {
        status = write_string(out, "derived ", *d);
    }
    for (int training = 1; training >= 0 && status == HR_OK; training--) {
        status = add_text(out, form_names[training]);
        status = status == HR_OK ? add_text(out, "\n") : status;
        status = status == HR_OK ? write_form(m, training, out, why) : status;
    }
    return status;
}

hr_status hri_model_file_print(const hr_model *m, char **out, size_t *out_bytes, hri_prose *why) {
    hri_chars text = {0};
    hr_status status = write_model(m, &text, why);
    if (status == HR_OK) {
        status = hri_chars_append(&text, "", 1);
    }
    if (status != HR_OK) {
        hri_chars_deinit(&text);
        return status;
    }
    *out = text.items;
    *out_bytes = text.count - 1;
    return HR_OK;
}

uint64_t hr_model_fingerprint(const hr_model *m) {
    char *text = NULL;
    size_t bytes;
    if (hri_model_file_print(m, &text, &bytes, NULL) != HR_OK) {
        return 0;
    }
    /* Its name is no matter: what follows from "classes" on is. */
    const char *from = strstr(text, "\nclasses ");
    const uint64_t print = hri_hash_string(from ? from : text);
    hri_free(text);
    return print;
}

hr_status hr_model_write(const hr_model *m, const char *path, hr_error *why) {
    hri_chars text = {0};
    hri_prose inner = {""}, prose = {""};
    hr_status status = write_model(m, &text, &inner);
    if (status == HR_OK) {
        status = hri_file_write(path, text.items, text.count, &prose);
    } else {
        hri_prose_set(&prose, status, "%s: %s", m->name,
                      *inner.text ? inner.text : hr_status_text(status));
    }
    hri_chars_deinit(&text);
    return status == HR_OK ? HR_OK : hri_model_fail(why, status, &prose);
}

/* ---- reading ---- */

static hr_status wrong(const hri_graph_text *t, const char *text, hri_prose *why) {
    return hri_prose_set(why, HR_E_FORMAT, "line %zu: %s", t->line, text);
}

static char *keep_string(hri_model_file *f, const char *text) {
    if (f->string_count > DERIVED_MAX) {
        return NULL;
    }
    char *copy = hri_strdup(text);
    if (copy) {
        f->strings[f->string_count++] = copy;
    }
    return copy;
}

/* A line of the head; 0 classes are allowed: labels that are not classes. */
static hr_status read_head(hri_graph_text *t, hr_model *m, size_t *derived, hri_prose *why) {
    hri_model_file *f = m->file;
    char *at = t->copy.items;
    int64_t number;
    const char *text;
    if (hri_graph_text_word(&at, "name ") && (text = hri_graph_text_string(&at)) && *text && !*at &&
        !m->name) {
        m->name = hri_strdup(text);
        return m->name ? HR_OK : HR_E_NOMEM_HOST;
    }
    at = t->copy.items;
    if (hri_graph_text_word(&at, "classes ") && hri_graph_text_integer(&at, &number) && !*at &&
        number >= 0 && number <= INT32_MAX) {
        m->classes = number;
        return HR_OK;
    }
    if (hri_graph_text_word(&at, "prefix ") && (text = hri_graph_text_string(&at)) && !*at &&
        !m->prefix) {
        m->prefix = keep_string(f, text);
        return m->prefix ? HR_OK : HR_E_NOMEM_HOST;
    }
    if (hri_graph_text_word(&at, "derived ") && (text = hri_graph_text_string(&at)) && *text &&
        !*at && *derived < DERIVED_MAX) {
        f->derived[*derived] = keep_string(f, text);
        return f->derived[(*derived)++] ? HR_OK : HR_E_NOMEM_HOST;
    }
    if (hri_graph_text_word(&at, "weights ") && (text = hri_graph_text_string(&at)) && *text &&
        !*at && !m->weights) {
        if (strchr(text, '/')) { /* a file names nothing but its neighbour */
            return wrong(t, "weights must be a file in the same directory, without \"/\"", why);
        }
        m->weights = hri_strdup(text);
        return m->weights ? HR_OK : HR_E_NOMEM_HOST;
    }
    if (hri_graph_text_word(&at, "custom ") && (text = hri_graph_text_string(&at)) && *text &&
        hri_graph_text_string(&at) && !*at) {
        f->customs_named = 1; /* what it is, is for whoever makes the op */
        return HR_OK;
    }
    return wrong(t, "expected name, classes, weights, prefix, derived, custom or form", why);
}

hr_status hri_model_file_parse(const char *bytes, size_t count, hr_model *m, hri_prose *why) {
    hri_model_file *f = hri_calloc(1, sizeof *f);
    size_t derived = 0;
    form *now = NULL;
    hri_graph_text t;
    if (!f) {
        return HR_E_NOMEM_HOST;
    }
    m->file = f;
    f->text = hri_malloc(count + 1);
    if (!f->text) {
        return HR_E_NOMEM_HOST;
    }
    memcpy(f->text, bytes, count);
    hri_graph_text_open(&t, f->text, count);
    hr_status status = hri_graph_text_next(&t, 1, why);
    if (status == HR_E_EOF || (status == HR_OK && strcmp(t.copy.items, first_line) != 0)) {
        status = hri_prose_set(why, HR_E_FORMAT, "not a model file: its first line is not \"%s\"",
                               first_line);
    }
    while (status == HR_OK && (status = hri_graph_text_next(&t, 1, why)) == HR_OK) {
        const int is_form = !strcmp(t.copy.items, form_names[1])   ? 1
                            : !strcmp(t.copy.items, form_names[0]) ? 0
                                                                   : -1;
        if (is_form >= 0 && !f->forms[is_form].at) {
            now = &f->forms[is_form];
            *now = (form){.at = t.at, .line = t.line};
        } else if (is_form >= 0 || (now && !hri_graph_text_is_graph(&t))) {
            status = wrong(&t, "expected a value, a result or another form", why);
        } else if (now) {
            now->bytes = (size_t)(t.at - now->at);
        } else {
            status = read_head(&t, m, &derived, why);
        }
    }
    hri_graph_text_close(&t);
    m->derived = derived ? f->derived : NULL;
    status = status == HR_E_EOF ? HR_OK : status;
    if (status == HR_OK && (!m->name || !f->forms[0].at || !f->forms[1].at)) {
        status = hri_prose_set(why, HR_E_FORMAT,
                               "a model file needs a name and two forms, train and eval");
    }
    return status;
}

/* The neighbour's name behind the file's directory. */
static hr_status place_weights(const char *path, hr_model *m) {
    const char *slash = strrchr(path, '/');
    const size_t folder = slash ? (size_t)(slash - path) + 1 : 0, n = strlen(m->weights);
    char *full = hri_malloc(folder + n + 1);
    if (!full) {
        return HR_E_NOMEM_HOST;
    }
    memcpy(full, path, folder);
    memcpy(full + folder, m->weights, n + 1);
    hri_free(m->weights);
    m->weights = full;
    return HR_OK;
}

hr_status hri_model_file_open(const char *path, hr_model *m, hri_prose *why) {
    char *text = NULL;
    size_t bytes = 0;
    hri_prose inner = {""};
    hr_status status = hri_file_read(path, HRI_MODEL_FILE_BYTES, &text, &bytes, why);
    if (status != HR_OK) {
        return status;
    }
    status = hri_model_file_parse(text, bytes, m, &inner);
    hri_free(text);
    if (status == HR_OK && m->weights) {
        status = place_weights(path, m);
    }
    if (status == HR_OK) {
        m->text = hri_strdup(path);
        status = m->text ? hri_model_check(m, &inner) : HR_E_NOMEM_HOST;
    }
    return status == HR_OK ? HR_OK
                           : hri_prose_set(why, status, "%s: %s", path,
                                           *inner.text ? inner.text : hr_status_text(status));
}

static hr_status keep_customs(hri_model_file *f, const hr_custom *const *ops, size_t count) {
    if (count) {
        f->customs = hri_calloc(count, sizeof(const hr_custom *));
        if (!f->customs) {
            return HR_E_NOMEM_HOST;
        }
        memcpy(f->customs, ops, count * sizeof *ops);
        f->custom_count = count;
    }
    return HR_OK;
}

hr_status hr_model_parse(const char *text, size_t bytes, hr_model **out, hr_error *why) {
    return hr_model_parse_custom(text, bytes, NULL, 0, out, why);
}

hr_status hr_model_parse_custom(const char *text, size_t bytes, const hr_custom *const *ops,
                                size_t op_count, hr_model **out, hr_error *why) {
    hri_prose prose = {""};
    hr_model *m = hri_calloc(1, sizeof *m);
    hr_status status = m ? hri_model_file_parse(text, bytes, m, &prose) : HR_E_NOMEM_HOST;
    if (status == HR_OK) {
        status = keep_customs(m->file, ops, op_count);
    }
    if (status == HR_OK) {
        m->text = hri_strdup(m->name);
        status = m->text ? hri_model_check(m, &prose) : HR_E_NOMEM_HOST;
    }
    if (status != HR_OK) {
        hr_model_close(m);
        return hri_model_fail(why, status, &prose);
    }
    *out = m;
    return HR_OK;
}

void hri_model_file_close(hri_model_file *file) {
    for (size_t i = 0; file && i < file->string_count; i++) {
        hri_free(file->strings[i]);
    }
    if (file) {
        hri_free(file->text);
        hri_free(file->customs);
    }
    hri_free(file);
}

/* The lines of a form, one after the other, into an empty graph. */
static hr_status build_lines(const hri_model_file *file, hr_graph *g, int64_t batch, int training) {
    const form *wanted = &file->forms[training != 0];
    /* Whether scores are kept is the step's business, not the file's. */
    const hri_graph_text_options o = {.off_op = g->keep_scores ? NULL : "linear_cross_entropy",
                                      .off_attribute = "keep",
                                      .customs = file->customs,
                                      .custom_count = file->custom_count,
                                      .customs_named = file->customs_named};
    hri_prose why = {""};
    hri_graph_text t;
    hr_status status;
    hri_graph_text_open(&t, wanted->at, wanted->bytes);
    t.line = wanted->line;
    while ((status = hri_graph_text_next(&t, batch, &why)) == HR_OK) {
        status = hri_graph_text_add(&t, g, &o, &why);
        if (status != HR_OK) {
            break;
        }
    }
    hri_graph_text_close(&t);
    if (status != HR_E_EOF) {
        hri_graph_fail(g, status, "%s", *why.text ? why.text : hr_status_text(status));
        return status;
    }
    return HR_OK;
}

hr_status hri_model_file_build(const hri_model_file *file, hr_graph *g, int64_t batch,
                               int training) {
    hr_graph *as_written;
    hr_status status = hr_graph_create(&as_written);
    if (status != HR_OK) {
        return status;
    }
    /* Numbers of values are those of the text, and images may come as bytes: what is built again has both. */
    as_written->keep_scores = g->keep_scores;
    status = build_lines(file, as_written, batch, training);
    if (status == HR_OK) {
        hri_rewrite r = {.from = as_written, .to = g};
        status = hri_rewrite_graph(&r);
        hri_free(r.values);
    } else if (as_written->error.code != HR_OK) {
        hri_graph_fail(g, as_written->error.code, "%s", as_written->error.message);
    }
    hr_graph_destroy(as_written);
    return status;
}
