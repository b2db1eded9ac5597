/* Looking at a source, and the text of the pipeline that follows from it. */
#include "loop/source.h"

#include <stdarg.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "data/pipeline.h"
#include "graph/graph.h"
#include "step/objective.h"

/* ---- the model's side ---- */

static hr_meta one_sample(const hr_meta *meta) {
    hr_meta m = {.type = meta->type};
    m.shape = hr_shape_from(meta->shape.rank - 1, meta->shape.dim + 1);
    return m;
}

/* The input with the numbers of classes that the loss is a cross entropy over; HR_NONE: it is no such loss. */
static hr_value ids_of_loss(const hr_graph *g) {
    static const struct {
        const char *op;
        uint32_t ids;
    } losses[] = {{"cross_entropy", 1}, {"linear_cross_entropy", 2}};
    const hr_value loss = hr_graph_find(g, "loss");
    const hri_node_record *n = loss == HR_NONE || g->values[loss].node == HRI_NO_NODE
                                   ? NULL
                                   : &g->nodes[g->values[loss].node];
    for (size_t i = 0; n && i < sizeof losses / sizeof losses[0]; i++) {
        const hr_value ids = n->sig.in_count > losses[i].ids ? n->in[losses[i].ids] : HR_NONE;
        if (!strcmp(n->sig.op->name, losses[i].op) && g->values[ids].kind == HR_VALUE_INPUT) {
            return ids;
        }
    }
    return HR_NONE;
}

static hr_status take_input(const hr_graph *g, hr_value v, hr_value label, hri_model_input *out,
                            hri_prose *why) {
    const hri_value *value = &g->values[v];
    const hr_type type = value->meta.type;
    if (strlen(value->name) >= HR_FIELD_NAME_SIZE || value->meta.shape.rank < 1 ||
        (type != HR_TYPE_F32 && type != HR_TYPE_I32 && type != HR_TYPE_U8)) {
        char is[256];
        return hri_prose_set(why, HR_E_SHAPE,
                             "its input %s is %s; data goes to inputs of f32, i32 or u8 with the "
                             "batch as first dimension and a name of less than %d bytes",
                             value->name, hr_meta_print(&value->meta, is, sizeof is),
                             HR_FIELD_NAME_SIZE);
    }
    if (v == label) {
        out->label = one_sample(&value->meta);
        snprintf(out->label_name, sizeof out->label_name, "%s", value->name);
    } else if (!out->name[0]) {
        out->sample = one_sample(&value->meta);
        snprintf(out->name, sizeof out->name, "%s", value->name);
    } else if (out->other_count < HRI_OTHER_INPUTS) {
        hri_other_input *x = &out->others[out->other_count++];
        x->sample = one_sample(&value->meta);
        snprintf(x->name, sizeof x->name, "%s", value->name);
    } else {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "it has more than %d inputs",
                             HRI_OTHER_INPUTS + 2);
    }
    return HR_OK;
}

int hri_model_input_is_sequence(const hri_model_input *want) {
    return want->sample.type == HR_TYPE_I32 && want->label.type == HR_TYPE_I32 &&
           hr_shape_same(&want->sample.shape, &want->label.shape);
}

/* Rows of the table that an input of tokens picks from; 0: it picks from none. */
static int64_t table_of(const hr_graph *g, hr_value tokens) {
    for (uint32_t i = 0; i < g->node_count; i++) {
        const hri_node_record *n = &g->nodes[i];
        if (!strcmp(n->sig.op->name, "gather") && n->in[1] == tokens &&
            n->sig.in[0].shape.rank == 2) {
            return n->sig.in[0].shape.dim[0];
        }
    }
    return 0;
}

static hr_status read_inputs(const hr_graph *g, hri_model_input *out, hri_prose *why) {
    const hr_value ids = ids_of_loss(g), named = hr_graph_find(g, "label");
    const int is_named = named != HR_NONE && g->values[named].kind == HR_VALUE_INPUT;
    const hr_value label = is_named ? named : ids;
    hr_status status = HR_OK;
    out->masks = label != HR_NONE && label == ids;
    for (hr_value v = 1; status == HR_OK && v < g->value_count; v++) {
        const hri_value *value = &g->values[v];
        out->weights += value->kind == HR_VALUE_PARAM || value->kind == HR_VALUE_STATE;
        out->parameters +=
            value->kind == HR_VALUE_PARAM ? (uint64_t)hr_shape_count(&value->meta.shape) : 0;
        if (value->kind == HR_VALUE_INPUT) {
            status = take_input(g, v, label, out, why);
            out->vocab = out->vocab ? out->vocab : table_of(g, v);
        }
    }
    return status == HR_OK && !out->name[0]
               ? hri_prose_set(why, HR_E_INVALID, "it has no input for data")
               : status;
}

