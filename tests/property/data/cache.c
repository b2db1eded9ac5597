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
    hr_pipeline_stats s = {.size = sizeof s};
    CHECK_OK(hr_pipeline_get_stats(p, &s));
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
    hr_pipeline_stats s = {.size = sizeof s};
    CHECK_OK(hr_pipeline_get_stats(p, &s));
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

/* ---- a cache changes nothing but the time ---- */

static hr_status with_chance(void *user, const hr_element *input, hr_emit *emit) {
    (void)user;
    void *data;
    const hr_meta m = {.type = HR_TYPE_I64};
    const int64_t v = *(const int64_t *)hr_element_find(input, "value")->data;
    const hr_status status = hr_emit_field(emit, "value", &m, &data);
    if (status == HR_OK) {
        *(int64_t *)data = v * 1000 + (int64_t)(hr_emit_random(emit) % 1000);
    }
    return status;
}

static hr_pipeline *build_around(const char *above, const char *cache, const char *behind,
                                 uint32_t workers) {
    hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 8 << 20, .workers = workers};
    const hr_meta m = {.type = HR_TYPE_I64};
    const char *const names[] = {"value"};
    const hr_map_options mo = {.size = sizeof mo, .outputs = &m, .names = names, .output_count = 1};
    hr_pipeline *p;
    CHECK_OK(hr_pipeline_create(&o, &p));
    const char *const parts[] = {above, cache, behind};
    for (int i = 0; i < 3; i++) {
        if (parts[i][0]) {
            CHECK_OK(hr_pipeline_add(p, parts[i]));
        }
    }
    CHECK_OK(hr_pipeline_map(p, with_chance, NULL, &mo));
    CHECK_OK(hr_pipeline_build(p));
    return p;
}

/* Appends the numbers of the next elements, `most` of them, or until the epoch ends. */
static size_t take(hr_pipeline *p, int64_t *to, size_t most) {
    size_t n = 0;
    hr_element *e;
    hr_status status = HR_OK;
    while (n < most && (status = hr_pipeline_next(p, &e)) == HR_OK) {
        to[n++] = *(const int64_t *)hr_element_find(e, "value")->data;
        hr_element_unref(e);
    }
    CHECK(status == HR_OK || status == HR_E_EOF);
    return n;
}

TEST(cache, changes_neither_order_nor_chance_nor_states) {
    static const char *const above[] = {"range:300", "range:300 | shuffle(seed=3)",
                                        "range:300 | skip(7) | shuffle(seed=5) | take(200)",
                                        "range:300 | filter(value,min=20,max=250)"};
    static const char *const behind[] = {
        "", "shuffle(32,seed=9)", "take(150)",
        "shuffle(seed=1,reshuffle=off) | skip(9) | shuffle(seed=2)"};
    char cache[3][256] = {"cache", "", ""};
    snprintf(cache[1], sizeof cache[1], "cache(%s/c)", test_folder());
    snprintf(cache[2], sizeof cache[2], "cache(%s/c,level=0)", test_folder());
    static int64_t want[3][300], is[300];
    uint64_t seed = test_seed();
    for (int a = 0; a < 4; a++) {
        for (int b = 0; b < 4; b++) {
            const int stream = a == 3;
            size_t count[3];
            hr_pipeline *p = build_around(above[a], "", behind[b], 2);
            for (int epoch = 0; epoch < 3; epoch++) {
                count[epoch] = take(p, want[epoch], 300);
                CHECK_OK(hr_pipeline_rewind(p));
            }
            for (int c = 0; c < 6; c++) { /* each cache cold, then warm */
                hr_pipeline *q = build_around(above[a], cache[c / 2], behind[b], c % 2 ? 4 : 1);
                if (!stream) {
                    CHECK(hr_pipeline_fingerprint(p) == hr_pipeline_fingerprint(q));
                }
                for (int epoch = 0; epoch < 3; epoch++) {
                    CHECK_EQ(take(q, is, 300), count[epoch]);
                    CHECK(memcmp(is, want[epoch], count[epoch] * sizeof is[0]) == 0);
                    CHECK_OK(hr_pipeline_rewind(q));
                }
                /* A place that was saved without a cache is one with it, and the other way round. */
                void *state;
                size_t bytes;
                const size_t cut = test_random(&seed) % count[1];
                hr_pipeline *from = stream || c % 2 ? q : p, *to = stream || c % 2 == 0 ? q : p;
                CHECK_OK(hr_pipeline_seek(from, 1));
                CHECK_EQ(take(from, is, cut), cut);
                CHECK_OK(hr_pipeline_save(from, &state, &bytes));
                CHECK_OK(hr_pipeline_seek(to, 2));
                CHECK_OK(hr_pipeline_restore(to, state, bytes));
                CHECK_EQ(take(to, is, 300), count[1] - cut);
                CHECK(memcmp(is, want[1] + cut, (count[1] - cut) * sizeof is[0]) == 0);
                hr_pipeline_state_free(state);
                hr_pipeline_destroy(q);
            }
            hr_pipeline_destroy(p);
        }
    }
}

/* Random windows of tokens are other windows each epoch, with a cache and without. */
TEST(cache, never_takes_one_ticket_for_another) {
    uint16_t tokens[400];
    for (int i = 0; i < 400; i++) {
        tokens[i] = (uint16_t)i;
    }
    test_write(test_folder(), "t.bin", tokens, sizeof tokens);
    char text[2][512];
    static int32_t want[4][40];
    for (int k = 0; k < 2; k++) {
        snprintf(text[k], sizeof text[k], "tokens:%s/t.bin,length=10,random=on,seed=4%s",
                 test_folder(), k ? " | cache" : "");
        hr_pipeline_options o = {.size = sizeof o, .budget_bytes = 4 << 20, .workers = 2};
        hr_pipeline *p;
        CHECK_OK(hr_pipeline_open(&o, text[k], NULL, &p));
        for (int epoch = 0; epoch < 4; epoch++) {
            hr_element *e;
            for (int i = 0; i < 39; i++) {
                CHECK_OK(hr_pipeline_next(p, &e));
                const int32_t first = *(const int32_t *)hr_element_find(e, "tokens")->data;
                if (k == 0) {
                    want[epoch][i] = first;
                }
                CHECK_EQ(first, want[epoch][i]);
                hr_element_unref(e);
            }
            CHECK_OK(hr_pipeline_rewind(p));
        }
        hr_pipeline_destroy(p);
    }
    CHECK(memcmp(want[0], want[1], sizeof want[0]) != 0);
}
