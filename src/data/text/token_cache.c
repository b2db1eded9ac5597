/* See token_cache.h. */
#include "data/text/token_cache.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/sha256.h"
#include "data/pipeline.h"
#include "data/text/token_stream.h"

enum { PIECE = 256 << 10, NAME = 48 }; /* training may have little memory */

typedef struct making {
    hri_stage *stage;
    const hri_tokenizer *tokenizer;
    hri_token_stream *stream; /* NULL until a file is missing */
    hri_token_writer to;
    uint64_t done, total;
    hri_prose *why;
} making;

/* Of where it is, how long, when it was changed, and what its tokens would be. */
static void name_of(const hri_file *f, const hri_tokenizer *t, char out[NAME]) {
    char real[PATH_MAX], text[HRI_SHA256_TEXT];
    unsigned char digest[HRI_SHA256_BYTES];
    const uint64_t numbers[] = {f->bytes, (uint64_t)f->changed_s, (uint64_t)f->changed_ns};
    hri_sha256 s;
    hri_sha256_init(&s);
    hri_sha256_add_string(&s, realpath(f->path, real) ? real : f->path);
    hri_sha256_add(&s, numbers, sizeof numbers);
    hri_tokenizer_print(t, &s);
    hri_sha256_get(&s, digest);
    hri_sha256_print(digest, text);
    snprintf(out, NAME, "%.40s.bin", text);
}

static hr_status take(void *user, const hri_tokens *tokens, size_t bytes) {
    making *m = user;
    const hr_status status = hri_token_writer_write(&m->to, tokens, m->why);
    m->done += bytes;
    hri_pipeline_progress(m->stage->pipeline, m->stage, m->done, m->total);
    return status;
}

static hr_status make(making *m, const hri_file *f, const char *path, hri_prose *why) {
    int fd = -1;
    hr_status status = HR_OK;
    if (!m->stream) {
        status = hri_token_stream_open(m->tokenizer, hri_pipeline_workers(m->stage->pipeline),
                                       PIECE, &m->stream);
    }
    m->to.width = hri_token_width(hri_tokenizer_count(m->tokenizer));
    m->why = why;
    status = status == HR_OK ? hri_file_open_regular(f->path, &fd, NULL, why) : status;
    status = status == HR_OK ? hri_writer_open(&m->to.to, path, why) : status;
    status = status == HR_OK ? hri_token_stream_run(m->stream, fd, false, take, m, why) : status;
    status = status == HR_OK ? hri_writer_commit(&m->to.to, why) : status;
    if (fd >= 0) {
        close(fd);
    }
    hri_token_writer_deinit(&m->to);
    return status;
}

static hr_status make_missing(making *m, const hri_filelist *texts, const char *folder,
                              const char (*names)[NAME], hri_prose *why) {
    hr_status status = HR_OK;
    for (size_t i = 0; i < texts->count && status == HR_OK; i++) {
        const hri_file *f = &texts->files[i];
        char *path = NULL;
        status = hri_path_join(folder, names[i], &path);
        if (status == HR_OK && !hri_file_exists(path)) {
            hri_prose inner = {{0}};
            status = make(m, f, path, &inner);
            if (status == HR_E_FORMAT) { /* the text's own */
                (void)hri_prose_set(why, status, "%s: %s", f->path, inner.text);
            } else if (status != HR_OK) {
                (void)hri_prose_set(why, status, "%s: tokens cannot be made in %s: %s", f->path,
                                    folder, *inner.text ? inner.text : hr_status_text(status));
            }
        }
        hri_free(path);
    }
    return status;
}

static hr_status find_folder(const char *given, char **out, hri_prose *why) {
    char *cache = NULL;
    hr_status status;
    if (given) {
        *out = hri_strdup(given);
        status = *out ? HR_OK : HR_E_NOMEM_HOST;
    } else {
        status = hri_path_cache(&cache);
        status = status == HR_OK ? hri_path_join(cache, "tokens", out) : status;
        hri_free(cache);
        if (status == HR_E_NOT_FOUND) {
            return hri_prose_set(why, status,
                                 "cache: there is no folder for tokens; set HEADROOM_CACHE_DIR, or "
                                 "give one with cache=DIR");
        }
    }
    return status == HR_OK ? hri_path_make_folders(*out, why) : status;
}

hr_status hri_token_cache_open(hri_stage *s, const hri_filelist *texts, const hri_tokenizer *t,
                               const char *folder, hri_filelist *out, hri_prose *why) {
    making m = {.stage = s, .tokenizer = t, .to = {.to = {.fd = -1}}};
    char *where = NULL;
    char(*names)[NAME] = hri_calloc(texts->count, sizeof *names);
    const char **list = hri_calloc(texts->count, sizeof *list);
    hr_status status = names && list ? find_folder(folder, &where, why) : HR_E_NOMEM_HOST;
    for (size_t i = 0; i < texts->count && status == HR_OK; i++) {
        name_of(&texts->files[i], t, names[i]);
        list[i] = names[i];
        m.total += texts->files[i].bytes;
    }
    status =
        status == HR_OK ? make_missing(&m, texts, where, (const char(*)[NAME])names, why) : status;
    hri_token_stream_close(m.stream);
    status = status == HR_OK ? hri_filelist_open_in(out, where, list, texts->count, why) : status;
    hri_free(names);
    hri_free(list);
    hri_free(where);
    return status;
}
