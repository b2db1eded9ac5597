/* What the outside sees: a pipeline of pictures in a small budget, watched by another process.  The ledger never
 * exceeds the budget, and the resident set stays within 32 MiB of it. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <headroom/data.h>
#include "pictures.h"
#include "test.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum { PICTURES = 300, BUDGET = 64 << 20, SLACK = 32 << 20 };

/* Of many sizes up to 4000 x 3000, some with several scans; the large ones share a few files' bytes. */
static void make_folder(void) {
    static const int sizes[][2] = {{500, 375}, {640, 480}, {375, 500}, {1024, 768}, {1600, 1200}};
    unsigned char *files[12];
    size_t bytes[12];
    for (int i = 0; i < 10; i++) {
        const test_jpeg_options o = {.progressive = i >= 5};
        files[i] = test_jpeg_of(sizes[i % 5][0], sizes[i % 5][1], (uint64_t)i, &o, &bytes[i]);
    }
    files[10] = test_jpeg_of(4000, 3000, 3, NULL, &bytes[10]);
    files[11] = test_jpeg_of(2400, 1800, 3, &(test_jpeg_options){.progressive = 1}, &bytes[11]);
    for (int i = 0; i < PICTURES; i++) {
        char name[64];
        const int k = i % 15 == 7 ? 10 : i % 30 == 11 ? 11 : i % 10;
        snprintf(name, sizeof name, "ram/c%d/%04d.jpg", i % 7, i);
        test_write(test_folder(), name, files[k], bytes[k]);
    }
    for (int i = 0; i < 12; i++) {
        free(files[i]);
    }
}

static uint64_t status_of(pid_t pid, const char *key) {
    char path[64], line[256];
    uint64_t bytes = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key)) == 0) {
            bytes = strtoull(line + strlen(key), NULL, 10) * 1024;
        }
    }
    if (f) {
        fclose(f);
    }
    return bytes;
}

typedef struct outcome {
    uint64_t peak, samples, hash, bad;
    int failed;
    char message[512];
} outcome;

/* In a process of its own, which waits to be looked at before it ends. */
static void child(const char *text, uint64_t budget, uint32_t workers, outcome *o, int ready,
                  int done) {
    hr_pipeline_options po = {.size = sizeof po, .budget_bytes = budget, .workers = workers};
    hr_pipeline *p;
    hr_error error;
    o->failed = hr_pipeline_open(&po, text, &error, &p) != HR_OK;
    if (o->failed) {
        snprintf(o->message, sizeof o->message, "%.500s", error.message);
    }
    hr_element *e;
    for (int epoch = 0; !o->failed && epoch < 2; epoch++) {
        hr_status status;
        while ((status = hr_pipeline_next(p, &e)) == HR_OK) {
            const hr_field *f = hr_element_find(e, "image");
            o->samples += (uint64_t)f->meta.shape.dim[0];
            for (uint64_t i = 0; i < f->bytes; i += 97) {
                o->hash = o->hash * 31 + ((const uint8_t *)f->data)[i];
            }
            hr_element_unref(e);
        }
        if (status != HR_E_EOF || hr_pipeline_rewind(p) != HR_OK) {
            o->failed = 1;
            hr_pipeline_error(p, &error);
            snprintf(o->message, sizeof o->message, "%.500s", error.message);
        }
    }
    if (!o->failed) {
        hr_pipeline_stats s = {.size = sizeof s};
        CHECK_OK(hr_pipeline_get_stats(p, &s));
        o->peak = s.peak_bytes;
    }
    char c = 'x';
    if (write(ready, &c, 1) == 1 && read(done, &c, 1) == 1) {
        _exit(0);
    }
    _exit(1);
}