hr_status hri_model_input_of(hr_model *m, hri_model_input *out, hri_prose *why) {
    return hri_model_input_with(m, NULL, out, why);
}

hr_status hri_model_input_with(hr_model *m, const hri_loss *loss, hri_model_input *out,
                               hri_prose *why) {
    hri_objective objective = {.build = hr_model_build, .user = m, .no_metrics = 1};
    hr_graph *g;
    hri_prose reason = {""};
    hr_status status = hr_graph_create(&g);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "out of memory while inspecting the model");
    }
    objective.loss = loss ? *loss : objective.loss;
    const int changed = objective.loss.kind || objective.loss.weighted;
    status = changed ? hri_objective_build(&objective, g, 1, 0) : hr_model_build(m, g, 1, 0);
    if (status != HR_OK && changed) {
        (void)hri_prose_set(&reason, status, "%s", g->error.message);
    }
    hri_model_input found = {.classes = hr_model_classes(m)};
    if (status == HR_OK) {
        status = read_inputs(g, &found, &reason);
        found.masks |= changed;
    }
    hr_graph_destroy(g);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "%s: %s", hr_model_text(m),
                             reason.text[0] ? reason.text : "its inputs cannot be found");
    }
    *out = found;
    return HR_OK;
}

/* ---- looking ---- */

/* The name of the source: up to ':', '(', ' ' or '|'. */
static void read_kind(const char *text, char *out, size_t size) {
    const char *from = text + strspn(text, " ");
    const size_t n = strcspn(from, ":( |,");
    snprintf(out, size, "%.*s", (int)(n < size ? n : size - 1), from);
}

/* Does the text of the source itself, before any '|', set this option? */
static int says(const char *text, const char *key) {
    const char *end = strchr(text, '|');
    for (const char *at = strstr(text, key); at && (!end || at < end); at = strstr(at + 1, key)) {
        const char before = at > text ? at[-1] : ' ';
        const char *after = at + strlen(key);
        if ((before == ',' || before == ':' || before == '(' || before == ' ') &&
            after[strspn(after, " ")] == '=') {
            return 1;
        }
    }
    return 0;
}

/* Is there a '+' in the value of an option? */
static int names_several(const char *text, const char *key) {
    for (const char *at = strstr(text, key); at; at = strstr(at + 1, key)) {
        if (at > text && strchr(",:( ", at[-1])) {
            const char *plus = strchr(at, '+');
            return plus && plus < at + strcspn(at, ",|)");
        }
    }
    return 0;
}

/* Puts ",key=value" behind the source's own options. */
static void complete(char *text, size_t size, const char *key, const char *value) {
    char rest[HRI_SOURCE_TEXT];
    if (says(text, key)) {
        return;
    }
    char *end = strchr(text, '|');
    end = end ? end : text + strlen(text);
    while (end > text && end[-1] == ' ') {
        end--;
    }
    const int bracket = end > text && end[-1] == ')';
    end -= bracket;
    snprintf(rest, sizeof rest, "%s", end);
    const int bare =
        !memchr(text, ':', (size_t)(end - text)) && !memchr(text, '(', (size_t)(end - text));
    snprintf(end, size - (size_t)(end - text), "%s%s=%s%s", bare ? ":" : ",", key, value, rest);
}

/* "64x64x3" */
static void print_dims(const hr_shape *shape, char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (int d = 0; d < shape->rank && used < size; d++) {
        used += (size_t)snprintf(out + used, size - used, "%s%lld", d ? "x" : "",
                                 (long long)shape->dim[d]);
    }
}

static void complete_number(hri_source *s, const char *key, int64_t value) {
    char number[32];
    snprintf(number, sizeof number, "%lld", (long long)value);
    complete(s->text, sizeof s->text, key, number);
}

