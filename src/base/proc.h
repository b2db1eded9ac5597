/* Files of /proc and /sys, line by line through a buffer of the caller: asking how much memory there is must not take any,
 * and must work when there is none.
 *
 *   hri_proc f;
 *   char line[128];
 *   if (hri_proc_open(&f, "", "/proc/meminfo")) {
 *       while (hri_proc_line(&f, line, sizeof line)) { ... }
 *       hri_proc_close(&f);
 *   }
 *
 * What cannot be read has no lines.  Every call has its fault point (OPEN, READ). */
#ifndef HRI_BASE_PROC_H
#define HRI_BASE_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct hri_proc {
    int fd;
    size_t at, used;
    char buf[2048];
} hri_proc;

/* `root` is put in front of the path: "" on a real machine, a folder in tests. */
bool hri_proc_open(hri_proc *f, const char *root, const char *path);
void hri_proc_close(hri_proc *f);
/* The next line without its newline, cut at size - 1 characters; false at the end. */
bool hri_proc_line(hri_proc *f, char *out, size_t size);
/* The whole number that a file begins with; false when it has none ("max"). */
bool hri_proc_number(const char *root, const char *path, uint64_t *out);

#endif
