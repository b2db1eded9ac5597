/* Setting options from their four sources: defaults, "key=value" text, environment, command line.
 *
 * Every setter first reads all it was given into a batch of values beside the target, and only when
 * nothing is left that can fail copies them over: on failure the batch is dropped and the arena goes
 * back to where it was.  A value given before stays in the arena until the options die; a program sets its
 * options a handful of times. */
#include "base/options.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/field.h"
#include "base/nearest.h"

/* Values read but not yet set: one place a field. */
typedef struct batch {
    hri_options *o;
    hri_field_value *values;
    bool *given, *repeated;
    hri_arena_mark mark;
} batch;

static hr_status batch_init(batch *b, hri_options *o, hri_prose *why) {
    *b = (batch){.o = o, .mark = hri_arena_get_mark(&o->arena)};
    b->values = hri_calloc(o->count, sizeof *b->values);
    b->given = hri_calloc(o->count, sizeof *b->given);
    b->repeated = hri_calloc(o->count, sizeof *b->repeated);
    if (!b->values || !b->given || !b->repeated) {
        hri_free(b->values);
        hri_free(b->given);
        hri_free(b->repeated);
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory while reading the options");
    }
    return HR_OK;
}

/* Joins the items of two readings of one list. */
static hr_status join_lists(hri_arena *arena, const hri_list *more, hri_list *list) {
    const size_t count = list->count + more->count;
    const char **items = HRI_ARENA_ARRAY(arena, const char *, count);
    if (!items) {
        return HR_E_NOMEM_HOST;
    }
    for (size_t i = 0; i < count; i++) {
        items[i] = i < list->count ? list->items[i] : more->items[i - list->count];
    }
    *list = (hri_list){items, count};
    return HR_OK;
}

/* A flag given again: its last value is taken, which is remembered; one that may be given once is refused. */
static hr_status give_again(batch *b, size_t at, const char *label, const hri_field_value *value,
                            hri_prose *why) {
    const hri_field *field = &b->o->fields[at];
    bool same = false;
    if (field->once) {
        return hri_prose_set(why, HR_E_INVALID, "%s is given twice", label);
    }
    const hr_status status = hri_value_same(field, &b->values[at], value, &same);
    b->repeated[at] |= !same;
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "%s: out of memory", label);
}

/* Reads one value into the batch; a list given again grows. */
static hr_status batch_add(batch *b, const hri_field *field, const char *label, const char *text,
                           hri_prose *why) {
    const size_t at = (size_t)(field - b->o->fields);
    hri_field_value value;
    hr_status status = hri_value_parse(field, label, text, &b->o->arena, &value, why);
    if (status != HR_OK) {
        return status;
    }
    if (field->type == HRI_FIELD_LIST && b->given[at]) {
        status = join_lists(&b->o->arena, &value.list, &b->values[at].list);
        if (status != HR_OK) {
            return hri_prose_set(why, status, "%s: out of memory", label);
        }
        value = b->values[at];
    } else if (field->many && b->given[at]) {
        value.text = hri_arena_printf(&b->o->arena, "%s\n%s", b->values[at].text, value.text);
        if (!value.text) {
            return hri_prose_set(why, HR_E_NOMEM_HOST, "%s: out of memory", label);
        }
    } else if (b->given[at]) {
        status = give_again(b, at, label, &value, why);
        if (status != HR_OK) {
            return status;
        }
    }
    if (field->type != HRI_FIELD_LIST) {
        status = hri_value_check(field, label, &value, why);
    }
    b->values[at] = value;
    b->given[at] = status == HR_OK;
    return status;
}

/* Sets what the batch holds, or drops it when `status` is a failure; frees it in any case. */
static hr_status batch_end(batch *b, hr_status status, hri_origin origin, const char *dashes,
                           hri_prose *why) {
    hri_options *o = b->o;
    for (size_t i = 0; status == HR_OK && i < o->count; i++) {
        const hri_field *field = &o->fields[i];
        if (b->given[i] && field->type == HRI_FIELD_LIST) {
            hri_prose inner = {""};
            status = hri_value_check(field, field->name, &b->values[i], &inner);
            if (status != HR_OK) {
                hri_prose_set(why, status, "%s%s", dashes, inner.text);
            }
        }
    }
    if (status != HR_OK) {
        hri_arena_release(&o->arena, b->mark);
    }
    for (size_t i = 0; status == HR_OK && i < o->count; i++) {
        if (b->given[i]) {
            hri_value_store(&o->fields[i], &b->values[i], o->target);
            o->origins[i] = (unsigned char)origin;
            o->repeated[i] = b->repeated[i];
        }
    }
    hri_free(b->values);
    hri_free(b->given);
    hri_free(b->repeated);
    return status;
}

