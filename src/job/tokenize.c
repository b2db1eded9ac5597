/* See tokenize.h. */
#include "job/tokenize.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "job/token_output.h"

typedef struct work {
    const hri_tokenize_options *o;
    hri_tokenizer *tokenizer;
    hri_token_stream *stream; /* NULL: tokens become text */
    char *raw;                /* of tokens, then: HRI_TOKEN_PIECE */
    hri_token_output to;      /* of tokens */
    hri_writer text;          /* of text */
    uint64_t total;           /* bytes of all texts */
    hri_tokenize_result r;
    hri_why *why;
    hri_prose prose;
    bool unwritten; /* a failure is one of the output, not of a text */
} work;

static hr_status failed(work *w, hr_status status, const char *what) {
    const hr_cause cause = w->unwritten ? hri_cause_of(status) : hri_cause_of_input(status);
    return hri_why_prose(w->why, cause, status, w->unwritten ? NULL : what, &w->prose);
}

static hr_status written(work *w, hr_status status) {
    w->unwritten = status != HR_OK;
    return status;
}

static hr_status tick(const work *w) {
    return hri_listener_tick(&w->o->listener, "tokenizing", w->r.bytes, w->total, w->why);
}

static hr_status take_tokens(void *user, const hri_tokens *tokens, size_t bytes) {
    work *w = user;
    hr_status status = written(w, hri_token_writer_write(&w->to.to, tokens, &w->prose));
    if (status != HR_OK) {
        return status;
    }
    hri_token_mark *at = &w->to.at;
    at->offset += bytes;
    w->r.tokens = at->tokens += tokens->count;
    w->r.bytes = at->text_bytes += bytes;
    status = written(w, hri_token_output_note(&w->to, &w->prose));
    return status == HR_OK ? tick(w) : status;
}

static hr_status decode(work *w, size_t bytes) {
    hr_status status = HR_OK;
    for (size_t i = 0; i + w->r.width <= bytes && status == HR_OK; i += w->r.width) {
        uint32_t token = 0;
        size_t length;
        for (unsigned k = 0; k < w->r.width; k++) {
            token |= (uint32_t)(unsigned char)w->raw[i + k] << 8 * k;
        }
        const char *text =
            token <= INT32_MAX ? hri_tokenizer_text(w->tokenizer, (int32_t)token, &length) : NULL;
        if (!text) {
            return hri_prose_set(&w->prose, HR_E_FORMAT,
                                 "token %llu is %u, but the tokenizer has %lld tokens",
                                 (unsigned long long)w->r.tokens, token, (long long)w->r.vocab);
        }
        status = length ? written(w, hri_writer_write(&w->text, text, length, &w->prose)) : HR_OK;
        w->r.bytes += length;
        w->r.tokens++;
    }
    return status == HR_OK ? tick(w) : status;
}

static hr_status decode_all(work *w, int fd) {
    size_t used = 0;
    for (;;) {
        const ssize_t n =
            HRI_FAULT(READ) ? (errno = EIO, -1) : read(fd, w->raw + used, HRI_TOKEN_PIECE - used);
        if (n < 0 && errno != EINTR) {
            return hri_prose_set(&w->prose, HR_E_IO, "%s", strerror(errno));
        }
        used += n > 0 ? (size_t)n : 0;
        if (n == 0 || used == HRI_TOKEN_PIECE) {
            const hr_status status = decode(w, used);
            if (status != HR_OK || n == 0) {
                return status;
            }
            used = 0; /* a piece is a whole number of tokens */
        }
    }
}

/* From where the output is in this text to its end. */
static hr_status encode_all(work *w, int fd) {
    hri_token_mark *at = &w->to.at;
    const off_t begin = (off_t)at->offset;
    if (lseek(fd, begin, SEEK_SET) != begin) {
        return hri_prose_set(&w->prose, HR_E_IO, "%s", strerror(errno));
    }
    const hr_status status =
        hri_token_stream_run(w->stream, fd, begin > 0, take_tokens, w, &w->prose);
    if (status == HR_OK) {
        at->file++;
        at->offset = 0;
    }
    return status;
}

