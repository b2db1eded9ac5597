/* Options that were given and have no effect: because another one is missing, or because they were given again.  The table
 * says what an option needs (`needs`), so no command has to. */
#include <stdio.h>
#include <string.h>

#include "base/field.h"
#include "base/options.h"

/* One alternative of `needs`: a field that is set, that is not, or that has one of some values. */
typedef struct need {
    bool not ;
    const char *name, *values; /* values: "sgd/rmsprop", or NULL */
    size_t name_length, values_length;
} need;

static need read_need(const char *text, size_t length) {
    need n = {.not = text[0] == '!'};
    n.name = text + n.not ;
    const char *equals = memchr(text, '=', length);
    n.name_length = equals ? (size_t)(equals - n.name) : length - n.not ;
    n.values = equals ? equals + 1 : NULL;
    n.values_length = equals ? length - (size_t)(equals + 1 - text) : 0;
    return n;
}

static const hri_field *field_of(const hri_options *o, const need *n) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)n->name_length, n->name);
    return hri_options_field(o, name);
}

static bool is_one_of(const char *value, const char *list, size_t length) {
    for (size_t at = 0; at < length;) {
        size_t n = 0;
        while (at + n < length && list[at + n] != '/') {
            n++;
        }
        const bool rest = n && list[at + n - 1] == '*';
        if (!strncmp(value, list + at, n - rest) && (rest || !value[n])) {
            return true;
        }
        at += n + 1;
    }
    return false;
}

static bool is_met(const hri_options *o, const need *n) {
    const hri_field *field = field_of(o, n);
    if (!field) {
        return true; /* of another table */
    }
    const hri_field_value value = hri_value_load(field, o->target);
    if (!n->values) {
        return hri_value_is_set(field, &value) != n->not ;
    }
    hri_text text = {0};
    hri_value_add(field, &value, &text);
    const bool met = text.failed || is_one_of(hri_text_get(&text), n->values, n->values_length);
    hri_text_deinit(&text);
    return met;
}

/* "without --schedule step", "with --problem", "with --no-save" */
static void say_need(const hri_options *o, const need *n, bool first, hri_text *out) {
    const hri_field *field = field_of(o, n);
    const bool on = field && field->type == HRI_FIELD_BOOL && !n->not ;
    hri_field_value value = {0};
    if (on && field->value) {
        (void)!hri_value_parse(field, field->name, field->value, NULL, &value, NULL);
    }
    if (first) {
        hri_text_add(out, "%s", n->not || value.truth ? " with " : " without ");
    } else {
        hri_text_add(out, " or ");
    }
    hri_text_add(out, "--%s%.*s", value.truth ? "no-" : "", (int)n->name_length, n->name);
    for (size_t i = 0; i < n->values_length; i++) {
        const char c = n->values[i];
        hri_text_add(out, "%s", i == 0 ? " " : "");
        hri_text_add(out, c == '/' ? " or " : c == '*' ? "" : "%c", c);
    }
}

static bool check_needs(const hri_options *o, const hri_field *field, hri_text *out) {
    bool met = false, first = true;
    hri_text words = {0};
    for (const char *at = field->needs; *at && !met; first = false) {
        const size_t length = strcspn(at, ",");
        const need n = read_need(at, length);
        met = is_met(o, &n);
        say_need(o, &n, first, &words);
        at += length + (at[length] == ',');
    }
    hri_text_add(out, "--%s has no effect%s", field->name, hri_text_get(&words));
    hri_text_deinit(&words);
    return met;
}

void hri_options_ignored(const hri_options *o, void (*say)(void *user, const char *sentence),
                         void *user) {
    for (size_t i = 0; i < o->count; i++) {
        const hri_field *field = &o->fields[i];
        hri_text sentence = {0};
        if (o->repeated[i]) {
            hri_text_add(&sentence, "--%s is given more than once; the last one counts",
                         field->name);
            say(user, hri_text_get(&sentence));
            hri_text_clear(&sentence);
        }
        const bool given = o->origins[i] == HRI_ORIGIN_FLAG || o->origins[i] == HRI_ORIGIN_TEXT;
        if (given && field->needs && !check_needs(o, field, &sentence)) {
            say(user, hri_text_get(&sentence));
        }
        hri_text_deinit(&sentence);
    }
}