static void complete_synthetic(hri_source *s, const hri_model_input *want) {
    char dims[96];
    const int tokens = !strcmp(want->name, "tokens"),
              labels = !tokens || !hri_model_input_is_sequence(want);
    if (tokens) {
        complete_number(s, "vocab", want->vocab ? want->vocab : want->classes);
    }
    if (tokens && labels) {
        complete(s->text, sizeof s->text, "labels", "on");
    }
    if (labels) {
        complete_number(s, "classes", want->classes);
    }
    print_dims(&want->sample.shape, dims, sizeof dims);
    complete(s->text, sizeof s->text, "shape", dims);
    if (labels && want->label.shape.rank > 0) {
        print_dims(&want->label.shape, dims, sizeof dims);
        complete(s->text, sizeof s->text, "label", dims);
    }
    if (labels && want->label.type == HR_TYPE_F32) {
        complete(s->text, sizeof s->text, "label_type", "f32");
    }
}

/* Texts with a class each. */
static int is_texts(const hri_source *s, const hri_tabular *table) {
    return !strcmp(s->kind, "texts") ||
           (!strcmp(s->kind, "csv") &&
            (says(s->text, "text") || (table && hri_tabular_is_text(table))));
}

/* Tokens, as many as are asked for. */
static int is_text(const hri_source *s, const hri_tabular *table) {
    return !strcmp(s->kind, "tokens") || !strcmp(s->kind, "text") || is_texts(s, table);
}

static void complete_source(hri_source *s, const hri_model_input *want, const hri_tabular *table) {
    if (is_text(s, table) && want->sample.shape.rank == 1) {
        complete_number(s, "length", want->sample.shape.dim[0]);
    } else if (!strcmp(s->kind, "synthetic")) {
        complete_synthetic(s, want);
    } else if (!strcmp(s->kind, "csv") && want->label.type == HR_TYPE_F32 && says(s->text, "y") &&
               !names_several(s->text, "y=")) { /* which are numbers as it is */
        complete(s->text, sizeof s->text, "task", "numbers");
    }
}

static int take_field(const hr_pipeline *p, const char *const *names, hr_field *out) {
    for (; *names; names++) {
        for (size_t i = 0; i < hr_pipeline_field_count(p); i++) {
            if (!strcmp(hr_pipeline_field(p, i)->name, *names)) {
                *out = *hr_pipeline_field(p, i);
                return 1;
            }
        }
    }
    return 0;
}

static hr_status take_classes(const hr_pipeline *p, hri_source *s) {
    while (hr_pipeline_class(p, s->class_count)) {
        s->class_count++;
    }
    s->classes = s->class_count ? hri_calloc(s->class_count, sizeof *s->classes) : NULL;
    for (size_t i = 0; s->classes && i < s->class_count; i++) {
        s->classes[i] = hri_strdup(hr_pipeline_class(p, i));
        if (!s->classes[i]) {
            return HR_E_NOMEM_HOST;
        }
    }
    return s->class_count && !s->classes ? HR_E_NOMEM_HOST : HR_OK;
}

static hr_status add_note(hri_source *s, const char *text) {
    char **grown = hri_realloc(s->notes, (s->note_count + 1) * sizeof *grown);
    if (!grown) {
        return HR_E_NOMEM_HOST;
    }
    s->notes = grown;
    s->notes[s->note_count] = hri_strdup(text);
    s->note_count += s->notes[s->note_count] != NULL;
    return s->note_count && s->notes[s->note_count - 1] ? HR_OK : HR_E_NOMEM_HOST;
}

static int64_t count_of(const hr_shape *shape);

/* What the labels are, from their type and, where the source tells, their range. */
static hri_target target_of(const hri_source *s) {
    const hr_shape *shape = &s->label.meta.shape;
    const int row = shape->rank == 1 && shape->dim[0] > 1;
    const int flags = row && s->labels_known && s->labels.min >= 0 && s->labels.max <= 1 &&
                      s->labels.count > (uint64_t)shape->dim[0];
    return flags                                                     ? HRI_TARGET_FLAGS
           : !s->label.name[0] || s->classes                         ? HRI_TARGET_CLASSES
           : hr_type_is_real(s->label.meta.type) && !s->labels_known ? HRI_TARGET_NUMBERS
                                                                     : HRI_TARGET_CLASSES;
}

hri_loss hri_source_loss(const hri_source *s, const hri_model_input *want) {
    const int of_classes = want->label_name[0] && want->label.type == HR_TYPE_I32;
    const int row = want->label.shape.rank == 0; /* one class per sample */
    return (hri_loss){.kind = !of_classes                            ? HRI_LOSS_MODEL
                              : s->target == HRI_TARGET_NUMBERS      ? HRI_LOSS_MSE
                              : s->target == HRI_TARGET_FLAGS && row ? HRI_LOSS_BCE
                                                                     : HRI_LOSS_MODEL};
}