static hr_status go_through(work *w, size_t i) {
    int fd;
    hr_status status = hri_file_open_regular(w->o->paths[i], &fd, NULL, &w->prose);
    if (status != HR_OK) {
        return failed(w, status, NULL);
    }
    status = w->stream ? encode_all(w, fd) : decode_all(w, fd);
    close(fd);
    return status == HR_OK ? HR_OK : failed(w, status, w->o->paths[i]);
}

/* Everything that decides the tokens. */
static hr_status look_at_texts(work *w) {
    hri_sha256 print;
    hri_sha256_init(&print);
    hri_tokenizer_print(w->tokenizer, &print);
    for (size_t i = 0; i < w->o->count; i++) {
        struct stat st;
        int fd;
        const hr_status status = hri_file_open_regular(w->o->paths[i], &fd, NULL, &w->prose);
        if (status != HR_OK) {
            return failed(w, status, NULL);
        }
        const int looked = fstat(fd, &st);
        close(fd);
        if (looked != 0) {
            return hri_why_set(w->why, HR_CAUSE_MACHINE, HR_E_IO, "%s: %s", w->o->paths[i],
                               strerror(errno));
        }
        const uint64_t numbers[] = {(uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec,
                                    (uint64_t)st.st_mtim.tv_nsec};
        hri_sha256_add_string(&print, w->o->paths[i]);
        hri_sha256_add(&print, numbers, sizeof numbers);
        w->total += numbers[0];
    }
    hri_sha256_get(&print, w->to.print);
    return HR_OK;
}

static hr_status prepare(work *w) {
    if (w->o->decode) {
        w->raw = hri_malloc(HRI_TOKEN_PIECE);
        return w->raw ? HR_OK : HR_E_NOMEM_HOST;
    }
    return hri_token_stream_open(w->tokenizer, w->o->threads, HRI_TOKEN_PIECE, &w->stream);
}

static hr_status run(work *w) {
    hr_status status = hri_tokenizer_open(w->o->tokenizer, &w->tokenizer, &w->prose);
    if (status != HR_OK) {
        return failed(w, status, NULL);
    }
    w->r.vocab = hri_tokenizer_count(w->tokenizer);
    w->to.to.width = w->r.width = hri_token_width(w->r.vocab);
    status = look_at_texts(w);
    status = status == HR_OK ? prepare(w) : status;
    if (status != HR_OK) {
        return status;
    }
    status = w->stream ? hri_token_output_open(&w->to, w->o->out, &w->prose)
                       : hri_writer_open(&w->text, w->o->out, &w->prose);
    if (status != HR_OK) {
        return failed(w, status, NULL);
    }
    w->r.bytes = w->r.resumed_bytes = w->to.at.text_bytes;
    w->r.tokens = w->to.at.tokens;
    for (size_t i = (size_t)w->to.at.file; i < w->o->count && status == HR_OK; i++) {
        status = go_through(w, i);
    }
    if (status != HR_OK) {
        return status;
    }
    status = written(w, w->stream ? hri_token_output_commit(&w->to, &w->prose)
                                  : hri_writer_commit(&w->text, &w->prose));
    return status == HR_OK ? HR_OK : failed(w, status, NULL);
}

hr_status hri_tokenize(const hri_tokenize_options *o, hri_tokenize_result *out, hri_why *why) {
    work w = {.o = o, .to = {.to = {.to = {.fd = -1}}}, .text = {.fd = -1}, .why = why};
    const uint64_t begin = hri_clock_ns();
    const hr_status status = run(&w);
    hri_token_output_close(&w.to);
    hri_writer_abandon(&w.text);
    hri_token_stream_close(w.stream);
    hri_tokenizer_close(w.tokenizer);
    hri_free(w.raw);
    if (status == HR_OK) {
        w.r.seconds = (double)(hri_clock_ns() - begin) / 1e9;
        *out = w.r;
    }
    return status;
}
