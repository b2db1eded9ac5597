/* See tokenizer_train.h. */
#include "job/tokenizer_train.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/json.h"
#include "data/text/bpe.h"
#include "data/text/bpe_train.h"
#include "data/text/split.h"

enum { PIECE = 1 << 20, MEMORY = 256 << 20, FIRST = 1 };

static const char end_of_text[] = "<|endoftext|>";

typedef struct work {
    const hri_tokenizer_train_options *o;
    hri_text_split split;
    hri_word_counts counts;
    char *text; /* PIECE */
    hri_bpe_merges merges;
    char **names; /* of each token, in the letters of files */
    int32_t name_count;
    hri_tokenizer_trained r;
    hri_why *why;
    hri_prose prose;
} work;

static hr_status failed(work *w, hr_status status, const char *what) {
    return hri_why_prose(w->why, hri_cause_of_input(status), status, what, &w->prose);
}

/* ---- counting ---- */

static hr_status count_piece(void *user, const char *text, size_t bytes) {
    return hri_word_counts_add(user, text, bytes);
}

/* Lines with their ends. */
static hr_status count_lines(work *w, size_t bytes) {
    hr_status status = HR_OK;
    for (size_t at = 0; at < bytes && status == HR_OK;) {
        const char *end = memchr(w->text + at, '\n', bytes - at);
        const size_t n = end ? (size_t)(end - w->text) + 1 - at : bytes - at;
        status = hri_text_split_run(&w->split, w->text + at, n, count_piece, &w->counts, &w->prose);
        at += n;
    }
    w->r.bytes += bytes;
    return status == HR_OK ? hri_listener_tick(&w->o->listener, "counting", w->r.bytes, 0, w->why)
                           : status;
}

static hr_status count_file(work *w, int fd) {
    size_t used = 0;
    for (;;) {
        const ssize_t n =
            HRI_FAULT(READ) ? (errno = EIO, -1) : read(fd, w->text + used, PIECE - used);
        if (n < 0 && errno != EINTR) {
            return hri_prose_set(&w->prose, HR_E_IO, "%s", strerror(errno));
        }
        used += n > 0 ? (size_t)n : 0;
        if (n != 0 && used < PIECE) {
            continue;
        }
        size_t whole = used; /* a line of a megabyte is cut somewhere */
        if (n != 0) {
            const char *last = memrchr(w->text, '\n', used);
            whole = last ? (size_t)(last - w->text) + 1 : used;
        }
        const hr_status status = count_lines(w, whole);
        if (status != HR_OK || n == 0) {
            return status;
        }
        used -= whole;
        memmove(w->text, w->text + whole, used);
    }
}

static hr_status count_all(work *w) {
    hr_status status = HR_OK;
    for (size_t i = 0; i < w->o->count && status == HR_OK; i++) {
        int fd;
        status = hri_file_open_regular(w->o->paths[i], &fd, NULL, &w->prose);
        if (status != HR_OK) {
            return failed(w, status, NULL);
        }
        status = count_file(w, fd);
        close(fd);
        if (status != HR_OK) {
            return failed(w, status, w->o->paths[i]);
        }
    }
    w->r.words = w->counts.count;
    w->r.forgotten = w->counts.forgotten;
    return HR_OK;
}

/* ---- writing ---- */

static hr_status name_byte(work *w, const hri_bpe *b, int byte, int32_t token) {
    const unsigned letter = b->letter[byte];
    char name[3] = {(char)letter, 0, 0};
    if (letter >= 0x80) {
        name[0] = (char)(0xc0 | letter >> 6);
        name[1] = (char)(0x80 | (letter & 63));
    }
    w->names[token] = hri_strdup(name);
    return w->names[token] ? HR_OK : HR_E_NOMEM_HOST;
}

static hr_status name_tokens(work *w) {
    int32_t number[256];
    hri_bpe b;
    hr_status status = HR_OK;
    w->names = hri_calloc(w->merges.count + FIRST + 256, sizeof *w->names);
    if (!w->names) {
        return HR_E_NOMEM_HOST;
    }
    w->name_count = FIRST + 256;
    hri_bpe_train_alphabet(FIRST, number);
    hri_bpe_init(&b);
    for (int i = 0; i < 256 && status == HR_OK; i++) {
        status = name_byte(w, &b, i, number[i]);
    }
    hri_bpe_deinit(&b);
    w->names[0] = status == HR_OK ? hri_strdup(end_of_text) : NULL;
    status = w->names[0] ? HR_OK : HR_E_NOMEM_HOST;
    for (size_t i = 0; i < w->merges.count && status == HR_OK; i++) {
        const hri_bpe_pair *m = &w->merges.items[i];
        if (m->token < w->name_count) {
            continue; /* other parts made it before */
        }
        const size_t n = strlen(w->names[m->left]), k = strlen(w->names[m->right]);
        char *name = hri_malloc(n + k + 1);
        if (!name) {
            return HR_E_NOMEM_HOST;
        }
        memcpy(name, w->names[m->left], n);
        memcpy(name + n, w->names[m->right], k + 1);
        w->names[w->name_count++] = name;
    }
    return status;
}

static void write_part(hri_json *j, const char *key, bool prefix_space) {
    hri_json_object(j, key);
    hri_json_string(j, "type", "ByteLevel");
    hri_json_bool(j, "add_prefix_space", prefix_space);
    hri_json_bool(j, "trim_offsets", true);
    hri_json_bool(j, "use_regex", true);
    hri_json_end(j);
}

