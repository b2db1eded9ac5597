/* The two layouts of table.h. */
#include "base/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/alloc.h"
#include "base/number.h"
#include "base/visible.h"
#include "base/wrap.h"

enum { GAP = 2, CELL_BYTES = 512, LEAST_TEXT = 28 };

void hri_table_init(hri_table *table, const char *const *headings, size_t count) {
    memset(table, 0, sizeof *table);
    table->column_count = count < HRI_TABLE_COLUMNS ? count : HRI_TABLE_COLUMNS;
    for (size_t i = 0; i < table->column_count; i++) {
        table->right[i] = headings[i][0] == '>';
        table->headings[i] = headings[i] + table->right[i];
    }
}

void hri_table_deinit(hri_table *table) {
    for (size_t i = 0; i < table->used; i++) {
        hri_free(table->cells[i].text);
    }
    hri_free(table->cells);
    memset(table, 0, sizeof *table);
}

void hri_table_cell(hri_table *table, hri_style style, const char *format, ...) {
    if (table->used == table->room) {
        const size_t room = table->room ? table->room * 2 : 64;
        hri_table_item *cells = hri_realloc(table->cells, room * sizeof *cells);
        if (!cells) {
            table->failed = 1;
            return;
        }
        table->cells = cells;
        table->room = room;
    }
    char raw[CELL_BYTES], clean[CELL_BYTES];
    va_list args;
    va_start(args, format);
    hri_vsnprintf(raw, sizeof raw, format, args);
    va_end(args);
    char *text = hri_strdup(hri_visible(raw, clean, sizeof clean));
    if (!text) {
        table->failed = 1;
        return;
    }
    table->cells[table->used++] = (hri_table_item){text, style};
}

static const char *start_of(const hri_term *term, const hri_table_item *cell) {
    return cell->style == HRI_STYLE_PLAIN ? "" : hri_term_style(term, cell->style);
}

static const char *end_of(const hri_term *term, const hri_table_item *cell) {
    return cell->style == HRI_STYLE_PLAIN ? "" : hri_term_style(term, HRI_STYLE_PLAIN);
}

/* One styled cell, padded to `width` unless it ends the line. */
static void print_cell(const hri_table_item *cell, hri_out *out, const hri_term *term, size_t width,
                       int right, int last) {
    const size_t columns = hri_term_columns(cell->text);
    const size_t pad = width > columns ? width - columns : 0;
    hri_out_pad(out, right ? pad : 0);
    hri_out_text(out, start_of(term, cell));
    hri_out_text(out, cell->text);
    hri_out_text(out, end_of(term, cell));
    hri_out_pad(out, right || last ? 0 : pad);
}

static void print_columns(const hri_table *table, hri_out *out, const hri_term *term, size_t indent,
                          int heads, const size_t *widths) {
    const size_t count = table->column_count;
    if (heads) {
        hri_out_pad(out, indent);
        for (size_t c = 0; c < count; c++) {
            const hri_table_item head = {(char *)table->headings[c], HRI_STYLE_DIM};
            hri_out_pad(out, c ? GAP : 0);
            print_cell(&head, out, term, widths[c], table->right[c], c + 1 == count);
        }
        hri_out_text(out, "\n");
    }
    for (size_t i = 0; i + count <= table->used; i += count) {
        /* trailing empty cells leave no trailing spaces */
        size_t last = count;
        while (last > 1 && !table->cells[i + last - 1].text[0]) {
            last--;
        }
        hri_out_pad(out, indent);
        size_t column = indent;
        for (size_t c = 0; c < last; c++) {
            const hri_table_item *cell = &table->cells[i + c];
            hri_out_pad(out, c ? GAP : 0);
            column += c ? GAP : 0;
            if (c + 1 == count && !table->right[c] &&
                column + hri_term_columns(cell->text) > term->width) {
                hri_out_text(out, start_of(term, cell));
                hri_wrap(out, cell->text, term->width, column, column);
                hri_out_text(out, end_of(term, cell));
            } else {
                print_cell(cell, out, term, widths[c], table->right[c], c + 1 == last);
            }
            column += widths[c];
        }
        hri_out_text(out, "\n");
    }
}

/* With headings: the first cell, then a line each for the others. */
static void print_upright(const hri_table *table, hri_out *out, const hri_term *term,
                          size_t indent) {
    const size_t count = table->column_count;
    size_t head_width = 0;
    for (size_t c = 1; c < count; c++) {
        const size_t width = strlen(table->headings[c]);
        head_width = width > head_width ? width : head_width;
    }
    const size_t column = indent + GAP + head_width + GAP;
    for (size_t i = 0; i + count <= table->used; i += count) {
        hri_out_pad(out, indent);
        print_cell(&table->cells[i], out, term, 0, 0, 1);
        hri_out_text(out, "\n");
        for (size_t c = 1; c < count; c++) {
            const hri_table_item *cell = &table->cells[i + c];
            if (!cell->text[0]) {
                continue;
            }
            const hri_table_item head = {(char *)table->headings[c], HRI_STYLE_DIM};
            hri_out_pad(out, indent + GAP);
            print_cell(&head, out, term, head_width + GAP, 0, 0);
            hri_out_text(out, start_of(term, cell));
            hri_wrap(out, cell->text, term->width, column, column);
            hri_out_text(out, end_of(term, cell));
            hri_out_text(out, "\n");
        }
    }
}

/* Without headings a row becomes a sentence: "first: second, third". */
static void print_sentences(const hri_table *table, hri_out *out, const hri_term *term,
                            size_t indent) {
    const size_t count = table->column_count;
    for (size_t i = 0; i + count <= table->used; i += count) {
        char text[HRI_TABLE_COLUMNS * (CELL_BYTES + 2)] = "";
        size_t used = 0;
        for (size_t c = 1; c < count; c++) {
            if (table->cells[i + c].text[0]) {
                used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
                                         table->cells[i + c].text);
            }
        }
        hri_out_pad(out, indent);
        print_cell(&table->cells[i], out, term, 0, 0, 1);
        hri_out_text(out, used ? ": " : "");
        hri_wrap(out, text, term->width, indent + GAP,
                 indent + hri_term_columns(table->cells[i].text) + 2);
        hri_out_text(out, "\n");
    }
}

hr_status hri_table_print(const hri_table *table, hri_out *out, const hri_term *term, size_t indent,
                          int heads) {
    if (table->failed) {
        return HR_E_NOMEM_HOST;
    }
    size_t widths[HRI_TABLE_COLUMNS] = {0}, total = indent;
    for (size_t c = 0; c < table->column_count; c++) {
        widths[c] = heads ? strlen(table->headings[c]) : 0;
        for (size_t i = c; i < table->used; i += table->column_count) {
            const size_t width = hri_term_columns(table->cells[i].text);
            widths[c] = width > widths[c] ? width : widths[c];
        }
        total += widths[c] + (c ? GAP : 0);
    }
    /* The last column may have lines of its own below it, where they are not too short. */
    const size_t end = table->column_count - 1;
    const size_t before = total - (table->right[end] ? 0 : widths[end]);
    if (total <= term->width || (!table->right[end] && before + LEAST_TEXT <= term->width)) {
        print_columns(table, out, term, indent, heads, widths);
    } else if (heads) {
        print_upright(table, out, term, indent);
    } else {
        print_sentences(table, out, term, indent);
    }
    return HR_OK;
}
