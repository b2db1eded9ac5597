/* See tokenize.h. */
#include "job/tokenize.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "data/tokenizer.h"

enum { PIECE = 4 << 20 };

typedef struct work {
    const hri_tokenize_options *o;
    hri_tokenizer *tokenizer;
    hri_writer to;
    hri_tokens tokens;
    char *buffer; /* PIECE */
    char *packed; /* tokens as they are written */
    size_t packed_room;
    int begun; /* a piece of this text is through */
    hri_tokenize_result r;
    hri_why *why;
    hri_prose prose;
} work;

static hr_status failed(work *w, hr_status status, const char *what) {
    return hri_why_prose(w->why, hri_cause_of_input(status), status, what, &w->prose);
}

static hr_status read_some(work *w, int fd, char *to, size_t room, size_t *got) {
    ssize_t n;
    do {
        n = HRI_FAULT(READ) ? (errno = EIO, -1) : read(fd, to, room);
    } while (n < 0 && errno == EINTR);
    *got = n > 0 ? (size_t)n : 0;
    return n < 0 ? hri_prose_set(&w->prose, HR_E_IO, "%s", strerror(errno)) : HR_OK;
}

static hr_status write_tokens(work *w) {
    const size_t bytes = w->tokens.count * w->r.width;
    if (bytes > w->packed_room) {
        char *grown = hri_realloc(w->packed, bytes);
        if (!grown) {
            return HR_E_NOMEM_HOST;
        }
        w->packed = grown;
        w->packed_room = bytes;
    }
    for (size_t i = 0; i < w->tokens.count; i++) {
        const uint32_t token = (uint32_t)w->tokens.items[i];
        for (unsigned k = 0; k < w->r.width; k++) {
            w->packed[i * w->r.width + k] = (char)(token >> 8 * k);
        }
    }
    return bytes ? hri_writer_write(&w->to, w->packed, bytes, &w->prose) : HR_OK;
}

static hr_status encode(work *w, const char *text, size_t bytes) {
    hri_tokens_clear(&w->tokens);
    /* Pieces of one text: the first one begins it. */
    hr_status status = (w->begun ? hri_tokenizer_go_on : hri_tokenizer_encode)(
        w->tokenizer, text, bytes, &w->tokens, &w->prose);
    w->begun = 1;
    status = status == HR_OK ? write_tokens(w) : status;
    w->r.tokens += status == HR_OK ? w->tokens.count : 0;
    w->r.bytes += bytes;
    return status;
}

static hr_status decode(work *w, const char *raw, size_t bytes) {
    hr_status status = HR_OK;
    for (size_t i = 0; i + w->r.width <= bytes && status == HR_OK; i += w->r.width) {
        uint32_t token = 0;
        size_t length;
        for (unsigned k = 0; k < w->r.width; k++) {
            token |= (uint32_t)(unsigned char)raw[i + k] << 8 * k;
        }
        const char *text =
            token <= INT32_MAX ? hri_tokenizer_text(w->tokenizer, (int32_t)token, &length) : NULL;
        if (!text) {
            return hri_prose_set(&w->prose, HR_E_FORMAT,
                                 "token %llu is %u, but the tokenizer has %lld tokens",
                                 (unsigned long long)w->r.tokens, token, (long long)w->r.vocab);
        }
        status = length ? hri_writer_write(&w->to, text, length, &w->prose) : HR_OK;
        w->r.bytes += length;
        w->r.tokens++;
    }
    return status;
}

/* How much of the buffer goes through now: all at the end of a file, else up to a place to cut. */
static size_t cut(const work *w, size_t used, bool over) {
    if (over || w->o->decode) {
        return over ? used : used - used % w->r.width;
    }
    for (size_t i = used - 1; i > 0; i--) {
        if (w->buffer[i] == '\n' && isalnum((unsigned char)w->buffer[i - 1])) {
            return i;
        }
    }
    return used; /* one line of megabytes: it is cut somewhere */
}

static hr_status go_through(work *w, int fd) {
    size_t used = 0;
    bool over = false;
    hr_status status = HR_OK;
    while (status == HR_OK && !over) {
        size_t got = 0;
        status = read_some(w, fd, w->buffer + used, PIECE - used, &got);
        over = status == HR_OK && !got;
        used += got;
        if (status != HR_OK || (!over && used < PIECE)) {
            continue;
        }
        const size_t now = cut(w, used, over);
        status = now ? (w->o->decode ? decode : encode)(w, w->buffer, now) : HR_OK;
        used -= now;
        memmove(w->buffer, w->buffer + now, used);
        status = status == HR_OK
                     ? hri_listener_tick(&w->o->listener, "tokenizing", w->r.bytes, 0, w->why)
                     : status;
    }
    return status;
}

static hr_status run(work *w) {
    hr_status status = hri_tokenizer_open(w->o->tokenizer, &w->tokenizer, &w->prose);
    if (status != HR_OK) {
        return failed(w, status, NULL);
    }
    w->r.vocab = hri_tokenizer_count(w->tokenizer);
    w->r.width = w->r.vocab <= 65536 ? 2 : 4;
    w->buffer = hri_malloc(PIECE);
    if (!w->buffer) {
        return HR_E_NOMEM_HOST;
    }
    status = hri_writer_open(&w->to, w->o->out, &w->prose);
    for (size_t i = 0; i < w->o->count && status == HR_OK; i++) {
        int fd;
        status = hri_file_open_regular(w->o->paths[i], &fd, NULL, &w->prose);
        if (status != HR_OK) {
            return failed(w, status, NULL);
        }
        w->begun = 0;
        status = go_through(w, fd);
        close(fd);
        if (status != HR_OK) {
            return failed(w, status, w->o->paths[i]);
        }
    }
    status = status == HR_OK ? hri_writer_commit(&w->to, &w->prose) : status;
    return status == HR_OK ? HR_OK : failed(w, status, NULL);
}

hr_status hri_tokenize(const hri_tokenize_options *o, hri_tokenize_result *out, hri_why *why) {
    work w = {.o = o, .to = {.fd = -1}, .why = why};
    const uint64_t begin = hri_clock_ns();
    const hr_status status = run(&w);
    hri_writer_abandon(&w.to);
    hri_tokenizer_close(w.tokenizer);
    hri_tokens_deinit(&w.tokens);
    hri_free(w.buffer);
    hri_free(w.packed);
    if (status == HR_OK) {
        w.r.seconds = (double)(hri_clock_ns() - begin) / 1e9;
        *out = w.r;
    }
    return status;
}