static void write_added(hri_json *j) {
    static const char *const off[] = {"single_word", "lstrip", "rstrip", "normalized"};
    hri_json_array(j, "added_tokens");
    hri_json_object(j, NULL);
    hri_json_u64(j, "id", 0);
    hri_json_string(j, "content", end_of_text);
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        hri_json_bool(j, off[i], false);
    }
    hri_json_bool(j, "special", true);
    hri_json_end(j);
    hri_json_end(j);
}

/* A pair that was merged twice counts at the later place. */
static hr_status write_merges(const work *w, hri_json *j) {
    hri_intmap last = {0};
    hr_status status = HR_OK;
    for (size_t i = 0; i < w->merges.count && status == HR_OK; i++) {
        const hri_bpe_pair *m = &w->merges.items[i];
        status = hri_intmap_put(&last, (uint64_t)m->left << 32 | (uint64_t)m->right, i);
    }
    hri_json_array(j, "merges");
    for (size_t i = 0; i < w->merges.count && status == HR_OK; i++) {
        const hri_bpe_pair *m = &w->merges.items[i];
        uint64_t at = 0;
        if (hri_intmap_get(&last, (uint64_t)m->left << 32 | (uint64_t)m->right, &at) && at == i) {
            hri_json_array(j, NULL);
            hri_json_string(j, NULL, w->names[m->left]);
            hri_json_string(j, NULL, w->names[m->right]);
            hri_json_end(j);
        }
    }
    hri_json_end(j);
    hri_intmap_deinit(&last);
    return status;
}

static hr_status write_json(const work *w, hri_json *j) {
    static const char *const none[] = {"dropout", "unk_token", "continuing_subword_prefix",
                                       "end_of_word_suffix"};
    hri_json_string(j, "version", "1.0");
    hri_json_null(j, "truncation");
    hri_json_null(j, "padding");
    write_added(j);
    hri_json_null(j, "normalizer");
    write_part(j, "pre_tokenizer", false);
    hri_json_null(j, "post_processor");
    write_part(j, "decoder", true); /* says nothing there; it is what others write */
    hri_json_object(j, "model");
    hri_json_string(j, "type", "BPE");
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        hri_json_null(j, none[i]);
    }
    hri_json_bool(j, "fuse_unk", false);
    hri_json_bool(j, "byte_fallback", false);
    hri_json_bool(j, "ignore_merges", false);
    hri_json_object(j, "vocab");
    for (int32_t i = 0; i < w->name_count; i++) {
        hri_json_i64(j, w->names[i], i);
    }
    hri_json_end(j);
    const hr_status status = write_merges(w, j);
    hri_json_end(j);
    return status == HR_OK ? hri_json_status(j) : status;
}

static hr_status write_file(work *w) {
    hri_json j;
    char *text = NULL;
    hr_status status = name_tokens(w);
    if (status != HR_OK) {
        return status;
    }
    hri_json_init(&j);
    status = write_json(w, &j);
    status = status == HR_OK ? hri_json_print(&j, 2, &text) : status;
    hri_json_deinit(&j);
    if (status == HR_OK) {
        status = hri_file_write(w->o->out, text, strlen(text), &w->prose);
    }
    hri_free(text);
    w->r.tokens = w->name_count;
    return status;
}

static hr_status on_merge(void *user, uint64_t done, uint64_t total) {
    const work *w = user;
    return hri_listener_tick(&w->o->listener, "merging", done, total, w->why);
}

static hr_status run(work *w) {
    const hri_tokenizer_train_options *o = w->o;
    if (o->tokens < HRI_TOKENIZER_LEAST || o->tokens > HRI_TOKENIZER_MOST) {
        return hri_why_option(w->why, HR_E_RANGE, "train",
                              ": %lld tokens; it must be %d to %d, of which 257 are the bytes and "
                              "<|endoftext|>",
                              (long long)o->tokens, HRI_TOKENIZER_LEAST, HRI_TOKENIZER_MOST);
    }
    w->counts.most_bytes = o->memory_bytes ? o->memory_bytes : (size_t)MEMORY;
    w->text = hri_malloc(PIECE);
    if (!w->text) {
        return HR_E_NOMEM_HOST;
    }
    hr_status status = hri_text_split_open(hri_text_split_gpt2, &w->split, &w->prose);
    if (status != HR_OK) {
        return failed(w, status, NULL);
    }
    status = count_all(w);
    if (status != HR_OK) {
        return status;
    }
    status = hri_bpe_train(&w->counts, FIRST, (int32_t)o->tokens, 0, &w->merges, on_merge, w);
    status = status == HR_OK ? write_file(w) : status;
    return status == HR_OK ? HR_OK : failed(w, status, NULL);
}

hr_status hri_tokenizer_train(const hri_tokenizer_train_options *o, hri_tokenizer_trained *out,
                              hri_why *why) {
    work w = {.o = o, .why = why};
    const uint64_t begin = hri_clock_ns();
    const hr_status status = run(&w);
    for (int32_t i = 0; i < w.name_count; i++) {
        hri_free(w.names[i]);
    }
    hri_free(w.names);
    hri_free(w.text);
    hri_text_split_close(&w.split);
    hri_word_counts_deinit(&w.counts);
    hri_bpe_merges_deinit(&w.merges);
    if (status == HR_OK) {
        w.r.seconds = (double)(hri_clock_ns() - begin) / 1e9;
        *out = w.r;
    }
    return status;
}
