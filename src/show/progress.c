/* The two ways to draw of progress.h. */
#include "show/progress.h"

#include <stdio.h>
#include <string.h>
#include "base/visible.h"

enum { BAR_COLUMNS = 20, LEAST_BAR = 5, LINE_BYTES = 512 };
#define SECOND_NS  UINT64_C(1000000000)
#define REDRAW_NS  (SECOND_NS / 10)
#define QUIET_NS   (30 * SECOND_NS)
#define ERASE_LINE "\r\033[K"

void hri_progress_init(hri_progress *progress, hri_out *out, const hri_term *term,
                       const char *label, uint64_t total, uint64_t now_ns) {
    *progress = (hri_progress){
        .out = out, .term = term, .label = label, .total = total, .start_ns = now_ns};
    progress->shown_ns = now_ns;
}

static void put_count(char *line, size_t size, const hri_progress *progress, uint64_t done) {
    const char *gap = progress->label[0] ? " " : "";
    if (progress->total) {
        snprintf(line, size, "%s%s%llu/%llu", progress->label, gap, (unsigned long long)done,
                 (unsigned long long)progress->total);
    } else {
        snprintf(line, size, "%s%s%llu", progress->label, gap, (unsigned long long)done);
    }
}

/* " 41s 52ms/step - note" */
static void put_rest(char *text, size_t size, const hri_progress *progress, uint64_t done,
                     const char *note, uint64_t now_ns) {
    const uint64_t ns = now_ns > progress->start_ns ? now_ns - progress->start_ns : 0;
    char rate[32] = "";
    if (done) {
        const double ms = (double)ns / (double)done * 1e-6;
        if (ms >= 1000) {
            snprintf(rate, sizeof rate, " %.1fs/step", ms * 1e-3);
        } else if (ms >= 1) {
            snprintf(rate, sizeof rate, " %.0fms/step", ms);
        } else {
            snprintf(rate, sizeof rate, " %.0fus/step", ms * 1e3);
        }
    }
    char clean[256];
    snprintf(text, size, " %llus%s%s%s", (unsigned long long)(ns / SECOND_NS), rate,
             note[0] ? " - " : "", hri_visible(note, clean, sizeof clean));
}

static void put_bar(char *text, size_t size, const hri_progress *progress, uint64_t done,
                    size_t columns) {
    const uint64_t at = done < progress->total ? done : progress->total;
    const size_t full = (size_t)((double)at / (double)progress->total * (double)columns);
    const char *on = progress->term->utf8 ? "\xe2\x94\x81" : "#", *off = "-";
    size_t used = (size_t)snprintf(text, size, " ");
    for (size_t i = 0; i < columns && used + 4 < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s", i < full ? on : off);
    }
}

/* Cuts text to `columns`, between code points. */
static void cut(char *text, size_t columns) {
    size_t seen = 0;
    for (char *p = text; *p; p++) {
        if (((unsigned char)*p & 0xc0) != 0x80 && seen++ == columns) {
            *p = 0;
            return;
        }
    }
}

size_t hri_progress_room(const hri_progress *progress, uint64_t done, uint64_t now_ns) {
    char line[LINE_BYTES], rest[320];
    if (!progress->term->tty) {
        return SIZE_MAX;
    }
    put_count(line, sizeof line, progress, done);
    put_rest(rest, sizeof rest, progress, done, "x", now_ns);
    const size_t taken =
        hri_term_columns(line) + hri_term_columns(rest); /* "x" for the last column */
    return progress->term->width > taken ? progress->term->width - taken : 0;
}

static void draw(hri_progress *progress, uint64_t done, const char *note, uint64_t now_ns) {
    char line[LINE_BYTES], bar[128] = "", rest[320];
    put_count(line, sizeof line - sizeof bar - sizeof rest, progress, done);
    put_rest(rest, sizeof rest, progress, done, note, now_ns);
    /* the last column stays free: many terminals wrap when it is written */
    const size_t width = progress->term->width > 1 ? progress->term->width - 1 : 1;
    const size_t taken = hri_term_columns(line) + 1 + hri_term_columns(rest);
    const size_t left = width > taken ? width - taken : 0;
    if (progress->total && left >= LEAST_BAR) { /* the bar has what the numbers leave */
        put_bar(bar, sizeof bar, progress, done, left < BAR_COLUMNS ? left : BAR_COLUMNS);
    }
    strcat(line, bar);
    strcat(line, rest);
    cut(line, width);
    hri_out_text(progress->out, ERASE_LINE);
    hri_out_printf(progress->out, "%s", line);
    hri_out_flush(progress->out);
    progress->drawn = 1;
    progress->shown_ns = now_ns;
}

static void print_line(hri_progress *progress, uint64_t done, const char *note, uint64_t now_ns) {
    char line[LINE_BYTES], rest[320];
    put_count(line, sizeof line - sizeof rest, progress, done);
    put_rest(rest, sizeof rest, progress, done, note, now_ns);
    strcat(line, rest);
    hri_out_printf(progress->out, "%s\n", line);
    hri_out_flush(progress->out);
    progress->shown_ns = now_ns;
}

void hri_progress_step(hri_progress *progress, uint64_t done, const char *note, uint64_t now_ns) {
    const uint64_t quiet_ns = now_ns - progress->shown_ns;
    if (progress->term->tty) {
        if (!progress->drawn || quiet_ns >= REDRAW_NS) {
            draw(progress, done, note, now_ns);
        }
        return;
    }
    const uint64_t tenth =
        progress->total ? (uint64_t)((double)done / (double)progress->total * 10) : 0;
    /* the last tenth is hri_progress_end's */
    if ((tenth > progress->shown_tenth && tenth < 10) || quiet_ns >= QUIET_NS) {
        progress->shown_tenth = tenth;
        print_line(progress, done, note, now_ns);
    }
}

void hri_progress_end(hri_progress *progress, uint64_t done, const char *note, uint64_t now_ns) {
    if (!progress->term->tty) {
        print_line(progress, done, note, now_ns);
        return;
    }
    draw(progress, done, note, now_ns);
    hri_out_text(progress->out, "\n");
    hri_out_flush(progress->out);
    progress->drawn = 0;
}

void hri_progress_hide(hri_progress *progress) {
    if (progress->drawn) {
        hri_out_text(progress->out, ERASE_LINE);
        hri_out_flush(progress->out);
        progress->drawn = 0;
    }
}