/* ---- finding ---- */

size_t hri_fields_count(const hri_field *fields) {
    size_t count = 0;
    while (fields[count].name) {
        count++;
    }
    return count;
}

/* Names match with '_' for '-': both are written by people. */
static bool same_name(const char *name, const char *text, size_t length) {
    for (size_t i = 0; i < length; i++) {
        const char c = text[i] == '_' ? '-' : text[i];
        const char n = name[i] == '_' ? '-' : name[i];
        if (!n || c != n) {
            return false;
        }
    }
    return name[length] == '\0';
}

static const hri_field *find(const hri_options *o, const char *name, size_t length) {
    for (size_t i = 0; i < o->count; i++) {
        const char *alias = o->fields[i].alias;
        if (same_name(o->fields[i].name, name, length) ||
            (alias && same_name(alias, name, length))) {
            return &o->fields[i];
        }
    }
    return NULL;
}

const hri_field *hri_options_field(const hri_options *o, const char *name) {
    return find(o, name, strlen(name));
}

static hr_status unknown(const hri_options *o, const char *kind, const char *dashes,
                         const char *name, size_t length, hri_prose *why) {
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(length < 60 ? length : 60), name);
    const char *near =
        o->count ? hri_nearest(word, &o->fields[0].name, o->count, sizeof o->fields[0]) : NULL;
    if (near) {
        return hri_prose_set(why, HR_E_NOT_FOUND, "unknown %s %s%s; did you mean %s%s?", kind,
                             dashes, word, dashes, near);
    }
    char all[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < o->count && used < sizeof all; i++) {
        used += (size_t)snprintf(all + used, sizeof all - used, "%s%s%s", i ? ", " : "", dashes,
                                 o->fields[i].name);
    }
    return hri_prose_set(why, HR_E_NOT_FOUND, "unknown %s %s%s; there %s %s", kind, dashes, word,
                         o->count == 1 ? "is" : "are", o->count ? all : "none");
}

/* ---- defaults, one value, environment ---- */

hr_status hri_options_init(hri_options *o, const hri_field *fields, void *target, hri_prose *why) {
    hri_options made = {.fields = fields, .count = hri_fields_count(fields), .target = target};
    hri_arena_init(&made.arena, 1024);
    made.origins = hri_calloc(made.count, sizeof *made.origins);
    made.repeated = hri_calloc(made.count, sizeof *made.repeated);
    if (!made.origins || !made.repeated) {
        hri_options_deinit(&made);
        return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory while reading the options");
    }
    batch b;
    hr_status status = batch_init(&b, &made, why);
    if (status == HR_OK) {
        for (size_t i = 0; status == HR_OK && i < made.count; i++) {
            if (fields[i].value) {
                status = batch_add(&b, &fields[i], fields[i].name, fields[i].value, why);
            }
        }
        status = batch_end(&b, status, HRI_ORIGIN_DEFAULT, "", why);
    }
    if (status != HR_OK) {
        hri_options_deinit(&made);
        return status == HR_E_NOMEM_HOST ? status : HR_E_INTERNAL;
    }
    for (size_t i = 0; i < made.count; i++) {
        if (!fields[i].value) {
            hri_value_store(&fields[i], &(hri_field_value){0}, target);
        }
    }
    *o = made;
    return HR_OK;
}

void hri_options_deinit(hri_options *o) {
    hri_arena_deinit(&o->arena);
    hri_free(o->origins);
    hri_free(o->repeated);
    *o = (hri_options){0};
}

hr_status hri_options_set(hri_options *o, const char *name, const char *text, hri_origin origin,
                          hri_prose *why) {
    const hri_field *field = hri_options_field(o, name);
    if (!field) {
        return unknown(o, "option", "", name, strlen(name), why);
    }
    batch b;
    hr_status status = batch_init(&b, o, why);
    if (status == HR_OK) {
        status = batch_add(&b, field, field->name, text, why);
        status = batch_end(&b, status, origin, "", why);
    }
    return status;
}

