/* ncurses, found at run time: one table of the functions that `headroom top` calls, with our own declarations.
 *
 * A machine without it shows plain text instead.  newterm, not initscr: a terminal that it does not know is a NULL, not an
 * exit. */
#ifndef HRI_SHOW_CURSES_H
#define HRI_SHOW_CURSES_H

#include <stdbool.h>
#include <stdio.h>

typedef struct hri_curses {
    void *library;
    void *(*newterm)(const char *type, FILE *out, FILE *in);
    void (*delscreen)(void *screen);
    int (*endwin)(void);
    int (*raw)(void);
    int (*noecho)(void);
    int (*curs_set)(int visibility);
    void *(*newwin)(int lines, int columns, int y, int x);
    int (*keypad)(void *window, bool on);
    void (*wtimeout)(void *window, int ms);
    int (*wgetch)(void *window);
    int (*werase)(void *window);
    int (*wmove)(void *window, int y, int x);
    int (*waddnstr)(void *window, const char *text, int bytes);
    int (*wattrset)(void *window, int attributes);
    int (*wrefresh)(void *window);
    int (*getmaxx)(const void *window);
    int (*getmaxy)(const void *window);
} hri_curses;

enum {
    HRI_CURSES_PLAIN = 0,
    HRI_CURSES_REVERSE = 1 << 18,
    HRI_CURSES_DIM = 1 << 20,
    HRI_CURSES_BOLD = 1 << 21,
    HRI_KEY_DOWN = 0402,
    HRI_KEY_UP = 0403,
    HRI_KEY_BACKSPACE = 0407,
    HRI_KEY_RESIZE = 0632
};

/* 1, or 0 when the library or one of the functions is missing. */
int hri_curses_load(hri_curses *c);
void hri_curses_unload(hri_curses *c);

#endif
