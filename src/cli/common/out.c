/* The buffer of out.h.  Long prints go around the buffer's size by formatting into the heap. */
#include "cli/common/out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/alloc.h"
#include "base/visible.h"
#include "cli/common/cli.h"

void hri_out_init(hri_out *out, int fd) {
    out->fd = fd;
    out->error = 0;
    out->used = 0;
}

void hri_out_failed(hri_out *out, int error) {
    out->error = out->error ? out->error : error;
}

static void write_all(hri_out *out, const char *bytes, size_t count) {
    while (count && !out->error) {
        const ssize_t done = write(out->fd, bytes, count);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            out->error = errno;
            return;
        }
        bytes += done;
        count -= (size_t)done;
    }
}

void hri_out_flush(hri_out *out) {
    write_all(out, out->buf, out->used);
    out->used = 0;
}

void hri_out_bytes(hri_out *out, const char *bytes, size_t count) {
    if (count > sizeof out->buf - out->used) {
        hri_out_flush(out);
    }
    if (count > sizeof out->buf) {
        write_all(out, bytes, count);
        return;
    }
    memcpy(out->buf + out->used, bytes, count);
    out->used += count;
}

void hri_out_text(hri_out *out, const char *text) {
    hri_out_bytes(out, text, strlen(text));
}

/* What was formatted holds texts of others; our own sequences go through hri_out_text. */
static void put_shown(hri_out *out, const char *text) {
    const size_t need = hri_visible_lines_need(text);
    if (!need) {
        hri_out_text(out, text);
        return;
    }
    char *shown = hri_malloc(need);
    if (!shown) {
        hri_out_failed(out, ENOMEM);
        return;
    }
    hri_out_text(out, hri_visible_lines(text, shown, need));
    hri_free(shown);
}

void hri_out_printf(hri_out *out, const char *format, ...) {
    char small[512];
    va_list args;
    va_start(args, format);
    const int length = vsnprintf(small, sizeof small, format, args);
    va_end(args);
    if (length < 0) {
        hri_out_failed(out, EILSEQ);
        return;
    }
    if ((size_t)length < sizeof small) {
        put_shown(out, small);
        return;
    }
    char *large = hri_malloc((size_t)length + 1);
    if (!large) {
        hri_out_failed(out, ENOMEM);
        return;
    }
    va_start(args, format);
    vsnprintf(large, (size_t)length + 1, format, args);
    va_end(args);
    put_shown(out, large);
    hri_free(large);
}

void hri_out_pad(hri_out *out, size_t count) {
    while (count--) {
        hri_out_bytes(out, " ", 1);
    }
}

int hri_out_finish(hri_out *out, int code) {
    hri_out_flush(out);
    if (out->error && out->error != EPIPE) {
        hri_say_note("cannot write the result: %s", strerror(out->error));
        return HRI_EXIT_FAULT;
    }
    return code;
}
