/* "key=value,..." texts against a table with a field of every type: whatever the text, a failure leaves the struct as
 * it was, and after a success every value printed is read back to the same value. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct sample {
    bool flag;
    int64_t number;
    double real;
    const char *text;
    uint64_t bytes;
    const char *size;
    int choice;
    hri_list list;
    hri_dims dims;
} sample;

static const char *const choices[] = {"sgd", "adam", "adamw", NULL};
static const hri_field fields[] = {
    {"flag", "a bool", offsetof(sample, flag), HRI_FIELD_BOOL, "no"},
    {"number", "an integer", offsetof(sample, number), HRI_FIELD_INT, "3", .min = -5, .max = 1e6},
    {"real", "a number", offsetof(sample, real), HRI_FIELD_DOUBLE, "0.5"},
    {"text", "a text", offsetof(sample, text), HRI_FIELD_STRING, NULL},
    {"bytes", "a size", offsetof(sample, bytes), HRI_FIELD_BYTES, "1GiB"},
    {"size", "a size or a share", offsetof(sample, size), HRI_FIELD_SIZE, "75%"},
    {"choice", "one of three", offsetof(sample, choice), HRI_FIELD_ENUM, "adam",
     .choices = choices},
    {"list", "a list", offsetof(sample, list), HRI_FIELD_LIST, NULL},
    {"dims", "a shape", offsetof(sample, dims), HRI_FIELD_DIMS, "2x3"},
    {0}};

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

/* Each value, printed and set again on a second struct, prints the same.  Lists are left out: an item may hold what
 * splits items. */
static void check_read_back(const hri_options *o) {
    sample other;
    hri_options second;
    must(hri_options_init(&second, fields, &other, NULL) == HR_OK);
    for (const hri_field *f = fields; f->name; f++) {
        char first[512], again[512];
        if (f->type == HRI_FIELD_LIST ||
            hri_options_print(o, f, first, sizeof first) >= sizeof first) {
            continue;
        }
        if (hri_options_origin(o, f) == HRI_ORIGIN_DEFAULT) {
            continue;
        }
        must(hri_options_set(&second, f->name, first, HRI_ORIGIN_CODE, NULL) == HR_OK);
        hri_options_print(&second, f, again, sizeof again);
        must(strcmp(first, again) == 0);
    }
    hri_options_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sample s, before;
    hri_options o;
    memset(&s, 0, sizeof s);
    char *text = malloc(size + 1);
    if (!text) {
        return 0;
    }
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = 0;
    must(hri_options_init(&o, fields, &s, NULL) == HR_OK);
    memcpy(&before, &s, sizeof s);
    if (hri_options_set_text(&o, text, NULL) == HR_OK) {
        check_read_back(&o);
    } else {
        must(memcmp(&before, &s, sizeof s) == 0);
    }
    hri_options_deinit(&o);
    free(text);
    return 0;
}
