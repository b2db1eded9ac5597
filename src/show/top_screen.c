/* The live screen of `headroom top`; see top.h.
 *
 * One look a second, one key at a time.  A key that changes something for a program (k, K, l) names the job and asks first. */
#include "show/top.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <headroom/bytes.h>

#include "base/clock.h"
#include "base/number.h"
#include "base/visible.h"
#include "govern/holders.h"
#include "govern/limit.h"
#include "show/curses.h"

enum { LOOK_MS = 1000, KEY_ENTER = '\n', KEY_RETURN = '\r', KEY_ESCAPE = 27, KEY_INTERRUPT = 3 };

typedef enum question { ASK_NOTHING, ASK_END, ASK_KILL, ASK_LIMIT } question;

typedef struct screen {
    hri_curses c;
    void *window;
    hri_watch_view *v;
    hri_link *link;
    int utf8, width, height;
    uint64_t selected; /* job; 0: none */
    question asks;
    char typed[32]; /* a size */
    hri_prose said;
    int over;
} screen;

/* ---- drawing ---- */

static void put(screen *s, int y, int x, int attributes, const char *format, ...) HR_PRINTF(5, 6);

static void put(screen *s, int y, int x, int attributes, const char *format, ...) {
    char text[512], clean[512];
    va_list args;
    if (y < 0 || y >= s->height || x >= s->width) {
        return;
    }
    va_start(args, format);
    hri_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    hri_visible(text, clean, sizeof clean);
    size_t bytes = 0; /* of what fits, whole characters */
    for (int columns = x; clean[bytes] && columns < s->width; columns++) {
        bytes++;
        while (((unsigned char)clean[bytes] & 0xc0) == 0x80) {
            bytes++;
        }
    }
    s->c.wattrset(s->window, attributes);
    s->c.wmove(s->window, y, x);
    s->c.waddnstr(s->window, clean, (int)bytes);
    s->c.wattrset(s->window, HRI_CURSES_PLAIN);
}

static void draw_device(screen *s, int y, const hri_view_line *line) {
    enum { BAR = 20 };
    const hri_wire *row = &line->row;
    char total[32], left[32], others[32], spark[3 * HRI_VIEW_PAST + 1], bar[BAR + 1];
    const uint64_t unit = row->total_bytes / BAR ? row->total_bytes / BAR : 1;
    for (int i = 0; i < BAR; i++) {
        bar[i] = (uint64_t)i * unit < line->taken_bytes ? '#' : '.';
    }
    bar[BAR] = '\0';
    hri_view_spark(line, row->total_bytes, HRI_VIEW_PAST, s->utf8, spark);
    put(s, y, 0, HRI_CURSES_BOLD, "cuda:%u", row->row);
    put(s, y, 14, HRI_CURSES_PLAIN, "[%s] %s free of %s, others hold %s  %s  %s", bar,
        hr_bytes_print(row->free_bytes, left, sizeof left),
        hr_bytes_print(row->total_bytes, total, sizeof total),
        hr_bytes_print(row->outside_bytes, others, sizeof others), row->name, spark);
}

static void draw_holder(screen *s, int y, const hri_view_line *line) {
    const hri_wire *row = &line->row;
    const int job = (row->flags & HRI_WIRE_ROW_JOB) != 0;
    const int waits = (row->flags & HRI_WIRE_WAITING) != 0;
    const int attributes =
        (job && row->job == s->selected ? HRI_CURSES_REVERSE : 0) | (waits ? HRI_CURSES_BOLD : 0);
    char held[32], budget[32], since[32], spark[3 * HRI_VIEW_PAST + 1], name[20];
    snprintf(name, sizeof name, "%s", row->name);
    for (size_t n = strlen(name); n && ((unsigned char)row->name[n] & 0xc0) == 0x80; n--) {
        name[n - 1] = '\0'; /* not in the middle of a character */
    }
    hri_view_spark(line, job ? row->limit_bytes : row->granted_bytes, HRI_VIEW_PAST, s->utf8,
                   spark);
    hri_holders_time(row->wait_ms, since, sizeof since);
    put(s, y, 0, attributes, "%s%-5llu %-19s %8d %10s %10s %7s %-8.30s %s", job ? "" : "  ",
        (unsigned long long)row->job, name, (int)row->pid,
        hr_bytes_print(line->taken_bytes, held, sizeof held),
        job ? hr_bytes_print(row->limit_bytes, budget, sizeof budget) : "",
        job || waits ? since : "", hri_view_state(row), spark);
}

