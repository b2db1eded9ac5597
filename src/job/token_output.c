/* See token_output.h. */
#include "job/token_output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/fault.h"

enum { NOTE_EVERY = 8 << 20, NOTE_MAX = 512 }; /* bytes of text between two notes; of a note */

/* ---- notes ---- */

static void print_mark(const hri_token_mark *m, const unsigned char print[HRI_SHA256_BYTES],
                       char out[NOTE_MAX]) {
    char digest[HRI_SHA256_TEXT];
    hri_sha256_print(print, digest);
    const int n = snprintf(out, NOTE_MAX,
                           "headroom tokens 1 %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
                           " %" PRIu64 " ",
                           digest, m->file, m->offset, m->text_bytes, m->tokens, m->out_bytes);
    snprintf(out + n, NOTE_MAX - (size_t)n, "%08" PRIx32 "\n", hri_crc32c(0, out, (size_t)n));
}

hr_status hri_token_mark_parse(const char *text, size_t bytes,
                               const unsigned char print[HRI_SHA256_BYTES], hri_token_mark *out) {
    char own[NOTE_MAX], again[NOTE_MAX];
    hri_token_mark m;
    if (bytes >= sizeof own) {
        return HR_E_FORMAT;
    }
    memcpy(own, text, bytes);
    own[bytes] = '\0';
    /* Whatever sscanf makes of it: it is a note if it is what would be written. */
    if (sscanf(own,
               "headroom tokens 1 %*64s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
               &m.file, &m.offset, &m.text_bytes, &m.tokens, &m.out_bytes) != 5) {
        return HR_E_FORMAT;
    }
    print_mark(&m, print, again);
    if (strlen(again) != bytes || memcmp(again, own, bytes) != 0) {
        return HR_E_FORMAT;
    }
    *out = m;
    return HR_OK;
}

/* ---- opening ---- */

static hr_status refused(hri_prose *why, const char *path, const char *what) {
    return hri_prose_set(why, HR_E_IO, "%s: cannot %s: %s", path, what, strerror(errno));
}

static char *with(const char *path, const char *end) {
    const size_t n = strlen(path) + strlen(end) + 1;
    char *text = hri_malloc(n);
    if (text) {
        snprintf(text, n, "%s%s", path, end);
    }
    return text;
}

static hr_status open_part(hri_token_output *o, const char *path, hri_prose *why) {
    hri_writer *w = &o->to.to;
    *w = (hri_writer){.fd = -1, .path = hri_strdup(path), .temporary = with(path, ".part")};
    o->mark_path = with(path, ".part.at");
    if (!w->path || !w->temporary || !o->mark_path) {
        return hri_prose_set(why, HR_E_NOMEM_HOST, "%s: out of memory", path);
    }
    errno = EIO;
    w->fd = HRI_FAULT(OPEN) ? -1 : open(w->temporary, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        return refused(why, path, "create");
    }
    if (flock(w->fd, LOCK_EX | LOCK_NB) != 0) {
        close(w->fd);
        w->fd = -1;
        hri_free(w->temporary); /* it is the other's */
        w->temporary = NULL;
        return hri_prose_set(why, HR_E_BUSY, "%s: another process is writing it", path);
    }
    return HR_OK;
}

/* The place that was noted, where the tokens before it are all there; else the beginning. */
static void find_place(hri_token_output *o) {
    struct stat st;
    hri_token_mark m;
    char *text = NULL;
    size_t bytes;
    o->at = (hri_token_mark){0};
    if (hri_file_read(o->mark_path, NOTE_MAX, &text, &bytes, NULL) == HR_OK &&
        hri_token_mark_parse(text, bytes, o->print, &m) == HR_OK && fstat(o->to.to.fd, &st) == 0 &&
        (uint64_t)st.st_size >= m.out_bytes && m.out_bytes == m.tokens * o->to.width) {
        o->at = m;
    }
    o->saved = o->at;
    hri_free(text);
    if (!o->at.text_bytes) {
        (void)!unlink(o->mark_path);
    }
}

hr_status hri_token_output_open(hri_token_output *o, const char *path, hri_prose *why) {
    hr_status status = open_part(o, path, why);
    if (status != HR_OK) {
        return status;
    }
    find_place(o);
    o->to.to.bytes = o->at.out_bytes;
    const off_t end = (off_t)o->at.out_bytes;
    return ftruncate(o->to.to.fd, end) == 0 && lseek(o->to.to.fd, end, SEEK_SET) == end
               ? HR_OK
               : refused(why, path, "write");
}

/* ---- going on and ending ---- */

hr_status hri_token_output_note(hri_token_output *o, hri_prose *why) {
    char text[NOTE_MAX];
    o->at.out_bytes = o->to.to.bytes;
    if (o->at.text_bytes - o->saved.text_bytes < NOTE_EVERY) {
        return HR_OK;
    }
    if (fdatasync(o->to.to.fd) != 0) {
        return refused(why, o->to.to.path, "write");
    }
    print_mark(&o->at, o->print, text);
    const hr_status status = hri_file_write(o->mark_path, text, strlen(text), why);
    o->saved = status == HR_OK ? o->at : o->saved;
    return status;
}

hr_status hri_token_output_commit(hri_token_output *o, hri_prose *why) {
    const hr_status status = hri_writer_commit(&o->to.to, why);
    if (status == HR_OK) {
        (void)!unlink(o->mark_path);
    }
    return status;
}

void hri_token_output_close(hri_token_output *o) {
    if (o->to.to.fd >= 0 && o->saved.text_bytes) { /* what is there stays */
        hri_free(o->to.to.temporary);
        o->to.to.temporary = NULL;
    } else if (o->to.to.fd >= 0 && o->mark_path) {
        (void)!unlink(o->mark_path);
    }
    hri_token_writer_deinit(&o->to);
    hri_free(o->mark_path);
    *o = (hri_token_output){.to = {.to = {.fd = -1}}};
}
