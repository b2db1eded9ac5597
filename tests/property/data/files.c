/* File sources against a sequential model: files with random records are written, and every element that a pipeline
 * gives is compared with the list that they were written from.  In order, shuffled by an index, with 1, 2 and 8
 * workers, and across cuts in which the state is saved and restored in another pipeline.  files_formats.h has the files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <headroom/data.h>
#include "base/hash.h"
#include "base/random.h"
#include "files_formats.h"
#include "test.h"

static void spell(const files_format *f, const char *rest, char *at) {
    for (const char *p = f->text; *p; p++) {
        if (*p == '@') {
            at += sprintf(at, "%s", files_root());
        } else {
            *at++ = *p;
        }
    }
    sprintf(at, "%s", rest);
}

static hr_pipeline *build(const files_format *f, const char *rest, uint32_t workers,
                          uint64_t budget) {
    char text[1024];
    spell(f, rest, text);
    const hr_pipeline_options o = {
        .size = sizeof o, .budget_bytes = budget, .workers = workers, .seed = 4};
    hr_pipeline *p;
    hr_error error;
    const hr_status status = hr_pipeline_open(&o, text, &error, &p);
    if (status != HR_OK) {
        test_fail(__FILE__, __LINE__, "%s: %s", text, error.message);
    }
    return p;
}

/* The model: the ids in the order of an epoch. */
static void order(const files_format *f, int64_t seed, uint64_t epoch, uint64_t count,
                  uint64_t *out) {
    const uint64_t key = hri_hash_u64((uint64_t)seed);
    const hri_shuffle s = hri_shuffle_make(key ^ hri_hash_u64(epoch >> 32), (uint32_t)epoch, count);
    for (uint64_t i = 0; i < count; i++) {
        out[i] = seed >= 0 && f->random ? hri_shuffle_at(&s, i) : i;
    }
}

static void follow(const files_format *f, hr_pipeline *p, const uint64_t *want, uint64_t *at,
                   uint64_t end) {
    for (; *at < end; ++*at) {
        hr_element *e;
        CHECK_OK(hr_pipeline_next(p, &e));
        const uint64_t id = f->id(e, *at);
        if (id != want[*at]) {
            test_fail(__FILE__, __LINE__, "%s: element %llu is %llu, not %llu", f->text,
                      (unsigned long long)*at, (unsigned long long)id,
                      (unsigned long long)want[*at]);
        }
        hr_element_unref(e);
    }
}

TEST_TIMEOUT(files, follow_the_model_and_resume_anywhere, 120) {
    static const uint32_t workers[] = {1, 2, 8};
    uint64_t seed = test_seed() + 2;
    uint64_t want[FILES_ELEMENTS];
    for (int k = 0; k < FILES_FORMATS; k++) {
        const files_format *f = &files_formats[k];
        const uint64_t count = 20 + test_random(&seed) % (FILES_ELEMENTS - 20);
        f->write(count);
        for (int round = 0; round < 6; round++) {
            const bool shuffled = round % 2 && f->random;
            const uint64_t epoch = test_random(&seed) % 3;
            const char *rest = shuffled ? " | shuffle(seed=8) | prefetch(3)" : " | prefetch(2)";
            order(f, shuffled ? 8 : -1, epoch, count, want);
            hr_pipeline *p = build(f, rest, workers[test_random(&seed) % 3], 8 << 20);
            if (f->random) {
                CHECK_EQ(hr_pipeline_count(p), count);
            }
            CHECK_OK(hr_pipeline_seek(p, epoch));
            uint64_t at = 0;
            while (at < count) {
                const uint64_t step = test_random(&seed) % count;
                follow(f, p, want, &at, step < count - at ? at + step : count);
                void *state;
                size_t n;
                CHECK_OK(hr_pipeline_save(p, &state, &n));
                hr_pipeline_destroy(p);
                p = build(f, rest, workers[test_random(&seed) % 3], 8 << 20);
                CHECK_OK(hr_pipeline_restore(p, state, n));
                hr_pipeline_state_free(state);
            }
            hr_element *e;
            CHECK_STATUS(hr_pipeline_next(p, &e), HR_E_EOF);
            hr_pipeline_stats stats = {.size = sizeof stats};
            CHECK_OK(hr_pipeline_get_stats(p, &stats));
            CHECK_LE(stats.peak_bytes, stats.budget_bytes);
            hr_pipeline_destroy(p);
        }
    }
    files_clean();
}

