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
#include "base/threads.h"
#include "data/tokenizer.h"

/* Most pieces at once: with the tokens of each they are 20 MiB in the worst case. */
enum { PIECE = 4 << 20, MOST_LANES = 8 };

/* One piece of text and what became of it. */
typedef struct lane {
    char *text; /* PIECE */
    size_t bytes;
    int begins; /* a text */
    hri_tokens tokens;
    hr_status status;
    hri_prose prose;
} lane;

typedef struct work {
    const hri_tokenize_options *o;
    hri_tokenizer *tokenizer;
    hri_threads *threads;
    hri_writer to;
    lane lanes[MOST_LANES];
    uint32_t lane_count;
    char *packed; /* tokens as they are written */
    size_t packed_room;
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

static hr_status write_tokens(work *w, const hri_tokens *tokens) {
    const size_t bytes = tokens->count * w->r.width;
    if (bytes > w->packed_room) {
        char *grown = hri_realloc(w->packed, bytes);
        if (!grown) {
            return HR_E_NOMEM_HOST;
        }
        w->packed = grown;
        w->packed_room = bytes;
    }
    for (size_t i = 0; i < tokens->count; i++) {
        const uint32_t token = (uint32_t)tokens->items[i];
        for (unsigned k = 0; k < w->r.width; k++) {
            w->packed[i * w->r.width + k] = (char)(token >> 8 * k);
        }
    }
    return bytes ? hri_writer_write(&w->to, w->packed, bytes, &w->prose) : HR_OK;
}

static void encode_one(void *arg, uint32_t task, uint32_t worker) {
    work *w = arg;
    lane *l = &w->lanes[task];
    (void)worker;
    hri_tokens_clear(&l->tokens);
    l->status = (l->begins ? hri_tokenizer_encode : hri_tokenizer_go_on)(
        w->tokenizer, l->text, l->bytes, &l->tokens, &l->prose);
}

/* The pieces of some lanes, side by side; their tokens go out in the order of the text. */
static hr_status encode(work *w, uint32_t count) {
    hri_threads_run(w->threads, count, encode_one, w);
    for (uint32_t i = 0; i < count; i++) {
        lane *l = &w->lanes[i];
        if (l->status != HR_OK) {
            w->prose = l->prose;
            return l->status;
        }
        const hr_status status = write_tokens(w, &l->tokens);
        if (status != HR_OK) {
            return status;
        }
        w->r.tokens += l->tokens.count;
        w->r.bytes += l->bytes;
    }
    return HR_OK;
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

/* How much of a piece goes through now: all at the end of a file, else up to a place to cut. */
static size_t cut(const work *w, const char *text, size_t used, bool over) {
    if (over || w->o->decode) {
        return over ? used : used - used % w->r.width;
    }
    for (size_t i = used - 1; i > 0; i--) {
        if (text[i] == '\n' && isalnum((unsigned char)text[i - 1])) {
            return i;
        }
    }
    return used; /* one line of megabytes: it is cut somewhere */
}

/* Fills a piece behind the `used` bytes that it has. */
static hr_status fill(work *w, int fd, lane *l, size_t *used, bool *over) {
    hr_status status = HR_OK;
    while (status == HR_OK && !*over && *used < PIECE) {
        size_t got = 0;
        status = read_some(w, fd, l->text + *used, PIECE - *used, &got);
        *over = status == HR_OK && !got;
        *used += got;
    }
    return status;
}

static hr_status go_through(work *w, int fd) {
    size_t used = 0; /* of the first lane: what was left of the piece before */
    bool over = false, begun = false;
    hr_status status = HR_OK;
    while (status == HR_OK && !over) {
        uint32_t count = 0;
        while (status == HR_OK && !over && count < w->lane_count) {
            lane *l = &w->lanes[count], *next = &w->lanes[(count + 1) % w->lane_count];
            status = fill(w, fd, l, &used, &over);
            if (status != HR_OK) {
                return status;
            }
            l->bytes = cut(w, l->text, used, over);
            l->begins = !begun;
            begun = true;
            used -= l->bytes;
            count += l->bytes > 0;
            if (count < w->lane_count) { /* else it waits behind the last piece */
                memmove(next->text, l->text + l->bytes, used);
            }
        }
        const lane *last = count ? &w->lanes[count - 1] : NULL;
        if (last) {
            status = w->o->decode ? decode(w, last->text, last->bytes) : encode(w, count);
        }
        if (last && count == w->lane_count) {
            memmove(w->lanes[0].text, last->text + last->bytes, used);
        }
        status = status == HR_OK
                     ? hri_listener_tick(&w->o->listener, "tokenizing", w->r.bytes, 0, w->why)
                     : status;
    }
    return status;
}

static hr_status take_lanes(work *w) {
    const hr_status status = hri_threads_create(w->o->decode ? 1 : w->o->threads, &w->threads);
    if (status != HR_OK) {
        return status;
    }
    const uint32_t count = hri_threads_count(w->threads);
    for (uint32_t i = 0; i < count && i < MOST_LANES; i++) {
        w->lanes[i].text = hri_malloc(PIECE);
        if (!w->lanes[i].text) {
            return HR_E_NOMEM_HOST;
        }
        w->lane_count = i + 1;
    }
    return HR_OK;
}

static hr_status run(work *w) {
    hr_status status = hri_tokenizer_open(w->o->tokenizer, &w->tokenizer, &w->prose);
    if (status != HR_OK) {
        return failed(w, status, NULL);
    }
    w->r.vocab = hri_tokenizer_count(w->tokenizer);
    w->r.width = w->r.vocab <= 65536 ? 2 : 4;
    status = take_lanes(w);
    if (status != HR_OK) {
        return status;
    }
    status = hri_writer_open(&w->to, w->o->out, &w->prose);
    for (size_t i = 0; i < w->o->count && status == HR_OK; i++) {
        int fd;
        status = hri_file_open_regular(w->o->paths[i], &fd, NULL, &w->prose);
        if (status != HR_OK) {
            return failed(w, status, NULL);
        }
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
    hri_threads_destroy(w.threads);
    for (uint32_t i = 0; i < w.lane_count; i++) {
        hri_tokens_deinit(&w.lanes[i].tokens);
        hri_free(w.lanes[i].text);
    }
    hri_free(w.packed);
    if (status == HR_OK) {
        w.r.seconds = (double)(hri_clock_ns() - begin) / 1e9;
        *out = w.r;
    }
    return status;
}
