/* See curses.h. */
#include "show/curses.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *name;
    size_t at;
} functions[] = {
#define AT(NAME)                                                                                   \
    { #NAME, offsetof(hri_curses, NAME) }
    AT(newterm),  AT(delscreen), AT(endwin),   AT(raw),     AT(noecho),  AT(curs_set),
    AT(newwin),   AT(keypad),    AT(wtimeout), AT(wgetch),  AT(werase),  AT(wmove),
    AT(waddnstr), AT(wattrset),  AT(wrefresh), AT(getmaxx), AT(getmaxy),
#undef AT
};

int hri_curses_load(hri_curses *c) {
    static const char *const names[] = {"libncursesw.so.6", "libncurses.so.6"};
    *c = (hri_curses){0};
    for (size_t i = 0; i < sizeof names / sizeof *names && !c->library; i++) {
        c->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    }
    for (size_t i = 0; c->library && i < sizeof functions / sizeof *functions; i++) {
        void *function = dlsym(c->library, functions[i].name);
        if (!function) {
            hri_curses_unload(c);
            return 0;
        }
        memcpy((char *)c + functions[i].at, &function, sizeof function);
    }
    return c->library != NULL;
}

void hri_curses_unload(hri_curses *c) {
    if (c->library) {
        dlclose(c->library);
    }
    *c = (hri_curses){0};
}
