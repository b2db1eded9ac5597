/* Pages from the option table: lines for --help, rows for the reference. */
#include "base/options.h"

#include <stdio.h>
#include <string.h>

#include <headroom/bytes.h>

enum { FLAG_COLUMNS = 26, LEAST_WIDTH = 40, LEAST_TEXT = 24 };

static bool is_true(const hri_field *field) {
    return field->type == HRI_FIELD_BOOL && field->value && strchr("tTyY1", field->value[0]);
}

static const char *metavar(const hri_field *field, char *buf, size_t size) {
    static const char *const names[] = {
        [HRI_FIELD_BOOL] = "",       [HRI_FIELD_INT] = "N",       [HRI_FIELD_DOUBLE] = "X",
        [HRI_FIELD_STRING] = "TEXT", [HRI_FIELD_BYTES] = "SIZE",  [HRI_FIELD_SIZE] = "SIZE",
        [HRI_FIELD_ENUM] = "CHOICE", [HRI_FIELD_LIST] = "A,B,..", [HRI_FIELD_DIMS] = "AxBx..",
    };
    if (field->metavar || field->type != HRI_FIELD_ENUM) {
        return field->metavar ? field->metavar : names[field->type];
    }
    size_t used = 0;
    for (size_t i = 0; field->choices && field->choices[i]; i++) {
        used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? "|" : "", field->choices[i]);
        if (used >= size) {
            return names[HRI_FIELD_ENUM];
        }
    }
    return buf;
}

/* "--batch N" */
static void print_flag(const hri_field *field, char *buf, size_t size) {
    char choices[28] = "";
    const char *meta = metavar(field, choices, sizeof choices);
    snprintf(buf, size, "--%s%s%s%s", is_true(field) ? "[no-]" : "", field->name, *meta ? " " : "",
             meta);
}

/* What stands in brackets behind the help: choices that the flag does not show, default, variable. */
static void print_extras(const hri_field *field, char *buf, size_t size) {
    char choices[28] = "";
    size_t used = 0;
    buf[0] = '\0';
    const char *separator = " (";
    if (field->type == HRI_FIELD_ENUM && metavar(field, choices, sizeof choices) != choices) {
        for (size_t i = 0; field->choices && field->choices[i] && used < size; i++) {
            used += (size_t)snprintf(buf + used, size - used, "%s%s", i ? ", " : separator,
                                     field->choices[i]);
        }
        separator = "; ";
    }
    if (field->alias && used < size) {
        used += (size_t)snprintf(buf + used, size - used, "%salso --%s", separator, field->alias);
        separator = "; ";
    }
    const bool plain_bool = field->type == HRI_FIELD_BOOL && !is_true(field);
    if (field->value && *field->value && !plain_bool && used < size) {
        used += (size_t)snprintf(buf + used, size - used, "%sdefault %s", separator, field->value);
        separator = "; ";
    }
    if (field->env && used < size) {
        used += (size_t)snprintf(buf + used, size - used, "%s%s", separator, field->env);
        separator = "; ";
    }
    if (separator[0] == ';' && used < size) {
        snprintf(buf + used, size - used, ")");
    }
}

/* Words of `text` between `column` and `width`, from a cursor that stands at `at`. */
static void wrap(const char *text, size_t at, size_t column, size_t width, hri_out *out) {
    bool first = true;
    for (const char *p = text; *p;) {
        const size_t word = strcspn(p, " ");
        if (!first && at + 1 + word > width) {
            hri_out_text(out, "\n");
            hri_out_pad(out, column);
            at = column;
            first = true;
        }
        hri_out_text(out, first ? "" : " ");
        hri_out_bytes(out, p, word);
        at += word + !first;
        first = false;
        p += word;
        p += strspn(p, " ");
    }
    hri_out_text(out, "\n");
}

void hri_options_help(const hri_field *fields, size_t width, hri_out *out) {
    width = width == 0 ? 80 : width < LEAST_WIDTH ? LEAST_WIDTH : width;
    const size_t column = width < FLAG_COLUMNS + LEAST_TEXT ? 8 : FLAG_COLUMNS;
    for (const hri_field *field = fields; field->name; field++) {
        char flag[128], extras[512], text[1024];
        print_flag(field, flag, sizeof flag);
        print_extras(field, extras, sizeof extras);
        snprintf(text, sizeof text, "%s%s", field->help ? field->help : "", extras);
        char letter[8] = "     ";
        if (field->letter) {
            snprintf(letter, sizeof letter, " -%c, ", field->letter);
        }
        hri_out_printf(out, " %s%s", letter, flag);
        size_t at = 1 + strlen(letter) + strlen(flag);
        if (at + 2 > column) {
            hri_out_text(out, "\n");
            at = 0;
        }
        hri_out_pad(out, column - at);
        wrap(text, column, column, width, out);
    }
}

/* A cell of a Markdown table: bars are escaped. */
static void print_cell(const char *text, hri_out *out) {
    for (; *text; text++) {
        hri_out_text(out, *text == '|' ? "\\" : "");
        hri_out_bytes(out, text, 1);
    }
}

static void print_range(const hri_field *field, hri_out *out) {
    if (field->min == 0 && field->max == 0) {
        return;
    }
    if (field->type == HRI_FIELD_BYTES) {
        char min[32], max[32];
        hri_out_printf(
            out, "%s to %s", hr_bytes_print((uint64_t)field->min, min, sizeof min),
            field->max >= 0x1p64 ? "any" : hr_bytes_print((uint64_t)field->max, max, sizeof max));
    } else {
        hri_out_printf(out, "%.15g to %.15g", field->min, field->max);
    }
}

void hri_options_reference(const hri_field *fields, hri_out *out) {
    hri_out_text(out, "| option | meaning | default | range | variable |\n|---|---|---|---|---|\n");
    for (const hri_field *field = fields; field->name; field++) {
        char flag[128];
        print_flag(field, flag, sizeof flag);
        hri_out_text(out, "| `");
        print_cell(flag, out);
        hri_out_text(out, "` | ");
        print_cell(field->help ? field->help : "", out);
        if (field->alias) {
            hri_out_printf(out, " (also `--%s`)", field->alias);
        }
        hri_out_text(out, " | ");
        print_cell(field->value ? field->value : "", out);
        hri_out_text(out, " | ");
        print_range(field, out);
        hri_out_printf(out, " | %s |\n", field->env ? field->env : "");
    }
}