static outcome watch(const char *text, uint64_t budget, uint32_t workers, uint64_t *resident) {
    outcome *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ready[2], done[2];
    CHECK(shared != MAP_FAILED && pipe(ready) == 0 && pipe(done) == 0);
    const pid_t pid = fork();
    if (pid == 0) {
        child(text, budget, workers, shared, ready[1], done[0]);
    }
    close(ready[1]);
    char c;
    CHECK_EQ(read(ready[0], &c, 1), 1);
    *resident = status_of(pid, "VmHWM:");
    CHECK_EQ(write(done[1], "x", 1), 1);
    int code;
    waitpid(pid, &code, 0);
    CHECK_EQ(code, 0);
    const outcome o = *shared;
    munmap(shared, sizeof *shared);
    close(ready[0]);
    close(done[0]);
    close(done[1]);
    return o;
}

TEST_TIMEOUT(ram, the_resident_set_stays_within_the_budget, 300) {
    make_folder();
    char text[512];
    snprintf(text, sizeof text,
             "images:%s/ram | shuffle(seed=5) | decode(224,random_crop=on,flip=on) | batch(64) | "
             "prefetch(2)",
             test_folder());
    uint64_t hash = 0;
    for (uint32_t workers = 1; workers <= 8; workers *= 2) {
        uint64_t resident;
        const outcome o = watch(text, BUDGET, workers, &resident);
        if (o.failed) {
            test_fail(__FILE__, __LINE__, "%s", o.message);
        }
        CHECK_EQ(o.samples, 2 * PICTURES);
        CHECK_LE(o.peak, BUDGET);
        if (!SANITIZED) {
            CHECK_LE(resident, BUDGET + SLACK);
        }
        hash = hash ? hash : o.hash;
        CHECK_EQ(o.hash, hash); /* and the same pictures for any number of workers */
    }
}

TEST_TIMEOUT(ram, the_tightest_budget_that_is_granted_is_enough, 300) {
    make_folder();
    char text[512];
    hr_error error;
    hr_pipeline *p = NULL;
    snprintf(text, sizeof text,
             "images:%s/ram | shuffle(seed=5) | decode(96,random_crop=on,flip=on) | batch(32) | "
             "prefetch(4)",
             test_folder());
    hr_pipeline_options po = {.size = sizeof po, .budget_bytes = 1 << 20};
    CHECK_STATUS(hr_pipeline_open(&po, text, &error, &p), HR_E_LIMIT);
    const uint64_t smallest = error.wanted_bytes;
    CHECK_LE(1 << 20, smallest);
    for (uint32_t workers = 1; workers <= 4; workers *= 4) {
        uint64_t resident;
        outcome o = watch(text, smallest - 1, workers, &resident);
        CHECK(o.failed);
        o = watch(text, smallest, workers, &resident);
        if (o.failed) {
            test_fail(__FILE__, __LINE__, "%s", o.message);
        }
        CHECK_EQ(o.samples, 2 * PICTURES);
        CHECK_LE(o.peak, smallest);
        if (!SANITIZED) {
            CHECK_LE(resident, smallest + SLACK);
        }
    }
}

TEST(ram, elements_that_are_not_given_back_end_in_a_limit_and_not_in_a_hang) {
    hr_pipeline_options po = {.size = sizeof po, .budget_bytes = 4 << 20, .workers = 2};
    hr_pipeline *p;
    CHECK_OK(hr_pipeline_open(
        &po, "synthetic:count=1000,shape=64x64x3 | flip | batch(16) | prefetch(2)", NULL, &p));
    hr_element *held[64];
    int count = 0;
    hr_status status = HR_OK;
    while (count < 64 && (status = hr_pipeline_next(p, &held[count])) == HR_OK) {
        count++;
    }
    CHECK_STATUS(status, HR_E_LIMIT);
    CHECK_LE(3, count);
    hr_error error;
    hr_pipeline_error(p, &error);
    CHECK(strstr(error.message, "held by the caller") != NULL);
    for (int i = 0; i < count; i++) {
        hr_element_unref(held[i]);
    }
    hr_element *e;
    CHECK_OK(hr_pipeline_next(p, &e)); /* and it goes on */
    hr_pipeline_destroy(p);
    CHECK_EQ(((const uint8_t *)hr_element_find(e, "image")->data)[0] & 0,
             0); /* outlives the pipeline */
    hr_element_unref(e);
}