static void draw_bottom(screen *s) {
    const unsigned long long job = s->selected;
    const int y = s->height - 1;
    if (s->asks == ASK_END || s->asks == ASK_KILL) {
        put(s, y, 0, HRI_CURSES_BOLD, "%s job %llu? y: yes, any other key: no",
            s->asks == ASK_END ? "end" : "kill (SIGKILL) every process of", job);
    } else if (s->asks == ASK_LIMIT) {
        put(s, y, 0, HRI_CURSES_BOLD, "new budget of job %llu (Enter: set, Esc: leave): %s", job,
            s->typed);
    } else {
        put(s, y, 0, HRI_CURSES_DIM,
            "q: quit  up, down: select  l: limit  k: end  K: kill  s: sort (%s)",
            hri_view_order_name(s->v->order));
    }
    if (*s->said.text) {
        put(s, y - 1, 0, HRI_CURSES_BOLD, "%s", s->said.text);
    }
}

static void draw(screen *s) {
    int y = 0, heads = 0;
    s->width = s->c.getmaxx(s->window);
    s->height = s->c.getmaxy(s->window);
    s->c.werase(s->window);
    for (size_t i = 0; i < s->v->count && y < s->height - 2; i++) {
        const hri_view_line *line = &s->v->lines[i];
        if (line->row.flags & HRI_WIRE_ROW_DEVICE) {
            draw_device(s, y++, line);
            continue;
        }
        if (!heads) {
            heads = 1;
            put(s, ++y, 0, HRI_CURSES_BOLD, "%-5s %-19s %8s %10s %10s %7s %-8s %s", "JOB",
                "PROGRAM", "PID", "HOLDS", "BUDGET", "FOR", "STATE", "LAST HALF MINUTE");
            y++;
        }
        draw_holder(s, y++, line);
    }
    if (!heads) {
        put(s, y + 1, 0, HRI_CURSES_PLAIN, "no jobs");
    }
    draw_bottom(s);
    s->c.wrefresh(s->window);
}

/* ---- keys ---- */

static int is_job(const hri_view_line *line) {
    return (line->row.flags & HRI_WIRE_ROW_JOB) != 0;
}

/* The next or the previous job on the screen; the first where none is selected. */
static void select_job(screen *s, int step) {
    uint64_t before = 0, found = 0;
    int passed = 0;
    for (size_t i = 0; i < s->v->count; i++) {
        const hri_view_line *line = &s->v->lines[i];
        if (!is_job(line) || line->row.job == before) {
            continue;
        }
        const int here = line->row.job == s->selected;
        if (step < 0 && here) {
            found = before;
        } else if (step > 0 && passed && !found) {
            found = line->row.job;
        }
        passed |= here;
        before = line->row.job;
    }
    if (!passed) { /* none, or one that has ended */
        for (size_t i = 0; i < s->v->count && !found; i++) {
            found = is_job(&s->v->lines[i]) ? s->v->lines[i].row.job : 0;
        }
        s->selected = found;
    } else if (found) {
        s->selected = found;
    }
}

static void set_limit(screen *s) {
    uint64_t bytes = 0;
    if (hr_bytes_parse(s->typed, 0, &bytes) != HR_OK || !bytes) {
        (void)hri_prose_set(&s->said, HR_E_INVALID, "'%s' is not a size; 8GiB is one", s->typed);
    } else if (hri_limit_job(s->link, s->selected, bytes, &s->said) != HR_OK) {
        return; /* it was said */
    }
}