hr_status hri_source_set_loss(hri_source *s, const hri_loss *loss, hri_prose *why) {
    if (loss->kind == HRI_LOSS_MODEL || hri_loss_has_ids(loss)) {
        return HR_OK;
    }
    if (loss->kind == HRI_LOSS_BCE && s->labels_known && (s->labels.max > 1 || s->labels.min < 0)) {
        return hri_prose_set(
            why, HR_E_INVALID,
            "%s has labels from %lld to %lld, but bce needs 0 or 1 for each output", s->text,
            (long long)s->labels.min, (long long)s->labels.max);
    }
    s->target = loss->kind == HRI_LOSS_BCE ? HRI_TARGET_FLAGS : HRI_TARGET_NUMBERS;
    return HR_OK;
}

/* Labels that are numbers in a file say how many classes there are. */
static hr_status take_labels(hr_pipeline *p, hri_source *s) {
    const int scalar = s->label.name[0] && s->label.meta.shape.rank == 0;
    s->labels.size = sizeof s->labels;
    hr_status status =
        s->label.name[0] ? hr_pipeline_labels(p, s->label.name, &s->labels) : HR_E_NOT_FOUND;
    s->labels_known = status == HR_OK;
    if (status != HR_OK) {
        return status == HR_E_NOT_FOUND ? HR_OK : status;
    }
    if (scalar && !s->class_count && s->labels.max >= 0 &&
        (uint64_t)s->labels.max < s->labels.count) { /* more classes than samples: no classes */
        s->class_count = (size_t)s->labels.max + 1;
        if (!strcmp(s->kind, "mnist") && s->class_count < 10) {
            s->class_count = 10; /* digits, or the ten of the sets that share the format */
        }
    }
    if (s->labels.negative && !hr_type_is_real(s->label.meta.type)) { /* those are missing: said */
        hri_prose note;
        (void)hri_prose_set(&note, HR_OK,
                            "%s: %llu of %llu labels are negative and are ignored in loss and "
                            "accuracy",
                            s->text, (unsigned long long)s->labels.negative,
                            (unsigned long long)s->labels.count);
        status = add_note(s, note.text);
    }
    return status;
}

static hr_status take_notes(const hr_pipeline *p, hri_source *s) {
    hr_status status = HR_OK;
    for (size_t i = 0; status == HR_OK && hr_pipeline_note(p, i); i++) {
        status = add_note(s, hr_pipeline_note(p, i));
    }
    return status;
}

static int64_t count_of(const hr_shape *shape) {
    int64_t n = 1;
    for (int d = 0; d < shape->rank; d++) {
        n = shape->dim[d] < 0 ? -1 : n * shape->dim[d];
        if (n < 0) {
            return -1;
        }
    }
    return n;
}

/* Inputs beside the first and the label are fed by fields of their own names. */
static hr_status check_others(const hr_pipeline *p, const hri_source *s,
                              const hri_model_input *want, hri_prose *why) {
    for (uint32_t i = 0; want && i < want->other_count; i++) {
        const hri_other_input *x = &want->others[i];
        const char *const names[] = {x->name, NULL};
        hr_field f;
        char a[256], b[256];
        if (!take_field(p, names, &f) && !strcmp(x->name, HRI_WEIGHT_FIELD)) {
            return hri_prose_set(why, HR_E_NOT_FOUND,
                                 "%s has no weights, but the training data has; add weight=NAME",
                                 s->text);
        }
        if (!take_field(p, names, &f)) {
            return hri_prose_set(why, HR_E_NOT_FOUND,
                                 "%s: its elements have no field %s, which is an input of the "
                                 "model; use rename() to give one that name",
                                 s->text, x->name);
        }
        if (count_of(&f.meta.shape) != hr_shape_count(&x->sample.shape)) {
            return hri_prose_set(why, HR_E_SHAPE, "%s has %s %s, but the model expects %s", s->text,
                                 x->name, hr_meta_print(&f.meta, a, sizeof a),
                                 hr_meta_print(&x->sample, b, sizeof b));
        }
    }
    return HR_OK;
}