hr_status hri_options_set_env(hri_options *o, hri_prose *why) {
    batch b;
    hr_status status = batch_init(&b, o, why);
    if (status != HR_OK) {
        return status;
    }
    for (size_t i = 0; status == HR_OK && i < o->count; i++) {
        const hri_field *field = &o->fields[i];
        const char *text = field->env ? getenv(field->env) : NULL;
        if (text && *text) {
            status = batch_add(&b, field, field->env, text, why);
        }
    }
    return batch_end(&b, status, HRI_ORIGIN_ENV, "", why);
}

/* ---- "key=value,key=value" ---- */

/* Bytes up to the next comma that is not escaped, or the end. */
static size_t piece_length(const char *p) {
    size_t n = 0;
    while (p[n] && p[n] != ',') {
        n += p[n] == '\\' && p[n + 1] ? 2 : 1;
    }
    return n;
}

/* A copy of a piece's value; escapes are resolved but for lists, which resolve them item by item. */
static char *copy_value(hri_arena *arena, const hri_field *field, const char *text, size_t length) {
    char *copy = hri_arena_strndup(arena, text, length);
    if (copy && field->type != HRI_FIELD_LIST) {
        size_t kept = 0;
        for (size_t at = 0; at < length; at++) {
            at += copy[at] == '\\' && at + 1 < length;
            copy[kept++] = copy[at];
        }
        copy[kept] = '\0';
    }
    return copy;
}

/* One piece.  `list` is the list field that the piece before belonged to, if any. */
static hr_status add_piece(batch *b, const char *piece, size_t length, const hri_field **list,
                           hri_prose *why) {
    const char *equals = memchr(piece, '=', length);
    const hri_field *field = NULL;
    const char *value = "true";
    size_t value_length = strlen(value);
    if (!equals && *list) {
        field = *list;
        value = piece;
        value_length = length;
    } else {
        const size_t key_length = equals ? (size_t)(equals - piece) : length;
        field = find(b->o, piece, key_length);
        if (!field) {
            return unknown(b->o, "option", "", piece, key_length, why);
        }
        if (b->given[field - b->o->fields]) {
            return hri_prose_set(why, HR_E_INVALID, "%s is given twice", field->name);
        }
        if (equals) {
            value = equals + 1;
            value_length = length - key_length - 1;
        } else if (field->type != HRI_FIELD_BOOL) {
            return hri_prose_set(why, HR_E_INVALID, "%s: missing value (%s=...)", field->name,
                                 field->name);
        }
    }
    *list = field->type == HRI_FIELD_LIST ? field : NULL;
    char *copy = copy_value(&b->o->arena, field, value, value_length);
    if (!copy) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "%s: out of memory", field->name);
    }
    return batch_add(b, field, field->name, copy, why);
}

hr_status hri_options_set_text(hri_options *o, const char *text, hri_prose *why) {
    batch b;
    hr_status status = batch_init(&b, o, why);
    if (status != HR_OK) {
        return status;
    }
    const hri_field *list = NULL;
    const char *p = text;
    while (status == HR_OK && *p) {
        const size_t length = piece_length(p);
        if (length == 0 || (p[length] == ',' && !p[length + 1])) {
            status = hri_prose_set(why, HR_E_INVALID, "\"%s\" has an empty item", text);
            break;
        }
        status = add_piece(&b, p, length, &list, why);
        p += length + (p[length] == ',');
    }
    return batch_end(&b, status, HRI_ORIGIN_TEXT, "", why);
}

/* ---- the command line ---- */

typedef struct arguments {
    batch *batch;
    int argc, at;
    char *const *argv;
    hri_prose *why;
} arguments;

/* The value of a flag whose own argument held none: the next argument, unless that is a flag. */
static const char *next_value(arguments *a) {
    if (a->at + 1 >= a->argc || !strncmp(a->argv[a->at + 1], "--", 2)) {
        return NULL;
    }
    return a->argv[++a->at];
}