TEST(files, a_change_while_reading_is_told_and_another_pipeline_for_states) {
    for (int k = 0; k < FILES_FORMATS; k++) {
        const files_format *f = &files_formats[k];
        f->write(50);
        hr_pipeline *p = build(f, "", 1, 8 << 20);
        hr_element *e;
        CHECK_OK(hr_pipeline_next(p, &e));
        hr_element_unref(e);
        void *state;
        size_t n;
        CHECK_OK(hr_pipeline_save(p, &state, &n));
        f->write(51);
        hr_status status;
        int bad = 0;
        while ((status = hr_pipeline_next(p, &e)) != HR_E_EOF && bad < 60) {
            if (status == HR_OK) {
                hr_element_unref(e); /* can be, of what was read ahead */
                continue;
            }
            hr_error error;
            hr_pipeline_error(p, &error);
            CHECK_STATUS(status, HR_E_IO);
            CHECK(strstr(error.message, "changed after it was opened") != NULL);
            CHECK(strstr(error.message, files_root()) != NULL);
            bad++;
        }
        CHECK_LE(1, bad);
        hr_pipeline_destroy(p);
        p = build(f, "", 1, 8 << 20);
        CHECK_STATUS(hr_pipeline_restore(p, state, n), HR_E_INVALID);
        hr_pipeline_state_free(state);
        hr_pipeline_destroy(p);
    }
    files_clean();
}

TEST(files, more_of_them_than_a_process_may_open_are_read) {
    enum { MANY = 300 };
    for (int i = 0; i < MANY; i++) {
        files_bytes b = {0};
        char name[32];
        files_put_line(&b, (uint64_t)i, true);
        snprintf(name, sizeof name, "lines%03d", i);
        files_write(name, &b);
    }
    const struct rlimit few = {280, 280};
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int k = 0; k < 2; k++) {
        uint64_t want[MANY], at = 0;
        order(&files_formats[k], -1, 0, MANY, want);
        hr_pipeline *p = build(&files_formats[k], "", 2, 8 << 20);
        follow(&files_formats[k], p, want, &at, MANY);
        hr_pipeline_destroy(p);
    }
    files_clean();
}

/* Opens with every budget from almost nothing on: it is refused, or it is enough to the end. */
TEST_TIMEOUT(files, any_budget_is_refused_or_enough, 120) {
    static const char *const more[] = {"", " | batch(4,pad=on)", " | shuffle(20) | prefetch(2)"};
    char text[1024];
    for (int k = 0; k < FILES_FORMATS; k++) {
        const files_format *f = &files_formats[k];
        f->write(30);
        for (size_t m = 0; m < sizeof more / sizeof more[0]; m++) {
            hr_status last = HR_E_LIMIT;
            uint64_t budget = 1000;
            for (; budget < 4 << 20; budget += budget / 3) {
                spell(f, more[m], text);
                const hr_pipeline_options o = {
                    .size = sizeof o, .budget_bytes = budget, .workers = 2};
                hr_pipeline *p = NULL;
                hr_error error;
                const hr_status status = hr_pipeline_open(&o, text, &error, &p);
                if (status != HR_OK) {
                    CHECK_STATUS(status, HR_E_LIMIT);
                    CHECK_STATUS(last, HR_E_LIMIT); /* more is never less */
                    continue;
                }
                last = HR_OK;
                uint64_t elements = 0;
                hr_element *e;
                while (hr_pipeline_next(p, &e) == HR_OK) {
                    const hr_field *field = hr_element_field(e, 0);
                    elements += m == 1 ? (uint64_t)field->meta.shape.dim[0] : 1;
                    hr_element_unref(e);
                }
                CHECK_EQ(elements, 30);
                hr_pipeline_stats stats = {.size = sizeof stats};
                CHECK_OK(hr_pipeline_get_stats(p, &stats));
                CHECK_LE(stats.peak_bytes, budget);
                hr_pipeline_destroy(p);
            }
            CHECK_OK(last);
        }
    }
    files_clean();
}