static hr_status look(hr_pipeline *p, hri_source *s, const hri_model_input *want, hri_prose *why) {
    const char *const inputs[] = {want ? want->name : "image", "image", "tokens", "x", NULL};
    const char *const labels[] = {want && want->label_name[0] ? want->label_name : "label", "label",
                                  "targets", "y", NULL};
    s->count = hr_pipeline_count(p);
    s->vocab = hri_pipeline_vocab(p);
    s->pad = hri_pipeline_pad(p);
    if (!take_field(p, inputs, &s->input)) {
        const int own = want && strcmp(want->name, "image") != 0 &&
                        strcmp(want->name, "tokens") != 0 && strcmp(want->name, "x") != 0;
        return hri_prose_set(why, HR_E_INVALID,
                             "%s: its elements have no field %s%simage, tokens or x to train on; "
                             "use rename() to give one that name",
                             s->text, own ? want->name : "", own ? ", " : "");
    }
    (void)take_field(p, labels, &s->label);
    if (s->count == 0) {
        return hri_prose_set(why, HR_E_INVALID, "%s: the data set is empty", s->text);
    }
    hr_status status = check_others(p, s, want, why);
    if (status != HR_OK) {
        return status;
    }
    status = take_classes(p, s);
    if (status == HR_OK) {
        status = take_notes(p, s);
    }
    if (status == HR_OK) {
        status = take_labels(p, s);
    }
    s->target = target_of(s);
    hr_field weight;
    const char *const weights[] = {HRI_WEIGHT_FIELD, NULL};
    s->weighted = take_field(p, weights, &weight) && count_of(&weight.meta.shape) == 1;
    for (uint32_t i = 0; want && i < want->other_count; i++) {
        s->weighted &=
            strcmp(want->others[i].name, HRI_WEIGHT_FIELD) != 0; /* it is the model's own */
    }
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "out of memory for class names");
}

hr_status hri_source_look(const char *text, const hri_model_input *want, hri_source *out,
                          hri_prose *why) {
    return hri_source_look_with(text, want, NULL, out, why);
}

hr_status hri_source_look_with(const char *text, const hri_model_input *want,
                               const hri_tabular *table, hri_source *out, hri_prose *why) {
    hri_source s = {0};
    hr_pipeline *p = NULL;
    hr_error error = {0};
    const hr_pipeline_options o = {
        .size = sizeof o, .budget_bytes = UINT64_C(1) << 40, .workers = 1}; /* nothing is read */
    if (strlen(text) + 128 > sizeof s.text) {
        return hri_prose_set(why, HR_E_RANGE, "the data string is longer than %d bytes",
                             HRI_SOURCE_TEXT - 128);
    }
    snprintf(s.text, sizeof s.text, "%s", text);
    read_kind(text, s.kind, sizeof s.kind);
    if (want) {
        complete_source(&s, want, table);
    }
    hr_status status = hri_pipeline_open_with(&o, s.text, table, &error, &p);
    if (status != HR_OK) {
        return hri_prose_set(why, status, "%s", error.message);
    }
    status = look(p, &s, want, why);
    s.table = hri_pipeline_take_table(p);
    hr_pipeline_destroy(p);
    if (status != HR_OK) {
        hri_source_deinit(&s);
        return status;
    }
    *out = s;
    return HR_OK;
}

hr_status hri_source_look_at(hr_pipeline *p, const hri_model_input *want, hri_source *out,
                             hri_prose *why) {
    hri_source s = {.text = "pipeline", .kind = "pipeline"};
    hr_status status = look(p, &s, want, why);
    if (status == HR_OK && count_of(&s.input.meta.shape) != hr_shape_count(&want->sample.shape)) {
        char a[256], b[256];
        status = hri_prose_set(why, HR_E_SHAPE, "the pipeline has %s %s, but the model expects %s",
                               s.input.name, hr_meta_print(&s.input.meta, a, sizeof a),
                               hr_meta_print(&want->sample, b, sizeof b));
    }
    if (status != HR_OK) {
        hri_source_deinit(&s);
        return status;
    }
    *out = s;
    return HR_OK;
}

void hri_source_deinit(hri_source *s) {
    for (size_t i = 0; s->classes && i < s->class_count; i++) {
        hri_free(s->classes[i]);
    }
    hri_free(s->classes);
    for (size_t i = 0; i < s->note_count; i++) {
        hri_free(s->notes[i]);
    }
    hri_free(s->notes);
    hri_tabular_close(s->table);
    *s = (hri_source){0};
}

