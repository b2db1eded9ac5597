/* What the fuzz targets of file sources share: the bytes become files (memfd, so nothing touches a disk), a pipeline
 * reads them, and whatever they are:
 *
 *   opening ends with a status and a sentence, and every element with an element or a status of the agreed kinds;
 *   the ledger never goes above the budget, whatever sizes the bytes claim;
 *   with bad elements skipped, what remains are exactly the elements that could be read without;
 *   a state taken in the middle and restored gives the same number of elements as going on. */
#ifndef HR_FUZZ_SOURCE_H
#define HR_FUZZ_SOURCE_H

#include <headroom/data.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_BUDGET = 1 << 20, FUZZ_ELEMENTS = 256 };

static inline void must(bool holds) {
    if (!holds) {
        abort();
    }
}

/* A file with these bytes and no name; `path` leads to it as long as it is open. */
static inline int fuzz_file(const uint8_t *data, size_t size, char path[32]) {
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    must(fd >= 0);
    must(size == 0 || write(fd, data, size) == (ssize_t)size);
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

static inline bool fuzz_known(hr_status status) {
    return status == HR_E_FORMAT || status == HR_E_RANGE || status == HR_E_UNSUPPORTED ||
           status == HR_E_SHAPE || status == HR_E_EXISTS || status == HR_E_INVALID ||
           status == HR_E_LIMIT || status == HR_E_IO || status == HR_E_NOT_FOUND;
}

/* Pulls to the end; good elements, and bad ones through *bad. */
static inline uint64_t fuzz_pull(hr_pipeline *p, uint64_t most, uint64_t *bad) {
    uint64_t good = 0;
    for (uint64_t i = 0; i < most; i++) {
        hr_element *e;
        const hr_status status = hr_pipeline_next(p, &e);
        if (status == HR_E_EOF) {
            break;
        }
        if (status != HR_OK) {
            hr_error error;
            must(fuzz_known(status));
            hr_pipeline_error(p, &error);
            must(error.message[0] != '\0');
            ++*bad;
            continue;
        }
        for (size_t k = 0; k < hr_element_field_count(e); k++) {
            const hr_field *f = hr_element_field(e, k);
            uint64_t bytes = 0;
            must(hr_meta_check(&f->meta, &bytes) == HR_OK && bytes == f->bytes);
        }
        hr_element_unref(e);
        good++;
    }
    hr_pipeline_stats stats = {.size = sizeof stats};
    hr_pipeline_get_stats(p, &stats);
    must(stats.peak_bytes <= FUZZ_BUDGET);
    *bad += stats.bad;
    return good;
}

static inline hr_pipeline *fuzz_open(const char *text, bool skip_bad) {
    const hr_pipeline_options o = {
        .size = sizeof o, .budget_bytes = FUZZ_BUDGET, .workers = 1, .skip_bad = skip_bad};
    hr_pipeline *p = NULL;
    hr_error error = {0};
    const hr_status status = hr_pipeline_open(&o, text, &error, &p);
    must(status == HR_OK || (fuzz_known(status) && error.message[0] != '\0'));
    return status == HR_OK ? p : NULL;
}

static inline void fuzz_source(const char *text) {
    hr_pipeline *p = fuzz_open(text, false);
    hr_pipeline *skipping = fuzz_open(text, true);
    must(!p || skipping);
    if (p) {
        uint64_t bad = 0, first = 0, again = 0;
        const uint64_t good = fuzz_pull(p, FUZZ_ELEMENTS, &bad);
        if (good + bad < FUZZ_ELEMENTS) {
            uint64_t skipped = 0;
            must(fuzz_pull(skipping, FUZZ_ELEMENTS, &skipped) == good && skipped == bad);
            void *state;
            size_t bytes;
            must(hr_pipeline_seek(p, 0) == HR_OK);
            uint64_t head = fuzz_pull(p, (good + bad) / 2, &first);
            must(hr_pipeline_save(p, &state, &bytes) == HR_OK);
            must(hr_pipeline_seek(p, 3) == HR_OK);
            must(hr_pipeline_restore(p, state, bytes) == HR_OK);
            hr_pipeline_state_free(state);
            head += fuzz_pull(p, FUZZ_ELEMENTS, &again);
            must(head == good && first + again == bad);
        }
    }
    hr_pipeline_destroy(p);
    hr_pipeline_destroy(skipping);
}

#endif
