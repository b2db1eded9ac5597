/* Reading files for sources: see read.h. */
#include "data/read.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include "base/fault.h"
#include "base/file.h"
#include "base/prose.h"

hr_status hri_read_at(int fd, const char *path, uint64_t offset, void *to, uint64_t bytes,
                      hri_prose *why) {
    char *at = to;
    while (bytes > 0) {
        const size_t piece = bytes < 1 << 30 ? (size_t)bytes : 1 << 30;
        errno = EIO;
        const ssize_t n = HRI_FAULT(READ) ? -1 : pread(fd, at, piece, (off_t)offset);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return hri_prose_set(why, HR_E_IO, "%s: %s", path, strerror(errno));
        }
        if (n == 0) {
            return hri_prose_set(why, HR_E_FORMAT, "%s: truncated at byte %llu", path,
                                 (unsigned long long)offset);
        }
        at += n;
        offset += (uint64_t)n;
        bytes -= (uint64_t)n;
    }
    return HR_OK;
}

/* The reason behind the path that begins a sentence. */
static const char *reason_in(const char *text) {
    const char *colon = strrchr(text, ':');
    return colon && colon[1] == ' ' ? colon + 2 : text;
}

hr_status hri_emit_file(hr_emit *emit, const char *name, const char *path) {
    hri_prose why = {{0}};
    int fd;
    uint64_t bytes;
    hr_status status = hri_file_open_regular(path, &fd, &bytes, &why);
    if (status != HR_OK) {
        return hri_emit_fail(emit, status, "%s", reason_in(why.text));
    }
    void *data;
    const hr_meta meta = {.type = HR_TYPE_U8, .shape = {.rank = 1, .dim = {(int64_t)bytes}}};
    status = hr_emit_field(emit, name, &meta, &data);
    if (status == HR_OK) {
        status = hri_read_at(fd, path, 0, data, bytes, &why);
        if (status == HR_E_FORMAT) {
            status = hri_emit_fail(emit, HR_E_IO, "it was truncated while being read");
        } else if (status != HR_OK) {
            hr_emit_explain(emit, reason_in(why.text));
        }
    }
    close(fd);
    return status;
}
