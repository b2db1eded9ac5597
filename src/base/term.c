/* The questions of term.h, asked of the kernel and of the environment; styles and widths. */
#include "base/term.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

static int set_and_not_zero(const char *name) {
    const char *value = getenv(name);
    return value && value[0] && strcmp(value, "0") != 0;
}

static int color_of(int tty, hri_color_mode mode) {
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    if (mode != HRI_COLOR_AUTO) {
        return mode == HRI_COLOR_ALWAYS;
    }
    if (no_color && no_color[0]) {
        return 0;
    }
    if (set_and_not_zero("CLICOLOR_FORCE") || set_and_not_zero("FORCE_COLOR")) {
        return 1;
    }
    return tty && term && term[0] && strcmp(term, "dumb") != 0;
}

/* The terminal's own word first: COLUMNS is often exported and stale. */
static size_t width_of(int fd) {
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
        return size.ws_col;
    }
    const char *columns = getenv("COLUMNS");
    const long width = columns ? strtol(columns, NULL, 10) : 0;
    return width > 0 && width < 100000 ? (size_t)width : 80;
}

static int is_utf8(void) {
    const char *names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value && value[0]) {
            return strcasestr(value, "UTF-8") || strcasestr(value, "UTF8");
        }
    }
    return 0;
}

void hri_term_init(hri_term *term, int fd, hri_color_mode mode) {
    const char *name = getenv("TERM");
    const int screen = isatty(fd);
    term->tty = screen && !(name && !strcmp(name, "dumb"));
    term->color = color_of(screen, mode);
    term->utf8 = is_utf8();
    term->width = screen ? width_of(fd) : SIZE_MAX;
}

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