/* ---- the model string ---- */

static int find_key(const char *model, const char *key, hr_model_key *out) {
    char name[128];
    *out = (hr_model_key){.size = sizeof *out};
    snprintf(name, sizeof name, "%.*s", (int)strcspn(model, ":"), model);
    for (size_t i = 0; hr_model_keys(name, i, out) == HR_OK; i++) {
        if (!strcmp(out->name, key)) {
            return 1;
        }
    }
    return 0;
}

static void add_key(const char *key, int64_t value, char *out, size_t size, char *said,
                    size_t said_size) {
    const size_t used = strlen(out), told = said ? strlen(said) : 0;
    hr_model_key k;
    if (!value || says(out, key) || !find_key(out, key, &k)) {
        return;
    }
    snprintf(out + used, size - used, "%s%s=%lld", strchr(out, ':') ? "," : ":", key,
             (long long)value);
    if (said) {
        snprintf(said + told, said_size - told, "%s%s=%lld", told ? ", " : "", key,
                 (long long)value);
    }
}

hr_status hri_source_fill_model(const char *model, const hri_source *s, char *out, size_t size,
                                char *said, size_t said_size, hri_prose *why) {
    if (strlen(model) + 64 > size) {
        return hri_prose_set(why, HR_E_RANGE, "the model string is too long");
    }
    snprintf(out, size, "%s", model);
    if (said_size) {
        said[0] = '\0';
    }
    const int64_t outputs =
        s->target == HRI_TARGET_CLASSES ? (int64_t)s->class_count : count_of(&s->label.meta.shape);
    add_key("classes", outputs > 0 ? outputs : 0, out, size, said, said_size);
    add_key("vocab", s->vocab, out, size, said, said_size);
    add_key("pad", s->pad, out, size, said, said_size);
    const hr_shape *shape = &s->input.meta.shape;
    hr_model_key context;
    if (is_text(s, s->table) && shape->rank == 1 && find_key(out, "context", &context) &&
        strtoll(context.value, NULL, 10) != shape->dim[0]) {
        add_key("context", shape->dim[0], out, size, said, said_size);
    }
    if (shape->rank == 1 && shape->dim[0] > 0 && strcmp(s->kind, "synthetic") != 0 &&
        s->input.meta.type != HR_TYPE_I32) {
        add_key("inputs", shape->dim[0], out, size, said, said_size);
    }
    if (shape->rank == 3 && shape->dim[2] > 0 && strcmp(s->kind, "synthetic") != 0) {
        add_key("channels", shape->dim[2], out, size, said, said_size);
        if (shape->dim[0] == shape->dim[1] && shape->dim[0] > 0) {
            add_key("size", shape->dim[0], out, size, said, said_size);
        }
    }
    return HR_OK;
}

/* ---- stages ---- */

typedef struct text {
    char *out;
    size_t size, used;
} text;

static void say(text *t, const char *format, ...) HR_PRINTF(2, 3);
static void say(text *t, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (t->used < t->size) {
        const int n = vsnprintf(t->out + t->used, t->size - t->used, format, args);
        t->used += n > 0 ? (size_t)n : 0;
    }
    va_end(args);
}

static int wants(const char *augment, const char *what) {
    const size_t n = strlen(what);
    for (const char *at = augment ? strstr(augment, what) : NULL; at; at = strstr(at + 1, what)) {
        const char before = at > augment ? at[-1] : ',';
        if ((before == ',' || before == ' ') && (at[n] == ',' || at[n] == '\0' || at[n] == ' ')) {
            return 1;
        }
    }
    return 0;
}

static int is_encoded(const hri_source *s) {
    return s->input.meta.shape.rank == 1 && s->input.meta.type == HR_TYPE_U8 &&
           s->input.meta.shape.dim[0] < 0;
}

/* A class for every pixel: images are stretched instead of cropped, so that predictions cover all of them. */
static int is_of_pixels(const hri_model_input *want) {
    return want->sample.shape.rank == 3 && want->label.type == HR_TYPE_I32 &&
           want->label.shape.rank == 2;
}

static int is_picture(const hri_source *s, const hri_model_input *want) {
    return want->sample.shape.rank == 3 && (s->input.meta.shape.rank == 3 || is_encoded(s));
}

