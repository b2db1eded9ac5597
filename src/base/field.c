/* Values of the option table.
 *
 * What is read must be the whole text: "12abc" is not 12.  Numbers are read and printed in the C locale
 * whatever the program has set, because options travel in files and scripts.  Printing gives text that
 * reads back to the same value. */
#include "base/field.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <headroom/bytes.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "base/number.h"

static hr_status no_memory(const char *label, hri_prose *why) {
    return hri_prose_set(why, HR_E_NOMEM_HOST, "%s: out of memory", label);
}

static hr_status not_a(const char *label, const char *text, const char *what, hri_prose *why) {
    return hri_prose_set(why, HR_E_INVALID, "%s: \"%s\" is not %s", label, text, what);
}

static hr_status parse_bool(const char *label, const char *text, bool *out, hri_prose *why) {
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!strcasecmp(text, words[i])) {
            *out = i % 2;
            return HR_OK;
        }
    }
    return not_a(label, text, "true or false", why);
}

static hr_status parse_int(const char *label, const char *text, const char *end_text, int64_t *out,
                           hri_prose *why) {
    const char first = text[0] == '-' || text[0] == '+' ? text[1] : text[0];
    char *end = NULL;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (first < '0' || first > '9' || end != end_text) {
        return not_a(label, text, "an integer", why);
    }
    if (errno == ERANGE) {
        return hri_prose_set(why, HR_E_RANGE, "%s: %s does not fit in 64 bits", label, text);
    }
    *out = value;
    return HR_OK;
}

static hr_status parse_double(const char *label, const char *text, double *out, hri_prose *why) {
    char *end = NULL;
    errno = 0;
    const double value = hri_strtod(text, &end);
    if (end == text || *end || text[0] == ' ' || isnan(value)) {
        return not_a(label, text, "a number", why);
    }
    if (errno == ERANGE && isinf(value)) {
        return hri_prose_set(why, HR_E_RANGE, "%s: %s is too large", label, text);
    }
    *out = value;
    return HR_OK;
}

/* For BYTES (whole 0) and SIZE. */
static hr_status parse_bytes(const char *label, const char *text, uint64_t whole, uint64_t *out,
                             hri_prose *why) {
    switch (hr_bytes_parse(text, whole, out)) {
    case HR_OK:
        return HR_OK;
    case HR_E_RANGE:
        return hri_prose_set(why, HR_E_RANGE, "%s: %s is too large", label, text);
    default:
        return not_a(label, text,
                     whole ? "a size such as 8GiB or 75%" : "a size such as 1536MiB or 8GiB", why);
    }
}

static hr_status parse_choice(const hri_field *field, const char *label, const char *text, int *out,
                              hri_prose *why) {
    char all[256] = "";
    size_t length = 0, count = 0;
    for (; field->choices && field->choices[count]; count++) {
        const char *choice = field->choices[count];
        if (!strcasecmp(choice, text)) {
            *out = (int)count;
            return HR_OK;
        }
        if (length < sizeof all) {
            length += (size_t)snprintf(all + length, sizeof all - length, "%s%s", count ? ", " : "",
                                       choice);
        }
    }
    const char *near = hri_nearest(text, field->choices, count, sizeof *field->choices);
    if (near) {
        return hri_prose_set(why, HR_E_INVALID, "%s: \"%s\" is not one of %s; did you mean \"%s\"?",
                             label, text, all, near);
    }
    return hri_prose_set(why, HR_E_INVALID, "%s: \"%s\" is not one of %s", label, text, all);
}

/* The length of the item at `p`, up to a comma that is not escaped or the end. */
static size_t item_length(const char *p) {
    size_t n = 0;
    while (p[n] && p[n] != ',') {
        n += p[n] == '\\' && p[n + 1] ? 2 : 1;
    }
    return n;
}

static hr_status parse_list(const char *label, const char *text, hri_arena *arena, hri_list *out,
                            hri_prose *why) {
    size_t count = 0;
    for (const char *p = text; *p; count++) {
        const size_t n = item_length(p);
        if (n == 0 || (p[n] == ',' && !p[n + 1])) {
            return hri_prose_set(why, HR_E_INVALID, "%s: \"%s\" has an empty item", label, text);
        }
        p += n + (p[n] == ',');
    }
    const char **items = HRI_ARENA_ARRAY(arena, const char *, count);
    if (!items) {
        return no_memory(label, why);
    }
    const char *p = text;
    for (size_t i = 0; i < count; i++) {
        const size_t n = item_length(p);
        char *item = hri_arena_strndup(arena, p, n);
        if (!item) {
            return no_memory(label, why);
        }
        size_t kept = 0;
        for (size_t at = 0; at < n; at++) {
            at += item[at] == '\\' && at + 1 < n;
            item[kept++] = item[at];
        }
        item[kept] = '\0';
        items[i] = item;
        p += n + (p[n] == ',');
    }
    *out = (hri_list){items, count};
    return HR_OK;
}

