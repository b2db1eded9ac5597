/* Styles and widths of term.h; the program asks about its streams itself (cli/common/term.c). */
#include "base/term.h"

const char *hri_term_style(const hri_term *term, hri_style style) {
    static const char *const sequences[] = {
        [HRI_STYLE_PLAIN] = "\033[0m", [HRI_STYLE_BOLD] = "\033[1m",  [HRI_STYLE_DIM] = "\033[2m",
        [HRI_STYLE_GOOD] = "\033[32m", [HRI_STYLE_WARN] = "\033[33m", [HRI_STYLE_BAD] = "\033[31m",
    };
    return term->color ? sequences[style] : "";
}

size_t hri_term_columns(const char *text) {
    size_t columns = 0;
    for (; *text; text++) {
        columns += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return columns;
}