/* One channel is centred, colours are as the torchvision models expect them. */
void hri_source_pixels(const hri_source *s, const hri_model_input *want, hri_pixels *out) {
    static const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
    const int64_t channels = want->sample.shape.rank == 3 ? want->sample.shape.dim[2] : 0;
    *out = (hri_pixels){.channels = 0};
    if (!is_picture(s, want) || s->input.meta.type != HR_TYPE_U8 ||
        want->sample.type != HR_TYPE_F32 || channels < 1 || channels > HRI_PIXELS_CHANNELS) {
        return;
    }
    out->channels = (uint32_t)channels;
    memcpy(out->name, want->name, sizeof out->name);
    for (uint32_t c = 0; c < out->channels; c++) {
        out->mean[c] = channels == 3 ? mean[c] : 0.5;
        out->std[c] = channels == 3 ? std[c] : 0.5;
    }
}

static hr_status say_picture(text *t, const hri_source *s, const hri_model_input *want,
                             const char *augment, hri_prose *why) {
    const hr_shape *is = &s->input.meta.shape;
    const int64_t h = want->sample.shape.dim[0], w = want->sample.shape.dim[1];
    const int64_t channels = want->sample.shape.dim[2];
    const int encoded = is_encoded(s), other = strcmp(s->input.name, "image") != 0;
    const size_t before = t->used;
    if (encoded && channels != 1 && channels != 3) {
        return hri_prose_set(why, HR_E_SHAPE,
                             "images have 1 or 3 channels, but the model "
                             "expects %lld",
                             (long long)channels);
    }
    if (other) { /* what the stages below look for */
        say(t, " | rename(%s,to=image)", s->input.name);
    }
    const size_t began = t->used;
    if (encoded) {
        const int crop = wants(augment, "crop");
        say(t, " | decode(size=%lldx%lld,channels=%lld,%s%s)", (long long)h, (long long)w,
            (long long)channels,
            crop                 ? "random_crop=on,min_area=0.35"
            : is_of_pixels(want) ? "fit=stretch"
                                 : "centre=1",
            wants(augment, "flip") ? ",flip=on" : "");
    } else {
        if (is->dim[2] != channels) {
            return hri_prose_set(why, HR_E_SHAPE,
                                 "%s has %lld channels, but the model expects %lld; add "
                                 "channels=%lld to the model string",
                                 s->text, (long long)is->dim[2], (long long)channels,
                                 (long long)is->dim[2]);
        }
        if (is->dim[0] != h || is->dim[1] != w) {
            say(t, " | resize(size=%lldx%lld)", (long long)h, (long long)w);
        }
        if (wants(augment, "flip")) {
            say(t, " | flip");
        }
    }
    if (wants(augment, "jitter")) {
        say(t, " | jitter");
    }
    if (wants(augment, "randaugment")) {
        say(t, " | randaugment");
    }
    if (wants(augment, "erase")) {
        say(t, " | erase");
    }
    if (t->used == began && s->input.meta.type == HR_TYPE_U8) {
        say(t, " | load"); /* as many threads as the other stages would have */
    }
    if (other && t->used == began) {
        t->used = before; /* nothing looked for it */
        t->out[before] = '\0';
    } else if (other) {
        say(t, " | rename(image,to=%s)", s->input.name);
    }
    if (s->input.meta.type == HR_TYPE_U8 && channels > HRI_PIXELS_CHANNELS) {
        return hri_prose_set(why, HR_E_SHAPE, "images can have at most %d channels, not %lld",
                             HRI_PIXELS_CHANNELS, (long long)channels);
    }
    return HR_OK;
}

hr_status hri_source_stages(const hri_source *s, const hri_model_input *want, const char *augment,
                            char *out, size_t size, hri_prose *why) {
    text t = {.out = out, .size = size};
    const hr_shape *is = &s->input.meta.shape, *should = &want->sample.shape;
    hr_status status = HR_OK;
    out[0] = '\0';
    if (!strcmp(s->kind, "masks") && !is_of_pixels(want)) {
        status = hri_prose_set(why, HR_E_SHAPE,
                               "%s has a class for every pixel, but the model predicts one per "
                               "image; use unet, or images:DIR for classes of whole images",
                               s->text);
    } else if (is_picture(s, want)) {
        status = say_picture(&t, s, want, augment, why);
    } else if (count_of(is) != hr_shape_count(should)) {
        char a[256], b[256];
        status = hri_prose_set(why, HR_E_SHAPE, "%s has %s, but the model expects %s %s", s->text,
                               hr_meta_print(&s->input.meta, a, sizeof a), want->name,
                               hr_meta_print(&want->sample, b, sizeof b));
    }
    if (status == HR_OK && t.used >= size) {
        status = hri_prose_set(why, HR_E_RANGE, "the data string is too long");
    }
    return status;
}

