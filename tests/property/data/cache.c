/* Caches give what their input gave in its first epoch, whatever fits, and after any interruption. */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <glob.h>
#include <headroom/data.h>
#include "pictures.h"
#include "test.h"

static _Atomic int made; /* how many elements the map made */

enum { COUNT = 1000, BYTES = 4000 };

static hr_status fill(void *user, const hr_element *input, hr_emit *emit) {
    (void)user;
    void *data;
    const hr_meta m = {.type = HR_TYPE_I64, .shape = {.rank = 1, .dim = {BYTES / 8}}};
    const int64_t v = *(const int64_t *)hr_element_find(input, "value")->data;
    const hr_status status = hr_emit_field(emit, "data", &m, &data);
    if (status == HR_OK) {
        for (int64_t i = 0; i < BYTES / 8; i++) {
            ((int64_t *)data)[i] = v * 1000 + i;
        }
        made++;
    }
    return status;
}

static hr_pipeline *build(const char *cache, uint32_t workers, uint64_t budget, const char *tail) {
    hr_pipeline_options o = {.size = sizeof o, .budget_bytes = budget, .workers = workers};
    const hr_meta m = {.type = HR_TYPE_I64, .shape = {.rank = 1, .dim = {BYTES / 8}}};
    const char *const names[] = {"data"};
    const hr_map_options mo = {.size = sizeof mo, .outputs = &m, .names = names, .output_count = 1};
    hr_pipeline *p;
    CHECK_OK(hr_pipeline_create(&o, &p));
    char text[256];
    snprintf(text, sizeof text, "range:%d | shuffle(seed=4)", COUNT);
    CHECK_OK(hr_pipeline_add(p, text));
    CHECK_OK(hr_pipeline_map(p, fill, NULL, &mo));
    CHECK_OK(hr_pipeline_add(p, cache));
    if (tail) {
        CHECK_OK(hr_pipeline_add(p, tail));
    }
    const hr_status status = hr_pipeline_build(p);
    if (status != HR_OK) {
        hr_error error;
        hr_pipeline_error(p, &error);
        test_fail(__FILE__, __LINE__, "%s", error.message);
    }
    return p;
}

/* The number an element was made from; every byte of it is checked. */
static int64_t value_of(const hr_element *e) {
    const int64_t *x = hr_element_find(e, "data")->data;
    for (int64_t i = 1; i < BYTES / 8; i++) {
        if (x[i] != x[0] + i) {
            test_fail(__FILE__, __LINE__, "an element is damaged");
        }
    }
    return x[0] / 1000;
}

static void epoch(hr_pipeline *p, int64_t *order, bool first) {
    hr_element *e;
    for (int i = 0; i < COUNT; i++) {
        CHECK_OK(hr_pipeline_next(p, &e));
        const int64_t v = value_of(e);
        if (first) {
            order[i] = v;
        }
        CHECK_EQ(v, order[i]);
        hr_element_unref(e);
    }
    CHECK_STATUS(hr_pipeline_next(p, &e), HR_E_EOF);
    CHECK_OK(hr_pipeline_rewind(p));
}

TEST(cache, in_memory_makes_each_element_once) {
    int64_t order[COUNT];
    made = 0;
    hr_pipeline *p = build("cache", 2, 32 << 20, NULL);
    for (int i = 0; i < 3; i++) {
        epoch(p, order, i == 0);
    }
    CHECK_LE(made, COUNT + 20); /* some were pulled ahead when the epoch was wound back */
    hr_pipeline_stats s;
    hr_pipeline_get_stats(p, &s);
    CHECK_LE(COUNT * BYTES, s.held_bytes);
    hr_pipeline_destroy(p);
}

TEST(cache, in_a_small_budget_keeps_a_part_and_stays_right) {
    int64_t order[COUNT];
    made = 0;
    hr_pipeline *p = build("cache", 2, 2 << 20, NULL);
    for (int i = 0; i < 3; i++) {
        epoch(p, order, i == 0);
    }
    CHECK_LE(COUNT + 1000, made);    /* not all were kept ... */
    CHECK_LE(made, 3 * COUNT - 200); /* ... but some were */
    hr_pipeline_stats s;
    hr_pipeline_get_stats(p, &s);
    CHECK_LE(s.peak_bytes, 2 << 20);
    hr_pipeline_destroy(p);
}

static const char *in_folder(void) {
    static char text[256];
    snprintf(text, sizeof text, "cache(%s/cache)", test_folder());
    return text;
}