static hr_status parse_dims(const char *label, const char *text, hri_dims *out, hri_prose *why) {
    hri_dims dims = {0};
    for (const char *p = text; *p;) {
        const size_t n = strcspn(p, "x");
        if (dims.count == HRI_DIMS_MAX) {
            return hri_prose_set(why, HR_E_RANGE, "%s: \"%s\" has more than %d numbers", label,
                                 text, HRI_DIMS_MAX);
        }
        if (n == 0 || (p[n] == 'x' && !p[n + 1])) {
            return not_a(label, text, "a list of integers joined by x", why);
        }
        const hr_status status = parse_int(label, p, p + n, &dims.at[dims.count], NULL);
        if (status == HR_E_INVALID) {
            return not_a(label, text, "a list of integers joined by x", why);
        }
        if (status != HR_OK) {
            return hri_prose_set(why, status, "%s: a number in %s does not fit in 64 bits", label,
                                 text);
        }
        dims.count++;
        p += n + (p[n] == 'x');
    }
    *out = dims;
    return HR_OK;
}

static hr_status copy_text(const char *label, const char *text, hri_arena *arena, const char **out,
                           hri_prose *why) {
    const char *copy = hri_arena_strdup(arena, text);
    if (!copy) {
        return no_memory(label, why);
    }
    *out = copy;
    return HR_OK;
}

hr_status hri_value_parse(const hri_field *field, const char *label, const char *text,
                          hri_arena *arena, hri_field_value *out, hri_prose *why) {
    hri_field_value value = {0};
    hr_status status = HR_OK;
    uint64_t checked;
    switch (field->type) {
    case HRI_FIELD_BOOL:
        status = parse_bool(label, text, &value.truth, why);
        break;
    case HRI_FIELD_INT:
        if (field->word && !strcasecmp(text, field->word)) {
            value.integer = INT64_MIN;
        } else {
            status = parse_int(label, text, text + strlen(text), &value.integer, why);
        }
        break;
    case HRI_FIELD_DOUBLE:
        if (field->word && !strcasecmp(text, field->word)) {
            value.number = NAN;
        } else {
            status = parse_double(label, text, &value.number, why);
        }
        break;
    case HRI_FIELD_BYTES:
        status = parse_bytes(label, text, 0, &value.bytes, why);
        break;
    case HRI_FIELD_ENUM:
        status = parse_choice(field, label, text, &value.choice, why);
        break;
    case HRI_FIELD_LIST:
        status = parse_list(label, text, arena, &value.list, why);
        break;
    case HRI_FIELD_DIMS:
        status = parse_dims(label, text, &value.dims, why);
        break;
    case HRI_FIELD_SIZE:
        status = parse_bytes(label, text, UINT64_MAX, &checked, why);
        if (status == HR_OK) {
            status = copy_text(label, text, arena, &value.text, why);
        }
        break;
    case HRI_FIELD_STRING:
        status = copy_text(label, text, arena, &value.text, why);
        break;
    }
    if (status == HR_OK) {
        *out = value;
    }
    return status;
}

/* A bound or a value for a sentence. */
static void print_amount(hri_field_type type, double amount, char *buf, size_t size) {
    if (type == HRI_FIELD_BYTES) {
        hr_bytes_print(amount >= 0x1p64 ? UINT64_MAX : (uint64_t)amount, buf, size);
    } else if (type == HRI_FIELD_LIST || type == HRI_FIELD_DIMS) {
        hri_snprintf(buf, size, "%.0f item%s", amount, amount == 1 ? "" : "s");
    } else {
        hri_snprintf(buf, size, "%.15g", amount);
    }
}

/* Compares without losing the low digits of large integers: bounds are doubles, values are not. */
static int compare(const hri_field *field, const hri_field_value *value, double bound) {
    switch (field->type) {
    case HRI_FIELD_INT:
        if (bound >= 0x1p63 || bound < -0x1p63) {
            return bound < 0 ? 1 : -1;
        }
        return (value->integer > (int64_t)floor(bound)) - (value->integer < (int64_t)ceil(bound));
    case HRI_FIELD_BYTES:
        if (bound >= 0x1p64 || bound < 0) {
            return bound < 0 ? 1 : -1;
        }
        return (value->bytes > (uint64_t)floor(bound)) - (value->bytes < (uint64_t)ceil(bound));
    case HRI_FIELD_DOUBLE:
        return (value->number > bound) - (value->number < bound);
    case HRI_FIELD_LIST:
        return ((double)value->list.count > bound) - ((double)value->list.count < bound);
    case HRI_FIELD_DIMS:
        return ((double)value->dims.count > bound) - ((double)value->dims.count < bound);
    default:
        return 0;
    }
}

