/* Whole files and paths.
 *
 * A file is written beside its place and renamed into it, so that a reader sees the old file or the new
 * one, never half of one, whatever dies when.  Every outside call has a fault point (OPEN, READ, WRITE).
 * HR_E_NOT_FOUND for what is not there, HR_E_IO for other refusals; the sentence starts with the path.
 * `why` may be NULL.  Any thread; an hri_writer belongs to one. */
#ifndef HRI_BASE_FILE_H
#define HRI_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <headroom/status.h>
#include "base/prose.h"

/* Reads a whole file (pipes and /proc too) with a NUL added behind; hri_free() it.  HR_E_FORMAT for a FIFO
 * that nobody writes into: nothing waits for one.  HR_E_RANGE when it is longer than max_bytes.  out_bytes may be NULL. */
HR_MUST_CHECK hr_status hri_file_read(const char *path, size_t max_bytes, char **out,
                                      size_t *out_bytes, hri_prose *why);
/* Replaces the file by these bytes. */
HR_MUST_CHECK hr_status hri_file_write(const char *path, const void *data, size_t bytes,
                                       hri_prose *why);
bool hri_file_exists(const char *path);
/* Opens a regular file for reading; out_bytes (may be NULL) gets its length.  Whatever else stands at the path (a FIFO, a
 * device, a socket, a folder) is refused with HR_E_FORMAT at once: nothing waits for its other end. */
HR_MUST_CHECK hr_status hri_file_open_regular(const char *path, int *out_fd, uint64_t *out_bytes,
                                              hri_prose *why);

/* For who writes much: hands what was written from `from` to `to` on to the disk and waits for what came before it, so that
 * never more than two pieces of HRI_BEHIND_BYTES are in memory that the kernel cannot take back.  A container of a few MiB
 * more than its program holds would be killed for them otherwise.  Write no more than a piece between two calls. */
enum { HRI_BEHIND_BYTES = 1 << 20 };
void hri_file_behind(int fd, uint64_t from, uint64_t to);

/* The same in pieces, for files that do not lie in memory:
 *   open, write ..., then commit (temporary file synced, renamed, folder synced) or abandon.
 * After a failure only abandon is left.  commit closes in any case: on failure the old file stands.  A link stays: the file
 * behind it is replaced.  A device, or a pipe that somebody reads, is written as it is, without a temporary file. */
typedef struct hri_writer {
    int fd; /* -1: closed */
    char *path, *temporary;
    uint64_t bytes; /* written so far */
} hri_writer;

HR_MUST_CHECK hr_status hri_writer_open(hri_writer *w, const char *path, hri_prose *why);
HR_MUST_CHECK hr_status hri_writer_write(hri_writer *w, const void *data, size_t bytes,
                                         hri_prose *why);
HR_MUST_CHECK hr_status hri_writer_commit(hri_writer *w, hri_prose *why);
/* Allowed after commit and on a zeroed writer with fd -1: then it does nothing. */
void hri_writer_abandon(hri_writer *w);

/* "a/b" from "a" and "b"; b alone when it is absolute or a is empty.  hri_free() it. */
HR_MUST_CHECK hr_status hri_path_join(const char *a, const char *b, char **out);
/* The part behind the last '/'. */
const char *hri_path_name(const char *path);
/* Makes a folder and those above it that are missing (mode 0777 less the umask). */
HR_MUST_CHECK hr_status hri_path_make_folders(const char *path, hri_prose *why);
/* Where files may be kept between runs: $HEADROOM_CACHE_DIR, else $XDG_CACHE_HOME/headroom, else
 * $HOME/.cache/headroom.  Relative values of the XDG variable do not count.  HR_E_NOT_FOUND when none is
 * set.  Makes nothing.  hri_free() it. */
HR_MUST_CHECK hr_status hri_path_cache(char **out);

#endif