static void answer(screen *s, int key) {
    const question asked = s->asks;
    const size_t length = strlen(s->typed);
    if (asked == ASK_LIMIT && key >= ' ' && key < 127) {
        if (length + 1 < sizeof s->typed) {
            s->typed[length] = (char)key;
            s->typed[length + 1] = '\0';
        }
        return;
    }
    if (asked == ASK_LIMIT && (key == HRI_KEY_BACKSPACE || key == 127 || key == 8)) {
        s->typed[length ? length - 1 : 0] = '\0';
        return;
    }
    s->asks = ASK_NOTHING;
    if (asked == ASK_LIMIT && (key == KEY_ENTER || key == KEY_RETURN)) {
        set_limit(s);
    } else if (asked != ASK_LIMIT && (key == 'y' || key == 'Y')) {
        (void)!hri_limit_end(s->link, s->selected, asked == ASK_KILL ? SIGKILL : SIGTERM, &s->said);
    }
    memset(s->typed, 0, sizeof s->typed);
}

static void ask(screen *s, question what) {
    s->asks = s->selected ? what : ASK_NOTHING;
    if (!s->selected) {
        (void)hri_prose_set(&s->said, HR_E_NOT_FOUND, "select a job first (up, down)");
    }
}

static void press(screen *s, int key) {
    if (key == KEY_INTERRUPT) {
        s->over = 1;
        return;
    }
    if (s->asks != ASK_NOTHING) {
        answer(s, key);
        return;
    }
    s->said.text[0] = '\0';
    switch (key) {
    case 'q':
    case 'Q':
        s->over = 1;
        break;
    case 's':
        s->v->order = (s->v->order + 1) % HRI_VIEW_ORDERS;
        hri_view_sort(s->v);
        break;
    case HRI_KEY_DOWN:
        select_job(s, 1);
        break;
    case HRI_KEY_UP:
        select_job(s, -1);
        break;
    case 'l':
        ask(s, ASK_LIMIT);
        break;
    case 'k':
        ask(s, ASK_END);
        break;
    case 'K':
        ask(s, ASK_KILL);
        break;
    default:
        break;
    }
}

/* ---- the loop ---- */

/* The broker may be killed: the next one is looked for, or started. */
static void look(screen *s) {
    hri_prose why = {0};
    if (hri_view_look(s->v, s->link, &why) == HR_OK) {
        return;
    }
    hri_link_close(s->link);
    if (hri_link_open(s->link, &why) != HR_OK || hri_view_look(s->v, s->link, &why) != HR_OK) {
        s->said = why;
    }
}

static void loop(screen *s) {
    uint64_t next_ms = 0;
    while (!s->over) {
        const uint64_t now_ms = hri_clock_ns() / 1000000;
        if (now_ms >= next_ms) {
            look(s);
            next_ms = now_ms + LOOK_MS;
        }
        draw(s);
        s->c.wtimeout(s->window, (int)(next_ms > now_ms ? next_ms - now_ms : 1));
        const int key = s->c.wgetch(s->window);
        if (key >= 0 && key != HRI_KEY_RESIZE) {
            press(s, key);
        }
    }
}

hr_status hri_top_screen(hri_watch_view *v, hri_link *link, int utf8, FILE *out, FILE *in,
                         hri_prose *why) {
    screen s = {.v = v, .link = link, .utf8 = utf8};
    if (!hri_curses_load(&s.c)) {
        return hri_prose_set(why, HR_E_UNSUPPORTED, "libncursesw.so.6 was not found");
    }
    void *terminal = s.c.newterm(NULL, out, in);
    s.window = terminal ? s.c.newwin(0, 0, 0, 0) : NULL;
    if (!s.window) {
        /* The library stays: it may have left handlers behind. */
        return hri_prose_set(why, HR_E_UNSUPPORTED, "the terminal cannot be drawn on");
    }
    s.c.raw();
    s.c.noecho();
    s.c.curs_set(0);
    s.c.keypad(s.window, true);
    loop(&s);
    s.c.endwin();
    s.c.delscreen(terminal);
    return HR_OK;
}
