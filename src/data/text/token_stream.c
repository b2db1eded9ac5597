/* See token_stream.h. */
#include "data/text/token_stream.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/threads.h"
#include "base/visible.h"

enum { MOST_LANES = 8 };

/* One piece of text and what became of it. */
typedef struct lane {
    char *text; /* piece_bytes */
    size_t bytes;
    uint64_t at; /* in the file */
    int inside;  /* it goes on with a text */
    hri_tokens tokens;
    hr_status status;
    hri_prose prose;
} lane;

struct hri_token_stream {
    const hri_tokenizer *tokenizer;
    hri_threads *threads;
    size_t piece_bytes;
    lane lanes[MOST_LANES];
    uint32_t lane_count;
};

hr_status hri_token_stream_open(const hri_tokenizer *t, uint32_t threads, size_t piece_bytes,
                                hri_token_stream **out) {
    hri_token_stream *s = hri_calloc(1, sizeof *s);
    if (!s) {
        return HR_E_NOMEM_HOST;
    }
    s->tokenizer = t;
    s->piece_bytes = piece_bytes;
    hr_status status = hri_threads_create(threads, &s->threads);
    const uint32_t count = status == HR_OK ? hri_threads_count(s->threads) : 0;
    for (uint32_t i = 0; i < count && i < MOST_LANES && status == HR_OK; i++) {
        s->lanes[i].text = hri_malloc(piece_bytes);
        status = s->lanes[i].text ? HR_OK : HR_E_NOMEM_HOST;
        s->lane_count += status == HR_OK;
    }
    if (status != HR_OK) {
        hri_token_stream_close(s);
        return status;
    }
    *out = s;
    return HR_OK;
}

void hri_token_stream_close(hri_token_stream *s) {
    if (!s) {
        return;
    }
    hri_threads_destroy(s->threads);
    for (uint32_t i = 0; i < s->lane_count; i++) {
        hri_tokens_deinit(&s->lanes[i].tokens);
        hri_free(s->lanes[i].text);
    }
    hri_free(s);
}

static hr_status read_some(int fd, char *to, size_t room, size_t *got, hri_prose *why) {
    ssize_t n;
    do {
        n = HRI_FAULT(READ) ? (errno = EIO, -1) : read(fd, to, room);
    } while (n < 0 && errno == EINTR);
    *got = n > 0 ? (size_t)n : 0;
    return n < 0 ? hri_prose_set(why, HR_E_IO, "%s", strerror(errno)) : HR_OK;
}

static void encode_one(void *arg, uint32_t task, uint32_t worker) {
    hri_token_stream *s = arg;
    lane *l = &s->lanes[task];
    (void)worker;
    hri_tokens_clear(&l->tokens);
    const size_t valid =
        hri_tokenizer_needs_utf8(s->tokenizer) ? hri_utf8_valid(l->text, l->bytes) : l->bytes;
    if (valid < l->bytes) {
        l->status =
            hri_prose_set(&l->prose, HR_E_FORMAT, "byte %llu is not UTF-8; convert the file",
                          (unsigned long long)(l->at + valid));
        return;
    }
    l->status = (l->inside ? hri_tokenizer_go_on : hri_tokenizer_encode)(
        s->tokenizer, l->text, l->bytes, &l->tokens, &l->prose);
}

/* The pieces of some lanes, side by side; their tokens go out in the order of the text. */
static hr_status encode(hri_token_stream *s, uint32_t count, hri_token_fn *fn, void *user,
                        hri_prose *why) {
    hri_threads_run(s->threads, count, encode_one, s);
    hr_status status = HR_OK;
    for (uint32_t i = 0; i < count && status == HR_OK; i++) {
        lane *l = &s->lanes[i];
        status = l->status;
        if (status != HR_OK) {
            (void)hri_prose_set(why, status, "%s",
                                *l->prose.text ? l->prose.text : hr_status_text(status));
        } else {
            status = fn(user, &l->tokens, l->bytes);
        }
    }
    return status;
}

/* How much of a piece goes through now: all at the end of a file, else up to a place to cut. */
static size_t cut(const char *text, size_t used, bool over) {
    if (over || !used) {
        return used;
    }
    for (size_t i = used - 1; i > 0; i--) {
        if (text[i] == '\n' && isalnum((unsigned char)text[i - 1])) {
            return i;
        }
    }
    const size_t between = hri_utf8_cut(text, used); /* one line of megabytes: anywhere */
    return between ? between : used;
}

/* Fills a piece behind the `used` bytes that it has. */
static hr_status fill(const hri_token_stream *s, int fd, lane *l, size_t *used, bool *over,
                      hri_prose *why) {
    hr_status status = HR_OK;
    while (status == HR_OK && !*over && *used < s->piece_bytes) {
        size_t got = 0;
        status = read_some(fd, l->text + *used, s->piece_bytes - *used, &got, why);
        *over = status == HR_OK && !got;
        *used += got;
    }
    return status;
}

hr_status hri_token_stream_run(hri_token_stream *s, int fd, bool inside, hri_token_fn *fn,
                               void *user, hri_prose *why) {
    size_t used = 0; /* of the first lane: what was left of the piece before */
    bool over = false;
    hr_status status = HR_OK;
    const off_t begin = lseek(fd, 0, SEEK_CUR);
    uint64_t at = begin > 0 ? (uint64_t)begin : 0;
    while (status == HR_OK && !over) {
        uint32_t count = 0;
        while (!over && count < s->lane_count) {
            lane *l = &s->lanes[count], *next = &s->lanes[(count + 1) % s->lane_count];
            status = fill(s, fd, l, &used, &over, why);
            if (status != HR_OK) {
                return status;
            }
            l->bytes = cut(l->text, used, over);
            l->at = at;
            at += l->bytes;
            l->inside = inside;
            inside = true;
            used -= l->bytes;
            count += l->bytes > 0;
            if (count < s->lane_count) { /* else it waits behind the last piece */
                memmove(next->text, l->text + l->bytes, used);
            }
        }
        const lane *last = count ? &s->lanes[count - 1] : NULL;
        status = last ? encode(s, count, fn, user, why) : HR_OK;
        if (last && count == s->lane_count) {
            memmove(s->lanes[0].text, last->text + last->bytes, used);
        }
    }
    return status;
}

/* ---- files of tokens ---- */

unsigned hri_token_width(int64_t vocab) {
    return vocab <= 65536 ? 2 : 4;
}

hr_status hri_token_writer_write(hri_token_writer *w, const hri_tokens *tokens, hri_prose *why) {
    const size_t bytes = tokens->count * w->width;
    if (bytes > w->room) {
        char *grown = hri_realloc(w->packed, bytes);
        if (!grown) {
            return hri_prose_set(why, HR_E_NOMEM_HOST, "out of memory for tokens");
        }
        w->packed = grown;
        w->room = bytes;
    }
    for (size_t i = 0; i < tokens->count; i++) {
        const uint32_t token = (uint32_t)tokens->items[i];
        for (unsigned k = 0; k < w->width; k++) {
            w->packed[i * w->width + k] = (char)(token >> 8 * k);
        }
    }
    return bytes ? hri_writer_write(&w->to, w->packed, bytes, why) : HR_OK;
}

void hri_token_writer_deinit(hri_token_writer *w) {
    hri_writer_abandon(&w->to);
    hri_free(w->packed);
    *w = (hri_token_writer){.to = {.fd = -1}};
}
