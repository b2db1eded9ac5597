/* Looking at a source, and what the model string gets from it. */
#include "loop/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/pipeline.h"

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
    const hr_shape *label = &s->label.meta.shape;
    const int row =
        want->label.shape.rank == 0 || /* one class per sample, or a text's own labels */
        (hri_model_input_is_sequence(want) && label->rank == 1 &&
         label->dim[0] != want->label.shape.dim[0]);
    return (hri_loss){.kind = !of_classes                            ? HRI_LOSS_MODEL
                              : s->target == HRI_TARGET_NUMBERS      ? HRI_LOSS_MSE
                              : s->target == HRI_TARGET_FLAGS && row ? HRI_LOSS_BCE
                                                                     : HRI_LOSS_MODEL};
}

hr_status hri_source_check_labels(const hri_source *s, const hri_model_input *want,
                                  hri_prose *why) {
    const int own_text = want->sample.type == HR_TYPE_I32 && /* its next token */
                         hr_shape_count(&want->sample.shape) == hr_shape_count(&want->label.shape);
    if (s->label.name[0] && want->label_name[0] && s->label.meta.shape.rank == 0 &&
        hr_shape_count(&want->label.shape) > 1) {
        return hri_prose_set(
            why, HR_E_SHAPE,
            "%s has one label per sample, but the model expects %lld (one for each "
            "step or pixel); %s",
            s->text, (long long)hr_shape_count(&want->label.shape),
            want->masks ? "masks come from masks:images=DIR,masks=DIR"
                        : "a classifier has global_pool or flatten before its "
                          "last layer");
    }
    if (s->label.name[0] || !want->label_name[0] || own_text) {
        return HR_OK;
    }
    const int named = strcmp(want->label_name, "label") != 0;
    return hri_prose_set(why, HR_E_INVALID,
                         "%s: the data has no labels (no field %s%slabel, targets or y)%s", s->text,
                         named ? want->label_name : "", named ? ", " : "",
                         !strcmp(s->kind, "npy")   ? "; name a second array: npy:x.npy,y.npy"
                         : !strcmp(s->kind, "csv") ? "; name a column: y=COLUMN"
                                                   : "");
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
    const int scalar = s->label.name[0] && hri_source_count(&s->label.meta.shape) == 1;
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

int64_t hri_source_count(const hr_shape *shape) {
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
        if (hri_source_count(&f.meta.shape) != hr_shape_count(&x->sample.shape)) {
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
    (void)hri_pipeline_image_size(p, &s->height, &s->width);
    s->pad = hri_pipeline_pad(p);
    if (!take_field(p, inputs, &s->input)) {
        const int own = want && strcmp(want->name, "image") != 0 &&
                        strcmp(want->name, "tokens") != 0 && strcmp(want->name, "x") != 0;
        return hri_prose_set(
            why, HR_E_INVALID,
            "%s: its elements have no field %s%simage, tokens or x to train on; %s", s->text,
            own ? want->name : "", own ? ", " : "",
            strcmp(s->kind, "csv") == 0 ? "name the columns: csv:FILE,x=*,y=COLUMN"
                                        : "use rename() to give one that name");
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
    s->weighted = take_field(p, weights, &weight) && hri_source_count(&weight.meta.shape) == 1;
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
    if (status == HR_OK &&
        hri_source_count(&s.input.meta.shape) != hr_shape_count(&want->sample.shape)) {
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
    const int64_t outputs = s->target == HRI_TARGET_CLASSES
                                ? (int64_t)s->class_count
                                : hri_source_count(&s->label.meta.shape);
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