/* The value that stands for the field's word: nobody can type it as a number. */
bool hri_value_is_word(const hri_field *field, const hri_field_value *value) {
    return field->word &&
           (field->type == HRI_FIELD_INT ? value->integer == INT64_MIN
                                         : field->type == HRI_FIELD_DOUBLE && isnan(value->number));
}

/* Items of a list that must be among the choices. */
static hr_status check_items(const hri_field *field, const char *label,
                             const hri_field_value *value, hri_prose *why) {
    int which;
    hr_status status = HR_OK;
    for (size_t i = 0; field->choices && i < value->list.count && status == HR_OK; i++) {
        status = parse_choice(field, label, value->list.items[i], &which, why);
    }
    return status;
}

hr_status hri_value_check(const hri_field *field, const char *label, const hri_field_value *value,
                          hri_prose *why) {
    if (field->type == HRI_FIELD_LIST && check_items(field, label, value, why) != HR_OK) {
        return HR_E_INVALID;
    }
    if ((field->min == 0 && field->max == 0) || hri_value_is_word(field, value)) {
        return HR_OK;
    }
    const bool below = compare(field, value, field->min) < 0;
    if (!below && compare(field, value, field->max) <= 0) {
        return HR_OK;
    }
    char is[64], bound[64];
    print_amount(field->type, below ? field->min : field->max, bound, sizeof bound);
    if (field->type == HRI_FIELD_LIST) {
        print_amount(field->type, (double)value->list.count, is, sizeof is);
    } else if (field->type == HRI_FIELD_DIMS) {
        print_amount(field->type, (double)value->dims.count, is, sizeof is);
    } else if (field->type == HRI_FIELD_BYTES) {
        hr_bytes_print(value->bytes, is, sizeof is);
    } else {
        hri_value_print(field, value, is, sizeof is);
    }
    const bool items = field->type == HRI_FIELD_LIST || field->type == HRI_FIELD_DIMS;
    return hri_prose_set(why, HR_E_RANGE, "%s: %s %s %s %s", label, is, items ? "are" : "is",
                         below ? "below" : "above", bound);
}

bool hri_value_is_set(const hri_field *field, const hri_field_value *value) {
    switch (field->type) {
    case HRI_FIELD_BOOL:
        return value->truth;
    case HRI_FIELD_INT:
        return value->integer != 0 && !hri_value_is_word(field, value);
    case HRI_FIELD_DOUBLE:
        return value->number != 0 && !hri_value_is_word(field, value);
    case HRI_FIELD_BYTES:
        return value->bytes != 0;
    case HRI_FIELD_ENUM:
        return value->choice != 0;
    case HRI_FIELD_LIST:
        return value->list.count > 0;
    case HRI_FIELD_DIMS:
        return value->dims.count > 0;
    case HRI_FIELD_STRING:
    case HRI_FIELD_SIZE:
        break;
    }
    return value->text && value->text[0];
}

/* Bytes of the field's value, in an hri_field_value and in the target alike. */
static size_t stored_bytes(const hri_field *field) {
    switch (field->type) {
    case HRI_FIELD_BOOL:
        return field->wide ? sizeof(int32_t) : sizeof(bool);
    case HRI_FIELD_INT:
        return sizeof(int64_t);
    case HRI_FIELD_DOUBLE:
        return sizeof(double);
    case HRI_FIELD_BYTES:
        return sizeof(uint64_t);
    case HRI_FIELD_ENUM:
        return sizeof(int);
    case HRI_FIELD_LIST:
        return sizeof(hri_list);
    case HRI_FIELD_DIMS:
        return sizeof(hri_dims);
    case HRI_FIELD_STRING:
    case HRI_FIELD_SIZE:
        break;
    }
    return sizeof(const char *);
}

size_t hri_fields_bytes(const hri_field *fields) {
    size_t bytes = 0;
    for (; fields->name; fields++) {
        const size_t end = fields->offset + stored_bytes(fields);
        bytes = end > bytes ? end : bytes;
    }
    return bytes;
}

