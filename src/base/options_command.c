/* Options back to a command line: as they are, and with some of them changed. */
#include <string.h>

#include "base/alloc.h"
#include "base/field.h"
#include "base/options.h"

hr_status hri_options_changed(hri_options *o, const hri_field *fields, const void *from,
                              size_t bytes, const hri_change *changes, size_t count, void *to,
                              hri_prose *why) {
    hr_status status = hri_options_init(o, fields, to, why);
    if (status != HR_OK) {
        *o = (hri_options){0};
        return status;
    }
    memcpy(to, from, bytes);
    for (size_t i = 0; i < count && status == HR_OK; i++) {
        const hri_field *field = hri_options_field(o, changes[i].name);
        const char *text = changes[i].text ? changes[i].text : field ? field->value : NULL;
        if (field && !text) {
            hri_value_store(field, &(hri_field_value){0}, to);
        } else {
            status = hri_options_set(o, changes[i].name, text, HRI_ORIGIN_CODE, why);
        }
    }
    if (status != HR_OK) {
        hri_options_deinit(o);
    }
    return status;
}

static void add_flag_of(const hri_field *field, const hri_field_value *value, hri_text *out) {
    if (field->type == HRI_FIELD_BOOL) {
        hri_text_add(out, " --%s%s", value->truth ? "" : "no-", field->name);
        return;
    }
    hri_text text = {0};
    hri_value_add(field, value, &text);
    const char *word = hri_text_get(&text);
    /* a word that begins like a flag would be read as one */
    hri_text_add(out, " --%s%s", field->name, !strncmp(word, "--", 2) ? "=" : " ");
    hri_text_word(out, word);
    out->failed |= text.failed;
    hri_text_deinit(&text);
}

hr_status hri_fields_command(const hri_field *fields, const void *target, hri_text *out) {
    hri_options o;
    hri_prose why;
    void *plain = hri_calloc(1, hri_fields_bytes(fields) + 1);
    if (!plain) {
        return HR_E_NOMEM_HOST;
    }
    hr_status status = hri_options_init(&o, fields, plain, &why);
    if (status != HR_OK) {
        hri_free(plain);
        return status;
    }
    for (const hri_field *f = fields; f->name && status == HR_OK; f++) {
        const hri_field_value is = hri_value_load(f, target), was = hri_value_load(f, plain);
        bool same = false;
        status = hri_value_same(f, &is, &was, &same);
        if (status == HR_OK && !same) {
            add_flag_of(f, &is, out);
        }
    }
    hri_options_deinit(&o);
    hri_free(plain);
    return status == HR_OK ? hri_text_status(out) : status;
}
