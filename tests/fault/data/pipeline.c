/* Faults in a pipeline: the Nth allocation, mapping, opening, reading or writing fails, once and for ever.  Every call
 * ends with a status, nothing is leaked, and a new try succeeds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <headroom/data.h>
#include "base/fault.h"
#include "pictures.h"
#include "test.h"

static uint64_t hash_of(const hr_element *e, uint64_t hash) {
    for (size_t i = 0; i < hr_element_field_count(e); i++) {
        const hr_field *f = hr_element_field(e, i);
        for (uint64_t k = 0; k < f->bytes; k++) {
            hash = hash * 31 + ((const uint8_t *)f->data)[k];
        }
    }
    return hash;
}

typedef struct outcome {
    hr_status status;
    uint64_t hash, elements, failed;
} outcome;

/* Opens, goes through an epoch with a resume in the middle, closes.  Failures of elements are counted. */
static outcome go(const char *text, uint32_t workers) {
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 16 << 20, .workers = workers};
    outcome r = {0};
    hr_pipeline *p;
    r.status = hr_pipeline_open(&o, text, NULL, &p);
    if (r.status != HR_OK) {
        return r;
    }
    for (int i = 0; i < 500; i++) {
        hr_element *e;
        const hr_status status = hr_pipeline_next(p, &e);
        if (status == HR_E_EOF) {
            break;
        }
        if (status != HR_OK) {
            r.failed++;
            continue;
        }
        r.hash = hash_of(e, r.hash);
        r.elements++;
        hr_element_unref(e);
        if (i == 3) {
            void *state;
            size_t bytes;
            if (hr_pipeline_save(p, &state, &bytes) == HR_OK) {
                r.failed += hr_pipeline_restore(p, state, bytes) != HR_OK;
                hr_pipeline_state_free(state);
            } else {
                r.failed++;
            }
        }
    }
    hr_pipeline_destroy(p);
    return r;
}

/* Every fault point of the run in turn, up to `most`. */
static void sweep(const char *text, uint32_t workers, uint64_t most) {
    const outcome good = go(text, workers);
    if (good.status != HR_OK || good.failed || !good.elements) {
        test_fail(__FILE__, __LINE__, "%s does not run without faults", text);
    }
    const int64_t live = hri_fault_live_allocs();
    int delivered = 0;
    for (int for_ever = 0; for_ever < 2; for_ever++) {
        for (uint64_t n = 1; n <= most; n += 1 + n / 16) {
            hri_fault_set(HRI_FAULT_ANY, n, for_ever);
            const outcome bad = go(text, workers);
            const uint64_t hits = hri_fault_delivered();
            hri_fault_set(HRI_FAULT_ANY, 0, 0);
            delivered += hits > 0;
            CHECK_EQ(hri_fault_live_allocs(), live);
            if (bad.status == HR_OK && bad.failed == 0 && hits == 0) {
                CHECK_EQ(bad.hash, good.hash);
                break; /* behind the last fault point */
            }
        }
    }
    CHECK_LE(10, delivered);
    const outcome again = go(text, workers);
    CHECK_OK(again.status);
    CHECK_EQ(again.hash, good.hash);
}

TEST_TIMEOUT(data, simple_stages_survive_every_fault, 120) {
    sweep("range:40 | shuffle(seed=2) | skip(3) | shard(2) | repeat(2) | batch(3) | shuffle(4) | "
          "prefetch(2)",
          1, 4000);
    sweep("interleave({range:9 | take(5)},{range:7},block=2) | filter(value,max=6) | "
          "batch(2,pad=on) | prefetch",
          2, 2000);
}

TEST_TIMEOUT(data, pictures_survive_every_fault, 120) {
    char text[512], name[64];
    for (int i = 0; i < 6; i++) {
        size_t bytes;
        unsigned char *file = test_jpeg_of(60 + i, 50, (uint64_t)i,
                                           &(test_jpeg_options){.progressive = i & 1}, &bytes);
        snprintf(name, sizeof name, "f/c%d/%d.jpg", i % 2, i);
        test_write(test_folder(), name, file, bytes);
        free(file);
    }
    snprintf(text, sizeof text,
             "images:%s/f | shuffle(seed=2) | decode(16,random_crop=on) | jitter | normalise | "
             "batch(2) | prefetch(2)",
             test_folder());
    sweep(text, 1, 3000);
    sweep(text, 2, 1500);
}

TEST_TIMEOUT(data, masks_survive_every_fault, 120) {
    char text[512], name[64];
    uint8_t pixels[20 * 16 * 3], classes[20 * 16];
    for (int i = 0; i < 4; i++) {
        size_t bytes;
        test_picture(pixels, 20, 16, (uint64_t)i);
        memset(classes, i % 3, sizeof classes);
        unsigned char *file = test_png(pixels, 20, 16, 8, 2, 0, &bytes);
        snprintf(name, sizeof name, "m/images/%d.png", i);
        test_write(test_folder(), name, file, bytes);
        free(file);
        file = test_png(classes, 20, 16, 8, 0, i & 1, &bytes);
        snprintf(name, sizeof name, "m/masks/%d.png", i);
        test_write(test_folder(), name, file, bytes);
        free(file);
    }
    snprintf(text, sizeof text,
             "masks:%s/m | shuffle(seed=2) | decode(16,random_crop=on) | rotate | batch(2)",
             test_folder());
    sweep(text, 1, 1500);
    sweep(text, 2, 700);
}

TEST_TIMEOUT(data, caches_survive_every_fault, 120) {
    char text[512];
    snprintf(text, sizeof text, "synthetic:count=20,shape=8x8x3 | cache(%s/k) | batch(3)",
             test_folder());
    sweep(text, 1, 2000);
    sweep(text, 3, 1000);
    snprintf(text, sizeof text,
             "synthetic:count=20,shape=8x8x3 | filter(label,max=900) | cache(%s/k) | whole(4) | "
             "batch(3)",
             test_folder());
    sweep(text, 1, 1000);
    sweep("synthetic:count=20,shape=8x8x3 | shuffle | cache | shuffle(seed=3) | batch(3)", 2, 1000);
    sweep("synthetic:count=20,shape=8x8x3 | flip | cache | shuffle(5) | whole(3)", 1, 2000);
}