/* Every member of the union starts at its beginning, so the bytes are the value; but for wide ones. */
void hri_value_store(const hri_field *field, const hri_field_value *value, void *target) {
    char *to = (char *)target + field->offset;
    if (field->wide) {
        const int32_t wide = value->truth;
        memcpy(to, &wide, sizeof wide);
    } else {
        memcpy(to, value, stored_bytes(field));
    }
}

hri_field_value hri_value_load(const hri_field *field, const void *target) {
    const char *from = (const char *)target + field->offset;
    hri_field_value value = {0};
    if (field->wide) {
        int32_t wide = 0;
        memcpy(&wide, from, sizeof wide);
        value.truth = wide != 0;
    } else {
        memcpy(&value, from, stored_bytes(field));
    }
    return value;
}

/* ---- printing ---- */

/* Appends to a buffer of any size, counting what did not fit. */
typedef struct text_out {
    char *buf;
    size_t size, length;
} text_out;

static void put_char(text_out *out, char c) {
    if (out->length + 1 < out->size) {
        out->buf[out->length] = c;
        out->buf[out->length + 1] = '\0';
    }
    out->length++;
}

static void put_text(text_out *out, const char *text) {
    while (*text) {
        put_char(out, *text++);
    }
}

/* The fewest digits that read back to the same double. */
static void put_double(text_out *out, double number) {
    char text[40] = "";
    for (int digits = 1; digits <= 17; digits++) {
        hri_snprintf(text, sizeof text, "%.*g", digits, number);
        if (hri_strtod(text, NULL) == number) {
            break;
        }
    }
    put_text(out, text);
}

static void put_bytes(text_out *out, uint64_t bytes) {
    static const char *const units[] = {"", "KiB", "MiB", "GiB", "TiB", "PiB"};
    size_t at = 0;
    while (at < 5 && bytes && bytes % 1024 == 0) {
        bytes /= 1024;
        at++;
    }
    char text[40];
    snprintf(text, sizeof text, "%llu%s", (unsigned long long)bytes, units[at]);
    put_text(out, text);
}

static void put_list(text_out *out, const hri_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        put_text(out, i ? "," : "");
        for (const char *p = list->items[i]; *p; p++) {
            put_text(out, *p == ',' || *p == '\\' ? "\\" : "");
            put_char(out, *p);
        }
    }
}

static void put_dims(text_out *out, const hri_dims *dims) {
    for (int64_t i = 0; i < dims->count; i++) {
        char text[24];
        snprintf(text, sizeof text, "%s%lld", i ? "x" : "", (long long)dims->at[i]);
        put_text(out, text);
    }
}

size_t hri_value_print(const hri_field *field, const hri_field_value *value, char *buf,
                       size_t size) {
    text_out out = {buf, size, 0};
    char text[24];
    if (size) {
        buf[0] = '\0';
    }
    if (hri_value_is_word(field, value)) {
        put_text(&out, field->word);
        return out.length;
    }
    switch (field->type) {
    case HRI_FIELD_BOOL:
        put_text(&out, value->truth ? "true" : "false");
        break;
    case HRI_FIELD_INT:
        snprintf(text, sizeof text, "%lld", (long long)value->integer);
        put_text(&out, text);
        break;
    case HRI_FIELD_DOUBLE:
        put_double(&out, value->number);
        break;
    case HRI_FIELD_BYTES:
        put_bytes(&out, value->bytes);
        break;
    case HRI_FIELD_ENUM:
        put_text(&out, field->choices[value->choice]);
        break;
    case HRI_FIELD_LIST:
        put_list(&out, &value->list);
        break;
    case HRI_FIELD_DIMS:
        put_dims(&out, &value->dims);
        break;
    case HRI_FIELD_STRING:
    case HRI_FIELD_SIZE:
        put_text(&out, value->text ? value->text : "");
        break;
    }
    return out.length;
}

void hri_value_add(const hri_field *field, const hri_field_value *value, hri_text *out) {
    const size_t length = hri_value_print(field, value, NULL, 0);
    char *text = hri_malloc(length + 1);
    if (!text) {
        out->failed = true;
        return;
    }
    hri_value_print(field, value, text, length + 1);
    hri_text_bytes(out, text, length);
    hri_free(text);
}

hr_status hri_value_same(const hri_field *field, const hri_field_value *a, const hri_field_value *b,
                         bool *same) {
    hri_text one = {0}, other = {0};
    hri_value_add(field, a, &one);
    hri_value_add(field, b, &other);
    *same = !strcmp(hri_text_get(&one), hri_text_get(&other));
    const hr_status status = one.failed || other.failed ? HR_E_NOMEM_HOST : HR_OK;
    hri_text_deinit(&one);
    hri_text_deinit(&other);
    return status;
}
