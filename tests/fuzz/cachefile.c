/* Cache files: the bytes behind a good head.  Opening never fails for damage: what is whole is kept, the rest is cut
 * off, and afterwards all that is left is read without an error, and more can be added. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "data/formats/cachefile.h"
#include "base/crc32c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[] = "/tmp/fuzz-cachefile-XXXXXX",
         head[24] = "HRcache1"; /* a file: a cache is not opened through a link */
    const int fd = mkstemp(path);
    must(fd >= 0);
    const uint64_t fingerprint = 7;
    memcpy(head + 8, &fingerprint, 8);
    const uint32_t crc = hri_crc32c(0, head, 20);
    memcpy(head + 20, &crc, 4);
    must(write(fd, head, sizeof head) == sizeof head);
    must(size == 0 || write(fd, data, size) == (ssize_t)size);
    hri_cachefile c;
    must(hri_cachefile_open(&c, path, fingerprint, NULL) == HR_OK);
    const bool complete = c.complete;
    uint64_t cursor = c.first, offset, bytes, seen = 0;
    while (hri_cachefile_next(&c, &cursor, &offset, &bytes, NULL) == HR_OK) {
        void *to = malloc(bytes ? bytes : 1);
        must(to != NULL);
        const hr_status status = hri_cachefile_read(&c, offset, to, bytes, NULL);
        must(complete || status == HR_OK);
        free(to);
        seen++;
    }
    must(seen == c.element_count);
    if (!complete) {
        must(hri_cachefile_add_element(&c, "abc", 3) == HR_OK && c.element_count == seen + 1);
        must(hri_cachefile_finish(&c) == HR_OK);
    }
    hri_cachefile_close(&c);
    close(fd);
    unlink(path);
    return 0;
}