/* Labels that the model cannot have are refused before anything is planned. */
static hr_status check_labels(const hri_source *s, const hri_model_input *want, hri_prose *why) {
    return s->labels_known && want->label.type == HR_TYPE_I32 && want->classes > 0 &&
                   s->labels.max >= want->classes && !hri_source_has_stage(s, "filter")
               ? hri_prose_set(why, HR_E_INVALID,
                               "%s has labels up to %lld, but the model has %lld classes "
                               "(0-%lld); add classes=%lld to the model string",
                               s->text, (long long)s->labels.max, (long long)want->classes,
                               (long long)want->classes - 1, (long long)s->labels.max + 1)
               : HR_OK;
}

const char *const hri_augmentations[] = {"none",        "flip",  "crop", "jitter",
                                         "randaugment", "erase", NULL};

static hr_status check_augment(const char *augment, hri_prose *why) {
    const char *const *known = hri_augmentations;
    enum { KNOWN = sizeof hri_augmentations / sizeof hri_augmentations[0] - 1 };
    for (const char *at = augment; at && *at;) {
        at += strspn(at, ", ");
        const size_t n = strcspn(at, ", ");
        char word[64];
        size_t k = 0;
        snprintf(word, sizeof word, "%.*s", (int)(n < 63 ? n : 63), at);
        while (k < KNOWN && strcmp(word, known[k]) != 0) {
            k++;
        }
        if (n && k == KNOWN) {
            const char *near = hri_nearest(word, known, KNOWN, sizeof *known);
            return hri_prose_set(why, HR_E_INVALID,
                                 "`augment`: unknown value \"%s\"%s%s%s; use flip, crop, jitter, "
                                 "randaugment, erase or none",
                                 word, near ? ", did you mean \"" : "", near ? near : "",
                                 near ? "\"?" : "");
        }
        at += n;
    }
    return HR_OK;
}

bool hri_source_has_stage(const hri_source *s, const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    for (const char *at = strchr(s->text, '|'); at; at = strchr(at, '|')) {
        at += 1 + strspn(at + 1, " \t\n");
        const size_t length = strspn(at, letters);
        if (length == strlen(name) && !strncmp(at, name, length)) {
            return true;
        }
    }
    return false;
}

hr_status hri_source_pipeline(const hri_source *s, const hri_model_input *want,
                              const hri_source_use *use, char *out, size_t size, hri_prose *why) {
    text t = {.out = out, .size = size};
    char stages[512];
    hr_status status = check_augment(use->augment, why);
    if (status == HR_OK) {
        status = check_labels(s, want, why);
    }
    stages[0] = '\0';
    if (status == HR_OK && !use->bare) {
        status = hri_source_stages(s, want, use->training ? use->augment : NULL, stages,
                                   sizeof stages, why);
    }
    if (status != HR_OK) {
        return status;
    }
    say(&t, "%s", s->text);
    if (use->part_count) {
        /* An order of its own, always the same: which samples are whose never changes. */
        say(&t, " | shuffle(seed=%llu,reshuffle=off) | skip(%llu) | take(%llu)",
            (unsigned long long)(use->seed & 0xffffffffu) + 7, (unsigned long long)use->part_first,
            (unsigned long long)use->part_count);
    }
    if (use->training && !hri_source_has_stage(s, "shuffle")) {
        say(&t, " | shuffle(seed=%llu)", (unsigned long long)(use->seed & 0xffffffffu));
    }
    if (use->batch && s->count == HR_COUNT_UNKNOWN) { /* here what goes on is tickets as a rule */
        say(&t, " | whole(%llu)", (unsigned long long)use->batch);
    }
    if (use->ranks) {
        say(&t, " | deal(batch=%llu,part=%llu,ranks=%u,rank=%u)",
            (unsigned long long)use->deal_batch, (unsigned long long)use->part, use->ranks,
            use->rank);
    }
    say(&t, "%s", stages);
    return t.used < size ? HR_OK : hri_prose_set(why, HR_E_RANGE, "the data string is too long");
}
