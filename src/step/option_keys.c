/* Keys of --options that are flags; see option_keys.h. */
#include "step/option_keys.h"

#include <string.h>

#include "step/options.h"

/* The option of training that a flag of the same name sets.  steps is not one: the flag's are of the run, the key's of a
 * cosine. */
static const hri_field *shared_field(const hri_options *o, const char *key, size_t length) {
    for (const hri_field *f = hri_train_fields; f->name; f++) {
        const bool named =
            (strlen(f->name) == length && !strncmp(f->name, key, length)) ||
            (f->alias && strlen(f->alias) == length && !strncmp(f->alias, key, length));
        if (named && strcmp(f->name, "steps") != 0) {
            return hri_options_field(o, f->name);
        }
    }
    return NULL;
}

/* One "key=value" or "key". */
static hr_status settle_piece(hri_options *o, const char *piece, size_t length, hri_text *left,
                              hri_prose *why) {
    const char *equals = memchr(piece, '=', length);
    const size_t key = equals ? (size_t)(equals - piece) : length;
    const hri_field *field = shared_field(o, piece, key);
    if (!field) {
        hri_text_add(left, "%s%.*s", left->used ? "," : "", (int)length, piece);
        return HR_OK;
    }
    if (hri_options_origin(o, field) != HRI_ORIGIN_DEFAULT) {
        return hri_prose_set(why, HR_E_INVALID, "--options %.*s conflicts with --%s", (int)length,
                             piece, field->name);
    }
    hri_text value = {0};
    hri_text_add(&value, "%.*s", equals ? (int)(length - key - 1) : 4,
                 equals ? equals + 1 : "true");
    hri_prose inner = {""};
    hr_status status = hri_text_status(&value);
    if (status == HR_OK) {
        status = hri_options_set(o, field->name, hri_text_get(&value), HRI_ORIGIN_TEXT, &inner);
    }
    hri_text_deinit(&value);
    return status == HR_OK ? HR_OK : hri_prose_set(why, status, "--options: %s", inner.text);
}

hr_status hri_train_keys_settle(hri_options *o, hri_prose *why) {
    hri_text left = {0};
    hr_status status = HR_OK;
    const hri_field *row = hri_options_field(o, "options");
    hri_text given = {0};
    hri_field_add(row, o->target, &given);
    const char *at = hri_text_get(&given);
    while (*at && status == HR_OK) {
        size_t n = 0;
        while (at[n] && at[n] != ',') {
            n += at[n] == '\\' && at[n + 1] ? 2 : 1;
        }
        status = settle_piece(o, at, n, &left, why);
        at += n + (at[n] == ',');
    }
    if (status == HR_OK &&
        (given.failed || strcmp(hri_text_get(&given), hri_text_get(&left)) != 0)) {
        status = given.failed ? HR_E_NOMEM_HOST : hri_text_status(&left);
        if (status == HR_OK) {
            status = hri_options_set(o, "options", hri_text_get(&left), HRI_ORIGIN_TEXT, why);
        }
    }
    hri_text_deinit(&left);
    hri_text_deinit(&given);
    return status;
}

void hri_train_keys_add(const hri_field *fields, const void *flags, hri_text *out) {
    const hri_options o = {.fields = fields, .count = hri_fields_count(fields)};
    for (const hri_field *f = hri_train_fields; f->name; f++) {
        const hri_field *flag = shared_field(&o, f->name, strlen(f->name));
        if (!flag) {
            continue;
        }
        hri_text value = {0};
        hri_field_add(flag, flags, &value);
        const bool off = flag->type == HRI_FIELD_BOOL && !strcmp(hri_text_get(&value), "false");
        if (!off && !hri_field_is_word(flag, flags)) {
            hri_text_add(out, "%s%s=%s", out->used ? "," : "", f->name, hri_text_get(&value));
        }
        out->failed |= value.failed;
        hri_text_deinit(&value);
    }
}

/* In the order in which they are applied; `first` is the key that the text of the flag begins with the value of. */
static const struct {
    const char *name, *first;
} passes[] = {{"freeze", "layers="},  {"layer-rates", "rates="}, {"lora", ""},
              {"prune", "sparsity="}, {"qat", "begin="},         {"ema", "decay="}};

void hri_train_passes_add(const hri_field *fields, const void *flags, hri_text *out) {
    const hri_options o = {.fields = fields, .count = hri_fields_count(fields)};
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        const hri_field *flag = hri_options_field(&o, passes[i].name);
        hri_text text = {0};
        if (flag) {
            hri_field_add(flag, flags, &text);
        }
        if (text.used) {
            hri_text_add(out, "%s%s:%s%s", out->used ? ";" : "", passes[i].name, passes[i].first,
                         hri_text_get(&text));
        }
        out->failed |= text.failed;
        hri_text_deinit(&text);
    }
}