TEST(cache, in_a_file_serves_the_next_run) {
    int64_t order[COUNT];
    made = 0;
    hr_pipeline *p = build(in_folder(), 2, 8 << 20, NULL);
    epoch(p, order, true);
    hr_pipeline_destroy(p);
    const int before = made;
    p = build(in_folder(), 3, 8 << 20, NULL);
    epoch(p, order, false);
    epoch(p, order, false);
    CHECK_EQ(made, before);
    hr_pipeline_destroy(p);
    p = build(in_folder(), 1, 8 << 20, "shuffle(64) | batch(10) | prefetch(2)");
    hr_element *e;
    int seen = 0;
    while (hr_pipeline_next(p, &e) == HR_OK) {
        seen += (int)hr_element_find(e, "data")->meta.shape.dim[0];
        hr_element_unref(e);
    }
    CHECK_EQ(seen, COUNT);
    CHECK_EQ(made, before);
    hr_pipeline_destroy(p);
}

TEST(cache, a_resume_in_the_middle_goes_on_exactly) {
    int64_t order[COUNT];
    for (int file = 0; file < 2; file++) {
        const char *cache = file ? in_folder() : "cache";
        hr_pipeline *p = build(cache, 2, 16 << 20, NULL);
        epoch(p, order, true);
        for (int round = 0; round < 4; round++) {
            const int cut = 100 + 217 * round;
            CHECK_OK(hr_pipeline_seek(p, 1));
            hr_element *e;
            for (int i = 0; i < cut; i++) {
                CHECK_OK(hr_pipeline_next(p, &e));
                CHECK_EQ(value_of(e), order[i]);
                hr_element_unref(e);
            }
            void *state;
            size_t bytes;
            CHECK_OK(hr_pipeline_save(p, &state, &bytes));
            hr_pipeline_destroy(p);
            p = build(cache, 1 + (uint32_t)round, 16 << 20, NULL);
            CHECK_OK(hr_pipeline_restore(p, state, bytes));
            hr_pipeline_state_free(state);
            for (int i = cut; i < COUNT; i++) {
                CHECK_OK(hr_pipeline_next(p, &e));
                CHECK_EQ(value_of(e), order[i]);
                hr_element_unref(e);
            }
            CHECK_STATUS(hr_pipeline_next(p, &e), HR_E_EOF);
        }
        hr_pipeline_destroy(p);
    }
}

TEST_TIMEOUT(cache, killed_while_it_fills_the_next_run_is_right, 120) {
    int64_t order[COUNT];
    hr_pipeline *p = build("cache", 2, 32 << 20, NULL);
    epoch(p, order, true);
    hr_pipeline_destroy(p);
    uint64_t seed = test_seed();
    const char *cache = in_folder();
    int partial = 0;
    for (int round = 0; round < 12; round++) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        const pid_t child = fork();
        if (child == 0) {
            hr_pipeline *q = build(cache, 2, 8 << 20, NULL);
            hr_element *e;
            while (hr_pipeline_next(q, &e) == HR_OK) {
                hr_element_unref(e);
                if (write(ends[1], "x", 1) != 1) {
                    break;
                }
            }
            _exit(0);
        }
        close(ends[1]);
        char c;
        const uint64_t until = 1 + test_random(&seed) % (COUNT - 200);
        for (uint64_t i = 0; i < until && read(ends[0], &c, 1) == 1; i++) {
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        close(ends[0]);
        /* Tear the end further, as a power cut would. */
        glob_t found;
        char pattern[256];
        snprintf(pattern, sizeof pattern, "%s/cache/*.cache", test_folder());
        CHECK(glob(pattern, 0, NULL, &found) == 0);
        CHECK_EQ(found.gl_pathc, 1);
        struct stat st;
        CHECK(stat(found.gl_pathv[0], &st) == 0);
        partial += st.st_size > 24;
        const off_t cut = (off_t)(test_random(&seed) % 3000);
        if (round % 2 && st.st_size > cut) {
            CHECK(truncate(found.gl_pathv[0], st.st_size - cut) == 0);
        }
        if (round % 3 == 0 && st.st_size > 200) {
            const int fd = open(found.gl_pathv[0], O_WRONLY);
            CHECK(pwrite(fd, "damage", 6, st.st_size - 150) == 6);
            close(fd);
        }
        globfree(&found);
    }
    CHECK_LE(6, partial);
    made = 0;
    p = build(cache, 2, 8 << 20, NULL);
    epoch(p, order, false);
    CHECK_LE(made, COUNT - 200); /* what the killed ones had written was used */
    made = 0;
    epoch(p, order, false);
    CHECK_EQ(made, 0);
    hr_pipeline_destroy(p);
}

TEST(cache, of_other_options_is_another_file) {
    int64_t order[COUNT];
    hr_pipeline *p = build(in_folder(), 2, 8 << 20, NULL);
    epoch(p, order, true);
    hr_pipeline_destroy(p);
    hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 8 << 20};
    char text[512];
    snprintf(text, sizeof text, "range:%d | %s", 5, in_folder());
    CHECK_OK(hr_pipeline_open(&o, text, NULL, &p));
    hr_element *e;
    CHECK_OK(hr_pipeline_next(p, &e));
    CHECK_EQ(*(const int64_t *)hr_element_find(e, "value")->data, 0);
    hr_element_unref(e);
    hr_pipeline_destroy(p);
}
