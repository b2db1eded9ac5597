/* The files of a source that may have several: an option with names and patterns ("train-*.tfrecord").
 *
 * The first 256 are kept open; of a longer list (a data set may well have 1024 parts, and a process as many files open)
 * the others are opened for each read.  A file is taken to stay as it is while a pipeline reads it: every read compares
 * size and time of the last change with those at opening, and a file that changed gives HR_E_IO from then on. */
#ifndef HRI_DATA_FILELIST_H
#define HRI_DATA_FILELIST_H

#include "base/options.h"
#include "data/stage.h"

typedef struct hri_file {
    char *path;
    int fd; /* -1: opened for each read */
    uint64_t bytes;
    int64_t changed_s, changed_ns; /* the last change, as seen at opening */
} hri_file;

typedef struct hri_filelist {
    hri_file *files;
    size_t count;
} hri_filelist;

/* Patterns are expanded in the order of names; HR_E_NOT_FOUND for one that fits nothing. */
HR_MUST_CHECK hr_status hri_filelist_open(hri_filelist *list, const hri_list *names,
                                          hri_prose *why);
/* The same where a name may be a folder: all files in it and below it, in the order of names, but those that begin with a dot.
 * HR_E_NOT_FOUND for one without any. */
HR_MUST_CHECK hr_status hri_filelist_open_folders(hri_filelist *list, const hri_list *names,
                                                  hri_prose *why);
/* Files of these names, which are no patterns, in a folder. */
HR_MUST_CHECK hr_status hri_filelist_open_in(hri_filelist *list, const char *folder,
                                             const char *const *names, size_t count,
                                             hri_prose *why);
void hri_filelist_close(hri_filelist *list);
/* Exactly `bytes` bytes at `offset`.  HR_E_IO when it cannot be read or the file has changed, HR_E_FORMAT when it is
 * too short; the path and the place go to why.  Any thread. */
HR_MUST_CHECK hr_status hri_filelist_read(const hri_file *f, uint64_t offset, void *to,
                                          uint64_t bytes, hri_prose *why);
/* Names, sizes and times: a changed file is another pipeline. */
void hri_filelist_fingerprint(const hri_filelist *list, hri_state *w);

/* For a stage's `newest`. */
int64_t hri_filelist_newest(const hri_filelist *list, char *path, size_t size);

/* A file's number and a length below 2^40 in one number. */
enum { HRI_LENGTH_BITS = 40 };
static inline uint64_t hri_packed_of(size_t file, uint64_t length) {
    return (uint64_t)file << HRI_LENGTH_BITS | length;
}
static inline size_t hri_packed_file(uint64_t packed) {
    return (size_t)(packed >> HRI_LENGTH_BITS);
}
static inline uint64_t hri_packed_length(uint64_t packed) {
    return packed & (((uint64_t)1 << HRI_LENGTH_BITS) - 1);
}

#endif