static hr_status add_flag(arguments *a, const hri_field *field, const char *label,
                          const char *value) {
    if (!value && field->type == HRI_FIELD_BOOL) {
        value = "true";
    }
    if (!value) {
        value = next_value(a);
    }
    if (!value) {
        return hri_prose_set(a->why, HR_E_INVALID, "%s: missing value", label);
    }
    return batch_add(a->batch, field, label, value, a->why);
}

static hr_status long_flag(arguments *a) {
    const hri_options *o = a->batch->o;
    const char *name = a->argv[a->at] + 2;
    const char *equals = strchr(name, '=');
    const size_t length = equals ? (size_t)(equals - name) : strlen(name);
    char label[64];
    snprintf(label, sizeof label, "--%.*s", (int)(length < 60 ? length : 60), name);
    const hri_field *field = find(o, name, length);
    if (!field && length > 3 && !strncmp(name, "no-", 3)) {
        field = find(o, name + 3, length - 3);
        if (field && field->type == HRI_FIELD_BOOL) {
            return equals ? hri_prose_set(a->why, HR_E_INVALID, "%s does not take a value", label)
                          : batch_add(a->batch, field, label, "false", a->why);
        }
        field = NULL;
    }
    if (!field) {
        return unknown(o, "flag", "--", name, length, a->why);
    }
    return add_flag(a, field, label, equals ? equals + 1 : NULL);
}

/* -n 3, -n3, -v, -vq: letters of bools may stand together. */
static hr_status short_flags(arguments *a) {
    const hri_options *o = a->batch->o;
    const char *p = a->argv[a->at] + 1;
    for (; *p; p++) {
        const hri_field *field = NULL;
        for (size_t i = 0; i < o->count && !field; i++) {
            field = o->fields[i].letter == *p ? &o->fields[i] : NULL;
        }
        const char label[3] = {'-', *p, '\0'};
        if (!field) {
            return hri_prose_set(a->why, HR_E_NOT_FOUND, "unknown flag %s", label);
        }
        if (field->type != HRI_FIELD_BOOL) {
            return add_flag(a, field, label, p[1] ? p + 1 : NULL);
        }
        const hr_status status = batch_add(a->batch, field, label, "true", a->why);
        if (status != HR_OK) {
            return status;
        }
    }
    return HR_OK;
}

hr_status hri_options_set_argv(hri_options *o, int argc, char *const *argv, hri_list *rest,
                               hri_prose *why) {
    batch b;
    hr_status status = batch_init(&b, o, why);
    if (status != HR_OK) {
        return status;
    }
    const char **left = HRI_ARENA_ARRAY(&o->arena, const char *, argc > 0 ? (size_t)argc : 1);
    if (!left) {
        status = hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory while reading the options");
    }
    size_t left_count = 0;
    arguments a = {.batch = &b, .argc = argc, .at = 1, .argv = argv, .why = why};
    bool flags = true;
    for (; status == HR_OK && a.at < argc; a.at++) {
        const char *argument = argv[a.at];
        if (!flags || argument[0] != '-' || !argument[1]) {
            left[left_count++] = argument;
        } else if (!strcmp(argument, "--")) {
            flags = false;
        } else {
            status = argument[1] == '-' ? long_flag(&a) : short_flags(&a);
        }
    }
    status = batch_end(&b, status, HRI_ORIGIN_FLAG, "--", why);
    if (status == HR_OK) {
        *rest = (hri_list){left, left_count};
    }
    return status;
}

/* ---- asking ---- */

hri_origin hri_options_origin(const hri_options *o, const hri_field *field) {
    return (hri_origin)o->origins[field - o->fields];
}

const char *hri_origin_name(hri_origin origin) {
    static const char *const names[] = {"default", "file", "environment", "flag", "text", "code"};
    return (size_t)origin < sizeof names / sizeof names[0] ? names[origin] : "unknown";
}

size_t hri_options_print(const hri_options *o, const hri_field *field, char *buf, size_t size) {
    const hri_field_value value = hri_value_load(field, o->target);
    return hri_value_print(field, &value, buf, size);
}

bool hri_field_is_word(const hri_field *field, const void *target) {
    const hri_field_value value = hri_value_load(field, target);
    return hri_value_is_word(field, &value);
}

void hri_field_add(const hri_field *field, const void *target, hri_text *out) {
    const hri_field_value value = hri_value_load(field, target);
    hri_value_add(field, &value, out);
}
