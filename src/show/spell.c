/* The two languages of spell.h. */
#include "show/spell.h"

#include <string.h>

/* Options whose flags have other names. */
static const struct {
    const char *option, *flag;
} others[] = {{"split_norm", "ghost-norm"},     {"val_split", "val-split"},
              {"val_batch", "val-batch"},       {"micro_batches", "micro-batches"},
              {"no_offload", "offload"},        {"data_budget_bytes", "data-budget"},
              {"device_spec", "device-spec"},   {"host_budget", "host-budget"},
              {"val_data", "val-data"},         {"plan_file", "load"},
              {"gpu_choices", "choices"},       {"folder", "out"},
              {"folder=none", "no-save"},       {"start=resume", "resume"},
              {"start=overwrite", "overwrite"}, {"link", "net"}};

static const char *flag_of(const char *option, size_t bytes) {
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strlen(others[i].option) == bytes && !strncmp(others[i].option, option, bytes)) {
            return others[i].flag;
        }
    }
    return NULL; /* its own name */
}

/* Where the value is another word too. */
static const char *value_of(const hri_way_change *c) {
    return !strcmp(c->key, "split_norm")      ? "true"
           : !strcmp(c->key, "no_offload")    ? "true"
           : !strcmp(c->key, "micro_batches") ? "auto"
                                              : c->value;
}

void hri_spell_changes(const hri_way_change *changes, size_t count, hri_change *out) {
    for (size_t i = 0; i < count; i++) {
        const char *flag = flag_of(changes[i].key, strlen(changes[i].key));
        out[i] = (hri_change){flag ? flag : changes[i].key, value_of(&changes[i])};
    }
}

hr_status hri_spell_flags(const hri_field *fields, const hri_change *changes, size_t count,
                          hri_text *out) {
    const hri_options o = {.fields = fields, .count = hri_fields_count(fields)};
    for (size_t i = 0; i < count; i++) {
        const hri_field *f = hri_options_field(&o, changes[i].name);
        const bool truth = f && f->type == HRI_FIELD_BOOL;
        const bool off = truth && !strcmp(changes[i].text, "false");
        hri_text_add(out, "%s--%s%s", out->used ? " " : "", off ? "no-" : "", changes[i].name);
        if (!truth) {
            hri_text_add(out, " ");
            hri_text_word(out, changes[i].text);
        }
    }
    return hri_text_status(out);
}

/* "--" and the flag of an option. */
static void add_flag(const char *option, size_t bytes, hri_text *out) {
    const char *flag = flag_of(option, bytes);
    hri_text_add(out, "--%s", flag ? flag : "");
    for (size_t i = 0; !flag && i < bytes; i++) {
        hri_text_bytes(out, option[i] == '_' ? "-" : option + i, 1);
    }
}

/* An option in `backquotes`, with a value or without, as it is typed; 0: it is none.  How many bytes it took. */
static size_t add_quoted(const char *text, hri_text *out) {
    static const char small[] = "abcdefghijklmnopqrstuvwxyz_";
    static const char more[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.";
    const size_t name = strspn(text + 1, small);
    const size_t value = text[1 + name] == '=' ? 1 + strspn(text + 2 + name, more) : 0;
    if (!name || value == 1 || text[1 + name + value] != '`') {
        return 0;
    }
    if (value && flag_of(text + 1, name + value)) {
        add_flag(text + 1, name + value, out);
    } else {
        add_flag(text + 1, name, out);
        hri_text_add(out, "%s%.*s", value ? " " : "", value ? (int)value - 1 : 0, text + 2 + name);
    }
    return name + value + 2;
}

void hri_spell_sentence(const char *text, size_t option_bytes, hri_text *out) {
    if (option_bytes) {
        add_flag(text, option_bytes, out);
    }
    for (text += option_bytes; *text;) {
        const size_t taken = *text == '`' ? add_quoted(text, out) : 0;
        const size_t plain = taken ? 0 : 1 + strcspn(text + 1, "`");
        hri_text_bytes(out, text, plain);
        text += taken + plain;
    }
}