TEST_TIMEOUT(files, a_record_larger_than_the_budget_is_refused_at_once, 60) {
    files_bytes b = {0}, record = {0};
    for (int i = 0; i < 200 << 10; i++) {
        files_put_byte(&record, 'x');
    }
    files_put_framed(&b, record.data, record.count);
    files_write("big", &b);
    free(record.data);
    files_put(&b, "one\n", 4);
    files_write("lines", &b);
    char text[512];
    snprintf(text, sizeof text, "zip({lines:%s/lines,max_bytes=64},{tfrecord:%s/big,example=off})",
             files_root(), files_root());
    bool opened = false;
    for (uint64_t budget = 32 << 10; budget < 4 << 20; budget += budget / 16) {
        const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = budget};
        hr_pipeline *p = NULL;
        hr_element *e;
        hr_error error;
        const hr_status status = hr_pipeline_open(&o, text, &error, &p);
        if (status == HR_OK) {
            CHECK_OK(hr_pipeline_next(p, &e));
            hr_element_unref(e);
            hr_pipeline_destroy(p);
            opened = true;
        } else {
            CHECK_STATUS(status, HR_E_LIMIT);
            CHECK(!opened);
        }
    }
    CHECK(opened);
    files_clean();
}

TEST(files, an_index_that_does_not_fit_is_refused_with_its_bytes) {
    files_bytes b = {0};
    for (int i = 0; i < 20000; i++) {
        files_put(&b, "x\n", 2);
    }
    files_write("lines", &b);
    char text[128];
    snprintf(text, sizeof text, "lines:%s/lines,index=on,max_bytes=100", files_root());
    const hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 300 << 10};
    hr_pipeline *p = NULL;
    hr_error error;
    CHECK_STATUS(hr_pipeline_open(&o, text, &error, &p), HR_E_LIMIT);
    CHECK(strstr(error.message, "index: the positions of") != NULL);
    CHECK(strstr(error.message, "300 KiB") != NULL);
    files_clean();
}

TEST(tokens, random_windows_are_drawn_by_epoch_and_place) {
    files_write_tokens(40);
    int32_t first[2][40];
    uint64_t differ = 0;
    for (int k = 0; k < 3; k++) { /* twice the same epoch, then the next */
        char text[256];
        snprintf(text, sizeof text, "tokens:%s/tokens*,type=u32,length=7,random=on", files_root());
        const hr_pipeline_options o = {
            .size = sizeof o, .budget_bytes = 1 << 20, .workers = 1 + (uint32_t)k, .seed = 3};
        hr_pipeline *p;
        CHECK_OK(hr_pipeline_open(&o, text, NULL, &p));
        CHECK_OK(hr_pipeline_seek(p, k == 2));
        CHECK_EQ(hr_pipeline_count(p), 40);
        for (int i = 0; i < 40; i++) {
            hr_element *e;
            CHECK_OK(hr_pipeline_next(p, &e));
            const int32_t *x = hr_element_find(e, "tokens")->data;
            for (int t = 1; t < FILES_WINDOW; t++) {
                CHECK_EQ(x[t], x[0] + t);
            }
            if (k == 1) {
                CHECK_EQ(x[0], first[0][i]);
            } else {
                first[k / 2][i] = x[0];
            }
            hr_element_unref(e);
        }
        hr_pipeline_destroy(p);
    }
    for (int i = 0; i < 40; i++) {
        differ += first[0][i] != first[1][i];
    }
    CHECK_LE(30, differ);
    files_clean();
}
