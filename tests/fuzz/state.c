/* Saved states: any bytes are restored or refused; after a refusal the epoch begins anew and is whole.  To get behind
 * the checksum, it is put right first. */
#include <stdlib.h>
#include <string.h>
#include <headroom/data.h>
#include "base/hash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds) {
    if (!holds) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 4 << 20, .workers = 1};
    hr_pipeline *p;
    if (hr_pipeline_open(&o,
                         "interleave({range:20 | shuffle},{range:9},block=2) | batch(1) | "
                         "shuffle(4) | repeat(2) | "
                         "take(50) | prefetch",
                         NULL, &p) != HR_OK) {
        return 0;
    }
    void *good;
    size_t bytes;
    must(hr_pipeline_save(p, &good, &bytes) == HR_OK);
    const size_t n = size + 32;
    uint8_t *state = malloc(n);
    if (state) {
        memcpy(state, good, 24); /* magic, fingerprint, epoch */
        if (size) {
            memcpy(state + 24, data, size);
        }
        const uint64_t sum = hri_hash_bytes(state, n - 8, 1);
        for (int i = 0; i < 8; i++) {
            state[n - 8 + (size_t)i] = (uint8_t)(sum >> (8 * i));
        }
        const hr_status status = hr_pipeline_restore(p, state, n);
        hr_element *e;
        int count = 0;
        while (hr_pipeline_next(p, &e) == HR_OK && count < 100) {
            hr_element_unref(e);
            count++;
        }
        must(status == HR_OK || count == 50);
    }
    free(state);
    hr_pipeline_state_free(good);
    hr_pipeline_destroy(p);
    return 0;
}
