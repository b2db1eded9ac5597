/* What is at the other end of a stream: a terminal or a file, coloured or not, how wide.
 *
 * The one idea: the question is asked once a stream, at the start, and everything that prints takes the answer.  A
 * file is never coloured unless somebody forces it, never narrow, and never gets a control character.
 *
 * Colour, the strongest first: --color=always|never; NO_COLOR (not empty) switches off; CLICOLOR_FORCE or FORCE_COLOR
 * (not empty, not 0) switches on; else on for a terminal that is not TERM=dumb. */
#ifndef HRI_BASE_TERM_H
#define HRI_BASE_TERM_H

#include <stddef.h>

typedef enum hri_color_mode { HRI_COLOR_AUTO, HRI_COLOR_ALWAYS, HRI_COLOR_NEVER } hri_color_mode;

typedef struct hri_term {
    int tty;      /* a line may be redrawn */
    int color;    /* SGR sequences may be written */
    int utf8;     /* more than ASCII may be drawn */
    size_t width; /* columns; SIZE_MAX for a file */
} hri_term;

typedef enum hri_style {
    HRI_STYLE_PLAIN,
    HRI_STYLE_BOLD,
    HRI_STYLE_DIM,
    HRI_STYLE_GOOD,
    HRI_STYLE_WARN,
    HRI_STYLE_BAD
} hri_style;

void hri_term_init(hri_term *term, int fd, hri_color_mode mode);
/* The sequence that starts the style, or "" without colour; HRI_STYLE_PLAIN gives the one that ends it. */
const char *hri_term_style(const hri_term *term, hri_style style);

/* Columns that `text` takes: code points, as nothing here draws wide ones. */
size_t hri_term_columns(const char *text);
#endif
